"""The still of the explorer: the kernel, what is said of its lines, the passes."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

from kernellab.errors import CompileError
from kernellab.records import Compilation, PassRun
from kernellab.viz.explorer.annotations import Annotations, annotation_card
from kernellab.viz.explorer.sides import REDEFINED, failure_title, source_and_notes
from kernellab.viz.kernels.card import kernel_card
from kernellab.viz.kit.card import Card, Table


def compilation_cards(compilation: Compilation, annotations: Annotations) -> list[Card]:
    """The still of a compilation's explorer."""
    redefined = [Card("Redefined", "", (), [REDEFINED])] if compilation.is_redefined else []
    return [
        *redefined,
        kernel_card(compilation),
        *_source_cards(compilation),
        *annotation_cards(compilation, annotations),
        *_pass_cards(compilation.passes),
    ]


def failure_cards(error: CompileError) -> list[Card]:
    """The still of a compilation that failed."""
    where = f"in {error.failed_pass}" if error.failed_pass else "before the first pass"
    excerpt = error.position.excerpt() if error.position else ""
    place = f"at {error.position}" if error.position else ""
    notes = [line for line in (error.problem, place, *excerpt.splitlines(), error.advice) if line]
    card = Card(failure_title(error), f"failed {where}", (), notes)
    return [card, *_pass_cards(error.passes)]


_MOST_LINES = 150
_MOST_LETTERS = 240
"""What a still shows of a kernel, and of what the compiler says of one of its lines."""


def _source_cards(compilation: Compilation) -> list[Card]:
    """The kernel under its file's line numbers, and beside each line what the
    compiler says of it.
    """
    source, notes = source_and_notes(compilation)
    if not source.content:
        return []
    shown = list(source.numbered())
    rows = []
    for number, line in shown[:_MOST_LINES]:
        words = "; ".join(note.words.partition("\n")[0] for note in notes if note.line == number)
        rows.append((f"{number:>4}  {line}", shorten(words, _MOST_LETTERS, placeholder=" …")))
    more = len(shown) - _MOST_LINES
    left_out = (f"{more} more lines are left out.",) if more > 0 else ()
    columns = ("line", "what the compiler says")
    return [Card("Source", "", (Table("", columns, rows, is_listing=True),), left_out)]


def annotation_cards(
    compilation: Compilation, annotations: Annotations, side: str = ""
) -> list[Card]:
    """What annotations say of a compilation, where they say anything; `side` names it among two."""
    if not annotations.notes and not annotations.metrics:
        return []
    return [annotation_card(compilation, annotations, side)]


def _pass_cards(passes: Sequence[PassRun]) -> list[Card]:
    """The passes that changed the module; how many did not."""
    changed = [run for run in passes if run.changed]
    if not changed:
        return []
    rows = [
        (run.label, f"{run.seconds * 1e3:.1f} ms", _operations(run), _changes(run))
        for run in changed
    ]
    columns = ("pass", "time", "operations", "what came and went")
    table = Table("", columns, rows, numbers=(1, 2))
    quiet = len(passes) - len(changed)
    return [Card("Passes", f"{len(changed)} changed the module, {quiet} did not", (table,))]


def _operations(run: PassRun) -> str:
    return f"{sum(run.op_counts_after.values()):,}" if run.op_counts_after else ""


_MOST_CHANGES = 6


def _changes(run: PassRun) -> str:
    if not run.op_counts_before or not run.op_counts_after:
        return ""
    largest = sorted(run.op_changes.items(), key=lambda change: -abs(change[1]))
    words = [f"{name} {change:+,}" for name, change in largest[:_MOST_CHANGES]]
    more = len(largest) - _MOST_CHANGES
    return ", ".join([*words, *([f"and {more} more"] if more > 0 else [])])
