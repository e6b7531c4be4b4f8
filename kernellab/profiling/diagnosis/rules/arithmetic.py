"""Arithmetic that takes many instructions: fp64, divisions, 64-bit integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.ir import Operation, SSAValue

from kernellab.compiler.modules.structure import kind, parents, position_of
from kernellab.ir.types import bit_width, element_type, shape
from kernellab.profiling.diagnosis import weights
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule

_SOURCE = "the TTGIR's operations, their layouts, and throughput tables"


def _worst(
    evidence: Evidence, concerns: Callable[[Operation], float]
) -> tuple[Operation | None, float, int]:
    """Of the operations that something concerns: the one with the most slots to save, the slots of
    all, and how many there are. `concerns` gives the part of its slots that an operation could
    save.
    """
    worst, most, total, count = None, 0.0, 0.0, 0
    for op in evidence.operations:
        part = concerns(op) if op.results else 0.0
        if part <= 0:
            continue
        slots = part * evidence.slots_of(op) * evidence.times(op)
        total, count = total + slots, count + 1
        if slots > most:
            worst, most = op, slots
    return worst, total, count


def _saved(evidence: Evidence, slots: float) -> float:
    return evidence.costs.saved_by(issue=evidence.work.issue - slots)


@rule("fp64-arithmetic")
def double_arithmetic(evidence: Evidence) -> Iterator[CostFinding]:
    """Tiles that are computed in fp64."""
    factor = weights.double_factor(evidence.gpu)

    def part(op: Operation) -> float:
        if not weights.is_double(op) or not shape(op.results[0].type):
            return 0.0
        return 1 - 1 / (factor * weights.DOUBLE_STEPS.get(kind(op), 1.0))

    worst, slots, count = _worst(evidence, part)
    if worst is None:
        return
    made = evidence.of_kind("arith.extf", "arith.sitofp")
    began = next((op for op in made if str(element_type(op.results[0].type)) == "f64"), worst)
    yield finding(
        "fp64-arithmetic",
        f"{count} operations on tiles are in fp64, at 1/{factor:g} of the rate of fp32 or less",
        _saved(evidence, slots),
        position_of(began) or position_of(worst),
        "Compute in fp32: a tile becomes fp64 by a .to(tl.float64), an argument or a tl.full of "
        "that type, or a tensor that is stored so.",
        {"operations": count, "slower than fp32": factor, "issue slots": round(slots)},
        _SOURCE,
    )


@rule("integer-division")
def integer_division(evidence: Evidence) -> Iterator[CostFinding]:
    """Divisions of tiles of integers by a number that is not a power of two, or not known."""
    least = 2.0

    def part(op: Operation) -> float:
        if kind(op) not in weights.DIVISIONS or not shape(op.results[0].type):
            return 0.0
        weight = weights.division_weight(op, evidence.scalars)
        return 1 - 1 / weight if weight > least else 0.0

    worst, slots, count = _worst(evidence, part)
    if worst is None:
        return
    by = evidence.scalars.number(worst.operands[1])
    yield finding(
        "integer-division",
        f"{count} divisions or remainders of whole tiles of integers, each of "
        f"{weights.division_weight(worst, evidence.scalars):g} instructions an element",
        _saved(evidence, slots),
        position_of(worst),
        "Divide scalars instead of tiles: one axis of the grid or of the tile for each index. Or "
        "let the divisor be a power of two that is tl.constexpr.",
        {
            "operations": count,
            "divisor": "not known when it was compiled" if by is None else by,
            "issue slots": round(slots),
        },
        _SOURCE,
    )


@rule("float-division")
def float_division(evidence: Evidence) -> Iterator[CostFinding]:
    """Divisions of a tile by one number, or in a loop by what does not change in it."""

    def part(op: Operation) -> float:
        if kind(op) not in ("arith.divf", "tt.precise_divf") or not shape(op.results[0].type):
            return 0.0
        loop = evidence.loop_of(op)
        return 1 - 1 / 8 if loop is not None and _is_outside(op.operands[1], loop.op) else 0.0

    worst, slots, count = _worst(evidence, part)
    if worst is None:
        return
    yield finding(
        "float-division",
        f"{count} division{'' if count == 1 else 's'} of tiles in a loop by what stays the same "
        "there",
        _saved(evidence, slots),
        position_of(worst),
        "Take the reciprocal once, in front of the loop, and multiply.",
        {"operations": count, "issue slots": round(slots)},
        _SOURCE,
    )


def _is_outside(value: SSAValue, loop: Operation) -> bool:
    """Whether a value is made in front of a loop, or of one number that is."""
    made = value.owner
    while isinstance(made, Operation) and loop in parents(made):
        if kind(made) not in ("tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout"):
            return False
        made = made.operands[0].owner
    return made is not loop.regions[0].blocks[0]


@rule("wide-integers")
def wide_integers(evidence: Evidence) -> Iterator[CostFinding]:
    """Arithmetic on tiles of 64-bit integers."""

    def part(op: Operation) -> float:
        if not kind(op).startswith("arith.") or not shape(op.results[0].type):
            return 0.0
        type = element_type(op.operands[0].type) if op.operands else None
        wide = type is not None and str(type) == "i64"
        return 1 - 1 / weights.LONG_STEPS.get(kind(op), 1.0) if wide else 0.0

    worst, slots, count = _worst(evidence, part)
    if worst is None or bit_width(element_type(worst.operands[0].type)) < 64:
        return
    yield finding(
        "wide-integers",
        f"{count} operations on tiles of 64-bit integers, of two to four instructions each",
        _saved(evidence, slots),
        position_of(worst),
        "Where 32 bits suffice, compute in them: add the large part of an index to the pointer as "
        "a scalar, and keep the tile's own offsets in int32.",
        {"operations": count, "issue slots": round(slots)},
        _SOURCE,
    )
