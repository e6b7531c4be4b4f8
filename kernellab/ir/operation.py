"""The shapes that many operations share: one operand, two operands,
and what an operation is called, and how a dialect is collected.

xDSL puts the operands of a base class after those of the class itself:
a class with operands inherits none.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from types import ModuleType

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import NoMemoryEffect

from kernellab.ir.traits import Elementwise, KeepsSign


class UnaryOperation(IRDLOperation, ABC):
    """One operand, one result."""

    operand = operand_def()
    result = result_def()


class BinaryOperation(IRDLOperation, ABC):
    """Two operands, one result."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()


class ElementwiseUnary(UnaryOperation, ABC):
    """A function of one number, for each element."""

    traits = traits_def(NoMemoryEffect(), Elementwise())


class ElementwiseBinary(BinaryOperation, ABC):
    """A function of two numbers, for each element."""

    traits = traits_def(NoMemoryEffect(), Elementwise())


class WrappingOperation(ElementwiseBinary, ABC):
    """Integer arithmetic that wraps, unless its flags promise that it does not."""

    traits = traits_def(KeepsSign())
    overflow_flags = opt_prop_def(prop_name="overflowFlags")


class ExactOperation(ElementwiseBinary, ABC):
    """A division or right shift, that may promise to leave no remainder."""

    is_exact = opt_prop_def(prop_name="isExact")


class FloatUnaryOperation(ElementwiseUnary, ABC):
    """A function of one floating-point number; `fastmath` says what a compiler may assume."""

    fastmath = opt_prop_def()


class FloatBinaryOperation(ElementwiseBinary, ABC):
    """A function of two floating-point numbers; `fastmath` says what a compiler may assume."""

    fastmath = opt_prop_def()


def operation_name(op: Operation) -> str:
    """An operation's name, "tt.load"; also of one that no class here stands for."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def dialect(name: str, module: ModuleType, attributes: Sequence[type[Attribute]] = ()) -> Dialect:
    """The dialect of every operation class that `module` defines under the prefix `name.`,
    and of the attributes and types given.
    """
    return Dialect(name, list(_operations(name, module)), list(attributes))


def _operations(name: str, module: ModuleType) -> Iterator[type[Operation]]:
    for member in vars(module).values():
        if isinstance(member, type) and issubclass(member, Operation):
            if getattr(member, "name", "").startswith(f"{name}."):
                yield member
