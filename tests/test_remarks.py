"""What the compiler says, tied to the kernel's lines; held against ptxas's own report and against what MLIR prints."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from triton._C import libtriton

from kernellab.compiler.remarks import assembler_remarks, compiler_remarks
from kernellab.errors import SourcePosition
from kernellab.triton_api import column_in_location
from kernellab.triton_api.analyses import Diagnosis, PythonWarning
from tests.compiled import compiled, of_corpus, source_line
from tests.kernels import analysed

HALVES = ("*fp16:16", "*fp16:16", "*fp32:16")


def test_a_product_that_misses_hoppers_matrix_unit_is_said_on_its_line() -> None:
    found = compiled(analysed.small_dot, *HALVES, N=32).remarks
    missed = [one for one in found if "MMA version 3 acceleration not applied" in one.what]
    assert [(one.severity, one.origin) for one in missed] == [("remark", "mlir")], (
        "each is said once"
    )
    assert "tl.dot(a, b)" in source_line(missed[0].span)
    note = found[found.index(missed[0]) + 1]
    assert (note.severity, note.span) == ("note", missed[0].span)
    assert "(90) supports MMA v3" in note.what


def test_a_product_that_fits_is_not_remarked() -> None:
    assert not [one for one in of_corpus("matmul", "sm_90").remarks if "MMA" in one.what]


def test_a_remark_in_an_inlined_helper_names_helper_and_caller() -> None:
    types = ("*fp32:16", "*fp32:16", "i32")
    found = compiled(analysed.strided_through_a_helper, *types, BLOCK=1024).remarks
    (failed,) = [one for one in found if "vectorization fails" in one.what and one.called_from]
    assert failed.severity == "warning"
    assert source_line(failed.span).startswith("return tl.load(x_ptr + i * 3")
    assert [source_line(place) for place in failed.called_from] == [
        "tl.store(out_ptr + i, load_every_third(x_ptr, i, n))"
    ]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_registers_in_the_assemblers_notes_are_those_of_the_binary(target: str) -> None:
    compilation = of_corpus("matmul", target)
    notes = [one.what for one in compilation.remarks if one.origin == "ptxas"]
    assert any(f"Used {compilation.resources.registers} registers" in words for words in notes)


def test_spills_are_a_warning_and_no_spills_are_none() -> None:
    def warned(name: str, target: str) -> bool:
        return any(
            one.severity == "warning" and "spill" in one.what
            for one in of_corpus(name, target).remarks
        )

    for name, target in (("matmul", "sm_90"), ("attention_backward", "sm_90")):
        assert warned(name, target) == (of_corpus(name, target).resources.spills > 0)


def test_collecting_leaves_nothing_behind_and_shows_nothing() -> None:
    program = (
        "import os\n"
        "from tests.compiled import compiled\n"
        "from tests.kernels import analysed\n"
        "c = compiled(analysed.small_dot, '*fp16:16', '*fp16:16', '*fp32:16', N=32)\n"
        "before, files = dict(os.environ), set(os.listdir(os.environ['TRITON_CACHE_DIR']))\n"
        "assert len(c.remarks) > 1\n"
        "assert dict(os.environ) == before\n"
        "assert set(os.listdir(os.environ['TRITON_CACHE_DIR'])) == files\n"
        "from triton import knobs\n"
        "assert not knobs.nvidia.dump_ptxas_log\n"
    )
    import tempfile

    with tempfile.TemporaryDirectory() as cache:
        # Triton 3.9 warns while it is imported, unless this is set.
        environment = {
            **os.environ, "TRITON_CACHE_DIR": cache, "TRITON_DEFAULT_FP_FUSION": "1",
        }  # fmt: skip
        environment.pop("MLIR_ENABLE_DIAGNOSTICS", None)
        ran = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_amd_has_remarks_too_and_no_assemblers_notes() -> None:
    found = of_corpus("vector_add", "gfx942").remarks
    assert not [one for one in found if one.origin == "ptxas"]


# Forms of words, of compilers that say more than these kernels make them say


def test_warnings_and_unknown_places() -> None:
    printed = (
        "<unknown>:0: warning: something general\n"
        f'loc("k.py":3:{column_in_location(5)}): warning: on a line\n'
        "k.py:5:0: error: not a remark\n"
    )
    general, placed = compiler_remarks(Diagnosis(printed, ()))
    assert (general.severity, general.span, general.what) == ("warning", None, "something general")
    assert placed.span == SourcePosition("k.py", 3, 5)


def test_pythons_warnings_are_tritons() -> None:
    given = (
        PythonWarning("slow", "UserWarning", "/x/site-packages/triton/language/semantic.py", 9),
        PythonWarning("old", "DeprecationWarning", "/home/me/kernel.py", 4),
    )
    slow, old = compiler_remarks(Diagnosis("", given))
    assert (slow.origin, slow.severity, slow.span) == ("triton", "warning", None)
    assert old.span == SourcePosition("/home/me/kernel.py", 4)


def test_an_assembler_warning_with_a_line_of_ptx_names_the_kernels_line() -> None:
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
        "ptxas /tmp/k.ptx, line 12; warning : Instruction is deprecated\n"
        "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    )
    deprecated, spills = assembler_remarks(log, lambda line: SourcePosition("k.py", line + 1))
    assert str(deprecated) == "k.py:13: warning: Instruction is deprecated [ptxas]"
    assert spills.severity == "warning"


def test_remarks_take_no_work_of_llvms(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = compiled(analysed.small_dot, *HALVES, N=32)

    def unwanted(*_: object) -> None:
        raise AssertionError("LLVM was asked")

    for step in ("to_module", "optimize_module", "translate_to_asm"):
        monkeypatch.setattr(libtriton.llvm, step, unwanted)
    assert any("MMA" in one.what for one in compilation.remarks)
