"""Decide when each config of a sweep is compiled and run, and retry those that get lost."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kernellab.common.progress import ProgressBar
from kernellab.common.text import format_seconds, shown, time_text
from kernellab.tuning.assignments import Setup, TrialOptions
from kernellab.tuning.files import Store
from kernellab.tuning.records import (
    INTERRUPTED,
    Candidate,
    Dropped,
    Method,
    Outcome,
    Timing,
    Trial,
    finalists,
)
from kernellab.tuning.worker import with_compiled


class SweepProgress:
    """A bar that shows how many configs are done and dropped, and the best time so far."""

    def __init__(self, kernel: str, configs: int, shown: bool | None = None) -> None:
        """Start the bar over `configs` configs; with None for `shown`, `ProgressBar` decides."""
        self._bar = ProgressBar(f"tune {kernel}", configs, "configs", shown=shown).__enter__()
        self._dropped = 0
        self._best: float | None = None

    def done(self, trial: Trial) -> None:
        """Report that a config is done: "2 dropped, best so far 31.2 us"."""
        self._dropped += trial.is_dropped
        if trial.timing is not None and not trial.is_dropped:
            self._best = min(trial.timing.median, self._best or trial.timing.median)
        words = [f"{self._dropped} dropped"] if self._dropped else []
        if self._best is not None:
            words.append(f"best so far {time_text(self._best * 1e3, 4)}")
        self._bar.words = ", ".join(words)
        self._bar.advance()

    def end(self) -> None:
        """Report that the sweep has ended."""
        self._bar.__exit__(None, None, None)


class WorkerPool(Protocol):
    """Accepts configs, and returns futures of their outcomes."""

    compiles_first: bool
    """Whether `compile` must be called before `run`; otherwise `run` does both."""
    runs_at_once: int
    """How many configs it runs at the same time, if known; otherwise 1."""

    def get_ready(self, setup: Setup) -> None:
        """Start what takes long: processes, torch, and the arguments on each GPU."""

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        """Compile a config."""

    def run(
        self, setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float
    ) -> Future[Outcome]:
        """Run a config."""

    def stop(self) -> None:
        """Cancel all calls."""


_TRIES = 3
"""How often a config is given to a pool that loses it."""

PATIENCE = 20.0
"""Seconds that all checks on the interpreter may take together unless the user requested them,
extrapolated from the first check."""


@dataclass(frozen=True)
class Entry:
    """A config on its way through a sweep."""

    number: int
    candidate: Candidate
    task: bytes
    """A packed Task; b"" for a config that cannot be launched at all."""
    setup: Setup | None
    """What it needs to run; None where it is only compiled."""
    identity: tuple[Any, ...]
    """What its outcome depends on, in addition to what all configs depend on."""
    refused: Dropped | None = None
    """Why it cannot be launched."""


@dataclass(frozen=True)
class Conduct:
    """How a sweep treats its configs."""

    job: bytes
    check: bool | None
    """None checks if that is quick."""
    measure: bool
    seconds: float
    """For one config to compile, and to run."""


@dataclass(frozen=True)
class _Step:
    """A call that a pool is working on."""

    entry: Entry
    what: str
    """ "compile", "run" or "again"."""


class Sweep:
    """One sweep: gives every config to a worker pool, and collects what comes back.

    Attributes:
        notes: remarks on the sweep as a whole.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        pool: WorkerPool,
        conduct: Conduct,
        store: Store,
        progress: SweepProgress,
    ) -> None:
        self.notes: list[str] = []
        self._entries = entries
        self._pool = pool
        self._conduct = conduct
        self._store = store
        self._progress = progress
        self._final: dict[int, Outcome] = {}
        self._compiled: dict[int, Outcome] = {}
        self._ready: list[Entry] = []
        self._standard: Entry | None = None
        self._leading: set[int] = set()
        """Numbers of the configs that run before the others."""
        self._method: Method | None = None
        self._checks = conduct.check is not False
        self._under_way: dict[Future[Outcome], _Step] = {}
        self._tries: dict[tuple[int, str], int] = {}

    def outcomes(self) -> dict[int, Outcome]:
        """Run to the end or until Ctrl-C; return each config's outcome by number, in order."""
        try:
            self._take_known()
            self._start()
            while self._under_way or self._ready:
                self._advance()
            if self._conduct.measure:
                self._measure_finalists()
        except KeyboardInterrupt:
            self._pool.stop()
            left, total = len(self._entries) - len(self._final), len(self._entries)
            missing = (
                f"{left} of {total} configs were not tried"
                if left
                else "the fastest were not timed a second time"
            )
            self.notes.append(f"{INTERRUPTED}: {missing}")
        finally:
            self._progress.end()
        return dict(sorted(self._final.items()))

    # Beginning

    def _take_known(self) -> None:
        for entry in self._entries:
            if entry.refused is not None:
                self._finish(entry, Outcome(dropped=entry.refused), keep=False)
                continue
            known = self._store.get(entry.identity)
            if known is not None and self._is_enough(entry, known):
                self._finish(entry, known, keep=False)
                if known.timing is not None:
                    self._method = known.timing.method
                if known.checked == "the first config" and self._standard is None:
                    self._standard = entry

    def _is_enough(self, entry: Entry, known: Outcome) -> bool:
        if known.dropped is not None or not self._can_run(entry):
            return True
        if self._conduct.measure:
            return known.timing is not None and (bool(known.checked) or not self._checks)
        return bool(known.checked)

    def _start(self) -> None:
        waiting = [entry for entry in self._entries if entry.number not in self._final]
        first = next((entry.setup for entry in waiting if entry.setup is not None), None)
        if first is not None and self._conduct.measure:
            self._pool.get_ready(first)
        for entry in waiting:
            if self._pool.compiles_first or not self._can_run(entry):
                self._promise(_Step(entry, "compile"))
            else:
                self._ready.append(entry)

    def _can_run(self, entry: Entry) -> bool:
        return (self._checks or self._conduct.measure) and entry.setup is not None

    # The way of a config

    def _advance(self) -> None:
        """Give out what can be run, then wait for something to come back."""
        self._give_out()
        # A short wait, so that Ctrl-C is noticed.
        wait(self._under_way, timeout=0.5, return_when=FIRST_COMPLETED)
        # `wait` does not return cancelled calls, as of an executor that was shut down.
        done = [future for future in self._under_way if future.done()]
        for future in sorted(done, key=lambda future: self._under_way[future].entry.number):
            self._take(future, self._under_way.pop(future))

    def _give_out(self) -> None:
        """Submit the configs that can run.

        Some configs run before the others: the first one if the others are compared with it, else
        one per worker. They also show whether the kernel is short, which decides how to time it.
        """
        self._ready.sort(key=lambda entry: entry.number)
        while self._ready and (self._leads_known or self._may_lead(self._ready[0])):
            entry = self._ready.pop(0)
            if not self._leads_known:
                self._leading.add(entry.number)
            self._promise(_Step(entry, "run"))

    def _may_lead(self, entry: Entry) -> bool:
        assert entry.setup is not None
        if not self._checks or entry.setup.reference is not None:
            return len(self._leading) < self._pool.runs_at_once
        compiling = [
            step.entry.number for step in self._under_way.values() if step.what == "compile"
        ]
        return not self._leading and all(entry.number < number for number in compiling)

    @property
    def _leads_known(self) -> bool:
        checked = not self._checks or self._standard is not None
        return checked and (not self._conduct.measure or self._method is not None)

    def _promise(self, step: _Step) -> None:
        try:
            future = self._submit(step)
        except RuntimeError as error:
            # An executor that is broken or shut down accepts no more calls.
            future = Future()
            future.set_exception(error)
        self._under_way[future] = step

    def _submit(self, step: _Step) -> Future[Outcome]:
        entry, conduct = step.entry, self._conduct
        if step.what == "compile":
            return self._pool.compile(conduct.job, entry.task, conduct.seconds)
        assert entry.setup is not None
        setup = entry.setup
        if self._checks and self._standard is not None and setup.reference is None:
            setup = replace(setup, standard=self._standard.task)
        trial_options = TrialOptions(
            self._checks and step.what == "run", conduct.measure, self._method
        )
        return self._pool.run(setup, entry.task, trial_options, conduct.seconds)

    def _take(self, future: Future[Any], step: _Step) -> None:
        try:
            outcome = future.result()
            if not isinstance(outcome, Outcome):
                raise TypeError(f"the executor returned {shown(outcome)}")
        except (Exception, CancelledError, SystemExit) as error:
            outcome = Outcome(dropped=Dropped("lost", f"{type(error).__name__}: {error}"))
        if self._is_lost(outcome, step):
            return
        if step.what == "compile":
            self._take_compiled(step.entry, outcome)
        elif step.what == "run":
            self._take_run(step.entry, outcome)
        else:
            self._take_again(step.entry, outcome)

    def _is_lost(self, outcome: Outcome, step: _Step) -> bool:
        """Whether the config got lost and was submitted once more."""
        if outcome.dropped is None or outcome.dropped.reason != "lost":
            return False
        name = (step.entry.number, step.what)
        self._tries[name] = self._tries.get(name, 1) + 1
        if self._tries[name] > _TRIES:
            return False
        self._promise(step)
        return True

    def _take_compiled(self, entry: Entry, outcome: Outcome) -> None:
        if outcome.dropped is not None or not self._can_run(entry):
            self._finish(entry, outcome)
        else:
            self._compiled[entry.number] = outcome
            self._ready.append(entry)

    def _take_run(self, entry: Entry, outcome: Outcome) -> None:
        before = self._compiled.pop(entry.number, Outcome())
        outcome = with_compiled(outcome, before.compiled)
        leads = entry.number in self._leading
        self._leading.discard(entry.number)
        if not self._conduct.measure:
            outcome = self._on_interpreter(outcome, leads)
        if leads and outcome.dropped is None:
            # The results of a config that could not be checked are not a standard: the next leads.
            if self._standard is None and outcome.checked:
                self._standard = entry
            # The first config to be timed decides the method for all; another that ran at the same
            # time may have chosen a different one.
            if outcome.timing is not None and self._method is None:
                self._method = outcome.timing.method
            if outcome.timing is not None and outcome.timing.method != self._method:
                self._compiled[entry.number] = before
                self._ready.append(entry)
                return
        self._finish(entry, outcome)

    def _on_interpreter(self, outcome: Outcome, leads: bool) -> Outcome:
        """Keep a config whose check takes too long: that does not make the config wrong."""
        dropped = outcome.dropped
        too_long = dropped is not None and dropped.reason == "time-out"
        if too_long:
            limit = format_seconds(self._conduct.seconds)
            why = (
                f"the interpreter did not finish within {limit}: the config hangs or is slow there"
            )
            outcome = replace(outcome, dropped=None, unchecked=why)
        needed = outcome.check_seconds * len(self._entries)
        if leads and self._conduct.check is None and (too_long or needed > PATIENCE):
            self.notes.append(
                "results were not compared: on the interpreter that takes more than "
                f"{PATIENCE:.0f} s; check=True compares them anyway"
            )
            self._checks = False
            self._finish_compiled()
        return outcome

    def _finish_compiled(self) -> None:
        """Finish the configs that were waiting to run, as no more will run."""
        for entry in self._ready:
            if self._pool.compiles_first:
                self._finish(entry, self._compiled.pop(entry.number))
            else:
                self._promise(_Step(entry, "compile"))
        self._ready.clear()

    def _finish(self, entry: Entry, outcome: Outcome, *, keep: bool = True) -> None:
        self._final[entry.number] = outcome
        if keep:
            self._store.put(entry.identity, outcome)
        self._progress.done(Trial(entry.number, entry.candidate, outcome))

    def _measure_finalists(self) -> None:
        """Time the fastest configs again, as the error of one round may exceed their difference."""
        trials = [
            Trial(entry.number, entry.candidate, self._final[entry.number])
            for entry in self._entries
        ]
        chosen = [trial for trial in finalists(trials) if trial.timing and trial.timing.rounds == 1]
        for trial in chosen if len(chosen) > 1 else ():
            self._promise(_Step(self._entries[trial.number], "again"))
        while self._under_way:
            self._advance()

    def _take_again(self, entry: Entry, outcome: Outcome) -> None:
        known = self._final[entry.number]
        if known.timing is None or outcome.timing is None:
            return
        timing = Timing.pooled([known.timing, outcome.timing])
        self._final[entry.number] = replace(known, timing=timing)
        self._store.put(entry.identity, self._final[entry.number])
