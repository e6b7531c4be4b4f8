"""Arguments, grids and relaunches as other people's libraries write them: whatever Triton takes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import ArgumentError, GridError, OutOfBounds
from tests.kernels.third_party import _matmul_inner
from tests.kernels.tuned import double
from tests.support.pointers import Pointer

N = 64


class Delegating:
    def __init__(self, inner: torch.Tensor) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_inner"), name)


class Redirected(torch.Tensor):
    """A tensor whose address is another tensor's, as wrappers of quantized weights have it."""

    def data_ptr(self) -> int:
        return int(DATA.data_ptr())


DATA = torch.arange(float(N))
ELSEWHERE = torch.full((N,), -1.0)
ARRAY = numpy.arange(N, dtype=numpy.float32)


def doubled(argument: Any, n: int = N) -> torch.Tensor:
    out = torch.zeros(N)
    with kernellab.interpreted():
        double[(1,)](argument, out, n, BLOCK=N)
    return out


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "make",
    [
        lambda: Pointer(DATA.data_ptr(), torch.float32),
        lambda: Pointer(DATA.data_ptr(), tl.float32),
        lambda: Pointer(DATA.data_ptr(), "fp32", shape=(N,)),
        lambda: Pointer(DATA.data_ptr(), torch.float32, base=ELSEWHERE),
        lambda: Pointer(DATA.data_ptr(), torch.float32, base=ELSEWHERE, shape=(N,)),
        lambda: Pointer(ARRAY.ctypes.data, numpy.dtype("float32"), nbytes=4 * N),
        lambda: Pointer(ARRAY.ctypes.data, tl.float32, array=ARRAY),
        lambda: Pointer(DATA.data_ptr(), tl.float32, numel=lambda: N),
        lambda: Delegating(DATA),
        lambda: ELSEWHERE.as_subclass(Redirected),
    ],
)
def test_whatever_has_data_ptr_and_dtype_is_read_at_data_ptr(make) -> None:
    assert torch.equal(doubled(make()), 2 * DATA)


@pytest.mark.slow
def test_it_is_written_there_too() -> None:
    out = torch.zeros(N)
    there = Pointer(out.data_ptr(), torch.float32, base=torch.zeros(N))
    kernellab.run(double, (1,), DATA, there, N, BLOCK=N)
    assert torch.equal(out, 2 * DATA)
    out = torch.zeros(N)
    found = kernellab.check(double, (1,), DATA, Pointer(out.data_ptr(), torch.float32), N, BLOCK=N)
    assert not found.findings
    assert not out.any(), "a check leaves its arguments as they are"


@pytest.mark.parametrize(
    ("argument", "beyond"),
    [
        (Pointer(DATA.data_ptr(), torch.float32, shape=(40,)), 40),
        (Pointer(DATA.data_ptr(), torch.float32, shape=(5, 4), stride=lambda: (8, 1)), 36),
        (Pointer(DATA[24:].data_ptr(), torch.float32), 40),
        (Delegating(DATA[24:]), 40),
        (Pointer(ARRAY[24:].ctypes.data, tl.float32, array=ARRAY[24:]), 40),
        (Pointer(0, torch.float32), 0),
    ],
)
def test_its_bounds_are_those_of_its_memory(argument, beyond) -> None:
    with pytest.raises(OutOfBounds, match=rf"x_ptr\[{beyond}\]"):
        doubled(argument)


@pytest.mark.slow
@pytest.mark.parametrize("entry_point", [kernellab.run, kernellab.check])
def test_an_address_of_nobodys_is_said(entry_point, raised) -> None:
    """Also while a tensor is alive whose storage has no memory, as torch.func makes them."""
    functional = torch._to_functional_tensor(torch.zeros(N))
    assert functional.device.type == "cpu"
    raised(
        ArgumentError, entry_point, double, (1,), Pointer(0x1230, torch.float32), torch.zeros(N), N,
        BLOCK=N, match="x_ptr",
    )  # fmt: skip


@pytest.mark.parametrize(
    "grid",
    [
        (torch.tensor(2),), torch.tensor([2, 1]), numpy.array([2]),
        (numpy.int64(2), numpy.uint8(1)), (tl.constexpr(2), torch.tensor([1])),
        lambda meta: (torch.tensor(2),),
    ],
)  # fmt: skip
def test_a_size_is_whatever_has_an_index(grid) -> None:
    out = torch.zeros(N)
    with kernellab.interpreted():
        launch = double[grid](DATA, out, N, BLOCK=32)
    assert launch.interpreted_run.launch.grid == (2, 1, 1)
    assert torch.equal(out, 2 * DATA)


@pytest.mark.parametrize("grid", [(0,), (4, 0), lambda meta: (1, 0, 2)])
def test_a_size_of_0_launches_nothing(grid, raised) -> None:
    out = torch.full((N,), 5.0)
    with kernellab.interpreted():
        double[grid](DATA, out, N, BLOCK=32)
        with pytest.raises(triton.CompilationError):  # it is compiled all the same
            double[grid](DATA, out, N, BLOCK=33)
    kernellab.run(double, grid, DATA, out, N, BLOCK=32)
    assert (out == 5).all()
    assert not kernellab.check(double, grid, DATA, out, N, BLOCK=32)
    counted = kernellab.accesses(double, grid, DATA, out, N, BLOCK=32)
    assert any("nothing was counted" in note for note in counted.notes)
    assert not sum(access.sectors for access in counted)
    compilation: Any = kernellab.compile(double, DATA, out, N, BLOCK=32)
    for examine in (partial(kernellab.trace, double), compilation.estimate):
        raised(GridError, examine, grid, DATA, out, N, BLOCK=32)


def test_the_result_is_launched_again_without_its_constants() -> None:
    out = torch.zeros(N)
    with kernellab.interpreted():
        launch = double[(1,)](ELSEWHERE, out, N, BLOCK=N)
        launch[(1, 1, 1)](DATA, out, N)
        assert torch.equal(out, 2 * DATA)
        launch[(1, 1, 1)](DATA, out, 8, N)
        compiled = double.warmup(DATA, out, N, BLOCK=N, grid=(1,))
        out.zero_()
        compiled[(1, 1, 1)](DATA, out, N)
        assert torch.equal(out, 2 * DATA)
        with pytest.raises(ArgumentError, match="without 'n'"):
            launch[(1, 1, 1)](DATA, out)


def test_a_relaunch_compiles_nothing(monkeypatch) -> None:
    out = torch.zeros(N)
    compiled: list[Any] = []
    compile_ = triton.compile

    def seen(*args: Any, **keywords: Any) -> Any:
        compiled.append(args)
        return compile_(*args, **keywords)

    monkeypatch.setattr(triton, "compile", seen)
    with kernellab.interpreted():
        launch = double[(1,)](ELSEWHERE, out, N, BLOCK=N)
        launch[(1, 1, 1)](DATA, out, N)
        assert not compiled
        assert launch.n_regs > 0
        assert len(compiled) == 1


LARGE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128, "num_stages": 4}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_stages": 2}


def product_by(kernel: Any, **constants: Any) -> None:
    a, c = torch.ones(64, 64), torch.zeros(64, 64)
    kernel[(1, 1)](a, a, c, 64, 64, 64, 64, 1, 64, 1, 64, 1, **constants)
    assert (c == 64).all()


def test_out_of_shared_memory_is_found_at_the_first_launch() -> None:
    """The reference is Triton's own OutOfResources for what its compiler allocates."""
    with kernellab.interpreted():
        product_by(_matmul_inner, **SMALL)
        with pytest.raises(triton.OutOfResources, match="shared memory, Required: 589824"):
            product_by(_matmul_inner, **LARGE)
        with pytest.raises(triton.OutOfResources, match="threads, Required: 2048"):
            product_by(_matmul_inner, **{**SMALL, "num_warps": 64})


def config(constants: dict[str, Any], **options: Any) -> triton.Config:
    given = dict(constants)
    stages = given.pop("num_stages")
    return triton.Config(given, num_stages=stages, **options)


class Tuner(triton.runtime.Autotuner):  # type: ignore[misc]
    def run(self, *args: Any, **keywords: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args))
        if "chosen" not in self.cache:
            timed = {one: self._bench(*args, config=one, **keywords) for one in self.configs}
            self.cache["chosen"] = min(timed, key=lambda one: timed[one])
        return self.fn.run(*args, **keywords, **self.cache["chosen"].all_kwargs())


@pytest.mark.parametrize("kind", [triton.runtime.Autotuner, Tuner])
def test_tuners_drop_what_does_not_fit_and_launch_once(kind, capsys) -> None:
    configs = [config(LARGE), config(SMALL, num_warps=64), config(SMALL), config(SMALL)]
    runs = []
    tuned = kind(_matmul_inner, _matmul_inner.arg_names, configs, ["K"], None, None)
    kernel = _matmul_inner.fn
    kernel.add_pre_run_hook(lambda *args, **keywords: runs.append(keywords["num_warps"]))
    try:
        with kernellab.interpreted():
            product_by(tuned)
            (chosen,) = tuned.cache.values()
            assert chosen is configs[2]
    finally:
        kernel.pre_run_hooks.clear()
    assert runs == [4, 64, 4, 4], "three tried without running, and one launch"
    assert not tuned.cache, "what was chosen without timing is forgotten"
    if kind is triton.runtime.Autotuner:
        assert "The first that fits of 4 configs is used" in capsys.readouterr().err


class Kept:
    """A tuner's cache that is no mapping, as one over a database is: it only takes its own keys."""

    def __init__(self, known: dict[str, triton.Config]) -> None:
        self.rows = known

    def __contains__(self, key: str) -> bool:
        return key.lower() in self.rows

    def __getitem__(self, key: str) -> triton.Config:
        return self.rows[key.lower()]

    def __setitem__(self, key: str, config: triton.Config) -> None:
        self.rows[key.lower()] = config


@pytest.mark.parametrize("known", [{}, {"chosen": triton.Config({"BLOCK": 64})}])
def test_a_tuner_may_keep_what_it_chose_in_a_cache_of_its_own(known) -> None:
    """Nothing that was chosen without timing is written there; what is known is used."""
    configs = [triton.Config({"BLOCK": size}) for size in (16, 32)]
    tuned = Tuner(double, double.arg_names, configs, ["n"], None, None)
    cache = tuned.cache = Kept(dict(known))
    for _ in range(2):
        with kernellab.interpreted():
            y = torch.zeros(N)
            tuned[(N,)](DATA, y, N)
            torch.testing.assert_close(y, 2 * DATA)
            assert tuned.cache["chosen"] is known.get("chosen", configs[0])
        assert tuned.cache is cache
        assert cache.rows == known


def test_a_tuner_that_measures_in_another_way_is_its_own_again() -> None:
    measured = []

    def do_bench(kernel_call: Callable[[], Any], quantiles: Any) -> list[float]:
        measured.append(kernel_call)
        return [1.0] * 3

    tuned = Tuner(double, double.arg_names, [triton.Config({"BLOCK": 32})], ["n"], None, None,
                  do_bench=do_bench)  # fmt: skip
    with kernellab.interpreted():
        tuned[(2,)](DATA, torch.zeros(N), N)
    assert not measured
    assert tuned.do_bench is do_bench
