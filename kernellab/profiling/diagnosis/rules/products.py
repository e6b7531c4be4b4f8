"""Matmuls that do not run on the tensor cores, or not on their newest instructions."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xdsl.ir import Operation, SSAValue

from kernellab.compiler.modules.structure import integer, kind, position_of
from kernellab.ir.tt import INPUT_PRECISIONS
from kernellab.ir.types import bit_width, element_type, shape
from kernellab.profiling.diagnosis import weights
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.makers import maker
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule

_SOURCE = "the TTGIR's layout of the product"
_NEWEST = {"90": "wgmma", "100": "tcgen05", "103": "tcgen05"}
_NAMES = {"wgmma": "Hopper's wgmma", "tcgen05": "Blackwell's tcgen05", "mma": "mma.sync (Ampere's)"}


@rule("no-tensor-cores")
def no_tensor_cores(evidence: Evidence) -> Iterator[CostFinding]:
    """Products by ordinary multiply-adds."""
    for op in evidence.dots:
        if weights.generation(op):
            continue
        slots = evidence.scalar_slots(op) * evidence.times(op)
        work = evidence.work
        matrix = weights.flops(op) / evidence.gpu.tensor * evidence.times(op)
        operand_bytes = sum(
            prod(shape(operand.type)) * bit_width(element_type(operand.type)) / 8
            for operand in op.operands[:2]
        )
        operands = operand_bytes / 128 * evidence.times(op)
        cost = evidence.costs.saved_by(
            issue=work.issue - slots,
            matrix=work.matrix + matrix,
            shared=min(work.shared, operands),
        )
        element = str(element_type(op.operands[0].type))
        why, advice = _why_scalar(op, element, evidence)
        yield finding(
            "no-tensor-cores",
            f"this product of {element} runs on ordinary multiply-adds, not on tensor cores: {why}",
            cost,
            position_of(op),
            advice,
            {**_sizes(op), "type": element, "input precision": _precision(op)},
            _SOURCE,
        )


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
    for op in evidence.of_kind("tt.reduce"):
        source = op.operands[0]
        if (
            len(op.operands) != 1
            or len(shape(source.type)) < 3
            or not _is_broadcast_product(source)
        ):
            continue
        made = source.owner
        assert isinstance(made, Operation)
        slots = sum(
            evidence.slots_of(maker) * evidence.times(maker)
            for maker in (made, *(operand.owner for operand in made.operands))
            if isinstance(maker, Operation) and maker.results
        )
        slots += evidence.registers(source) * evidence.warps * evidence.times(op)
        shuffled = sum(
            evidence.moves_of(conversion) * evidence.times(op)
            for conversion in evidence.conversions
            if evidence.operation_of(conversion) is op
        )
        slots += shuffled
        m, n, k = shape(source.type)[-3:]
        tiles = (m * n + n * k + m * k) * 4 / 128 * evidence.times(op)
        yield finding(
            "no-tensor-cores",
            f"this sum over products of a broadcast {shape(source.type)} tile is a matmul, "
            "and runs on ordinary multiply-adds",
            evidence.costs.saved_by(
                issue=evidence.work.issue - slots,
                moves=evidence.work.moves - shuffled,
                shared=min(evidence.work.shared, tiles),
            ),
            position_of(op),
            "Write it as tl.dot(a, b), which runs on tensor cores, with tiles of at least 16 along "
            "M, N and K.",
            {"tile": "x".join(map(str, shape(source.type))), "issue slots": round(slots)},
            "the TTGIR",
        )


def _is_broadcast_product(value: SSAValue) -> bool:
    """Whether a tile is the product of two that were broadcast along different dimensions."""
    op = value.owner
    if not isinstance(op, Operation) or kind(op) != "arith.mulf":
        return False
    missing = [_broadcast_along(operand) for operand in op.operands]
    return bool(missing[0] and missing[1] and missing[0] != missing[1])


def _broadcast_along(value: SSAValue) -> tuple[int, ...]:
    made = maker(value, "ttg.convert_layout", "arith.extf", "arith.truncf")
    if made is None or kind(made) != "tt.broadcast":
        return ()
    before, after = shape(made.operands[0].type), shape(made.results[0].type)
    return tuple(d for d, (a, b) in enumerate(zip(before, after)) if a != b)


@rule("older-matrix-instruction")
def older_matrix_instruction(evidence: Evidence) -> Iterator[CostFinding]:
    """Products on an instruction of the generation before."""
    newest = _NEWEST.get(evidence.compilation.target.arch)
    for op in evidence.dots:
        used = weights.generation(op)
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
            f"this product runs on {_NAMES.get(used, used)}, not on {_NAMES[newest]}: {why}",
            cost,
            position_of(op),
            advice,
            {**_sizes(op), "type": element, "num_warps": evidence.warps, "instruction": used},
            _SOURCE,
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
    """Operands that were loaded in 16 bits and made fp32 for the product."""
    for op in evidence.dots:
        narrow = [_widened_from(operand) for operand in op.operands[:2]]
        if not all(narrow):
            continue
        cycles = (evidence.dot_cycles(op) or evidence.scalar_slots(op) / 4) * evidence.times(op)
        work, costs = evidence.work, evidence.costs
        cost = (
            costs.saved_by(matrix=work.matrix - cycles / 2, shared=work.shared / 2)
            if evidence.dot_cycles(op)
            else costs.saved_by(issue=work.issue - 2 * cycles)
        )
        yield finding(
            "widened-product",
            f"both operands are {narrow[0]} in memory and are made f32 before the product, which "
            "halves its rate and doubles its shared memory",
            cost,
            position_of(op),
            f"Give tl.dot the {narrow[0]} tiles as they are: it adds up in fp32 anyway.",
            {**_sizes(op), "in memory": narrow[0], "in the product": "f32"},
            "the TTGIR",
        )


def _widened_from(value: SSAValue) -> str:
    """The narrower type that a product's operand had, through layouts and shared memory; "" for
    none.
    """
    made = maker(
        value, "ttg.convert_layout", "ttg.local_alloc", "ttg.local_load", "tt.trans",
        "ttg.memdesc_trans", "tt.reshape",
    )  # fmt: skip
    if made is None or kind(made) != "arith.extf":
        return ""
    before = str(element_type(made.operands[0].type))
    return before if before in ("f16", "bf16") else ""


def _sizes(op: Operation) -> dict[str, int]:
    a, b = shape(op.operands[0].type), shape(op.operands[1].type)
    return {"M": a[-2] if len(a) > 1 else 1, "N": b[-1] if b else 1, "K": a[-1] if a else 1}


def _precision(op: Operation) -> str:
    number = integer(op, "inputPrecision")
    known = number is not None and 0 <= number < len(INPUT_PRECISIONS)
    return INPUT_PRECISIONS[number] if known and number is not None else ""
