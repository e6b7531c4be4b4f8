"""What a detector is: it hears what a run does, and tells what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import (
    Access,
    Computed,
    Heard,
    Scene,
)
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.numerics.tiles import Value

if TYPE_CHECKING:
    from kernellab.checker.session import Examination


class Stopped(Exception):
    """A run that does not end of itself: it was stopped.

    Attributes:
        finding: why.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Detector:
    """Finds faults of some kinds. What it does not care to hear it does not define.

    Attributes:
        kinds: what its findings are called.
        sightings: what it has seen so far; `findings` tells it.
    """

    kinds: ClassVar[tuple[str, ...]]

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.sightings = Sightings(scene)

    def meet(self, others: Sequence[Detector]) -> None:
        """Who else will hear the run."""

    @classmethod
    def concerns(cls, scene: Scene) -> bool:
        """Whether it has anything to look for in a launch."""
        del scene
        return True

    @classmethod
    def hears(cls, operation: Operation) -> bool:
        """Whether it wants to know what `operation` computes; asked once, when the code is made."""
        del operation
        return False

    def before(self, access: Access) -> None:
        """An access is about to be made."""

    def after(self, access: Access, found: Value | None) -> None:
        """An access was made; `found` is what a load or an atomic gave."""

    def computed(self, computed: Computed) -> None:
        """An operation that it hears has computed its results; see `hears`."""

    def end(self) -> None:
        """The run is over; not called where it ended early."""

    def ask(self, examination: Examination) -> None:
        """The run is over, and the launch may be run again to know more; not called where the run ended early."""

    def explains(self) -> frozenset[Operation]:
        """Accesses whose faults are consequences of what it found: no other detector needs to tell of them."""
        return frozenset()

    def findings(self, explained: Set[Operation] = frozenset()) -> Iterator[Finding]:
        """What it found; nothing of the operations whose faults are `explained`."""
        return self.sightings.told(explained)


def overrides(detector: Detector, method: str) -> bool:
    """Whether a detector defines one of the methods above itself."""
    return getattr(type(detector), method) is not getattr(Detector, method)


@dataclass
class Sighting:
    """A fault at one operation: what is told of its first lane, and how often it happens.

    Attributes:
        facts: fields of the finding, as keywords.
        describe: called with the number of elements and of programs when all are known; gives the message. None where `facts` has one.
    """

    facts: dict[str, Any]
    describe: Callable[[int, int], str] | None = None
    count: int = 0
    programs: set[int] = field(default_factory=set)


class Sightings:
    """The faults that a detector sees: each once for every operation that is at fault."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._seen: dict[Hashable, Sighting] = {}

    def see(
        self,
        heard: Heard,
        faulty: numpy.ndarray,
        rank: int,
        tell: Callable[[tuple[int, ...], int], Mapping[str, Any]],
        about: Hashable = "",
    ) -> Sighting:
        """Note that lanes are at fault.

        Args:
            heard: what was done.
            faulty: which lanes, programs first where they differ; at least one.
            rank: dimensions of the tile.
            tell: asked once for every operation: given the first lane at fault and the position of its program in the batch, the fields of the finding that are not known from `heard`: kind, message, advice, argument, index, values.
            about: tells faults of one operation apart: the argument, say.
        """
        key = heard.operation, about
        if key not in self._seen:
            place, program = global_memory.first_place(faulty, rank, heard.active)
            positions = heard.calls()
            facts = {
                "position": positions[-1] if positions else None,
                "calls": positions[:-1],
                "lane": place,
                "values": heard.values(place, program),
                **tell(place, program),
            }
            self._seen[key] = Sighting(facts)
        sighting = self._seen[key]
        has_programs = faulty.ndim > rank
        among: numpy.ndarray | None = None
        if has_programs:
            among = numpy.asarray(faulty.reshape(len(faulty), -1).any(axis=1))
        ids = heard.linear_ids(self._everyone(among, heard))
        sighting.programs.update(ids.tolist())
        sighting.count += int(faulty.sum()) * (1 if has_programs else max(len(ids), 1))
        return sighting

    def forget(self, operation: Operation) -> None:
        """What was seen at an operation turns out to be no fault."""
        for key in [key for key in self._seen if isinstance(key, tuple) and key[0] is operation]:
            del self._seen[key]

    def add(self, key: Hashable, facts: Mapping[str, Any], programs: Sequence[int] = (), count: int = 0) -> None:  # fmt: skip
        """Note a fault that is not one of lanes: `facts` are the finding's fields, `programs` linear ids."""
        sighting = self._seen.setdefault(key, Sighting(dict(facts)))
        sighting.programs.update(programs)
        sighting.count += count

    def _everyone(self, among: numpy.ndarray | None, heard: Heard) -> numpy.ndarray | None:
        """Of a fault that has an axis of programs of extent 1, those that take part."""
        if among is None or heard.programs is None or len(among) == heard.programs.count:
            return among
        return None

    def told(self, explained: Set[Operation] = frozenset()) -> Iterator[Finding]:
        """The findings; nothing of the operations whose faults are `explained`."""
        for key, sighting in self._seen.items():
            if isinstance(key, tuple) and key[0] in explained:
                continue
            listed = sorted(sighting.programs)[:LISTED_PROGRAMS]
            facts = dict(sighting.facts)
            if sighting.describe is not None:
                facts["message"] = sighting.describe(sighting.count, len(sighting.programs))
            yield Finding(
                **facts,
                programs=tuple(self._scene.program_id(one) for one in listed),
                count=sighting.count,
                program_count=len(sighting.programs),
            )
