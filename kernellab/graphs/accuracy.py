"""How far a call's results and values are from the same in fp64, eager and compiled
(`report.accuracy()`), in the process that captures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx

from kernellab.graphs.captures import gpu_named
from kernellab.graphs.kernels import run_code
from kernellab.graphs.processes import GivenCall
from kernellab.graphs.records import Accuracy, NodeError, ResultError
from kernellab.launch.interception import interpreted
from kernellab.torch_api import fx_graphs
from kernellab.torch_api.capture import Backend, call_once, mode_options, run_aten
from kernellab.torch_api.virtual_gpu import CPU, drawing_alike, without_gpu

_SEED = 0
_FEW_UNITS = 16.0
"""Units in the last place by which a result may be off without a cause."""

_FEW_TIMES = 4.0
"""By how much an operation may increase the error of its inputs without being a cause."""


def accuracy(call: GivenCall, run: str) -> Accuracy:
    """Compare a call with the same call in fp64.

    Args:
        call: the call.
        run: "triton", or "aten" to leave the generated code out.
    """
    request = call.request
    options = {name: request[name] for name in ("dynamic", "fullgraph")}
    gpu = gpu_named(request["gpu"])
    config = {**mode_options(request["mode"]), **request["options"], "fallback_random": True}
    runs_code = run == "triton"
    eager = _Doubled()
    runner = run_code if runs_code else run_aten
    compiled: Any = Backend(
        gpu.answering, config=config, levels=False, runner=runner, runs_code=runs_code
    )
    given = call.function, call.args, call.keywords
    results: list[list[Any]] = [[], []]
    error = ""
    for backend, result in zip((eager, compiled), results, strict=True):
        with gpu.answering(), interpreted(), fx_graphs.tensors_restored(*given):
            torch.manual_seed(_SEED)
            error = error or call_once(*given, backend, backward=False, results=result, **options)
    pairs = zip(*(list(_floats(result)) for result in results), strict=False)
    errors = tuple(
        _result_error(number, value, other, eager.exact.get(id(value)))
        for number, (value, other) in enumerate(pairs)
    )
    off = [each for each in errors if each.eager and each.eager > _FEW_UNITS * each.unit]
    is_finite = all(each.eager != math.inf for each in off)
    nodes = [node for node in eager.nodes if not is_finite or node.growth < math.inf]
    grown = max(nodes, key=lambda node: node.growth, default=None)
    cause = grown if off and grown is not None and grown.growth > _FEW_TIMES else None
    return Accuracy(request["name"], errors, tuple(eager.nodes), cause, error)


def _floats(result: Any) -> Iterator[torch.Tensor]:
    for leaf in fx_graphs.leaves(result):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            yield leaf


def _result_error(
    number: int, eager: torch.Tensor, compiled: torch.Tensor, exact: torch.Tensor | None
) -> ResultError:
    largest = _largest(eager if exact is None else exact)
    unit = torch.finfo(eager.dtype).eps * 2.0 ** math.floor(math.log2(largest)) if largest else 0.0
    return ResultError(
        number,
        str(eager.dtype).removeprefix("torch."),
        largest,
        None if exact is None else _distance(eager, exact),
        None if exact is None else _distance(compiled, exact),
        _distance(compiled, eager),
        unit,
    )


def _largest(tensor: torch.Tensor) -> float:
    """Return the largest magnitude of the finite elements; 0 if there is none."""
    values = tensor.detach().double().abs().nan_to_num(0, 0, 0)
    return float(values.max()) if values.numel() else 0.0


def _distance(value: torch.Tensor, right: torch.Tensor) -> float:
    """Return the largest difference of two elements: infinite if only one of them is finite."""
    value, right = value.detach().double(), right.detach().double()
    same = (value == right) | (value.isnan() & right.isnan())
    away = (value - right).abs().masked_fill(same, 0.0).nan_to_num(math.inf, math.inf)
    return float(away.max()) if away.numel() else 0.0


class _Doubled:
    """A backend that runs FX graphs unchanged, and once more in fp64."""

    def __init__(self) -> None:
        self.nodes: list[NodeError] = []
        self.exact: dict[int, torch.Tensor] = {}
        """The id of each result of a graph, which later graphs may take -> the same in fp64."""
        self._kept: list[Any] = []
        self._count = 0

    def __call__(self, module: torch.fx.GraphModule, _inputs: Any, **_options: Any) -> Any:
        number, self._count = self._count, self._count + 1
        without_gpu(module, CPU)
        return functools.partial(self._run, number, drawing_alike(module))

    def _run(self, number: int, module: torch.fx.GraphModule, *args: Any) -> Any:
        wide = [self.exact.get(id(value), _widened(value)) for value in args]
        values = _Values(module)
        result = values.run(*args)
        state = torch.get_rng_state()
        doubled = _Values(_in_double(module), values)
        exact = doubled.run(*wide)
        torch.set_rng_state(state)
        self.nodes += _errors(number, module, values.values, doubled.values)
        for value, other in zip(fx_graphs.leaves(result), fx_graphs.leaves(exact), strict=True):
            if isinstance(value, torch.Tensor):
                self.exact[id(value)] = other.detach()
        self._kept.append(result)  # so that no other tensor gets the same id
        return result


class _Values(fx_graphs.DrawingRun):
    """Runs a graph and keeps its values. Random numbers are those of an earlier run: what is drawn
    is taken from there, and other operations that draw, such as dropout, draw the same.
    """

    def __init__(self, module: torch.fx.GraphModule, earlier: _Values | None = None) -> None:
        super().__init__(module, earlier, keeps_all=True)
        self.values: dict[str, torch.Tensor] = {}
        self._earlier = earlier

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        is_drawn = n.name in self.states and "rand" in fx_graphs.target_name(n)
        if self._earlier is not None and (is_drawn or fx_graphs.is_unset(n)):
            result = _widened(self._earlier.values[n.name])
        if isinstance(result, torch.Tensor) and n.op != "output":
            self.values[n.name] = result.detach().clone()
        return result


def _widened(value: Any) -> Any:
    """Return a value of floating point in fp64; anything else unchanged, tensors copied."""
    if not isinstance(value, torch.Tensor):
        return value
    made = value.detach().double() if value.is_floating_point() else value.detach().clone()
    return made.clone() if made is value else made


_TO_FLOATS = ("float", "half", "bfloat16", "type_as")


def _in_double(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a graph that computes in fp64 wherever the given one names a floating-point dtype."""
    made = fx_graphs.copied(module)

    def changed(value: Any) -> Any:
        is_float = isinstance(value, torch.dtype) and value.is_floating_point
        return torch.float64 if is_float else value

    for node in made.graph.nodes:
        if "_enter_autocast" in fx_graphs.target_name(node):
            node.args = (*node.args[:2], False, *node.args[3:])
        elif "autocast" in fx_graphs.target_name(node):
            continue
        elif node.op == "call_method" and node.target in _TO_FLOATS:
            node.target, node.args, node.kwargs = "double", node.args[:1], {}
        else:
            node.args = fx_graphs.with_leaves(changed, node.args)
            node.kwargs = fx_graphs.with_leaves(changed, node.kwargs)
    for name, tensor in [*made.named_parameters(), *made.named_buffers()]:
        owner, _, last = name.rpartition(".")
        if tensor.is_floating_point():
            part = made.get_submodule(owner)
            part._parameters.pop(last, None)
            part._buffers[last] = tensor.detach().double()
    made.recompile()
    return made


def _errors(
    number: int,
    module: torch.fx.GraphModule,
    values: dict[str, torch.Tensor],
    exact: dict[str, torch.Tensor],
) -> Iterator[NodeError]:
    relative: dict[str, float] = {}
    for node in module.graph.nodes:
        value, right = values.get(node.name), exact.get(node.name)
        if value is None or right is None or not value.is_floating_point():
            continue
        largest = _largest(right)
        away = _distance(value, right)
        error = relative[node.name] = away / largest if largest else float(away > 0)
        if node.op == "placeholder":
            continue
        taken = [each.name for each in node.all_input_nodes if each.name in relative]
        kinds = [values[name].dtype for name in taken] or [value.dtype]
        half = min(torch.finfo(kind).eps for kind in kinds) / 2
        before = max([half, *(relative[name] for name in taken)])
        record = fx_graphs.node_of(node)
        yield NodeError(
            number,
            node.name,
            record.target,
            record.position,
            str(value.dtype).removeprefix("torch."),
            error,
            error / before if before < math.inf else 1.0,
            max((_largest(exact[name]) for name in taken), default=0.0),
            largest,
        )
