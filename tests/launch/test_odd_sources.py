"""Kernels whose source looks otherwise than most: what Triton compiles runs, and what its front end
leaves out is refused.
"""

import io
import linecache
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import WITHOUT_SOURCE, ArgumentError
from tests.support import versions

SOURCE = """
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(z_ptr + i, x * 2, mask=i < n)
"""


def kernel_in(folder: Path, source: bytes) -> Any:
    file = folder / "odd.py"
    file.write_bytes(source)
    return runpy.run_path(str(file))["double"]


@pytest.mark.parametrize(
    "source",
    [
        SOURCE.replace("x * 2", f"x{' ' * 50_000}* 2").encode(),
        SOURCE.replace("\n", "\r\n").encode(),
        SOURCE.encode("utf-8-sig"),
        f"# coding: latin-1{SOURCE}".replace(" n", " é").encode("latin-1"),
        SOURCE.replace("    x =", "    \x0c# \x1c \u2028\n    x =").encode(),
        SOURCE.replace("    ", "\t").replace("x =", "ﬁ𝔵 =").replace("x * 2", "fix * 2").encode(),
    ],
    ids=["long line", "crlf", "bom", "latin-1", "form feed", "tabs, nfkc"],
)  # fmt: skip
def test_whatever_python_reads_runs_and_is_traced(tmp_path, source) -> None:
    kernel = kernel_in(tmp_path, source)
    launch = (1,), torch.ones(64), (z := torch.zeros(64)), 64
    kernellab.run(kernel, *launch, BLOCK=64)
    assert z.tolist() == [2.0] * 64
    assert "tl.store" in str(kernellab.trace(kernel, *launch, BLOCK=64).show())


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("n, *, BLOCK", "BLOCK"),
        ("n, /, BLOCK", "x_ptr"),
        ("n, *rest, BLOCK", "rest"),
        pytest.param(
            "n, BLOCK: tl.constexpr, **rest",
            "rest",
            marks=pytest.mark.skipif(
                versions.REFUSES_KEYWORD_PARAMETERS, reason="Triton 3.9 refuses it itself"
            ),
        ),
    ],
)
def test_parameters_that_the_front_end_leaves_out_are_refused(
    tmp_path, parameters, words, raised
) -> None:
    given = "n, BLOCK: tl.constexpr" if "**" in parameters else "n, BLOCK"
    kernel = kernel_in(tmp_path, SOURCE.replace(given, parameters).encode())
    raised(
        ArgumentError, kernellab.run, kernel, (1,), torch.ones(64), torch.zeros(64), 64, BLOCK=64,
        match=words,
    )  # fmt: skip


def test_a_debugger_of_a_kernel_whose_file_became_a_pipe_shows_what_was_compiled(
    tmp_path, monkeypatch, capsys
) -> None:
    kernel = kernel_in(tmp_path, SOURCE.encode())
    (tmp_path / "odd.py").unlink()
    os.mkfifo(tmp_path / "odd.py")
    linecache.clearcache()
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\nl\nq\n"))
    kernellab.debug(kernel, (1,), torch.ones(64), torch.zeros(64), 64, BLOCK=64)
    assert "-> x = tl.load(x_ptr + i, mask=i < n)" in capsys.readouterr().out


FROM_TEXT = f"import kernellab\nexec(compile({SOURCE!r}, 'generated', 'exec'))\nprint(double)"


def ended(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_kernel_from_exec_ends_a_script_with_the_way_out(messages) -> None:
    refused = ended(FROM_TEXT)
    assert refused.returncode == 1
    *_, error, advice = refused.stderr.splitlines()
    assert error.startswith("ValueError")
    assert advice == WITHOUT_SOURCE == messages
    assert "linecache" not in ended("import kernellab\nraise ValueError('another')").stderr


def test_a_kernel_from_exec_runs_once_linecache_has_its_lines() -> None:
    names: dict[str, Any] = {}
    lines, text = SOURCE.splitlines(True), SOURCE
    linecache.cache["generated"] = (len(text), None, lines, "generated")
    exec(compile(text, "generated", "exec"), names)  # noqa: S102
    z = torch.zeros(4)
    kernellab.run(names["double"], (1,), torch.ones(4), z, 4, BLOCK=4)
    assert z.tolist() == [2] * 4
    del linecache.cache["generated"]


def test_a_tile_kernel_from_exec_names_the_way_out(raised) -> None:
    names: dict[str, Any] = {}
    exec(SOURCE.replace("@triton.jit", ""), names)  # noqa: S102
    raised(ArgumentError, kernellab.TileKernel, names["double"], match="linecache")
