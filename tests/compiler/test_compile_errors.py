"""What the compiler refuses: its own words, on the kernel's own line."""

import os
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from kernellab.compiler.pipeline import compile
from kernellab.errors import CompileError, SourcePosition
from tests.kernels import basic, faulty

pytestmark = pytest.mark.usefixtures("empty_cache")


def faulty_line(name):
    with open(str(faulty.__file__)) as file:
        lines = file.read().splitlines()
    number = next(n for n, text in enumerate(lines, 1) if text.endswith(f"FAULT: {name}"))
    return number, lines[number - 1]


PRODUCT = ("*fp16:16",) * 3 + ("i32:16",) * 4 + ("i32:1", "i32:16") * 2 + ("i32:1",)
BLOCKS = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}


def refusal(kernel, *args, **keywords):
    with pytest.raises(CompileError) as caught:
        compile(kernel, *args, **keywords)
    return caught.value


def test_a_refusal_as_data():
    """The compiler's own words, and whose kernel for what: the message has each once."""
    error = refusal(faulty.odd_arange, "*fp32", target="sm_90", BLOCK=100)
    assert (error.kernel, error.target) == ("odd_arange", "sm_90")
    assert "arange's range must be a power of 2" in error.reason
    assert error.problem == f"Triton cannot compile 'odd_arange' for sm_90: {error.reason}"
    facts = error.diagnostic.facts
    assert (facts["kernel"], facts["target"]) == ("odd_arange", "sm_90")
    assert (facts["failed_pass"], facts["reason"]) == (None, error.reason)
    assert (error.passes, error.failed_pass) == ((), None)
    assert error.diagnostic.kind == "compile-error"


@pytest.mark.parametrize(
    ("kernel", "arguments", "mark", "under_caret"),
    [
        (faulty.odd_arange, {"BLOCK": 100}, "odd_arange", "tl.arange(0, BLOCK)"),
        (faulty.decorated, {"n": "i32"}, "decorated", "undefined_name"),
        (faulty.calls_helpers, {"BLOCK": 16}, "inner_helper", "tl.reshape("),
        (faulty.library_fault, {"BLOCK": 16}, "library_fault", "tl.zeros("),
        (faulty.indented, {"BLOCK": 16}, "indented", "tl.static_assert("),
        (faulty.wrong_construct, {"BLOCK": 16}, "wrong_construct", "[v for v in"),
    ],
)
def test_front_end_errors(kernel, arguments, mark, under_caret, messages):
    """Inside nested helpers, under decorators of several lines, in Triton's library, indented."""
    error = refusal(kernel, "*fp32", target="sm_90", **arguments)
    line, text = faulty_line(mark)
    column = text.index(under_caret) + 1
    assert error.position == SourcePosition(faulty.__file__, line, column)
    assert (error.kernel, error.target) == (kernel.__name__, "sm_90")
    assert f"{line:>5} | {text}\n{' ' * (8 + column - 1)}^" in str(error)
    assert error == messages
    assert isinstance(error.__cause__, CompilationError)


def test_a_plain_function_is_named_where_it_is_called(messages):
    error: Any = refusal(faulty.calls_python, "*fp32", BLOCK=16, target="sm_90")
    line, text = faulty_line("calls_python")
    assert error.problem == messages
    assert error.advice == messages
    assert (error.position.line, error.position.column) == (line, text.index("plain_python(") + 1)


def test_ptxas_errors_point_at_the_kernels_line(messages):
    error: Any = refusal(faulty.bad_assembly, "*fp32", BLOCK=16, target="sm_90")
    line, _ = faulty_line("bad_assembly")
    assert error.problem == messages
    assert (error.position.file, error.position.line) == (str(faulty.__file__), line)
    assert isinstance(error.__cause__, PTXASError)
    assert error.failed_pass == "sass.ptxas"
    told: Any = re.fullmatch(r"Line (\d+) of the PTX is: (.*)", error.advice)
    assert "no_such" in told[2]
    ptx = error.passes[-1]
    assert ptx.label == "ptx.translate_to_asm"
    assert ptx.text.read().splitlines()[int(told[1]) - 1].strip() == told[2]


def test_a_failing_verifier_gives_mlirs_own_words(messages):
    error: Any = refusal(faulty.bad_packing, "*fp32", BLOCK=64, target="sm_90")
    assert error.problem == messages
    assert "pack=3 does not divide the 64 elements" in error.advice
    line, _ = faulty_line("bad_packing")
    assert (error.position.file, error.position.line) == (str(faulty.__file__), line)
    assert isinstance(error.__cause__, RuntimeError)


def test_a_failing_pass_is_named_with_what_failed_in_it():
    error: Any = refusal(basic.matmul, *PRODUCT, **BLOCKS, kpack=3, target="gfx942")
    assert re.fullmatch(
        r"Triton cannot compile 'matmul' for gfx942: an assertion inside the compiler failed, .+ "
        r"\(\w+\.\w+:\d+\), in the pass ttgir.accelerate_matmul \(TritonAMDGPUAccelerateMatmul\)",
        error.problem,
    )
    assert error.failed_pass == "ttgir.accelerate_matmul"
    assert error.passes[0].label == "source.front_end"
    assert error.passes[-1].label == "ttgir.optimize_thread_locality"
    assert "tt.load" in error.passes[-1].text.read()
    assert error.position.file == str(basic.__file__)


@pytest.mark.slow
def test_too_much_shared_memory(messages):
    types = (*("*fp32:16",) * 3, *("i32:16",) * 4, "i32:1", "i32:16", "i32:1", "i32:16", "i32:1")
    error = refusal(basic.matmul, *types, BLOCK_M=256, BLOCK_N=256, BLOCK_K=64, target="sm_90")
    assert error.problem == messages
    assert isinstance(error.__cause__, OutOfResources)
    assert error.passes[-1].label == "sass.ptxas"
    buffers = re.findall(r"^ +([\d,]+) bytes  (\S+) (\w+), for line (\d+)$", error.advice, re.M)
    assert len(buffers) == 2
    assert sum(int(size.replace(",", "")) for size, *_ in buffers) == 393216
    with open(str(basic.__file__)) as file:
        source = file.read().splitlines()
    assert all("tl.load" in source[int(line) - 1] for *_, line in buffers)


def test_too_many_warps(messages):
    error = refusal(basic.add, *("*fp32",) * 3, "i32", BLOCK=64, num_warps=64, target="sm_90")
    assert error.problem == messages


def test_what_the_kernel_prints_is_shown_and_the_compilers_dump_is_not(capfd):
    refusal(faulty.says_hello, "*fp32", BLOCK=16, target="sm_90")
    assert capfd.readouterr().out == "BLOCK is 16\n"
    refusal(faulty.bad_assembly, "*fp32", BLOCK=16, target="sm_90")
    assert capfd.readouterr() == ("", "")
    refusal(faulty.bad_packing, "*fp32", BLOCK=64, target="sm_90")
    assert capfd.readouterr() == ("", "")


def test_what_the_compiler_prints_on_success_is_shown(capfd, monkeypatch):
    monkeypatch.setenv("MLIR_ENABLE_DIAGNOSTICS", "remarks")
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "1")
    compile(basic.add, *("*fp32",) * 3, "i32", BLOCK=64, target="sm_90")
    assert "tt.func public @add" in capfd.readouterr().err


def import_elsewhere(prelude="", **environment):
    code = textwrap.dedent(prelude) + "\nimport kernellab.triton_api"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_importing_without_triton_says_how_to_install_it(messages):
    message = import_elsewhere(
        """
        import importlib.util, sys
        real = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "triton" else real(name, *rest)
        """
    )
    assert message == messages


def test_importing_in_tritons_interpreter_mode_says_what_to_do(messages):
    message = import_elsewhere(TRITON_INTERPRET="1")
    assert message.startswith("ImportError: TRITON_INTERPRET=1 is set")
    assert "TRITON_INTERPRET" in message
    assert message == messages
