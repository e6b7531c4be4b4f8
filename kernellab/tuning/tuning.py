"""`Tuning`: a finished sweep, merged with others or applied to its kernel."""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab import triton_api
from kernellab.common.arguments import check_whole, is_real, is_whole
from kernellab.common.saved_files import Count
from kernellab.common.text import counted, shown, time_text
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.compare import Comparison, compare
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile_bound
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.launch.preparation import Grid, innermost
from kernellab.records import Target
from kernellab.records.display import HasCard, described, plot, show
from kernellab.tuning.configs import without_autotuner
from kernellab.tuning.files import complete, found_again, load_one, save
from kernellab.tuning.records import (
    INTERRUPTED,
    Candidate,
    Duration,
    KernelSource,
    SweepMachine,
    Timing,
    Trial,
    Work,
    by_compiler,
    differs,
    how_to_open,
    source_of,
    tied_with_best,
    timed,
    tuning_table,
)
from kernellab.tuning.worker import installed_triton

if TYPE_CHECKING:
    from kernellab.profiling.diagnosis.diagnose import Asked
    from kernellab.profiling.diagnosis.records import CostFinding, Diagnosis


class AppliedTuning:
    """A kernel whose config comes from sweeps: `tuned[grid](x, y, n)` takes no config constants.

    Attributes:
        configs: (key, config) of each sweep; a key has the choosing arguments by name.
    """

    def __init__(self, kernel: Any, choices: Sequence[tuple[Mapping[str, Any], Candidate]]) -> None:
        self.fn = without_autotuner(kernel)
        self.arg_names: Sequence[str] = self.fn.arg_names
        self.configs = tuple(choices)
        parameters = inspect.signature(innermost(kernel).fn).parameters.values()
        self._defaults = {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.default is not parameter.empty
        }
        self._announced: set[tuple[Any, ...]] = set()

    def __getitem__(self, grid: Grid) -> Callable[..., Any]:
        """Return the kernel with a grid, ready to be called with the rest of its arguments."""
        return functools.partial(self.run, grid=grid, warmup=False)

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **keywords: Any) -> Any:
        """Launch with the config for these arguments; return what the kernel's own launch returns.
        Raises ArgumentError: an argument of the key is missing, or a value of the config is given.
        """
        __tracebackhide__ = True
        given = {**self._defaults, **dict(zip(self.arg_names, args)), **keywords}
        candidate = self.choose(given)
        own = {*self.arg_names[: len(args)], *keywords}
        twice = sorted(own & candidate.values.keys())
        if twice:
            raise ArgumentError(
                f"{', '.join(twice)} is given twice: by the sweep and by the launch.",
                advice="Remove it from the launch.",
            )
        if candidate.pre_hook is not None:
            candidate.pre_hook({**given, **candidate.values})
        return self.fn.run(*args, grid=grid, warmup=warmup, **keywords, **candidate.values)

    def choose(self, given: Mapping[str, Any]) -> Candidate:
        """Return the config for arguments by name: that of the equal key, else of the nearest key.

        A message on stderr reports the first use of a nearest key.

        Raises:
            ArgumentError: an argument of the key is missing.
        """
        names = tuple(self.configs[0][0])
        missing = [name for name in names if name not in given]
        if missing:
            raise ArgumentError(
                f"The config depends on {missing[0]!r}, which is missing from the launch.",
                advice="Pass it to the launch.",
            )
        wanted = {name: given[name] for name in names}
        for key, candidate in self.configs:
            if key == wanted:
                return candidate
        key, candidate = min(self.configs, key=lambda choice: _distance(choice[0], wanted))
        self._announce(wanted, key)
        return candidate

    def _announce(self, wanted: Mapping[str, Any], key: Mapping[str, Any]) -> None:
        if tuple(wanted.values()) in self._announced:
            return
        self._announced.add(tuple(wanted.values()))
        words = [", ".join(f"{n}={v}" for n, v in values.items()) for values in (wanted, key)]
        print(
            f"{self.fn.__name__}: not tuned for {words[0]}; uses the config for {words[1]}",
            file=sys.stderr,
        )

    def __repr__(self) -> str:
        return f"AppliedTuning({self.fn!r}, {counted(len(self.configs), 'config')})"


def _distance(key: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """Return how far apart two keys are: sizes by their ratio, other values by being different."""
    total = 0.0
    for name, value in wanted.items():
        other = key[name]
        if _is_size(value) and _is_size(other):
            total += abs(math.log(value) - math.log(other))
        elif value != other:
            total += 100.0
    return total


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_SEVERAL = "For several sizes or types of one kernel, use kernellab.Tunings([left, right])."
_ADVICE_TO_MERGE = {
    "kernel": "Only sweeps of one kernel can be merged.",
    "target": "Results for one target do not apply to another: keep the sweeps separate.",
}


def merge(left: Tuning, right: Tuning) -> Tuning:
    """Implement `Tuning.merged`."""
    if not isinstance(right, type(left)):
        raise ArgumentError(
            f"merged takes another sweep, got {described(right)}.",
            advice="kernellab.load(path) reads saved sweeps.",
        )
    for what, first, second in sides(left, right):
        if first != second:
            raise ArgumentError(
                f"These sweeps differ in their {what}: {first} and {second}.",
                advice=_ADVICE_TO_MERGE.get(what, _SEVERAL),
            )
    machine, notes = _one_machine(left.machine, right.machine)
    versions = []
    if differs(left.source, right.source):
        versions.append(f"merged from sweeps of two versions of {left.kernel!r}")
    trials = _all_trials(left.trials, [_as_part_of(left, right, trial) for trial in right.trials])
    return replace(
        left,
        trials=trials,
        machine=machine,
        known_work=left.work,
        baselines={**right.baselines, **left.baselines},
        seconds=left.seconds + right.seconds,
        notes=tuple(dict.fromkeys([*left.notes, *right.notes, *notes, *versions])),
        source=left.source or right.source,
        live=left.live and replace(left.live, calls={}, compiled={}),
    )


def sides(left: Tuning, right: Tuning) -> list[tuple[str, Any, Any]]:
    """Return what must be equal in two sweeps of one launch: its name, and its value in each."""
    depend = _depending_on_config(left) | _depending_on_config(right)

    def shared(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name not in depend}

    return [
        ("kernel", left.kernel, right.kernel),
        ("target", left.target, right.target),
        ("key", dict(left.key), dict(right.key)),
        ("arguments", dict(left.arguments), dict(right.arguments)),
        ("types", shared(left.types), shared(right.types)),
        ("constants", _text(shared(left.constants)), _text(shared(right.constants))),
    ]


def _depending_on_config(tuning: Tuning) -> set[str]:
    return {name for trial in tuning.trials for name in (*trial.types, *trial.constants)}


def _text(values: Mapping[str, Any]) -> str:
    """Format values by their repr, which is all that a file holds of a function."""
    return ", ".join(f"{name}={value!r}" for name, value in sorted(values.items()))


def _as_part_of(left: Tuning, right: Tuning, trial: Trial) -> Trial:
    """Return a config of `right` with those types and constants that differ from `left`'s."""
    types = {**right.types, **trial.types}
    constants = {**right.constants, **trial.constants}
    return replace(
        trial,
        types={name: kind for name, kind in types.items() if left.types.get(name) != kind},
        constants={
            name: value
            for name, value in constants.items()
            if repr(left.constants.get(name)) != repr(value)
        },
    )


def _one_machine(left: SweepMachine, right: SweepMachine) -> tuple[SweepMachine, list[str]]:
    """Return the machine of both, that of the timed sweep if only one is, and a note if versions
    differ. Raises ArgumentError: the sweeps were timed on different GPUs.
    """
    if left.gpu and right.gpu and left.gpu != right.gpu:
        raise ArgumentError(
            f"One sweep was timed on {left.gpu}, the other on {right.gpu}, and times of different "
            "GPUs are never mixed.",
            advice="Keep the sweeps separate, and compare their tables or plots.",
        )
    machine = left if left.gpu or not right.gpu else right
    if left == right or not (left.gpu and right.gpu):
        return machine, []
    return machine, [f"merged from sweeps with {left} and with {right}"]


def _all_trials(left: Sequence[Trial], right: Sequence[Trial]) -> tuple[Trial, ...]:
    kept: dict[str, Trial] = {}
    for trial in (*left, *right):
        name = trial.candidate.written
        if name not in kept or _runs(trial) > _runs(kept[name]):
            kept[name] = trial
    return tuple(replace(trial, number=number) for number, trial in enumerate(kept.values()))


def _runs(trial: Trial) -> int:
    return 0 if trial.timing is None else trial.timing.runs


OTHER_SOURCE = (
    "the given kernel's source differs from that of the kernel that was swept; configs are "
    "compiled from the given one"
)

_COMPILATIONS_KEPT = 8
"""Per sweep: a compilation with every pass recorded takes up to 1 MB."""


@dataclass(frozen=True)
class Live:
    """The parts that only a sweep of this process has: the kernel, and each config's launch."""

    kernel: Any
    calls: Mapping[int, BoundCall]
    count_work: Callable[[], Work] | None = None
    compiled: dict[int, Compilation] = field(default_factory=dict)
    """Number of a config -> its compilation, for the last few that were requested."""


@dataclass(frozen=True)
class Tuning(HasCard):
    """A sweep over a kernel's configs, for one launch's arguments."""

    kernel: str
    target: Target
    key: Mapping[str, Any]
    """The arguments that choose the config, and their values in this sweep."""
    arguments: Mapping[str, str]
    """Parameter -> a short description of the value: "float16[4096, 4096]", "4096"."""
    types: Mapping[str, Any]
    """Parameter -> its type string ("*fp16:16"), for those that are not compiled in."""
    constants: Mapping[str, Any]
    """Parameter -> the value that every config has compiled in."""
    trials: tuple[Trial, ...]
    machine: SweepMachine
    known_work: Work | None = None
    """The bytes and operations of a launch, if they were given or counted; see `work`."""
    baselines: Mapping[str, Timing] = field(default_factory=dict)
    """Other ways to compute the same, timed like the kernel: torch's, for example."""
    seconds: Duration = 0.0
    """Wall time of the sweep."""
    pruned: Count = 0
    """Configs that were left out beforehand."""
    notes: tuple[str, ...] = ()
    """Remarks on the sweep as a whole."""
    source: KernelSource | None = None
    """Where the kernel was defined, and its text; None if an earlier version saved the sweep."""
    live: Live | None = field(default=None, compare=False, repr=False)

    # Results

    @cached_property
    def work(self) -> Work:
        """The bytes and operations of a launch, whatever its config; counted if not given."""
        if self.known_work is not None:
            return self.known_work
        if self.live is None or self.live.count_work is None:
            return Work(None, None, "it was not given", "it was not given")
        return self.live.count_work()

    @cached_property
    def ranked(self) -> tuple[Trial, ...]:
        """The configs that were timed, the fastest first."""
        return tuple(timed(self.trials))

    @property
    def is_timed(self) -> bool:
        """Whether any config was timed, which needs a GPU."""
        return bool(self.ranked)

    @property
    def best(self) -> Trial:
        """The fastest config. Raises ArgumentError: nothing was timed; if all configs were dropped,
        their reasons are listed.
        """
        ranked = self.ranked
        if ranked:
            return ranked[0]
        if not self.trials:
            raise ArgumentError(
                f"No config of {self.kernel!r} was tried: the sweep was interrupted.",
                advice="Call kernellab.tune again with the same arguments to continue.",
            )
        if all(trial.is_dropped for trial in self.trials):
            reasons = "\n".join(f"  {trial}" for trial in self.trials)
            raise ArgumentError(f"No config of {self.kernel!r} is valid:\n{reasons}")
        raise ArgumentError(
            f"No config of {self.kernel!r} was timed, so there is no fastest config.",
            advice="Times need a GPU, or a saved sweep: kernellab.Tuning.load(path). tuning.table "
            "shows what the compiler reports.",
        )

    @property
    def ties(self) -> tuple[Trial, ...]:
        """The configs whose quartiles overlap the fastest one's, which comes first."""
        return tuple(tied_with_best(self.trials))

    def candidates(self, count: int = 5) -> list[dict[str, Any]]:
        """Return the configs to measure first, as a space for `kernellab.tune` on a GPU.

        These are the fastest configs, or without times those with the lowest estimates;
        docs/estimates.md shows how often the first five contain the best.

        Raises:
            OptionError: `count` is not a positive integer.
        """
        check_whole("count", count, 1)
        ranked = self.ranked or tuple(by_compiler(self.trials))
        return [trial.candidate.values for trial in ranked[:count]]

    @property
    def table(self) -> Any:
        """One row per config, as a pandas DataFrame; `docs/tuning.md` explains the columns."""

        return tuning_table(self)

    # Configs

    def apply(self, kernel: Any = None) -> AppliedTuning:
        """Return the kernel fixed to the fastest config.

        Args:
            kernel: the kernel, needed only for a sweep that was loaded from a file.

        Raises:
            ArgumentError: nothing was timed, or the kernel is not known.
        """
        known = self if kernel is None else self.with_kernel(kernel)
        own = known._kernel(None)
        best = complete(self.best.candidate, own, innermost(own))
        return AppliedTuning(own, [(dict(self.key), best)])

    def compilation(self, number: int | Trial, kernel: Any = None) -> Compilation:
        """Compile a config with everything recorded: passes, modules, source map.

        Args:
            number: the config's number, as in the table; or the Trial.
            kernel: the kernel, needed only for a sweep that was loaded from a file.

        Raises:
            ArgumentError: no such config, an unknown kernel, or a config that crashed or hung.
            CompileError: the config does not compile.
        """
        trial = number if isinstance(number, Trial) else self.trial(number)
        if kernel is None and trial.number in self.compiled:
            return self.compiled[trial.number]
        self._check_compiles(trial)
        plain = innermost(self._kernel(kernel))
        call = self._call(plain, trial)
        compilation = compile_bound(plain, call, self.target, record="passes")
        if kernel is None and self.live is not None:
            kept = self.live.compiled
            kept[trial.number] = compilation
            while len(kept) > _COMPILATIONS_KEPT:
                del kept[next(iter(kept))]
        return compilation

    @property
    def compiled(self) -> Mapping[int, Compilation]:
        """Number of a config -> its compilation, for the last few that `compilation` made."""
        return {} if self.live is None else self.live.compiled

    def _check_compiles(self, trial: Trial) -> None:
        """Refuse a config that ended the process that compiled it: it would end this one too."""
        dropped = trial.outcome.dropped
        if (
            trial.outcome.compiled is None
            and dropped is not None
            and dropped.reason in ("crash", "time-out")
        ):
            raise ArgumentError(
                f"Config {trial.number} ({trial.candidate}) was not compiled again here: "
                f"{dropped.line}",
                advice="To compile it in this process anyway, call kernellab.compile.",
            )

    def _call(self, plain: Any, trial: Trial) -> BoundCall:
        if self.live is not None and trial.number in self.live.calls:
            return self.live.calls[trial.number]
        constants = {**self.constants, **trial.constants, **trial.candidate.constants}
        constants = {name: found_again(value, name, plain) for name, value in constants.items()}
        types = {**self.types, **trial.types}
        own = {name: kind for name, kind in types.items() if name not in trial.constants}
        return bind(
            plain, (), own, self.target, options=trial.candidate.options, constants=constants
        )

    def compare(self, left: int | Trial, right: int | Trial, kernel: Any = None) -> Comparison:
        """Compare two configs: options, IR after each pass, SASS, resources.

        A note says if the installed Triton is not the sweep's. Raises as `compilation`.
        """
        comparison = compare(self.compilation(left, kernel), self.compilation(right, kernel))
        numbers = (side.number if isinstance(side, Trial) else side for side in (left, right))
        first, second = (f"config {number}" for number in numbers)
        other = self.recompiled if kernel is None else self._other_triton()
        return replace(comparison, told_apart=(first, second), notes=(other,) if other else ())

    def trial(self, number: int) -> Trial:
        """Return the config of that number. Raises ArgumentError: there is no such config."""
        for trial in self.trials if is_whole(number) else ():
            if trial.number == number:
                return trial
        raise ArgumentError(
            f"The sweep of {self.kernel!r} has no config {shown(number)}.",
            advice=f"It has {counted(len(self.trials), 'config')}, whose numbers are the index of "
            "tuning.table.",
        )

    def _kernel(self, given: Any) -> Any:
        if given is not None:
            return given
        if self.live is None:
            raise ArgumentError(
                f"This sweep of {self.kernel!r} was read from a file, which does not "
                "contain the kernel.",
                advice=how_to_open(self.kernel, self.source),
            )
        return self.live.kernel

    def with_kernel(self, kernel: Any) -> Tuning:
        """Return this sweep with its kernel, so that configs can be compiled and applied. Raises
        ArgumentError: the kernel is not the sweep's.
        """
        plain = innermost(kernel)
        if plain.__name__ != self.kernel:
            raise ArgumentError(
                f"This is a sweep of {self.kernel!r}, but the given kernel is {plain.__name__!r}.",
                advice="Pass the kernel that was swept.",
            )
        tried = {
            name for trial in self.trials for name in (*trial.candidate.constants, *trial.constants)
        }
        unknown = sorted({*self.types, *self.constants, *tried} - set(plain.arg_names))
        if unknown:
            raise ArgumentError(
                f"This sweep is of a {self.kernel!r} with the parameter {unknown[0]!r}, which the "
                "given kernel does not have.",
                advice="Pass the kernel that was swept.",
                position=triton_api.definition_of(plain),
            )
        given = source_of(plain) if self.source is not None else None
        notes = [OTHER_SOURCE] if differs(self.source, given) else []
        return replace(
            self,
            known_work=self.work,
            live=Live(kernel, {}),
            notes=tuple(dict.fromkeys((*self.notes, *notes))),
        )

    # Views

    @property
    def knows_kernel(self) -> bool:
        """Whether configs can be compiled and applied; a file does not contain the kernel."""
        return self.live is not None

    @property
    def recompiled(self) -> str:
        """A sentence if another version of Triton compiled the sweep's configs, otherwise ""."""
        # A sweep that has its launches was compiled by this process, even if its times were
        # recorded on another machine.
        return "" if self.live is None or self.live.calls else self._other_triton()

    def _other_triton(self) -> str:
        here, there = installed_triton(), self.machine.triton
        if here == there:
            return ""
        return (
            f"The sweep's configs were compiled by Triton {there}, and those opened here by Triton "
            f"{here}: their IR, registers and shared memory may differ."
        )

    @property
    def is_redefined(self) -> bool:
        """Whether the kernel has another source since the sweep; False if it is not known."""
        if self.live is None or self.live.kernel is None:
            return False
        plain = innermost(self.live.kernel)
        now = triton_api.source_now(plain)
        return now is not None and now != "".join(plain.raw_src)

    def show(self, **options: Any) -> Any:
        """Explore the sweep: its plots and its table, linked; a click on a config opens its IR
        (docs/widgets.md).

        The last expression of a cell shows the view; `.to_html(path)` writes it as one
        self-contained page.

        Args:
            options: plot=, the kind that is shown first (as in `plot`); compilations=, numbers of
                the configs whose IR a page contains, since a page has no kernel. By default, these
                are the fastest if the kernel is known, and those that `compilation` compiled.

        Raises:
            ArgumentError: there is no such plot or config, or compilations are requested but the
                kernel is not known.
        """
        return show(self, **options)

    def plot(self, kind: str | None = None, **options: Any) -> Any:
        """Plot the sweep; `docs/tuning.md` shows the kinds.

        Args:
            kind: "times" (sorted, with quartiles), "heatmap" (over two parameters), "parallel"
                (coordinates), "estimate", "occupancy", "registers", "spills", "shared" (time
                against each, or each alone if nothing was timed). None is "times"; without times
                "estimate", or "registers" if nothing was estimated.
            options: "heatmap" takes x= and y=, names of two parameters.

        Raises:
            ArgumentError: there is no such kind, or nothing to draw.
        """
        return plot(self, kind=kind, **options)

    # Files

    def diagnosed(self, request: Asked) -> Diagnosis:
        """Return why a faster config may be missing, and why the best is slow, for `diagnose`."""
        from kernellab.profiling.diagnosis.diagnose import diagnosis_of  # takes a second
        from kernellab.profiling.diagnosis.evidence import Evidence
        from kernellab.profiling.diagnosis.records import Diagnosis

        request.takes_nothing_of_a_launch("a sweep")
        own = tuple(_edges(self))
        if not self.is_timed or not self.knows_kernel:
            return Diagnosis(self.kernel, str(self.target), None, own)
        try:
            diagnosis = diagnosis_of(Evidence(self.compilation(self.best)))
        except KernelLabError:
            return Diagnosis(self.kernel, str(self.target), None, own)
        ranked = sorted((*own, *diagnosis.findings), key=lambda each: -each.cost)
        return replace(diagnosis, findings=tuple(ranked))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the sweep to a JSON file, which `Tuning.load` reads anywhere; return its path.
        Raises ArchiveError: the file cannot be written.
        """
        return save([self], path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], kernel: Any = None) -> Tuning:
        """Return the sweep of a file, with `kernel` if that is given. Raises ArchiveError: there is
        no such file, it is damaged or of another version, or it contains several sweeps.
        """
        tuning = load_one(path, cls)
        return tuning if kernel is None else tuning.with_kernel(kernel)

    def merged(self, other: Tuning) -> Tuning:
        """Merge both sweeps' configs, as of two machines with the same GPU that shared a space.

        A config that both timed keeps the time that has more runs.

        Raises:
            ArgumentError: the sweeps have other kernels, arguments, targets or GPUs.
        """
        return merge(self, other)

    def __repr__(self) -> str:
        dropped = sum(trial.is_dropped for trial in self.trials)
        words = (
            f"Tuning({self.kernel!r} for {self.target}: {counted(len(self.trials), 'config')}, "
            f"{dropped} dropped"
        )
        if any(note.startswith(INTERRUPTED) for note in self.notes):
            words += ", interrupted"
        if not self.ranked:
            return f"{words}, not timed)"
        best = self.best
        assert best.timing is not None
        return f"{words}; {best.candidate}: {time_text(best.timing.median * 1e3, 4)})"


_LEAST_VALUES = 3
"""A parameter with fewer values has only edges."""


def _edges(tuning: Tuning) -> Iterator[CostFinding]:
    """Yield a finding for each parameter whose best value is an end toward which times improved."""
    if not tuning.is_timed:
        return
    from kernellab.profiling.diagnosis.rules import finding  # takes a second

    best = tuning.best.candidate.values
    for name, value in best.items():
        medians = _medians(tuning.trials, name, best)
        if len(medians) < _LEAST_VALUES or not is_real(value):
            continue
        values = sorted(medians)
        if value not in (values[0], values[-1]):
            continue
        next_to = values[1] if value == values[0] else values[-2]
        gain = 1 - medians[value] / medians[next_to]
        if gain <= 0:
            continue
        which, beyond = ("smallest", "smaller") if value == values[0] else ("largest", "larger")
        yield finding(
            "edge-of-space",
            f"the best {name}, {value}, is the {which} that was tried, and times fell toward it",
            gain / 2,
            None,
            f"Try {beyond} values of {name} too.",
            {
                "values": ", ".join(map(str, values)),
                "best": value,
                "faster than its neighbor by": f"{gain:.0%}",
            },
            f"{len(tuning.ranked)} configs, timed",
        )


def _medians(trials: tuple[Trial, ...], name: str, best: dict[str, Any]) -> dict[Any, float]:
    """Map each value of a parameter to the fastest median among the configs that have it."""
    medians: dict[Any, float] = {}
    for trial in trials:
        values = trial.candidate.values
        if trial.timing is None or trial.is_dropped or set(values) != set(best):
            continue
        value = values.get(name)
        if is_real(value):
            medians[value] = min(medians.get(value, float("inf")), trial.timing.median)
    return medians
