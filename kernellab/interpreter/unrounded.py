"""What an operation on floats computes before its result is rounded: its own lowering, evaluated
with numbers in float64.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.interpreter import lowering, numerics
from kernellab.interpreter.codegen.emitter import RULES, Emitter
from kernellab.interpreter.codegen.expressions import Expression, variable

assert lowering  # importing it registers the rules

Function = Callable[..., Any]
"""Of arrays in float64, which broadcast."""


class _Operands:
    """Takes the place of the emitter where one operation is lowered, without a kernel around it:
    its operands are the parameters of a function.
    """

    def __init__(self, op: Operation) -> None:
        self.names = [f"operand_{number}" for number in range(len(op.operands))]
        self._of = dict(zip(op.operands, self.names))

    def __getitem__(self, value: SSAValue) -> Expression:
        return variable(self._of[value])


@lru_cache(maxsize=1024)
def unrounded(op: Operation) -> Function | None:
    """Return the function of the operands, in float64, whose result an operation rounds; None for
    an operation that does not round.
    """
    rule = RULES.get(type(op))
    if rule is None or not rule.rounds:
        return None
    operands = _Operands(op)
    expression = rule.lower(op, cast(Emitter, operands))
    parameters = ", ".join(operands.names)
    text = f"lambda {parameters}: {ast.unparse(expression.node)}"
    names = {"numpy": numpy, "numerics": numerics}
    function: Function = eval(text, names)
    return function
