"""Binding a call and specializing it: the result must be what Triton itself makes of it."""

import ml_dtypes
import numpy
import pytest
import torch
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.language import str_to_ty
from triton.runtime import jit
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from kernellab.compiler.arguments import StatedType, parse_signature, parse_type, tensor_of
from kernellab.compiler.binding import bind
from kernellab.compiler.kernels import assume
from kernellab.compiler.targets import DEFAULT_TARGET, parse_target
from kernellab.errors import ArgumentError, OptionError
from kernellab.triton_api import type_spellings
from tests.kernels import basic, parameters

X = torch.arange(64, dtype=torch.float32)
NAMES = ("x_ptr", "y_ptr", "z_ptr", "n")


class DriverOf:
    """What a launch asks of a GPU's driver before it compiles."""

    def __init__(self, target):
        self.target = GPUTarget(
            target.backend,
            int(target.arch) if target.backend == "cuda" else target.arch,
            64 if target.arch.startswith("gfx9") else 32,
        )

    def get_current_device(self):
        return 0

    def get_current_stream(self, _device):
        return 0

    def get_current_target(self):
        return self.target


def launched_by_triton(monkeypatch, kernel, target, args, keywords):
    """What JITFunction.run hands to the compiler, for a GPU that is not there."""
    seen = {}

    def note(*, compile, **rest):
        seen.update(compile)
        return True  # Taken care of: do not compile.

    fresh = JITFunction(
        kernel.fn,
        do_not_specialize=kernel.do_not_specialize,
        do_not_specialize_on_alignment=kernel.do_not_specialize_on_alignment,
    )
    monkeypatch.setattr(driver, "_active", DriverOf(target))
    monkeypatch.setattr(knobs.runtime, "jit_cache_hook", note)
    # The hook's other argument, JSON, cannot hold a JIT function on Triton 3.6.
    monkeypatch.setattr(jit, "serialize_specialization_data", lambda *_: "")
    fresh[(1,)](*args, **keywords)
    return seen["signature"], seen["constants"], seen["configs"][0]


CALLS = {
    "aligned": (basic.add, (X, X, X, 64), {"BLOCK": 16}),
    "misaligned": (basic.add, (X, X[1:], X, 63), {"BLOCK": 16, "num_warps": 2}),
    "one": (basic.add, (X, X, X, 1, 16), {}),
    "large": (basic.add, (X, X, X, 2**40, 16), {}),
    "unsigned": (basic.add, (X, X, X, 2**63, 16), {}),
    "negative": (basic.add, (X, X, X, -16, 16), {}),
    "half": (basic.add, (X.half(), X.bfloat16(), X.to(torch.float8_e5m2), 4, 16), {}),
    "bool tensor": (basic.add, (X > 3, X.int(), X.to(torch.uint16), 4, 16), {}),
    "not specialized": (parameters.unspecialized, (X, 16, 16), {}),
    "annotated": (parameters.annotated, (X, 16, 2), {}),
    "kinds": (parameters.many_kinds,
        (X, (X, 16, 1, (X[1:], None)), True, 1, 2.5, None, parameters.double, tl.float32), {}),
    "other kinds": (parameters.many_kinds,
        (X, (X,), False, 1, 0.0, X, parameters.double, tl.float16), {"num_stages": 4}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("target", ["sm_75", "sm_90", "gfx942", "gfx1201"])
def test_values_are_specialized_as_triton_does(monkeypatch, name, target):
    kernel, args, keywords = CALLS[name]
    target = parse_target(target)
    signature, constants, attributes = launched_by_triton(
        monkeypatch, kernel, target, args, keywords
    )
    call = bind(kernel, args, keywords, target)
    assert dict(call.specialization.signature) == signature
    assert list(call.specialization.constants.items()) == list(constants.items())
    assert dict(call.specialization.attributes) == attributes
    assert call.options == {name: keywords[name] for name in keywords if name != "BLOCK"}
    assert set(call.specialization.origins.values()) == {"launch"}
    assert not call.stated


def test_values_come_by_name_with_defaults_applied():
    call = bind(parameters.annotated, (X, 16, 2), {}, DEFAULT_TARGET)
    assert list(call.values) == ["x_ptr", "n", "eps", "BLOCK"]
    assert call.values["x_ptr"] is X
    assert call.values["BLOCK"] == 16


def test_warm_calls_share_the_specialization_and_equal_constants_do_not():
    def key(block):
        return bind(basic.add, (X, X, X, 5), {"BLOCK": block}, DEFAULT_TARGET)

    assert key(16).specialization is key(16).specialization
    assert key(16).key == key(16).key
    # 1 == True == 1.0 in Python; compiled in, they are three kernels. So are 0.0 and -0.0.
    alike = [key(value) for value in (1, True, 1.0, 0.0, -0.0, (1, 2), (True, 2))]
    assert len({call.key for call in alike}) == len(alike)
    written = ["1", "True", "1.0", "0.0", "-0.0", "(1, 2)", "(True, 2)"]
    assert [repr(call.specialization.constants[(4,)]) for call in alike] == written


def test_a_constant_that_cannot_be_hashed_is_bound_and_not_remembered():
    call = bind(basic.add, (X, X, X, 5), {"BLOCK": [16]}, DEFAULT_TARGET)
    assert call.key is None
    assert call.specialization.constants == {(4,): [16]}


def test_kernel_parameters_win_over_options_and_options_can_be_named():
    call = bind(parameters.option_name, (X,), {"num_warps": 8}, DEFAULT_TARGET)
    assert (call.values["num_warps"], call.options) == (8, {})
    call = bind(
        parameters.option_name, (X,), {"num_warps": 8}, DEFAULT_TARGET, options={"num_warps": 2}
    )
    assert (call.values["num_warps"], call.options) == (8, {"num_warps": 2})


def test_any_parameter_can_be_made_a_constant():
    call = bind(basic.add, (X, X, X), {"BLOCK": 16}, DEFAULT_TARGET, constants={"n": 5})
    assert call.specialization.signature["n"] == "constexpr"
    assert call.specialization.constants == {(3,): 5, (4,): 16}


@pytest.mark.parametrize(
    ("dtype", "torch_type"),
    [
        (numpy.float32, torch.float32), (numpy.float16, torch.float16), (numpy.int8, torch.int8),
        (numpy.uint16, torch.uint16), (numpy.bool_, torch.bool),
        (ml_dtypes.bfloat16, torch.bfloat16), (ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn),
        (ml_dtypes.float8_e4m3fnuz, torch.float8_e4m3fnuz),
        (ml_dtypes.float8_e5m2, torch.float8_e5m2),
        (ml_dtypes.float8_e5m2fnuz, torch.float8_e5m2fnuz),
    ],
)  # fmt: skip
def test_arrays_become_tensors_over_the_same_memory(dtype, torch_type):
    array = numpy.ones((4, 6), dtype)[::2, 1::2]
    tensor = tensor_of(array)
    assert (tensor.dtype, tensor.data_ptr()) == (torch_type, array.ctypes.data)
    assert tensor.stride() == (12, 2)
    tensor.zero_()
    assert not array.astype(numpy.float32).any()
    assert tensor.element_size() == array.itemsize


def test_numpy_arrays_and_scalars_bind_as_tensors_and_numbers_do():
    array = numpy.zeros(64, numpy.float32)
    numbers = bind(basic.add, (array, array, array, numpy.int64(64)), {"BLOCK": 16}, DEFAULT_TARGET)
    plain = bind(basic.add, (X, X, X, 64), {"BLOCK": 16}, DEFAULT_TARGET)
    assert numbers.specialization.signature == plain.specialization.signature
    assert numbers.values["n"] == 64
    assert numbers.values["x_ptr"].data_ptr() == array.ctypes.data
    assert not numbers.readonly


def test_a_read_only_array_is_marked(recwarn):
    array = numpy.zeros(64, numpy.float32)
    array.flags.writeable = False
    call = bind(basic.add, (array, X, X, 64), {"BLOCK": 16}, DEFAULT_TARGET)
    assert call.readonly == frozenset({"x_ptr"})
    assert call.values["x_ptr"].data_ptr() == array.ctypes.data
    assert not recwarn.list


def test_types_specialize_as_the_values_they_stand_for():
    types = bind(
        basic.add, ("*fp32:16", "*fp32", "*fp32:16", "i32:16"), {"BLOCK": 16}, DEFAULT_TARGET
    )
    values = bind(basic.add, (X, X[1:], X, 64), {"BLOCK": 16}, DEFAULT_TARGET)
    for part in ("signature", "constants", "attributes"):
        assert getattr(types.specialization, part) == getattr(values.specialization, part)
    assert (types.stated, types.values["y_ptr"]) == (frozenset(NAMES), "*fp32")
    assert types.specialization.origins == {**dict.fromkeys(NAMES, "signature"), "BLOCK": "launch"}


def test_types_and_values_mix():
    call = bind(basic.add, (X, "*fp16", X, "i32:1"), {"BLOCK": 16}, DEFAULT_TARGET)
    signature = "*fp32", "*fp16", "*fp32", "constexpr", "constexpr"
    assert call.specialization.signature == dict(zip((*NAMES, "BLOCK"), signature))
    assert call.specialization.constants == {(3,): 1, (4,): 16}
    assert call.values["n"] == 1


def test_annotations_stand_in_where_no_value_is_given():
    call = bind(parameters.annotated, (), {}, DEFAULT_TARGET)
    assert call.specialization.signature == {
        "x_ptr": "*fp32", "n": "i64", "eps": "fp32", "BLOCK": "constexpr",
    }  # fmt: skip
    assert call.specialization.origins["x_ptr"] == "annotation"


def test_every_type_is_one_that_triton_reads():
    for name in set(type_spellings().values()):
        for text in (name, f"*{name}", f"*k{name}"):
            kind, _ = parse_type(text)
            assert kind == text
            assert str_to_ty(kind, None) is not None


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("*fp16:16", ("*fp16", "D")),
        ("*fp16", ("*fp16", "")),
        (" * float16 : 16 ", ("*fp16", "D")),
        ("*tl.bfloat16", ("*bf16", "")),
        ("*kfp8e4nv", ("*kfp8e4nv", "")),
        ("i32:1", ("constexpr", 1)),
        ("int64:16", ("i64", "D")),
        ("float", ("fp32", None)),
        ("i1", ("u1", None)),
        ("*i1", ("*u1", "")),
        ("tensordesc<fp16[128,64]>", ("tensordesc<fp16[128,64]>", None)),
    ],
)
def test_type_strings(text, parsed):
    assert parse_type(text) == parsed


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("*f32", "Did you mean '*fp32'?"), ("float23", "Did you mean 'fp32'?"),
        ("fp8e4", "Did you mean 'fp8e4"), ("", "Types are"), ("nvTmaDesc", "Types are"),
        ("*fp32:8", '":16" says'), ("fp32:16", '":16" says'), ("*fp32:1", '":16" says'),
        ("tensordesc<fp16>", "block shape"),
    ],
)  # fmt: skip
def test_a_type_string_that_does_not_parse(text, suggestion, messages):
    with pytest.raises(ArgumentError) as refused:
        parse_type(text)
    caught = refused.value
    assert caught.problem == messages
    assert suggestion in caught.advice


def test_signatures_of_the_command_line():
    types, named = parse_signature("*fp32:16, *fp16 ,i32, tensordesc<fp16[64,32]>, 1024, BLOCK=32")
    written = ["*fp32:16", "*fp16", "i32", "tensordesc<fp16[64,32]>", "1024"]
    assert [str(entry) for entry in types] == written
    assert (types[0], types[4]) == (StatedType("*fp32:16"), 1024)
    assert named == {"BLOCK": 32}
    _, named = parse_signature("n=i32, y=*fp32")
    assert named == {"n": StatedType("i32"), "y": StatedType("*fp32")}
    assert parse_signature("") == ([], {})


@pytest.mark.parametrize("text", ["*fp32,,i32", "n=i32,*fp32", "*fp32,i23"])
def test_signatures_that_do_not_parse(text, raised):
    raised(ArgumentError, parse_signature, text)


def test_assumed_types_follow_from_what_the_kernel_does():
    roles = {"out": "*fp32:16", "source": "*fp32:16", "start": "i32", "steps": "i32",
             "rate": "fp32", "seed": "i32"}  # fmt: skip
    assert {name: str(stated) for name, stated in assume(parameters.roles).items()} == roles
    strides = assume(basic.matmul)
    pointers = [name for name, stated in strides.items() if str(stated).startswith("*")]
    assert pointers == ["a_ptr", "b_ptr", "c_ptr"]
    assert str(strides["stride_bk"]) == "i32"


def test_assumed_types_say_so_and_leave_known_parameters_alone():
    types = {"x_ptr": "*fp32", "eps": "fp32"}
    stated = {name: StatedType(kind, "annotation") for name, kind in types.items()}
    assert assume(parameters.annotated, given={"n"}) == stated
    call = bind(basic.add, (), {"BLOCK": 16, **assume(basic.add)}, DEFAULT_TARGET)
    assert call.specialization.origins == {**dict.fromkeys(NAMES, "assumption"), "BLOCK": "launch"}


def test_a_descriptor_is_not_assumed(messages):
    with pytest.raises(ArgumentError) as refused:
        assume(parameters.through_descriptor)
    caught = refused.value
    assert caught.problem == messages


COMPLEX = X.to(torch.complex64)
BACKWARDS = numpy.zeros(4, numpy.float32)[::-1]
FOREIGN = numpy.zeros(4, ">f4")


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((X, X), {}), ((X, X, X, 5), {}), ((X, X, X, 5, 16, 4), {}),
        (([1.0, 2.0], X, X, 5, 16), {}), ((X, X, X, 5, 16), {"x_ptr": X}),
        ((COMPLEX, X, X, 5, 16), {}), ((X, X, X, 2**65, 16), {}), ((X, X, X, {}, 16), {}),
        ((FOREIGN, X, X, 5, 16), {}), ((X, BACKWARDS, X, 5, 16), {}),
        ((X, StatedType("*fp32"), X, 5, StatedType("i32")), {}),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(args, keywords, raised):
    error = raised(ArgumentError, bind, basic.add, args, keywords, DEFAULT_TARGET)


@pytest.mark.parametrize(
    "keywords",
    [
        {"BLOK": 16},
        {"BLOCK": 16, "num_warp": 4},
        {"BLOCK": 16, "num_warps": 3},
        {"BLOCK": 16, "num_warps": "4"},
    ],
)
def test_options_that_do_not_exist_or_do_not_fit(keywords, raised):
    error = raised(OptionError, bind, basic.add, (X, X, X, 5), keywords, DEFAULT_TARGET)


def test_options_are_the_targets_own(raised):
    amd = parse_target("gfx942")
    call = bind(basic.add, (X, X, X, 5, 16), {"waves_per_eu": 2}, amd)
    assert call.options == {"waves_per_eu": 2}
    error = raised(OptionError, bind, basic.add, (X, X, X, 5, 16), {"maxnreg": 64}, amd)
    raised(
        OptionError, bind, basic.add, (X, X, X, 5, 16), {"arch": "sm80"}, DEFAULT_TARGET,
        match="arch",
    )  # fmt: skip


def test_an_annotation_is_not_contradicted():
    with pytest.raises(ArgumentError) as caught:
        bind(parameters.annotated, ("*fp16", "i64", "fp32"), {}, DEFAULT_TARGET)
    assert caught.value.problem == ("'x_ptr' of 'annotated' is annotated as '*fp32', got '*fp16'.")


def test_a_constant_must_be_a_parameter(messages):
    with pytest.raises(ArgumentError) as caught:
        bind(basic.add, (X, X, X, 5), {}, DEFAULT_TARGET, constants={"BLOK": 16})
    assert caught.value.problem == messages
    assert caught.value.advice.startswith("Did you mean 'BLOCK'?")
