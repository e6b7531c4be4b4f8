"""The compiler's remarks, by line; against ptxas's own report and what MLIR prints."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from triton._C import libtriton

from kernellab.compiler.compilations import Compilation
from kernellab.compiler.records import Remark
from kernellab.compiler.remarks import assembler_remarks, compiler_remarks, explained, wordings
from kernellab.errors import SourcePosition
from kernellab.triton_api import column_in_location
from kernellab.triton_api.analyses import Diagnosis, PythonWarning
from tests.kernels import analyzed, remarked
from tests.support.compiled import compiled, of_corpus, source_line
from tests.support.versions import WARNS_OF_BLOCK_POINTERS, WARNS_OF_REORDERING

HALVES = ("*fp16:16", "*fp16:16", "*fp32:16")


def test_a_product_that_misses_hoppers_matrix_unit_is_said_on_its_line() -> None:
    found = compiled(analyzed.small_dot, *HALVES, N=32).remarks
    missed = [one for one in found if "MMA version 3 acceleration not applied" in one.what]
    assert [(one.severity, one.kind) for one in missed] == [("remark", "mlir")], "each is said once"
    assert "tl.dot(a, b)" in source_line(missed[0].position)
    note = found[found.index(missed[0]) + 1]
    assert (note.severity, note.position) == ("note", missed[0].position)
    assert "(90) supports MMA v3" in note.what


def test_a_product_that_fits_is_not_remarked() -> None:
    assert not [one for one in of_corpus("matmul", "sm_90").remarks if "MMA" in one.what]


def test_a_remark_in_an_inlined_helper_names_helper_and_caller() -> None:
    types = ("*fp32:16", "*fp32:16", "i32")
    found = compiled(analyzed.strided_through_a_helper, *types, BLOCK=1024).remarks
    (failed,) = [one for one in found if "vectorization fails" in one.what and one.called_from]
    assert failed.severity == "warning"
    assert source_line(failed.position).startswith("return tl.load(x_ptr + i * 3")
    assert [source_line(place) for place in failed.called_from] == [
        "tl.store(out_ptr + i, load_every_third(x_ptr, i, n))"
    ]


def test_what_the_assembler_said_while_passes_were_recorded_is_what_it_says_when_asked(
    monkeypatch,
) -> None:
    types = ("*fp32:16", "*fp32:16", "i32")
    asked = compiled(analyzed.strided_through_a_helper, *types, BLOCK=1024, record="stages").remarks
    recorded = compiled(analyzed.strided_through_a_helper, *types, BLOCK=1024)
    monkeypatch.setattr("kernellab.triton_api.analyses.assembler_log", pytest.fail)
    kept = [one for one in recorded.remarks if one.kind == "ptxas"]
    assert kept
    assert kept == [one for one in asked if one.kind == "ptxas"]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_registers_in_the_assemblers_notes_are_those_of_the_binary(target) -> None:
    compilation = of_corpus("matmul", target)
    notes = [one.what for one in compilation.remarks if one.kind == "ptxas"]
    assert any(f"Used {compilation.resources.registers} registers" in words for words in notes)


@pytest.mark.slow
def test_spills_are_a_warning_and_no_spills_are_none() -> None:
    def warned(name: str, target: str) -> bool:
        return any(
            one.severity == "warning" and "spill" in one.what
            for one in of_corpus(name, target).remarks
        )

    for name, target in (("matmul", "sm_90"), ("attention_backward", "sm_90")):
        assert warned(name, target) == (of_corpus(name, target).resources.spills > 0)


@pytest.mark.slow
def test_collecting_leaves_nothing_behind_and_shows_nothing(tmp_path) -> None:
    program = """
import os
from tests.support.compiled import compiled
from tests.kernels import analyzed
c = compiled(analyzed.small_dot, '*fp16:16', '*fp16:16', '*fp32:16', N=32)
before, files = dict(os.environ), set(os.listdir(os.environ['TRITON_CACHE_DIR']))
assert len(c.remarks) > 1
assert dict(os.environ) == before
assert set(os.listdir(os.environ['TRITON_CACHE_DIR'])) == files
from triton import knobs
assert not knobs.nvidia.dump_ptxas_log
"""
    # Triton 3.9 warns while it is imported, unless fusion is set.
    changed = {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    environment = {**os.environ, **changed}
    environment.pop("MLIR_ENABLE_DIAGNOSTICS", None)
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_amd_has_remarks_too_and_no_assemblers_notes() -> None:
    found = of_corpus("vector_add", "gfx942").remarks
    assert not [one for one in found if one.kind == "ptxas"]


def test_warnings_and_unknown_places() -> None:
    printed = (
        "<unknown>:0: warning: something general\n"
        f'loc("k.py":3:{column_in_location(5)}): warning: on a line\n'
        "k.py:5:0: error: not a remark\n"
    )
    general, placed = compiler_remarks(Diagnosis(printed, ()))
    assert general.severity == "warning"
    assert general.position is None
    assert general.what == "something general"
    assert placed.position == SourcePosition("k.py", 3, 5)


def test_pythons_warnings_are_tritons() -> None:
    given = (
        PythonWarning("slow", "UserWarning", "/x/site-packages/triton/language/semantic.py", 9),
        PythonWarning("old", "DeprecationWarning", "/home/me/kernel.py", 4),
    )
    slow, old = compiler_remarks(Diagnosis("", given))
    assert (slow.kind, slow.severity, slow.position) == ("triton", "warning", None)
    assert old.position == SourcePosition("/home/me/kernel.py", 4)


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
    assert "stores of 4 bytes" in spills.why


def test_remarks_take_no_work_of_llvms(monkeypatch) -> None:
    compilation = compiled(analyzed.small_dot, *HALVES, N=32)

    def unwanted(*_: object) -> None:
        raise AssertionError("LLVM was asked")

    for step in ("to_module", "optimize_module", "translate_to_asm"):
        monkeypatch.setattr(libtriton.llvm, step, unwanted)
    assert any("MMA" in one.what for one in compilation.remarks)


FLOATS = ("*fp32:16", "*fp32:16")
INTEGERS = ("*i32:16", "*i32:16")
LOOP = ("*fp16:16", "*fp16:16", "*fp32:16", "*fp32:16", "i32:16", "i32:16")
FP8_LOOP = ("*fp8e4nv:16", "*fp8e4nv:16", *LOOP[2:])
SCALED = ("*fp8e4nv:16", "*u8:16", "*fp8e4nv:16", "*u8:16", "*fp32:16")
TILE = {"M_TILE": 128, "N_TILE": 128, "K_TILE": 64, "LOG": False, "num_stages": 2}
SMALL = {"M": 32, "N": 32, "K": 32}
OLD = {"BLOCK": 64}


def _remark(compilation: Compilation, phrase: str) -> Remark:
    (found,) = [one for one in compilation.remarks if phrase in one.what]
    return found


CAUSED = [
    # kernel, types, constants and options, target; the compiler's words; the kernel's line
    (remarked.copied, (*FLOATS, "i32"), {"BLOCK": 1024}, "sm_90", "numElems = 8 mask is 1",
        "x = tl.load("),
    (remarked.copied, (*FLOATS, "i32"), {"BLOCK": 1024}, "sm_90", "elemsPerThread = 8 mask is 1",
        "tl.store("),
    (remarked.strided, FLOATS, {"BLOCK": 1024}, "sm_90", "numElems = 8 mask is -1",
        "tl.store(y_ptr + i, tl.load("),
    (remarked.added, (*FLOATS, "i32"), {"BLOCK": 1024}, "sm_90", "packed = 1 origin vec = 1",
        "tl.atomic_add("),
    (remarked.largest, INTEGERS, {"BLOCK": 1024}, "sm_90", "packed = 1 origin vec = ",
        "tl.atomic_max("),
    (remarked.product, HALVES, SMALL, "sm_90", "MMA version 3", "tl.store(c_ptr"),
    (remarked.product, HALVES, SMALL, "sm_90", "(90) supports MMA v3", "tl.store(c_ptr"),
    (remarked.product, HALVES, SMALL, "sm_100", "MMA version 5", "tl.store(c_ptr"),
    (remarked.product, HALVES, SMALL, "sm_75", "falls back to the FMA path", "tl.store(c_ptr"),
    (remarked.products, FP8_LOOP, TILE, "sm_90", "Forcing a different order", "total = tl.dot("),
    (remarked.specialized, (*HALVES, "i32:16", "i32:16", "i32:16"), {"TILE": 128}, "sm_90",
        "capturing tensor values", "def specialized"),
    (remarked.assuming, (*FLOATS, "i32"), {"BLOCK": 1024, "EITHER": False}, "gfx942",
        "unsupported cmp predicate", "tl.assume(n != 0)"),
    (remarked.assuming, (*FLOATS, "i32"), {"BLOCK": 1024, "EITHER": True}, "gfx942",
        "unsupported assumption", "tl.assume((n > 0)"),
    (remarked.product, HALVES, {"M": 2, "N": 2, "K": 16}, "gfx942", "for the request",
        "tl.store(c_ptr"),
    (remarked.product, HALVES, {"M": 2, "N": 2, "K": 16}, "gfx942", "to FMA intrinsic",
        "tl.store(c_ptr"),
    (remarked.product, HALVES, {"M": 32, "N": 32, "K": 4}, "gfx942", "kDim=8", "tl.store(c_ptr"),
    (remarked.product, ("*fp8e5:16", "*fp8e5:16", "*fp32:16"), SMALL, "gfx942",
        "missing native support", "tl.store(c_ptr"),
    (remarked.product, ("*fp8e5:16", "*fp8e5:16", "*fp32:16"), SMALL, "gfx942", "for gfx942 please",
        "tl.store(c_ptr"),
    (remarked.scaled_product, SCALED, {"N": 64, "K": 128}, "gfx950", "Decomposing scaled dot",
        "c = tl.dot_scaled("),
    (remarked.products, LOOP, TILE, "gfx942", "ping pong", "total = tl.dot("),
    (remarked.products, LOOP, {**TILE, "M_TILE": 256, "num_warps": 8}, "gfx942", "ping pong",
        "total = tl.dot("),
    (remarked.outdated, INTEGERS, OLD, "sm_90", "tl.where with a non-boolean",
        "x = tl.where(i, x, 0)"),
    (remarked.outdated, INTEGERS, OLD, "sm_90", "Logical operators", "x = tl.where((i > 3) and"),
    (remarked.outdated, INTEGERS, OLD, "sm_90", "maximum bitwidth", "return x << 40"),
    (remarked.outdated, INTEGERS, OLD, "sm_90", "view is deprecated", "x = tl.view("),
    (remarked.outdated, INTEGERS, OLD, "sm_90", "If conditional", "if one > 3:"),
    (remarked.product, ("*fp8e4b15:16", "*fp8e4b15:16", "*fp32:16"), SMALL, "sm_90", "fp8e4b15",
        "tl.store(c_ptr"),
    (remarked.product, ("*fp8e4b8:16", "*fp8e4b8:16", "*fp32:16"), SMALL, "gfx950", "fp8e4b8 is",
        "tl.store(c_ptr"),
    (remarked.copied, (*FLOATS, "i32:16"), {"BLOCK": 64, "kpack": 2}, "gfx950", "kpack", ""),
]  # fmt: skip
if WARNS_OF_REORDERING:
    CAUSED += [
        (remarked.reordered, FLOATS, OLD, "sm_90", "tl.cat(can_reorder", "twice = tl.cat("),
        (remarked.reordered, FLOATS, OLD, "sm_90", "tl.reshape(can_reorder", "tl.store(y_ptr"),
        (remarked.softmax, FLOATS, OLD, "sm_90", "keep_dims", "tl.store(y_ptr"),
    ]
if WARNS_OF_BLOCK_POINTERS:
    kernel, types = remarked.through_a_block_pointer, (*FLOATS, "i32")
    CAUSED += [(kernel, types, OLD, "sm_90", "make_block_ptr", "block = tl.make_block_ptr(")]


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kernel", "types", "keywords", "target", "phrase", "line"), CAUSED)
def test_what_the_compiler_says_is_put_into_plain_words_on_the_kernels_line(
    kernel, types, keywords, target, phrase, line, messages
) -> None:
    said = _remark(_made(kernel, types, tuple(keywords.items()), target), phrase)
    assert (source_line(said.position) if said.position else "").startswith(line)
    assert [said.why, said.advice] == messages
    assert said.what in str(said), "not without the compiler's words"


@functools.cache
def _made(
    kernel: Any, types: tuple[str, ...], keywords: tuple[tuple[str, Any], ...], target: str
) -> Compilation:
    return compiled(kernel, *types, target=target, **dict(keywords))


@pytest.mark.slow
def test_the_meanings_hold_in_the_machine_code() -> None:
    def widths(kernel: Any, *types: str) -> set[int]:
        made = _made(kernel, types, (("BLOCK", 1024),), "sm_90")
        return {width for one in made.axis_info().accesses for width in one.compiled_bytes}

    assert widths(remarked.copied, *FLOATS, "i32") == {4}, "one by one"
    assert widths(remarked.copied, *FLOATS, "i32:16") == {16}, "a size that is a multiple of 16"
    sizes = (dict.fromkeys("MNK", n) for n in (32, 64))
    made = (_made(remarked.product, HALVES, tuple(one.items()), "sm_90") for one in sizes)
    small, large = ({one.opcode for one in each.instructions} for each in made)
    assert not any("HGMMA" in opcode for opcode in small)
    assert any("HGMMA" in opcode for opcode in large)
    scaled = _made(remarked.scaled_product, SCALED, (("N", 64), ("K", 128)), "gfx950")
    assert "v_mfma_scale" in scaled.stages["amdgcn"].text, "said, and not so"


CROWDED = {"BLOCK": 2048, "num_warps": 1, "maxnreg": 32}


@pytest.mark.slow
def test_what_a_stack_is_and_what_spills() -> None:
    """A stack alone is not a spill: a print passes its arguments through it."""
    crowded = _made(remarked.crowded, FLOATS, tuple(CROWDED.items()), "sm_90")
    spilt = _remark(crowded, "bytes spill stores")
    numbers = tuple(int(number) for number in re.findall(r"\d+", spilt.what))
    assert (spilt.severity, numbers[1] > 0) == ("warning", True)
    assert all(f"{number}" in spilt.why for number in numbers)
    printing = _made(remarked.printing, FLOATS, (("BLOCK", 64),), "sm_90")
    note = _remark(printing, "bytes spill stores")
    assert note.severity == "note"
    assert note.why.startswith("Nothing is spilled. Each thread has a stack of")
    stages = compiled(remarked.crowded, *FLOATS, **CROWDED, record="stages")
    for found in (crowded.resources, stages.resources):
        assert (found.stack_bytes, found.spills, found.spill_loads) == numbers
    stages = compiled(remarked.printing, *FLOATS, BLOCK=64, record="stages")
    for found in (printing.resources, stages.resources):
        assert found.stack_bytes > 0
        assert (found.spills, found.spill_loads) == (0, 0)


PHRASES = [
    ("mlir", "Pipelining load that cannot use vectorized copy. This will likely lead to "
        "pipelining in registers and severe performance degradation."),
    ("mlir", "Pipelining load with different use encodings. This will lead to layout conversions "
        "and performance degradation."),
    ("mlir", "Not pipelining TMA load because the per-stage shared-memory allocation size is not "
        "a multiple of the 128-byte TMA alignment."),
    ("mlir", "operation scheduled before its operands. Pipelining will be disabled."),
    ("mlir", "non-root partition #2 has direct SSA consumer"),
    ("mlir", "use at distance 1 in partition #0 here"),
    ("mlir", "Global memory operation between async wait and async_loads. This will hinder the "
        "interleaving of memory operations and might impact performance."),
    ("mlir", "has subregions but is not analyzed when determining async wait count; this yields "
        "conservative waits"),
    ("mlir", "cache modifiers not yet implemented on gfx1250"),
    ("mlir", "Multicast with bit width 16 is not supported on gfx1250 falling back to regular "
        "load"),
    ("mlir", "skipping canonicalize-pointers due to ub.poison"),
    ("triton", "Large dot FMA instruction size 128x128x64 may have slow compile times"),
    ("triton", "passing propagate_nan to builtin min is deprecated, use tl.minimum instead"),
    ("ptxas", "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized "
        "due to insufficient register resources for the wgmma pipeline in the function 'k'"),
    ("ptxas", "(C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized "
        "due to non wgmma instructions defining accumulator registers of a wgmma between start "
        "and end of the pipeline stage in the function 'k'"),
    ("ptxas", "Potential Performance Loss: wgmma.mma_async instructions are serialized due to the "
        "presence of Extern calls in the function 'k'"),
    ("ptxas", "Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register "
        "requirements."),
]  # fmt: skip
"""Who says it, and what, as their sources have it."""


@pytest.mark.parametrize(("origin", "what"), PHRASES)
def test_other_phrases_of_the_compilers_are_known(origin, what, messages) -> None:
    assert explained(Remark("remark", origin, what)).why == messages


def test_the_library_that_compiles_has_the_phrases_of_its_passes() -> None:
    """A version that words a phrase otherwise shows here, not in remarks that stay raw."""
    library = Path(libtriton.__file__).read_bytes()
    phrases = [
        "vectorization fails vec = ",
        " elemsPerThread = ",
        "acceleration not applied due to unsupported shapes or data types.",
        "Forcing a different order [",
        "Pipelining load that cannot use vectorized copy",
        "Pipelining load with different use encodings",
        "operation scheduled before its operands",
        "non-root partition #",
        "has direct SSA consumer",
        "capturing tensor values",
        "unsupported cmp predicate for assumption",
        "unsupported assumption operation",
        "Unable to select MFMA intrinsic",
        "Performed four ping pong cluster transformation",
        "skipping canonicalize-pointers due to ub.poison",
        "has subregions but is not analyzed when determining async",
    ]
    assert [one for one in phrases if one.encode() not in library] == []


def test_unknown_words_stay_as_they_are() -> None:
    said = Remark("remark", "mlir", "something new")
    assert explained(said) == said
    assert str(said) == "remark: something new [mlir]"


def test_every_wording_has_only_values_that_its_phrase_has() -> None:
    for wording in wordings():
        names = set(re.compile(wording.phrase).groupindex)
        for text in (wording.meaning, wording.advice):
            assert set(re.findall(r"\{(\w+)\}", text)) <= names
        assert wording.meaning.endswith((".", "}."))
