"""MLIR's own dialects, as far as Triton uses them.

Arithmetic is `arith`, `math` and `ub`; control flow is `scf` and `cf`; there is one operation each
of `gpu` and `llvm`.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Block
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, NoMemoryEffect, RecursiveMemoryEffect

from kernellab.ir.operations import (
    Elementwise,
    ElementwiseBinary,
    ElementwiseUnary,
    ExactOperation,
    FloatBinaryOperation,
    FloatUnaryOperation,
    KeepsSign,
    MovesElements,
    Ordered,
    ReadsIntegers,
    WrappingOperation,
    dialect,
)

# The `arith` dialect: integer and floating-point arithmetic, on scalars and on tensors.
#
# xDSL has its own arith dialect; several of its casts accept scalars only, and Triton uses them
# on tensors.


class ConstantOp(IRDLOperation):
    name = "arith.constant"
    traits = traits_def(NoMemoryEffect())
    value = prop_def()
    result = result_def()

    @property
    def integer(self) -> int | None:
        """The integer that it is, or that all elements of its tile are; None for no integer."""
        number = self.number
        return number if isinstance(number, int) else None

    @property
    def number(self) -> int | float | None:
        """The number that it is, or that all elements of its tile are; None for several."""
        match self.value:
            case builtin.IntegerAttr() | builtin.FloatAttr() as one:
                data: int | float = one.value.data
                return data
            case builtin.DenseIntOrFPElementsAttr() as many:
                element = many.get_element_type()
                several, size = many.data.data, element.compile_time_size
                if several[size:] != several[:-size]:
                    return None
                (first,) = element.unpack(several[:size], 1)
                return first if isinstance(first, int | float) else None
            case _:
                return None


class AddIOp(WrappingOperation):
    name = "arith.addi"


class SubIOp(WrappingOperation):
    name = "arith.subi"


class MulIOp(WrappingOperation):
    name = "arith.muli"


class DivSIOp(ExactOperation):
    name = "arith.divsi"
    traits = traits_def(ReadsIntegers(signed=True))


class DivUIOp(ExactOperation):
    name = "arith.divui"
    traits = traits_def(ReadsIntegers(signed=False))


class CeilDivSIOp(ElementwiseBinary):
    name = "arith.ceildivsi"
    traits = traits_def(ReadsIntegers(signed=True))


class CeilDivUIOp(ElementwiseBinary):
    name = "arith.ceildivui"
    traits = traits_def(ReadsIntegers(signed=False))


class FloorDivSIOp(ExactOperation):
    name = "arith.floordivsi"
    traits = traits_def(ReadsIntegers(signed=True))


class RemSIOp(ElementwiseBinary):
    name = "arith.remsi"
    traits = traits_def(ReadsIntegers(signed=True))


class RemUIOp(ElementwiseBinary):
    name = "arith.remui"
    traits = traits_def(ReadsIntegers(signed=False))


class AndIOp(ElementwiseBinary):
    name = "arith.andi"
    traits = traits_def(KeepsSign())


class OrIOp(ElementwiseBinary):
    name = "arith.ori"
    traits = traits_def(KeepsSign())


class XOrIOp(ElementwiseBinary):
    name = "arith.xori"
    traits = traits_def(KeepsSign())


class ShLIOp(WrappingOperation):
    name = "arith.shli"


class ShRSIOp(ExactOperation):
    name = "arith.shrsi"
    traits = traits_def(ReadsIntegers(signed=True))


class ShRUIOp(ExactOperation):
    name = "arith.shrui"
    traits = traits_def(ReadsIntegers(signed=False))


class MinSIOp(ElementwiseBinary):
    name = "arith.minsi"
    traits = traits_def(ReadsIntegers(signed=True))


class MinUIOp(ElementwiseBinary):
    name = "arith.minui"
    traits = traits_def(ReadsIntegers(signed=False))


class MaxSIOp(ElementwiseBinary):
    name = "arith.maxsi"
    traits = traits_def(ReadsIntegers(signed=True))


class MaxUIOp(ElementwiseBinary):
    name = "arith.maxui"
    traits = traits_def(ReadsIntegers(signed=False))


class AddFOp(FloatBinaryOperation):
    name = "arith.addf"


class SubFOp(FloatBinaryOperation):
    name = "arith.subf"


class MulFOp(FloatBinaryOperation):
    name = "arith.mulf"


class DivFOp(FloatBinaryOperation):
    name = "arith.divf"


class RemFOp(FloatBinaryOperation):
    name = "arith.remf"


class MaximumFOp(FloatBinaryOperation):
    name = "arith.maximumf"


class MinimumFOp(FloatBinaryOperation):
    name = "arith.minimumf"


class MaxNumFOp(FloatBinaryOperation):
    name = "arith.maxnumf"


class MinNumFOp(FloatBinaryOperation):
    name = "arith.minnumf"


class NegFOp(ElementwiseUnary):
    name = "arith.negf"
    fastmath = opt_prop_def()


class ExtSIOp(ElementwiseUnary):
    name = "arith.extsi"
    traits = traits_def(ReadsIntegers(signed=True))


class ExtUIOp(ElementwiseUnary):
    name = "arith.extui"
    traits = traits_def(ReadsIntegers(signed=False))
    non_negative = opt_prop_def(prop_name="nonNeg")


class TruncIOp(ElementwiseUnary):
    name = "arith.trunci"
    overflow_flags = opt_prop_def(prop_name="overflowFlags")


class ExtFOp(ElementwiseUnary):
    name = "arith.extf"
    fastmath = opt_prop_def()


class SIToFPOp(ElementwiseUnary):
    name = "arith.sitofp"
    traits = traits_def(ReadsIntegers(signed=True))


class UIToFPOp(ElementwiseUnary):
    name = "arith.uitofp"
    traits = traits_def(ReadsIntegers(signed=False))
    non_negative = opt_prop_def(prop_name="nonNeg")


class FPToSIOp(ElementwiseUnary):
    name = "arith.fptosi"


class FPToUIOp(ElementwiseUnary):
    name = "arith.fptoui"


class BitcastOp(ElementwiseUnary):
    name = "arith.bitcast"


class IndexCastOp(ElementwiseUnary):
    name = "arith.index_cast"


class TruncFOp(ElementwiseUnary):
    name = "arith.truncf"
    rounding_mode = opt_prop_def(prop_name="roundingmode")
    fastmath = opt_prop_def()


class CmpIOp(ElementwiseBinary):
    """`predicate` is a number: see `INTEGER_PREDICATES`."""

    name = "arith.cmpi"
    predicate = prop_def(builtin.IntegerAttr)


class CmpFOp(ElementwiseBinary):
    """`predicate` is a number: see `FLOAT_PREDICATES`."""

    name = "arith.cmpf"
    predicate = prop_def(builtin.IntegerAttr)
    fastmath = opt_prop_def()


class SelectOp(IRDLOperation):
    name = "arith.select"
    traits = traits_def(
        NoMemoryEffect(), Elementwise(), MovesElements(("true_value", "false_value"))
    )
    condition = operand_def()
    true_value = operand_def()
    false_value = operand_def()
    result = result_def()


INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""`arith.cmpi`'s predicates by number."""

FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
    "une", "uno", "true",
)  # fmt: skip
"""`arith.cmpf`'s predicates by number."""

RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
"""By the last two letters of a predicate, what it compares by."""

ARITH = dialect("arith", sys.modules[__name__])

# The `math` dialect: elementary functions, on scalars and on tensors.


class AbsFOp(FloatUnaryOperation):
    name = "math.absf"


class AbsIOp(ElementwiseUnary):
    name = "math.absi"
    traits = traits_def(ReadsIntegers(signed=True))


class CeilOp(FloatUnaryOperation):
    name = "math.ceil"


class FloorOp(FloatUnaryOperation):
    name = "math.floor"


class TruncOp(FloatUnaryOperation):
    name = "math.trunc"


class RoundEvenOp(FloatUnaryOperation):
    name = "math.roundeven"


class CosOp(FloatUnaryOperation):
    name = "math.cos"


class SinOp(FloatUnaryOperation):
    name = "math.sin"


class TanOp(FloatUnaryOperation):
    name = "math.tan"


class TanhOp(FloatUnaryOperation):
    name = "math.tanh"


class ExpOp(FloatUnaryOperation):
    name = "math.exp"


class Exp2Op(FloatUnaryOperation):
    name = "math.exp2"


class ExpM1Op(FloatUnaryOperation):
    name = "math.expm1"


class LogOp(FloatUnaryOperation):
    name = "math.log"


class Log2Op(FloatUnaryOperation):
    name = "math.log2"


class Log10Op(FloatUnaryOperation):
    name = "math.log10"


class Log1pOp(FloatUnaryOperation):
    name = "math.log1p"


class SqrtOp(FloatUnaryOperation):
    name = "math.sqrt"


class RsqrtOp(FloatUnaryOperation):
    name = "math.rsqrt"


class ErfOp(FloatUnaryOperation):
    name = "math.erf"


class IsNaNOp(FloatUnaryOperation):
    name = "math.isnan"


class IsInfOp(FloatUnaryOperation):
    name = "math.isinf"


class PowFOp(FloatBinaryOperation):
    name = "math.powf"


class Atan2Op(FloatBinaryOperation):
    name = "math.atan2"


class CopySignOp(FloatBinaryOperation):
    name = "math.copysign"


class FmaOp(IRDLOperation):
    """a * b + c, rounded once."""

    name = "math.fma"
    traits = traits_def(NoMemoryEffect(), Elementwise())
    a = operand_def()
    b = operand_def()
    c = operand_def()
    result = result_def()
    fastmath = opt_prop_def()


MATH = dialect("math", sys.modules[__name__])

# The `ub` dialect: values that do not matter.


class PoisonOp(IRDLOperation):
    """A value that no correct program uses."""

    name = "ub.poison"
    traits = traits_def(NoMemoryEffect())
    value = opt_prop_def()
    result = result_def()


UB = dialect("ub", sys.modules[__name__])

# The `scf` dialect: loops and branches that nest.


class YieldOp(IRDLOperation):
    """Ends a region and hands its values on."""

    name = "scf.yield"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    values = var_operand_def()


class ConditionOp(IRDLOperation):
    """Ends the first region of `scf.while`: continues while `condition` holds."""

    name = "scf.condition"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    condition = operand_def()
    values = var_operand_def()


class ForOp(IRDLOperation):
    """`for i in range(lower, upper, step)`, with values carried from iteration to iteration."""

    name = "scf.for"
    traits = traits_def(RecursiveMemoryEffect())
    lower = operand_def()
    upper = operand_def()
    step = operand_def()
    initial = var_operand_def()
    body = region_def("single_block")
    final = var_result_def()

    @property
    def block(self) -> Block:
        """The body; its first argument is the induction variable, the rest are carried."""
        return self.body.block


class IfOp(IRDLOperation):
    """A branch; the second region is empty if there is no `else`."""

    name = "scf.if"
    traits = traits_def(RecursiveMemoryEffect())
    condition = operand_def()
    then_region = region_def()
    else_region = region_def()
    final = var_result_def()


class WhileOp(IRDLOperation):
    """`before` computes the condition, `after` is the body."""

    name = "scf.while"
    traits = traits_def(RecursiveMemoryEffect())
    initial = var_operand_def()
    before = region_def("single_block")
    after = region_def("single_block")
    final = var_result_def()


SCF = dialect("scf", sys.modules[__name__])

# The `cf` dialect: jumps between blocks.


class BranchOp(IRDLOperation):
    """An unconditional jump."""

    name = "cf.br"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    arguments = var_operand_def()
    successor = successor_def()


class ConditionalBranchOp(IRDLOperation):
    """A jump to one of two blocks."""

    name = "cf.cond_br"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    condition = operand_def()
    true_arguments = var_operand_def()
    false_arguments = var_operand_def()
    true_successor = successor_def()
    false_successor = successor_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


CF = dialect("cf", sys.modules[__name__])

# The one operation of the `gpu` dialect that Triton's front end puts into TTIR, up to Triton
# 3.6.


class BarrierOp(IRDLOperation):
    """`tl.debug_barrier`: all threads of the program wait for each other."""

    name = "gpu.barrier"
    traits = traits_def(Ordered())
    address_spaces = opt_prop_def()


GPU = dialect("gpu", sys.modules[__name__])

# The one operation of the `llvm` dialect that Triton's front end puts into TTIR.


class AssumeOp(IRDLOperation):
    """`tl.assume`: what the compiler may take for true."""

    name = "llvm.intr.assume"
    traits = traits_def(Ordered())
    condition = operand_def()
    op_bundle_sizes = opt_prop_def()
    op_bundle_tags = opt_prop_def()


LLVM = dialect("llvm", sys.modules[__name__])
