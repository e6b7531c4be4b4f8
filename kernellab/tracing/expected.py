"""Where a trace's results are not what its author expects: the first element that is off, and who
wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import torch

from kernellab.compiler.modules.pointers import pointers_of
from kernellab.interpreter.memory.observers import ObservedAccess
from kernellab.interpreter.tiles import full
from kernellab.ir.operations import global_effect
from kernellab.ir.types import shape
from kernellab.launch.differences import tolerance, wrong_words
from kernellab.launch.reference_results import Results, tensor_about
from kernellab.tracing.steps import Program, Step

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace


@dataclass(frozen=True)
class WrongElement:
    """The first element of an argument that is off.

    Attributes:
        argument: the parameter.
        index: of the element.
        offset: the same, counted from the tensor's first in memory.
        actual, expected: what it is, and should be.
        count, size: how many elements of the argument are off, and how many it has.
    """

    argument: str
    index: tuple[int, ...]
    offset: int
    actual: Any
    expected: Any
    count: int
    size: int

    def address_in(self, values: Mapping[str, Any]) -> int:
        """Of its first byte, where a run's arguments are these."""
        tensor = tensor_about(values[self.argument])
        assert tensor is not None  # it was compared with something
        return tensor.data_ptr() + self.offset * tensor.element_size()

    def __str__(self) -> str:
        element = f"{self.argument}[{', '.join(map(str, self.index))}]"
        return f"{wrong_words(element, self.actual, self.expected, self.count, self.size)}."


def wrong_element(values: Mapping[str, Any], expected: Results) -> WrongElement | None:
    """The first element that a run left otherwise than expected; None where there is none."""
    for name, right in expected.items():
        left = tensor_about(values[name])
        assert left is not None  # `right_results` has seen to that
        off = _off(left, right, expected.allowed.get(name))
        if off.any():
            place = tuple(int(i) for i in off.nonzero()[0])
            offset = sum(i * step for i, step in zip(place, left.stride()))
            return WrongElement(
                name,
                place,
                offset,
                left[place].item(),
                right[place].item(),
                int(off.sum()),
                off.numel(),
            )
    return None


def _off(left: torch.Tensor, right: torch.Tensor, allowed: torch.Tensor | None) -> torch.Tensor:
    """Where elements are farther off than allowed; than the default of the dtype for None."""
    if not right.is_floating_point():
        return left != right
    actual, expected = left.double(), right.double()
    if allowed is not None:
        same = (actual == expected) | (actual.isnan() & expected.isnan())
        return ~(same | ((actual - expected).abs() <= allowed))
    rtol, atol = tolerance(right, None, None)
    return ~torch.isclose(actual, expected, rtol, atol, equal_nan=True)


class LastWriter:
    """Hears of a run's accesses which program writes one byte last.

    Attributes:
        program: its id; None where none does.
    """

    def __init__(self, address: int) -> None:
        self._address = address
        self.program: Program | None = None

    def see(self, seen: ObservedAccess) -> None:
        """Hear of an access."""
        if global_effect(seen.operation) == "load":
            return
        extents = seen.shape or shape(pointers_of(seen.operation).type)
        rank = len(extents)
        addresses = full(seen.addresses, extents)
        here = (addresses <= self._address) & (self._address < addresses + seen.size)
        if seen.mask is not None:
            here = here & full(seen.mask, extents)
        programs = numpy.ones(seen.programs.count, numpy.bool_)
        if seen.active is not None:
            programs = programs & seen.active
        if here.ndim > rank:
            programs = programs & here.reshape(len(here), -1).any(axis=1)
        elif not here.any():
            return
        if programs.any():
            self.program = seen.programs.id(int(numpy.flatnonzero(programs)[-1]))


def writing_step(trace: Trace, wrong: WrongElement) -> Step | None:
    """The last step of a trace that writes an element; None where none does."""
    for step in reversed(trace.steps):
        for access in step.accesses:
            writes = access.kind != "load" and access.argument == wrong.argument
            if writes and access.has_elements and (access.elements == wrong.offset).any():
                return step
    return None
