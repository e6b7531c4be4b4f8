"""Triton's types and layouts as xDSL attributes, and the NumPy dtypes of their elements."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Generic, TypeAlias, TypeVar, cast, overload

import ml_dtypes
import numpy
from xdsl.dialects import builtin
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute
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

    The last shape is the allocation's, if this is a part of it.
    """

    name = "ttg.memdesc"
    dimensions: builtin.ArrayAttr[builtin.IntAttr]
    element_type: Attribute
    encoding: Attribute
    memory_space: Attribute
    mutability: builtin.IntAttr
    """1 if the tile may be written."""
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
    def cta_splits(self) -> int:
        """The parts into which a cluster's CTAs split the tile; those with the same part count
        once.
        """
        fields = self.encoding.data if isinstance(self.encoding, Encoding) else {}
        splits = cast("tuple[int, ...]", fields.get("CTASplitNum", ()))  # up to Triton 3.6
        return math.prod(splits) << sum(any(basis) for basis in self._cta_bases)

    def is_shared_with(self, cta: int) -> bool:
        """Whether a CTA of a cluster has the same part of the tile as the first."""
        bases = self._cta_bases
        return bool(bases) and not any(
            any(basis) for number, basis in enumerate(bases) if cta >> number & 1
        )

    @property
    def _cta_bases(self) -> Bases:
        fields = self.encoding.data if isinstance(self.encoding, Encoding) else {}
        return cast(Bases, fields.get("CGALayout", fields.get("block", ())))

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
            _sizes(dimensions), element_type, encoding, space, builtin.IntAttr(mutable),
            _sizes(allocation),
        ]  # fmt: skip

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
    """ "tensor<" if the text has that word, else "<"."""

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
    **{
        f"{sign}i{bits}": numpy.dtype(f"int{bits}")
        for sign in ("", "s", "u")
        for bits in (8, 16, 32, 64)
    },
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


def is_float(value: SSAValue) -> bool:
    """True for tiles and scalars of a floating-point type; not for pointers and descriptors."""
    if is_pointer(value.type) or isinstance(value.type, TensorDescType | MemDescType):
        return False
    return dtype(value.type).kind not in "iub"


@cache
def dtype(type: Attribute) -> numpy.dtype:
    """The NumPy (or ml_dtypes) dtype of a value's elements.

    Integers are signless in MLIR, except a descriptor's; all are stored as signed. A pointer
    is an int64; an asynchronous token, which holds nothing, an int8. Raises KeyError for a type
    without a NumPy dtype.
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


# Triton's layouts as typed attributes: `#ttg.blocked<{sizePerThread = [1, 4], ...}>` and its
# kin.
#
# An encoding keeps every field that MLIR printed, in order, known or not, so that it prints as it
# was read with every version of Triton; a class names the fields that code reads. To add an
# encoding, add a class with MLIR's name and its fields.

Value: TypeAlias = "bool | int | str | Attribute | tuple[Value, ...] | Fields"
"""The values of a field; a keyword without quotes is a str, a string is a StringAttr."""
Bases = tuple[tuple[int, ...], ...]
"""Basis vectors of a linear layout: where the powers of two of one input dimension lead."""

Content = TypeVar("Content")


class Fields(Mapping[str, "Value"]):
    """Field name -> value, in order; unlike a dict it can be hashed, as attributes have to be."""

    def __init__(self, items: Mapping[str, Value] | tuple[tuple[str, Value], ...] = ()) -> None:
        self._values = dict(items)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        return f"Fields({self._values!r})"


class Field(Generic[Content]):
    """One field of an encoding under its Python name; `default` is what MLIR leaves out."""

    def __init__(self, name: str, default: Content | None = None) -> None:
        self.name = name
        self.default = default

    @overload
    def __get__(self, encoding: None, owner: type) -> Field[Content]: ...
    @overload
    def __get__(self, encoding: Encoding, owner: type) -> Content: ...
    def __get__(self, encoding: Encoding | None, owner: type) -> Field[Content] | Content:
        if encoding is None:
            return self
        if self.name in encoding.data:
            return cast(Content, encoding.data[self.name])
        if self.default is None:
            raise AttributeError(f"{encoding} has no field {self.name!r}")
        return self.default


class Encoding(Data[Fields], ABC):
    """A layout or a memory space; `data` holds every field by MLIR's name."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Fields:
        """The fields between `<{` and `}>`."""
        if parser.parse_optional_punctuation("<") is None:
            return Fields()
        fields = _parse_fields(parser)
        parser.parse_punctuation(">")
        return fields

    def print_parameter(self, printer: Printer) -> None:
        if self.data:
            with printer.in_angle_brackets():
                _print_fields(printer, self.data)


class UnbracedEncoding(Encoding, ABC):
    """An encoding whose fields are between `<` and `>` without braces."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Fields:
        """The fields between `<` and `>`."""
        items = parser.parse_optional_comma_separated_list(
            parser.Delimiter.ANGLE, lambda: _parse_field(parser)
        )
        return Fields(tuple(items or ()))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data.items(), lambda item: _print_field(printer, *item))


def _parse_fields(parser: AttrParser) -> Fields:
    items = parser.parse_comma_separated_list(parser.Delimiter.BRACES, lambda: _parse_field(parser))
    return Fields(tuple(items))


def _parse_field(parser: AttrParser) -> tuple[str, Value]:
    name = parser.parse_identifier()
    parser.parse_punctuation("=")
    return name, _parse_value(parser)


def _parse_value(parser: AttrParser) -> Value:
    items = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_value(parser)
    )
    if items is not None:
        return tuple(items)
    if (boolean := parser.parse_optional_boolean()) is not None:
        return boolean
    if (integer := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return integer
    if (string := parser.parse_optional_str_literal()) is not None:
        return StringAttr(string)
    fields = parser.parse_optional_comma_separated_list(
        parser.Delimiter.BRACES, lambda: _parse_field(parser)
    )
    if fields is not None:
        return Fields(tuple(fields))
    if (keyword := parser.parse_optional_identifier()) is not None:
        return keyword
    return parser.parse_attribute()


def _print_fields(printer: Printer, fields: Fields) -> None:
    with printer.in_braces():
        printer.print_list(fields.items(), lambda item: _print_field(printer, *item))


def _print_field(printer: Printer, name: str, value: Value) -> None:
    printer.print_string(f"{name} = ")
    _print_value(printer, value)


def _print_value(printer: Printer, value: Value) -> None:
    match value:
        case bool():
            printer.print_string("true" if value else "false")
        case int() | str():
            printer.print_string(str(value))
        case tuple():
            with printer.in_square_brackets():
                printer.print_list(value, lambda item: _print_value(printer, item))
        case Fields():
            _print_fields(printer, value)
        case _:
            printer.print_attribute(value)


# Registers: which lane of which warp holds which element


@irdl_attr_definition
class BlockedEncoding(Encoding):
    """Each thread holds a small box of neighbors, each warp a box of threads,
    the program a box of warps.
    """

    name = "ttg.blocked"
    size_per_thread = Field[tuple[int, ...]]("sizePerThread")
    threads_per_warp = Field[tuple[int, ...]]("threadsPerWarp")
    warps_per_cta = Field[tuple[int, ...]]("warpsPerCTA")
    order = Field[tuple[int, ...]]("order")


@irdl_attr_definition
class LinearEncoding(Encoding):
    """A linear layout, by its basis vectors."""

    name = "ttg.linear"
    register = Field[Bases]("register")
    lane = Field[Bases]("lane")
    warp = Field[Bases]("warp")
    block = Field[Bases]("block")


@irdl_attr_definition
class SliceEncoding(Encoding):
    """The parent layout without one dimension: the result of a reduction along it, the operand of
    expand_dims.
    """

    name = "ttg.slice"
    dim = Field[int]("dim")
    parent = Field[Attribute]("parent")


@irdl_attr_definition
class DotOperandEncoding(Encoding):
    """A matmul's operand in registers: `operand` 0 is A, 1 is B;
    `parent` is the layout of the result.
    """

    name = "ttg.dot_op"
    operand = Field[int]("opIdx")
    parent = Field[Attribute]("parent")
    k_width = Field[int]("kWidth", 0)


@irdl_attr_definition
class NvidiaMmaEncoding(Encoding):
    """The result of mma.sync (version 2) or wgmma (version 3) in registers."""

    name = "ttg.nvidia_mma"
    version_major = Field[int]("versionMajor")
    version_minor = Field[int]("versionMinor")
    warps_per_cta = Field[tuple[int, ...]]("warpsPerCTA")
    instruction_shape = Field[tuple[int, ...]]("instrShape")


@irdl_attr_definition
class AmdMfmaEncoding(Encoding):
    """The result of a CDNA matrix instruction in registers."""

    name = "ttg.amd_mfma"
    version = Field[int]("version")
    warps_per_cta = Field[tuple[int, ...]]("warpsPerCTA")
    instruction_shape = Field[tuple[int, ...]]("instrShape")
    is_transposed = Field[bool]("isTransposed")


@irdl_attr_definition
class AmdWmmaEncoding(Encoding):
    """The result of an RDNA matrix instruction in registers."""

    name = "ttg.amd_wmma"
    version = Field[int]("version")
    is_transposed = Field[bool]("isTranspose", False)
    instruction_shape = Field[tuple[int, ...]]("instrShape", (16, 16, 16))


# Shared memory: which element is at which offset


@irdl_attr_definition
class SwizzledSharedEncoding(Encoding):
    """Rows whose vectors are permuted by XOR, against bank conflicts."""

    name = "ttg.swizzled_shared"
    vector = Field[int]("vec")
    per_phase = Field[int]("perPhase")
    max_phase = Field[int]("maxPhase")
    order = Field[tuple[int, ...]]("order")


@irdl_attr_definition
class NvmmaSharedEncoding(Encoding):
    """What TMA writes and wgmma and tcgen05 read; the swizzle's width is in bytes."""

    name = "ttg.nvmma_shared"
    swizzling_byte_width = Field[int]("swizzlingByteWidth")
    transposed = Field[bool]("transposed")
    element_bit_width = Field[int]("elementBitWidth")
    fp4_padded = Field[bool]("fp4Padded", False)


@irdl_attr_definition
class AmdRotatingSharedEncoding(Encoding):
    """Rows whose vectors are rotated, against bank conflicts."""

    name = "ttg.amd_rotating_shared"
    vector = Field[int]("vec")
    per_phase = Field[int]("perPhase")
    max_phase = Field[int]("maxPhase")
    order = Field[tuple[int, ...]]("order")


@irdl_attr_definition
class SharedLinearEncoding(Encoding):
    """A linear layout of shared memory, by its basis vectors, and its alignment in bytes."""

    name = "ttg.shared_linear"
    offset = Field[Bases]("offset")
    block = Field[Bases]("block")
    alignment = Field[int]("alignment", 16)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Fields:
        """The bases between `<{` and `}`, and the fields after them."""
        with parser.in_angle_brackets():
            items = list(_parse_fields(parser).items())
            while parser.parse_optional_punctuation(","):
                items.append(_parse_field(parser))
        return Fields(tuple(items))

    def print_parameter(self, printer: Printer) -> None:
        bases = {name: self.data[name] for name in self.data if name != "alignment"}
        with printer.in_angle_brackets():
            _print_fields(printer, Fields(bases))
            printer.print_string(f", alignment = {self.alignment}")


_PADDINGS = "paddings"


@irdl_attr_definition
class PaddedSharedEncoding(Encoding):
    """A layout with unused elements: `padding` of them after every `interval` elements."""

    name = "ttg.padded_shared"
    paddings = Field[tuple[tuple[int, int], ...]](_PADDINGS)
    order = Field[tuple[int, ...]]("order", ())
    shape = Field[tuple[int, ...]]("shape", ())
    offset = Field[Bases]("offset", ())
    block = Field[Bases]("block", ())

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Fields:
        """`[interval:+padding, ...] {fields}`."""

        def padding() -> tuple[int, int]:
            interval = parser.parse_integer()
            parser.parse_punctuation(":")
            parser.parse_characters("+")
            return interval, parser.parse_integer()

        with parser.in_angle_brackets():
            paddings = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, padding)
            fields = _parse_fields(parser)
        return Fields({_PADDINGS: tuple(paddings), **fields})

    def print_parameter(self, printer: Printer) -> None:
        fields = {name: self.data[name] for name in self.data if name != _PADDINGS}
        pairs = ", ".join(f"{interval}:+{padding}" for interval, padding in self.paddings)
        with printer.in_angle_brackets():
            printer.print_string(f"[{pairs}] ")
            _print_fields(printer, Fields(fields))


# Tensor memory (Blackwell), and memory spaces


@irdl_attr_definition
class TensorMemoryEncoding(UnbracedEncoding):
    """A tile in tensor memory: blocks of `block_m` rows (lanes) and `block_n` columns."""

    name = "ttng.tensor_memory_encoding"
    block_m = Field[int]("blockM")
    block_n = Field[int]("blockN")
    column_stride = Field[int]("colStride", 1)


@irdl_attr_definition
class TensorMemoryScalesEncoding(UnbracedEncoding):
    """The scales of a scaled matmul in tensor memory."""

    name = "ttng.tensor_memory_scales_encoding"


@irdl_attr_definition
class SharedMemorySpace(Encoding):
    """Shared memory (AMD: LDS), as a memory descriptor's space."""

    name = "ttg.shared_memory"


@irdl_attr_definition
class TensorMemorySpace(Encoding):
    """Tensor memory, as a memory descriptor's space."""

    name = "ttng.tensor_memory"


def encodings_of(name: str) -> list[type[Encoding]]:
    """Every class here whose name in MLIR starts with that dialect's."""
    return [
        member
        for member in globals().values()
        if isinstance(member, type)
        and issubclass(member, Encoding)
        and getattr(member, "name", "").startswith(f"{name}.")
    ]
