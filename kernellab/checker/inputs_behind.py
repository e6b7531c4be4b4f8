"""What one element of a launch's result was computed from: the elements that its program loaded for
it, and no others. One program runs once more, alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.records import Inputs
from kernellab.checker.session import CheckSession
from kernellab.checker.shadow.loaded import LoadedElement, LoadedShadows, joined, of_lane
from kernellab.checker.shadow.values import Array, Shadow, lifted
from kernellab.interpreter.execution.grid import linear_ids
from kernellab.interpreter.execution.program import program_code
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir.traits import GlobalAccess, trait_of
from kernellab.launch.preparation import EntryPoint, prepare_bound
from kernellab.records import BoundLaunch


def inputs_behind(
    launch: BoundLaunch, program: tuple[int, int, int], argument: str, offset: int
) -> Sequence[LoadedElement]:
    """The elements behind one that a program writes, in the order in which it reads them.

    A value is computed from what its operands are computed from, lane by lane; from what decided
    which of two it became; and where it was loaded, from what the address was computed from.

    Args:
        launch: the launch.
        program: the id of the one that writes it.
        argument: whose element it is.
        offset: the element, counted from the tensor's first in memory.

    Raises:
        KernelLabError: the launch cannot be made, or the program faults when it runs alone.
    """
    prepared = prepare_bound(launch, launch.target, _ENTRY)
    kernel, call, sizes = prepared.kernel, prepared.call, prepared.sizes()
    code = program_code(kernel, call, prepared.target)
    session = CheckSession(CheckedRun(kernel, call, code, sizes, prepared.target))
    (number,) = linear_ids([program], sizes)
    return inputs_in(session, number, argument, offset)


def inputs_in(
    session: CheckSession, number: int, argument: str, offset: int
) -> Sequence[LoadedElement]:
    """As `inputs_behind`, for a program of a check by its linear id."""
    heard = session.run_program(_Behind, number)
    tensor = heard.run.tensors[argument]
    return heard.elements_behind(tensor.data_ptr() + offset * tensor.element_size())


def inputs_by_argument(elements: Iterable[LoadedElement]) -> tuple[Inputs, ...]:
    """Return elements as the Inputs of each argument."""
    by_argument: dict[str, list[tuple[tuple[int, ...], Any]]] = {}
    for element in elements:
        by_argument.setdefault(element.argument, []).append((element.index, element.value))
    return tuple(Inputs.of(*item) for item in by_argument.items())


_ENTRY = EntryPoint("check", keeps_assertions=True)


@dataclass(frozen=True)
class _Written:
    """A store or an atomic of the program, lane by lane.

    Attributes:
        addresses: of the first byte of each element.
        on: which lanes take part.
        shadow: what is behind each.
        adds: whether it works on what is there: what was behind that still is.
    """

    addresses: Array
    on: Array
    shadow: Shadow
    adds: bool


class _Behind(Detector):
    """Follows what is loaded to where it is stored."""

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._shadows = LoadedShadows()
        self._written: list[_Written] = []

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Whatever is computed from something, and where values are handed on."""
        return bool(operation.operands)

    def computed(self, computed: Computed) -> None:
        """Follow it."""
        self._shadows.follow(computed)

    def before(self, access: Access) -> None:
        """Remember what is stored where."""
        trait = trait_of(access.operation, GlobalAccess)
        if trait is None or access.action == "load":
            return
        values = [*trait.indices_of(access.operation), trait.value_of(access.operation)]
        first = int(access.buffer.elements.__array_interface__["data"][0])
        addresses = first + lifted(access.index, access.rank) * access.buffer.itemsize
        on = True if access.on is None else lifted(access.on, access.rank)
        addresses, on = numpy.broadcast_arrays(addresses, on)
        shadow = joined([self._shadows[value] for value in values if value is not None])
        self._written.append(_Written(addresses, on, shadow, access.action == "atomic"))

    def after(self, access: Access, result: Value | None) -> None:
        """Remember what was read."""
        if access.action != "store" and result is not None:
            self._shadows.read(access, result)

    def elements_behind(self, address: int) -> Sequence[LoadedElement]:
        """What is behind the element at an address, as the program left it."""
        numbers = 0
        for write in self._written:
            for place in numpy.argwhere(write.on & (write.addresses == address)):
                own = of_lane(write.shadow, place.tolist(), write.addresses.ndim)
                numbers = numbers | own if write.adds else own
        return self._shadows.among(numbers)
