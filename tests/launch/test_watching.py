"""`on_launch` and `guarded_launches`: on the interpreter, and through Triton's own launcher."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler import CompiledKernel

import kernellab
from kernellab.launch import dispatch


@kernellab.TileKernel
def scale(x, out, n, factor: tl.constexpr, BLOCK: tl.constexpr = 16):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * factor)


def on_gpu(launch: Any = lambda *_: None) -> CompiledKernel:
    """A compiled kernel whose launcher is a function."""
    compiled: Any = object.__new__(CompiledKernel)
    compiled.src = SimpleNamespace(fn=scale)
    compiled.name = "scale"
    compiled._run = launch
    return compiled


def launch(compiled: Any, grid: tuple[int, int, int], *args: Any) -> None:
    compiled.run(*grid, *[None] * 6, *args)


def test_a_launch_of_the_interpreter_is_told_before_and_after() -> None:
    x, out = torch.arange(32.0), torch.zeros(32)
    told: list[tuple[str, Any]] = []

    def entered(launch: kernellab.WatchedLaunch) -> None:
        told.append(("enter", launch))
        assert out.sum() == 0

    with kernellab.on_launch(entered, lambda one: told.append(("exit", one))):
        scale[lambda p: (triton.cdiv(p["n"], p["BLOCK"]),)](x, out, 32, factor=2)
    scale[(2,)](x, out, 32, factor=2)
    assert [what for what, _ in told] == ["enter", "exit"]
    seen = told[0][1]
    assert seen is told[1][1]
    assert seen.kernel is scale
    assert seen.grid == (2, 1, 1)
    assert seen.device == "cpu"
    assert seen.arguments["x"] is x
    assert seen.arguments["BLOCK"] == 16
    assert torch.equal(out, 2 * x)


def test_a_plain_kernel_is_told_too() -> None:
    plain = triton.jit(scale.fn)
    told: list[Any] = []
    with kernellab.interpreted(), kernellab.on_launch(told.append):
        plain[(1,)](torch.ones(16), torch.zeros(16), 16, factor=3)
    assert [one.kernel for one in told] == [plain]


def test_a_launch_on_a_gpu_is_told_with_its_arguments() -> None:
    order: list[Any] = []
    compiled = on_gpu(lambda *given: order.append(given[:3]))
    x = torch.ones(4)
    with kernellab.on_launch(lambda one: order.append(one), lambda one: order.append("after")):
        launch(compiled, (3, 2, 1), x, x, 4, 2.0, 16)
    told = order[0]
    assert order[1:] == [(3, 2, 1), "after"]
    assert (told.device, told.grid, told.kernel) == ("gpu", (3, 2, 1), scale)
    assert told.arguments["factor"] == 2.0
    assert told.arguments["x"] is x


def test_without_a_watch_nothing_is_in_the_way(monkeypatch) -> None:
    """Triton's own launcher is in its place, and nothing of a launch is collected."""
    own = vars(CompiledKernel)["run"]
    first = kernellab.on_launch(print)
    second = kernellab.on_launch(exit=print)
    assert vars(CompiledKernel)["run"] is not own
    first.remove()
    first.remove()
    assert vars(CompiledKernel)["run"] is not own
    second.remove()
    assert vars(CompiledKernel)["run"] is own

    def never(*_given: Any) -> None:
        raise AssertionError("a launch was collected for no one")

    monkeypatch.setattr(dispatch, "WatchedLaunch", never)
    scale[(1,)](torch.ones(16), torch.zeros(16), 16, factor=2)
    launch(on_gpu(), (1, 1, 1))


def test_watches_nest() -> None:
    order: list[str] = []
    with (
        kernellab.on_launch(lambda _: order.append("1"), lambda _: order.append("-1")),
        kernellab.on_launch(lambda _: order.append("2"), lambda _: order.append("-2")),
    ):
        scale[(1,)](torch.ones(16), torch.zeros(16), 16, factor=2)
    assert order == ["1", "2", "-2", "-1"]


def test_what_enter_raises_stops_the_launch() -> None:
    out = torch.zeros(16)
    left: list[Any] = []

    def refuse(_launch: Any) -> None:
        raise RuntimeError("not now")

    with kernellab.on_launch(refuse, left.append), pytest.raises(RuntimeError, match="not now"):
        scale[(1,)](torch.ones(16), out, 16, factor=2)
    assert out.sum() == 0
    assert len(left) == 1


def test_a_launch_that_fails_is_left_too() -> None:
    left: list[Any] = []
    with kernellab.on_launch(exit=left.append), pytest.raises(kernellab.OutOfBounds):
        scale[(2,)](torch.ones(16), torch.zeros(16), 16, factor=2)
    assert len(left) == 1


@pytest.mark.parametrize("given", [{}, {"enter": 3}])
def test_what_is_no_function_is_refused(given, raised) -> None:
    raised(kernellab.ArgumentError, kernellab.on_launch, **given)


DIED = "CUDA error: an illegal memory access was encountered"


def synchronizing(monkeypatch: pytest.MonkeyPatch, *errors: str) -> None:
    """Synchronize a GPU that is not there: each time with one of these errors, "" for none."""
    left = iter(errors)

    def synchronize() -> None:
        if error := next(left):
            raise RuntimeError(error)

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)


def test_a_launch_that_dies_says_line_and_lane(monkeypatch, messages) -> None:
    synchronizing(monkeypatch, "", DIED)
    x, out = torch.ones(16), torch.zeros(24)
    with kernellab.guarded_launches(), pytest.raises(kernellab.GpuFault) as caught:
        launch(on_gpu(), (2, 1, 1), x, out, 24, 2, 16)
    error: Any = caught.value
    assert "scale" in error.problem
    assert error.problem == messages
    assert "program (1, 0, 0), element 0 of the tile: this load reads x[16]" in error.problem
    assert error.position.line == scale.starting_line_number + 3
    assert {one.argument for one in error.findings} == {"x", "out"}
    assert out.sum() == 0  # the check runs on copies
    assert error.kernel == "scale"


@pytest.mark.parametrize(
    ("syncs", "error"),
    [
        pytest.param(("", DIED), kernellab.GpuFault, id="a fault that no check finds"),
        pytest.param((DIED,), kernellab.GpuFault, id="a fault of before"),
        pytest.param(("", "out of memory"), RuntimeError, id="another error"),
    ],
)
def test_a_launch_that_dies_with_nothing_found_is_told_so(
    syncs, error, monkeypatch, messages
) -> None:
    synchronizing(monkeypatch, *syncs)
    with kernellab.guarded_launches(), pytest.raises(error) as refused:
        launch(on_gpu(), (1, 1, 1), torch.ones(16), torch.zeros(16), 16, 2, 16)
    assert refused.value == messages


def test_launches_of_the_interpreter_need_no_guard() -> None:
    out = torch.zeros(16)
    with kernellab.guarded_launches():
        scale[(1,)](torch.ones(16), out, 16, factor=2)
    assert out.sum() == 32
