"""The inputs of an element of a result, and its last writer, found by a second run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.records import Inputs
from kernellab.checker.session import CheckSession
from kernellab.checker.shadow_values import (
    Array,
    Shadow,
    Shadows,
    lanes_of,
    moved,
    reach,
    with_program_axis,
)
from kernellab.interpreter.execution.grid import linear_ids
from kernellab.interpreter.execution.program import program_code
from kernellab.interpreter.tiles import Value
from kernellab.ir import mlir
from kernellab.ir.operations import GlobalAccess, MovesElements, has, trait_of
from kernellab.launch.preparation import EntryPoint, prepare_bound
from kernellab.records import BoundLaunch
from kernellab.records.launches import Difference


@dataclass(frozen=True)
class LoadedElement:
    """An element of an argument as a program has read it.

    Attributes:
        argument: the parameter; "" for memory that does not belong to an argument.
    """

    argument: str
    index: tuple[int, ...]
    value: Any


class LoadedShadows(Shadows):
    """The elements behind each value, bit `n` for `elements[n]`, through loads and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[LoadedElement] = []
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._read: dict[Operation, Shadow] = {}

    def read(self, access: CheckedAccess, loaded: Value) -> None:
        index, on, values = lanes_of(access, with_program_axis(loaded, access.rank))
        shadow = numpy.zeros(index.shape, object)
        for lane in zip(*numpy.nonzero(on)):
            shadow[lane] = 1 << self._number(access, int(index[lane]), values[lane])
        self._read[access.operation] = shadow

    def _number(self, access: CheckedAccess, index: int, value: Any) -> int:
        buffer = access.buffer
        key = buffer.elements.__array_interface__["data"][0], buffer.itemsize, index
        if key not in self._numbers:
            self._numbers[key] = len(self.elements)
            place = access.coordinates(index)
            self.elements.append(LoadedElement(buffer.name, place, value.item()))
        return self._numbers[key]

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        op = computed.operation
        if (access := trait_of(op, GlobalAccess)) is not None:
            return [self._loaded(op, access)] * len(op.results)
        if isinstance(op, mlir.SelectOp):
            (chosen,) = moved(computed, operands)
            return [joined([chosen, _reaching(op, 0, operands[0])])]
        if has(op, MovesElements):
            return moved(computed, operands)
        sets = joined([_reaching(op, *operand) for operand in enumerate(operands)])
        return [sets] * len(op.results)

    def _loaded(self, op: Operation, access: GlobalAccess) -> Shadow:
        """Of what an access gives: what it read, where from, and what stands for masked lanes."""
        values = [*access.indices_of(op), getattr(op, "other", None)]
        behind = [self[value] for value in values if value is not None]
        return joined([self._read.pop(op, None), *behind])

    def among(self, numbers: int) -> list[LoadedElement]:
        """The elements of a set, in the order in which they were read first."""
        return [element for number, element in enumerate(self.elements) if numbers >> number & 1]


def joined(shadows: Iterable[Shadow]) -> Shadow:
    """Return the union of sets, element by element."""
    union: Shadow = None
    for shadow in shadows:
        if shadow is not None:
            union = shadow if union is None else _with(union, shadow)
    return union


def _with(shadow: Array, other: Array) -> Array:
    """Return the union of two arrays of sets, element by element, broadcast to the larger rank."""
    rank = max(shadow.ndim, other.ndim)
    first, second = (a.reshape(a.shape + (1,) * (rank - a.ndim)) for a in (shadow, other))
    both: Array = numpy.bitwise_or(first, second)
    return both


def of_lane(shadow: Shadow, lane: Sequence[int], rank: int) -> int:
    """Return the set of one element of a tile of rank `rank`, both with the program first."""
    if shadow is None:
        return 0
    whole = shadow.reshape(shadow.shape + (1,) * (rank - shadow.ndim))
    return int(whole[tuple(min(at, size - 1) for at, size in zip(lane, whole.shape))])


def _reaching(op: Operation, position: int, shadow: Shadow) -> Shadow:
    return None if shadow is None else reach(op, position, shadow, numpy.bitwise_or)


Watch = Callable[[CheckedRun], Sequence[Detector]]
"""Makes the detectors of a run."""


def last_writer(apart: Difference, run: Callable[[Watch], Any]) -> LastWriter:
    """Return what wrote an element last in a run: one that `run` makes with these detectors."""
    writers: list[LastWriter] = []

    def watch(launch: CheckedRun) -> Sequence[Detector]:
        writers[:] = [LastWriter(launch, apart)]
        return writers

    run(watch)
    return writers[0]


class LastWriter(Detector):
    """Record the last write to an element.

    Attributes:
        operation: the operation that writes it; None if nothing does.
        programs: the linear ids of the programs that do.
        last: the linear id of the last of them, whose value remains; None if it is not known.
        name: the argument that they write through; "" if it is not an argument.
        place: the position in its tile of the element that the last program stores.
    """

    def __init__(self, run: CheckedRun, apart: Difference) -> None:
        super().__init__(run)
        tensor = run.tensors[apart.name]
        offset = sum(place * step for place, step in zip(apart.index, tensor.stride()))
        size = tensor.element_size()
        self._start = tensor.untyped_storage().data_ptr()
        self._byte = (tensor.storage_offset() + offset) * size
        self.operation: Operation | None = None
        self.programs: tuple[int, ...] = ()
        self.last: int | None = None
        self.name = ""
        self.place: tuple[int, ...] = ()
        self.values: Mapping[str, Any] = {}

    def before(self, access: CheckedAccess) -> None:
        if (
            access.action == "load"
            or access.buffer.tensor.untyped_storage().data_ptr() != self._start
        ):
            return
        buffer = access.buffer
        first = buffer.elements.__array_interface__["data"][0] - self._start
        here = access.index == (self._byte - first) // buffer.itemsize
        if access.on is not None:
            here = here & access.on
        if here.any():
            self.operation, self.name = access.operation, buffer.name
            has_programs = here.ndim > access.rank
            among = (
                here.reshape(len(here), -1).any(axis=1) if has_programs and len(here) > 1 else None
            )
            self.programs = tuple(access.linear_ids(among).tolist())
            self.last = self.programs[-1] if self.programs else None
            writing = access.active if among is None else among
            batch = 1 if access.programs is None else access.programs.count
            program = batch - 1 if writing is None else int(numpy.flatnonzero(writing)[-1])
            lanes = here[min(program, len(here) - 1)] if has_programs else here
            self.place = tuple(numpy.argwhere(lanes)[-1].tolist())
            self.values = access.values(self.place, program)


# What one element of a launch's result was computed from: the elements that its program loaded
# for it, and no others. One program runs once more, alone.


def inputs_behind(
    launch: BoundLaunch, program: tuple[int, int, int], argument: str, offset: int
) -> Sequence[LoadedElement]:
    """The elements behind one that a program writes, in the order in which it reads them.

    A value is computed from what its operands are computed from, lane by lane; from what decided
    which of two it became; and where it was loaded, from what the address was computed from.

    Args:
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
        self._shadows.follow(computed)

    def before(self, access: CheckedAccess) -> None:
        trait = trait_of(access.operation, GlobalAccess)
        if trait is None or access.action == "load":
            return
        values = [*trait.indices_of(access.operation), trait.value_of(access.operation)]
        first = int(access.buffer.elements.__array_interface__["data"][0])
        index, on = lanes_of(access)
        addresses = first + index * access.buffer.itemsize
        shadow = joined([self._shadows[value] for value in values if value is not None])
        self._written.append(_Written(addresses, on, shadow, access.action == "atomic"))

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        if access.action != "store" and result is not None:
            self._shadows.read(access, result)

    def elements_behind(self, address: int) -> Sequence[LoadedElement]:
        numbers = 0
        for write in self._written:
            for place in numpy.argwhere(write.on & (write.addresses == address)):
                own = of_lane(write.shadow, place.tolist(), write.addresses.ndim)
                numbers = numbers | own if write.adds else own
        return self._shadows.among(numbers)
