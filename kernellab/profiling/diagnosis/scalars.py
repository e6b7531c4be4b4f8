"""Integers of a module that are known before it runs: constants, arguments of the launch, and
what follows from them; and how addresses go from one element of a tile to the next.

One program stands for all: the one in the grid's middle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.modules.layout_flow import entering
from kernellab.compiler.modules.structure import attribute, integer, kind
from kernellab.ir.locations import argument_name
from kernellab.ir.types import shape

Steps = tuple[int | None, ...]
"""By how many elements a value changes along each dimension of its tile; None where no one can say
before it runs."""

_ARITHMETIC: Mapping[str, Callable[[int, int], int | None]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: int(a / b) if b else None,
    "arith.divui": lambda a, b: a // b if b else None,
    "arith.remsi": lambda a, b: a - b * int(a / b) if b else None,
    "arith.remui": lambda a, b: a % b if b else None,
    "arith.ceildivsi": lambda a, b: -(-a // b) if b else None,
    "arith.minsi": min,
    "arith.minui": min,
    "arith.maxsi": max,
    "arith.maxui": max,
    "arith.shli": lambda a, b: a << b if 0 <= b < 64 else None,
    "arith.shrsi": lambda a, b: a >> b if 0 <= b < 64 else None,
    "arith.shrui": lambda a, b: a >> b if 0 <= b < 64 else None,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
}
_SAME = (
    "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.splat", "tt.unsplat",
    "tt.broadcast", "tt.expand_dims", "ttg.convert_layout", "tt.reshape", "arith.bitcast",
)  # fmt: skip
_COMPARED: Mapping[int, Callable[[int, int], bool]] = {
    0: lambda a, b: a == b,
    1: lambda a, b: a != b,
    2: lambda a, b: a < b,
    3: lambda a, b: a <= b,
    4: lambda a, b: a > b,
    5: lambda a, b: a >= b,
}
"""Predicates of arith.cmpi that ask for numbers with a sign."""
_DEEPEST = 60
_ROUNDS = 32
"""A divisor from which on the lanes of a warp mostly have one quotient."""


class Scalars:
    """The integers of a module that are known from a launch.

    Args:
        arguments: integers among the launch's arguments, by the kernel's names.
        grid: its three sizes; None where it is not known.
    """

    def __init__(
        self, arguments: Mapping[str, int], grid: tuple[int, int, int] | None = None
    ) -> None:
        self._arguments = arguments
        self._grid = grid
        self._numbers: dict[SSAValue, int | None] = {}
        self._steps: dict[SSAValue, Steps] = {}

    def number(self, value: SSAValue, depth: int = 0) -> int | None:
        """The one value of a scalar, or of all elements of a tile; None where no one knows."""
        if value not in self._numbers:
            self._numbers[value] = None  # of what leads back to itself
            number = None if depth > _DEEPEST else self._number(value, depth + 1)
            self._numbers[value] = number
        return self._numbers[value]

    def _number(self, value: SSAValue, depth: int) -> int | None:
        if isinstance(value, BlockArgument):
            return self._of_argument(value, depth)
        if not isinstance(value, OpResult):
            return None
        op = value.op
        name = kind(op)
        if name == "arith.constant":
            return _constant(op)
        if name == "tt.get_program_id":
            return None if self._grid is None else (self._grid[integer(op, "axis") or 0] - 1) // 2
        if name == "tt.get_num_programs":
            return None if self._grid is None else self._grid[integer(op, "axis") or 0]
        if name in _SAME and op.operands:
            return self.number(op.operands[0], depth)
        if name in _ARITHMETIC and len(op.operands) == 2:
            left, right = (self.number(operand, depth) for operand in op.operands)
            return None if left is None or right is None else _ARITHMETIC[name](left, right)
        if name == "arith.cmpi":
            return self._comparison(op, depth)
        if name == "arith.select":
            chosen = self.number(op.operands[0], depth)
            return None if chosen is None else self.number(op.operands[1 if chosen else 2], depth)
        return None

    def _comparison(self, op: Operation, depth: int) -> int | None:
        compared = _COMPARED.get(integer(op, "predicate") or 0)
        left, right = (self.number(operand, depth) for operand in op.operands)
        if compared is None or left is None or right is None:
            return None
        return int(compared(left, right))

    def _of_argument(self, value: BlockArgument, depth: int) -> int | None:
        parent = value.block.parent_op()
        if parent is None or kind(parent) == "tt.func":
            return self._arguments.get(argument_name(value) or "")
        if kind(parent) == "scf.for" and value.index == 0:
            start, step = (self.number(parent.operands[at], depth) for at in (0, 2))
            turns = self.turns(parent)
            if start is None or step is None or turns is None:
                return None
            return start + step * (turns // 2)
        if kind(parent) == "scf.for" and value.index + 2 < len(parent.operands):
            return self.number(parent.operands[value.index + 2], depth)
        return None

    def turns(self, loop: Operation) -> int | None:
        """How many iterations a loop takes; None where no one knows."""
        if kind(loop) != "scf.for" or len(loop.operands) < 3:
            return None
        start, end, step = (self.number(operand) for operand in loop.operands[:3])
        if start is None or end is None or not step:
            return None
        return max(-((start - end) // step), 0)

    # From one element to the next

    def steps(self, value: SSAValue, depth: int = 0) -> Steps:
        """By how many elements a tile's values change along each of its dimensions."""
        if value not in self._steps:
            rank = len(shape(value.type))
            self._steps[value] = (None,) * rank
            if depth <= _DEEPEST:
                steps = self._steps_of(value, depth + 1)
                fits = steps is not None and len(steps) == rank
                self._steps[value] = steps if fits and steps is not None else (None,) * rank
        return self._steps[value]

    def _steps_of(self, value: SSAValue, depth: int) -> Steps | None:
        rank = len(shape(value.type))
        if rank == 0:
            return ()
        if isinstance(value, BlockArgument):
            handed = entering(value)
            return self.steps(handed[0], depth) if handed else None
        if not isinstance(value, OpResult):
            return None
        op = value.op
        name = kind(op)
        rule = _STEP_RULES.get(name)
        if rule is not None:
            return rule(self, op, depth)
        if self.number(value) is not None:
            return (0,) * rank
        if name == "scf.for" and value.index + 3 < len(op.operands):
            return self.steps(op.operands[value.index + 3], depth)
        return None


def _constant(op: Operation) -> int | None:
    written = attribute(op, "value")
    if isinstance(written, builtin.IntegerAttr):
        return int(written.value.data)
    if isinstance(written, builtin.DenseIntOrFPElementsAttr) and written.is_splat():
        number: Any = written.get_values()[0]
        return number if isinstance(number, int) else None
    return None


_StepRule = Callable[[Scalars, Operation, int], "Steps | None"]


def _of_sum(scalars: Scalars, op: Operation, depth: int) -> Steps:
    sign = -1 if kind(op) == "arith.subi" else 1
    left, right = (scalars.steps(operand, depth) for operand in op.operands)
    return tuple(
        None if a is None or b is None else a + sign * b for a, b in zip(left, right, strict=False)
    )


def _of_product(scalars: Scalars, op: Operation, depth: int) -> Steps:
    """A step times a number; where both sides vary along a dimension, no one can say."""
    products: list[int | None] = []
    sides = [scalars.steps(operand, depth) for operand in op.operands]
    numbers = [scalars.number(operand) for operand in op.operands]
    for a, b in zip(*sides, strict=False):
        if a == 0 and b == 0:
            products.append(0)
        elif b == 0 and a is not None and numbers[1] is not None:
            products.append(a * numbers[1])
        elif a == 0 and b is not None and numbers[0] is not None:
            products.append(b * numbers[0])
        else:
            products.append(None)
    return tuple(products)


def _of_shift(scalars: Scalars, op: Operation, depth: int) -> Steps:
    by = scalars.number(op.operands[1])
    return tuple(
        0 if step == 0 else None if step is None or by is None or not 0 <= by < 32 else step << by
        for step in scalars.steps(op.operands[0], depth)
    )


def _of_quotient(scalars: Scalars, op: Operation, depth: int) -> Steps:
    """Steps are lost to rounding: all but a few neighbors have the same quotient, or, of a small
    divisor, they are that much closer.
    """
    by = scalars.number(op.operands[1])
    return tuple(_quotient(step, by) for step in scalars.steps(op.operands[0], depth))


def _quotient(step: int | None, by: int | None) -> int | None:
    if step is None or step == 0:
        return step
    if by is None or by >= _ROUNDS:
        return 0 if abs(step) <= 1 else None
    if by <= 0:
        return None
    closer = -(-abs(step) // by)
    return closer if step > 0 else -closer


def _of_expansion(scalars: Scalars, op: Operation, depth: int) -> Steps:
    before, axis = list(scalars.steps(op.operands[0], depth)), integer(op, "axis") or 0
    return (*before[:axis], 0, *before[axis:])


def _of_broadcast(scalars: Scalars, op: Operation, depth: int) -> Steps:
    sizes = shape(op.operands[0].type)
    before = scalars.steps(op.operands[0], depth)
    return tuple(0 if size == 1 else step for size, step in zip(sizes, before, strict=False))


def _of_transposition(scalars: Scalars, op: Operation, depth: int) -> Steps | None:
    order, before = attribute(op, "order"), scalars.steps(op.operands[0], depth)
    if not isinstance(order, builtin.DenseArrayBase):
        return None
    return tuple(before[int(place)] for place in order.get_values())


def _of_choice(scalars: Scalars, op: Operation, depth: int) -> Steps:
    """Of a bound, `tl.minimum(i, n - 1)`, or a choice: that of the side that moves."""
    sides = [scalars.steps(operand, depth) for operand in op.operands[-2:]]
    return tuple(
        a if a == b else b if a == 0 else a if b == 0 else None
        for a, b in zip(*sides, strict=False)
    )


_STEP_RULES: Mapping[str, _StepRule] = {
    "tt.make_range": lambda _scalars, _op, _depth: (1,),
    "tt.splat": lambda _scalars, op, _depth: (0,) * len(shape(op.results[0].type)),
    "arith.addi": _of_sum,
    "arith.subi": _of_sum,
    "tt.addptr": _of_sum,
    "arith.muli": _of_product,
    "arith.shli": _of_shift,
    "arith.divsi": _of_quotient,
    "arith.divui": _of_quotient,
    "arith.minsi": _of_choice,
    "arith.maxsi": _of_choice,
    "arith.minui": _of_choice,
    "arith.maxui": _of_choice,
    "arith.select": _of_choice,
    "tt.expand_dims": _of_expansion,
    "tt.broadcast": _of_broadcast,
    "tt.trans": _of_transposition,
    **dict.fromkeys(
        (
            "arith.remsi", "arith.remui", "arith.extsi", "arith.extui", "arith.trunci",
            "arith.index_cast", "ttg.convert_layout", "tt.bitcast", "arith.bitcast",
        ),
        # A remainder keeps the steps of a tile that does not wrap.
        lambda scalars, op, depth: scalars.steps(op.operands[0], depth),
    ),
}  # fmt: skip
