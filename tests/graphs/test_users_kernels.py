"""Kernels of the user's in compiled functions: names, lines, tensors that they write to."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton

import kernellab
from kernellab.graphs.kernels import GraphComparison
from kernellab.graphs.report import GraphReport
from kernellab.launch.tile_kernel import TileKernel
from tests.kernels import basic

_tile_kernel = TileKernel(basic.add.fn)


@triton.jit
def _twice(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def _swap(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(x_ptr + i, y, mask=i < n)
    tl.store(y_ptr + i, x, mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"])
@triton.jit
def _tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 4 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def _one(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    _twice[(4,)](y, 64, BLOCK=16)
    return y


def _of_another_module(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    _twice[(4,)](y, 64, BLOCK=16)
    z = torch.empty_like(y)
    basic.add[(4,)](x, y, z, 64, BLOCK=16)
    return z.cos() + y


def _both(x: torch.Tensor) -> torch.Tensor:
    y, z = x.sin(), x.cos()
    _swap[(4,)](y, z, 64, BLOCK=16)
    return y - 2 * z


def _autotuned(x: torch.Tensor) -> torch.Tensor:
    n, out = x.numel(), torch.empty_like(x)
    _tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return out.sin()


@triton_op("kernellab_tests::twice_of", mutates_args={})
def _twice_of(x: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    wrap_triton(_twice)[(4,)](out, 64, BLOCK=16)
    return out


def _in_an_operation(x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = _twice_of(x.sin())
    return out + 1


def _in_place(x: torch.Tensor) -> torch.Tensor:
    _twice[(4,)](x, 64, BLOCK=16)
    return x + 1


def _part_of_a_tensor(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    _twice[(2,)](y[:32], 32, BLOCK=16)
    return y


def _with_other_constants(x: torch.Tensor) -> torch.Tensor:
    y, z = x.sin(), x.cos()
    _twice[(4,)](y, 64, BLOCK=16)
    _twice[(2,)](z, 64, BLOCK=32)
    return y + z


def _opened(function: Callable[..., Any], **options: Any) -> GraphReport:
    report = kernellab.graph(function, torch.rand(64), levels=False, **options)
    assert (report.error, report.graphs[0].error) == ("", "")
    return report


def _users_launches(report: GraphReport) -> list[tuple[str, tuple[str, ...]]]:
    launches = report.graphs[0].lowered.launches
    return [(launch.name, tuple(launch.mutated)) for launch in launches if launch.mutated]


def _edited(report: GraphReport, name: str, old: str, new: str) -> GraphComparison:
    (kernel,) = (kernel for kernel in report.kernels if kernel.name == name)
    return report.compare(kernels={name: kernel.source.replace(old, new)})


WRITTEN: list[tuple[Callable[..., Any], list[tuple[str, tuple[str, ...]]], int]] = [
    (_one, [("_twice", ("x_ptr",))], 2),
    (_of_another_module, [("_twice", ("x_ptr",)), ("add", ("z_ptr",))], 2),
    (_both, [("_swap", ("x_ptr", "y_ptr"))], 2),
    (_autotuned, [("_tuned", ("out_ptr",))], 2),
    (_in_an_operation, [("_twice", ("x_ptr",))], 1),
    (_in_place, [("_twice", ("x_ptr",))], 1),
    (_part_of_a_tensor, [("_twice", ("x_ptr",))], 2),
    (_with_other_constants, [("_twice_0", ("x_ptr",)), ("_twice_1", ("x_ptr",))], 2),
]


@pytest.mark.thinned(2)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("function", "launches", "line"), WRITTEN)
def test_name_line_and_what_is_written(function, launches, line) -> None:
    report = _opened(function)
    assert _users_launches(report) == launches
    graph, (name, _) = report.graphs[0], launches[0]
    assert [place.line for place in graph.positions(name)] == [
        function.__code__.co_firstlineno + line
    ]
    (kernel,) = (kernel for kernel in report.kernels if kernel.name == name)
    assert f"def {name.removesuffix('_0')}(" in kernel.source
    assert kernel.compilation.resources.registers
    assert not report.compare().differences


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("function", "kernel", "old", "new"),
    [
        (_one, "_twice", "2 * tl.load", "3 * tl.load"),
        (_both, "_swap", "tl.store(y_ptr + i, x", "tl.store(y_ptr + i, x + y"),
        (_autotuned, "_tuned", "4 * tl.load", "5 * tl.load"),
        (_part_of_a_tensor, "_twice", "2 * tl.load", "3 * tl.load"),
        (_with_other_constants, "_twice_1", "2 * tl.load", "3 * tl.load"),
    ],
)
def test_a_wrong_kernel_is_found_where_it_stores(function, kernel, old, new) -> None:
    found: Any = _edited(_opened(function), kernel, old, new)
    (difference,) = found.differences
    assert (difference.level, difference.kernel) == ("kernel", kernel)
    assert new in difference.line_text
    assert found.launch.kernel.name == kernel


@pytest.mark.slow
def test_sizes_that_are_symbols_have_the_grid_of_the_config() -> None:
    report = _opened(_autotuned, dynamic=True)
    assert "s" in report.graphs[0].wrapper.partition("_tuned_0.run(")[2].partition(")")[0]
    comparison = report.compare()
    assert [graph.obstacle for graph in comparison.graphs] == [""]
    assert not comparison.differences


def test_the_card_says_what_is_written() -> None:
    assert "Written by your own kernels" in str(_opened(_one))


def _of_a_cell(x: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    _tile_kernel[(4,)](x, x.sin(), z, 64, BLOCK=16)
    return z.cos()


@pytest.mark.parametrize(
    ("function", "kernel"),
    [
        (_of_a_cell, "add"),
        pytest.param(_autotuned, "_tuned", marks=pytest.mark.slow),
        pytest.param(_one, "_twice", marks=pytest.mark.slow),
        pytest.param(_in_an_operation, "_twice", marks=pytest.mark.slow),
        pytest.param(_in_place, "_twice", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("run", ["aten", pytest.param("triton", marks=pytest.mark.slow)])
def test_the_backend_keeps_kernels_in_the_graph_and_runs_them(function, kernel, run) -> None:
    """As on a machine with a GPU, and without `interpreted()`."""
    torch._dynamo.reset()
    x = torch.rand(64)
    with kernellab.interpreted():
        expected = function(x.clone())
    compiled = torch.compile(function, backend="kernellab", options={"run": run})
    torch.testing.assert_close(compiled(x.clone()), expected)
    report = kernellab.last_report()
    assert len(report.breaks) == 0
    assert [name for name, _ in _users_launches(report)] == [kernel]


def _between_operations(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    _tile_kernel[(4,)](x, y, y, 64, BLOCK=16)
    return y.cos()


@pytest.mark.parametrize(
    ("function", "has_gpu", "expected"),
    [
        (_between_operations, False, [["y"], ["cos"]]),
        (_between_operations, True, [["y", "cos"]]),
        (_one, False, [["y"]]),
        (_one, True, [["y"]]),
    ],
)
def test_other_backends_get_no_graph_of_the_interpreter(
    function: Callable[[torch.Tensor], torch.Tensor],
    has_gpu: bool,
    expected: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where Dynamo finds a GPU, a launch is a node of the graph, and elsewhere a graph break."""
    graphs: list[list[str]] = []

    def seen(module: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        graphs.append([node.name for node in module.graph.nodes if node.op == "call_method"])
        return module.forward

    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: has_gpu)
    torch._dynamo.reset()
    x = torch.rand(64)
    with kernellab.interpreted():
        assert torch.equal(torch.compile(function, backend=seen)(x), function(x))
    assert graphs == expected
