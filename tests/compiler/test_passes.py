"""The record of passes: what ran, what each did, and that nothing else is different for it."""

import hashlib
import re
import threading

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernellab.triton_api.pipeline
from kernellab.compiler.binding import bind
from kernellab.compiler.passes import ACTS_ON, PassRecorder, pass_notes
from kernellab.compiler.pipeline import compile, compile_bound
from kernellab.compiler.targets import SUPPORTED_TARGETS
from kernellab.errors import CompileError
from kernellab.records import Target
from kernellab.triton_api.pipeline import list_passes
from tests.corpus.loader import case_name, cases, entry
from tests.kernels import faulty
from tests.support.compiled import of_corpus
from tests.support.source_files import ROOT

HOPPER = Target("cuda", "90")


def bound(name, target):
    one = entry(name)
    call = bind(one.kernel, one.types, {}, target, options=one.options, constants=one.constants)
    return one.kernel, call


def recorded(name, target, **keywords):
    kernel, call = bound(name, target)
    return compile_bound(kernel, call, target, record="passes", **keywords)


def bare(name, target, monkeypatch):
    """Triton alone: the stages by name."""
    kernel, call = bound(name, target)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    made = call.specialization
    source = ASTSource(kernel, dict(made.signature), dict(made.constants), dict(made.attributes))
    arch = target.arch if target.backend == "hip" else int(target.arch)
    warp_size = 64 if target.arch.startswith("gfx9") else 32
    gpu = GPUTarget(target.backend, arch, warp_size)
    compiled = triton.compile(source, target=gpu, options=dict(call.options))
    return {name: text for name, text in compiled.asm.items() if name != "source"}


@pytest.fixture(scope="module")
def matmul():
    return of_corpus("matmul", "sm_90")


def labels(compilation):
    return [run.label for run in compilation.passes]


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("target", SUPPORTED_TARGETS, ids=str)
def test_every_stage_is_what_a_bare_compile_makes(target, monkeypatch):
    theirs = bare("matmul_small", target, monkeypatch)
    ours = recorded("matmul_small", target, ttgir_lines=False)
    assert [name for name in ours.stages if name not in ("source", "sass")] == list(theirs)
    for name, content in theirs.items():
        assert ours.stages[name].content == content, f"{name} differs"


def test_a_recorded_compilation_has_the_options_and_resources_of_another(matmul):
    kernel, call = bound("matmul", HOPPER)
    plain = compile_bound(kernel, call, HOPPER, record="stages")
    assert plain.passes == ()
    assert (plain.options, plain.resources) == (matmul.options, matmul.resources)
    assert plain.stages["ttgir"].text == matmul.stages["ttgir"].text


@pytest.mark.slow
def test_locations_that_name_ttgir_change_no_instruction(matmul):
    plain = recorded("matmul", HOPPER, ttgir_lines=False)
    instruction = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(\S.*?)\s*$", re.M)
    texts = [compilation.stages["sass"].text for compilation in (plain, matmul)]
    assert instruction.findall(texts[0]) == instruction.findall(texts[1])


def test_nothing_of_ours_stays_in_the_backends():
    recorded("vector_add", HOPPER)
    from triton._C import libtriton
    from triton.backends.amd import compiler as amd
    from triton.backends.nvidia import compiler as nvidia

    for module in (nvidia, amd):
        assert module.ir is libtriton.ir
        assert module.passes is libtriton.passes
        assert module.llvm is libtriton.llvm
    with pytest.raises(CompileError):
        compile(faulty.bad_packing, "*fp32", BLOCK=64, target="sm_90")
    assert nvidia.ir is libtriton.ir
    assert nvidia.nvidia is libtriton.nvidia


@pytest.mark.slow
def test_other_threads_compile_undisturbed(monkeypatch):
    """While one thread records, another's compile makes the same code and is not recorded."""
    kernel, call = bound("matmul_small", HOPPER)
    theirs = bare("matmul_small", HOPPER, monkeypatch)
    seen, started = [], threading.Event()

    class Slow(PassRecorder):
        def pass_ran(self, call, seconds, module):
            super().pass_ran(call, seconds, module)
            started.set()

    def compile_elsewhere():
        started.wait(30)
        seen.append(bare("matmul_small", HOPPER, monkeypatch))

    thread = threading.Thread(target=compile_elsewhere)
    thread.start()
    watcher = Slow()
    kernellab.triton_api.pipeline.compile_watched(
        kernel, call.specialization, HOPPER, call.options, watcher
    )
    thread.join()
    assert seen == [theirs]
    ran = [run.label for run in watcher.passes if run.op_counts_after]
    assert ran == ["source.front_end", *(call.label for call in list_passes(HOPPER, {}))]


def test_a_pass_that_somebody_adds_behind_our_back_runs_at_its_place():
    """Proton's instrumentation adds its passes to the pass manager through no name of ours."""
    from triton._C import libtriton
    from triton.backends.nvidia.compiler import CUDABackend

    class Instrumentation:
        @staticmethod
        def load_dialects(_context):
            pass

        @staticmethod
        def patch(place, manager, _context):
            if place == "ttgpuir_to_llvmir":
                libtriton.passes.common.add_canonicalizer(manager)

    if not hasattr(CUDABackend, "instrumentation"):
        pytest.skip("this Triton registers instrumentation elsewhere")
    plain = of_corpus("vector_add", "sm_90")
    CUDABackend.instrumentation = Instrumentation
    try:
        instrumented = recorded("vector_add", HOPPER)
    finally:
        CUDABackend.instrumentation = None
    at = labels(instrumented).index("llir.passes_of_a_plugin")
    assert labels(plain)[at - 1].startswith("llir.")
    assert labels(instrumented)[:at] == labels(plain)[:at]
    assert "canonicalize" in instrumented.passes[at].arguments[0]
    assert instrumented.stages["ptx"].text == plain.stages["ptx"].text


@pytest.mark.slow
def test_the_first_and_the_last_entries(matmul):
    names = labels(matmul)
    assert names[0] == "source.front_end"
    assert names[-3:] == ["llir.optimize_module", "ptx.translate_to_asm", "sass.ptxas"]
    assert "tt.call" in matmul.passes[0].text.read()
    assert matmul.passes[-3].text.read() == matmul.stages["llir"].text
    assert matmul.passes[-2].text.read() == matmul.stages["ptx"].text
    assert matmul.passes[-1].text.read() == matmul.stages["sass"].text
    amd = of_corpus("matmul_small", "gfx942")
    assert labels(amd)[-2:] == ["llir.optimize_module", "amdgcn.translate_to_asm"]
    assert amd.passes[-1].text.read() == amd.stages["amdgcn"].text


def test_the_last_pass_of_a_stage_leaves_the_stages_text(matmul):
    for stage in ("ttir", "ttgir"):
        last = [run for run in matmul.passes if run.stage == stage][-1]
        assert last.text.read() == matmul.stages[stage].text


def test_arguments_and_occurrences(matmul):
    by_label = {run.label: run for run in matmul.passes}
    assert by_label["ttgir.convert_to_ttgpuir"].arguments == ("cuda:90", 8, 32, 1)
    assert by_label["ttgir.coalesce"].arguments == ()
    assert by_label["ttgir.assign_latencies"].arguments == (3,)
    assert len(by_label) == len(matmul.passes)
    canonicalizers = [run for run in matmul.passes if run.name == "canonicalizer"]
    assert [run.occurrence for run in canonicalizers if run.stage == "ttgir"] == [1, 2, 3, 4]
    assert all(run.seconds >= 0 for run in matmul.passes)


def test_unchanged_passes_share_one_text(matmul):
    before = matmul.passes[0]
    for run in matmul.passes[1:]:
        if run.op_counts_after:
            if run.changed:
                assert run.text.digest != before.text.digest or run.stage != before.stage
            elif run.stage == before.stage:
                assert run.text is before.text
                assert run.op_counts_after == run.op_counts_before == before.op_counts_after
            before = run
    assert any(not run.changed for run in matmul.passes)
    by_label = {run.label: run for run in matmul.passes}
    assert by_label["ttgir.coalesce"].changed
    assert by_label["ttgir.pipeline"].changed
    assert not by_label["ttgir.interleave_tmem"].changed


@pytest.mark.parametrize(
    "label", ["source.front_end", "ttir.cse", "ttgir.pipeline", "llir.to_llvmir"]
)
def test_op_counts_are_those_of_the_text(matmul, label):
    """Counted by walking the module; here from its text: a name follows `=`, or starts a line."""
    run = next(run for run in matmul.passes if run.label == label)
    written = re.compile(r'^\s*(?:%[^=]*= )?"?((?:tt|ttg|ttng|arith|scf|cf|llvm)\.[\w.]+)', re.M)
    found: dict[str, int] = {}
    for name in written.findall(re.sub(r"^#.*$", "", run.text.read(), flags=re.M)):
        found[name] = found.get(name, 0) + 1
    assert found
    # `scf.yield` without operands is not written out;
    # function attributes and module lines are no ops.
    for name, count in found.items():
        assert run.op_counts_after[name] >= count, name
    for name in ("tt.load", "tt.dot", "tt.splat", "arith.muli", "llvm.add", "llvm.insertvalue"):
        assert run.op_counts_after.get(name, 0) == found.get(name, 0), name


@pytest.mark.slow
@pytest.mark.thinned(5)
@pytest.mark.parametrize("case", cases(), ids=case_name)
def test_passes_that_have_nothing_to_do_change_nothing(case):
    """What the recorder relies on: passes without an op to act on leave the module as it was."""
    one, target = case
    call = bind(one.kernel, one.types, {}, target, options=one.options, constants=one.constants)
    watcher = PassRecorder(trusting=False)
    kernellab.triton_api.pipeline.compile_watched(
        one.kernel, call.specialization, target, call.options, watcher
    )
    for run in watcher.passes:
        if run.name in ACTS_ON:
            acted_on = [op for op in run.op_counts_before if op.startswith(ACTS_ON[run.name])]
            assert acted_on or not run.changed, run.label


def test_digests_are_of_the_text(matmul):
    text = matmul.passes[3].text
    assert text.digest == hashlib.sha256(text.read().encode()).hexdigest()


@pytest.mark.slow
def test_texts_do_not_name_passing_folders():
    first, second = of_corpus("vector_add", "sm_90"), recorded("vector_add", HOPPER)
    assert labels(first) == labels(second)
    for one, other in zip(first.passes, second.passes):
        assert one.text.digest == other.text.digest, one.label
        assert "/kernellab-" not in one.text.read()


def test_gluon_kernels_are_recorded():
    compilation = of_corpus("gluon_transpose", "sm_90")
    assert labels(compilation)[:2] == ["source.front_end", "ttgir.inliner"]
    assert compilation.passes[0].op_counts_after["ttg.local_alloc"] == 1


@pytest.mark.parametrize("target", SUPPORTED_TARGETS, ids=str)
def test_every_pass_that_runs_has_a_note(target):
    listed = [*list_passes(target, {}), *list_passes(target, {}, gluon=True)]
    missing = {call.label for call in listed if call.name not in pass_notes()}
    assert not missing, "write a note in kernellab/compiler/pass_notes.toml"


def test_every_entry_of_a_record_has_a_note(matmul):
    assert not {run.name for run in matmul.passes} - set(pass_notes())


def test_the_page_prints_every_topic():
    page = (ROOT / "docs" / "passes.md").read_text()
    topics = dict.fromkeys(note.topic for note in pass_notes().values())
    assert re.findall(r"^```\{passes\} (.*)$", page, re.MULTILINE) == list(topics)


def test_notes_are_paragraphs():
    for note in pass_notes().values():
        assert "\n" not in note.text
        assert 60 < len(note.text) < 700, note.name
        assert note.text.endswith(".")
