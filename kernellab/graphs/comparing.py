"""Where eager torch and what torch.compile made of a call part (`report.compare()`): what runs in
the process that captures.

Eager torch runs first, and every value and gradient of an FX node is kept. Then the same call is
compiled, and each of its graphs runs at three levels, each beside the one before: its ATen
operations beside eager's values, the graph after Inductor's passes beside those, the generated code
beside that. Whatever is computed is replaced by the right value once it was looked at, so that each
node is judged by itself, and no rounding adds up. What is too far off for its dtype is run again,
with every value off by a rounding: what that explains is no difference.
"""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx

from kernellab.errors import ArgumentError
from kernellab.graphs.comparison import GraphComparison
from kernellab.graphs.gpus import gpu_named
from kernellab.graphs.node_values import Distance, NodeRun, distance, noises, right_instead
from kernellab.graphs.running import launch
from kernellab.graphs.stored_lines import parameters_of, storing_line
from kernellab.records.graph_comparisons import ComparedGraph, Difference, WrongLaunch
from kernellab.records.graphs import KernelCode
from kernellab.torch_api.capturing import Backend, Made, Run, call_once, mode_options
from kernellab.torch_api.fx_graphs import is_random, node_of, on_cpu, operation_named
from kernellab.torch_api.generated_modules import callable_in
from kernellab.torch_api.gpu_attention import is_seed, written_out
from kernellab.torch_api.value_marks import marks_of, on_gradient, values_marked
from kernellab.torch_api.watched_code import SEEN, launched, watched

Key = tuple[int, str, str]
"""Number of the Dynamo graph, "value" or "gradient", name of the FX node."""

_SEED = 0


def compare(
    shipped: bytes,
    request: Mapping[str, Any],
    run: str,
    kernels: Mapping[str, str],
    decompositions: bytes,
) -> GraphComparison:
    """Compare a pickled call with itself, compiled.

    Args:
        shipped: function, positional and keyword arguments.
        request: the options of `kernellab.graph`, and the function's name.
        run: "triton", or "aten" to leave the generated code out.
        kernels: name -> the source that stands in for Inductor's.
        decompositions: operation's name -> what it is to be written out as, pickled; or nothing.
    """
    options = {one: request[one] for one in ("backward", "dynamic", "fullgraph")}
    eager = _Eager()
    torch.manual_seed(_SEED)
    function, args, keywords = pickle.loads(shipped)
    error = call_once(function, args, keywords, eager, **options)
    gpu = gpu_named(request["gpu"])
    comparing = _Comparing(eager, run, kernels)
    if not error:
        # Random numbers are drawn as eager torch draws them, or nothing after them compares.
        config = {**mode_options(request["mode"]), **request["options"], "fallback_random": True}
        functions = pickle.loads(decompositions) if decompositions else {}
        backend = Backend(
            gpu.answering(),
            config=config,
            levels=False,
            runner=comparing.runner,
            decompositions={operation_named(name): one for name, one in functions.items()},
        )
        torch.manual_seed(_SEED)
        function, args, keywords = pickle.loads(shipped)  # as they were: calls may write to them
        with values_marked():
            error = call_once(function, args, keywords, backend, **options)
        comparing.note_errors(backend)
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
    written = {one.name for graph in backend.captured.lowered for one in graph.kernels}
    for name in kernels:
        if name not in written:
            raise ArgumentError(
                f"kernel {name!r} was not run: random numbers are drawn as eager torch draws them "
                "here, and Inductor then writes other kernels",
                advice=f"Edit one of these: {', '.join(sorted(written))}.",
            )


class _Eager:
    """A backend that runs FX graphs as they are, and keeps what they compute."""

    def __init__(self) -> None:
        self.values: dict[Key, torch.Tensor] = {}
        self.nodes: dict[tuple[int, str], Any] = {}
        self.random_states: dict[int, torch.Tensor] = {}
        self._count = 0

    def __call__(self, module: torch.fx.GraphModule, _inputs: Any, **_options: Any) -> Any:
        number, self._count = self._count, self._count + 1
        for node in module.graph.nodes:
            self.nodes[number, node.name] = node_of(node)

        def called(*args: Any) -> Any:
            if number in self.random_states:  # the first call is what is compared
                return module(*args)
            self.random_states[number] = torch.get_rng_state()
            return _Kept(module, number, self.values).run(*args)

        return called


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
            key = (self._number, "gradient", n.name)
            on_gradient(result, lambda gradient: self._keep(key, gradient))
        return result

    def _keep(self, key: Key, gradient: torch.Tensor) -> None:
        self._values.setdefault(key, gradient.detach().clone())


class _Comparing:
    """What was compared so far, and what was found."""

    def __init__(self, eager: _Eager, run: str, kernels: Mapping[str, str]) -> None:
        self._eager, self._run, self._kernels = eager, run, kernels
        self.graphs: list[ComparedGraph] = []
        self.differences: list[Difference] = []
        self.launch: WrongLaunch | None = None

    def runner(self, made: Made) -> Run:
        """What runs one of AOTAutograd's graphs: compared in its first call."""
        aten = written_out(copy.deepcopy(made.aten))
        was_called = False

        def called(args: list[Any]) -> Any:
            nonlocal was_called
            if was_called:
                return aten(*args)
            was_called = True
            return self._compared(made, aten, args)

        return called

    def note_errors(self, backend: Backend) -> None:
        """Graphs that Inductor did not lower were not compared."""
        for one in backend.captured.lowered:
            if one.error:
                self.graphs.append(ComparedGraph(one.direction, one.number, 0, 0, 0, one.error))

    def _compared(self, made: Made, aten: torch.fx.GraphModule, args: list[Any]) -> Any:
        comparison = _OfGraph(made, self._eager)
        if made.direction != "backward" and made.number in self._eager.random_states:
            torch.set_rng_state(self._eager.random_states[made.number])
        before = _copied(args)
        result = comparison.operations(aten, args)  # which may write to them
        obstacle = ""
        try:
            module = comparison.passes(before)
            if self._run == "triton":
                comparison.code(module, before, self._kernels)
        except Exception as error:  # of torch, of an edited kernel
            obstacle = f"{type(error).__name__}: {error}"
        self.differences += comparison.differences
        self.launch = self.launch or comparison.launch
        counts = comparison.counts
        self.graphs.append(
            ComparedGraph(
                made.direction,
                made.number,
                counts["fx"],
                counts["passes"],
                counts["kernel"],
                obstacle,
            )
        )
        return result


def _is_drawn(node: torch.fx.Node) -> bool:
    """Whether a node's value is another one each time."""
    return is_random(node) or is_seed(node)


def _copied(args: Sequence[Any]) -> list[Any]:
    return [_copy(one) if isinstance(one, torch.Tensor) else one for one in args]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, laid out the same: generated code relies on strides."""
    whole: Any = tensor.detach().untyped_storage()
    made = torch.empty(0, dtype=tensor.dtype)
    return made.set_(whole.clone(), tensor.storage_offset(), tensor.size(), tensor.stride())


class _OfGraph:
    """One graph at its levels."""

    def __init__(self, made: Made, eager: _Eager) -> None:
        self._made, self._eager = made, eager
        self.differences: list[Difference] = []
        self.counts = {"fx": 0, "passes": 0, "kernel": 0}
        self.launch: WrongLaunch | None = None
        self._right: dict[str, torch.Tensor] = {}
        self._computed: dict[str, torch.Tensor] = {}

    # The ATen graph beside eager torch

    def operations(self, module: torch.fx.GraphModule, args: list[Any]) -> Any:
        """Run the ATen graph, each value beside eager's; gives its results."""
        far: list[tuple[torch.fx.Node, str, str, torch.Tensor, torch.Tensor]] = []

        def settled(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
            for kind, name in marks_of(node):
                right = self._eager.values.get((self._made.number, kind, name))
                if right is None or right.shape != value.shape:
                    continue
                self.counts["fx"] += 1
                right = right.to(value.dtype)
                if distance(value, right) is not None:
                    far.append((node, kind, name, value.detach().clone(), right))
                value = right_instead(value, right)
            return value

        inputs = _copied(args)
        run = NodeRun(module, settled)
        result = run.run(*args)
        self._right, self._computed = run.values, run.computed
        forced = {node.name for node in module.graph.nodes if marks_of(node)}
        noise = noises(module, inputs, run, forced) if far else {}
        for node, kind, name, value, right in far:
            found = distance(value, right, noise.get(node.name, 0.0))
            if found is not None:
                self._note_operation(node, kind, name, right, found)
        return result

    def _note_operation(
        self, node: torch.fx.Node, kind: str, name: str, right: torch.Tensor, found: Distance
    ) -> None:
        its = self._eager.nodes.get((self._made.number, name))
        kernel = self._kernel_with(node.name)
        self._note(
            found,
            level="fx",
            node=name,
            is_gradient=kind == "gradient",
            target=its.target if its else "",
            aten=node.name,
            kernel=kernel.name if kernel else "",
            position=its.position if its else None,
            dtype=right.dtype,
        )

    # Inductor's passes beside the ATen graph

    def passes(self, args: list[Any]) -> torch.fx.GraphModule:
        """Run the graph that is lowered to loops beside the one that AOTAutograd gave."""
        far: list[tuple[torch.fx.Node, torch.Tensor, torch.Tensor]] = []
        right, computed = self._right, self._computed

        def settled(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
            known = computed.get(node.name)
            if known is None or known.shape != value.shape or known.dtype != value.dtype:
                return value
            if not _is_drawn(node):
                self.counts["passes"] += 1
                if distance(value, known) is not None:
                    far.append((node, value.detach().clone(), known))
            return right_instead(value, right[node.name])

        assert self._made.lowering.module is not None
        module = written_out(on_cpu(self._made.lowering.module))
        run = NodeRun(module, settled)
        run.run(*_copied(args))
        self._right = run.values
        noise = noises(module, _copied(args), run, right) if far else {}
        for node, value, known in far:
            found = distance(value, known, noise.get(node.name, 0.0))
            if found is not None:
                self._note_node(found, "passes", node, known, self._kernel_with(node.name))
        return module

    # The generated code beside that

    def code(
        self, module: torch.fx.GraphModule, args: list[Any], kernels: Mapping[str, str]
    ) -> None:
        """Run the generated code, each buffer beside the node whose value it is. That is computed
        as a kernel does it, from one buffer to the next.
        """
        lowering = self._made.lowering
        nodes = {node.name: node for node in module.graph.nodes}
        codes = {
            one.name: replace(one, source=kernels.get(one.name, one.source))
            for one in lowering.kernels
        }
        parameters = {one.name: parameters_of(one.source, one.name) for one in codes.values()}
        text, statements, names = watched(lowering.wrapper, kernels, parameters)
        stored = {lowering.values[name] for name in names if name in lowering.values}
        run = NodeRun(module, functools.partial(self._right_in, stored))
        run.run(*_copied(args))
        far: list[_FarBuffer] = []
        last: list[Any] = []

        def launching(kernel: Any, given: Sequence[Any]) -> None:
            last[:] = _copied(given)
            launch(kernel, given)

        def note(number: int, values: Mapping[str, Any]) -> None:
            for name, value in values.items():
                node = nodes.get(lowering.values.get(name, ""))
                if node is None or node.name not in run.computed:
                    continue
                computed = run.computed[node.name]
                if not isinstance(value, torch.Tensor) or computed.shape != value.shape:
                    continue
                if not _is_drawn(node):
                    self.counts["kernel"] += 1
                    if distance(value, computed) is not None:
                        called = launched(statements[number])
                        kept = value.detach().clone()
                        far.append(_FarBuffer(name, node, kept, computed, called, [*last]))
                value.copy_(run.values[node.name])

        callable_in(text, launching, {SEEN: note})(_copied(args))
        noise = noises(module, _copied(args), run, stored) if far else {}
        for one in far:
            found = distance(one.value, one.right, noise.get(one.node.name, 0.0))
            if found is not None:
                self._note_buffer(found, one, codes)

    def _right_in(
        self, stored: Collection[str], node: torch.fx.Node, value: torch.Tensor
    ) -> torch.Tensor:
        """The right value of a node that is stored; others are as the code computes them."""
        right = self._right.get(node.name) if node.name in stored else None
        is_like = right is not None and right.shape == value.shape
        return right_instead(value, right) if right is not None and is_like else value

    def _note_buffer(
        self, found: Distance, one: _FarBuffer, codes: Mapping[str, KernelCode]
    ) -> None:
        name, names = one.called or ("", ())
        code = codes.get(name)
        if code is None:
            self._note_node(found, "kernel", one.node, one.right, None)
            return
        parameter = parameters_of(code.source, name)[names.index(one.buffer)]
        line, text = storing_line(code.source, name, parameter)
        self._note_node(found, "kernel", one.node, one.right, code, line, text)
        if self.launch is None:
            self.launch = WrongLaunch(code, tuple(one.arguments), {parameter: one.right})

    def _note_node(
        self,
        found: Distance,
        level: str,
        node: torch.fx.Node,
        right: torch.Tensor,
        kernel: KernelCode | None,
        line: int | None = None,
        line_text: str = "",
    ) -> None:
        its = node_of(node)
        self._note(
            found,
            level=level,
            node=node.name,
            is_gradient=False,
            target=its.target,
            aten=node.name,
            kernel=kernel.name if kernel else "",
            position=its.position,
            dtype=right.dtype,
            line=line,
            line_text=line_text,
        )

    def _note(self, found: Distance, *, dtype: torch.dtype, **facts: Any) -> None:
        self.differences.append(
            Difference(
                direction=self._made.direction,
                number=self._made.number,
                dtype=str(dtype).removeprefix("torch."),
                index=found.index,
                found=found.found,
                right=found.right,
                distance=found.largest,
                allowed=found.allowed,
                wrong=found.wrong,
                size=found.size,
                **{"line": None, "line_text": "", **facts},
            )
        )

    def _kernel_with(self, name: str) -> KernelCode | None:
        """The kernel that computes a node, where one is known to."""
        kernels = self._made.lowering.kernels
        return next((one for one in kernels if name in one.origins), None)


@dataclass(frozen=True, eq=False)
class _FarBuffer:
    """A buffer that is not what it should be, and the statement that computed it."""

    buffer: str
    node: torch.fx.Node
    value: torch.Tensor
    right: torch.Tensor
    called: tuple[str, tuple[str, ...]] | None
    arguments: list[Any]
