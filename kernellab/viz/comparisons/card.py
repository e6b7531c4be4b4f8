"""The card of two compilations side by side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernellab.compiler.compare import Comparison, Sides, size_of
from kernellab.records import Compilation, PassRun
from kernellab.viz.kit.card import Card, Table, card_of

_MOST_ROWS = 12
"""Opcodes and passes shown; the comparison itself has them all."""


@card_of.register
def comparison_card(comparison: Comparison) -> Card:
    """What differs: options and types, stages, resources, passes, opcodes, remarks."""
    left, right = comparison.names
    columns = ("", left, right)
    return Card(
        title=" and ".join(dict.fromkeys([comparison.left.kernel, comparison.right.kernel])),
        subtitle=f"{comparison.left.target} and {comparison.right.target}, side by side",
        tables=(
            Table(
                "Options and types",
                columns,
                _rows([*comparison.specialization, *comparison.options]),
            ),
            Table("Stages", (*columns, ""), _stage_rows(comparison)),
            Table("One program takes", columns, _rows(_used(comparison.resources))),
            Table("Passes that do other things", columns, _pass_rows(comparison)),
            Table("Instructions that differ", columns, _rows(comparison.opcodes[:_MOST_ROWS])),
            Table("Remarks of one side", ("", "", ""), _remark_rows(comparison)),
        ),
        notes=(*comparison.notes, *_equality(comparison), _parting(comparison)),
    )


def _equality(comparison: Comparison) -> tuple[str, ...]:
    if not comparison.is_equal:
        return ()
    source = {pair.name: pair for pair in comparison.stages}.get("source")
    rest = "" if source is None or source.equal else "; their sources are not"
    return (f"The two are equal: types, options and every stage{rest}.",)


def _parting(comparison: Comparison) -> str:
    first = comparison.first_difference
    if first is not None:
        alone = "" if first.ran_on_both else ", which one side alone has"
        return f"The two part at {first.label}{alone}: .diff({first.label!r}) shows where."
    if comparison.left.passes and comparison.right.passes:
        return "The two never part: every pass leaves the same module."
    return 'Passes are compared where both records have them: record="passes".'


def _rows(facts: Iterable[Sides]) -> list[tuple[str, str, str]]:
    rows = ((fact.name, _shown(fact.left), _shown(fact.right)) for fact in facts)
    return [(name, left, right) for name, left, right in rows if left != right]


def _used(resources: Iterable[Sides]) -> list[Sides]:
    return [resource for resource in resources if resource.left or resource.right]


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, str) and Path(value).is_absolute():
        return Path(value).name
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _stage_rows(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    def size(compilation: Compilation, name: str) -> str:
        stage = compilation.stages.get(name)
        return "" if stage is None else str(size_of(stage))

    return [
        (
            stage.name,
            size(comparison.left, stage.name),
            size(comparison.right, stage.name),
            "the same" if stage.equal else "",
        )
        for stage in comparison.stages
    ]


def _pass_rows(comparison: Comparison) -> list[tuple[str, str, str]]:
    """The passes that ran on one side alone, or that added and removed other
    operations on either.
    """
    pairs = [
        pair
        for pair in comparison.passes
        if (pair.left and pair.left.op_changes) != (pair.right and pair.right.op_changes)
    ]
    rows = [(pair.label, _ops(pair.left), _ops(pair.right)) for pair in pairs[:_MOST_ROWS]]
    if len(pairs) > _MOST_ROWS:
        rows.append((f"and {len(pairs) - _MOST_ROWS} more", "", ""))
    return rows


def _ops(run: PassRun | None) -> str:
    if run is None:
        return "did not run"
    if not run.op_counts_after:
        return "ran"
    before, after = sum(run.op_counts_before.values()), sum(run.op_counts_after.values())
    return f"{before:,} to {after:,} ops"


def _remark_rows(comparison: Comparison) -> list[tuple[str, str, str]]:
    rows = []
    for name, remarks in zip(comparison.names, comparison.remarks):
        rows += [(name, remark.headline, str(remark.position or "")) for remark in remarks]
    return rows
