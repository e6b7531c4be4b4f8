"""Where eager torch and what torch.compile made of a function part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.errors import SourcePosition
from kernellab.records.graphs import KernelCode


@dataclass(frozen=True)
class Difference:
    """A node whose value is not eager's, given eager's values for what it is computed from.

    Attributes:
        level: "fx": ATen operations give another value than the operation of the FX graph does;
            "passes": the graph after Inductor's passes gives another than before; "kernel": the
            generated code gives another than that graph.
        direction: of the graph: "forward", "backward" or "inference".
        number: of the Dynamo graph, from 0.
        node: the FX node; at the other levels, that of the post-grad graph.
        is_gradient: whether the gradient of the node's value is meant, not the value.
        target: what the node calls.
        aten: the node of the ATen or post-grad graph that has the value.
        kernel: the kernel that computes it; "" where none is known to.
        line: of the kernel's source, from 1, that stores it; None where none is known to.
        line_text: that line.
        position: the line of the model.
        dtype: "float32".
        index: the first element that is too far off.
        found, right: that element, compiled and eager.
        distance: the largest of all elements.
        allowed: the largest that rounding explains.
        wrong, size: how many elements are too far off, of how many.
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
    index: tuple[int, ...]
    found: float
    right: float
    distance: float
    allowed: float
    wrong: int
    size: int

    def __str__(self) -> str:
        whose = "the gradient of " if self.is_gradient else ""
        at = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        where = f" ({self.position})" if self.position is not None else ""
        words = (
            f"{whose}{self.node}, {self.target}, of the {self.direction} graph {self.number}{where}"
            f": {at or 'it'} is {self.found:.6g}, and eager's {self.right:.6g}; "
            f"{self.wrong:,} of {self.size:,} elements are off, by {self.distance:.3g} at most, "
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
        fx: values and gradients of FX nodes that were found in its ATen graph and compared.
        passes: nodes of the post-grad graph that the ATen graph has too.
        buffers: what the generated code computed and a node of the post-grad graph is known for.
        obstacle: why it was not compared to its end; "" where it was.
    """

    direction: str
    number: int
    fx: int
    passes: int
    buffers: int
    obstacle: str = ""


@dataclass(frozen=True, eq=False)
class WrongLaunch:
    """The launch of the first kernel that gave a wrong value, as it was called.

    Attributes:
        kernel: its code, as it ran.
        arguments: before the launch.
        expected: right results by parameter.
    """

    kernel: KernelCode
    arguments: tuple[Any, ...]
    expected: Mapping[str, Any]
