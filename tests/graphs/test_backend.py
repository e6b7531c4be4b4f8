"""`torch.compile(..., backend="kernellab")`: on the CPU, in ATen or in the generated kernels."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import entry_points
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it
from torch.utils.checkpoint import checkpoint

import kernellab
from kernellab.errors import ArgumentError, OptionError
from kernellab.graphs.backend import kernellab_backend
from tests.support.graph_corpus import CASES

RUN = (
    "attention", "attention_causal_bf16", "cross_entropy", "embedding", "group_norm", "mlp",
    "reduction_dynamic", "softmax_bf16",
)  # fmt: skip
"""Graphs that are run through the interpreter here; the others are in docs/fidelity.md."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    is_here = torch.cuda.is_available()

    def refuse(device: torch.device) -> None:  # as torch 2.11 does, of a GPU that is hidden
        assert torch.cuda.is_available() == is_here, f"torch makes a real tensor on {device}"

    monkeypatch.setattr("torch._subclasses.fake_tensor.init_gpu_context", refuse)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _step(function: Callable[..., Any], args: tuple[Any, ...]) -> list[torch.Tensor]:
    """Results and gradients, with a fixed gradient coming in."""
    for one in args:
        one.grad = None
    result = function(*args)
    torch.manual_seed(1)
    result.backward(torch.randn(result.shape).to(result.dtype))
    return [result.detach(), *(one.grad for one in args if one.grad is not None)]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_generated_kernels_give_what_eager_torch_gives(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    function, args = case.make("cpu")
    expected = _step(function, args)
    compiled = torch.compile(
        function, backend=kernellab_backend, options={"run": "triton"}, dynamic=case.dynamic
    )
    for one, right in zip(_step(compiled, args), expected, strict=True):
        wide = 2e-2 if right.dtype == torch.bfloat16 else 2e-5
        torch.testing.assert_close(one, right, rtol=wide, atol=wide * float(right.abs().max()))


def _drop(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x.sin(), 0.3) + torch.rand_like(x)


def _attend_and_drop(x: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(_drop(x), x, x, dropout_p=0.2)


def _attend_again_in_backward(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = checkpoint(_attend_and_drop, x, use_reentrant=False)
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        _drop,
        *(
            pytest.param(f, marks=pytest.mark.slow)
            for f in (_attend_and_drop, _attend_again_in_backward)
        ),
    ],
)
def test_generated_kernels_draw_what_eager_torch_draws(function: Callable[..., Any]) -> None:
    x = torch.randn(2, 2, 12, 16, requires_grad=True)
    compiled = torch.compile(function, backend=kernellab_backend, options={"run": "triton"})
    torch.manual_seed(0)
    expected = _step(function, (x,))
    torch.manual_seed(0)
    for made, right in zip(_step(compiled, (x,)), expected, strict=True):
        torch.testing.assert_close(made, right, rtol=1e-4, atol=1e-4)


def test_aten_operations_give_what_eager_torch_gives_and_leave_a_report() -> None:
    torch.manual_seed(0)
    function, args = CASES["attention"].make("cpu")
    expected = _step(function, args)
    compiled = torch.compile(function, backend=kernellab_backend, options={"gpu": "a100"})
    for one, right in zip(_step(compiled, args), expected, strict=True):
        torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-5)
    report = kernellab.last_report()
    assert report.capture.target == "sm_80"
    assert [one.direction for one in report.graphs] == ["forward", "backward"]


def test_wrong_options_are_named() -> None:
    wrong: list[Any] = [{"run": "cuda"}, {"max_fusion_sise": 1}]
    for options, words in zip(wrong, ("run", "max_fusion_size")):
        compiled = torch.compile(torch.sin, backend=kernellab_backend, options=options)
        with pytest.raises((OptionError, RuntimeError), match=words):
            compiled(torch.rand(4))


def test_torch_finds_the_backend_by_name() -> None:
    (entry,) = (
        one for one in entry_points(group="torch_dynamo_backends") if one.name == "kernellab"
    )
    assert entry.load() is kernellab_backend


def _broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    if y.sum() > 0:
        y = y * 2
    return y.cos()


@pytest.mark.slow
def test_the_last_report_has_all_graphs_of_the_last_compiled_function() -> None:
    first = torch.compile(_broken, backend=kernellab_backend)
    first(torch.ones(8))
    assert len(kernellab.last_report().graphs) == 2
    torch.compile(torch.tanh, backend=kernellab_backend)(torch.ones(8))
    assert len(kernellab.last_report().graphs) == 1
    first(torch.ones(9))
    report = kernellab.last_report()
    assert len(report.graphs) == 4, "of another size, in the same report"
    assert len(report.guards) > 0
    (again,) = (one for one in report.recompilations if one.function == "_broken")
    assert [failure.frame for failure in again.failures] == ["0/0"]
    assert "size mismatch" in again.failures[0].condition
    assert [one.reason for one in report.breaks] == ["Data-dependent branching"]
    torch._dynamo.reset()
    first(torch.ones(8))
    assert len(kernellab.last_report().graphs) == 2, "all anew"


def counting(module: Any, inputs: Any, **options: Any) -> Any:
    """A backend that takes the FX graph as it is."""
    del inputs
    assert options == {"options": {"how": "often"}}
    return module.forward


def through_aot(module: Any, inputs: Any) -> Any:
    """One that has AOTAutograd make a forward and a backward graph."""
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=lambda graph, _inputs: graph.forward)(module, inputs)


@pytest.mark.slow
def test_a_backend_of_ones_own_gets_the_same_report() -> None:
    x = torch.rand(8, requires_grad=True)
    plain = kernellab.graph(_broken, x, backend=counting, options={"how": "often"})
    assert not plain.error
    assert [one.direction for one in plain.graphs] == ["forward", "forward"]
    assert plain.graphs[0].fx.nodes
    assert "takes the FX graph as it is" in str(plain.graphs[0].aten)
    assert plain.breaks[0].reason == "Data-dependent branching"
    assert len(plain.guards) > 0
    assert "_broken" in str(plain)

    whole = kernellab.graph(_broken, x, backend=through_aot, backward=True)
    assert not whole.error
    directions = [one.direction for one in whole.graphs]
    assert sorted(directions) == ["backward", "backward", "forward", "forward"]
    assert whole.graphs[0].aten.counts()["aten.sin.default"] == 1
    assert whole.graphs[0].lowered.saved

    with pytest.raises(ArgumentError, match="another backend"):
        whole.ablation()


@pytest.mark.slow
def test_what_is_installed_is_listed_with_what_it_gives(raised) -> None:
    table, x = kernellab.backends().set_index("backend"), torch.rand(4)
    assert table.loc["kernellab"].package == "kernellab"
    assert "kernels" in table.loc["inductor"].gives
    assert (table.loc["eager"].gives, table.loc["aot_eager"].gives) == ("FX", "FX, ATen")
    assert not table.loc["aot_eager"].error
    graph = partial(kernellab.graph, torch.sin, x)
    with pytest.raises(OptionError, match="aot_eagar") as caught:
        graph(backend="aot_eagar")
    error = caught.value
    assert "aot_eager" in str(error)
    raised(ArgumentError, graph, backend=5)


def _failing(_module: Any, _inputs: Any) -> Any:
    raise RuntimeError("refused")


@pytest.mark.slow
def test_a_backend_that_fails_says_how_far_it_came() -> None:
    report = kernellab.graph(torch.sin, torch.rand(4), backend=_failing)
    assert "refused" in report.error
    assert report.graphs[0].fx.nodes


def test_recompilations_have_each_guard_that_failed() -> None:
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    compiled = torch.compile(scaled, backend=kernellab_backend)
    for factor in (1.5, 2.5):
        compiled(torch.rand(3), factor)
    compiled(torch.rand(5), 2.5)
    report = kernellab.last_report()
    line = scaled.__code__.co_firstlineno + 1
    found = [
        (one.function, [(each.frame, each.condition) for each in one.failures])
        for one in report.recompilations
    ]
    factor_failed = ("0/0", "factor == 1.5")
    size_failed = ("0/1", "tensor 'x' size mismatch at index 0. expected 3, actual 5")
    assert found == [("scaled", [factor_failed]), ("scaled", [size_failed, factor_failed])]
    position: Any = report.recompilations[0].failures[0].position
    assert position.line == line
    failed = {(guard.frame, guard.source) for guard in report.guards if guard.failed}
    assert failed == {("0/0", "L['factor']"), ("0/1", "L['x']")}
    assert "\n" not in str(report.recompilations[0])


# Looking changes nothing: no guard is added, and no random number drawn.


@pytest.mark.slow
def test_symbolic_sizes_stay_symbolic() -> None:
    x = torch.rand(6, 8)
    torch._dynamo.mark_dynamic(x, 0)
    report = kernellab.graph(nn.Linear(8, 8), x, backward=True, levels=False)
    assert (report.error, report.graphs[0].lowered.saved[-1].bytes) == ("", 6 * 8 * 4)

    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    compiled = torch.compile(model, backend=kernellab_backend, dynamic=True)
    for rows in (4, 5, 7, 9):
        compiled(torch.rand(rows, 8)).sum().backward()
    report = kernellab.last_report()
    assert [graph.direction for graph in report.graphs] == ["forward", "backward"]
    assert not report.recompilations


def test_attention_without_dropout_draws_nothing() -> None:
    query = torch.rand(1, 2, 16, 8)
    compiled = torch.compile(F.scaled_dot_product_attention, backend=kernellab_backend)
    before = torch.get_rng_state()
    compiled(query, query, query)
    assert torch.equal(torch.get_rng_state(), before)
