"""The `arith` dialect: integer and floating-point arithmetic, on scalars and on tensors.

xDSL has an arith dialect of its own; several of its casts accept scalars only,
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
)

from kernellab.ir.operation import (
    BinaryOperation,
    ExactOperation,
    FloatBinaryOperation,
    UnaryOperation,
    WrappingOperation,
    dialect,
)


@irdl_op_definition
class ConstantOp(IRDLOperation):
    name = "arith.constant"
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


@irdl_op_definition
class DivUIOp(ExactOperation):
    name = "arith.divui"


@irdl_op_definition
class CeilDivSIOp(BinaryOperation):
    name = "arith.ceildivsi"


@irdl_op_definition
class CeilDivUIOp(BinaryOperation):
    name = "arith.ceildivui"


@irdl_op_definition
class FloorDivSIOp(ExactOperation):
    name = "arith.floordivsi"


@irdl_op_definition
class RemSIOp(BinaryOperation):
    name = "arith.remsi"


@irdl_op_definition
class RemUIOp(BinaryOperation):
    name = "arith.remui"


@irdl_op_definition
class AndIOp(BinaryOperation):
    name = "arith.andi"


@irdl_op_definition
class OrIOp(BinaryOperation):
    name = "arith.ori"


@irdl_op_definition
class XOrIOp(BinaryOperation):
    name = "arith.xori"


@irdl_op_definition
class ShLIOp(WrappingOperation):
    name = "arith.shli"


@irdl_op_definition
class ShRSIOp(ExactOperation):
    name = "arith.shrsi"


@irdl_op_definition
class ShRUIOp(ExactOperation):
    name = "arith.shrui"


@irdl_op_definition
class MinSIOp(BinaryOperation):
    name = "arith.minsi"


@irdl_op_definition
class MinUIOp(BinaryOperation):
    name = "arith.minui"


@irdl_op_definition
class MaxSIOp(BinaryOperation):
    name = "arith.maxsi"


@irdl_op_definition
class MaxUIOp(BinaryOperation):
    name = "arith.maxui"


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
class NegFOp(UnaryOperation):
    name = "arith.negf"
    fastmath = opt_prop_def()


@irdl_op_definition
class ExtSIOp(UnaryOperation):
    name = "arith.extsi"


@irdl_op_definition
class ExtUIOp(UnaryOperation):
    name = "arith.extui"
    non_negative = opt_prop_def(prop_name="nonNeg")


@irdl_op_definition
class TruncIOp(UnaryOperation):
    name = "arith.trunci"
    overflow_flags = opt_prop_def(prop_name="overflowFlags")


@irdl_op_definition
class ExtFOp(UnaryOperation):
    name = "arith.extf"
    fastmath = opt_prop_def()


@irdl_op_definition
class SIToFPOp(UnaryOperation):
    name = "arith.sitofp"


@irdl_op_definition
class UIToFPOp(UnaryOperation):
    name = "arith.uitofp"
    non_negative = opt_prop_def(prop_name="nonNeg")


@irdl_op_definition
class FPToSIOp(UnaryOperation):
    name = "arith.fptosi"


@irdl_op_definition
class FPToUIOp(UnaryOperation):
    name = "arith.fptoui"


@irdl_op_definition
class BitcastOp(UnaryOperation):
    name = "arith.bitcast"


@irdl_op_definition
class IndexCastOp(UnaryOperation):
    name = "arith.index_cast"


@irdl_op_definition
class IndexCastUIOp(UnaryOperation):
    name = "arith.index_castui"


@irdl_op_definition
class TruncFOp(UnaryOperation):
    name = "arith.truncf"
    rounding_mode = opt_prop_def(prop_name="roundingmode")
    fastmath = opt_prop_def()


@irdl_op_definition
class CmpIOp(BinaryOperation):
    """`predicate` is a number: see `INTEGER_PREDICATES`."""

    name = "arith.cmpi"
    predicate = prop_def(builtin.IntegerAttr)


@irdl_op_definition
class CmpFOp(BinaryOperation):
    """`predicate` is a number: see `FLOAT_PREDICATES`."""

    name = "arith.cmpf"
    predicate = prop_def(builtin.IntegerAttr)
    fastmath = opt_prop_def()


@irdl_op_definition
class SelectOp(IRDLOperation):
    name = "arith.select"
    condition = operand_def()
    true_value = operand_def()
    false_value = operand_def()
    result = result_def()


@irdl_op_definition
class AddUIExtendedOp(IRDLOperation):
    name = "arith.addui_extended"
    lhs = operand_def()
    rhs = operand_def()
    sum = result_def()
    overflow = result_def()


@irdl_op_definition
class MulSIExtendedOp(IRDLOperation):
    name = "arith.mulsi_extended"
    lhs = operand_def()
    rhs = operand_def()
    low = result_def()
    high = result_def()


@irdl_op_definition
class MulUIExtendedOp(IRDLOperation):
    name = "arith.mului_extended"
    lhs = operand_def()
    rhs = operand_def()
    low = result_def()
    high = result_def()


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
