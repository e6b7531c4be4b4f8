"""How operations on floats are lowered where residues stand for floats; all others are lowered as
ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from kernellab.equality import residues
from kernellab.interpreter.codegen.emitter import RULES, Emitter, LoweringRule
from kernellab.interpreter.codegen.expressions import (
    Expression,
    given,
    numerics,
    numpy,
    products,
    tiles,
)
from kernellab.interpreter.lowering.amd import is_left_operand
from kernellab.interpreter.lowering.mlir import where
from kernellab.interpreter.lowering.tt import several, single_combiner
from kernellab.interpreter.lowering.ttg import TOKEN
from kernellab.interpreter.lowering.ttng import (
    Put,
    accumulator_of,
    operand_tile,
    put_at_once,
    zero_unless,
)
from kernellab.ir import amd, flow, mlir, tt, ttg, ttng
from kernellab.ir.operations import (
    GlobalAccess,
    KeepsElements,
    MovesElements,
    has,
    operation_name,
    trait_of,
)
from kernellab.ir.types import ResidueType, dtype, element_type, is_pointer, shape

Lower = Callable[[Any, Emitter], Any]


def rule_with_rounding(op: Operation) -> LoweringRule | None:
    """As `rule_of`, where results in formats narrower than float32 are rounded."""
    bits = min(map(_bits, (*op.operands, *op.results)), default=residues.FLOAT32_BITS)
    narrow = min(map(_bits, op.results), default=residues.FLOAT32_BITS)
    if bits < residues.FLOAT32_BITS and _adds_in_memory(op):
        return LoweringRule(_refuse, pure=False, rounds=False)
    rule = rule_of(op)
    if rule is None or narrow == residues.FLOAT32_BITS or not _rounds(op):
        return rule
    how = "toward zero, " if isinstance(op, tt.FpToFpOp) and _is_toward_zero(op) else ""

    def lower(op: Any, value: Emitter) -> Any:
        return _calls(residues.rounded, value)(rule.lower(op, value), narrow, how)

    return replace(rule, lower=lower)


def _bits(value: SSAValue) -> int:
    kind = element_type(value.type) if has_residues(value) else None
    if not isinstance(kind, ResidueType):
        return residues.FLOAT32_BITS
    return residues.bits_of(dtype(kind.stands_for))


def _rounds(op: Operation) -> bool:
    """Whether an operation computes one number; what reductions compute, their regions round."""
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        return single_combiner(op.combine) is mlir.AddFOp
    exact = (mlir.ConstantOp, mlir.BitcastOp, tt.BitcastOp, ttg.Fp4ToFpOp)
    return type(op) in _LOWERINGS and not isinstance(op, exact)


def _is_toward_zero(op: tt.FpToFpOp) -> bool:
    return op.rounding is not None and tt.ROUNDING_MODES[op.rounding.value.data] == "rtz"


def rule_of(op: Operation) -> LoweringRule | None:
    """The rule for an operation; of one on floats that has no law and moves no elements, a rule
    that raises UnsupportedOperation.
    """
    if isinstance(op, tt.PrintOp):
        return LoweringRule(_print_nothing, pure=False, rounds=False)
    values = (*op.operands, *op.results)
    if not any(map(has_residues, values)) and not isinstance(op, mlir.CmpFOp):
        return RULES.get(type(op))
    lower = _LOWERINGS.get(type(op))
    if lower is not None:
        return LoweringRule(lower, pure=RULES[type(op)].pure, rounds=False)
    moves = _only_moves(op) and not (residues.with_terms() and _adds_in_memory(op))
    return RULES.get(type(op)) if moves else LoweringRule(_refuse, pure=False, rounds=False)


def _print_nothing(op: Operation, value: Emitter) -> None:
    """Residues say nothing to a reader."""


def _refuse(op: Operation, value: Emitter) -> None:
    raise value.unsupported(f"an exact form of {operation_name(op)}")


def has_residues(value: SSAValue) -> bool:
    """Whether residues stand for a value's elements."""
    try:
        return not is_pointer(value.type) and dtype(value.type) == residues.PAIR
    except KeyError:  # a type without elements
        return False


def _only_moves(op: Operation) -> bool:
    if isinstance(op, _ATOMICS) and tt.ATOMIC_OPERATIONS[op.operation.value.data] == "exchange":
        return True
    return _adds_in_memory(op) or isinstance(op, _MOVE) or has(op, MovesElements)


_ATOMICS = (tt.AtomicRMWOp, amd.BufferAtomicRMWOp)


def _adds_in_memory(op: Operation) -> bool:
    if isinstance(op, _ATOMICS):
        return tt.ATOMIC_OPERATIONS[op.operation.value.data] == "fadd"
    if isinstance(op, tt.DescriptorReduceOp | ttng.AsyncTmaReduceOp):
        return tt.REDUCE_KINDS[op.kind.value.data] == "add"
    return False


_MOVE = (
    mlir.SelectOp, mlir.PoisonOp, mlir.YieldOp, mlir.ConditionOp, mlir.ForOp, mlir.IfOp,
    mlir.WhileOp, mlir.BranchOp, mlir.ConditionalBranchOp, tt.ReturnOp, tt.ReduceReturnOp,
    tt.ScanReturnOp, tt.MapElementwiseOp, tt.MapElementwiseReturnOp, tt.LoadOp, tt.StoreOp,
    tt.AtomicLoadOp, tt.AtomicStoreOp, tt.MakeTensorDescOp, tt.DescriptorLoadOp,
    tt.DescriptorStoreOp, tt.DescriptorGatherOp, tt.DescriptorScatterOp, ttg.LocalAllocOp,
    ttg.LocalDeallocOp, ttg.LocalLoadOp, ttg.LocalStoreOp, ttg.LocalGatherOp, ttg.LocalScatterOp,
    ttg.AsyncCopyGlobalToLocalOp, ttg.MemDescIndexOp, ttg.MemDescSubsliceOp, ttg.MemDescTransOp,
    ttg.MemDescReshapeOp, ttg.WarpSpecializeOp, ttg.WarpSpecializePartitionsOp, ttg.WarpYieldOp,
    ttg.WarpReturnOp, ttng.WarpGroupDotWaitOp, ttng.TmemAllocOp, ttng.TmemLoadOp, ttng.TmemStoreOp,
    ttng.TmemSubsliceOp, ttng.TmemCopyOp, ttng.WaitBarrierOp, ttng.AsyncTmaCopyGlobalToLocalOp,
    ttng.AsyncTmaCopyLocalToGlobalOp, ttng.AsyncTmaGatherOp, ttng.AsyncTmaScatterOp,
    ttng.ReinterpretTensorDescriptorOp, amd.BufferLoadOp, amd.BufferLoadToLocalOp,
    amd.BufferStoreOp,
)  # fmt: skip
"""Operations that pass elements on, or do so in their regions."""

_LOWERINGS: dict[type[Operation], Lower] = {}


def _lowers(*operations: type[Operation]) -> Callable[[Lower], Lower]:
    def register(lower: Lower) -> Lower:
        _LOWERINGS.update(dict.fromkeys(operations, lower))
        return lower

    return register


def _calls(function: Callable[..., Any], value: Emitter) -> Expression:
    return value.constant(function, hint=function.__name__.strip("<>"))


# Constants and conversions


@_lowers(mlir.ConstantOp)
def _constant(op: mlir.ConstantOp, value: Emitter) -> Expression:
    rank = len(shape(op.result.type))
    match op.value:
        case builtin.FloatAttr():
            number = residues.of_float(op.value.value.data, dtype(op.value.type))
            made = np.asarray(number, residues.PAIR)[()]
        case builtin.DenseIntOrFPElementsAttr():
            numbers = np.frombuffer(op.value.data.data, dtype(op.value.type))
            alike = (numbers == numbers[0]).all()
            made = residues.of_floats(numbers[:1] if alike else numbers)
            made = made.reshape((1,) * rank if alike else op.value.get_shape())
        case _:
            raise value.unsupported(f"a constant written as {op.value}")
    return value.constant(made, hint="constant")


@_lowers(mlir.SIToFPOp)
def _from_signed(op: mlir.SIToFPOp, value: Emitter) -> Expression:
    made = _calls(residues.of_integers, value)(value[op.operand])
    is_boolean = dtype(op.operand.type).kind == "b"
    return _calls(residues.negative, value)(made) if is_boolean else made


@_lowers(mlir.UIToFPOp)
def _from_unsigned(op: mlir.UIToFPOp, value: Emitter) -> Expression:
    return _calls(residues.of_integers, value)(numerics.unsigned(value[op.operand]))


@_lowers(mlir.ExtFOp, mlir.TruncFOp, tt.FpToFpOp)
def _convert(op: mlir.ExtFOp, value: Emitter) -> Expression:
    return value[op.operand]


@_lowers(mlir.BitcastOp, tt.BitcastOp)
def _from_bits(op: mlir.BitcastOp, value: Emitter) -> Expression:
    """The bits of a float are known where they come from an integer, and are residues' own where
    they are only exchanged.
    """
    if has_residues(op.operand):
        if has_residues(op.result):
            return value[op.operand]
        if is_exchanged(op.result):
            return _calls(residues.to_bits, value)(value[op.operand])
        raise value.unsupported("the bits of a float, which residues do not have")
    if is_exchanged(op.operand):
        return _calls(residues.of_bits, value)(value[op.operand])
    floats = numerics.reinterpret(value[op.operand], _floats_of(op.result, value))
    return _calls(residues.of_floats, value)(floats)


BITS = builtin.IntegerType(64, builtin.Signedness.SIGNED)
"""The type of the bits of floats that a kernel only exchanges, which Triton does not use."""


def is_exchanged(bits: SSAValue) -> bool:
    """Whether a value has the bits of residues."""
    return element_type(bits.type) == BITS


def exchanged_bits(module: builtin.ModuleOp) -> set[SSAValue]:
    """The bits of floats if they only become floats again, moved or exchanged (x ^ (x ^ y) is y),
    as in `tl.sort`.
    """
    casts = [op for op in module.walk() if isinstance(op, mlir.BitcastOp | tt.BitcastOp)]
    of_floats = [op.result for op in casts if has_residues(op.operand)]
    bits = {v for v in flow.forward(of_floats, has_residues) if not has_residues(v)}
    users = {use.operation for each in bits for use in each.uses}
    operands = {operand for op in users for operand in op.operands}
    return bits if all(map(_keeps_bits, users)) and operands <= bits else set()


def _keeps_bits(op: Operation) -> bool:
    if isinstance(op, tt.ReduceOp):
        return single_combiner(op.combine) is mlir.XOrIOp
    kinds = mlir.XOrIOp | tt.ReduceReturnOp | mlir.BitcastOp | tt.BitcastOp
    return isinstance(op, kinds) or has(op, KeepsElements)


@_lowers(mlir.FPToSIOp, mlir.FPToUIOp)
def _to_integer(op: mlir.FPToSIOp | mlir.FPToUIOp, value: Emitter) -> Expression:
    """Integers of which nothing is known, so that they must not decide what runs."""
    kind = dtype(op.result.type)
    if kind.kind == "b" or any(map(chooses, flow.forward(op.results))):
        raise value.unsupported("the integers that floats become, as indices or conditions")
    kind = np.dtype(kind.name.replace("int", "uint")) if isinstance(op, mlir.FPToUIOp) else kind
    made = _calls(residues.to_integers, value)(value[op.operand], value.constant(kind, hint="kind"))
    return made.astype(value.dtype(op.result))


def chooses(value: SSAValue) -> bool:
    """Whether a value is an address, or decides what runs."""
    if is_pointer(value.type):
        return True
    for op in (use.operation for use in value.uses):
        access = trait_of(op, GlobalAccess)
        indices = () if access is None else access.indices_of(op)
        if value in (*flow.conditions(op), *indices) or isinstance(op, tt.CallOp | tt.AssertOp):
            return True
    return False


@_lowers(ttg.Fp4ToFpOp, amd.ScaledUpcastFp4Op)
def _from_fp4(op: ttg.Fp4ToFpOp | amd.ScaledUpcastFp4Op, value: Emitter) -> Expression:
    packed, *scales = op.operands
    unpacked = products.unpack_fp4(_tile(packed, value), op.axis.value.data - value.rank(packed))
    numbers = _calls(residues.of_floats, value)(unpacked)
    return _calls(residues.multiply, value)(numbers, value[scales[0]]) if scales else numbers


def _floats_of(result: SSAValue, value: Emitter) -> Expression:
    """The dtype of the floats that a value's residues stand for."""
    kind = element_type(result.type)
    assert isinstance(kind, ResidueType)
    return value.constant(dtype(kind.stands_for), hint="floats")


# Arithmetic

_FUNCTIONS: dict[type[Operation], Callable[..., Any]] = {
    mlir.AddFOp: residues.add,
    mlir.SubFOp: residues.subtract,
    mlir.MulFOp: residues.multiply,
    mlir.DivFOp: residues.divide,
    tt.PreciseDivFOp: residues.divide,
    tt.ApproxDivFOp: residues.divide,
    mlir.NegFOp: residues.negative,
    mlir.MaxNumFOp: residues.maximum,
    mlir.MinNumFOp: residues.minimum,
    mlir.MaximumFOp: residues.maximum_or_nan,
    mlir.MinimumFOp: residues.minimum_or_nan,
    mlir.FmaOp: residues.fused_multiply_add,
    mlir.AbsFOp: residues.absolute,
    mlir.ExpOp: residues.exp,
    mlir.Exp2Op: residues.exp2,
    mlir.LogOp: residues.log,
    mlir.Log2Op: residues.log2,
    mlir.SqrtOp: residues.square_root,
    tt.PreciseSqrtOp: residues.square_root,
    mlir.TanhOp: residues.tanh,
    mlir.IsNaNOp: residues.is_nan,
    mlir.IsInfOp: np.isinf,
    amd.ScaledUpcastFp8Op: residues.multiply,
}


_UNREDUCED: dict[type[Operation], Callable[..., Any]] = {
    mlir.AddFOp: residues.unreduced_sum,
    mlir.SubFOp: residues.unreduced_difference,
    mlir.MulFOp: residues.unreduced_product,
}


def _is_reduced_later(op: Operation) -> bool:
    """Whether only operations use a result that reduce: sums of less than 2**21 are factors, and
    products of these are parts of sums.
    """
    if type(op) not in _UNREDUCED or min(map(_bits, op.results)) < residues.FLOAT32_BITS:
        return False
    uses = [(use.operation, use.index) for result in op.results for use in result.uses]
    if isinstance(op, mlir.MulFOp):
        return all(
            isinstance(user, mlir.AddFOp | mlir.SubFOp)
            or (isinstance(user, tt.DotOp) and place == 2)
            for user, place in uses
        )
    summands = (each.owner for each in op.operands)
    return all(isinstance(user, mlir.MulFOp | mlir.ExpOp) for user, _ in uses) and not any(
        isinstance(summand, mlir.MulFOp) and _is_reduced_later(summand) for summand in summands
    )


@_lowers(*_FUNCTIONS)
def _function(op: Operation, value: Emitter) -> Expression:
    function = _UNREDUCED[type(op)] if _is_reduced_later(op) else _FUNCTIONS[type(op)]
    return _calls(function, value)(*(value[operand] for operand in op.operands))


_NUMPYS_NAMES = {"roundeven": "rint", "powf": "pow", "remf": "fmod"}


@_lowers(
    mlir.RsqrtOp, mlir.ExpM1Op, mlir.Log10Op, mlir.Log1pOp, mlir.CeilOp, mlir.FloorOp, mlir.TruncOp,
    mlir.RoundEvenOp, mlir.CosOp, mlir.SinOp, mlir.TanOp, mlir.ErfOp, mlir.PowFOp, mlir.Atan2Op,
    mlir.CopySignOp, mlir.RemFOp,
)  # fmt: skip
def _named_function(op: Operation, value: Emitter) -> Expression:
    name = op.name.partition(".")[2]
    operands = (value[operand] for operand in op.operands)
    return _calls(residues.function, value)(_NUMPYS_NAMES.get(name, name), *operands)


@_lowers(tt.ExternElementwiseOp)
def _device_function(op: tt.ExternElementwiseOp, value: Emitter) -> Expression:
    if not all(map(has_residues, (*op.sources, op.result))):
        raise value.unsupported(f"{op.symbol.data!r} of floats and integers where exact values run")
    name = residues.plain_name(op.symbol.data)
    return _calls(residues.function, value)(name, *(value[source] for source in op.sources))


@_lowers(tt.ClampFOp)
def _clamp(op: tt.ClampFOp, value: Emitter) -> Expression:
    keeps_nan = bool(op.propagate_nan is not None and op.propagate_nan.value.data)
    names = ("maximum_or_nan", "minimum_or_nan") if keeps_nan else ("maximum", "minimum")
    raised = _calls(getattr(residues, names[0]), value)(value[op.x], value[op.low])
    return _calls(getattr(residues, names[1]), value)(raised, value[op.high])


@_lowers(mlir.CmpFOp)
def _compare(op: mlir.CmpFOp, value: Emitter) -> Expression:
    predicate = mlir.FLOAT_PREDICATES[op.predicate.value.data]
    return _calls(residues.compare, value)(predicate, value[op.lhs], value[op.rhs])


# Along an axis


@_lowers(tt.ReduceOp)
def _reduce(op: tt.ReduceOp, value: Emitter) -> Any:
    tile_shape = value.shape(op.sources[0])
    axis = op.axis.value.data - len(tile_shape)
    combiner = single_combiner(op.combine)
    if combiner in _REDUCTIONS:
        function, keywords = _REDUCTIONS[combiner]
        return _calls(function, value)(_tile(op.sources[0], value), axis, **keywords)
    combine = value.combine_function(op.combine)
    sources = tuple(value[source] for source in op.sources)
    active = given(active=value.active_programs())
    return several(op, tiles.reduce(combine, sources, axis, tile_shape, **active), value)


_REDUCTIONS: dict[Any, tuple[Callable[..., Any], dict[str, bool]]] = {
    mlir.AddFOp: (residues.total, {}),
    mlir.MaxNumFOp: (residues.extreme, {"largest": True}),
    mlir.MinNumFOp: (residues.extreme, {"largest": False}),
}


@_lowers(tt.ScanOp)
def _scan(op: tt.ScanOp, value: Emitter) -> Any:
    tile_shape = value.shape(op.sources[0])
    axis = op.axis.value.data - len(tile_shape)
    reverse = bool(op.reverse.value.data)
    if single_combiner(op.combine) is mlir.AddFOp:
        return _calls(residues.running_total, value)(_tile(op.sources[0], value), axis, reverse)
    combine = value.combine_function(op.combine)
    sources = tuple(value[source] for source in op.sources)
    active = given(active=value.active_programs())
    return several(op, tiles.scan(combine, sources, axis, tile_shape, reverse, **active), value)


# Matmuls


@_lowers(tt.DotOp)
def _dot(op: tt.DotOp, value: Emitter) -> Expression:
    return _calls(residues.matmul, value)(*(_tile(v, value) for v in (op.a, op.b, op.c)))


def _tile(operand: SSAValue, value: Emitter) -> Expression:
    return tiles.full(value[operand], value.shape(operand))


@_lowers(tt.DotScaledOp)
def _dot_scaled(op: tt.DotScaledOp, value: Emitter) -> Expression:
    along = -1 if op.a_k_pack.value.data else -2, -2 if op.b_k_pack.value.data else -1
    a = _scaled(_tile, op.a, op.a_scale, op.a_format, -1, along[0], value)
    b = _scaled(_tile, op.b, op.b_scale, op.b_format, -2, along[1], value)
    return _calls(residues.matmul, value)(a, b, _tile(op.c, value))


def _scaled(
    read: Lower, operand: Any, scale: Any, format: Any, axis: int, along: int, value: Emitter
) -> Any:
    """An operand of a scaled matmul: numbers times the scales of their groups along `axis`; those
    of four bits are packed along another.
    """
    tile = read(operand, value)
    if tt.SCALED_FORMATS[format.value.data] == "e2m1":
        tile = _calls(residues.of_floats, value)(products.unpack_fp4(tile, along))
    if scale is None:
        return tile
    factors = read(scale, value)
    factors = numpy.swapaxes(factors, -1, -2) if axis == -2 else factors
    return _calls(residues.scaled, value)(tile, factors, axis)


@_lowers(amd.UpcastMxfpOp)
def _upcast(op: amd.UpcastMxfpOp, value: Emitter) -> Expression:
    axis = -1 if is_left_operand(op.result) else -2
    tile: Expression = _scaled(_tile, op.source, op.scale, op.format, axis, axis, value)
    return tile


@_lowers(ttng.WarpGroupDotOp)
def _warp_group_dot(op: ttng.WarpGroupDotOp, value: Emitter) -> Expression:
    c = tiles.full(value[op.c], value.shape(op.c))
    if op.use_c is not None:
        c = zero_unless(op.use_c, c, op.c, value)
    return _calls(residues.matmul, value)(operand_tile(op.a, value), operand_tile(op.b, value), c)


@_lowers(ttng.Tcgen5MmaOp)
def _matrix_product(op: ttng.Tcgen5MmaOp, value: Emitter, put: Put = put_at_once) -> Expression:
    with where(op.predicate, value):
        a, b = operand_tile(op.a, value), operand_tile(op.b, value)
        put(op, _calls(residues.matmul, value)(a, b, accumulator_of(op, value)), value)
    return TOKEN


@_lowers(ttng.Tcgen5MmaScaledOp)
def _scaled_matrix_product(
    op: ttng.Tcgen5MmaScaledOp, value: Emitter, put: Put = put_at_once
) -> Expression:
    with where(op.predicate, value):
        a = _scaled(operand_tile, op.a, op.a_scale, op.a_type, -1, -1, value)
        b = _scaled(operand_tile, op.b, op.b_scale, op.b_type, -2, -2, value)
        put(op, _calls(residues.matmul, value)(a, b, accumulator_of(op, value)), value)
    return TOKEN
