"""What an operation computes if its result is not rounded: its own lowering, evaluated with numbers
in float64.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, cast

import numpy
from xdsl.ir import Block, Operation, Region, SSAValue

from kernellab.interpreter import lowering, numerics, tiles
from kernellab.interpreter.codegen.emitter import RULES, Emitter
from kernellab.interpreter.codegen.expressions import Expression, variable
from kernellab.ir import mlir, tt
from kernellab.ir.types import shape

assert lowering  # importing it registers the rules

Function = Callable[..., Any]
"""Of arrays in float64, which broadcast."""

FunctionOf = Callable[[Operation], Function | None]
"""What an operation computes; None if that is not known."""


class _Results(Expression):
    """All results of an operation, which are not taken apart."""

    def item(self, _index: int) -> Expression:
        return self


class _Operands:
    """Takes the place of the emitter where one operation is lowered, without a kernel around it:
    its operands are the parameters of a function, and every type is float64.
    """

    def __init__(self, op: Operation, function_of: FunctionOf) -> None:
        self.names = [f"operand_{number}" for number in range(len(op.operands))]
        self.constants: dict[str, Any] = {}
        self._of = dict(zip(op.operands, self.names))
        self._function_of = function_of

    def __getitem__(self, value: SSAValue) -> Expression:
        return variable(self._of[value])

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        """The tile's shape."""
        return shape(value.type)

    def dtype(self, _value: SSAValue) -> Expression:
        """The type of all numbers."""
        return variable("numerics").FLOAT64

    def active_programs(self) -> None:
        """All programs take part."""

    def evaluate(self, _hint: str, expression: Expression) -> Expression:
        """The results of a call."""
        return _Results(expression.node)

    def combine_function(self, region: Region) -> Expression:
        """The function of a reduction or a scan."""
        self.constants["combine"] = function_of_elements(region.block, self._function_of)
        return variable("combine")


def unrounded(op: Operation, function_of: FunctionOf) -> Function | None:
    """Return the function of the operands, in float64, whose result an operation rounds.

    Args:
        function_of: what the operations compute that a reduction or a scan combines with.

    Returns:
        None for an operation that does not round, or combines with what is not known.
    """
    rule = RULES.get(type(op))
    if rule is None or not (rule.rounds or isinstance(op, _ROUND_INSIDE)):
        return None
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        if function_of_elements(op.combine.block, function_of) is None:
            return None
    operands = _Operands(op, function_of)
    lowered = rule.lower(op, cast(Emitter, operands))
    whole: Expression = lowered[0] if isinstance(lowered, tuple) else lowered
    text = f"lambda {', '.join(operands.names)}: {ast.unparse(whole.node)}"
    modules = {"numpy": numpy, "numerics": numerics, "products": numerics, "tiles": tiles}
    function: Function = eval(text, modules | operands.constants)
    return function


_ROUND_INSIDE = (tt.ReduceOp, tt.ScanOp, tt.DotOp, mlir.FmaOp)
"""Operations whose functions round by themselves, to the types that they are given."""


def function_of_elements(block: Block, function_of: FunctionOf) -> Function | None:
    """Return what the function of a reduction or a scan computes, a tuple; None if that is not
    known.
    """
    *inside, end = block.ops
    operations = [op for op in inside if not isinstance(op, mlir.ConstantOp)]
    functions = {op: function_of(op) for op in operations}
    used = {operand for op in (*operations, end) for operand in op.operands}
    from_outside = used - {*block.args} - {result for op in operations for result in op.results}
    numbers = {value: _constant(value) for value in from_outside}
    if None in functions.values() or None in numbers.values():
        return None

    def combined(*elements: Any) -> tuple[Any, ...]:
        values: dict[SSAValue, Any] = {**numbers, **dict(zip(block.args, elements))}
        for op, function in functions.items():
            assert function is not None, "functions that are not known were left out"
            values[op.results[0]] = function(*(values[operand] for operand in op.operands))
        return tuple(values[operand] for operand in end.operands)

    return combined


def _constant(value: SSAValue) -> float | None:
    """Return the number that a constant is; None for another value."""
    owner = value.owner
    number = getattr(owner.value, "value", None) if isinstance(owner, mlir.ConstantOp) else None
    return None if number is None else float(number.data)
