"""The `arith` dialect: integer and floating-point arithmetic, on scalars and on tensors.

xDSL has its own arith dialect; several of its casts accept scalars only,
and Triton uses them on tensors.
"""

from __future__ import annotations

import sys

from xdsl.dialects import builtin
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoMemoryEffect

from kernellab.ir.operation import (
    ElementwiseBinary,
    ElementwiseUnary,
    ExactOperation,
    FloatBinaryOperation,
    WrappingOperation,
    dialect,
)
from kernellab.ir.traits import Elementwise, KeepsSign, MovesElements, ReadsIntegers


@irdl_op_definition
class ConstantOp(IRDLOperation):
    name = "arith.constant"
    traits = traits_def(NoMemoryEffect())
    value = prop_def()
    result = result_def()


@irdl_op_definition
class AddIOp(WrappingOperation):
    name = "arith.addi"


@irdl_op_definition
class SubIOp(WrappingOperation):
    name = "arith.subi"


@irdl_op_definition
class MulIOp(WrappingOperation):
    name = "arith.muli"


@irdl_op_definition
class DivSIOp(ExactOperation):
    name = "arith.divsi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class DivUIOp(ExactOperation):
    name = "arith.divui"
    traits = traits_def(ReadsIntegers(signed=False))


@irdl_op_definition
class CeilDivSIOp(ElementwiseBinary):
    name = "arith.ceildivsi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class CeilDivUIOp(ElementwiseBinary):
    name = "arith.ceildivui"
    traits = traits_def(ReadsIntegers(signed=False))


@irdl_op_definition
class FloorDivSIOp(ExactOperation):
    name = "arith.floordivsi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class RemSIOp(ElementwiseBinary):
    name = "arith.remsi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class RemUIOp(ElementwiseBinary):
    name = "arith.remui"
    traits = traits_def(ReadsIntegers(signed=False))


@irdl_op_definition
class AndIOp(ElementwiseBinary):
    name = "arith.andi"
    traits = traits_def(KeepsSign())


@irdl_op_definition
class OrIOp(ElementwiseBinary):
    name = "arith.ori"
    traits = traits_def(KeepsSign())


@irdl_op_definition
class XOrIOp(ElementwiseBinary):
    name = "arith.xori"
    traits = traits_def(KeepsSign())


@irdl_op_definition
class ShLIOp(WrappingOperation):
    name = "arith.shli"


@irdl_op_definition
class ShRSIOp(ExactOperation):
    name = "arith.shrsi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class ShRUIOp(ExactOperation):
    name = "arith.shrui"
    traits = traits_def(ReadsIntegers(signed=False))


@irdl_op_definition
class MinSIOp(ElementwiseBinary):
    name = "arith.minsi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class MinUIOp(ElementwiseBinary):
    name = "arith.minui"
    traits = traits_def(ReadsIntegers(signed=False))


@irdl_op_definition
class MaxSIOp(ElementwiseBinary):
    name = "arith.maxsi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class MaxUIOp(ElementwiseBinary):
    name = "arith.maxui"
    traits = traits_def(ReadsIntegers(signed=False))


@irdl_op_definition
class AddFOp(FloatBinaryOperation):
    name = "arith.addf"


@irdl_op_definition
class SubFOp(FloatBinaryOperation):
    name = "arith.subf"


@irdl_op_definition
class MulFOp(FloatBinaryOperation):
    name = "arith.mulf"


@irdl_op_definition
class DivFOp(FloatBinaryOperation):
    name = "arith.divf"


@irdl_op_definition
class RemFOp(FloatBinaryOperation):
    name = "arith.remf"


@irdl_op_definition
class MaximumFOp(FloatBinaryOperation):
    name = "arith.maximumf"


@irdl_op_definition
class MinimumFOp(FloatBinaryOperation):
    name = "arith.minimumf"


@irdl_op_definition
class MaxNumFOp(FloatBinaryOperation):
    name = "arith.maxnumf"


@irdl_op_definition
class MinNumFOp(FloatBinaryOperation):
    name = "arith.minnumf"


@irdl_op_definition
class NegFOp(ElementwiseUnary):
    name = "arith.negf"
    fastmath = opt_prop_def()


@irdl_op_definition
class ExtSIOp(ElementwiseUnary):
    name = "arith.extsi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class ExtUIOp(ElementwiseUnary):
    name = "arith.extui"
    traits = traits_def(ReadsIntegers(signed=False))
    non_negative = opt_prop_def(prop_name="nonNeg")


@irdl_op_definition
class TruncIOp(ElementwiseUnary):
    name = "arith.trunci"
    overflow_flags = opt_prop_def(prop_name="overflowFlags")


@irdl_op_definition
class ExtFOp(ElementwiseUnary):
    name = "arith.extf"
    fastmath = opt_prop_def()


@irdl_op_definition
class SIToFPOp(ElementwiseUnary):
    name = "arith.sitofp"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class UIToFPOp(ElementwiseUnary):
    name = "arith.uitofp"
    traits = traits_def(ReadsIntegers(signed=False))
    non_negative = opt_prop_def(prop_name="nonNeg")


@irdl_op_definition
class FPToSIOp(ElementwiseUnary):
    name = "arith.fptosi"


@irdl_op_definition
class FPToUIOp(ElementwiseUnary):
    name = "arith.fptoui"


@irdl_op_definition
class BitcastOp(ElementwiseUnary):
    name = "arith.bitcast"


@irdl_op_definition
class IndexCastOp(ElementwiseUnary):
    name = "arith.index_cast"


@irdl_op_definition
class TruncFOp(ElementwiseUnary):
    name = "arith.truncf"
    rounding_mode = opt_prop_def(prop_name="roundingmode")
    fastmath = opt_prop_def()


@irdl_op_definition
class CmpIOp(ElementwiseBinary):
    """`predicate` is a number: see `INTEGER_PREDICATES`."""

    name = "arith.cmpi"
    predicate = prop_def(builtin.IntegerAttr)


@irdl_op_definition
class CmpFOp(ElementwiseBinary):
    """`predicate` is a number: see `FLOAT_PREDICATES`."""

    name = "arith.cmpf"
    predicate = prop_def(builtin.IntegerAttr)
    fastmath = opt_prop_def()


@irdl_op_definition
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
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
)
"""`arith.cmpf`'s predicates by number."""

ARITH = dialect("arith", sys.modules[__name__])
