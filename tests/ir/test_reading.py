"""Everything that MLIR prints is read: aliases, locations, literals, resources, unknown ops."""

import re
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import builtin
from xdsl.dialects.builtin import UnregisteredAttr, f16
from xdsl.utils.exceptions import ParseError

from kernellab import triton_api
from kernellab.errors import KernelLabError
from kernellab.ir import mlir, syntax, types
from kernellab.ir.operations import locate
from kernellab.ir.syntax import read_attribute, read_module, write_module
from kernellab.records import Target
from tests.corpus.loader import compile_entry, entry
from tests.support import versions

SM_90 = Target("cuda", "90")
NEVER = re.compile("(?!)")
"""Matches nothing."""


def only_op(text: str) -> Any:
    return read_module(text).body.block.first_op


def constants(text: str) -> list[tuple[float, ...]]:
    values: list[tuple[float, ...]] = []
    for op in read_module(text).walk():
        if isinstance(op, mlir.ConstantOp):
            value = op.value
            assert isinstance(value, builtin.DenseIntOrFPElementsAttr)
            values.append(tuple(value.get_values()))
    return values


def test_aliases_may_come_in_any_order_and_name_one_another() -> None:
    text = """
"test.op"() : () -> tensor<4xf32, #slice> loc(#loc2)
#slice = #ttg.slice<{dim = 0, parent = #blocked}>
#blocked = #ttg.blocked<{order = [1, 0]}>
#loc2 = loc("x"(#loc1))
#loc1 = loc(callsite(#loc at #loc3))
#loc3 = loc("b.py":7:0)
#loc = loc("a.py":3:4)
"""
    op = only_op(text)
    (type,) = op.result_types
    assert isinstance(type, builtin.TensorType)
    assert isinstance(type.encoding, types.SliceEncoding)
    assert type.encoding.parent == read_attribute("#ttg.blocked<{order = [1, 0]}>")
    location = locate(op.location)
    assert location.name == "x"
    columns = (4, 0) if versions.COLUMNS_FROM_ONE else (5, 1)
    assert [(frame.file, frame.line) for frame in location.frames] == [("a.py", 3), ("b.py", 7)]
    assert tuple(frame.column for frame in location.frames) == columns


def test_aliases_in_strings_are_left_alone() -> None:
    op = only_op(
        '"test.op"() {text = "#loc and #shared"} : () -> () loc(#loc)\n#loc = loc(unknown)\n'
    )
    assert op.attributes["text"] == builtin.StringAttr("#loc and #shared")


def test_aliases_inside_unknown_attributes_are_spelled_out() -> None:
    text = (
        "#inner = #ttg.blocked<{order = [0]}>\n"
        '"test.op"() {a = #new.layout<of = #inner, "#inner">} : () -> ()\n'
    )
    attribute = only_op(text).attributes["a"]
    assert str(attribute) == '#new.layout<of = #ttg.blocked<{order = [0]}>, "#inner">'


def test_fused_locations_and_their_metadata() -> None:
    op = only_op('"test.op"() : () -> () loc(fused<"inlined">["a.py":1:2, "b.py":3:4])\n')
    assert str(op.location) == 'loc(fused<"inlined">["a.py":1:2, "b.py":3:4])'
    assert locate(op.location).frames[0].line == 1


def test_locations_of_block_arguments() -> None:
    text = (
        '"test.op"() ({\n^bb0(%x: i32 loc("n"("a.py":1:2)), %y: i32 loc(unknown)):\n}) : () -> ()\n'
    )
    arguments = only_op(text).regions[0].block.args
    assert [locate(argument.location).name for argument in arguments] == ["n", None]


def test_hexadecimal_elements_are_bits_of_a_float_and_values_of_an_integer() -> None:
    text = """"arith.constant"() <{value = dense<[0xFF800000, 1.0, 0x40490FDB]> : tensor<3xf32>}> : () -> tensor<3xf32>
"arith.constant"() <{value = dense<0xFC00> : tensor<2xf16>}> : () -> tensor<2xf16>
"arith.constant"() <{value = dense<[0x10, 3]> : tensor<2xi32>}> : () -> tensor<2xi32>
"""
    pi = float(numpy.float32(numpy.pi))
    infinity = float("inf")
    assert constants(text) == [(-infinity, 1.0, pi), (-infinity, -infinity), (16, 3)]


def test_unknown_ops_types_and_attributes_stay_generic() -> None:
    text = '%0 = "ttx.new"() <{kind = 3 : i32}> {a = #ttx.b<c>} : () -> !ttx.type<4 -> 5>\n'
    op = only_op(text)
    assert isinstance(op, builtin.UnregisteredOp)
    assert op.op_name.data == "ttx.new"
    assert str(op.result_types[0]) == "!ttx.type<4 -> 5>"


def test_resources_come_along() -> None:
    text = """module { tt.func public @f() {
%0 = arith.constant dense_resource<weights> : tensor<2xi32>
tt.return } }
{-# dialect_resources: { builtin: { weights: "0x040000000100000002000000" } } #-}"""
    generic = triton_api.generic_form(text, SM_90)
    returned = str(triton_api.parse_mlir(write_module(read_module(generic)), SM_90))
    assert "0x040000000100000002000000" in returned


def test_what_is_no_mlir_is_refused_with_its_place() -> None:
    with pytest.raises(ParseError, match="1:"):
        read_module('"test.op"( : () -> ()')


def test_what_mlir_refuses_is_said_in_its_words() -> None:
    with pytest.raises(KernelLabError, match="line 2, column 13: use of undeclared SSA value"):
        triton_api.parse_mlir("module {\n  tt.return %x : i32\n}", SM_90)


def test_long_chains_of_aliases_are_read_in_their_time() -> None:
    chain = [f'#loc{number} = loc("n"(#loc{number - 1}))' for number in range(1, 400)]
    text = "\n".join(
        ['"test.op"() : () -> () loc(#loc399)', *reversed(chain), '#loc0 = loc("a.py":1:2)']
    )
    assert locate(only_op(text).location).frames[0].file == "a.py"


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("type", "kind"), [("f32", numpy.float32), ("f16", numpy.float16), ("f64", numpy.float64)]
)
@given(data=st.data())
def test_every_float_comes_back_through_both_printers(type, kind, data):
    width = numpy.dtype(kind).itemsize * 8
    value = data.draw(st.floats(width=width, allow_nan=False))
    module = read_module(
        f'"arith.constant"() <{{value = dense<"0x{kind(value).tobytes().hex()}"> : '
        f"tensor<1x{type}>}}> : () -> tensor<1x{type}>\n"
    )
    generic = triton_api.generic_form(write_module(module), SM_90)
    assert constants(generic) == [(value,)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["matmul_tma", "attention_forward"])
@pytest.mark.parametrize("stage", ["ttgir", "ttir"])
def test_texts_that_are_matched_whole_give_what_xdsls_tokens_give(name, stage, monkeypatch) -> None:
    """The parser takes an op on one line, and the alias of a location, without reading tokens."""
    stages = compile_entry(entry(name), "sm_90", record="stages").stages
    text = triton_api.generic_form(stages[stage].text, SM_90)
    read = read_module(text)
    for pattern in ("_OPERATION_TEXT", "_LOCATION_DEFINITION", "_PROPERTIES_TEXT"):
        monkeypatch.setattr(syntax, pattern, NEVER)
    by_tokens = read_module(text)
    assert read.is_structurally_equivalent(by_tokens)
    assert str(read) == str(by_tokens)
    places = [[str(op.location) for op in module.walk()] for module in (read, by_tokens)]
    assert places[0] == places[1]


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
    assert (encoding.dim, encoding.parent) == (1, read_attribute(BLOCKED))


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
    assert isinstance(memory, types.MemDescType)
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
    assert isinstance(memory, types.MemDescType)
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
    assert isinstance(descriptor, types.TensorDescType)
    assert descriptor.block.get_shape() == (128, 64)
    assert descriptor.block.element_type == f16
    assert str(descriptor) == text


def test_pointers_and_tokens() -> None:
    assert isinstance(read_attribute("!ttg.async.token"), types.AsyncTokenType)
    pointer = read_attribute("!tt.ptr<f16, 3>")
    assert isinstance(pointer, types.PointerType)
    assert (pointer.pointee, pointer.address_space.data) == (f16, 3)
    assert str(pointer) == "!tt.ptr<f16, 3>"


def test_a_broken_encoding_is_refused_at_its_place() -> None:
    with pytest.raises(ParseError):
        read_attribute("#ttg.blocked<{sizePerThread = }>")
