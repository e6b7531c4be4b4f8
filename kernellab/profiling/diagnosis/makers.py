"""What values are made of, followed backward through a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.modules.layout_flow import entering
from kernellab.compiler.modules.structure import kind


def made_of(value: SSAValue) -> Iterable[SSAValue]:
    """Return the operands of the operation that makes a value, or what a block's argument takes."""
    if isinstance(value, BlockArgument):
        return entering(value)
    return value.op.operands if isinstance(value, OpResult) else ()


def reached(
    values: Iterable[SSAValue], before: Callable[[SSAValue], Iterable[SSAValue]] = made_of
) -> Iterator[SSAValue]:
    """Yield some values and all that they are made of, each once, as `before` follows one."""
    waiting = list(values)
    seen = set(waiting)
    while waiting:
        value = waiting.pop()
        yield value
        for each in before(value):
            if each not in seen:
                seen.add(each)
                waiting.append(each)


def maker(value: SSAValue, *through: str) -> Operation | None:
    """Return the operation that makes a value, seen through operations of some kinds; None where
    the value is a block's argument.
    """
    made = value.owner
    while isinstance(made, Operation) and kind(made) in through and made.operands:
        made = made.operands[0].owner
    return made if isinstance(made, Operation) else None
