"""What `kernellab.graph` returns: a report of every level between Python and the machine code of a
GPU, the report's call, and its file.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kernellab.common.arguments import check_choice, check_flags, check_mapping, check_whole
from kernellab.common.consent import trust
from kernellab.common.saved_files import Format, RecordReader, reading
from kernellab.common.system import save_whole, saved_path
from kernellab.common.text import counted, parsed, shown
from kernellab.errors import (
    ArchiveError,
    ArgumentError,
    KernelLabError,
    NoGpu,
    NotRecorded,
    OptionError,
    SourcePosition,
    suggestion,
    visible,
)
from kernellab.graphs.kernels import GeneratedKernel, candidate_kernels
from kernellab.graphs.processes import (
    SECONDS,
    GivenCall,
    call_in_copy,
    can_copy_this_process,
    compiler_process,
    gpu_process,
    shipped,
)
from kernellab.graphs.records import Ablation, Accuracy, Speedups
from kernellab.records.display import PrintsAsCard, RowSequence, show
from kernellab.records.graphs import (
    Bytecode,
    Fusion,
    GraphBreak,
    GraphCapture,
    GraphNode,
    GraphPass,
    Guard,
    Level,
    LoweredGraph,
    Recompilation,
    SizeSymbol,
)

if TYPE_CHECKING:
    import pandas

    from kernellab.common.processes import Worker
    from kernellab.graphs.kernels import GraphComparison, ReportDifference
    from kernellab.profiling.diagnosis.diagnose import Asked
    from kernellab.profiling.diagnosis.records import Diagnoses


_SCRIPT = """\
import torch
from torch import device, inf, nan


def function({parameters}):
{body}
    return {result}


def made(shape, dtype):
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype, device=place)
    return torch.randint(0, 2, shape, device=place).to(dtype)


place = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
inputs = [
{inputs}
]
results = []
for called in (function, torch.compile(function)):
    torch.manual_seed(0)
    results.append(called(*[tensor.clone() for tensor in inputs]))
eager, compiled = (result.double() for result in results)
print("largest element:", eager.abs().max().item())
print("largest difference:", (compiled - eager).abs().max().item())
"""


def script(level: Level, node: str) -> str:
    """Return a script of a node of an FX graph: see `ReportGraph.script`."""
    nodes = {each.name: each for each in level.nodes}
    tensors = [name for name, each in nodes.items() if each.shape and each.opcode != "output"]
    if node not in tensors:
        raise ArgumentError(
            f"No node {node!r} of the graph has a tensor.",
            advice=suggestion(node, tensors, "Nodes with tensors are"),
        )
    functions = (n for n in ast.walk(parsed(level.text)) if isinstance(n, ast.FunctionDef))
    function = next(functions, None)
    if function is None:
        raise NotRecorded("The text of the graph has no Python function.")
    body, needed = _computing(function, node)
    if "self" in needed:
        raise NotRecorded(f"The operations of {node!r} call another graph, which has no text.")
    given = [each.arg for each in function.args.args if each.arg in needed]
    return _SCRIPT.format(
        parameters=", ".join(given),
        body="\n".join(f"    {ast.unparse(statement)}" for statement in body),
        result=node,
        inputs="\n".join(f"    {_input(name, function, level)}," for name in given),
    )


def _computing(function: ast.FunctionDef, node: str) -> tuple[list[ast.stmt], set[str]]:
    """Return the statements that a value is computed by, and the names in them."""
    needed, body = {node}, list[ast.stmt]()
    for statement in reversed(function.body):
        match statement:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                is_deletion = isinstance(value, ast.Constant) and value.value is None
            case _:
                continue
        if value is None or is_deletion or not (name in needed or _writes(value, needed)):
            continue
        needed |= {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
        body.append(ast.Assign([ast.Name(name)], value, lineno=0))
    return body[::-1], needed


def _writes(value: ast.expr, needed: set[str]) -> bool:
    """Whether an operation writes to a value that is needed, as `x.add_(1)` does."""
    match value:
        case ast.Call(ast.Attribute(ast.Name(owner), method)):
            return owner in needed and method.endswith("_")
    return False


def _input(name: str, function: ast.FunctionDef, level: Level) -> str:
    nodes: dict[str, GraphNode] = {each.name: each for each in level.nodes}
    renamed = {
        statement.value.id: statement.targets[0].id
        for statement in function.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Name)
        and isinstance(statement.targets[0], ast.Name)
    }
    node = nodes.get(name) or nodes.get(renamed.get(name, ""))
    is_known = node is not None and node.shape is not None and node.dtype is not None
    if node is None or not is_known or not all(isinstance(s, int) for s in node.shape or ()):
        raise NotRecorded(f"The sizes of the input {name!r} are symbols, or it is not a tensor.")
    return f"made({node.shape}, torch.{node.dtype})"


# The call of a report, repeated in other processes: `report.compare`, `.ablation`, `.speedup`.


RUNS = ("triton", "aten")

VARIANTS = ("all", "no fusion", "no inlining", "neither")
"""Which optimizations an ablation compiles with."""


class CapturedCall(GivenCall):
    """A call that was captured, and can be again."""

    def send(self, function: str, *more: Any) -> Any:
        """Call "module:function" with this call in another process, and return its result."""
        from kernellab.torch_api.capture import prepare
        from kernellab.torch_api.generated_code import check_cache_folder

        check_cache_folder()
        prepare()
        if can_copy_this_process():
            return call_in_copy(function, self, *more)
        return self._ship(compiler_process(), function, *more)

    def _ship(self, process: Worker, function: str, *more: Any, keep_devices: bool = False) -> Any:
        functions = self.function, self.request.get("backend")
        sent = shipped(functions, (self, *more), self.request["name"], keep_devices=keep_devices)
        return process.call("kernellab.graphs.processes:call", function, sent, seconds=SECONDS)

    def check_has_values(self, what: str) -> None:
        """Raise ArgumentError if a tensor has no values, which the report's method `what` needs."""
        from kernellab.torch_api.fx_graphs import is_empty, tensors_of

        tensors = tensors_of(self.function, self.args, self.keywords)
        for tensor in filter(is_empty, tensors):
            kind = "meta" if tensor.device.type == "meta" else "fake"
            raise ArgumentError(
                f"{what} needs the values of all tensors, but one of shape {tuple(tensor.shape)} "
                f"is a {kind} tensor.",
                advice="Pass tensors and parameters with data to kernellab.graph.",
            )

    def timed(self, function: str, rounds: int) -> Speedups:
        """Return what "module:function" measures of this call in the process with the GPU."""
        from kernellab.torch_api.generated_code import check_cache_folder

        check_cache_folder()
        times: Speedups = self._ship(gpu_process(), function, rounds, keep_devices=True)
        return times


def _check_kernels(sources: Mapping[str, str], known: set[str]) -> None:
    for name, source in sources.items():
        if name not in known:
            raise ArgumentError(
                f"The report has no kernel {name!r}.",
                advice=suggestion(str(name), sorted(known), "Its kernels are"),
            )
        if not isinstance(source, str):
            raise ArgumentError(
                f"The source of kernel {name!r} must be a str, got {shown(source)}.",
                advice="Pass report.kernels[0].source with a change.",
            )


def _checked_decompositions(decompositions: Any) -> dict[str, Callable[..., Any]]:
    from kernellab.torch_api.fx_graphs import operation_named

    if not isinstance(decompositions, Mapping):
        raise OptionError(
            f"decompositions must map operations to functions, got {shown(decompositions)}.",
            advice='Write decompositions={"aten.gelu.default": function}.',
        )
    functions = {str(operation): function for operation, function in decompositions.items()}
    for name, function in functions.items():
        try:
            operation_named(name)
        except LookupError as error:
            advice = 'Name it as nodes do: "aten.gelu.default".'
            raise ArgumentError(str(error), advice=advice) from None
        if not callable(function):
            raise ArgumentError(
                f"The decomposition of {name} must be a function, got {shown(function)}."
            )
    return functions


# The report that `kernellab.graph` returns.


T = TypeVar("T")


class Rows(RowSequence[T]):
    """Records, as a list and as a table."""

    _rows = "records"

    def __init__(self, rows: Sequence[T], *, is_recorded: bool = True) -> None:
        self.records = tuple(rows)
        self._is_recorded = is_recorded

    def table(self) -> pandas.DataFrame:
        """One row per record."""
        import pandas

        return pandas.DataFrame([vars(row) for row in self])

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or ("none" if self._is_recorded else "not recorded")


@dataclass(frozen=True, eq=False)
class ReportGraph:
    """One graph of a report, from Dynamo to kernels.

    Attributes:
        lowered: all that is recorded of it.
        fx: the graph as Dynamo captured it.
        joint: the same and its gradient, before they are partitioned; None without a gradient.
        kernels: those that Inductor wrote for it.
        candidate_kernels: the templates that max-autotune would choose from, each in its config, in
            the order of `lowered.candidates`.
    """

    lowered: LoweredGraph
    fx: Level
    joint: Level | None
    kernels: tuple[GeneratedKernel, ...]
    candidate_kernels: tuple[GeneratedKernel, ...] = ()

    @property
    def direction(self) -> str:
        """ "forward", "backward" or "inference"."""
        return self.lowered.direction

    @property
    def aten(self) -> Level:
        """The operations that AOTAutograd passes to Inductor, after Inductor's decompositions."""
        return self.lowered.aten

    @property
    def prims(self) -> Level:
        """The graph in torch's primitive operations."""
        return self.lowered.prims

    @property
    def post_grad(self) -> Level:
        """The graph after Inductor's passes, which is lowered to loops."""
        return self.lowered.post_grad

    @property
    def passes(self) -> tuple[GraphPass, ...]:
        """Inductor's FX passes, in order."""
        return self.lowered.passes

    @property
    def loop_ir(self) -> str:
        """Inductor's define-by-run IR of every buffer, before fusion."""
        return "\n\n".join(buffer.text for buffer in self.lowered.loops)

    @property
    def wrapper(self) -> str:
        """The code that allocates buffers and launches the kernels."""
        return self.lowered.wrapper

    @functools.cached_property
    def fusions(self) -> pandas.DataFrame:
        """The pairs that the scheduler considered: first, second, fused, reason, saved_bytes."""
        import pandas

        columns = list(Fusion.__dataclass_fields__)
        return pandas.DataFrame([vars(fusion) for fusion in self.lowered.fusions], columns=columns)

    @functools.cached_property
    def candidates(self) -> pandas.DataFrame:
        """The candidates of max-autotune for each matmul and attention of the graph: templates in
        each config, compiled, with registers, spills, shared memory and occupancy, and torch's own
        operation. They are compiled on first access; nothing is timed, and Inductor takes the
        first template. Empty unless `mode="max-autotune"`.
        """
        from kernellab.graphs.kernels import table_of

        return table_of(self.lowered.candidates, self.candidate_kernels)

    @functools.cached_property
    def launches(self) -> pandas.DataFrame:
        """The launches, in order: name, is_generated, operations, moved_bytes, flops; and
        mutated, if the user's own kernels are launched.
        """
        import pandas

        table = pandas.DataFrame([vars(launch) for launch in self.lowered.launches])
        if not any(launch.mutated for launch in self.lowered.launches):
            return table.drop(columns="mutated", errors="ignore")
        return table

    @property
    def error(self) -> str:
        """Where compilation stopped and why, or ""."""
        return self.lowered.error

    def positions(self, kernel: GeneratedKernel | str) -> tuple[SourcePosition, ...]:
        """Return the lines of the model that a kernel computes, if torch knows them.

        Args:
            kernel: a kernel of this graph, or its name.
        """
        name = kernel if isinstance(kernel, str) else kernel.name
        origins = {node for owned in self.kernels if owned.name == name for node in owned.origins}
        nodes = [node for node in self.post_grad.nodes if node.name in origins]
        positions = [node.position for node in nodes if node.position is not None]
        return tuple(dict.fromkeys(positions))

    def script(self, node: str) -> str:
        """Return a script that needs torch only, for a bug report: the operations of the FX graph
        that a node is computed from, on random inputs of the same shapes and dtypes, eager and
        compiled.

        Args:
            node: the name of a node of `fx`, such as `report.compare().first.node`.

        Raises:
            ArgumentError: no node of that name has a tensor.
            NotRecorded: the graph has no text, a size is a symbol, or the operations call another
                graph.
        """
        return script(self.fx, node)

    def __repr__(self) -> str:
        kernels = counted(len(self.kernels), "kernel")
        return f"ReportGraph({self.direction}, {len(self.aten.nodes)} ATen nodes, {kernels})"


class GraphReport(PrintsAsCard):
    """Everything that torch.compile made of one call.

    Attributes:
        capture: the record, as it was captured or read from a file.
        call: the call that was captured; None for a report from a file or from a backend.
    """

    def __init__(
        self,
        capture: GraphCapture,
        call: CapturedCall | None = None,
        *,
        is_captured_here: bool = False,
    ) -> None:
        """Make the report of a record. If it was not captured in this process, its kernels run with
        consent only.
        """
        self.capture = capture
        self.call = call
        self._is_captured_here = is_captured_here or call is not None

    @functools.cached_property
    def graphs(self) -> tuple[ReportGraph, ...]:
        """The compiled graphs, in the order of their compilation."""
        frames = {frame.number: frame for frame in self.capture.frames}
        nothing = Level("fx", "", (), "not recorded")
        known = self.capture.target, self._is_captured_here
        graphs = []
        for lowered in self.capture.lowered:
            frame = frames.get(lowered.number)
            kernels = tuple(GeneratedKernel(code, *known) for code in lowered.kernels)
            fx = frame.fx if frame is not None else nothing
            joint = frame.joint if frame is not None else None
            templates = candidate_kernels(lowered, *known)
            graphs.append(ReportGraph(lowered, fx, joint, kernels, templates))
        return tuple(graphs)

    @property
    def kernels(self) -> tuple[GeneratedKernel, ...]:
        """The kernels of all graphs."""
        return tuple(kernel for graph in self.graphs for kernel in graph.kernels)

    @property
    def _has_dynamo(self) -> bool:
        """Whether what Dynamo said was recorded, which a capture that failed does not have."""
        made = self.capture
        has_something = bool(made.frames or made.breaks or made.bytecode)
        return has_something or not (made.lowered or made.error)

    @property
    def breaks(self) -> Rows[GraphBreak]:
        """Where Dynamo stopped: reason, line, what to change, which lines no graph has."""
        return Rows(self.capture.breaks, is_recorded=self._has_dynamo)

    @property
    def guards(self) -> Rows[Guard]:
        """The conditions under which the compiled code is valid."""
        return Rows(self.capture.guards, is_recorded=self._has_dynamo)

    @property
    def recompilations(self) -> Rows[Recompilation]:
        """The functions that were compiled again, and why."""
        return Rows(self.capture.recompilations, is_recorded=self._has_dynamo)

    @property
    def symbols(self) -> Rows[SizeSymbol]:
        """The symbolic sizes: where each was created, and which line added a guard or fixed it."""
        return Rows(self.capture.symbols, is_recorded=self._has_dynamo)

    @property
    def bytecode(self) -> Rows[Bytecode]:
        """Each function's bytecode, before and after Dynamo; resume functions too."""
        return Rows(self.capture.bytecode, is_recorded=bool(self.capture.bytecode))

    @property
    def error(self) -> str:
        """Why the capture is incomplete; "" if it is complete."""
        return self.capture.error

    def trust(self) -> None:
        """Let the modules of the report run in this process, without a question."""
        for graph in self.graphs:
            for kernel in (*graph.kernels, *graph.candidate_kernels):
                trust(kernel.source)

    def _call_for(self, what: str) -> CapturedCall:
        """Return the call, which Inductor must have compiled, for the method `what`. Raises
        NotRecorded: the report was read from a file, or left by a backend; ArgumentError: another
        backend compiled the call.
        """
        if self.call is None:
            raise NotRecorded(
                f"{what} calls the function again, but this report does not contain it: it was "
                "read from a file, or left by a backend of torch.compile.",
                advice=f"Call kernellab.graph(function, *args).{what}().",
            )
        if self.call.request.get("backend") is not None:
            raise ArgumentError(
                f"{what} needs a report of Inductor, but this report is of another backend.",
                advice="Call kernellab.graph(function, *args) without backend=.",
            )
        return self.call

    def compare(
        self,
        run: str = "triton",
        *,
        kernels: Mapping[str, str] | None = None,
        decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    ) -> GraphComparison:
        """Run the call eager and compiled on the CPU, and report the first node whose value
        differs by more than rounding explains.

        Each node is given eager's values, so that it is judged by itself. Random numbers are drawn
        as eager torch draws them, also in the compiled code.

        Args:
            run: "triton": down to the generated kernels, on the interpreter; "aten": the graphs'
                operations alone, which is quicker.
            kernels: sources to run in place of Inductor's, by the kernel's name.
            decompositions: functions that replace operations, by the name "aten.gelu.default".

        Raises:
            ArgumentError: there is no such kernel or operation, or a tensor has no values.
            NotRecorded: the report does not contain its call.
        """
        call = self._call_for("compare")
        check_choice("run", run, RUNS)
        call.check_has_values("compare")
        if kernels is not None:
            check_mapping("kernels", kernels, "{report.kernels[0].name: source}")
        sources = dict(kernels or {})
        _check_kernels(sources, {kernel.name for kernel in self.kernels})
        functions = _checked_decompositions({} if decompositions is None else decompositions)
        job = "kernellab.graphs.compare:compare"
        comparison: GraphComparison = call.send(job, run, sources, functions)
        return comparison

    def accuracy(self, run: str = "triton") -> Accuracy:
        """Run the call eager and compiled on the CPU, and once more in fp64, and say how far each
        result is from fp64, and at which operation the error grows most.

        `compare` judges each node by itself, given the values of eager torch; here errors add up,
        as they do in the model.

        Args:
            run: "triton": the generated kernels, on the interpreter; "aten": the graphs' operations
                alone, which is quicker.

        Raises:
            ArgumentError: a tensor has no values.
            NotRecorded: the report does not contain its call.
        """
        call = self._call_for("accuracy")
        check_choice("run", run, RUNS)
        call.check_has_values("accuracy")
        accuracy: Accuracy = call.send("kernellab.graphs.accuracy:accuracy", run)
        return accuracy

    def diff(self, other: GraphReport, *, times: bool = False) -> ReportDifference:
        """Compare the kernels of this report with those of another one, such as of another version
        of torch, for another GPU, or after an edit: which were added, are gone or changed, and the
        bytes that they move.

        Args:
            other: the report that is compared with this one.
            times: whether to estimate the time of every launch, which takes about a second for
                each. Code that was read from a file is not run, and has no times.

        Raises:
            ArgumentError: `other` is not a report.
        """
        from kernellab.graphs.kernels import difference

        if not isinstance(other, GraphReport):
            raise ArgumentError(
                f"other must be a report of kernellab.graph, got {shown(other)}.",
                advice="Write before.diff(after).",
            )
        check_flags(times=times)
        return difference(self, other, times=times)

    def ablation(self, rounds: int = 7) -> Ablation:
        """Compile the call with all optimizations, without fusion, without inlining, and without
        both, and count kernels, launches and bytes; with a GPU, also time each.

        Args:
            rounds: how often each is timed on the GPU; the median is reported.

        Raises:
            NotRecorded: the report does not contain its call.
        """
        import torch

        call = self._call_for("ablation")
        check_whole("rounds", rounds, 1)
        rows = tuple(call.send("kernellab.graphs.jobs:counted", name) for name in VARIANTS)
        device, eager = "", None
        if torch.cuda.is_available():
            times = call.timed("kernellab.graphs.jobs:timed", rounds)
            device, eager = times.device, times["eager"].milliseconds
            timed = [(row, times[row.optimizations]) for row in rows]
            rows = tuple(
                replace(row, milliseconds=time.milliseconds, error=row.error or time.error)
                for row, time in timed
            )
        request = call.request
        direction = "forward and backward" if request["backward"] else "forward"
        return Ablation(request["name"], request["gpu"], direction, device, eager, rows)

    def speedup(self, rounds: int = 7) -> Speedups:
        """Time the call on this machine's GPU: eager, aot_eager, Inductor without and with CUDA
        graphs, in turns.

        Args:
            rounds: how often each is timed; the median is reported.

        Raises:
            NoGpu: this machine has no GPU.
            NotRecorded: the report does not contain its call.
        """
        import torch

        call = self._call_for("speedup")
        check_whole("rounds", rounds, 1)
        if not torch.cuda.is_available():
            raise NoGpu(
                "speedup times the call on a GPU, but torch finds no GPU on this machine.",
                advice="Use report.ablation(), which counts kernels, launches and bytes without a "
                "GPU, or a machine with a GPU.",
            )
        return call.timed("kernellab.graphs.jobs:speedups_of_call", rounds)

    def diagnosed(self, request: Asked) -> Diagnoses:
        """Return why each Triton kernel is slow, the most expensive findings first; for
        `kernellab.diagnose`.
        """
        from kernellab.profiling.diagnosis.records import Diagnoses

        request.takes_nothing_of_a_launch("a report")
        diagnoses, notes = [], []
        for kernel in self.kernels:
            if not kernel.code.is_triton:
                continue
            try:
                diagnoses.append(kernel.diagnosed(request))
            except KernelLabError as error:
                notes.append(f"{kernel.name}: {error.problem}")
        diagnoses.sort(key=lambda diagnosis: -max((each.cost for each in diagnosis), default=0.0))
        return Diagnoses(tuple(diagnoses), notes=tuple(notes))

    def explore(self) -> Any:
        """The view of every level: graphs drawn, texts linked line by line from the model to the
        kernels, the pairs that were fused or not. As the last expression of a cell it is displayed;
        its `to_html` writes a page.
        """
        return show(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report to a file, which `kernellab.load` reads; an existing file is replaced
        once the new one is complete.

        Raises:
            ArchiveError: the file cannot be written.
        """
        file = saved_path(path, ArchiveError)
        return save_whole(file, FORMAT.packed(capture=self.capture), ArchiveError)

    def __repr__(self) -> str:
        return f"GraphReport({visible(self.capture.name)}, {counted(len(self.graphs), 'graph')})"


# Reports on disk: one file of compressed JSON. Reading it executes nothing.


FORMAT = Format("kernellab.graphs", "report")

_READER = RecordReader()


def capture_in_file(content: bytes, file: Path) -> GraphCapture:
    """Return the capture that the bytes of a file hold. Raises ArchiveError: the file is damaged,
    or has another version.
    """
    name = str(file)
    with reading(name):
        data = FORMAT.unpacked(content, name)
        capture: GraphCapture = _READER.read(GraphCapture, data["capture"])
        return capture
