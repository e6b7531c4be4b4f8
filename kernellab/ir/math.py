"""The `math` dialect: elementary functions, on scalars and on tensors."""

from __future__ import annotations

import sys

from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoMemoryEffect

from kernellab.ir.operation import (
    ElementwiseUnary,
    FloatBinaryOperation,
    FloatUnaryOperation,
    dialect,
)
from kernellab.ir.traits import Elementwise, ReadsIntegers


@irdl_op_definition
class AbsFOp(FloatUnaryOperation):
    name = "math.absf"


@irdl_op_definition
class AbsIOp(ElementwiseUnary):
    name = "math.absi"
    traits = traits_def(ReadsIntegers(signed=True))


@irdl_op_definition
class CeilOp(FloatUnaryOperation):
    name = "math.ceil"


@irdl_op_definition
class FloorOp(FloatUnaryOperation):
    name = "math.floor"


@irdl_op_definition
class TruncOp(FloatUnaryOperation):
    name = "math.trunc"


@irdl_op_definition
class RoundEvenOp(FloatUnaryOperation):
    name = "math.roundeven"


@irdl_op_definition
class CosOp(FloatUnaryOperation):
    name = "math.cos"


@irdl_op_definition
class SinOp(FloatUnaryOperation):
    name = "math.sin"


@irdl_op_definition
class TanOp(FloatUnaryOperation):
    name = "math.tan"


@irdl_op_definition
class TanhOp(FloatUnaryOperation):
    name = "math.tanh"


@irdl_op_definition
class ExpOp(FloatUnaryOperation):
    name = "math.exp"


@irdl_op_definition
class Exp2Op(FloatUnaryOperation):
    name = "math.exp2"


@irdl_op_definition
class ExpM1Op(FloatUnaryOperation):
    name = "math.expm1"


@irdl_op_definition
class LogOp(FloatUnaryOperation):
    name = "math.log"


@irdl_op_definition
class Log2Op(FloatUnaryOperation):
    name = "math.log2"


@irdl_op_definition
class Log10Op(FloatUnaryOperation):
    name = "math.log10"


@irdl_op_definition
class Log1pOp(FloatUnaryOperation):
    name = "math.log1p"


@irdl_op_definition
class SqrtOp(FloatUnaryOperation):
    name = "math.sqrt"


@irdl_op_definition
class RsqrtOp(FloatUnaryOperation):
    name = "math.rsqrt"


@irdl_op_definition
class ErfOp(FloatUnaryOperation):
    name = "math.erf"


@irdl_op_definition
class IsNaNOp(FloatUnaryOperation):
    name = "math.isnan"


@irdl_op_definition
class IsInfOp(FloatUnaryOperation):
    name = "math.isinf"


@irdl_op_definition
class PowFOp(FloatBinaryOperation):
    name = "math.powf"


@irdl_op_definition
class Atan2Op(FloatBinaryOperation):
    name = "math.atan2"


@irdl_op_definition
class CopySignOp(FloatBinaryOperation):
    name = "math.copysign"


@irdl_op_definition
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
