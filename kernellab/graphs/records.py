"""The results of repeating a call under torch.compile: where eager torch and the compiled call
differ, and what optimizations are worth. Another process returns them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.common.text import index_text
from kernellab.errors import SourcePosition
from kernellab.records.display import PrintsAsCard, column_names, data_frame
from kernellab.records.graphs import KernelCode
from kernellab.records.launches import Difference


@dataclass(frozen=True, kw_only=True)
class NodeDifference(Difference):
    """A node whose value differs from eager's, although its inputs are eager's values. `actual` is
    the compiled value, `expected` eager's; the name is that of the value in its graph.

    Attributes:
        level: "fx": the ATen operations differ from the operation of the FX graph; "passes": the
            graph after Inductor's passes differs from the graph before; "kernel": the generated
            code differs from that graph.
        direction: the direction of the graph: "forward", "backward" or "inference".
        number: the number of the Dynamo graph, from 0.
        node: the FX node; at the other levels, the node of the post-grad graph.
        is_gradient: whether the gradient of the node's value differs, not the value.
        target: what the node calls.
        aten: the node of the ATen or post-grad graph that has the value.
        kernel: the kernel that computes it; "" if it is unknown.
        line: the line of the kernel's source, from 1, that stores it; None if it is unknown.
        line_text: that line.
        position: the line of the model.
        dtype: "float32".
    """

    level: str
    direction: str
    number: int
    node: str
    is_gradient: bool
    target: str
    aten: str
    kernel: str
    line: int | None
    line_text: str
    position: SourcePosition | None
    dtype: str

    def __str__(self) -> str:
        whose = "the gradient of " if self.is_gradient else ""
        where = f" ({self.position})" if self.position is not None else ""
        actual, expected = self.texts
        words = (
            f"{whose}{self.node}, {self.target}, of the {self.direction} graph {self.number}{where}"
            f": {index_text(self.index) or 'it'} is {actual}, and eager's {expected}; "
            f"{self.count:,} of {self.size:,} elements differ, by {self.largest:.3g} at most, "
            f"where rounding explains {self.allowed:.2g}"
        )
        if self.kernel:
            line = f", line {self.line}: {self.line_text.strip()}" if self.line else ""
            words += f"; computed in {self.kernel}{line}"
        return words


@dataclass(frozen=True)
class ComparedGraph:
    """How much of one graph was compared.

    Attributes:
        direction, number: of the graph.
        fx: the number of values and gradients of FX nodes that its ATen graph has.
        passes: the number of nodes of the post-grad graph that the ATen graph has too.
        buffers: the number of buffers of the generated code with a node of the post-grad graph.
        obstacle: why it was not compared completely; "" if it was.
    """

    direction: str
    number: int
    fx: int
    passes: int
    buffers: int
    obstacle: str = ""


@dataclass(frozen=True, eq=False)
class WrongLaunch:
    """The launch of the first kernel that computed a wrong value.

    Attributes:
        kernel: its code, as it ran.
        arguments: the arguments, with their values before the launch.
        expected: the expected results by parameter.
    """

    kernel: KernelCode
    arguments: tuple[Any, ...]
    expected: Mapping[str, Any]


@dataclass(frozen=True)
class ModeTime:
    """The time of a call in one mode.

    Attributes:
        mode: "eager", "aot_eager", "inductor", "inductor, CUDA graphs".
        milliseconds: the median of the rounds; None if it failed.
        speedup: eager's median divided by this one; None if either failed.
        first_seconds: the time of the first call, compilation included.
        distance: the largest difference of a result or gradient from eager's, relative to eager's
            largest element of that tensor; None if there is nothing to compare.
        error: why it failed, or "".
    """

    mode: str
    milliseconds: float | None
    speedup: float | None
    first_seconds: float
    distance: float | None
    error: str = ""


@dataclass(frozen=True)
class Speedups(PrintsAsCard):
    """The times of a call, eager and compiled, measured in turns on one device.

    Attributes:
        name: the name of the function or module.
        device: the name of the device: "NVIDIA H200".
        direction: "forward", or "forward and backward".
        rounds: how often each mode was measured.
    """

    name: str
    device: str
    direction: str
    rounds: int
    torch_version: str
    modes: tuple[ModeTime, ...]

    def __getitem__(self, mode: str) -> ModeTime:
        """Return the time of a mode by its name."""
        return next(measured for measured in self.modes if measured.mode == mode)

    def table(self) -> Any:
        """Return one row per mode, as a pandas DataFrame."""
        return data_frame(self.modes, column_names(ModeTime))


@dataclass(frozen=True)
class AblationRow:
    """A call compiled with some of Inductor's optimizations.

    Attributes:
        optimizations: "all", "no fusion", "no inlining", "neither".
        kernels: the number of Triton kernels that were written.
        launches: the number of their launches.
        calls: the number of calls of torch's operations, such as a matmul.
        moved_bytes: the bytes that all of them move, by Inductor's count.
        milliseconds: the median on this machine's GPU; None without a GPU.
        error: why the row is incomplete, or "".
    """

    optimizations: str
    kernels: int
    launches: int
    calls: int
    moved_bytes: int
    milliseconds: float | None
    error: str = ""


@dataclass(frozen=True)
class Ablation(PrintsAsCard):
    """The benefit of fusion and inlining for a call.

    Attributes:
        name: the name of the function or module.
        gpu: the GPU that the code is for, as it was named.
        device: the GPU that it was timed on; "" without a GPU.
        eager_milliseconds: eager torch's median on that GPU; None without a GPU.
    """

    name: str
    gpu: str
    direction: str
    device: str
    eager_milliseconds: float | None
    rows: tuple[AblationRow, ...]

    def table(self) -> Any:
        """Return one row for each choice of optimizations, as a pandas DataFrame."""
        return data_frame(self.rows, column_names(AblationRow))


@dataclass(frozen=True)
class ResultError:
    """How far a result of a call is from the same result in fp64.

    Attributes:
        result: which tensor of the result, from 0.
        dtype: "bfloat16".
        largest: the largest element of the result in fp64.
        eager, compiled: the largest error of an element of eager torch and of the generated code;
            None if the result in fp64 is unknown.
        apart: the largest difference of an element between eager torch and the generated code.
        unit: the distance of two neighboring values of the dtype at `largest`.
    """

    result: int
    dtype: str
    largest: float
    eager: float | None
    compiled: float | None
    apart: float
    unit: float


@dataclass(frozen=True)
class NodeError:
    """How far the value of an FX node is from its value in fp64, computed from the call's inputs.

    Attributes:
        number: the number of the Dynamo graph, from 0.
        node, target: the node, and what it calls.
        position: the line of the model.
        dtype: "bfloat16".
        error: the largest error of an element, relative to the largest element; infinite if an
            element is infinite or NaN, and finite in fp64.
        growth: how much larger that is than the error of the node's inputs, or than half a unit of
            their dtype if they have none.
        inputs_largest, largest: the largest element of the inputs, and of the value.
    """

    number: int
    node: str
    target: str
    position: SourcePosition | None
    dtype: str
    error: float
    growth: float
    inputs_largest: float
    largest: float

    @property
    def cancels(self) -> bool:
        """Whether it adds or subtracts, and its inputs are much larger than the value."""
        is_sum = self.target.rpartition(".")[2] in ("add", "sub", "sum", "mean", "matmul", "linear")
        return is_sum and self.inputs_largest > 8 * self.largest

    def __str__(self) -> str:
        where = f" ({self.position})" if self.position is not None else ""
        if self.error == math.inf:
            return (
                f"{self.target}{where}: {self.dtype} has an infinity or NaN where fp64 has finite "
                f"numbers, the largest {self.largest:.4g}"
            )
        why = (
            f": its inputs, up to {self.inputs_largest:.4g}, cancel to {self.largest:.4g}"
            if self.cancels
            else ""
        )
        return (
            f"{self.target}{where}{why}. The error grows {times_text(self.growth)} times, to "
            f"{self.error:.2g} of the largest element"
        )


def times_text(factor: float) -> str:
    """Return a factor in digits, or in powers of ten if it has more than six."""
    return f"{factor:,.1f}".removesuffix(".0") if factor < 1e6 else f"{factor:.2g}"


@dataclass(frozen=True)
class Accuracy(PrintsAsCard):
    """A call's results and values, compared with the same in fp64.

    Attributes:
        name: the name of the function or module.
        results: the tensors of the call's result.
        nodes: every floating-point value of the FX graphs, in order.
        cause: the node at which the error grows most, if a result is off by more than a few units
            in the last place; None otherwise, or if no node makes it grow more than 4 times.
        error: why the call did not finish; "" if it did.
    """

    name: str
    results: tuple[ResultError, ...]
    nodes: tuple[NodeError, ...]
    cause: NodeError | None
    error: str

    @property
    def units(self) -> float:
        """By how many units in the last place eager torch is off, in the worst result."""
        off = [each.eager / each.unit for each in self.results if each.eager and each.unit]
        return max(off, default=0.0)

    def table(self) -> Any:
        """Return one row per node, as a pandas DataFrame."""
        return data_frame(self.nodes, column_names(NodeError))
