"""What is no grid, no path, no text and no plain tensor is refused by its name."""

import ctypes
import functools
import io
import itertools
import linecache
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy
import pytest
import torch

import kernellab
from kernellab.errors import WITHOUT_SOURCE, ArgumentError, CompileError, GridError, OutOfBounds
from tests.kernels.tuned import double
from tests.support import versions
from tests.support.pointers import Pointer

N = 64


class Long(list[int]):
    """A list that is longer than any, by what it says."""

    def __len__(self) -> int:
        return 10**30

    def __iter__(self) -> Iterator[int]:
        return itertools.repeat(1)


def launch(grid: Any, x: Any, entry_point: Any = kernellab.run, block: Any = 64) -> None:
    entry_point(double, grid, x, torch.zeros(N), N, BLOCK=block)


@pytest.mark.slow
@pytest.mark.parametrize(
    "grid",
    [
        lambda: (1,), lambda meta, more: (1,), int, double, kernellab.TileKernel(double),
        ModuleType("sizes"), functools.partial(double), "x", memoryview(b"x"), (10**5000,),
        [1] * 100_000, Long([1]),
    ],
)  # fmt: skip
def test_what_is_no_grid_is_the_calls_error(grid, raised) -> None:
    caught = raised(GridError, launch, grid, torch.ones(N))
    assert len(str(caught)) < 2_000
    for entry_point in (kernellab.check, kernellab.trace):
        with pytest.raises(GridError):
            launch(grid, torch.ones(N), entry_point)


@pytest.mark.filterwarnings("ignore")
def test_a_nested_tensor_is_no_grid(raised) -> None:
    raised(GridError, launch, nested(torch.strided), torch.ones(N))


def test_code_that_is_no_function_is_refused(raised) -> None:
    no_function: Any = 5
    error = raised(ArgumentError, kernellab.inline_assembly("nothing;"), no_function)
    error = raised(ArgumentError, kernellab.device_function("nothing"), no_function)
    raised(ArgumentError, kernellab.read_ncu, "profile.csv", launch=no_function + 0.5)
    raised(ArgumentError, kernellab.read_ncu, "profile.csv", no_function)


class Wrapper(torch.Tensor):
    """A tensor that is about another, and has no memory."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    __torch_dispatch__: Any = None


class Own(torch.Tensor):
    """A tensor of a user's, with memory."""


def fake() -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(N)


def freed() -> torch.Tensor:
    tensor = torch.ones(N)
    tensor.untyped_storage().resize_(0)
    return tensor


def shortened() -> torch.Tensor:
    tensor = torch.ones(N)
    tensor.untyped_storage().resize_(16)
    return tensor


def nested(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(3), torch.ones(5)], layout=layout)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        lambda: nested(torch.strided), lambda: nested(torch.jagged),
        lambda: torch.ones(8, 8).to_sparse(), lambda: torch.ones(8, 8).to_sparse_csr(), fake, freed,
        shortened, lambda: torch._neg_view(torch.ones(N)),
        lambda: torch.ones(N, dtype=torch.complex64).conj().imag, lambda: Wrapper(torch.ones(N)),
    ],
)  # fmt: skip
def test_tensors_without_a_block_of_memory_are_refused_by_name(make, raised) -> None:
    raised(ArgumentError, launch, (1,), make(), match="x_ptr")
    with pytest.raises(ArgumentError, match="x_ptr"):
        launch((1,), make(), kernellab.check)


def test_a_sparse_tensor_cannot_be_compiled_for_its_layout(raised) -> None:
    raised(
        ArgumentError, kernellab.compile, double, torch.ones(8, 8).to_sparse_csr(), torch.ones(N),
        N, BLOCK=64, match="x_ptr",
    )  # fmt: skip


ALIGNED = torch.ones(N)


class Grudging:
    """An object that has all methods, and raises when they are called."""

    def _raise(self, *asked: Any) -> Any:
        raise RuntimeError("no")

    __bool__ = __eq__ = __len__ = __index__ = __int__ = __float__ = __iter__ = _raise
    __repr__ = __str__ = __getitem__ = __call__ = _raise
    __hash__ = None  # type: ignore[assignment]


class Itself:
    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self) -> Any:
        return self


def masked() -> Any:
    return numpy.ma.masked_array(numpy.ones(N, numpy.float32), mask=[True] * N)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: Pointer(64), lambda: Pointer(64, shape=(N,)), lambda: Pointer(1 << 63, shape=(N,)),
        lambda: Pointer(ALIGNED.data_ptr() + 2),
        lambda: Pointer(ALIGNED.data_ptr() + 2, shape=(N - 1,)), lambda: Pointer("x"),
        lambda: Pointer(ValueError("no")), Grudging, Itself, MagicMock, lambda: torch.Tensor,
        masked, lambda: Long([1]), lambda: 10**5000, lambda: "x" * 100_000,
        lambda: (ctypes.c_float * N)(),
    ],
)  # fmt: skip
def test_objects_that_answer_with_anything_are_refused_by_name(make, raised) -> None:
    caught = raised(ArgumentError, launch, (1,), make(), match="x_ptr")
    assert len(str(caught)) < 2_000
    with pytest.raises(ArgumentError, match="x_ptr"):
        launch((1,), make(), kernellab.check)


def test_memory_that_only_an_object_knows_of_is_read_where_it_is() -> None:
    room = (ctypes.c_float * N)(*range(N))
    result = torch.zeros(N)
    given = Pointer(ctypes.addressof(room), shape=(N,))
    kernellab.run(double, (1,), given, result, N, BLOCK=64)
    assert torch.equal(result, torch.arange(N) * 2.0)


@pytest.mark.parametrize(
    "given",
    [None, "x", torch.tensor(64), object(), double, 10**30, numpy.frombuffer(bytes(8))],
    ids=lambda given: type(given).__name__,
)
def test_a_constant_that_is_no_number_is_named(given, raised) -> None:
    raised(CompileError, launch, (1,), torch.ones(N), block=given, match="BLOCK")


def test_a_transform_of_torchs_is_refused_and_a_users_class_with_memory_is_taken(raised) -> None:
    mapped = torch.vmap(functools.partial(launch, (1,)))
    raised(ArgumentError, mapped, torch.ones(3, N), match="x_ptr")
    launch((1,), torch.ones(N).as_subclass(Own))
    launch((1,), torch.nn.Parameter(torch.ones(N)))


def test_an_expanded_tensor_that_is_read_as_contiguous_is_out_of_bounds(raised) -> None:
    z = torch.zeros(64)
    for x in (torch.ones(1).expand(64), torch.ones(4, 1).expand(4, 16)):
        raised(OutOfBounds, kernellab.run, double, (1,), x, z, 64, BLOCK=64, match="x_ptr")


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
