"""`Tuning`: a finished sweep."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kernellab import triton_api
from kernellab.common.argument_checks import check_flags, check_whole, is_whole
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.formatting import counted, shown
from kernellab.compiler.comparison import Comparison, compare
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.binding import BoundCall, bind
from kernellab.errors import ArgumentError
from kernellab.launch.preparation import innermost
from kernellab.records import Compilation, Target
from kernellab.records.showing import HasCard, plot, show
from kernellab.tuning.files.consent import agree_to_run
from kernellab.tuning.files.kernel_source import KernelSource, how_to_open, is_another, source_of
from kernellab.tuning.files.named import complete, found_again
from kernellab.tuning.files.saved_sweeps import load_one, save
from kernellab.tuning.pool.gpus import installed_triton
from kernellab.tuning.results.applied import AppliedTuning
from kernellab.tuning.results.merging import merge
from kernellab.tuning.results.ranking import by_compiler, tied_with_best, timed
from kernellab.tuning.results.records import INTERRUPTED, Candidate, Machine, Timing, Trial, Work

OTHER_SOURCE = (
    "the kernel given has another source than the one that was swept: what is compiled is "
    "of the one given"
)

_COMPILATIONS_KEPT = 8
"""Of a sweep: one with every pass recorded is up to a megabyte."""


@dataclass(frozen=True)
class Live:
    """What a sweep made in this process can still do:
    the kernel, and the specialisation of each config.
    """

    kernel: Any
    calls: Mapping[int, BoundCall]
    count_work: Callable[[], Work] | None = None
    compiled: dict[int, Compilation] = field(default_factory=dict)
    """Number of a config -> its compilation: the last few that were asked for."""


@dataclass(frozen=True)
class Tuning(HasCard):
    """A sweep over a kernel's configs, for one launch's arguments."""

    kernel: str
    target: Target
    key: Mapping[str, Any]
    """The arguments that choose the config, and their values here."""
    arguments: Mapping[str, str]
    """Parameter -> a short description of the value: "float16[4096, 4096]", "4096"."""
    types: Mapping[str, Any]
    """Parameter -> its type string ("*fp16:16"), for those that are not compiled in."""
    constants: Mapping[str, Any]
    """Parameter -> the value that every config has compiled in."""
    trials: tuple[Trial, ...]
    machine: Machine
    known_work: Work | None = None
    """What a launch moves and computes, where that was said or counted; see `work`."""
    baselines: Mapping[str, Timing] = field(default_factory=dict)
    """Other ways to compute the same, timed beside the kernel: torch's, for example."""
    seconds: float = 0.0
    """Wall time of the sweep."""
    pruned: int = 0
    """Configs that were left out beforehand."""
    notes: tuple[str, ...] = ()
    """What else is to be said of the sweep as a whole."""
    source: KernelSource | None = None
    """Where the kernel stood, and its text; None of a sweep that an earlier version saved."""
    live: Live | None = field(default=None, compare=False, repr=False)

    # Results

    @cached_property
    def work(self) -> Work:
        """What a launch moves and computes, whatever its config;
        counted when first asked for, where nobody said it.
        """
        if self.known_work is not None:
            return self.known_work
        if self.live is None or self.live.count_work is None:
            return Work(None, None, "nobody said it", "nobody said it")
        return self.live.count_work()

    @cached_property
    def ranked(self) -> tuple[Trial, ...]:
        """The configs that were timed, the fastest first."""
        return tuple(timed(self.trials))

    @property
    def is_timed(self) -> bool:
        """Whether there is any time here: there is none without a GPU."""
        return bool(self.ranked)

    @property
    def is_interrupted(self) -> bool:
        """Whether it was stopped before it was through: the same call goes on from there."""
        return any(note.startswith(INTERRUPTED) for note in self.notes)

    @property
    def best(self) -> Trial:
        """The fastest config.

        Raises:
            ArgumentError: nothing was timed; every config's reason is listed where
                all were dropped.
        """
        ranked = self.ranked
        if ranked:
            return ranked[0]
        if not self.trials:
            raise ArgumentError(
                f"no config of {self.kernel!r} was tried: the sweep was interrupted",
                advice="The same call goes on from there.",
            )
        if all(one.is_dropped for one in self.trials):
            raise ArgumentError(f"no config of {self.kernel!r} is valid:\n{self._reasons()}")
        raise ArgumentError(
            f"no config of {self.kernel!r} was timed, so none is the fastest",
            advice=(
                "Times need a GPU, or a saved sweep: kernellab.Tuning.load(path). tuning.table has "
                "what the compiler says."
            ),
        )

    def _reasons(self) -> str:
        lines = [
            (
                f"  {one.number}: {one.candidate}: {one.outcome.dropped.reason}: "
                f"{one.outcome.dropped.line}"
            )
            for one in self.trials
            if one.outcome.dropped is not None
        ]
        return "\n".join(lines)

    @property
    def ties(self) -> tuple[Trial, ...]:
        """The configs that cannot be told from the fastest, itself first:
        the quartiles of their times overlap with its own.
        """
        return tuple(tied_with_best(self.trials))

    @property
    def is_tie(self) -> bool:
        """Whether the fastest is inside the noise."""
        return len(self.ties) > 1

    @names_bad_arguments
    def candidates(self, count: int = 5) -> list[dict[str, Any]]:
        """The configs to measure first, as a space for `kernellab.tune` on a GPU: the fastest; of a
        sweep without times those that are estimated to be (docs/estimates.md has how often the
        first five hold the best).

        Raises OptionError for what is no number of configs.
        """
        check_whole("count", count, 1, meaning="number of configs")
        ranked = self.ranked or tuple(by_compiler(self.trials))
        return [one.candidate.values for one in ranked[:count]]

    @property
    def table(self) -> Any:
        """One row per config, as a pandas DataFrame; `docs/tuning.md` explains the columns."""
        from kernellab.tuning.results.tables import tuning_table

        return tuning_table(self)

    # Configs

    def apply(self, kernel: Any = None) -> AppliedTuning:
        """The kernel fixed to the fastest config; `kernel` for a sweep that was loaded.

        Raises:
            ArgumentError: nothing was timed, or no kernel is known.
        """
        known = self if kernel is None else self.with_kernel(kernel)
        return AppliedTuning(known._kernel(None), [(dict(self.key), known._best_candidate())])

    def _best_candidate(self) -> Candidate:
        """The fastest config, complete: what a file only names is found again."""
        kernel = self._kernel(None)
        return complete(self.best.candidate, kernel, innermost(kernel))

    @names_bad_arguments
    def compilation(self, number: int | Trial, kernel: Any = None) -> Compilation:
        """A config, compiled with everything recorded: passes, modules, source map.

        Args:
            number: of the config, as in the table; or the Trial.
            kernel: for a sweep that was loaded from a file.

        Raises:
            ArgumentError: no such config, no kernel is known, or compiling it has ended a
                process, or had no end.
            CompileError: it does not compile.
        """
        trial = number if isinstance(number, Trial) else self.trial(number)
        if kernel is None and trial.number in self.compiled:
            return self.compiled[trial.number]
        self._check_compiles(trial)
        plain = innermost(self._kernel(kernel))
        found = compile_bound(plain, self._call(plain, trial), self.target, record="passes")
        if kernel is None and self.live is not None:
            self._keep(self.live.compiled, trial.number, found)
        return found

    @property
    def compiled(self) -> Mapping[int, Compilation]:
        """Number of a config -> its compilation, of the last few that `compilation` made."""
        return {} if self.live is None else self.live.compiled

    @staticmethod
    def _keep(kept: dict[int, Compilation], number: int, compilation: Compilation) -> None:
        kept[number] = compilation
        while len(kept) > _COMPILATIONS_KEPT:
            del kept[next(iter(kept))]

    def _check_compiles(self, trial: Trial) -> None:
        """What ended the process that compiled it would end this one."""
        dropped = trial.outcome.dropped
        if (
            trial.outcome.compiled is None
            and dropped is not None
            and dropped.reason in ("crash", "time-out")
        ):
            raise ArgumentError(
                f"config {trial.number} ({trial.candidate}) was not compiled again here: "
                f"{dropped.line}",
                advice="kernellab.compile compiles in this process, whatever becomes of it.",
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
        """What differs between two configs: options, IR after each pass, SASS, resources;
        its notes say where another Triton compiles them than at the sweep. Raises as `compilation`.
        """
        found = compare(self.compilation(left, kernel), self.compilation(right, kernel))
        numbers = (one.number if isinstance(one, Trial) else one for one in (left, right))
        first, second = (f"config {number}" for number in numbers)
        other = self.recompiled if kernel is None else self._other_triton()
        return replace(found, told_apart=(first, second), notes=(other,) if other else ())

    @names_bad_arguments
    def trial(self, number: int) -> Trial:
        """The config of that number.

        Raises:
            ArgumentError: there is none.
        """
        for one in self.trials if is_whole(number) else ():
            if one.number == number:
                return one
        raise ArgumentError(
            f"the sweep of {self.kernel!r} has no config {shown(number)}",
            advice=f"It has {len(self.trials)}; their numbers are the index of tuning.table.",
        )

    def _kernel(self, given: Any) -> Any:
        if given is not None:
            return given
        if self.live is None:
            raise ArgumentError(
                f"this sweep of {self.kernel!r} was read from a file, which does not "
                "hold the kernel",
                advice=how_to_open(self.kernel, self.source),
            )
        return self.live.kernel

    @names_bad_arguments
    def with_kernel(self, kernel: Any = None, *, run_source: bool = False) -> Tuning:
        """This sweep with the kernel that it is of, so that configs can be compiled and applied.

        Args:
            kernel: None makes it from the source that the sweep was saved with, which is run for
                that: trust the file. A notebook, and Python's prompt, show it and ask first; a
                script says on stderr that it runs.
            run_source: run it without question or word.

        Raises:
            OptionError: `run_source` says neither yes nor no.
            ArgumentError: it is another kernel; or none is given, and the file has no source, the
                answer was no, or nobody can be asked.
            ArchiveError: the source of the file makes no kernel.
            KeyboardInterrupt: Ctrl-C came while that source ran; the sweep is as it was.
        """
        check_flags(run_source=run_source)
        if kernel is None:
            kernel = self._saved_kernel(run_source)
        plain = innermost(kernel)
        if plain.__name__ != self.kernel:
            raise ArgumentError(
                f"this is a sweep of {self.kernel!r}, and the kernel given is {plain.__name__!r}"
            )
        tried = {name for one in self.trials for name in (*one.candidate.constants, *one.constants)}
        unknown = sorted({*self.types, *self.constants, *tried} - set(plain.arg_names))
        if unknown:
            raise ArgumentError(
                f"this sweep is of a {self.kernel!r} with the parameter {unknown[0]!r}, which the "
                "kernel given does not have",
                position=triton_api.definition_of(plain),
            )
        given = source_of(plain) if self.source is not None else None
        notes = [OTHER_SOURCE] if is_another(self.source, given) else []
        return replace(
            self,
            known_work=self.work,
            live=Live(kernel, {}),
            notes=tuple(dict.fromkeys((*self.notes, *notes))),
        )

    def _saved_kernel(self, run_source: bool) -> Any:
        if self.source is None:
            raise ArgumentError(
                f"this sweep of {self.kernel!r} has no source to make the kernel from",
                advice=how_to_open(self.kernel, None),
            )
        if self.source.is_whole and not run_source:
            agree_to_run(self.source)
        return self.source.kernel_again()

    # Views

    @property
    def knows_kernel(self) -> bool:
        """Whether configs can be compiled and applied: a file does not hold the kernel."""
        return self.live is not None

    @property
    def recompiled(self) -> str:
        """What is to be known of a config that is compiled here,
        where the sweep's were compiled by another Triton; "" where they were not.
        """
        # With the launches of each config it was compiled in this process,
        # whatever machine its times are of.
        return "" if self.live is None or self.live.calls else self._other_triton()

    def _other_triton(self) -> str:
        here, there = installed_triton(), self.machine.triton
        if here == there:
            return ""
        return (
            f"The sweep's configs were compiled by Triton {there}, and what is opened is compiled "
            f"by Triton {here}: its IR, registers and shared memory may differ."
        )

    @property
    def is_redefined(self) -> bool:
        """Whether the kernel's name stands for another source by now, of a cell that ran again;
        False where nobody can tell.
        """
        if self.live is None or self.live.kernel is None:
            return False
        plain = innermost(self.live.kernel)
        now = triton_api.source_now(plain)
        return now is not None and now != "".join(plain.raw_src)

    @names_bad_arguments
    def show(self, **options: Any) -> Any:
        """The sweep to explore: its plots and its table, linked;
        a click on a config opens its IR (docs/widgets.md).

        The last expression of a cell shows it; `.to_html(path)` writes it
        as one self-contained page.

        Args:
            options: plot=, the kind that is shown first (as in `plot`); compilations=, numbers of
                configs whose IR a page holds, which has no kernel to ask. By default those are the
                fastest, where the kernel is known, and what `compilation` was asked for.

        Raises:
            ArgumentError: no such plot or config, or compilations of a sweep whose
                kernel is not known.
        """
        return show(self, **options)

    @names_bad_arguments
    def plot(self, kind: str | None = None, **options: Any) -> Any:
        """A figure of the sweep; `docs/tuning.md` shows the kinds.

        Args:
            kind: "times" (sorted, with quartiles), "heatmap" (over two parameters), "parallel"
                (coordinates), "occupancy", "registers", "spills", "shared" (time against each, or
                each alone where nothing was timed). None is "times", or "registers" without times.
            options: "heatmap" takes x= and y=, names of two parameters.

        Raises:
            ArgumentError: no such kind, or nothing to draw.
        """
        return plot(self, kind=kind, **options)

    # Files

    @names_bad_arguments
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the sweep to a JSON file, which `Tuning.load` reads anywhere; returns its path.

        Raises:
            ArchiveError: the file cannot be written.
        """
        return save([self], path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], kernel: Any = None) -> Tuning:
        """The sweep that a file holds, with `kernel` where that is given.

        Raises:
            ArchiveError: no such file, it is damaged, or of another version, or it
                holds several sweeps.
        """
        found = load_one(path, cls)
        return found if kernel is None else found.with_kernel(kernel)

    @names_bad_arguments
    def merged(self, other: Tuning) -> Tuning:
        """Both sweeps' configs as one sweep: what two machines with the same GPU did of one space.

        A config that both timed keeps the time that has more runs.

        Raises:
            ArgumentError: they are of different kernels, arguments or targets, or timed on
                different GPUs: such times are never mixed.
        """
        return merge(self, other)

    def __repr__(self) -> str:
        dropped = sum(one.is_dropped for one in self.trials)
        words = (
            f"Tuning({self.kernel!r} for {self.target}: {counted(len(self.trials), 'config')}, "
            f"{dropped} dropped"
        )
        if self.is_interrupted:
            words += ", interrupted"
        if not self.ranked:
            return f"{words}, not timed)"
        best = self.best
        assert best.timing is not None
        return f"{words}; {best.candidate}: {best.timing.median * 1e3:.4g} us)"
