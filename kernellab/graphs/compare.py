"""Find where eager torch and a compiled call differ (`report.compare()`), in the process that
captures.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx

from kernellab.errors import ArgumentError
from kernellab.graphs.captures import gpu_named
from kernellab.graphs.kernels import GraphComparison, launch
from kernellab.graphs.processes import GivenCall
from kernellab.graphs.records import ComparedGraph, NodeDifference, WrongLaunch
from kernellab.launch.interception import interpreted
from kernellab.launch.results import Tolerances, size_of
from kernellab.launch.results import compare as compare_results
from kernellab.records.graphs import KernelCode
from kernellab.records.launches import Difference
from kernellab.torch_api import fx_graphs
from kernellab.torch_api.capture import Backend, Made, Run, call_once, mode_options
from kernellab.torch_api.generated_code import (
    SEEN,
    callable_in,
    launched,
    marks_of,
    values_marked,
    watched,
)
from kernellab.torch_api.inductor import users_arguments
from kernellab.torch_api.lowering import Mutation
from kernellab.torch_api.virtual_gpu import CPU, DEVICE, drawing_alike, without_gpu, written_out

# Run a graph node by node, each on the expected values of its inputs, and measure differences.


_ROUNDING = {
    torch.float64: 2.0**-49,
    torch.float32: 2.0**-20,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
}
"""How far one operation may be off, relative to its value: half a unit in the last place of 1.0.
fp32 and fp64 have 16 times that, because sums round to them inside an operation."""

_NOISE = 4.0
"""Differences up to this many times the effect of one rounding per operation count as rounding:
the largest of right graphs is 1.14 times (bf16, 32 functions and their gradients)."""

_DITHERED_RUNS = (4, 32)
"""How often a graph runs with other roundings; more often only if the first runs do not explain
a difference: beside a threshold, such as that of relu, one rounding decides in some of them."""


def difference_of(
    name: str, value: torch.Tensor, right: torch.Tensor, noise: torch.Tensor | None = None
) -> Difference | None:
    """Return how far a value is from the expected one, or None within the tolerance.

    Args:
        name: of the value.
        value, right: tensors of one shape.
        noise: how far each element moves if every operation rounds once more.
    """
    allowed = Tolerances(noise=None if noise is None else _NOISE * noise)
    return next(compare_results({name: value.detach()}, {name: right.detach()}, allowed), None)


class NodeRun(fx_graphs.DrawingRun):
    """Runs a graph node by node."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        settled: Callable[[torch.fx.Node, torch.Tensor], torch.Tensor],
        earlier: NodeRun | None = None,
    ) -> None:
        """Prepare to run. Afterwards `computed` has each node's result, and what a kernel of the
        user wrote, by "node.parameter"; `values` has the tensors that a node's users received;
        `rewritten` has what other nodes have made of a node's value in place.

        Args:
            module: a graph on the CPU.
            settled: a function from a node and its result to the tensor that its users receive.
            earlier: the run whose random numbers are drawn again.
        """
        super().__init__(module, earlier, keeps_all=False)
        self._settled = settled
        self.values: dict[str, torch.Tensor] = {}
        self.computed: dict[str, torch.Tensor] = {}
        self.rewritten: dict[str, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        for parameter, argument in fx_graphs.tensors_of_launch(n):
            value = self.env[argument]
            if isinstance(value, torch.Tensor):
                self.computed[f"{n.name}.{parameter}"] = value.detach().clone()
        if n.op == "output" or not isinstance(result, torch.Tensor):
            return result
        owner = fx_graphs.rewritten_by(n)
        if owner is not None and owner in self.env:
            self.rewritten[owner.name] = self.env[owner].detach().clone()
        if n.op != "placeholder":
            self.computed[n.name] = result.detach().clone()
            result = self._settled(n, result)
        self.values[n.name] = result.detach().clone()
        return result


class _DitheredRun(NodeRun):
    """Runs a graph with every value changed by one rounding, at random."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        settled: Callable[[torch.fx.Node, torch.Tensor], torch.Tensor],
        earlier: NodeRun,
        kernels: Mapping[str, Collection[str]],
    ) -> None:
        """Prepare to run; `kernels` has the kernels that compute a node, whose other nodes receive
        its value before it is stored, and not what `settled` returns.
        """
        super().__init__(module, settled, earlier)
        self._kernels = kernels
        self._unsettled: dict[torch.fx.Node, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "output" or not isinstance(result, torch.Tensor):
            return result
        if n.op != "placeholder" and n.name in self._kernels:
            self._unsettled[n] = _dithered(self.computed[n.name])
        return _dithered(result)

    def map_nodes_to_values(self, args: Any, n: torch.fx.Node) -> Any:
        """Return the arguments of a node with the values of other nodes."""
        # A node without users is there for what it writes to, where others read it.
        kernels = set(self._kernels.get(n.name, ())) if n.users else set()

        def value_of(source: torch.fx.Node) -> Any:
            is_fused = not kernels.isdisjoint(self._kernels.get(source.name, ()))
            return self._unsettled.get(source, self.env[source]) if is_fused else self.env[source]

        return torch.fx.node.map_arg(args, value_of)


def _dithered(value: torch.Tensor) -> torch.Tensor:
    """Return the value changed by one rounding, randomly up or down."""
    if not value.is_floating_point():
        return value
    unit = _ROUNDING.get(value.dtype, 0.0)
    wide = value.detach().to(torch.float64)
    signs = torch.randint(0, 2, wide.shape, generator=_GENERATOR).to(torch.float64) * 2 - 1
    moved = (wide * (1 + unit * signs)).to(value.dtype)
    return torch.empty_like(value).copy_(moved)


_GENERATOR = torch.Generator().manual_seed(7)
"""A separate generator, so that a graph draws the same random numbers as without dithering."""


def right_instead(value: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the expected value with the strides of `value`; `value` itself if it is equal."""
    if torch.equal(value, right) or 0 in value.stride():
        return value
    made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
    return made.copy_(right)


class Perturbations:
    """How far each element of each node's value moves if every value before it changes by one
    rounding: the most of several runs, plus, for floats, the root mean square of the tensor.
    """

    def __init__(
        self,
        module: torch.fx.GraphModule,
        args: list[Any],
        run: NodeRun,
        kept: Collection[str],
        kernels: Sequence[KernelCode] = (),
    ) -> None:
        """Prepare; the graph runs when a difference is to be explained.

        Args:
            module, args: the graph on the CPU, and its inputs.
            run: the run without that change.
            kept: the nodes whose values are restored, except for their own rounding; errors only
                add up between two of them.
            kernels: inside of which nothing is restored.
        """
        self._kernels: dict[str, list[str]] = {}
        for kernel in kernels:
            for node in kernel.origins:
                self._kernels.setdefault(node, []).append(kernel.name)
        self._module, self._args, self._run, self._kept = module, args, run, kept
        self._farthest: dict[str, torch.Tensor] = {}
        self._count = 0

    def difference(
        self, name: str, node: str, value: torch.Tensor, right: torch.Tensor
    ) -> Difference | None:
        """Return how far a value is from the expected one, or None if rounding explains it.

        Args:
            name: of the value.
            node: that of the node, or of what a kernel of the user wrote, as in `computed`.
            value, right: tensors of one shape.
        """
        excess: Difference | None = None
        for count in _DITHERED_RUNS:
            while self._count < count:
                self._run_dithered()
            excess = difference_of(name, value, right, self._noise(node))
            if excess is None:
                return None
        return excess

    def _noise(self, node: str) -> torch.Tensor | None:
        away = self._farthest.get(node)
        if away is None or not away.any():
            return None
        return away + size_of(away) if self._run.computed[node].is_floating_point() else away

    def _run_dithered(self) -> None:
        self._count += 1
        off = _DitheredRun(self._module, self._settled, self._run, self._kernels)
        with torch.random.fork_rng([]):
            off.run(*_copied(self._args))
        for name, value in off.computed.items():
            known = self._run.computed[name]
            if known.shape == value.shape and not value.is_complex():
                away = (value.double() - known.double()).abs().nan_to_num(0, 0, 0)
                self._farthest[name] = torch.maximum(away, self._farthest.get(name, away))

    def _settled(self, node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
        known = self._run.values.get(node.name)
        if node.name not in self._kept or known is None or known.shape != value.shape:
            return value
        return right_instead(value, known)


# Eager torch runs first, and every value and gradient of an FX node is kept. Then the same call
# is compiled, and each of its graphs runs at three levels, each compared with the one before:
# its ATen operations with eager's values, the graph after Inductor's passes with the ATen graph,
# and the generated code with that. After a value was compared, the expected value replaces it,
# so that each node is judged separately and rounding errors do not add up. If a value differs by
# more than the tolerance of its dtype, the graph runs again with every value changed by one
# rounding; a difference that this explains is not reported.


Key = tuple[int, str, str]
"""Number of the Dynamo graph, "value" or "gradient", name of the FX node."""

_SEED = 0


def compare(
    call: GivenCall,
    run: str,
    kernels: Mapping[str, str],
    decompositions: Mapping[str, Callable[..., Any]],
) -> GraphComparison:
    """Compare a call with the same call compiled.

    Args:
        call: the call.
        run: "triton", or "aten" to leave the generated code out.
        kernels: name -> the source that replaces Inductor's.
        decompositions: operation's name -> the function that decomposes it.
    """
    request = call.request
    options = {name: request[name] for name in ("backward", "dynamic", "fullgraph")}
    eager = _Eager()
    gpu = gpu_named(request["gpu"])
    with (
        gpu.answering(),
        interpreted(),
        fx_graphs.tensors_restored(call.function, call.args, call.keywords),
    ):
        torch.manual_seed(_SEED)
        error = call_once(call.function, call.args, call.keywords, eager, **options)
    comparing = _Comparing(eager, run, kernels)
    if not error:
        # Random numbers are drawn as eager torch draws them, or all values after them differ.
        config = {**mode_options(request["mode"]), **request["options"], "fallback_random": True}
        backend = Backend(
            gpu.answering,
            config=config,
            levels=False,
            runner=comparing.runner,
            decompositions={
                fx_graphs.operation_named(name): f for name, f in decompositions.items()
            },
        )
        torch.manual_seed(_SEED)
        with gpu.answering(), interpreted(), values_marked():
            error = call_once(call.function, call.args, call.keywords, backend, **options)
        comparing.graphs += [  # those that Inductor did not lower
            ComparedGraph(graph.direction, graph.number, 0, 0, 0, graph.error)
            for graph in backend.captured.lowered
            if graph.error
        ]
        _check_edited(kernels, backend)
    return GraphComparison(
        name=request["name"],
        target=gpu.target.name,
        run=run,
        graphs=tuple(comparing.graphs),
        differences=tuple(comparing.differences),
        launch=comparing.launch,
        error=error,
    )


def _check_edited(kernels: Mapping[str, str], backend: Backend) -> None:
    written = {kernel.name for graph in backend.captured.lowered for kernel in graph.kernels}
    for name in kernels:
        if name not in written:
            raise ArgumentError(
                f"kernel {name!r} did not run: compare draws random numbers as eager torch does, "
                "for which Inductor writes other kernels.",
                advice=f"Edit one of these: {', '.join(sorted(written))}.",
            )


class _Eager:
    """A backend that runs FX graphs unchanged and keeps the values that they compute."""

    def __init__(self) -> None:
        self.values: dict[Key, torch.Tensor] = {}
        self.nodes: dict[tuple[int, str], Any] = {}
        self.random_states: dict[int, torch.Tensor] = {}
        self._count = 0

    def __call__(self, module: torch.fx.GraphModule, _inputs: Any, **_options: Any) -> Any:
        number, self._count = self._count, self._count + 1
        without_gpu(module, CPU)
        for node in module.graph.nodes:
            self.nodes[number, node.name] = fx_graphs.node_of(node)
        return functools.partial(self._first, number, drawing_alike(module))

    def _first(self, number: int, module: torch.fx.GraphModule, *args: Any) -> Any:
        if number in self.random_states:  # only the first call is compared
            return module(*args)
        self.random_states[number] = torch.get_rng_state()
        return _Kept(module, number, self.values).run(*args)


class _Kept(torch.fx.Interpreter):
    def __init__(
        self, module: torch.fx.GraphModule, number: int, values: dict[Key, torch.Tensor]
    ) -> None:
        super().__init__(module)
        self._number, self._values = number, values

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and n.op not in ("placeholder", "output"):
            self._values[self._number, "value", n.name] = result.detach().clone()
        if isinstance(result, torch.Tensor) and result.requires_grad:
            if n.op == "placeholder" and result.is_leaf and torch.is_grad_enabled():
                result = result.view_as(result)  # whose gradient is that of this graph alone
            key = (self._number, "gradient", n.name)

            def keep(gradient: torch.Tensor) -> None:
                self._values.setdefault(key, gradient.detach().clone())

            hooked: Any = result
            hooked.register_hook(keep)
        return result


class _Comparing:
    """The graphs that were compared so far, and their differences."""

    def __init__(self, eager: _Eager, run: str, kernels: Mapping[str, str]) -> None:
        self._eager, self._run, self._kernels = eager, run, kernels
        self.graphs: list[ComparedGraph] = []
        self.differences: list[NodeDifference] = []
        self.launch: WrongLaunch | None = None

    def runner(self, made: Made) -> Run:
        """Return a function that runs one of AOTAutograd's graphs and compares its first call."""
        aten = written_out(fx_graphs.copied(made.aten))
        was_called = False

        def called(args: list[Any]) -> Any:
            nonlocal was_called
            if was_called:
                return aten(*args)
            was_called = True
            return self._compared(made, aten, args)

        return called

    def _compared(self, made: Made, aten: torch.fx.GraphModule, args: list[Any]) -> Any:
        comparison = _OfGraph(made, self._eager)
        if made.direction != "backward" and made.number in self._eager.random_states:
            torch.set_rng_state(self._eager.random_states[made.number])
        before = _copied(args)
        result = comparison.operations(aten, args)  # which may write to the arguments
        obstacle = ""
        try:
            with torch.random.fork_rng([]):  # what follows draws what it draws without these
                module = comparison.passes(before)
                if self._run == "triton":
                    comparison.code(module, before, self._kernels)
        except Exception as error:  # from torch, or from an edited kernel
            obstacle = f"{type(error).__name__}: {error}"
        self.differences += comparison.differences
        self.launch = self.launch or comparison.launch
        counts = comparison.counts
        numbers = counts["fx"], counts["passes"], counts["kernel"]
        self.graphs.append(ComparedGraph(made.direction, made.number, *numbers, obstacle))
        return result


def _copied(args: Sequence[Any]) -> list[Any]:
    return [_copy(value) if isinstance(value, torch.Tensor) else value for value in args]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides, on which generated code relies."""
    whole: Any = tensor.detach().untyped_storage()
    made = torch.empty(0, dtype=tensor.dtype)
    made.set_(whole.clone(), tensor.storage_offset(), tensor.size(), tensor.stride())
    made = made.conj() if tensor.is_conj() else made  # as the storage has it
    return made.neg() if tensor.is_neg() else made


class _OfGraph:
    """One graph at its three levels."""

    def __init__(self, made: Made, eager: _Eager) -> None:
        self._made, self._eager = made, eager
        self.differences: list[NodeDifference] = []
        self.counts = {"fx": 0, "passes": 0, "kernel": 0}
        self.launch: WrongLaunch | None = None
        self._earlier: NodeRun | None = None

    # The ATen graph compared with eager torch

    def operations(self, module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run the ATen graph, compare each value with eager's, and return its results."""
        far: list[tuple[torch.fx.Node, str, str, torch.Tensor, torch.Tensor]] = []

        def settled(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
            for kind, name in marks_of(node):
                right = self._eager.values.get((self._made.number, kind, name))
                if right is None or right.shape != value.shape or fx_graphs.is_unset(node):
                    continue
                self.counts["fx"] += 1
                right = right.to(value.dtype)
                if difference_of(name, value, right) is not None:
                    far.append((node, kind, name, value.detach().clone(), right))
                value = right_instead(value, right)
            return value

        inputs = _copied(args)
        run = NodeRun(module, settled)
        result = run.run(*args)
        self._earlier = run
        forced = {node.name for node in module.graph.nodes if marks_of(node)}
        rounding = Perturbations(module, inputs, run, forced)
        for node, kind, name, value, right in far:
            excess = rounding.difference(name, node.name, value, right)
            if excess is not None:
                its = self._eager.nodes.get((self._made.number, name))
                facts = {
                    "node": name,
                    "is_gradient": kind == "gradient",
                    "target": its.target if its else "",
                    "position": its.position if its else None,
                }
                self._note(excess, "fx", node, right, self._kernel_with(node.name), **facts)
        return result

    # The graph after Inductor's passes compared with the ATen graph

    def passes(self, args: list[Any]) -> torch.fx.GraphModule:
        """Run the graph that Inductor lowers, and compare it with AOTAutograd's; return it."""
        far: list[tuple[torch.fx.Node, torch.Tensor, torch.Tensor]] = []
        assert self._earlier is not None
        right, computed = self._earlier.values, self._earlier.computed

        def settled(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
            known = computed.get(node.name)
            if known is None or known.shape != value.shape or known.dtype != value.dtype:
                return value
            if not run.drew(node) and not fx_graphs.is_unset(node):
                self.counts["passes"] += 1
                if difference_of(node.name, value, known) is not None:
                    far.append((node, value.detach().clone(), known))
            return right_instead(value, right[node.name])

        assert self._made.lowering.module is not None
        module = written_out(
            fx_graphs.move_graph(fx_graphs.copied(self._made.lowering.module), DEVICE, CPU)
        )
        run = NodeRun(module, settled, self._earlier)
        run.run(*_copied(args))
        self._earlier = run
        rounding = Perturbations(module, args, run, right)
        for node, value, known in far:
            excess = rounding.difference(node.name, node.name, value, known)
            if excess is not None:
                self._note(excess, "passes", node, known, self._kernel_with(node.name))
        return module

    # The generated code compared with that graph

    def code(
        self, module: torch.fx.GraphModule, args: list[Any], kernels: Mapping[str, str]
    ) -> None:
        """Run the generated code, and compare each buffer with the node whose value it holds, and
        each input that the call writes to.

        The nodes between two buffers are computed in a row, as a kernel does, without replacing
        their values.
        """
        lowering = self._made.lowering
        nodes = {node.name: node for node in module.graph.nodes}
        codes = {
            variable: replace(code, source=kernels.get(code.name, code.source))
            for variable, code in zip(lowering.names, lowering.kernels, strict=True)
        }
        sources = {variable: code.source for variable, code in codes.items()}
        users = {mutation.kernel for mutation in lowering.mutations}
        parameters = {
            variable: tuple(argument.arg for argument in _function(code).args.args)
            for variable, code in codes.items()
            if variable not in users
        }
        stores = {variable: _stores(codes[variable]) for variable in parameters}
        text, statements, names = watched(lowering.wrapper, sources, parameters)
        stored = {lowering.values[name] for name in names if name in lowering.values}
        run = NodeRun(module, functools.partial(self._right_in, stored), self._earlier)
        inputs, given_inputs = _copied(args), _copied(args)
        run.run(*inputs)
        far: list[_FarBuffer] = []
        last: list[Any] = []

        mutations = iter(lowering.mutations)

        def launching(kernel: Any, given: Sequence[Any]) -> None:
            last[:] = _copied(given)
            launch(kernel, given)
            arguments = users_arguments(kernel, given)
            if arguments is not None:
                note_mutated(next(mutations), arguments)

        def note_mutated(mutation: Mutation, given: Mapping[str, Any]) -> None:
            for parameter in mutation.mutated:
                place, node = f"{mutation.node}.{parameter}", nodes[mutation.node]
                value, right = given[parameter], run.computed[place]
                self.counts["kernel"] += 1
                if difference_of(parameter, value, right) is not None:
                    kept = value.detach().clone()
                    made_in = mutation.kernel, parameter
                    far.append(_FarBuffer(place, node, kept, right, *made_in, [*last]))
                value.copy_(right)

        def note(number: int, values: Mapping[str, Any]) -> None:
            for name, value in values.items():
                node = nodes.get(lowering.values.get(name, ""))
                if node is None or node.name not in run.computed:
                    continue
                computed = run.rewritten.get(node.name, run.computed[node.name])
                if not isinstance(value, torch.Tensor) or computed.shape != value.shape:
                    continue
                kernel, given = launched(statements[number]) or ("", ())
                written = parameters.get(kernel, ())
                parameter = written[given.index(name)] if written and name in given else ""
                if parameter.startswith("in_out") and parameter not in stores[kernel]:
                    continue  # fusion removed the store: the buffer still has its earlier value
                if not run.drew(node) and not fx_graphs.is_unset(node):
                    self.counts["kernel"] += 1
                    if difference_of(name, value, computed) is not None:
                        kept, made_in = value.detach().clone(), (kernel, parameter)
                        far.append(_FarBuffer(node.name, node, kept, computed, *made_in, [*last]))
                value.copy_(run.rewritten.get(node.name, run.values[node.name]))

        callable_in(text, launching, {SEEN: note})([*given_inputs])
        for source, place in _stores_to_inputs(module):
            value, right = given_inputs[place], inputs[place]
            self.counts["kernel"] += 1
            if run.drew(source) or fx_graphs.is_unset(source):
                continue
            if difference_of(source.name, value, right) is not None:
                far.append(_FarBuffer(source.name, source, value, right, None, "", []))
        rounding = Perturbations(module, args, run, stored, lowering.kernels)
        for buffer in far:
            excess = rounding.difference(buffer.place, buffer.place, buffer.value, buffer.right)
            if excess is not None:
                self._note_buffer(excess, buffer, codes)

    def _right_in(
        self, stored: Collection[str], node: torch.fx.Node, value: torch.Tensor
    ) -> torch.Tensor:
        """Return the expected value of a node that is stored, and other values unchanged."""
        assert self._earlier is not None
        right = self._earlier.values.get(node.name) if node.name in stored else None
        is_like = right is not None and right.shape == value.shape
        return right_instead(value, right) if right is not None and is_like else value

    def _note_buffer(
        self, excess: Difference, far: _FarBuffer, codes: Mapping[str, KernelCode]
    ) -> None:
        if far.kernel is None:
            made_in = self._kernel_with(far.node.name)
            self._note(excess, "kernel", far.node, far.right, made_in)
            return
        code = codes.get(far.kernel)
        line = _stores(code).get(far.parameter) if code is not None else None
        text = code.source.splitlines()[line - 1] if code is not None and line else ""
        self._note(excess, "kernel", far.node, far.right, code, line=line, line_text=text)
        if code is not None and self.launch is None:
            self.launch = WrongLaunch(code, tuple(far.arguments), {far.parameter: far.right})

    def _note(
        self,
        excess: Difference,
        level: str,
        node: torch.fx.Node,
        right: torch.Tensor,
        kernel: KernelCode | None,
        /,
        **facts: Any,
    ) -> None:
        """Record a difference of a node's value; `facts` replace what follows from the node."""
        its = fx_graphs.node_of(node)
        known = {
            **vars(excess),
            "level": level,
            "direction": self._made.direction,
            "number": self._made.number,
            "node": node.name,
            "is_gradient": False,
            "target": its.target,
            "aten": node.name,
            "kernel": kernel.name if kernel else "",
            "line": None,
            "line_text": "",
            "position": its.position,
            "dtype": str(right.dtype).removeprefix("torch."),
        }
        self.differences.append(NodeDifference(**{**known, **facts}))

    def _kernel_with(self, name: str) -> KernelCode | None:
        """Return the kernel that computes a node, if it is known."""
        kernels = self._made.lowering.kernels
        return next((kernel for kernel in kernels if name in kernel.origins), None)


@dataclass(frozen=True, eq=False)
class _FarBuffer:
    """A buffer with a wrong value.

    Attributes:
        place: what has the value in `NodeRun.computed`.
        kernel: the variable of the kernel that computed it; "" for an operation of torch; None for
            an input that was written to, if it is not known.
        parameter: of the kernel; its arguments are those of the launch.
    """

    place: str
    node: torch.fx.Node
    value: torch.Tensor
    right: torch.Tensor
    kernel: str | None
    parameter: str
    arguments: list[Any]


def _stores_to_inputs(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, int]]:
    """The values that a graph writes to its inputs, and the numbers of the inputs."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    places = {node: place for place, node in enumerate(inputs)}
    for node in module.graph.nodes:
        if fx_graphs.target_name(node) == "aten.copy_.default" and node.args[0] in places:
            yield node.args[1], places[node.args[0]]


def _stores(kernel: KernelCode) -> dict[str, int]:
    """Return the parameters that a kernel stores to, with the number, from 1, of the last line."""
    lines: dict[str, int] = {}
    for node in ast.walk(_function(kernel)):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).startswith(("tl.store", "tl.atomic", "tl.device"))
            and node.args
        ):
            for name in ast.walk(node.args[0]):
                if isinstance(name, ast.Name):
                    lines[name.id] = max(node.lineno, lines.get(name.id, 0))
    return lines


def _function(kernel: KernelCode) -> ast.FunctionDef:
    return next(
        node
        for node in ast.walk(ast.parse(kernel.source))
        if isinstance(node, ast.FunctionDef) and node.name == kernel.function
    )
