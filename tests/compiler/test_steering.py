"""Pipelines edited by name, and IR texts as input: what runs, and where errors point."""

import os
import re
from typing import Any

import pytest

from kernellab.common import processes
from kernellab.compiler.machine_code.instructions import disassemble
from kernellab.compiler.passes import find_passes, guess_language
from kernellab.compiler.pipeline import compile
from kernellab.compiler.targets import SUPPORTED_TARGETS
from kernellab.errors import ArgumentError, CompileError, OptionError, WorkerError
from kernellab.records import Target
from kernellab.triton_api.pipeline import list_passes
from tests.corpus.loader import entry
from tests.kernels import basic, faulty
from tests.support.compiled import compiled

HOPPER = Target("cuda", "90")
MATMUL = entry("matmul_small")


def matmul(**keywords):
    return compiled(MATMUL.kernel, *MATMUL.types, constants=MATMUL.constants, **keywords)


@pytest.fixture(scope="module")
def whole():
    return matmul()


def labels(compilation):
    return [run.label for run in compilation.passes]


def instructions(cubin):
    """The instructions of a cubin, without their lines of source."""
    return re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(\S.*?)\s*$", disassemble(cubin), re.M)


@pytest.mark.parametrize("target", SUPPORTED_TARGETS, ids=str)
def test_the_list_of_passes_is_what_runs(target):
    listed = [call.label for call in list_passes(target, {})]
    compilation = compiled(basic.add, *("*fp32:16",) * 3, "i32", BLOCK=64, target=target)
    ran = [run.label for run in compilation.passes if run.op_counts_after]
    assert ran == ["source.front_end", *listed]


def test_a_name_means_all_runs_a_label_one():
    listed = list_passes(HOPPER, {})
    everywhere = [call.label for call in find_passes("canonicalizer", listed)]
    assert everywhere == [call.label for call in listed if call.name == "canonicalizer"]
    assert {label.split(".")[0] for label in everywhere} == {"ttir", "ttgir", "llir"}
    in_ttgir = [call.label for call in find_passes("ttgir.canonicalizer", listed)]
    assert in_ttgir == [label for label in everywhere if label.startswith("ttgir")]
    assert [c.label for c in find_passes("ttgir.canonicalizer#2", listed)] == [
        "ttgir.canonicalizer#2"
    ]
    assert [c.label for c in find_passes("coalesce#1", listed)] == ["ttgir.coalesce"]


@pytest.mark.parametrize(
    "edit",
    [
        {"skip": ["pipelin"]},
        {"skip": "ttir.coalesce"},
        {"stop_after": "coalesce#2"},
        {"pipeline": ["ttgir.coalesced"]},
    ],
)
def test_names_that_there_are_not(edit, raised):
    raised(OptionError, matmul, **edit)


@pytest.mark.slow
def test_skipping_a_pass(whole):
    skipped = matmul(skip=["pipeline"])
    assert labels(skipped) == [label for label in labels(whole) if label != "ttgir.pipeline"]
    assert "ttg.async_copy_global_to_local" in whole.stages["ttgir"].text
    assert "ttg.async_copy_global_to_local" not in skipped.stages["ttgir"].text
    assert skipped.resources.shared_bytes < whole.resources.shared_bytes
    assert skipped.source_map.lines("sass", "source", 20) is not None


@pytest.mark.slow
def test_a_skip_of_what_changes_nothing_changes_nothing(whole):
    """The kernel goes to the worker process as text: the result is that of the ordinary way."""
    unchanged = next(run.label for run in whole.passes if run.stage == "ttgir" and not run.changed)
    edited = matmul(skip=unchanged)
    assert edited.stages["ttgir"].text == whole.stages["ttgir"].text
    assert instructions(edited.stages["cubin"].content) == instructions(
        whole.stages["cubin"].content
    )
    assert (edited.resources, edited.options) == (whole.resources, whole.options)


def test_stopping_after_a_pass(whole, raised):
    stopped = matmul(stop_after="coalesce")
    assert labels(stopped) == labels(whole)[: labels(whole).index("ttgir.coalesce") + 1]
    assert list(stopped.stages) == ["source", "ttir", "ttgir"]
    assert stopped.stages["ttgir"].text == stopped.passes[-1].text.read()
    assert [run.op_counts_after for run in stopped.passes] == [
        run.op_counts_after for run in whole.passes[: len(stopped.passes)]
    ]
    raised(CompileError, lambda: stopped.resources)


@pytest.mark.slow
def test_stopping_after_a_stage_and_inside_the_llvm_dialect(whole):
    assert list(matmul(stop_after="ttgir").stages) == ["source", "ttir", "ttgir"]
    lowered = matmul(stop_after="to_llvmir").stages["llir"]
    assert lowered.language == "mlir"
    assert "llvm.func @matmul" in lowered.text


@pytest.mark.slow
def test_replacing_the_passes_of_a_stage(whole):
    names = [run.name for run in whole.passes if run.stage == "ttgir"]
    same = matmul(pipeline=[f"ttgir.{names[0]}", *names[1:]])
    assert same.stages["ttgir"].text == whole.stages["ttgir"].text
    short = ["ttgir.convert_to_ttgpuir", "coalesce", "remove_layout_conversions", "canonicalizer"]
    minimal = matmul(pipeline=[*short, "canonicalizer"], stop_after="ttgir")
    assert [label for label in labels(minimal) if label.startswith("ttgir")] == [
        *short[:1],
        *(f"ttgir.{name}" for name in short[1:]),
        "ttgir.canonicalizer#2",
    ]
    assert "#ttg.nvidia_mma" in whole.stages["ttgir"].text
    assert "#ttg.nvidia_mma" not in minimal.stages["ttgir"].text
    assert [run.label for run in minimal.passes if run.stage == "ttir"] == [
        run.label for run in whole.passes if run.stage == "ttir"
    ]


@pytest.mark.slow
def test_replacing_the_passes_of_a_stage_by_its_own_on_amd():
    """Passes of one name differ by backend: "to_llvmir", "accelerate_matmul", "pipeline"."""
    whole = matmul(target="gfx942")
    runs = [run for run in whole.passes if run.stage == "ttgir"]
    runs += [run for run in whole.passes if run.stage == "llir" and run.op_counts_after]
    pipeline = [f"{run.stage}.{run.name}#{run.occurrence}" for run in runs]
    same = matmul(target="gfx942", pipeline=pipeline)
    assert labels(same) == labels(whole)
    assert same.stages["ttgir"].text == whole.stages["ttgir"].text
    assert same.resources == whole.resources


def test_adding_a_pass_that_the_target_does_not_run():
    added = matmul(
        pipeline=["ttir.inliner", "canonicalizer", "cse", "ttir.triton_licm", "symbol_dce"],
        stop_after="ttir",
    )
    assert [run.label for run in added.passes][-2] == "ttir.triton_licm"
    with pytest.raises(CompileError, match="incompatible function arguments"):
        matmul(pipeline=["ttgir.convert_to_ttgpuir", "ttgir.warp_specialize"], stop_after="ttgir")


def test_giving_a_pass_other_arguments():
    one_warp = matmul(
        pipeline=[("ttgir.convert_to_ttgpuir", "cuda:90", 1, 32, 1), "coalesce"], stop_after="ttgir"
    )
    assert '"ttg.num-warps" = 1' in one_warp.stages["ttgir"].text
    assert one_warp.passes[-2].arguments == ("cuda:90", 1, 32, 1)


def test_a_pass_that_fails_for_want_of_another_is_named_with_the_kernels_line():
    with pytest.raises(CompileError) as caught:
        matmul(skip="convert_to_ttgpuir")
    error: Any = caught.value
    assert "is not contained within a context that specifies the number of warps" in error.problem
    assert error.failed_pass == "ttgir.coalesce"
    assert error.passes[-1].label == "ttir.loop_unroll"
    assert error.position.file == str(MATMUL.kernel.fn.__code__.co_filename)
    assert "tl.load" in error.position.excerpt()


def test_front_end_errors_of_an_edited_compilation_are_the_ordinary_ones(raised):
    raised(
        CompileError, compile, faulty.odd_arange, "*fp32", BLOCK=100, target="sm_90",
        skip="coalesce",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("stage", ["ttir", "ttgir", "llir", "ptx"])
def test_an_ir_text_is_compiled_on(whole, stage, tmp_path):
    text = whole.stages[stage].text
    compilation = compiled(text)
    assert next(iter(compilation.stages)) == stage
    assert instructions(compilation.stages["cubin"].content) == instructions(
        whole.stages["cubin"].content
    )
    file = tmp_path / f"kernel.{stage}"
    file.write_text(text)
    from_file = compiled(file)
    assert from_file.stages["cubin"].content == compilation.stages["cubin"].content
    assert compilation.kernel in ("matmul", "@matmul")
    assert compilation.resources.registers == whole.resources.registers


def test_amd_texts_are_compiled_on():
    whole = compiled(basic.add, *("*fp32:16",) * 3, "i32", BLOCK=64, target="gfx942")
    for stage in ("ttgir", "llir", "amdgcn"):
        compilation = compiled(whole.stages[stage].text, target="gfx942")
        assert compilation.resources.registers == whole.resources.registers


def test_an_edit_of_the_text_takes_effect(whole):
    edited = whole.stages["ttgir"].text.replace('"ttg.num-warps" = 4', '"ttg.num-warps" = 8')
    with pytest.raises(CompileError):
        compiled(edited)  # The layouts are still those of four warps: the verifier says so.
    steered = compiled(whole.stages["ttir"].text, num_warps=8, skip="pipeline")
    assert steered.options["num_warps"] == 8
    assert "ttgir.pipeline" not in labels(steered)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "right", "wrong", "words"),
    [
        ("ttgir", "tt.splat", "tt.splut", "custom op 'tt.splut' is unknown"),
        ("ttgir", "arith.muli", "arith.mulf", "must be floating-point-like, but got 'i32'"),
        ("ttir", "tt.make_range {end = 64", "tt.make_range {end = 63", "range"),
        ("llir", " = add ", " = addd ", "expected instruction opcode"),
        ("ptx", "mul.lo", "mul.loww", "ptxas cannot assemble <ptx text> for sm_90"),
    ],
)
def test_a_broken_edit_is_told_by_the_compiler_with_its_line(whole, stage, right, wrong, words):
    text = whole.stages[stage].text
    assert right in text
    broken = text.replace(right, wrong, 1)
    with pytest.raises(CompileError) as caught:
        compiled(broken)
    error: Any = caught.value
    assert words in error.problem
    assert error.position.file == f"<{stage} text>"
    assert wrong in broken.splitlines()[error.position.line - 1]
    assert wrong in str(error)


@pytest.mark.slow
def test_a_text_that_aborts_the_compiler_is_an_error_and_the_next_call_works(whole, raised):
    compiled(whole.stages["ptx"].text)
    first = processes.call("os:getpid")
    assert first != os.getpid()
    caught = raised(
        CompileError, compiled, whole.stages["llir"].text.replace(" = add ", " = addd ", 1)
    )
    assert isinstance(caught.__cause__, WorkerError)
    assert compiled(whole.stages["ptx"].text).resources.registers == whole.resources.registers
    assert processes.call("os:getpid") != first


def test_texts_and_files_that_there_are_not(whole, raised):
    raised(OptionError, compiled, "hello\nworld")
    raised(ArgumentError, compiled, "nowhere.ttgir")
    error = raised(
        OptionError, compiled, whole.stages["ttgir"].text, language="ttgr", match="ttgir"
    )
    with pytest.raises(CompileError, match="its stages are ttir, ttgir, llir, amdgcn, hsaco"):
        compiled(whole.stages["ptx"].text, target="gfx942")
    raised(ArgumentError, compile, whole.stages["ptx"].text, "*fp32", target="sm_90")
    error = raised(OptionError, compiled, whole.stages["ttir"].text, num_warp=8, match="num_warp")


@pytest.mark.parametrize("stage", ["ttir", "ttgir", "llir", "ptx"])
def test_the_language_is_guessed(whole, stage):
    assert guess_language(whole.stages[stage].text) == stage
    assert guess_language("", f".{stage}") == stage
