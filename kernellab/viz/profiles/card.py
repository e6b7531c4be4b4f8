"""The card of a profile: its scopes, its kernels' lines, what measuring changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from kernellab.common.text import counted, percent, visible
from kernellab.errors import source_line
from kernellab.profiling.profiles import trees
from kernellab.profiling.profiles.profile import Profile, ProfileDifference
from kernellab.profiling.profiles.records import ProfiledKernel, ProfiledLine
from kernellab.viz.kit.card import Card, Table, card_of

_MOST_SCOPES, _MOST_LINES, _MOST_METRICS = 40, 24, 6
"""Rows and columns of a card; `table()` and `lines` have all."""

_LEAST_SHARE = 0.001
"""The share of a kernel's time that a line must take to have a row in a card."""


@card_of.register
def profile_card(profile: Profile) -> Card:
    """Scopes as a tree, lines by their share."""
    tables = [_scopes(profile), *_lines(profile)]
    if profile.kernels:
        rows = [_kernel_row(kernel) for kernel in profile.kernels[:_MOST_LINES]]
        tables.append(Table("Kernels", ("kernel", "launches", "options"), rows, numbers=(1,)))
    notes = [visible(note) for note in profile.notes]
    if profile.perturbation is not None:
        notes.append(f"What measuring changed: {profile.perturbation}.")
    title = visible(profile.name) or "Profile"
    return Card(title, visible(profile.origin), tables, notes)


def _scopes(profile: Profile) -> Table:
    metrics = trees.read(None, profile.root)[:_MOST_METRICS]
    rows = trees.rows(profile, metrics, trees.Filter())
    whole = rows[0].values[0] if metrics else math.nan
    cells = [
        [
            f"{row.lines}{visible(row.scope.name)}",
            *(_number(value) for value in row.values),
            _share(row.values[0], whole) if metrics else "",
        ]
        for row in rows[:_MOST_SCOPES]
    ]
    columns = ["scope", *(visible(metric.text) for metric in metrics), "share" if metrics else ""]
    title = "" if len(rows) <= _MOST_SCOPES else f"The first {_MOST_SCOPES} of {len(rows):,} scopes"
    return Table(title, columns, cells, numbers=range(1, len(columns)), is_listing=True)


def _lines(profile: Profile) -> list[Table]:
    if not profile.line_records:
        return []
    lines = sorted(profile.line_records, key=lambda line: -line.share)
    shown = [line for line in lines if line.share >= _LEAST_SHARE][:_MOST_LINES] or lines[
        :_MOST_LINES
    ]
    names = [
        name for name in dict.fromkeys(name for line in lines for name in line.metrics)
        if not name.startswith("stalled_")
    ][:3]  # fmt: skip
    counts = [
        name
        for name in ("cycles", "executions")
        if any(getattr(line, name) is not None for line in lines)
    ]
    files = {kernel.name: kernel.file for kernel in profile.kernels}
    rows = [
        [_place(line, files.get(line.kernel, "")), *_line_row(line, counts, names)]
        for line in shown
    ]
    columns = ["line", "operation", "share", *counts, *map(visible, names)]
    numbers = range(2, len(columns))
    in_tree = "\n".join(line.name for line in profile.root.walk() if line.kind == "line")
    sources = [source_line(line.file, line.line).strip() for line in shown]
    if not all(source in in_tree for source in sources):
        columns.append("")
        rows = [[*row, source] for row, source in zip(rows, sources, strict=True)]
    title = (
        "Lines"
        if len(shown) == len(lines)
        else f"The {len(shown)} lines with the largest share, of {len(lines):,}"
    )
    return [Table(title, columns, rows, numbers=numbers)]


def _place(line: ProfiledLine, file: str) -> str:
    """The kernel's name and the line; of a helper in another file, that file's."""
    if file and line.file and line.file != file:
        return f"{visible(Path(line.file).name)}:{line.line}"
    return f"{visible(line.kernel)}:{line.line}" if line.kernel else str(line.line)


def _line_row(line: ProfiledLine, counts: Sequence[str], names: Sequence[str]) -> list[str]:
    numbers = [getattr(line, name) for name in counts]
    return [
        visible(line.operation),
        percent(line.share),
        *("" if number is None else f"{number:,.0f}" for number in numbers),
        *(_number(line.metrics.get(name, math.nan)) for name in names),
    ]


def _kernel_row(kernel: ProfiledKernel) -> list[str]:
    options = ", ".join(f"{name}={value}" for name, value in kernel.options.items())
    return [visible(kernel.name), f"{kernel.launches:,}", visible(options)]


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    if value == int(value) or abs(value) >= 1e6:
        return f"{value:,.0f}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def _share(value: float, whole: float) -> str:
    return percent(value / whole) if whole and not math.isnan(value / whole) else ""


@card_of.register
def difference_card(difference: ProfileDifference) -> Card:
    """One row per scope, the largest differences first."""
    names, scopes = difference.rows()
    scopes.sort(key=lambda scope: -max(map(abs, scope.difference), default=0))
    rows = [
        [
            " / ".join(map(visible, scope.path[1:] or scope.path)),
            *(
                cell
                for triple in zip(scope.first, scope.second, scope.difference)
                for cell in (_number(triple[0]), _number(triple[1]), _signed(triple[2]))
            ),
        ]
        for scope in scopes[:_MOST_SCOPES]
    ]
    columns = ["scope"]
    columns += [f"{name}, {side}" for name in names for side in ("first", "second", "difference")]
    title = (
        f"{_named(difference.first.name, 'first')} less {_named(difference.second.name, 'second')}"
    )
    notes = [difference.caution] if difference.caution else []
    table = Table("", columns, rows, numbers=range(1, len(columns)))
    return Card(title, counted(len(scopes), "scope"), [table], notes)


def _named(name: str, otherwise: str) -> str:
    return visible(name) or f"the {otherwise}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{_number(value)}"
