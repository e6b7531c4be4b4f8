"""What a detector is: it observes a run's events, and reports what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import (
    Access,
    CheckedRun,
    Computed,
    Event,
)
from kernellab.checker.program_set import ProgramSet
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.interpreter.numerics.tiles import Value

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class Stopped(Exception):
    """A run that does not end of itself: it was stopped.

    Attributes:
        finding: why.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Detector:
    """Finds faults of some kinds. The events that it does not care for it does not define.

    All that a run must know of it stands on its class: which events it defines, what values it
    `observes`, whether it `guards`, and what it does in `ask`. The list of detectors in
    `detectors/__init__.py` is the only place that names it.

    Attributes:
        kinds: what its findings are called.
        guards: True of one that observes every further run too (`CheckSession.repeat`): without
            it, one may not end.
        observes_elements: True of one that observes operations in the functions of reductions,
            scans and maps too, whose values have one entry for each element.
        collector: what it has found so far; `findings` gives it.
    """

    kinds: ClassVar[tuple[str, ...]]
    guards: ClassVar[bool] = False
    observes_elements: ClassVar[bool] = False

    def __init__(self, run: CheckedRun) -> None:
        self.run = run
        self.collector = FindingCollector(run)
        self.notes: tuple[str, ...] = ()

    def meet(self, others: Sequence[Detector]) -> None:
        """Who else will hear the run."""

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        """Whether it has anything to look for in a launch."""
        del run
        return True

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Whether it wants to know what `operation` computes; asked once, when the code is made."""
        del operation
        return False

    def outside_tensor(self, access: Access, outside: numpy.ndarray, view: Buffer) -> None:
        """Lanes of an access leave the tensor that an argument is; those that leave its storage
        too are about to be switched off.

        Args:
            access: with all its lanes.
            outside: which lanes, programs first where they differ; at least one.
            view: the elements of the storage, of which only the tensor's own may be touched.
        """

    def outside_memory(self, access: Access, wild: numpy.ndarray, elements: Elements) -> None:
        """Lanes of an access through addresses are in no storage; they are about to be switched
        off.

        Args:
            access: to a buffer without elements; its offsets are addresses.
            wild: which lanes, programs first where they differ; at least one.
            elements: where addresses are looked up.
        """

    def before(self, access: Access) -> None:
        """An access is about to be made."""

    def after(self, access: Access, found: Value | None) -> None:
        """An access was made; `found` is what a load or an atomic gave."""

    def computed(self, computed: Computed) -> None:
        """An operation that it observes has computed its results; see `observes`."""

    def end(self) -> None:
        """The run is over; not called where it ended early."""

    def ask(self, session: CheckSession) -> None:
        """The run is over, and the launch may be run again to know more;
        not called where the run ended early.
        """

    def explains(self) -> frozenset[Operation]:
        """Accesses whose faults are consequences of what it found:
        no other detector needs to tell of them.
        """
        return frozenset()

    def findings(self, explained: Set[Operation] = frozenset()) -> Iterator[Finding]:
        """What it found; nothing of the operations whose faults are `explained`."""
        return self.collector.findings(explained)


_overriding: dict[tuple[type[Detector], str], bool] = {}


def overrides(kind: type[Detector], method: str) -> bool:
    """Whether detectors of a kind define one of the methods above themselves."""
    key = kind, method
    if key not in _overriding:
        _overriding[key] = getattr(kind, method) is not getattr(Detector, method)
    return _overriding[key]


def that_define(method: str, detectors: Sequence[Detector]) -> list[Detector]:
    """Those of some detectors that define one of the methods above themselves."""
    return [one for one in detectors if overrides(type(one), method)]


@dataclass
class PendingFinding:
    """A fault at one operation: what is told of its first lane, and how often it happens.

    Attributes:
        facts: fields of the finding, as keywords.
        describe: called with the number of elements and of programs when all are known; gives the
            message. None where `facts` has one.
        described: the linear id of the program whose lane and values `facts` has, where one is
            meant: programs with lower ids may come to the fault later.
    """

    facts: dict[str, Any]
    describe: Callable[[int, int], str] | None = None
    described: int | None = None
    count: int = 0
    programs: ProgramSet = field(default_factory=ProgramSet)


class FindingCollector:
    """The faults that a detector finds: each once for every operation that is at fault."""

    def __init__(self, run: CheckedRun) -> None:
        self._run = run
        self._seen: dict[Hashable, PendingFinding] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._seen)

    def report(
        self,
        event: Event,
        faulty: numpy.ndarray,
        rank: int,
        facts_of: Callable[[tuple[int, ...], int], Mapping[str, Any]],
        about: Hashable = "",
    ) -> PendingFinding:
        """Note that lanes are at fault.

        Args:
            event: what was done.
            faulty: which lanes, programs first where they differ; at least one.
            rank: dimensions of the tile.
            facts_of: asked once for every operation: given the first lane at fault and the position
                of its program in the batch, the fields of the finding that are not known from
                `event`: kind, message, advice, argument, index, values.
            about: tells faults of one operation apart: the argument, say.
        """
        key = event.operation, about
        if key not in self._seen:
            place, program = global_memory.first_place(faulty, rank, event.active)
            positions = event.calls()
            facts = {
                "position": positions[-1] if positions else None,
                "calls": positions[:-1],
                "lane": place,
                "values": event.values(place, program),
                **facts_of(place, program),
            }
            described = None if event.programs is None else int(event.programs.linear[program])
            self._seen[key] = PendingFinding(facts, described=described)
        pending = self._seen[key]
        has_programs = faulty.ndim > rank
        among: numpy.ndarray | None = None
        if has_programs:
            among = numpy.asarray(faulty.reshape(len(faulty), -1).any(axis=1))
        ids = event.linear_ids(self._everyone(among, event))
        pending.programs.update(ids)
        pending.count += int(faulty.sum()) * (1 if has_programs else max(len(ids), 1))
        return pending

    def take_over(self, other: FindingCollector) -> None:
        """What another has seen was seen here too."""
        self._seen.update(other._seen)

    def operations(self) -> set[Operation]:
        """Those at which something was seen."""
        first = (key[0] if isinstance(key, tuple) else key for key in self._seen)
        return {one for one in first if isinstance(one, Operation)}

    def forget(self, operation: Operation) -> None:
        """What was seen at an operation turns out to be no fault."""
        for key in list(self._seen):
            if operation is key or (isinstance(key, tuple) and operation is key[0]):
                del self._seen[key]

    def add(
        self,
        key: Hashable,
        facts: Mapping[str, Any],
        programs: ProgramSet | Sequence[int] = (),
        count: int = 0,
    ) -> None:
        """Note a fault that is not one of lanes: `facts` are the finding's fields,
        `programs` linear ids.
        """
        pending = self._seen.setdefault(key, PendingFinding(dict(facts)))
        pending.programs.update(programs)
        pending.count += count

    def _everyone(self, among: numpy.ndarray | None, event: Event) -> numpy.ndarray | None:
        """Of a fault that has an axis of programs of extent 1, those that take part."""
        if among is None or event.programs is None or len(among) == event.programs.count:
            return among
        return None

    def findings(self, explained: Set[Operation] = frozenset()) -> Iterator[Finding]:
        """The findings; nothing of the operations whose faults are `explained`."""
        for key, pending in self._seen.items():
            if isinstance(key, tuple) and key[0] in explained:
                continue
            listed = _with_first(pending.described, pending.programs.first(LISTED_PROGRAMS))
            facts = dict(pending.facts)
            if pending.describe is not None:
                facts["message"] = pending.describe(pending.count, len(pending.programs))
            yield Finding.of(
                **facts,
                programs=tuple(self._run.program_id(one) for one in listed),
                count=pending.count,
                program_count=len(pending.programs),
            )


def _with_first(described: int | None, listed: list[int]) -> list[int]:
    """The programs of a finding, the one that it describes before the others."""
    if described is None:
        return listed
    return [described, *(one for one in listed if one != described)][:LISTED_PROGRAMS]
