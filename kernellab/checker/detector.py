"""The base classes of detectors, which observe a run and report what is wrong."""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed, Event
from kernellab.checker.exact_functions import Values, unsigned_values
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.errors.exceptions import clipped
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.tiles import Value

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

_BLOCK = 1 << 16
"""Programs that are kept together, a bit each."""


class ProgramSet:
    """Linear ids of programs, which come batch by batch: a bit for each one of a block that has
    some, nothing but a note for a block that has all. A thousand million take 125 MB at most.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, numpy.ndarray | None] = {}
        """Number of a block -> its bits, packed; None if all are set."""
        self._count = 0

    def update(self, ids: ProgramSet | Iterable[int] | numpy.ndarray) -> None:
        if isinstance(ids, ProgramSet):
            for part in ids._parts():
                self.update(part)
            return
        several = ids if isinstance(ids, numpy.ndarray) else numpy.fromiter(ids, numpy.int64)
        blocks = several // _BLOCK
        for block in numpy.unique(blocks).tolist():
            self._mark(block, several[blocks == block] % _BLOCK)

    def _mark(self, block: int, places: numpy.ndarray) -> None:
        kept = self._blocks.setdefault(block, numpy.zeros(_BLOCK // 8, numpy.uint8))
        if kept is None:
            return
        bits = numpy.unpackbits(kept)
        before = int(numpy.count_nonzero(bits))
        bits[places] = 1
        after = int(numpy.count_nonzero(bits))
        self._count += after - before
        self._blocks[block] = None if after == _BLOCK else numpy.packbits(bits)

    def _parts(self) -> Iterator[numpy.ndarray]:
        for block in sorted(self._blocks):
            kept = self._blocks[block]
            inside = numpy.arange(_BLOCK) if kept is None else numpy.unpackbits(kept).nonzero()[0]
            yield block * _BLOCK + inside

    def __len__(self) -> int:
        return self._count

    def first(self, number: int) -> list[int]:
        """Return the lowest ids, at most `number` of them."""
        lowest: list[int] = []
        for part in self._parts():
            lowest += part[: number - len(lowest)].tolist()
            if len(lowest) >= number:
                break
        return lowest


class Stopped(Exception):
    """A run was stopped at a finding: it would not have ended, or waits for nothing."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Detector:
    """Finds faults of some kinds. A subclass defines only the events that it needs.

    Its class has everything that a run must know: the events that it defines, the operations that
    it `observes`, whether it `guards`, and what it does in `investigate`. Only the list in
    `detectors/__init__.py` names it.

    Attributes:
        guards: True if it must also observe every further run, which might not end without it.
        observes_elements: True if it also observes, by element, functions of reductions and maps.
        notes: what it could not check, as text.
    """

    kinds: ClassVar[tuple[str, ...]] = ()
    guards: ClassVar[bool] = False
    observes_elements: ClassVar[bool] = False

    def __init__(self, run: CheckedRun) -> None:
        self.run = run
        self.collector = FindingCollector(run, *self.kinds[:1])
        self.notes: tuple[str, ...] = ()

    def meet(self, others: Sequence[Detector]) -> None:
        """Receive the other detectors of the run."""

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        """Return whether it can find anything in a launch."""
        return True

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether `computed` should be called for an operation; called once per code."""
        return False

    def outside_tensor(self, access: CheckedAccess, outside: numpy.ndarray, view: Buffer) -> None:
        """Handle elements of an access that are outside the argument's tensor. Those that are also
        outside its storage will be masked off.

        Args:
            access: the access, with all its elements.
            outside: which elements, programs first if they differ; at least one is True.
            view: the elements of the storage, of which only the tensor's own may be accessed.
        """

    def outside_memory(
        self, access: CheckedAccess, wild: numpy.ndarray, elements: Elements
    ) -> None:
        """Handle elements of an access at addresses in no storage, which will be masked off.

        Args:
            access: the access, to a buffer without elements; its offsets are addresses.
            wild: which elements, programs first if they differ; at least one is True.
            elements: the table in which addresses are looked up.
        """

    def before(self, access: CheckedAccess) -> None:
        """Handle an access before it is made."""

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        """Handle an access after it was made; `result` is the value of a load or an atomic."""

    def computed(self, computed: Computed) -> None:
        """Handle the results of an operation that it observes; see `observes`."""

    def end(self) -> None:
        """Handle the end of the run; not called if the run was stopped."""

    def investigate(self, session: CheckSession) -> None:
        """Run the launch again to learn more; called after `end`, unless the run was stopped."""

    def explains(self) -> frozenset[Operation]:
        """Return the accesses whose faults follow from its findings, which others do not report."""
        return frozenset()

    def findings(self, explained: Set[Operation] = frozenset()) -> Iterator[Finding]:
        """Yield its findings, except those at operations in `explained`."""
        return self.collector.findings(explained)


def overrides(kind: type[Detector], method: str) -> bool:
    """Return whether a class of detectors defines one of the methods above."""
    return getattr(kind, method) is not getattr(Detector, method)


def implementing(method: str, detectors: Sequence[Detector]) -> list[Detector]:
    """Return the detectors that define one of the methods above."""
    return [detector for detector in detectors if overrides(type(detector), method)]


@dataclass
class PendingFinding:
    """A fault at one operation: the facts of its first element, and how often it happens.

    Attributes:
        described: the linear id of the program of `facts`; lower ones may reach the fault later.
    """

    facts: dict[str, Any]
    described: int | None = None
    count: int = 0
    programs: ProgramSet = field(default_factory=ProgramSet)


class FindingCollector:
    """The faults that a detector finds, once for each operation."""

    def __init__(self, run: CheckedRun, kind: str = "") -> None:
        """`kind` is that of findings whose facts state none."""
        self._run = run
        self._kind = kind
        self._seen: dict[Hashable, PendingFinding] = {}

    def report(
        self,
        event: Event,
        faulty: numpy.ndarray,
        rank: int,
        facts_of: Callable[[tuple[int, ...], int], Mapping[str, Any]],
        about: Hashable = "",
    ) -> PendingFinding:
        """Record a fault of tile elements.

        Args:
            event: the event with the fault.
            faulty: which elements, programs first if they differ; at least one is True.
            rank: the number of dimensions of the tile.
            facts_of: called once for each operation with the first faulty element and the position
                of its program in the batch; returns the fields of the finding that `event` does not
                have: kind, message, advice, argument, index, values.
            about: distinguishes faults of one operation, for example by the argument.
        """
        key = event.operation, about
        if key not in self._seen:
            place, program = global_memory.first_place(faulty, rank, event.active)
            facts = {
                "places": event.calls(),
                "lane": place,
                "values": event.values(place, program),
                **facts_of(place, program),
            }
            described = None if event.programs is None else int(event.programs.linear[program])
            self._seen[key] = PendingFinding(facts, described=described)
        pending = self._seen[key]
        has_programs = faulty.ndim > rank
        among: numpy.ndarray | None = None
        if has_programs and event.programs is not None and len(faulty) == event.programs.count:
            among = numpy.asarray(faulty.reshape(len(faulty), -1).any(axis=1))
        ids = event.linear_ids(among)
        pending.programs.update(ids)
        pending.count += int(faulty.sum()) * (1 if has_programs else max(len(ids), 1))
        return pending

    def operations(self) -> set[Operation]:
        """Return the operations with faults."""
        first = (key[0] if isinstance(key, tuple) else key for key in self._seen)
        return {key for key in first if isinstance(key, Operation)}

    def forget(self, operation: Operation | str) -> None:
        """Leave out the faults at an operation, or one with a message."""
        for key, pending in [*self._seen.items()]:
            is_there = operation is key or (isinstance(key, tuple) and operation is key[0])
            if is_there or pending.facts.get("message") == operation:
                del self._seen[key]

    def add(
        self,
        key: Hashable,
        facts: Mapping[str, Any],
        programs: ProgramSet | Sequence[int] = (),
        count: int = 0,
    ) -> None:
        """Record a fault that does not concern tile elements.

        Args:
            key: the operation, or another key; a second fault with the same key is only counted.
            facts: the fields of the finding.
            programs: the linear ids of the programs.
            count: how many elements it concerns.
        """
        pending = self._seen.setdefault(key, PendingFinding(dict(facts)))
        pending.programs.update(programs)
        pending.count += count

    def findings(self, explained: Set[Operation] = frozenset()) -> Iterator[Finding]:
        """Yield the findings, except those at operations in `explained`."""
        for key, pending in self._seen.items():
            if isinstance(key, tuple) and key[0] in explained:
                continue
            described = [] if pending.described is None else [pending.described]
            listed = dict.fromkeys([*described, *pending.programs.first(LISTED_PROGRAMS)])
            yield Finding.of(
                **{"kind": self._kind, **pending.facts},
                programs=tuple(map(self._run.program_id, [*listed][:LISTED_PROGRAMS])),
                count=pending.count,
                program_count=len(pending.programs),
            )


class Failures:
    """The detectors of a check that failed, each with its first error."""

    def __init__(self, *, isolated: bool = True) -> None:
        """With `isolated`, the others continue; else, errors are raised."""
        self._isolated = isolated
        self._errors: dict[type[Detector], Exception] = {}

    def __contains__(self, kind: type[Detector]) -> bool:
        return kind in self._errors

    def note(self, kind: type[Detector], error: Exception) -> None:
        if not self._isolated:
            raise error
        self._errors.setdefault(kind, error)

    def kept(self, kind: type[Detector]) -> AbstractContextManager[None]:
        """Return a context that records an error inside as a failure of a detector of this kind."""
        return _Kept(self, kind)

    def notes(self) -> tuple[str, ...]:
        return tuple(_note(kind, error) for kind, error in self._errors.items())


RAISED = Failures(isolated=False)
"""Of runs that a detector's error ends."""


class _Kept(AbstractContextManager[None]):
    """See `Failures.kept`. A check enters dozens: `contextmanager` would take ten times as long."""

    __slots__ = ("_failures", "_kind")

    def __init__(self, failures: Failures, kind: type[Detector]) -> None:
        self._failures, self._kind = failures, kind

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception):
            self._failures.note(self._kind, error)
            return True
        return False


def _note(kind: type[Detector], error: Exception) -> str:
    """Return "The detector 'NonFinite' failed: KeyError: 3 (values.py:71). ..."."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    what = clipped(f"{type(error).__name__}: {error}".rstrip(": "))
    return (
        f"The detector {kind.__name__!r} failed: {what}{where}. Its findings are missing; "
        "the other detectors completed. Fix or remove this detector; if it is part of KernelLab, "
        "report a bug."
    )


class TwoPhaseDetector(Detector):
    """Notice that results may be wrong; then look closer with another detector.

    Attributes:
        closer: the detector for the further run; it meets those that noticed something.
        reported_by: detectors whose findings at an operation replace those of this one.
        is_suspect: whether something may be wrong.
        explained: see `explains`.
    """

    closer: ClassVar[type[Detector]]
    reported_by: ClassVar[tuple[type[Detector], ...]] = ()

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self.is_suspect = False
        self.explained: frozenset[Operation] = frozenset()
        self._others: Sequence[Detector] = ()

    def meet(self, others: Sequence[Detector]) -> None:
        self._others = [other for other in others if isinstance(other, self.reported_by)]

    @abstractmethod
    def suspects(self, computed: Computed) -> bool:
        """Return whether the result of an operation may be wrong."""

    def computed(self, computed: Computed) -> None:
        """Check the operation, until something is suspect."""
        if not self.is_suspect:
            self.is_suspect = self.suspects(computed)

    def accept(self, closer: Detector) -> None:
        self.collector, self.explained = closer.collector, closer.explains()
        self.leave_to_others()

    def leave_to_others(self) -> None:
        """Remove the findings at operations that detectors in `reported_by` report."""
        for other in self._others:
            for op in other.collector.operations():
                self.collector.forget(op)

    def explains(self) -> frozenset[Operation]:
        return self.explained

    @cached_property
    def unsigned(self) -> Values:
        """The values that are unsigned integers."""
        return unsigned_values(self.run)


def look_closer(
    session: CheckSession, detectors: Sequence[TwoPhaseDetector], failures: Failures
) -> None:
    """Run the launch once more, with the closer detectors of those that noticed something."""
    kinds = tuple(dict.fromkeys(detector.closer for detector in detectors))
    closers, stopped = session.run_detectors(kinds, failures, detectors)
    by_kind = {type(closer): closer for closer in closers}
    for detector in detectors if stopped is None else ():
        if detector.closer in by_kind:
            with failures.kept(type(detector)):
                detector.accept(by_kind[detector.closer])
