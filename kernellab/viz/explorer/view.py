"""The IR explorer as a view: what it draws, and the still that stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import Any

from kernellab.compiler.comparison import Comparison
from kernellab.errors import CompileError
from kernellab.records import Compilation, PassRun
from kernellab.viz.explorer import data as ir_view
from kernellab.viz.explorer.annotation_records import Annotations
from kernellab.viz.explorer.annotations import (
    annotated,
    annotation_card,
    annotations_by_side,
    annotations_from,
)
from kernellab.viz.explorer.card import Card, Table, kernel_card
from kernellab.viz.explorer.comparison_card import comparison_card
from kernellab.viz.kit.views import View


def compilation_view(compilation: Compilation, *given: Any) -> View:
    """The explorer of one compilation, with what is known besides:
    findings, accesses, profiles (`kernellab.viz.explorer.annotations`).

    Raises:
        ArgumentError: something is no evidence, or is of another kernel, definition or compilation.
        ProfileError: a profile is of other machine code.
    """
    annotations = annotations_from(compilation, given)
    return View(
        f"{compilation.kernel} for {compilation.target}",
        lambda: annotated(ir_view.explore_compilation(compilation), [annotations]),
        lambda: [
            *_redefined_card(compilation),
            kernel_card(compilation),
            *_source_cards(compilation),
            *_annotation_cards(compilation, annotations),
            *_pass_cards(compilation.passes),
        ],
    )


def comparison_view(comparison: Comparison, *given: Any) -> View:
    """The explorer of two compilations; evidence stands on each side that it is of.

    Raises:
        ArgumentError, ProfileError: as `compilation_view`, where evidence is of neither.
    """
    left, right = comparison.left, comparison.right
    kernels = " and ".join(dict.fromkeys([left.kernel, right.kernel]))
    sides = annotations_by_side(comparison, given)
    return View(
        f"{kernels}: {comparison.names[0]} and {comparison.names[1]}",
        lambda: annotated(ir_view.explore_comparison(comparison), sides),
        lambda: [
            comparison_card(comparison),
            *_annotation_cards(left, sides[0], comparison.names[0]),
            *_annotation_cards(right, sides[1], comparison.names[1]),
        ],
    )


def _redefined_card(compilation: Compilation) -> list[Card]:
    return [Card("Redefined", "", (), [ir_view.REDEFINED])] if compilation.is_redefined else []


_MOST_LINES = 150
_MOST_LETTERS = 240
"""What a still shows of a kernel, and of what the compiler says of one of its lines."""


def _source_cards(compilation: Compilation) -> list[Card]:
    """The kernel under its file's line numbers, and beside each line what the
    compiler says of it.
    """
    source, notes = ir_view.source_and_notes(compilation)
    if not source.content:
        return []
    annotations = list(source.numbered())
    rows = []
    for number, line in annotations[:_MOST_LINES]:
        words = "; ".join(note.words.splitlines()[0] for note in notes if note.line == number)
        rows.append((f"{number:>4}  {line}", shorten(words, _MOST_LETTERS, placeholder=" …")))
    more = len(annotations) - _MOST_LINES
    left_out = (f"{more} more lines are left out.",) if more > 0 else ()
    columns = ("line", "what the compiler says")
    return [Card("Source", "", (Table("", columns, rows, is_listing=True),), left_out)]


def _annotation_cards(
    compilation: Compilation, annotations: Annotations, side: str = ""
) -> list[Card]:
    return (
        [annotation_card(compilation, annotations, side)]
        if annotations.notes or annotations.metrics
        else []
    )


def failure_view(error: CompileError) -> View:
    """The explorer of a compilation that failed: up to the pass that did."""
    where = f"in {error.failed_pass}" if error.failed_pass else "before the first pass"
    excerpt = error.position.excerpt() if error.position else ""
    place = f"at {error.position}" if error.position else ""
    notes = [line for line in (error.problem, place, *excerpt.splitlines(), error.advice) if line]
    return View(
        ir_view.failure_title(error),
        lambda: ir_view.explore_failure(error),
        lambda: [
            Card(ir_view.failure_title(error), f"failed {where}", (), notes),
            *_pass_cards(error.passes),
        ],
    )


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
    before, after = run.op_counts_before, run.op_counts_after
    if not before or not after:
        return ""
    changes = {name: after.get(name, 0) - before.get(name, 0) for name in {*before, *after}}
    largest = sorted(
        (name for name in changes if changes[name]), key=lambda name: (-abs(changes[name]), name)
    )
    words = [f"{name} {changes[name]:+,}" for name in largest[:_MOST_CHANGES]]
    more = len(largest) - _MOST_CHANGES
    return ", ".join([*words, *([f"and {more} more"] if more > 0 else [])])
