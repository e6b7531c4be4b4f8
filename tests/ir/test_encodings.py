"""Encodings and types: fields by name, and the text that MLIR printed comes
back letter by letter.
"""

import pytest
from xdsl.dialects.builtin import UnregisteredAttr, f16
from xdsl.utils.exceptions import ParseError

from kernellab.ir import types
from kernellab.ir.syntax import read_attribute
from kernellab.ir.types import AsyncTokenType, MemDescType, PointerType, TensorDescType

BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], "
    "order = [1, 0]}>"
)
MMA = (
    "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = "
    "[16, 64, 16]}>"
)
NVMMA = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"

FIELDS = [
    (BLOCKED, {"size_per_thread": (1, 8), "threads_per_warp": (4, 8), "warps_per_cta": (4, 1)}),
    (BLOCKED, {"order": (1, 0)}),
    (
        "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], "
        "order = [0], CGALayout = [[0]]}>", {"order": (0,)},
    ),
    (
        "#ttg.linear<{register = [[0, 1], [8, 0]], lane = [[1, 0], [0, 2]], warp = [], "
        "block = []}>", {"register": ((0, 1), (8, 0)), "warp": ()},
    ),
    (f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 2}}>", {"operand": 1, "k_width": 2}),
    (MMA, {"version_major": 3, "instruction_shape": (16, 64, 16), "warps_per_cta": (4, 1)}),
    (
        "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], "
        "isTransposed = true}>",
        {"version": 3, "is_transposed": True, "instruction_shape": (32, 32, 8)},
    ),
    (
        "#ttg.amd_wmma<{version = 1, isTranspose = false, ctaLayout = {warp = [[0, 1], [1, 0]]}}>",
        {"version": 1, "is_transposed": False, "instruction_shape": (16, 16, 16)},
    ),
    (SWIZZLED, {"vector": 8, "per_phase": 1, "max_phase": 8}),
    (NVMMA, {"swizzling_byte_width": 128, "transposed": True, "element_bit_width": 16}),
    (NVMMA, {"fp4_padded": False}),
    (
        "#ttg.shared_linear<{offset = [[0, 1], [1, 0]], block = []}, alignment = 128>",
        {"offset": ((0, 1), (1, 0)), "alignment": 128},
    ),
    (
        "#ttg.padded_shared<[64:+4, 128:+8] {order = [1, 0], shape = [64, 64]}>",
        {"paddings": ((64, 4), (128, 8)), "shape": (64, 64)},
    ),
    (
        "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>",
        {"block_m": 128, "block_n": 64, "column_stride": 1},
    ),
    *((text, {}) for text in (
        "#ttng.tensor_memory_scales_encoding<>", "#ttg.shared_memory", "#ttng.tensor_memory",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), FIELDS, ids=[text.split("<")[0] for text, _ in FIELDS])
def test_encodings_have_fields_and_print_as_they_were(text, fields):
    encoding = read_attribute(text)
    assert isinstance(encoding, types.Encoding)
    assert {name: getattr(encoding, name) for name in fields} == fields
    assert str(encoding) == text
    assert read_attribute(str(encoding)) == encoding
    assert hash(read_attribute(text)) == hash(encoding)


def test_a_slice_has_its_parent_typed() -> None:
    encoding = read_attribute(f"#ttg.slice<{{dim = 1, parent = {BLOCKED}}}>")
    assert isinstance(encoding, types.SliceEncoding)
    assert encoding.dim == 1
    assert encoding.parent == read_attribute(BLOCKED)


def test_a_field_that_is_not_there_is_an_error_that_shows_the_encoding() -> None:
    encoding = read_attribute("#ttg.blocked<{order = [0]}>")
    assert isinstance(encoding, types.BlockedEncoding)
    with pytest.raises(
        AttributeError, match=r"#ttg\.blocked<\{order = \[0\]\}> has no field 'sizePerThread'"
    ):
        encoding.size_per_thread


def test_an_unknown_encoding_stays_opaque_and_comes_back() -> None:
    text = '#ttg.of_tomorrow<{strange = "a > b", nested = [1, <2>]} then : 3>'
    encoding = read_attribute(text)
    assert isinstance(encoding, UnregisteredAttr)
    assert str(encoding) == text


def test_a_memory_descriptor_has_its_shape_space_and_allocation() -> None:
    text = f"!ttg.memdesc<128x64xf16, {NVMMA}, #ttg.shared_memory, mutable, 3x128x64>"
    memory = read_attribute(text)
    assert isinstance(memory, MemDescType)
    assert memory.shape == (128, 64)
    assert memory.allocated_shape == (3, 128, 64)
    assert memory.element_type == f16
    assert memory.is_mutable
    assert isinstance(memory.memory_space, types.SharedMemorySpace)
    assert isinstance(memory.encoding, types.NvmmaSharedEncoding)
    assert str(memory) == text


def test_a_memory_descriptor_without_more_is_all_of_its_allocation() -> None:
    text = f"!ttg.memdesc<64xi64, {SWIZZLED}, #ttg.shared_memory>"
    memory = read_attribute(text)
    assert isinstance(memory, MemDescType)
    assert memory.allocated_shape == memory.shape == (64,)
    assert not memory.is_mutable
    assert str(memory) == text


@pytest.mark.parametrize(
    "text",
    [
        f"!tt.tensordesc<tensor<128x64xf16, {NVMMA}>>",
        f"!tt.tensordesc<128x64xf16, {NVMMA}>",
        "!tt.tensordesc<128x64xf16>",
    ],
)
def test_descriptors_of_every_version_of_triton(text):
    descriptor = read_attribute(text)
    assert isinstance(descriptor, TensorDescType)
    assert descriptor.block.get_shape() == (128, 64)
    assert descriptor.block.element_type == f16
    assert str(descriptor) == text


def test_pointers_and_tokens() -> None:
    assert isinstance(read_attribute("!ttg.async.token"), AsyncTokenType)
    pointer = read_attribute("!tt.ptr<f16, 3>")
    assert isinstance(pointer, PointerType)
    assert (pointer.pointee, pointer.address_space.data) == (f16, 3)
    assert str(pointer) == "!tt.ptr<f16, 3>"


def test_a_broken_encoding_is_refused_at_its_place() -> None:
    with pytest.raises(ParseError):
        read_attribute("#ttg.blocked<{sizePerThread = }>")
