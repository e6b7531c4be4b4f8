"""Triton's types as xDSL attributes, and what NumPy calls their elements."""

from __future__ import annotations

from collections.abc import Sequence
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
    """`!tt.ptr<pointee>` or `!tt.ptr<pointee, address space>`;
    the address space is 1, global memory, unless given.
    """

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


@irdl_attr_definition
class MemDescType(ParametrizedAttribute, TypeAttribute):
    """`!ttg.memdesc<2x128x64xf16, #shared, #smem, mutable, 3x128x64>`:
    a tile in shared or tensor memory.

    The last shape is the allocation's, where this is a part of it.
    """

    name = "ttg.memdesc"
    dimensions: builtin.ArrayAttr[builtin.IntAttr]
    element_type: Attribute
    encoding: Attribute
    memory_space: Attribute
    mutability: builtin.IntAttr
    """1 where the tile may be written."""
    allocation: builtin.ArrayAttr[builtin.IntAttr]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in elements."""
        return tuple(size.data for size in self.dimensions)

    @property
    def allocated_shape(self) -> tuple[int, ...]:
        """The shape of the whole allocation, in elements."""
        return tuple(size.data for size in self.allocation)

    @property
    def is_mutable(self) -> bool:
        """Whether the tile may be written."""
        return bool(self.mutability.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            dimensions, element_type = parser.parse_ranked_shape()
            parser.parse_punctuation(",")
            encoding = parser.parse_attribute()
            parser.parse_punctuation(",")
            space = parser.parse_attribute()
            mutable, allocation = 0, dimensions
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("mutable"):
                    mutable = 1
                else:
                    allocation = parser.parse_dimension_list()
        return [
            _sizes(dimensions),
            element_type,
            encoding,
            space,
            builtin.IntAttr(mutable),
            _sizes(allocation),
        ]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_dimension_list(self.shape)
            printer.print_string("x")
            printer.print_attribute(self.element_type)
            printer.print_string(", ")
            printer.print_attribute(self.encoding)
            printer.print_string(", ")
            printer.print_attribute(self.memory_space)
            if self.is_mutable:
                printer.print_string(", mutable")
            if self.allocation != self.dimensions:
                printer.print_string(", ")
                printer.print_dimension_list(self.allocated_shape)


def _sizes(numbers: Sequence[int]) -> builtin.ArrayAttr[builtin.IntAttr]:
    return builtin.ArrayAttr(builtin.IntAttr(number) for number in numbers)


@irdl_attr_definition
class AsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """`!ttg.async.token`: orders asynchronous copies and their waits."""

    name = "ttg.async.token"


@irdl_attr_definition
class TensorDescType(ParametrizedAttribute, TypeAttribute):
    """`!tt.tensordesc<tensor<128x64xf16>>` (Triton 3.6, 3.7) or `!tt.tensordesc<128x64xf16>`:
    a tile of a matrix in memory.
    """

    name = "tt.tensordesc"
    block: builtin.TensorType[Attribute]
    """Shape, element type and, once it is decided, the layout in shared memory of one block."""
    spelling: builtin.StringAttr
    """ "tensor<" where the text has that word, else "<"."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            written = parser.parse_optional_type()
            if isinstance(written, builtin.TensorType):
                return [written, builtin.StringAttr("tensor<")]
            dimensions, element_type = parser.parse_ranked_shape()
            encoding: Attribute = builtin.NoneAttr()
            if parser.parse_optional_punctuation(","):
                encoding = parser.parse_attribute()
        block = builtin.TensorType(element_type, dimensions, encoding)
        return [block, builtin.StringAttr("<")]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if self.spelling.data == "tensor<":
                printer.print_attribute(self.block)
                return
            printer.print_dimension_list(self.block.get_shape())
            printer.print_string("x")
            printer.print_attribute(self.block.element_type)
            if not isinstance(self.block.encoding, builtin.NoneAttr):
                printer.print_string(", ")
                printer.print_attribute(self.block.encoding)


@irdl_attr_definition
class ResidueType(ParametrizedAttribute, TypeAttribute):
    """The type of residues, which stand for floats in exact runs (`equality/residues.py`). Triton
    has no such type.
    """

    name = "kernellab.residue"
    stands_for: Attribute
    """The type of the floats."""


_DTYPES: dict[str, numpy.dtype] = {
    "i1": numpy.dtype(numpy.bool_),
    "i8": numpy.dtype(numpy.int8),
    "i16": numpy.dtype(numpy.int16),
    "i32": numpy.dtype(numpy.int32),
    "i64": numpy.dtype(numpy.int64),
    "si8": numpy.dtype(numpy.int8),
    "si16": numpy.dtype(numpy.int16),
    "si32": numpy.dtype(numpy.int32),
    "si64": numpy.dtype(numpy.int64),
    "ui8": numpy.dtype(numpy.int8),
    "ui16": numpy.dtype(numpy.int16),
    "ui32": numpy.dtype(numpy.int32),
    "ui64": numpy.dtype(numpy.int64),
    "index": numpy.dtype(numpy.int64),
    "f16": numpy.dtype(numpy.float16),
    "f32": numpy.dtype(numpy.float32),
    "f64": numpy.dtype(numpy.float64),
    "bf16": numpy.dtype(ml_dtypes.bfloat16),
    "f8E5M2": numpy.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FN": numpy.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2FNUZ": numpy.dtype(ml_dtypes.float8_e5m2fnuz),
    "!ttg.async.token": numpy.dtype(numpy.int8),
    "f8E4M3FNUZ": numpy.dtype(ml_dtypes.float8_e4m3fnuz),
}


def element_type(type: Attribute) -> Attribute:
    """The type of the elements of a tensor or of a memory descriptor; any other type is its own."""
    if isinstance(type, MemDescType):
        return type.element_type
    return type.get_element_type() if isinstance(type, builtin.TensorType) else type


def shape(type: Attribute) -> tuple[int, ...]:
    """The shape of a tensor or of a memory descriptor; () for a scalar or a pointer."""
    if isinstance(type, MemDescType):
        return type.shape
    return type.get_shape() if isinstance(type, builtin.TensorType) else ()


def is_pointer(type: Attribute) -> bool:
    """True for a pointer and for a tensor of pointers."""
    return isinstance(element_type(type), PointerType)


@cache
def dtype(type: Attribute) -> numpy.dtype:
    """The NumPy (or ml_dtypes) dtype of a value's elements.

    Integers are signless in MLIR, but those of a descriptor; they are all stored signed. A pointer
    is an int64; an asynchronous token, which holds nothing, an int8. Raises KeyError for a type
    that NumPy has no word for.
    """
    element = element_type(type)
    if isinstance(element, PointerType):
        return _DTYPES["i64"]
    if isinstance(element, ResidueType):
        return _RESIDUES
    return _DTYPES[str(element)]


_RESIDUES = numpy.dtype(numpy.complex128)


def bit_width(element: Attribute) -> int:
    """Bits of a scalar type; a pointer has 64."""
    if isinstance(element, PointerType):
        return 64
    if isinstance(element, ResidueType):
        return bit_width(element.stands_for)
    if isinstance(element, builtin.IntegerType):
        width: int = element.width.data
        return width
    if isinstance(element, builtin.AnyFloat):
        return int(element.size * 8)
    # xDSL has no class for 8-bit and narrower floats:
    # their names begin with the width, as in f8E5M2.
    digits = "".join(c for c in str(element).lstrip('!f"')[:2] if c.isdigit())
    return int(digits) if digits else 8
