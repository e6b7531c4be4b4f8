"""Arithmetic: operations that take many instructions, matmuls without the newest tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.common.text import counted, joined_sizes
from kernellab.compiler.analyses.work import size_in_bytes
from kernellab.compiler.modules import integer, kind, position_of
from kernellab.ir import mlir, tt, ttg
from kernellab.ir.operations import KeepsElements, has, parents
from kernellab.ir.tt import INPUT_PRECISIONS
from kernellab.ir.types import bit_width, element_type, shape
from kernellab.profiling.diagnosis import cost_model
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rules import finding, rule
from kernellab.profiling.diagnosis.traffic import Traffic, backward, maker

_SOURCE = "the TTGIR's operations, their layouts, and throughput tables"


def _saved(evidence: Evidence, slots: float) -> float:
    return evidence.costs.saved_by(issue=evidence.work.issue - slots)


def _operations(
    evidence: Evidence,
    of_kind: str,
    part: Callable[[Operation], float],
    words: Callable[[int, Operation], str],
    advice: str,
    facts: Callable[[Operation], Mapping[str, Any]] = lambda _: {},
    place: Operation | None = None,
) -> Iterator[CostFinding]:
    """Yield a finding about the operations on tiles that could save a `part` of their slots, at
    `place`, or at the one that could save most, of which `words` and `facts` say something.
    """
    slots = {
        op: share * evidence.slots_of(op) * evidence.times(op)
        for op in evidence.operations
        if op.results and shape(op.results[0].type) and (share := part(op)) > 0
    }
    if not any(slots.values()):
        return
    worst, total = max(slots, key=lambda op: slots[op]), sum(slots.values())
    yield finding(
        of_kind,
        words(len(slots), worst),
        _saved(evidence, total),
        (position_of(place) if place is not None else None) or position_of(worst),
        advice,
        {"operations": len(slots), **facts(worst), "issue slots": round(total)},
        _SOURCE,
    )


@rule("fp64-arithmetic")
def double_arithmetic(evidence: Evidence) -> Iterator[CostFinding]:
    """Tiles that are computed in fp64."""
    factor = cost_model.double_factor(evidence.gpu)
    made = evidence.of_class(mlir.ExtFOp, mlir.SIToFPOp)
    yield from _operations(
        evidence,
        "fp64-arithmetic",
        lambda op: (
            cost_model.is_double(op)
            and 1 - 1 / (factor * cost_model.DOUBLE_STEPS.get(kind(op), 1.0))
        ),
        lambda count, _: (
            f"{count} operations on tiles are in fp64, at 1/{factor:g} of the rate of fp32 or less"
        ),
        "Compute in fp32: a tile becomes fp64 by a .to(tl.float64), an argument or a tl.full of "
        "that type, or a tensor that is stored so.",
        lambda _: {"slower than fp32": factor},
        next((op for op in made if str(element_type(op.results[0].type)) == "f64"), None),
    )


@rule("integer-division")
def integer_division(evidence: Evidence) -> Iterator[CostFinding]:
    """Divisions of tiles of integers by a number that is not a power of two, or not known."""

    def weight(op: Operation) -> float:
        return cost_model.division_weight(op, evidence.scalars)

    def facts(worst: Operation) -> dict[str, Any]:
        by = evidence.scalars.number(worst.operands[1])
        return {"divisor": "not known when it was compiled" if by is None else by}

    yield from _operations(
        evidence,
        "integer-division",
        lambda op: isinstance(op, cost_model.DIVISIONS) and weight(op) > 2 and 1 - 1 / weight(op),
        lambda count, worst: (
            f"{count} divisions or remainders of whole tiles of integers, each of "
            f"{weight(worst):g} instructions an element"
        ),
        "Divide scalars instead of tiles: one axis of the grid or of the tile for each index. Or "
        "let the divisor be a power of two that is tl.constexpr.",
        facts,
    )


@rule("float-division")
def float_division(evidence: Evidence) -> Iterator[CostFinding]:
    """Divisions of a tile by one number, or in a loop by what does not change in it."""

    def part(op: Operation) -> float:
        loop = evidence.loop_of(op) if isinstance(op, mlir.DivFOp | tt.PreciseDivFOp) else None
        return 1 - 1 / 8 if loop is not None and _is_outside(op.operands[1], loop.op) else 0.0

    yield from _operations(
        evidence,
        "float-division",
        part,
        lambda count, _: (
            f"{counted(count, 'division')} of tiles in a loop by what stays the same there"
        ),
        "Take the reciprocal once, in front of the loop, and multiply.",
    )


def _is_outside(value: SSAValue, loop: Operation) -> bool:
    """Whether a value is made in front of a loop, or of one number that is."""
    made = value.owner
    while isinstance(made, Operation) and loop in parents(made):
        if not has(made, KeepsElements):
            return False
        made = made.operands[0].owner
    return made is not loop.regions[0].blocks[0]


@rule("wide-integers")
def wide_integers(evidence: Evidence) -> Iterator[CostFinding]:
    """Arithmetic on tiles of 64-bit integers."""

    def part(op: Operation) -> float:
        wide = op.operands and str(element_type(op.operands[0].type)) == "i64"
        is_arithmetic = kind(op).startswith("arith.")
        return 1 - 1 / cost_model.LONG_STEPS.get(kind(op), 1.0) if wide and is_arithmetic else 0.0

    yield from _operations(
        evidence,
        "wide-integers",
        part,
        lambda count, _: (
            f"{count} operations on tiles of 64-bit integers, of two to four instructions each"
        ),
        "Where 32 bits suffice, compute in them: add the large part of an index to the pointer as "
        "a scalar, and keep the tile's own offsets in int32.",
    )


@rule("both-sides")
def both_sides(evidence: Evidence) -> Iterator[CostFinding]:
    """Both sides of a `tl.where` computed although its condition is uniform."""
    for op in evidence.of_class(mlir.SelectOp):
        assert isinstance(op, mlir.SelectOp)
        is_one = not shape(op.condition.type) or isinstance(op.condition.owner, tt.SplatOp)
        if not is_one or not shape(op.result.type):
            continue
        sides = [_makers(op.true_value), _makers(op.false_value)]
        slots = [
            sum(evidence.slots_of(each) * evidence.times(each) for each in mine - other)
            for mine, other in (sides, sides[::-1])
        ]
        chosen = evidence.scalars.number(op.condition)
        unused = sum(slots) / 2 if chosen is None else slots[1 if chosen else 0]
        if not unused:
            continue
        yield finding(
            "both-sides",
            "both sides of this choice are computed, and each program uses one of them",
            _saved(evidence, unused),
            position_of(op),
            "The condition is the same for all elements of the tile: write if and else instead of "
            "tl.where.",
            {"issue slots of the sides": f"{slots[0]:,.0f}, {slots[1]:,.0f}"},
            "the TTGIR"
            + ("" if chosen is not None else "; each side is taken to be used as often"),
        )


def _makers(value: SSAValue) -> set[Operation]:
    return {each.owner for each in backward([value]) if isinstance(each.owner, Operation)}


@rule("masked-off")
def masked_off(evidence: Evidence) -> Iterator[CostFinding]:
    """Tiles most of whose elements masks switch off: what is computed of them is not used."""
    masked = [
        access
        for access in evidence.accesses
        if access.is_counted and prod(access.shape) > 1 and access.action in ("load", "store")
    ]
    held = [prod(each.shape) * each.element_bytes * each.times for each in masked]
    used = [min(each.bytes * each.times, most) for each, most in zip(masked, held, strict=True)]
    left = sum(used) / sum(held) if masked else 1.0
    if left > _MOSTLY_USED:
        return
    worst = masked[max(range(len(masked)), key=lambda at: held[at] - used[at])]
    yield finding(
        "masked-off",
        f"masks switch off {1 - left:.0%} of the elements of tiles that the program loads and "
        "stores, and their arithmetic is done all the same",
        evidence.costs.saved_leaving(
            left, "requests", "shared", "matrix", waits=_waits_left(evidence, worst, left)
        ),
        worst.position,
        "Let a loop end where its data does, take a tile size that fits (or several smaller ones "
        "instead of the next power of two), or number the elements of all rows in one dimension.",
        {"switched off": f"{1 - left:.0%}", "tile": joined_sizes(worst.shape)},
        worst.source,
    )


def _waits_left(evidence: Evidence, access: Traffic, left: float) -> float:
    """The share of waits that is left without masked-off elements: less if masks end the loop."""
    loop = None if access.loop is None else evidence.loops[access.loop]
    if loop is None or evidence.scalars.turns(loop.op) is None:
        return 1.0
    return max(left, 1 / max(loop.turns, 1))


_MOSTLY_USED = 0.75
"""The share of elements that are on from which on a tile is taken to fit."""


_SOURCE_OF_PRODUCTS = "the TTGIR's layout of the product"
_NEWEST = {"90": "wgmma", "100": "tcgen05", "103": "tcgen05"}
_NAMES = {"wgmma": "Hopper's wgmma", "tcgen05": "Blackwell's tcgen05", "mma": "mma.sync (Ampere's)"}


@rule("no-tensor-cores")
def no_tensor_cores(evidence: Evidence) -> Iterator[CostFinding]:
    """Products by ordinary multiply-adds."""
    for op in evidence.dots:
        if cost_model.generation(op):
            continue
        slots = evidence.scalar_slots(op) * evidence.times(op)
        work = evidence.work
        matrix = cost_model.flops(op) / evidence.gpu.tensor * evidence.times(op)
        operand_bytes = sum(size_in_bytes(operand.type) for operand in op.operands[:2])
        operands = operand_bytes / 128 * evidence.times(op)
        cost = evidence.costs.saved_by(
            issue=work.issue - slots, matrix=work.matrix + matrix, shared=min(work.shared, operands)
        )
        element = str(element_type(op.operands[0].type))
        why, advice = _why_scalar(op, element, evidence)
        if element == "f32" and _is_turned(op, evidence):
            cost = 0.0
            advice += (
                " Lay both operands out with K as their dimension of stride 1 first: the tensor "
                "cores take tf32 in no other way, and on an H200, a product whose operands both "
                "had to be turned took 1.3 times as long in tf32."
            )
        yield finding(
            "no-tensor-cores",
            f"this matmul of {element} runs on ordinary multiply-adds, not on tensor cores: {why}",
            cost,
            position_of(op),
            advice,
            {**_sizes(op), "type": element, "input precision": _precision(op)},
            _SOURCE_OF_PRODUCTS,
        )


def _is_turned(op: Operation, evidence: Evidence) -> bool:
    """Whether the operands of a product are loaded along M and N, by tiles of their shapes."""
    along_k = {shape(op.operands[0].type): 1, shape(op.operands[1].type): 0}
    tiles = [access for access in evidence.accesses if access.reads and access.shape in along_k]
    turned = [access.dimension != along_k[access.shape] for access in tiles]
    return len(along_k) == 2 and bool(turned) and all(turned)


def _why_scalar(op: Operation, element: str, evidence: Evidence) -> tuple[str, str]:
    target = evidence.compilation.target
    if element == "f32" and _precision(op) == "ieee":
        return (
            'input_precision="ieee" asks for exact fp32, which they do not have',
            'Where 10 bits of mantissa suffice, input_precision="tf32"; for nearly fp32 "tf32x3"; '
            "or operands in fp16 or bf16.",
        )
    if target.arch == "75":
        return ("Triton does not use those of sm_75", "Compile for sm_80 or later where you can.")
    if element == "f64":
        return (
            f"{target} has none for fp64 that Triton uses",
            "Compute in fp32 where it suffices.",
        )
    if min((*shape(op.operands[0].type)[-2:], *shape(op.operands[1].type)[-2:]), default=0) < 16:
        return ("its tiles are too small", "Take tiles of at least 16 along M, N and K.")
    return (
        f"{target} has none for this type and shape",
        "Take fp16, bf16, fp8 or int8 operands, and tiles of at least 16 along M, N and K.",
    )


@rule("no-tensor-cores")
def sum_of_products(evidence: Evidence) -> Iterator[CostFinding]:
    """A matmul written as the sum of a broadcast product."""
    for op in evidence.of_class(tt.ReduceOp):
        source = op.operands[0]
        if (
            len(op.operands) != 1
            or len(shape(source.type)) < 3
            or not _is_broadcast_product(source)
        ):
            continue
        sides = [*shape(source.type)]
        sides.pop(integer(op, "axis") or 0)
        macs = prod(shape(source.type))
        yield finding(
            "no-tensor-cores",
            f"this sum over products of a broadcast {shape(source.type)} tile is a matmul, "
            "and runs on ordinary multiply-adds",
            _saved_by_dot(evidence, sides, macs * evidence.times(op)),
            position_of(op),
            "Write it as tl.dot(a, b), which runs on tensor cores, with tiles of at least 16 along "
            f"M, N and K; tiles of {_TILE} along M and N load less.",
            {"tile": joined_sizes(shape(source.type)), "multiply-adds": macs},
            "the TTGIR",
        )


def _saved_by_dot(
    evidence: Evidence, tile: Sequence[int], macs: float, requests: float = 1.0
) -> float:
    """Return the share of the time that tl.dot saves in tiles of `_TILE` by `_TILE`: a program then
    loads as much less as these tiles are larger, by `requests` as many instructions for as much,
    and computes sums of whole tiles.
    """
    m, n = tile[-2:]
    work, less = evidence.work, min(1.0, 2 * m * n / (m + n) / _TILE)
    instructions = sum(evidence.costs.counts.instructions.values())
    return evidence.costs.saved_leaving(
        min(2 / _TILE, macs / _MACS_A_SLOT / instructions),
        "shared",
        "moves",
        cache=work.cache * less,
        requests=work.requests * less * requests,
        matrix=work.matrix + macs / evidence.gpu.tensor,
    )


_TILE = 128
"""The sides of a tile with which a matmul is bound by the tensor cores of large GPUs."""
_MACS_A_SLOT = 1_300
"""Multiply-adds for each instruction of a warp in such matmuls: 1,210 to 1,380 in most of them."""
_MACS_A_WAVEFRONT = 1_600
"""The same for each wavefront of shared memory, of 16-bit operands: 1,490 to 1,630."""


def _is_broadcast_product(value: SSAValue) -> bool:
    """Whether a tile is the product of two that were broadcast along different dimensions."""
    op = value.owner
    if not isinstance(op, mlir.MulFOp):
        return False
    missing = [_broadcast_along(operand) for operand in op.operands]
    return bool(missing[0] and missing[1] and missing[0] != missing[1])


def _broadcast_along(value: SSAValue) -> tuple[int, ...]:
    made = maker(value, ttg.ConvertLayoutOp, mlir.ExtFOp, mlir.TruncFOp)
    if not isinstance(made, tt.BroadcastOp):
        return ()
    before, after = shape(made.operand.type), shape(made.result.type)
    return tuple(d for d, (a, b) in enumerate(zip(before, after)) if a != b)


@rule("no-tensor-cores")
def products_added_one_by_one(evidence: Evidence) -> Iterator[CostFinding]:
    """A matmul written as a loop that adds the product of a column and a row."""
    for op in evidence.of_class(mlir.AddFOp):
        loop, tile = evidence.loop_of(op), shape(op.results[0].type)
        carried = any(isinstance(operand, BlockArgument) for operand in op.operands)
        if loop is None or len(tile) != 2 or not carried or min(tile) < _LEAST_SIDE:
            continue
        product = next(filter(_is_broadcast_product, op.operands), None)
        if product is None or not isinstance(product.owner, Operation):
            continue
        yield finding(
            "no-tensor-cores",
            f"this loop adds products of a column and a row to a {joined_sizes(tile)} tile: a "
            "matmul on ordinary multiply-adds, that waits for two loads in each iteration",
            _saved_by_dot(evidence, tile, prod(tile) * evidence.times(op), 1 / _DEPTH),
            position_of(op),
            f"Load tiles of {_DEPTH} columns and rows, and write total = tl.dot(a, b, total), "
            "which runs on tensor cores.",
            {"tile": joined_sizes(tile), "iterations": loop.iterations},
            "the TTGIR",
        )


_LEAST_SIDE = 16
"""The least M and N of a tl.dot."""
_DEPTH = 32
"""The K that the advice takes."""


@rule("costly-function")
def costly_function(evidence: Evidence) -> Iterator[CostFinding]:
    """libdevice's pow with an exponent for which the hardware has a few instructions."""
    for op in evidence.operations:
        exponent = _exponent(op) if isinstance(op, tt.ExternElementwiseOp) else None
        if exponent not in _POWERS:
            continue
        instead, steps = _POWERS[exponent]
        slots = evidence.slots_of(op) * evidence.times(op)
        cheap = slots * steps / cost_model.POWER
        yield finding(
            "costly-function",
            f"pow takes about {cost_model.POWER:.0f} instructions an element, also for the "
            f"exponent {exponent:g}",
            _saved(evidence, slots - cheap),
            position_of(op),
            f"Write it as {instead}.",
            {"exponent": exponent, "issue slots": round(slots)},
            "the TTGIR, and the SASS that libdevice's function becomes",
        )


_POWERS: Mapping[float | None, tuple[str, float]] = {
    -2.0: ("1 / (x * x)", 10.0),
    -1.0: ("1 / x", 9.0),
    -0.5: ("tl.rsqrt(x)", 4.0),
    0.5: ("tl.sqrt(x)", 6.0),
    1.5: ("x * tl.sqrt(x)", 7.0),
    2.0: ("x * x", 1.0),
    3.0: ("x * x * x", 2.0),
    4.0: ("(x * x) * (x * x)", 2.0),
}
"""Exponent -> what to write instead, and about how many instructions it takes."""


def _exponent(op: tt.ExternElementwiseOp) -> float | None:
    """Return the exponent of a call of pow if it is a constant."""
    if not op.symbol.data.startswith("__nv_pow") or len(op.sources) != 2:
        return None
    made = maker(op.sources[1], tt.SplatOp, tt.BroadcastOp)
    return made.number if isinstance(made, mlir.ConstantOp) else None


@rule("older-matrix-instruction")
def older_matrix_instruction(evidence: Evidence) -> Iterator[CostFinding]:
    """Products on an instruction of the generation before."""
    newest = _NEWEST.get(evidence.compilation.target.arch)
    for op in evidence.dots:
        used = cost_model.generation(op)
        element = str(element_type(op.operands[0].type))
        if newest is None or used in ("", newest) or element == "f64":
            continue
        cycles = evidence.dot_cycles(op) * evidence.times(op)
        work = evidence.work
        cost = evidence.costs.saved_by(
            matrix=work.matrix - cycles * (1 - evidence.gpu.by_warps),
            shared=work.shared - evidence.operand_wavefronts,
        )
        why, advice = _why_older(op, element, evidence)
        yield finding(
            "older-matrix-instruction",
            f"this matmul runs on {_NAMES.get(used, used)}, not on {_NAMES[newest]}: {why}",
            cost,
            position_of(op),
            advice,
            {**_sizes(op), "type": element, "num_warps": evidence.warps, "instruction": used},
            _SOURCE_OF_PRODUCTS,
        )


def _why_older(op: Operation, element: str, evidence: Evidence) -> tuple[str, str]:
    m, n, k = _sizes(op).values()
    warps = evidence.warps
    bits = bit_width(element_type(op.operands[0].type))
    if warps % 4:
        return (
            f"it takes 4 warps or a multiple of them, and num_warps is {warps}",
            "Compile with num_warps=4 or 8.",
        )
    if m < 64:
        return (
            f"it takes tiles of at least 64 along M, and this has {m}",
            "Take 64 or 128 rows a tile; where there are fewer rows than that, swap the operands "
            "(the product transposed), so that the longer side is M.",
        )
    if n < 16 or k * bits < 256:
        return (
            f"it takes at least 16 along N and 32 bytes along K, and this has {n} and "
            f"{k * bits // 8}",
            "Take a larger tile along that side.",
        )
    return (
        f"its operands ({element}, {m}x{n}x{k}) do not fit as they lie in memory",
        "Operands of 8 and 32 bits need K as their dimension of stride 1; others fp16 or bf16. "
        "compilation.remarks has the compiler's own words.",
    )


@rule("widened-product")
def widened_product(evidence: Evidence) -> Iterator[CostFinding]:
    """Operands that were loaded in 16 bits, or as integers, and made fp32 for the product."""
    from_narrow = {
        op: [_widened_from(operand) for operand in op.operands[:2]] for op in evidence.dots
    }
    op = next(
        (
            op
            for op, narrow in from_narrow.items()
            if all(narrow) and not _FLOATS.isdisjoint(narrow)
        ),
        None,
    )
    if op is None:
        return
    wide = [op for op, narrow in from_narrow.items() if any(narrow)]
    cycles = sum(evidence.dot_cycles(op) * evidence.times(op) for op in wide)
    work, costs = evidence.work, evidence.costs
    shared = work.shared * (1 - costs.counts.conflicts / max(costs.counts.wavefronts, 1)) / 2
    if len(wide) == len(from_narrow):
        macs = sum(cost_model.flops(op) / 2 * evidence.times(op) for op in wide)
        shared = min(shared, macs / _MACS_A_WAVEFRONT)
    exchanges = cost_model.BARRIER * sum(map(evidence.times, wide))
    converted = sum(
        evidence.slots_of(each) * evidence.times(each)
        for each in evidence.of_class(mlir.ExtFOp)
        if evidence.loop_of(each) is not None
    )
    cost = (
        costs.saved_by(
            issue=work.issue - converted,
            matrix=work.matrix - cycles / 2,
            shared=shared,
            latency=work.latency - cycles / 2 - exchanges,
        )
        if cycles
        else costs.saved_by(issue=work.issue - evidence.scalar_slots(op) * evidence.times(op) / 2)
    )
    narrow = next(each for each in from_narrow[op] if each in _FLOATS)
    whole = next((each for each in from_narrow[op] if each not in _FLOATS), "")
    yield finding(
        "widened-product",
        f"{f'the operands are {narrow} and {whole}' if whole else f'both operands are {narrow}'} "
        "in memory and are made f32 before the matmul, which halves its rate and doubles its "
        "shared memory",
        cost,
        position_of(op),
        f"Pass the {narrow} tiles to tl.dot as they are: it adds up in fp32 anyway."
        + (
            f" Convert the integers to {narrow} too, and scale in it or after the matmul."
            * bool(whole)
        ),
        {**_sizes(op), "in memory": narrow, "in the product": "f32"},
        "the TTGIR",
    )


def _widened_from(value: SSAValue) -> str:
    """The narrower type that a product's operand had before layouts and memory; "" for none."""
    made = maker(
        value, ttg.ConvertLayoutOp, ttg.LocalAllocOp, ttg.LocalLoadOp, tt.TransOp,
        ttg.MemDescTransOp, tt.ReshapeOp,
    )  # fmt: skip
    if isinstance(made, mlir.MulFOp):  # integers times their scale
        scaled = (maker(each, ttg.ConvertLayoutOp) for each in made.operands)
        made = next((each for each in scaled if isinstance(each, _FROM_INTEGERS)), made)
    if not isinstance(made, mlir.ExtFOp | mlir.SIToFPOp | mlir.UIToFPOp):
        return ""
    before = str(element_type(made.operands[0].type))
    return before if before in _FLOATS or isinstance(made, _FROM_INTEGERS) else ""


_FLOATS = frozenset({"f16", "bf16"})
_FROM_INTEGERS = (mlir.SIToFPOp, mlir.UIToFPOp)


def _sizes(op: Operation) -> dict[str, int]:
    a, b = shape(op.operands[0].type), shape(op.operands[1].type)
    return {"M": a[-2] if len(a) > 1 else 1, "N": b[-1] if b else 1, "K": a[-1] if a else 1}


def _precision(op: Operation) -> str:
    number = integer(op, "inputPrecision")
    known = number is not None and 0 <= number < len(INPUT_PRECISIONS)
    return INPUT_PRECISIONS[number] if known and number is not None else ""
