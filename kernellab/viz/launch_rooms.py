"""The views of one launch: what each is made of, and where in it a link leads."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kernellab.checker.records import Finding, Findings
from kernellab.common import doors
from kernellab.compiler.kept import compile_kept, keeps
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.launch.latest import latest_named, latest_of
from kernellab.launch.preparation import EntryPoint, innermost, prepare
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.diagnosis.records import Diagnosis
from kernellab.records import AskedLaunch, Compilation
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Step
from kernellab.tuning.results.tuning import Tuning
from kernellab.viz.kit.card import Card
from kernellab.viz.kit.data import At, Door
from kernellab.viz.kit.rooms import Rooms
from kernellab.viz.kit.view import CardView, View
from kernellab.workshop.answers import Answer

FindLaunch = Callable[[], AskedLaunch | None]

_DOORS = {
    "card": Door("card", "Card", "The kernel's card: arguments, stages, what it takes"),
    "ir": Door("ir", "IR", "Every pass and every stage, with linked lines"),
    "layouts": Door("layouts", "Layouts", "Which thread holds which element"),
    "steps": Door("steps", "Steps", "The launch traced, step by step"),
    "check": Door("check", "Check", "The launch with every detector on"),
    "accesses": Door("accesses", "Accesses", "What its accesses to memory cost"),
    "diagnosis": Door("diagnosis", "Diagnosis", "Why it is slow, what costs most first"),
    "sweep": Door("sweep", "Sweep", "What tuning tried"),
    "answer": Door("answer", "Answer", "What is said of the exercise"),
}
_OF_COMPILATION = ("card", "ir", "layouts")
"""The rooms that need no launch."""

_OF_RECORD = ("answer",)
"""The rooms that no launch makes: they are there with their record."""


class LaunchRooms(Rooms):
    """The rooms of one launch: what is known of it, and what can be found out.

    Args:
        find: gives the launch, to be made again; None where there is none any more.
        records: what is known already, by room: a Compilation under "ir", a Trace, Findings,
            Accesses, a Tuning.
        views: views of it that there are already, by room.
    """

    def __init__(self, find: FindLaunch, records: Mapping[str, Any], **views: View) -> None:
        super().__init__()
        self._find = find
        self._records = dict(records)
        self._views: dict[str, View] = {}
        self._kernel = _name_of(find(), self._records)
        for room, view in views.items():
            self.add(room, view)
        launched = find() is not None
        self._doors = tuple(
            door
            for room, door in _DOORS.items()
            if (launched and room not in _OF_RECORD)
            or room in records
            or (room in _OF_COMPILATION and "ir" in records)
        )

    @property
    def doors(self) -> Sequence[Door]:
        return self._doors

    def add(self, room: str, view: View) -> View:
        """Let a view be that of a room."""
        view.room, view.rooms = room, self
        self._views[room] = view
        return view

    def enter(self, room: str, at: At) -> tuple[View, At]:
        place = self._aimed(at)
        if room == "steps":
            self._trace_program(place.get("program"))
        if room not in self._views:
            self.add(room, _MAKERS[room](self))
        if room == "steps" and "finding" in at:
            place = {**place, **self._step_of(self._finding(at))}
        return self._views[room], place

    # What there is

    @property
    def _asked(self) -> AskedLaunch:
        asked = self._find()
        if asked is None:
            raise KernelLabError(
                f"The launch that this card is of is gone: {self._kernel} was launched by a cell "
                "again since.",
                advice="The newer card leads on.",
            )
        return asked

    @property
    def _compilation(self) -> Compilation:
        found: Compilation | None = self._records.get("ir")
        if found is None:
            asked = self._asked
            launch = prepare(
                asked.kernel, asked.grid, asked.args, dict(asked.keywords), asked.target, _SHOWN
            )
            found = compile_kept(launch.kernel, launch.call, launch.target)
            self._records["ir"] = found
        return found

    def _record(self, room: str, make: Callable[..., Any]) -> Any:
        if room not in self._records:
            self._records[room] = self._asked.given_to(make)
        return self._records[room]

    def _trace_program(self, program: Any) -> None:
        """Have the trace hold a program too."""
        trace: Trace | None = self._records.get("steps")
        wanted = [program] if program else []
        if trace is None:
            from kernellab.tracing.tracing_run import trace as trace_launch

            programs = wanted or [(0, 0, 0)]
            self._records["steps"] = self._asked.given_to(trace_launch, programs=programs)
        elif any(one not in trace.facts.programs for one in wanted):
            self._records["steps"] = trace.of_programs([*trace.facts.programs, *wanted])
            self._views.pop("steps", None)

    # Places

    def _finding(self, at: At) -> Finding:
        found: Findings = self._records["check"]
        number = at["finding"]
        if not isinstance(number, int) or not 0 <= number < len(found):
            raise KernelLabError(f"There is no finding {number!r}.")
        return found[number]

    def _aimed(self, at: At) -> At:
        """A place whose finding is said by its program and line."""
        if "finding" not in at:
            return at
        finding = self._finding(at)
        place: dict[str, int | str | tuple[int, ...]] = {}
        if finding.programs:
            place["program"] = finding.programs[0]
        if finding.line:
            place["line"] = finding.line
        return place

    def _step_of(self, finding: Finding) -> At:
        """The step of the trace that a finding is seen at; nothing where none is."""
        trace: Trace = self._records["steps"]
        program = finding.programs[0] if finding.programs else None
        steps = [
            step
            for step in trace.steps
            if step.line == finding.line and program in (None, step.frame.program)
        ]
        if trace.fault is not None and trace.fault.step in [step.number for step in steps]:
            return {"step": trace.fault.step}
        touching = (step for step in steps if _touches(trace, step, finding))
        found = next(touching, steps[0] if steps else None)
        return {} if found is None else {"step": found.number}

    # Views

    def _card_view(self) -> View:
        return CardView(_card(self._compilation))

    def _ir_view(self) -> View:
        compilation = self._compilation
        for evidence in (self._evidence(), ()):
            try:
                return _view(compilation, *evidence)
            except ArgumentError:  # of another specialisation than the one that was compiled
                continue
        raise AssertionError("an explorer without evidence is never refused")

    def _evidence(self) -> tuple[Any, ...]:
        return tuple(self._records[room] for room in ("check", "accesses") if room in self._records)

    def _layouts_view(self) -> View:
        return _view(self._compilation.layouts())

    def _steps_view(self) -> View:
        return _view(self._records["steps"])

    def _check_view(self) -> View:
        from kernellab.checker.checking import check

        return CardView(_card(self._record("check", check)))

    def _accesses_view(self) -> View:
        from kernellab.profiling.accesses.counting import accesses

        return CardView(_card(self._record("accesses", accesses)))

    def _diagnosis_view(self) -> View:
        from kernellab.profiling.diagnosis.diagnosing import diagnose

        return CardView(_card(self._record("diagnosis", lambda *_, **__: diagnose(self._asked))))

    def _sweep_view(self) -> View:
        if "sweep" not in self._records:
            from kernellab.tuning.results.registry import tunings

            made = tunings(self._asked.kernel)
            if not len(made):
                raise KernelLabError(
                    f"There is no sweep of {self._kernel} yet.",
                    advice="A cell with %%tiletune makes one, as kernellab.tune does.",
                )
            self._records["sweep"] = made[len(made) - 1]
        return _view(self._records["sweep"])


_MAKERS: Mapping[str, Callable[[LaunchRooms], View]] = {
    "card": LaunchRooms._card_view,
    "ir": LaunchRooms._ir_view,
    "layouts": LaunchRooms._layouts_view,
    "steps": LaunchRooms._steps_view,
    "check": LaunchRooms._check_view,
    "accesses": LaunchRooms._accesses_view,
    "diagnosis": LaunchRooms._diagnosis_view,
    "sweep": LaunchRooms._sweep_view,
}

_SHOWN = EntryPoint("show", runs_hooks=False)
"""A launch that is only compiled."""


def _card(record: Any) -> Card:
    card = doors.views().card(record)  # which imports it where nothing was displayed before
    assert isinstance(card, Card), "each of these records has one"
    return card


def _view(record: Any, *evidence: Any) -> View:
    view = doors.views().plain_view(record, *evidence)
    assert isinstance(view, View), "each of these records has one"
    return view


def _name_of(asked: AskedLaunch | None, records: Mapping[str, Any]) -> str:
    if asked is not None:
        return asked.name
    return next((one.kernel for one in records.values() if hasattr(one, "kernel")), "the kernel")


def _touches(trace: Trace, step: Step, finding: Finding) -> bool:
    """Whether a step accesses the element that a finding names."""
    argument = trace.arguments.get(finding.argument)
    if argument is None or finding.index is None:
        return False
    for access in step.accesses:
        if access.argument != finding.argument or not access.has_elements:
            continue
        if len(finding.index) == len(argument.shape) > 1 or len(argument.shape) == 1:
            flat = 0
            for size, one in zip(argument.shape, finding.index):
                flat = flat * size + one
            _, numbers = argument.numbered(access.elements)
            if flat in numbers:
                return True
        if len(finding.index) == 1 and finding.index[0] in access.elements:
            return True
    return False


# The rooms of a record


def live_card(card: Card, compilation: Compilation, find: FindLaunch) -> CardView:
    """The card of a kernel that leads to the views of its compilation, and of its launch."""
    view = CardView(card)
    LaunchRooms(find, {"ir": compilation}).add("card", view)
    return view


def displayed(record: Any) -> CardView | None:
    """The card of a record as a notebook shows it, which leads on; None where nothing is beside."""
    if not isinstance(record, Compilation | Findings | Accesses | Answer | Diagnosis):
        return None
    rooms, view = rooms_for(record), CardView(_card(record))
    if rooms is None:
        return None
    rooms.add("card" if isinstance(record, Compilation) else room_of(record), view)
    return view


class _Known(NamedTuple):
    """What a record says of its launch."""

    room: str
    find: FindLaunch
    records: Mapping[str, Any]


def rooms_for(record: Any) -> LaunchRooms | None:
    """The rooms beside a record's own; None for one that is of no launch and no compilation."""
    known = _known(record)
    return None if known is None else LaunchRooms(known.find, known.records)


def room_of(record: Any) -> str:
    """The room that the view of a record is; "" for none."""
    known = _known(record)
    return "" if known is None else known.room


def _known(record: Any) -> _Known | None:
    match record:
        case Compilation():
            return _Known("ir", _launch_of(record), {"ir": record})
        case Trace():
            return _Known("steps", lambda: record.asked, {"steps": record})
        case Findings():
            return _Known("check", lambda: record.asked, {"check": record})
        case Accesses():
            return _Known("accesses", lambda: record.asked, {"accesses": record})
        case Answer(trace=Trace() as trace):
            return _Known("answer", lambda: trace.asked, {"answer": record, "steps": trace})
        case Diagnosis():
            known = {"diagnosis": record, "ir": record.compilation}
            there = {room: one for room, one in known.items() if one is not None}
            return _Known("diagnosis", lambda: record.asked, there)
        case Tuning():
            return _Known("sweep", _launch_tuned(record), {"sweep": record})
        case _:
            return None


def _launch_of(compilation: Compilation) -> FindLaunch:
    """The launch of a cell that a compilation is of."""
    for asked in latest_named(compilation.kernel):
        if keeps(asked.plain, compilation):
            return weakref.ref(asked)
    return lambda: None


def _launch_tuned(tuning: Tuning) -> FindLaunch:
    kernel = None if tuning.live is None else tuning.live.kernel
    found = None if kernel is None else latest_of(innermost(kernel))
    return (lambda: None) if found is None else weakref.ref(found)
