"""What a compilation says that it can answer, and that it keeps its word."""

import dataclasses
from typing import Any

import pytest

import kernellab
from kernellab.compiler.compilations import Compilation, Sources
from kernellab.errors import CompileError, NotRecorded
from tests.kernels import basic
from tests.support.compiled import compiled, of_corpus

EVERYTHING = {
    *("resources", "source_map", "remarks", "module", "instructions", "occupancy"),
    *("shared_memory", "tensor_memory", "barriers", "axis_info", "call_graph"),
    *("pipeline_stages", "work", "layouts", "conversions"),
}
OF_PASSES = {"shared_memory", "barriers", "pipeline_stages"}


def stopped(**options: Any) -> Compilation:
    """The addition of two vectors, compiled up to a stage or recorded in part."""
    return compiled(basic.add, *("*fp32:16",) * 3, "i32", BLOCK=64, **options)


def ask(compilation: Compilation, asked: str) -> object:
    found = getattr(compilation, asked)
    return found() if callable(found) else found


@pytest.mark.parametrize("target", ["sm_90", pytest.param("gfx942", marks=pytest.mark.slow)])
def test_a_kernel_that_was_compiled_here_answers_everything(target) -> None:
    compilation = of_corpus("matmul", target)
    assert compilation.capabilities == EVERYTHING
    for asked in EVERYTHING:
        ask(compilation, asked)


def test_a_record_from_a_file_says_what_it_has(tmp_path) -> None:
    path = of_corpus("matmul", "sm_90").save(tmp_path / "record")
    assert kernellab.load(path).capabilities == EVERYTHING


@pytest.mark.slow
def test_a_record_that_kept_no_lines_keeps_its_word() -> None:
    whole = of_corpus("matmul", "sm_90")
    bare = dataclasses.replace(whole, sources=Sources(resources=lambda: whole.resources))
    assert bare.capabilities == EVERYTHING - {"source_map", "instructions", "remarks"}
    for asked in bare.capabilities:
        ask(bare, asked)


def test_what_lacks_is_an_error_of_one_kind() -> None:
    without_passes = stopped(record="stages")
    assert without_passes.capabilities == EVERYTHING - OF_PASSES
    early = stopped(stop_after="ttir")
    assert early.capabilities == {
        *("source_map", "remarks", "module", "tensor_memory"),
        *("pipeline_stages", "call_graph", "work"),
    }
    for compilation in (without_passes, early):
        for asked in EVERYTHING - compilation.capabilities:
            with pytest.raises(NotRecorded):
                ask(compilation, asked)


def test_a_compilation_that_was_stopped_says_so(raised) -> None:
    early = stopped(stop_after="ttgir")
    for asked in ("resources", "occupancy"):
        raised(CompileError, ask, early, asked)


@pytest.mark.slow
def test_an_ir_text_answers_but_for_remarks(raised) -> None:
    text = of_corpus("matmul", "sm_90").stages["ttgir"].text
    given = compiled(text, num_warps=8)
    assert given.capabilities == EVERYTHING - {"remarks"}
    encodings = [
        {tile.encoding for tile in one.layouts().tiles}
        for one in (given, of_corpus("matmul", "sm_90"))
    ]
    assert encodings[0] == encodings[1]
    raised(NotRecorded, ask, given, "remarks")
