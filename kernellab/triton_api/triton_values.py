"""What a name of a kernel stands for while Triton's front end reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triton.language import core


@dataclass(frozen=True)
class Operand:
    """A value of the IR: the operand of that number.

    Attributes:
        is_unsigned: the kernel's type is an unsigned integer, which the IR does not say.
    """

    number: int
    is_unsigned: bool


@dataclass(frozen=True)
class Group:
    """Several values under one name: a tuple, or an object with fields.

    Attributes:
        type_name: "tuple", "namedtuple", or the name of the object's class.
        parts: by position ("0", "1", ...) or field.
    """

    type_name: str
    parts: Mapping[str, Held]


@dataclass(frozen=True)
class Constant:
    """A Python object that is known while the kernel is compiled."""

    value: Any


Held = Operand | Group | Constant
"""What a name stands for."""


class Handles:
    """Values of the IR, as operands of one operation.

    Attributes:
        can_be_printed: whether `tt.print` takes all of them.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.can_be_printed = True

    def add(self, handle: Any) -> int:
        """The number of one more operand."""
        self.values.append(handle)
        return len(self.values) - 1


def held(value: Any, handles: Handles) -> Held:
    """What `value`, an entry of the front end's table of names, is;
    its values of the IR are added to `handles`.
    """
    if isinstance(value, core.constexpr):
        return Constant(value.value)
    if isinstance(value, core.tensor):
        if value.type.is_ptr() and value.type.element_ty.is_block():
            return Constant(_Unshown("a block pointer"))
        kind = value.type.scalar
        is_unsigned = kind.is_int_unsigned() and kind.primitive_bitwidth > 1
        return Operand(handles.add(value.handle), is_unsigned)
    if isinstance(value, core.tuple):
        fields = [
            name for name in getattr(value.type, "fields", None) or () if name
        ]  # 3.6: "" for none
        names = fields or [str(number) for number in range(len(value.values))]
        parts = {name: held(part, handles) for name, part in zip(names, value.values, strict=True)}
        return Group("namedtuple" if fields else "tuple", parts)
    if isinstance(value, core.tensor_descriptor_base):
        handles.can_be_printed = False
        return Operand(handles.add(value.handle), False)
    if isinstance(value, core.base_value):
        members = {n: v for n, v in vars(value).items() if isinstance(v, core.base_value)}
        return Group(type(value).__name__, {n: held(v, handles) for n, v in members.items()})
    return Constant(value)


@dataclass(frozen=True)
class _Unshown:
    """Stands for a value that has no picture in Python."""

    what: str

    def __repr__(self) -> str:
        return f"<{self.what}>"
