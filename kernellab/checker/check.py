"""`kernellab.check`: a launch with all detectors; `guarded_launches`: after a fault on the GPU."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.checker.arguments import is_uninitialized, restrided
from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.detector import (
    Detector,
    Failures,
    TwoPhaseDetector,
    implementing,
    look_closer,
)
from kernellab.checker.detectors import DETECTORS, WITHOUT_PROGRAMS
from kernellab.checker.fixes import TRIED, Trial, key_of
from kernellab.checker.records import Finding, Findings
from kernellab.checker.session import CheckSession, Work, learns
from kernellab.checker.sizes import Proof, Range, Sizes, launch_of_sizes
from kernellab.common.arguments import check_tolerance, check_whole, listed
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.common.system import gpu_fault
from kernellab.common.text import counted, element_text, joined_sizes, number_text, shown
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compare import subject_of
from kernellab.errors import ArgumentError, GpuFault, KernelLabError, suggestion
from kernellab.interpreter.execution.launcher import argument_names, launch_observed
from kernellab.interpreter.execution.program import EVERYTHING, memory_effects, program_code
from kernellab.launch.argument_copies import copied, tensors_in
from kernellab.launch.autotuners import TunerFacts, restoring, tuner_facts
from kernellab.launch.dispatch import WatchedLaunch, check_fits, on_launch
from kernellab.launch.preparation import EntryPoint, PreparedLaunch, prepare_bound, takes_launch
from kernellab.launch.reference_results import Reference, Results, expected_results
from kernellab.launch.results import Tolerances, Within, compare, rounding_of
from kernellab.launch.tile_kernel import run
from kernellab.records import BoundLaunch, Target
from kernellab.records.launches import DEFAULT, Difference, RunOptions
from kernellab.triton_api import Autotuner, Config, JITFunction


@takes_launch
def check(
    launch: BoundLaunch,
    *,
    outputs: str | Sequence[str] = (),
    target: str | Target | None = None,
    most_turns: int = 100_000,
    expect: Reference | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    sizes: Mapping[str, Range] | None = None,
) -> Findings:
    """Run a launch with all detectors, and report each fault once.

    The interpreter runs the kernel on copies of the arguments, so that the arguments do not change.
    Tensors on a GPU, up to 1 GiB, are copied to the CPU, and a note of the findings says so.
    After a fault, the run continues if it can, so that later faults are found too.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch; an
            autotuned kernel runs with its first config. Arguments wrapped in
            `kernellab.uninitialized` count as uninitialized memory. Of the interpreter's options,
            only `stage` may be given.
        outputs: the name or the names of arguments of which the kernel must write all elements.
        target: the GPU to emulate, such as "sm_90"; None for the one that a launch would emulate.
        most_turns: a `while` loop with more iterations is stopped and reported as endless.
        expect: the expected results by parameter, {"z_ptr": x + y}, or a function that computes
            them. A function whose parameters have names of kernel parameters is called with these
            arguments. Any other function is called as the kernel is, or else with the tensors that
            the kernel only reads, in their order, as `torch.matmul` can be. It may return the
            tensor that the kernel writes, or a tuple of tensors. The first wrong element is a
            finding, with the line and the program that wrote it.
        rtol, atol: how far elements may differ: `atol + rtol * |expected|`. The default is what
            rounding explains (docs/tolerances.md).
        sizes: integer parameters with their ranges, {"n": (1, None)}. The check then also proves,
            for all sizes in them and any grid, that every access is in bounds and that programs
            never store to the same element; `every_size` of the findings says whether it did. If it
            cannot, it runs small launches, and returns the findings of the first that fails, if one
            does.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Returns:
        The Findings. docs/checking.md explains each kind, and what is not a finding. A grid of no
        programs runs nothing, as in a launch, and has no findings.

    Raises:
        ArgumentError: the arguments do not fit, more than 1 GiB of them are on a GPU, a name in
            `outputs` is not a tensor argument, or the expected results do not fit an argument.
        OptionError, GridError, CompileError, UnsupportedOperation: as `kernellab.run`.
        KernelFault: a fault that stops the run and is not a finding: a gather from outside its
            tile, or a store to a read-only array.
    """
    __tracebackhide__ = True
    options = CheckOptions(outputs, target, most_turns, expect, rtol, atol)
    first = examined(launch, options)
    if sizes is not None:
        known = Sizes.of(first.prepared, sizes)
        return _for_every_size(first, known, options)
    trial = _trial(launch, options, first)
    findings = trial.completed(first.findings)
    if trial.cannot_try() or not findings.of_kind("autotune"):
        return findings
    tuned = TunedLaunch(launch, trial.kernel, trial.values, trial.examine)
    return tuned.completed(findings)


_MOST_LAUNCHES = 40
"""The most launches with small sizes that run if not all is proved."""

_REFUTING = ("out-of-bounds", "race")
"""The kinds of findings that refute what is proved for every size."""


def _for_every_size(first: _Examined, sizes: Sizes, options: CheckOptions) -> Findings:
    """Return the findings with what is proved for every size, or those of a small launch."""
    prepared = first.prepared
    code = program_code(prepared.kernel, prepared.call, prepared.target, prepared.options.stage)
    proof = Proof(prepared, code, sizes)
    launches: Sequence[Mapping[str, int]] = ()
    advice: tuple[str, ...] = ()
    if proof.open:
        try:
            from kernellab.checker.solver import Solver
        except ImportError:
            advice = ("With pip install 'kernellab[proofs]', z3 may decide it.",)
        else:
            solver = Solver()
            proof.decide(solver)
            tried = (solver.launch(sizes, each.failing) for each in proof.open if each.failing)
            launches = sorted(filter(None, tried), key=lambda chosen: sum(chosen.values()))
    if not proof.open:
        notes = (*first.findings.notes, proof.words())
        return replace(first.findings, notes=notes, every_size="proved")
    small = itertools.islice(sizes.smallest(proof.blocks), _MOST_LAUNCHES)
    fixed = sizes.fixed_shapes(prepared)
    for chosen, findings in _launched(first, sizes, options, itertools.chain(small, launches)):
        faults = [each for each in findings.findings if each.kind in _REFUTING]
        words = ", ".join(f"{name} = {size}" for name, size in chosen.items())
        unsure = {each.argument for each in faults if each.kind == "out-of-bounds"} & {*fixed}
        if any(chosen is sizes.given or each.argument not in unsure for each in faults):
            notes = (f"This is the launch with {words}, the smallest that was found to fail.",)
            return replace(findings, notes=(*findings.notes, *notes), every_size="refuted")
        advice += tuple(
            f"With {words}, {name} is accessed out of bounds if its shape is still "
            f"{fixed[name]}, which does not follow from a size or another parameter."
            for name in sorted(unsure)
            if not any(f", {name} is accessed" in note for note in advice)
        )
    notes = (*first.findings.notes, *proof.open_words(), *advice)
    return replace(first.findings, notes=notes, every_size="not decided")


def _launched(
    first: _Examined, sizes: Sizes, options: CheckOptions, tried: Iterable[Mapping[str, int]]
) -> Iterator[tuple[Mapping[str, int], Findings]]:
    """Yield the findings of launches with other sizes, and those of the given launch."""
    plain = CheckOptions(target=options.target, most_turns=options.most_turns)
    for chosen in tried:
        try:
            yield chosen, examined(launch_of_sizes(first.prepared, sizes, chosen), plain).findings
        except KernelLabError:  # a grid or a tile that the size does not allow
            continue
    if all(
        least <= sizes.given[name] <= (end or sizes.given[name])
        for name, (least, end) in sizes.ranges.items()
    ):
        yield sizes.given, first.findings


@dataclass(frozen=True)
class CheckOptions:
    """The arguments of `check` besides the launch."""

    outputs: str | Sequence[str] = ()
    target: str | Target | None = None
    most_turns: int = 100_000
    expect: Reference | None = None
    rtol: float | None = None
    atol: float | None = None
    work: Work | None = None


@dataclass(frozen=True)
class _Examined:
    """What a check without tries returns.

    Attributes:
        tolerances: how far results may be off.
        work: of all runs.
    """

    findings: Findings
    prepared: PreparedLaunch
    expected: Results
    tolerances: Tolerances
    work: int


def _trial(launch: BoundLaunch, options: CheckOptions, first: _Examined) -> Trial:
    values = first.prepared.call.values
    expected = {}
    for name, right in first.expected.items():
        expected[name] = Within(right, first.tolerances.elements(name, right, right))
    again = replace(options, expect=expected or None)  # a function is not called again

    def results(
        kernel: Any, run: RunOptions = DEFAULT, others: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        after = copied({**values, **(others or {})})
        changed = BoundLaunch(kernel, first.findings.grid, (), {**launch.keywords, **after})
        made = prepare_bound(changed, first.prepared.target, _CHECK)
        is_late = run.completes_late
        code = program_code(made.kernel, made.call, made.target, is_late=is_late)
        launch_observed(made.kernel, made.grid, made.call, code, None, run, explains=False)
        return dict(tensors_in(after))

    def examine(kernel: Any, work: Work | None = None) -> Findings:
        return examined(replace(launch, kernel=kernel), replace(again, work=work)).findings

    kernel, grid = first.prepared.kernel, first.findings.grid
    return Trial(kernel, values, grid, examine, results, expected, first.work)


def examined(launch: BoundLaunch, options: CheckOptions) -> _Examined:
    """Run a launch with all detectors; no change of the kernel is tried."""
    most_turns, rtol, atol = options.most_turns, options.rtol, options.atol
    prepared = prepare_bound(launch, options.target, _CHECK)
    plain, call, chosen = prepared.kernel, prepared.call, prepared.target
    check_fits(plain, prepared.own_call, chosen)
    sizes = prepared.sizes(may_be_empty=True)
    check_whole("most_turns", most_turns, least=1)
    rtol = check_tolerance("rtol", rtol)
    atol = check_tolerance("atol", atol)
    named = _outputs(plain, call, options.outputs)
    code = program_code(plain, call, chosen, prepared.options.stage)
    tuner = tuner_facts(launch.kernel, call.values)
    marked = tuple(name for name, tensor in tensors_in(call.values) if is_uninitialized(tensor))

    expected = expected_results(options.expect, prepared, code)
    parts = partial(rounding_of, code, own_formats=False)
    run_call = call if tuner is None else _after_tuning(call, tuner)
    checked = CheckedRun(
        plain, run_call, code, sizes, chosen, named, marked, most_turns, restrided(call.values),
        expected=expected, tolerances=Tolerances(rtol, atol, expected.allowed, parts),
        autotuner=tuner,
    )  # fmt: skip
    guards = tuple(kind for kind in DETECTORS if kind.guards)
    session = CheckSession(checked, guards, options.work or Work())
    with ProgressBar(f"check {plain.__name__}", len(DETECTORS) + 1, "steps", UNTOUCHED) as work:
        failures = Failures()
        kinds = WITHOUT_PROGRAMS if 0 in sizes else DETECTORS
        detectors, stopped = session.run_detectors(kinds, failures)
        work.total = len(detectors) + 1
        noticed = [
            detector
            for detector in detectors
            if isinstance(detector, TwoPhaseDetector) and detector.is_suspect
        ]
        if noticed and stopped is None:
            with failures.kept(type(noticed[0])):
                look_closer(session, noticed, failures)
        asking = implementing("investigate", detectors) if stopped is None else []
        work.advance(len(detectors) - len(asking))
        for detector in asking:
            work.advance()
            with failures.kept(type(detector)):
                detector.investigate(session)
    findings = _in_order([*_findings(detectors, failures), *([] if stopped is None else [stopped])])
    own_notes = (note for detector in detectors for note in detector.notes)
    unchecked = () if stopped is None else (_UNCHECKED.format(stopped.kind, stopped.line),)
    taken = () if findings else _taken_as_meant(checked)
    notes = (*prepared.notes, *unchecked, *own_notes, *taken, *failures.notes())
    subject = subject_of(plain, prepared.own_call, chosen)
    compared = tuple(checked.expected) if stopped is None else ()
    launch_again = replace(launch, target=chosen, expect=options.expect)
    made = Findings(
        plain.__name__, str(chosen), sizes, findings, notes, subject, compared, launch_again
    )
    return _Examined(made, prepared, checked.expected, checked.tolerances, session.work.done)


def _after_tuning(call: BoundCall, tuner: TunerFacts) -> BoundCall:
    """Return a call with zeros in the arguments that the autotuner resets before each trial."""
    if len(tuner.configs) < 2 or not tuner.lost:
        return call
    zeros = {name: torch.zeros_like(call.values[name]) for name in tuner.lost}
    return replace(call, values={**call.values, **zeros})


def _taken_as_meant(run: CheckedRun) -> Iterator[str]:
    """Yield a note on the arguments whose contents before the launch become part of a result."""
    effects = memory_effects(run.code)
    if effects.updated is EVERYTHING or effects.stored is EVERYTHING or learns(run, False):
        return  # of the last, such as locks, a wrong beginning shows in the launch
    names = argument_names(run.call, run.code)
    updated = [names[number] for number in sorted(effects.updated - effects.stored)]
    taken = [name for name in updated if name not in (*run.expected, *run.uninitialized)]
    if taken:
        yield (
            f"Atomics update {' and '.join(taken)}: the check assumes that the contents were "
            "initialized. In place of torch.empty, use torch.zeros."
        )


_UNCHECKED = (
    "The run was stopped at the finding {} on line {}. The check reports only faults that happened "
    "before: it did not look for races, unwritten outputs, effects of the order of "
    "programs, or masked loads without other=."
)


def _findings(detectors: Sequence[Detector], failures: Failures) -> Iterator[Finding]:
    """Yield the findings of detectors that did not fail, without those that follow from others."""
    explained: set[Operation] = set()
    for detector in implementing("explains", detectors):
        with failures.kept(type(detector)):
            explained |= detector.explains() if type(detector) not in failures else frozenset()
    for detector in detectors:
        findings: Sequence[Finding] = ()
        with failures.kept(type(detector)):
            findings = tuple(detector.findings(explained))
        yield from findings if type(detector) not in failures else ()


def _in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings by file and line, those of one line in the order of the detectors. A
    fault in a helper that is called several times becomes one finding.
    """

    def place(finding: Finding) -> tuple[str, int]:
        outermost = (*finding.calls, finding.position)[0]
        return ("", 0) if outermost is None else (outermost.file, outermost.line)

    distinct: dict[Hashable, Finding] = {}
    for number, finding in enumerate(findings):
        key = (finding.kind, finding.argument, finding.position or number)
        distinct[key] = finding.joined(distinct[key]) if key in distinct else finding
    return tuple(sorted(distinct.values(), key=place))


_WHY_NOT = (
    "check has no option {}, because it runs the kernel in several orders, checks accesses "
    "against both the storage and the view of a tensor, and knows what is in flight"
)
_CHECK = EntryPoint(
    "check",
    {name: _WHY_NOT.format(name) for name in ("order", "seed", "bounds", "completion")},
    keeps_assertions=True,
)


def _outputs(kernel: Any, call: BoundCall, outputs: str | Sequence[str]) -> tuple[str, ...]:
    given: Any = outputs  # the caller may have passed anything
    named = isinstance(given, Iterable) and not isinstance(given, bytes | torch.Tensor)
    names = (given,) if isinstance(given, str) else tuple(listed("outputs", given)) if named else ()
    if not named or not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            f"outputs must be a name or a list of names of arguments, got {shown(outputs)}.",
            advice='For example: outputs="z_ptr", or outputs=["y_ptr", "z_ptr"].',
        )
    known = dict(tensors_in(call.values))
    for name in names:
        if name in known:
            continue
        problem = f"outputs must name arguments of {kernel.__name__!r}, got {name!r}."
        if name in call.values:
            problem = f"outputs must name tensors, but {name!r} is {call.values[name]!r}."
        advice = suggestion(str(name), known, "Its tensors are")
        raise ArgumentError(problem, advice=advice, position=triton_api.definition_of(kernel))
    return names


# `guarded_launches`: check a launch that failed on the GPU again on the CPU.


_RESTART = "This process can no longer use the GPU: restart it."


@contextmanager
def guarded_launches() -> Iterator[None]:
    """Report the line and the element at which a Triton launch fails on the GPU.

        with kernellab.guarded_launches():
            train_step()

    An illegal address makes the memory of the GPU inaccessible. Therefore each launch's arguments
    are copied to the CPU beforehand, and each launch is waited for, which is slow. A launch that
    fails is checked on the CPU with these copies (`kernellab.check`); the findings are those of the
    interpreter, for the same arguments.

    Raises:
        GpuFault: a launch failed; `.findings` has the findings of the check.
    """
    pending = _Pending()
    with on_launch(pending.keep, pending.wait):
        yield


class _Pending(threading.local):
    """The arguments of the current launch, on each thread."""

    def __init__(self) -> None:
        self._copies: dict[str, object] = {}

    def keep(self, launch: WatchedLaunch) -> None:
        """Copy a launch's arguments on the GPU. Raises GpuFault: an earlier launch failed."""
        if launch.device != "gpu":
            return
        try:
            torch.cuda.synchronize()
            self._copies = copied(launch.arguments)
        except RuntimeError as error:
            if (died := gpu_fault(error)) is None:
                raise
            raise GpuFault(
                f"an earlier launch failed on the GPU ({died}), before this launch of "
                f"{_name(launch)!r}",
                advice=f"The earlier launch was outside of guarded_launches. {_RESTART}",
                kernel=_name(launch),
            ) from error

    def wait(self, launch: WatchedLaunch) -> None:
        """Wait for a launch on the GPU. Raises GpuFault: it failed."""
        copies, self._copies = self._copies, {}
        if launch.device != "gpu" or not copies:
            return
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            if (died := gpu_fault(error)) is None:
                raise
            raise _checked(launch, copies, died) from error


def _checked(launch: WatchedLaunch, copies: dict[str, object], died: str) -> GpuFault:
    """Return the error of a launch that failed, with the findings of a check on the CPU."""
    name = _name(launch)
    what = f"the launch of {name!r} on grid {joined_sizes(launch.grid)} failed on the GPU ({died})"
    try:
        findings = check(launch.kernel, launch.grid, *copies.values())
    except KernelLabError as error:
        return GpuFault(
            f"{what}. On the CPU, with copies of its arguments, it stops: {error.problem}",
            advice=f"{error.advice} {_RESTART}".strip(),
            position=error.position,
            kernel=name,
        )
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return GpuFault(
            f"{what}. A check on the CPU, on copies of its arguments, finds no fault.",
            advice=(
                f"{_RESTART} The compiler may have generated wrong code: kernellab.bisect names "
                "the pass that changes the results."
            ),
            position=None,
            kernel=name,
            findings=findings,
        )
    first = errors[0]
    return GpuFault(
        f"{what}. A check on the CPU, with copies of its arguments, finds the fault "
        f"{_place(first)}: {first.what}",
        advice=f"{first.advice} {_RESTART}".strip(),
        position=first.position,
        kernel=name,
        findings=findings,
    )


def _place(finding: Finding) -> str:
    program = f"in program {finding.programs[0]}" if finding.programs else "in the program"
    return f"{program}{finding.element_text}"


def _name(launch: WatchedLaunch) -> str:
    return str(getattr(launch.kernel, "__name__", launch.kernel))


# Findings on autotuners, tried: a launch goes through the trials of all configs on one memory, as
# an autotuner makes them, as it is and with restore_value.


_MOST_CONFIGS = 8
"""The most configs that are tried: the first few are enough."""


@dataclass(frozen=True)
class TunedLaunch:
    """A launch of an autotuned kernel.

    Attributes:
        values: its arguments by parameter, with the constants of the first config.
    """

    launch: BoundLaunch
    kernel: Any
    values: Mapping[str, Any]
    examine: Callable[..., Findings]

    def completed(self, findings: Findings) -> Findings:
        """Return the findings with what the trials leave in an argument, and with restore_value if
        that helps.
        """
        tuner = self.launch.kernel
        if not isinstance(tuner, Autotuner) or not isinstance(tuner.fn, JITFunction):
            return findings
        known = tuple(
            self._tried(finding, findings, tuner) if finding.kind == "autotune" else finding
            for finding in findings.findings
        )
        return replace(findings, findings=known)

    def _tried(self, finding: Finding, before: Findings, tuner: Autotuner) -> Finding:
        name = finding.argument
        if not isinstance(self.values.get(name), torch.Tensor):
            return finding
        try:
            apart = self._after_trials(tuner, name)
            kept = restoring(tuner, name)
            helps = self._after_trials(kept, name) is None
            after = self.examine(kept).findings
        except KernelLabError:  # of a config that does not compile, or leaves a tensor
            return finding
        if apart is None:
            return replace(finding, severity="note", why=_AS_BEFORE)
        number = counted(min(len(tuner.configs), _MOST_CONFIGS), "config")
        effect = (
            f"After a trial of {number}, the launch leaves {number_text(apart.actual)} in "
            f"{element_text(name, apart.index)}; without a trial, it leaves "
            f"{number_text(apart.expected)}."
        )
        finding = replace(finding, why=effect)
        remaining, known = {*map(key_of, after)}, {*map(key_of, before.findings)}
        if not helps or key_of(finding) in remaining or not remaining <= known:
            return finding
        advice = f'Pass restore_value=["{name}"] to triton.autotune.'
        if name in tuner.reset_to_zero:
            advice = f'Pass restore_value=["{name}"] in place of reset_to_zero.'
        return replace(finding, advice=f"{advice} {TRIED}", verified=True)

    def _after_trials(self, tuner: Autotuner, name: str) -> Difference | None:
        """Return where the trials of all configs change what the launch leaves in an argument."""
        configs = tuner.configs[:_MOST_CONFIGS]
        alone, tuned = copied(self.values), copied(self.values)
        self._run(configs[0], alone)
        for config in configs:
            tuner.pre_hook(tuned)
            self._run(config, tuned)
            tuner.post_hook(tuned, exception=None)
        tuner.pre_hook(tuned, reset_only=True)
        self._run(configs[0], tuned)
        expected, actual = (dict(tensors_in(values))[name] for values in (alone, tuned))
        return next(compare({name: actual}, {name: expected}, Tolerances()), None)

    def _run(self, config: Config, values: Mapping[str, Any]) -> None:
        run(BoundLaunch(self.kernel, self.launch.grid, (), {**values, **config.kwargs}))


_AS_BEFORE = "With the values of this launch, the trials leave the same results as one launch."
