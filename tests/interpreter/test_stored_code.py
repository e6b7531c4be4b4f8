"""Generated code in memory and on disk: it is used again, is never out of date, may be lost."""

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab import triton_api
from kernellab.common.containers import Latest
from kernellab.errors import OutOfBounds
from kernellab.interpreter import foreign_code
from kernellab.interpreter.execution import program, stepping_code
from tests.support.imported import imported
from tests.support.source_lines import position_of

SCALED = """
import triton
import triton.language as tl

FACTOR: tl.constexpr = tl.constexpr({factor})

@triton.jit
def helper(x):
    return x * {inner}

@triton.jit
def scaled(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, helper(x) * FACTOR, mask=offsets < n)
"""


@triton.jit
def beyond(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(z_ptr + offsets, x, mask=offsets < n)


@triton.jit
def counted(lock_ptr, total_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


@pytest.fixture(scope="module", autouse=True)
def _older_objects_are_left_out() -> Iterator[None]:
    """With those of other tests, a look at all objects takes a quarter of a second."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "code"


def forget() -> None:
    """As in a new process: nothing is known but what is on disk."""
    for thing in gc.get_objects():
        if type(thing) is triton_api.MadeOf:
            thing.kept.clear()


def launch(kernel: Any, n: int = 100) -> torch.Tensor:
    x, z = torch.arange(128.0), torch.zeros(128)
    kernellab.run(kernel, (2,), x, z, n, BLOCK=64)
    return z


def scaled(folder: Path, factor: int = 2, inner: int = 3) -> Any:
    """A kernel from a file that is written anew, as one that was edited."""
    return imported(folder / "scaled.py", SCALED.format(factor=factor, inner=inner)).scaled


def test_code_is_taken_from_disk(tmp_path, monkeypatch) -> None:
    """The compiler's front end runs once."""
    kernel = scaled(tmp_path)
    made = launch(kernel)
    forget()
    monkeypatch.setattr(program, "_generic_text", pytest.fail)
    assert torch.equal(launch(kernel), made)
    assert made[50] == 300


def test_every_change_makes_other_code(tmp_path) -> None:
    for changed, stored in (({}, 60), ({"factor": 5}, 150), ({"inner": 4}, 80), ({}, 60)):
        assert launch(scaled(tmp_path, **changed))[10] == stored


@triton.jit
def applied(x_ptr, z_ptr, n, FUNCTION: tl.constexpr):
    tl.store(z_ptr + tl.arange(0, 128), FUNCTION(tl.load(x_ptr + tl.arange(0, 128))))


def test_a_constant_may_be_a_function(tmp_path, folder) -> None:
    for inner, files in ((3, 1), (4, 2), (3, 2)):
        helper = scaled(tmp_path, inner=inner).fn.__globals__["helper"]
        x, z = torch.arange(128.0), torch.zeros(128)
        kernellab.run(applied, (1,), x, z, 128, FUNCTION=helper)
        assert torch.equal(z, x * inner)
        assert len(list(folder.glob("*.code"))) == files
        forget()


def test_options_constants_and_the_environment_are_part_of_the_key(
    tmp_path, folder, monkeypatch
) -> None:
    kernel = scaled(tmp_path)
    x, z = torch.arange(128.0), torch.zeros(128)
    for options in ({"BLOCK": 64}, {"BLOCK": 128}, {"BLOCK": 64, "num_warps": 8}):
        kernellab.run(kernel, (2,), x, z, 100, **options)
    assert len(list(folder.iterdir())) == 3
    forget()
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    kernellab.run(kernel, (2,), x, z, 100, BLOCK=64)
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize("kept_back", ["by Triton", "by the user's functions"])
def test_nothing_is_stored_where_it_would_not_hold(
    kept_back, tmp_path, folder, monkeypatch
) -> None:
    """A later process without a user's functions reports the operation, as without a cache."""
    if kept_back == "by Triton":
        monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    else:
        monkeypatch.setitem(foreign_code._SYMBOLS, "my_function", lambda x: x)
    assert launch(scaled(tmp_path))[10] == 60
    assert not folder.exists()


def test_a_fault_of_stored_code_is_explained_as_that_of_new_code() -> None:
    said = []
    for _ in range(2):
        forget()
        with pytest.raises(OutOfBounds) as caught:
            kernellab.run(beyond, (2,), torch.ones(100), torch.zeros(128), 100, BLOCK=64)
        said.append(str(caught.value))
        assert position_of(caught.value).file == __file__
    assert said[0] == said[1]
    assert "x_ptr" in said[1]


def test_programs_that_wait_run_from_stored_code() -> None:
    for _ in range(2):
        lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
        kernellab.run(counted, (5,), lock, total)
        assert total[0] == 5
        forget()


@pytest.mark.parametrize("content", [b"", b"x" * 500, None], ids=["empty", "other", "cut off"])
def test_a_damaged_file_is_made_anew(tmp_path, folder, content) -> None:
    kernel = scaled(tmp_path)
    launch(kernel)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-10] if content is None else content)
    forget()
    assert launch(kernel)[10] == 60
    assert program.load_stored(file) is not None


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path / "file"))
    assert launch(scaled(tmp_path))[10] == 60


def test_the_older_half_goes_when_there_are_too_many(tmp_path, folder, monkeypatch) -> None:
    monkeypatch.setattr(program, "MOST_FILES", 10)
    folder.mkdir(parents=True)
    for age in range(12):
        (folder / f"{age}.code").touch()
        os.utime(folder / f"{age}.code", (1000 - age, 1000 - age))
    launch(scaled(tmp_path))
    assert {file.stem for file in folder.iterdir()} > {"0", "5"}
    assert len(list(folder.iterdir())) == 7


def test_a_check_and_a_trace_see_the_kernel_behind_stored_code(tmp_path) -> None:
    kernel = scaled(tmp_path)
    launch(kernel)
    forget()
    x, z = torch.arange(128.0), torch.zeros(128)
    assert not kernellab.check(kernel, (2,), x, z, 100, BLOCK=64).findings
    assert kernellab.trace(kernel, (2,), x, z, 100, BLOCK=64).final_memory("z_ptr")[10] == 60


def test_a_first_launch_under_an_emulated_gpu_reads_no_module(
    tmp_path, folder, monkeypatch
) -> None:
    """Whether the kernel fits on the GPU is known without its IR."""
    kernel, z = scaled(tmp_path), torch.zeros(128)
    for is_stored in (False, True):
        with monkeypatch.context() as patch, kernellab.interpreted():
            if is_stored:
                patch.setattr(program, "read_module", pytest.fail)
            kernel[(2,)](torch.arange(128.0), z.zero_(), 100, BLOCK=64)
        assert z[10] == 60
        forget()
    assert len(list(folder.iterdir())) == 1


def test_a_number_is_kept_beside_the_code(tmp_path) -> None:
    file = tmp_path / "digest.code"
    made: list[str] = []

    def make() -> int:
        made.append("")
        return 7

    assert program.kept_number(None, "shared", make) == 7
    assert [program.kept_number(file, "shared", make) for _ in range(2)] == [7, 7]
    assert len(made) == 2
    (tmp_path / "digest.shared").write_text("damaged")
    assert program.kept_number(file, "shared", make) == 7
    assert len(made) == 3


@triton.jit
def plus(x_ptr, N: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + N)


@triton.jit
def minus(x_ptr, N: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i) - N)


def made(module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """References to all that a function makes from now on."""
    make: Callable[..., Any] = getattr(module, name)
    found = []

    def noting(*args: Any) -> Any:
        result = make(*args)
        found.append(weakref.ref(result))
        return result

    monkeypatch.setattr(module, name, noting)
    return found


def test_the_code_of_the_latest_specializations_is_kept(monkeypatch) -> None:
    monkeypatch.setattr(program, "MOST_KEPT", 3)
    codes = made(program, "make_program", monkeypatch)
    x = torch.zeros(8)
    for number in [1, 2, 3, 1, 4, 1, 4, 5]:
        kernellab.run(plus, (1,), x, number)
    assert x.tolist() == [21.0] * 8
    gc.collect()
    assert [one() is not None for one in codes] == [True, False, False, True, True]
    kernellab.run(plus, (1,), x, 2)
    assert x.tolist() == [23.0] * 8
    assert len(codes) == 6


@pytest.mark.slow
def test_so_is_the_code_for_stepping(monkeypatch) -> None:
    monkeypatch.setattr(program, "MOST_KEPT", 2)
    monkeypatch.setattr(stepping_code, "MOST_KEPT", 2)
    codes = made(program, "make_program", monkeypatch)
    for number in range(4):
        trace = kernellab.trace(minus, (1,), torch.zeros(8), number)
        assert trace.final_memory("x_ptr").tolist() == [-number] * 8
    del trace
    gc.collect()
    assert [one() is not None for one in codes] == [False, False, True, True]


def test_what_is_asked_for_stays() -> None:
    latest: Latest[str] = Latest(2)
    latest.keep(1, "one")
    latest.keep(2, "two")
    assert latest.get(1) == "one"
    latest.keep(3, "three")
    assert [latest.get(key) for key in (1, 2, 3)] == ["one", None, "three"]
    latest.keep(3, "new")
    assert (len(latest), latest.get(3)) == (2, "new")
