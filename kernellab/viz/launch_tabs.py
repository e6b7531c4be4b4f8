"""The views of one launch, where their links lead, and records that lead to the others."""

from __future__ import annotations

import pkgutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernellab.checker.records import Finding, Findings
from kernellab.common.system import OutOfTime, limited
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile_kept, keeps
from kernellab.errors import ArgumentError, CompileError, KernelFault, KernelLabError
from kernellab.graphs.report import GraphReport
from kernellab.launch.preparation import EntryPoint, innermost, prepare_bound
from kernellab.launch.tile_kernel import latest_named, latest_of, launch_stopped_by
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.diagnosis.records import Diagnosis
from kernellab.profiling.profiles.profile import Profile
from kernellab.records import BoundLaunch
from kernellab.records.layouts import Layout
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Step
from kernellab.tuning.tuning import Tuning
from kernellab.viz import registry
from kernellab.viz.diagnostics import fault_card
from kernellab.viz.kernels import Verdict
from kernellab.viz.kit.data import Answer, At, Handler, Tab, TabGroup, as_json
from kernellab.viz.kit.view import Card, CardView, View
from kernellab.viz.layouts import LARGEST
from kernellab.workshop.course import Progress
from kernellab.workshop.exercise import Answer as ExerciseAnswer

FindLaunch = Callable[[], BoundLaunch | None]

_TABS = {
    "card": Tab("card", "Card", "The kernel's card: arguments, stages, what it takes"),
    "ir": Tab("ir", "IR", "Every pass and every stage, with linked lines"),
    "layouts": Tab("layouts", "Layouts", "Which thread holds which element"),
    "steps": Tab("steps", "Steps", "The launch traced, step by step"),
    "check": Tab("check", "Check", "The launch with every detector on"),
    "accesses": Tab("accesses", "Accesses", "What its accesses to memory cost"),
    "diagnosis": Tab("diagnosis", "Diagnosis", "Why it is slow, the most expensive findings first"),
    "sweep": Tab("sweep", "Sweep", "What tuning tried"),
    "answer": Tab("answer", "Answer", "What is said of the exercise"),
    "stopped": Tab("stopped", "Fault", "What stopped the launch"),
}
_OF_COMPILATION = ("card", "ir", "layouts")
"""The tabs that need no launch."""

_OF_RECORD = ("answer", "stopped")
"""The tabs that do not need a launch: they exist with their record."""


class LaunchTabs(TabGroup):
    """The tabs of one launch: known records, and those that can be computed.

    Args:
        find: gives the launch, to be made again; None where there is none any more.
        records: what is known by tab_id: a Compilation or CompileError under "ir", a Trace, ...;
            first the record that the tabs are for.
    """

    def __init__(self, find: FindLaunch, records: Mapping[str, Any]) -> None:
        super().__init__()
        self._find = find
        self.own = next(iter(records))
        """The tab of the record that the others are beside."""
        self._records = dict(records)
        self._kernel = _name_of(find(), self._records)
        launched = find() is not None
        compiled = ("ir",) if isinstance(records.get("ir"), CompileError) else _OF_COMPILATION
        self._tabs = tuple(
            self._tab(tab)
            for tab_id, tab in _TABS.items()
            if (launched and tab_id not in _OF_RECORD)
            or tab_id in records
            or (tab_id in compiled and "ir" in records)
        )

    @property
    def tabs(self) -> Sequence[Tab]:
        return self._tabs

    def _tab(self, tab: Tab) -> Tab:
        if tab.id != "sweep" or "sweep" in self._records or self._sweeps():
            return tab
        words = f"There is no sweep of {self._kernel} yet: a cell with %%tiletune makes one."
        return replace(tab, why_not=words)

    def _sweeps(self) -> Sequence[Tuning]:
        from kernellab.tuning.tunings import tunings

        return tunings(self._launch.kernel)

    def enter(self, tab_id: str, at: At) -> tuple[View, At]:
        place = self._aimed(at)
        if tab_id == "steps":
            self._trace_program(place.get("program"))
        if tab_id not in self._views:
            self.add(tab_id, self._made(tab_id))
        if tab_id == "steps" and "finding" in at:
            place = {**place, **self._step_of(self._finding(at))}
        elif tab_id == "steps":
            place = {**place, **self._fault_at(place)}
        return self._views[tab_id], place

    # What there is

    @property
    def _launch(self) -> BoundLaunch:
        launch = self._find()
        if launch is None:
            raise KernelLabError(
                "The launch of this card is no longer available: a cell has launched "
                f"{self._kernel} again since.",
                advice="Use the newer card.",
            )
        return launch

    @property
    def _compilation(self) -> Compilation:
        compilation: Compilation | None = self._records.get("ir")
        if compilation is None:
            prepared = prepare_bound(self._launch, self._launch.target, _SHOWN)
            compilation = compile_kept(prepared.kernel, prepared.call, prepared.target)
            self._records["ir"] = compilation
        return compilation

    def record(self, tab_id: str) -> Any:
        """The result of a function of the package for the launch: the record that a tab shows.

        Raises KernelLabError if the launch is no longer available, or as that function does.
        """
        if tab_id not in self._records:
            self._records[tab_id] = pkgutil.resolve_name(_RECORDS[tab_id])(self._launch)
        return self._records[tab_id]

    def _trace_program(self, program: Any) -> None:
        trace: Trace | None = self._records.get("steps")
        if trace is None:
            from kernellab.tracing.launches import trace as trace_launch

            self._records["steps"] = trace_launch(self._launch, programs=[program or (0, 0, 0)])
        elif program and program not in trace.facts.programs:
            self._records["steps"] = trace.of_programs([*trace.facts.programs, program])
            self._views.pop("steps", None)

    # Places

    def _finding(self, at: At) -> Finding:
        record = self._records[str(at.get("of", "check"))]
        findings = record.diagnostics if isinstance(record, ExerciseAnswer) else record
        number = at["finding"]
        if not isinstance(number, int) or not 0 <= number < len(findings):
            raise KernelLabError(f"There is no finding {number!r}.")
        finding = findings[number]
        assert isinstance(finding, Finding), "only findings have links"
        return finding

    def _aimed(self, at: At) -> At:
        """A place whose finding is given by its program and line."""
        if "finding" not in at:
            return at
        finding = self._finding(at)
        program = {"program": finding.programs[0]} if finding.programs else {}
        line = {"line": finding.line} if finding.line else {}
        return {**program, **line}

    def _step_of(self, finding: Finding) -> At:
        """The step of the trace that a finding is seen at; nothing if none is."""
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
        chosen = next(touching, steps[0] if steps else None)
        return {} if chosen is None else {"step": chosen.number}

    def _fault_at(self, at: At) -> At:
        """The step at which the run stopped, if a place is its line."""
        fault = self._records["steps"].fault
        is_there = fault is not None and fault.step is not None and "line" in at
        if not is_there or fault.position is None or fault.position.line != at["line"]:
            return {}
        return {"step": fault.step}

    # Views

    def _made(self, tab_id: str) -> View:
        match tab_id:
            case "card":
                return CardView(_card(self._compilation))
            case "ir":
                return self._ir_view()
            case "layouts":
                return _view(self._compilation.layouts())
            case "steps":
                return _view(self._records["steps"])
            case "sweep":
                return self._sweep_view()
        return CardView(_card(self.record(tab_id)))

    def _ir_view(self) -> View:
        failed = self._records.get("ir")
        if isinstance(failed, CompileError):
            return _view(failed)
        evidence = [self._records[name] for name in ("check", "accesses") if name in self._records]
        try:
            return _view(self._compilation, *evidence)
        except ArgumentError:  # of another specialization than the one that was compiled
            return _view(self._compilation)

    def _sweep_view(self) -> View:
        if "sweep" not in self._records:
            made = self._sweeps()
            if not made:
                raise KernelLabError(
                    f"There is no sweep of {self._kernel} yet.",
                    advice="Run %%tiletune in a cell, or call kernellab.tune, to create one.",
                )
            self._records["sweep"] = made[len(made) - 1]
        return _view(self._records["sweep"])


_RECORDS = {
    "check": "kernellab.checker.check:check",
    "accesses": "kernellab.profiling.accesses.counts:accesses",
    "diagnosis": "kernellab.profiling.diagnosis.diagnose:diagnose",
}
"""Tab -> the function whose result for a launch it shows, imported when it is first opened."""

_SHOWN = EntryPoint("show", runs_hooks=False)
"""A launch that is only compiled."""


def _card(record: Any) -> Card:
    card = registry.card(record)
    assert isinstance(card, Card), "each of these records has one"
    return card


def _view(record: Any, *evidence: Any) -> View:
    view = registry.view(record, *evidence)
    assert isinstance(view, View), "each of these records has one"
    return view


def _name_of(launch: BoundLaunch | None, records: Mapping[str, Any]) -> str:
    if launch is not None:
        return launch.name
    named = (record.kernel for record in records.values() if hasattr(record, "kernel"))
    return next(named, "the kernel")


def _touches(trace: Trace, step: Step, finding: Finding) -> bool:
    argument = trace.arguments.get(finding.argument)
    if argument is None or finding.index is None:
        return False
    for access in step.accesses:
        if access.argument != finding.argument or not access.has_elements:
            continue
        if len(finding.index) == len(argument.shape) > 1 or len(argument.shape) == 1:
            flat = 0
            for size, index in zip(argument.shape, finding.index):
                flat = flat * size + index
            _, numbers = argument.numbered(access.elements)
            if flat in numbers:
                return True
        if len(finding.index) == 1 and finding.index[0] in access.elements:
            return True
    return False


# The tabs of a record


def stopped_card(error: Exception) -> CardView | Card | None:
    """The card of the error that a cell ended with: a fault of a launch, which leads on to its
    steps, its IR and its check, or a kernel that does not compile, which leads to the compiler's
    results; None for any other.
    """
    if not isinstance(error, KernelFault | CompileError) or error.position is None:
        return None
    launch = launch_stopped_by(error)
    card = fault_card(error, launch)
    if isinstance(error, CompileError):
        made = LaunchTabs(lambda: None, {"stopped": error, "ir": error})
        return made.add("stopped", CardView(card))
    if launch is None:
        return card
    return LaunchTabs(lambda: launch, {"stopped": error}).add("stopped", CardView(card))


class KernelView(CardView):
    """The card of a kernel that leads to the views of its compilation and of its launch, and that
    the live view completes with what takes a while: a check and a diagnosis of the launch.
    """

    def __init__(self, make: Callable[..., Card], tabs: LaunchTabs, later: Sequence[str]) -> None:
        super().__init__(make(verdict=None))
        self._make, self._tabs, self._later = make, tabs, later
        self._make_data = lambda: self._card().data(later)
        self._known: dict[str, Any] = {}

    def _card(self) -> Card:
        known = Verdict(self._known.get("check"), self._known.get("diagnosis"))
        return self._make(verdict=known if self._later else None)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {"complete": self._complete}

    def _complete(self, request: Mapping[str, Any]) -> Answer:
        """Find out one part, in a limited time, and return the card with it."""
        part = str(request.get("part"))
        if part in self._later and part not in self._known:
            try:
                with limited(_COMPLETING):
                    self._known[part] = self._tabs.record(part)
            except (KernelLabError, OutOfTime):
                self._known[part] = None  # its tab says why, or takes its time
            self.__dict__.pop("data", None)  # a page that is saved from now on has it
        return Answer({"card": as_json(self._card().data())})


_COMPLETING = 5.0
"""Seconds that a check or a diagnosis for a card may take: cells wait meanwhile."""


def live_card(
    make: Callable[..., Card],
    compilation: Compilation,
    find: FindLaunch,
    later: Sequence[str] = (),
) -> CardView:
    """The card of a kernel that leads to its compilation and launch; see `KernelView`."""
    tabs = LaunchTabs(find, {"ir": compilation})
    return tabs.add("card", KernelView(make, tabs, later))


def show(record: Any, *annotations: Any, **options: Any) -> View | Card:
    """Return the view of a record, which a notebook displays as the last expression of a cell.

    Args:
        record: a `Compilation`, a `Comparison`, a `CompileError`, a `Trace`, a `Layout` or the
            layouts of a compilation, a `Conversion`, a `Tuning`, or `Tunings`.
        annotations: for one or two compilations: results of `kernellab.check`,
            `kernellab.accesses` and `kernellab.read_ncu`. The explorer shows findings in the margin
            and numbers as bars.
        options: the options of this record's view.

    A record without a view, such as the findings of a check, is shown as a card.

    Raises:
        ArgumentError: the record has no view or card, or an annotation is of another kernel.
        OptionError: the view does not have this option.
        ProfileError: the profile is of other machine code.
    """
    view = registry.view(record, *annotations, **options)
    return view if isinstance(view, Card) else beside(view, record)


def beside(view: View, record: Any, tab_id: str = "") -> View:
    """A view, the record's own or that of a tab, with the other views of the record's launch beside
    it, where there are some.
    """
    tabs = tabs_for(record)
    return view if tabs is None else tabs.add(tab_id or tabs.own, view)


def displayed(record: Any) -> View | None:
    """The live view of a profile or a layout, or a record's live card; None if the card is
    shown.
    """
    is_drawn = isinstance(record, Layout) and record.element_count <= LARGEST
    if is_drawn or isinstance(record, Profile):
        return _view(record)
    if isinstance(record, GraphReport):
        from kernellab.viz.graphs import displayed as displayed_report

        return displayed_report(record)
    if isinstance(record, Progress):
        return CardView(_card(record))
    if not isinstance(record, Compilation | Findings | Accesses | ExerciseAnswer | Diagnosis):
        return None
    tabs, view = tabs_for(record), CardView(_card(record))
    if tabs is None:
        return None
    tabs.add("card" if isinstance(record, Compilation) else tabs.own, view)
    return view


def tabs_for(record: Any) -> LaunchTabs | None:
    """The tabs beside a record's own; None for one that is of no launch and no compilation."""
    match record:
        case Compilation():
            return LaunchTabs(_launch_of(record), {"ir": record})
        case Trace():
            return LaunchTabs(lambda: record.launch, {"steps": record})
        case Findings():
            return LaunchTabs(lambda: record.launch, {"check": record})
        case Accesses():
            return LaunchTabs(lambda: record.launch, {"accesses": record})
        case ExerciseAnswer(launch=BoundLaunch() as launch):
            return LaunchTabs(lambda: launch, _there(answer=record, steps=record.trace))
        case Diagnosis():
            known = _there(diagnosis=record, ir=record.compilation)
            return LaunchTabs(lambda: record.launch, known)
        case Tuning():
            return LaunchTabs(_launch_tuned(record), {"sweep": record})
    return None


def _there(**records: Any) -> Mapping[str, Any]:
    return {tab_id: record for tab_id, record in records.items() if record is not None}


def _launch_of(compilation: Compilation) -> FindLaunch:
    """The launch of a cell that a compilation is of."""
    for launch in latest_named(compilation.kernel):
        if keeps(launch.plain, compilation):
            return weakref.ref(launch)
    return lambda: None


def _launch_tuned(tuning: Tuning) -> FindLaunch:
    kernel = None if tuning.live is None else tuning.live.kernel
    compilation = None if kernel is None else latest_of(innermost(kernel))
    return (lambda: None) if compilation is None else weakref.ref(compilation)
