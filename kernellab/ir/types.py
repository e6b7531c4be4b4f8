"""Triton's types as xDSL attributes, and what NumPy calls their elements."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy
from xdsl.dialects import builtin
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`!tt.ptr<pointee>` or `!tt.ptr<pointee, address space>`; the address space is 1, global memory, unless given."""

    name = "tt.ptr"
    pointee: Attribute
    address_space: builtin.IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            address_space = 1
            if parser.parse_optional_punctuation(","):
                address_space = parser.parse_integer()
        return [pointee, builtin.IntAttr(address_space)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)
            if self.address_space.data != 1:
                printer.print_string(f", {self.address_space.data}")


_DTYPES: dict[str, numpy.dtype] = {
    "i1": numpy.dtype(numpy.bool_),
    "i8": numpy.dtype(numpy.int8),
    "i16": numpy.dtype(numpy.int16),
    "i32": numpy.dtype(numpy.int32),
    "i64": numpy.dtype(numpy.int64),
    "index": numpy.dtype(numpy.int64),
    "f16": numpy.dtype(numpy.float16),
    "f32": numpy.dtype(numpy.float32),
    "f64": numpy.dtype(numpy.float64),
    "bf16": numpy.dtype(ml_dtypes.bfloat16),
    "f8E5M2": numpy.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FN": numpy.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2FNUZ": numpy.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3FNUZ": numpy.dtype(ml_dtypes.float8_e4m3fnuz),
}


def element_type(type: Attribute) -> Attribute:
    """The type of a tensor's elements; any other type is its own."""
    return type.get_element_type() if isinstance(type, builtin.TensorType) else type


def shape(type: Attribute) -> tuple[int, ...]:
    """A tensor's shape; () for a scalar or a pointer."""
    return type.get_shape() if isinstance(type, builtin.TensorType) else ()


def is_pointer(type: Attribute) -> bool:
    """True for a pointer and for a tensor of pointers."""
    return isinstance(element_type(type), PointerType)


@cache
def dtype(type: Attribute) -> numpy.dtype:
    """The NumPy (or ml_dtypes) dtype of a value's elements.

    Integers are signless in MLIR; they are stored signed. A pointer is an int64. Raises KeyError for a type that NumPy has no word for.
    """
    element = element_type(type)
    if isinstance(element, PointerType):
        return _DTYPES["i64"]
    return _DTYPES[str(element)]
