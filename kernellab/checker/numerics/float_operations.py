"""Kinds of float operations that messages and advice distinguish."""

from __future__ import annotations

from kernellab.ir import arith, math, tt

DIVISIONS = (arith.DivFOp, arith.RemFOp, tt.PreciseDivFOp, tt.ApproxDivFOp)
LOGARITHMS = (math.LogOp, math.Log2Op, math.Log10Op, math.Log1pOp)
ROOTS = (math.SqrtOp, math.RsqrtOp, tt.PreciseSqrtOp)
EXPONENTIALS = (math.ExpOp, math.Exp2Op, math.ExpM1Op)
