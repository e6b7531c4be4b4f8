"""`kernellab.diagnose`: why a kernel is slow, the most expensive findings first."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import singledispatch
from math import prod
from typing import Any, TypeVar

import torch

from kernellab.common.arguments import parameters_first
from kernellab.common.text import shown
from kernellab.compiler.arguments import StatedType
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.kernels import parameter_names, unwrap_kernel
from kernellab.compiler.pipeline import compile_kept
from kernellab.errors import ArgumentError, KernelLabError, OptionError
from kernellab.interpreter.codegen.emitter import emit_entry_events
from kernellab.interpreter.execution.grid import check_grid
from kernellab.interpreter.execution.program import program_of_module
from kernellab.ir import mlir
from kernellab.launch.argument_copies import integers_of, tensors_in
from kernellab.launch.preparation import EntryPoint, Grid, prepare, refused
from kernellab.profiling.accesses.counts import accesses, accesses_in
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.diagnosis.evidence import ASSUMED_TURNS, ASSUMED_WAVES, Evidence, Loop
from kernellab.profiling.diagnosis.records import WORTH_SAYING, CostFinding, Diagnoses, Diagnosis
from kernellab.profiling.diagnosis.rules import Rule, all_rules
from kernellab.profiling.diagnosis.traffic import Traffic, deciding_arguments
from kernellab.profiling.estimates.counts import entries_of, sampled, with_memory
from kernellab.profiling.estimates.estimate import estimate, named
from kernellab.profiling.estimates.model import notes_on
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import ProfiledKernel, ProfiledLine
from kernellab.profiling.profiles.session import ProfileSession
from kernellab.records import BoundLaunch, Target

T = TypeVar("T")


def _parameter_names(subject: Any) -> Sequence[str]:
    if isinstance(subject, Compilation):
        return list(subject.specialization.signature)
    return parameter_names(subject)


def _begins_with_grid(
    subject: Any, names: Sequence[str], args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> bool:
    if not isinstance(args[0], tuple):
        return callable(args[0]) and not hasattr(args[0], "arg_names")
    named = keywords
    with suppress(KernelLabError):  # of a record, or of a tuple that is the first argument
        _, named = unwrap_kernel(subject, args[1:], keywords, {})
    return len(args) + len({*names} & {*named}) > len(names)


_MOST_COUNTED = 1 << 21
"""The most elements that a launch may access to be run on the interpreter by default."""

_DIAGNOSE = EntryPoint(
    "diagnose",
    refused("diagnose looks at what the compiler ends with"),
    on_gpu="bound",
    runs_hooks=False,
)


@dataclass(frozen=True)
class Asked:
    """The arguments of `diagnose` in addition to its subject; see there."""

    args: tuple[Any, ...] = ()
    grid: Any = None
    target: Any = None
    counts: Any = None
    keywords: Mapping[str, Any] = ()  # type: ignore[assignment]

    def takes_nothing_of_a_launch(self, subject: str) -> None:
        """Raise ArgumentError if a launch is given for a subject that has its own."""
        if self.args or self.grid is not None or self.target is not None or dict(self.keywords):
            raise ArgumentError(
                f"diagnose takes either a launch or {subject}, got both.",
                advice="Pass it alone, without arguments, grid and target.",
            )


@parameters_first(_parameter_names)
def diagnose(
    subject: Any,
    args: tuple[Any, ...],
    keywords: Mapping[str, Any],
    *,
    grid: Grid = None,
    target: str | Target | None = None,
    counts: bool | Accesses | None = None,
) -> Diagnosis | Diagnoses:
    """Find out why a kernel is slow. Findings are ranked by their cost; each has its line, its
    evidence and a change to try. This needs no GPU, and nothing is timed.

    Args:
        subject: a kernel, followed by its arguments and grid, or by its grid and arguments as for
            `kernellab.check`; a bound launch; a `Compilation`, a result of `kernellab.accesses`, a
            `Tuning`, a report of `kernellab.graph` or one of its kernels.
        args, keywords: for a kernel as for `kernellab.compile`, values or type strings; for a
            compilation the values of its parameters, as far as they are known. The contents of
            tensors are read only if the launch is counted, so meta tensors are enough otherwise.
        grid: the grid of the launch; without it, one is assumed that fills the GPU.
        target: the GPU, such as "sm_90"; None for the one that a launch would emulate.
        counts: a result of `kernellab.accesses` for this launch. True runs the launch on the
            interpreter to count its accesses, False does not, and None does so for small launches.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Returns:
        The Diagnosis, a sequence of findings. For a subject with several kernels, Diagnoses.

    Raises:
        ArgumentError, OptionError, TargetError, GridError, CompileError: as `kernellab.compile` and
            `kernellab.accesses`.
    """
    names = _parameter_names(subject)
    if grid is None and names and args and _begins_with_grid(subject, names, args, keywords):
        grid, args = args[0], args[1:]
    request = Asked(args, grid, target, counts, keywords)
    own = getattr(subject, "diagnosed", None)  # of a record of a higher package
    diagnosis = diagnosed(subject, request) if own is None else own(request)
    assert isinstance(diagnosis, Diagnosis | Diagnoses)
    return diagnosis


@singledispatch
def diagnosed(subject: Any, request: Asked) -> Any:
    """The diagnosis of a subject, by its class; of anything else, as a kernel."""
    args = tuple(_with_memory(arg) for arg in request.args)
    keywords = {name: _with_memory(value) for name, value in request.keywords.items()}
    launch = prepare(subject, request.grid, args, keywords, request.target, _DIAGNOSE)
    _check_counts(request.counts)
    sizes = None if launch.grid is None else check_grid(launch.grid, launch.call.values)
    compilation = compile_kept(launch.kernel, launch.call, launch.target)
    evidence = Evidence(compilation, sizes, integers_of(launch.call.values))
    whole = BoundLaunch(subject, launch.grid, args, keywords, launch.target)
    pairs = zip((*args, *keywords.values()), (*request.args, *request.keywords.values()))
    meta = {new.data_ptr() for new, given in pairs if _is_meta(given)}
    can_run = sizes is not None and not meta and not launch.call.stated
    values = _with_stated(evidence, launch.call.values, meta)
    if sizes is None or values is None:
        return _diagnosis(evidence, request.counts, whole if can_run else None)
    evidence, notes = _estimated(evidence, values)
    unknown = _branches(evidence) or not all(loop.is_known for loop in _loops(evidence))
    if evidence.estimate is None and unknown:
        call = replace(launch.call, values=with_memory(values))
        entries = _counted_entries(compilation, launch.kernel, sizes, call)
        evidence = replace(evidence, entries=entries)
    return _diagnosis(evidence, request.counts, whole if can_run else None, notes)


def _counted_entries(
    compilation: Compilation, kernel: Any, grid: tuple[int, int, int], call: BoundCall
) -> tuple[float, ...]:
    """How often a program enters each block of the TTGIR; nothing if unknown."""
    if any(tensor.device.type != "cpu" for _, tensor in tensors_in(call.values)):
        return ()
    try:
        code = program_of_module(compilation.module("ttgir"), kernel, after=emit_entry_events)
        accesses_known = accesses_in(code, compilation.target)
        ran = sampled(kernel, grid, call, code, accesses_known)
    except KernelLabError:
        return ()
    return entries_of(code.module, ran.entries)


def _sampled(evidence: Evidence, values: Mapping[str, Any]) -> tuple[Evidence, list[str]]:
    """Return the evidence with the estimate of its launch, if enough of the values is known."""
    known = _with_stated(evidence, values)
    if known is None or evidence.grid is None:
        return evidence, []
    return _estimated(evidence, known)


def _estimated(evidence: Evidence, values: Mapping[str, Any]) -> tuple[Evidence, list[str]]:
    """Return the evidence with the estimate of its launch, or with a note that says why not."""
    compilation, grid = evidence.compilation, evidence.grid
    names = list(compilation.specialization.signature)
    known = {name: value for name, value in values.items() if name in names}
    try:
        launch = estimate(compilation, grid, (), known)
        return replace(evidence, estimate=launch, values=known), []
    except KernelLabError as error:
        words = f"What the launch does was worked out from the TTGIR, not sampled: {error.problem}"
        return evidence, [words]


_DTYPES = {
    "fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64,
    "i1": torch.bool, "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64,
}  # fmt: skip
_STATED_BYTES = 1 << 32
"""Of a tensor of which only the type is known: more than programs go to. It takes no memory."""


def _with_stated(
    evidence: Evidence, values: Mapping[str, Any], zeros: Container[int] = ()
) -> dict[str, Any] | None:
    """Return the values of a launch with meta tensors in place of pointers of which only the type
    is known; None if more than these is unknown, or integers that decide what programs do.

    Args:
        zeros: addresses of tensors whose values are not known, although they have some.
    """
    compilation = evidence.compilation
    names = compilation.specialization.constants_by_name
    known: dict[str, Any] = {}
    for name, type in compilation.specialization.signature.items():
        value = values.get(name)
        if isinstance(value, StatedType | str) and type != "constexpr":
            value = None
        if value is None and type != "constexpr" and name not in names:
            is_pointer = isinstance(type, str) and type.startswith("*")
            dtype = _DTYPES.get(type[1:].removeprefix("k")) if is_pointer else None
            if dtype is None:
                return None
            value = torch.empty(_STATED_BYTES // dtype.itemsize, dtype=dtype, device="meta")
        known[name] = value
    unseen = {
        name.partition("[")[0]
        for name, tensor in tensors_in(known)
        if not tensor.is_floating_point()
        and (tensor.device.type != "cpu" or tensor.data_ptr() in zeros)
    }
    if unseen:
        deciding = _readable(lambda: deciding_arguments(evidence.module), None)
        if deciding is None or deciding & unseen:
            return None
    return known


def _is_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_meta


def _with_memory(value: Any) -> Any:
    """Return zeros that take no memory in place of a meta tensor, and anything else unchanged."""
    return with_memory({"": value})[""] if _is_meta(value) else value


@diagnosed.register
def _of_compilation(compilation: Compilation, request: Asked) -> Diagnosis:
    if request.target is not None:
        raise OptionError(
            f"target is {shown(request.target)}, but this is a compilation for "
            f"{compilation.target}.",
            advice="Leave target out, or pass the kernel.",
        )
    _check_counts(request.counts)
    names = list(compilation.specialization.signature)
    given = named(compilation.kernel, names, request.args, dict(request.keywords))
    values = {**compilation.specialization.constants_by_name, **given}
    sizes = None if request.grid is None else check_grid(request.grid, values)
    evidence, notes = _sampled(Evidence(compilation, sizes, integers_of(values)), values)
    return _diagnosis(evidence, request.counts, None, notes)


@diagnosed.register
def _of_accesses(counts: Accesses, request: Asked) -> Any:
    request.takes_nothing_of_a_launch("counted accesses")
    if counts.launch is None:
        raise ArgumentError(
            "These accesses were counted from a saved text, which does not contain the launch.",
            advice="Count the accesses of a kernel: kernellab.accesses(kernel, grid, ...).",
        )
    return _of_launch(counts.launch, replace(request, counts=counts))


@diagnosed.register
def _of_launch(launch: BoundLaunch, request: Asked) -> Any:
    request.takes_nothing_of_a_launch("a launch")
    return diagnosed(
        launch.kernel,
        Asked(launch.args, launch.grid, launch.target, request.counts, dict(launch.keywords)),
    )


@diagnosed.register
def _of_diagnosis(diagnosis: Diagnosis, request: Asked) -> Diagnosis:
    request.takes_nothing_of_a_launch("a diagnosis")
    return diagnosis


def _check_counts(counts: Any) -> None:
    if counts is not None and not isinstance(counts, bool | Accesses):
        raise OptionError(
            f"counts must be True, False, None or counted accesses, got {shown(counts)}.",
            advice="Pass the result of kernellab.accesses.",
        )


def _diagnosis(
    evidence: Evidence, counts: Any, launch: BoundLaunch | None, said: Sequence[str] = ()
) -> Diagnosis:
    notes = [*said]
    if isinstance(counts, Accesses):
        evidence.counts = counts
    elif counts is True and launch is None:
        raise ArgumentError(
            "counts=True needs the grid and the values of all arguments.",
            advice="Pass grid=(...) and the arguments, or omit counts=.",
        )
    elif counts is not False and launch is not None:
        evidence = _counted(evidence, launch, bool(counts), notes)
    return diagnosis_of(evidence, launch, notes)


def diagnosis_of(
    evidence: Evidence, launch: BoundLaunch | None = None, notes: Sequence[str] = ()
) -> Diagnosis:
    """The findings of every rule in a kernel's evidence, ranked."""
    said = [*notes]
    with suppress(KernelLabError):
        said += notes_on(evidence.gpu)
    rules: tuple[Rule, ...] = ()
    if "ttgir" in evidence.compilation.stages:
        rules = all_rules()
    else:
        said.append("The record has no TTGIR: rules that read it were skipped.")
    findings = [finding for each in rules for finding in _asked(each, evidence, said)]
    reported = [
        finding
        for finding in findings
        if finding.cost >= WORTH_SAYING or finding.severity == "note"
    ]
    ranked = sorted(reported, key=lambda finding: -finding.cost)
    return Diagnosis(
        kernel=evidence.compilation.kernel,
        target=str(evidence.compilation.target),
        grid=evidence.grid,
        findings=tuple(ranked),
        parts=_readable(
            lambda: {name: round(value, 4) for name, value in evidence.costs.parts.items()}, {}
        ),
        microseconds=_readable(lambda: evidence.costs.microseconds, None),
        estimate=evidence.estimate,
        notes=(*_assumed(evidence), *dict.fromkeys([*_unknown_steps(evidence), *said])),
        compilation=evidence.compilation,
        launch=launch,
    )


def _asked(rule: Rule, evidence: Evidence, notes: list[str]) -> list[CostFinding]:
    """The findings of a rule; if the rule raises, a note, because a kernel may contain anything."""
    try:
        return list(rule.find(evidence))
    except Exception as error:  # a kernel may contain what the rule did not expect
        notes.append(f"The rule of {', '.join(rule.kinds)} could not be applied: {error!r}")
        return []


def _readable(read: Callable[[], T], otherwise: T) -> T:
    """Return what is read of a module; `otherwise` if it cannot be, which the rules report."""
    try:
        return read()
    except Exception:  # a kernel may contain what no analysis expects
        return otherwise


def _assumed(evidence: Evidence) -> Iterator[str]:
    if evidence.grid is None:
        yield (
            f"The grid is not known: it is assumed to fill the GPU {ASSUMED_WAVES} times. Pass "
            "grid=(...) for the launch's own."
        )
    unknown = [loop for loop in _loops(evidence) if not loop.is_known]
    lines = dict.fromkeys(str(loop.position.line) for loop in unknown if loop.position is not None)
    if unknown:
        yield (
            f"The number of iterations of the loop{'' if len(lines) == 1 else 's'} on line "
            f"{', '.join(lines) or '?'} is not known: {ASSUMED_TURNS} are assumed."
        )
    if _branches(evidence) and not evidence.entered:
        yield "Which programs take a branch is not known: all are assumed to."


def _branches(evidence: Evidence) -> bool:
    """Whether not all programs may execute all operations."""
    return _readable(lambda: any(True for _ in evidence.of_class(mlir.IfOp)), False)


def _unknown_steps(evidence: Evidence) -> Iterator[str]:
    """Return a note on each access for which the distance of its lanes is not known."""
    accesses_known: tuple[Traffic, ...] = _readable(lambda: tuple(evidence.accesses), ())
    for access in accesses_known:
        if access.is_unknown:
            line = "" if access.position is None else f" on line {access.position.line}"
            yield (
                f"How far apart neighboring lanes of the {access.action} of "
                f"{access.argument or 'memory'}{line} are is not known: they are taken as "
                "contiguous. Pass the launch's tensors and integers."
            )


def _loops(evidence: Evidence) -> tuple[Loop, ...]:
    return _readable(lambda: tuple(evidence.loops.values()), ())


def _elements(evidence: Evidence) -> float:
    each = sum(prod(access.shape or (1,)) * access.times for access in evidence.accesses)
    return evidence.programs * each


def _counted(evidence: Evidence, launch: BoundLaunch, must: bool, notes: list[str]) -> Evidence:
    """The evidence with what a run on the interpreter counts, if that is wanted."""
    if not must:
        if evidence.compilation.target.backend != "cuda":
            return evidence
        elements = _readable(lambda: _elements(evidence), None)
        if elements is None:
            return evidence
        if elements > _MOST_COUNTED:
            notes.append(
                f"The launch accesses about {elements:,.0f} elements and was not run: the "
                "costs of its accesses come from the TTGIR. Pass counts=True to run it."
            )
            return evidence
    try:
        counts = accesses(launch)
    except KernelLabError as error:
        if must:
            raise
        notes.append(f"Accesses were not counted: {error.problem}")
        return evidence
    notes.extend(counts.notes)
    return replace(evidence, counts=counts)


# How `kernellab.diagnose` takes a `Profile`: each kernel that can be compiled here, in the order
# of the time that it takes.


@diagnosed.register
def diagnosed_session(session: ProfileSession, request: Asked) -> Diagnoses:
    """Of what a `with kernellab.profile()` measured."""
    return diagnosed_profile(session.profile, request)


@diagnosed.register
def diagnosed_profile(profile: Profile, request: Asked) -> Diagnoses:
    """Of each kernel of a profile, with its share of the time of all."""
    request.takes_nothing_of_a_launch("a profile")
    times = dict.fromkeys((kernel.name for kernel in profile.kernels), 0.0)
    for name, time in profile.kernel_times.items():
        if (kernel := profile.kernel(name)) is not None:
            times[kernel.name] += time
    whole = sum(times.values())
    shared_diagnoses: list[tuple[Diagnosis, float | None]] = []
    notes = []
    for kernel in sorted(profile.kernels, key=lambda kernel: -times[kernel.name]):
        share = times[kernel.name] / whole if whole else None
        made = _of_kernel(profile, kernel)
        if isinstance(made, str):
            notes.append(made)
        else:
            shared_diagnoses.append((made, share))
    if not profile.kernels:
        notes.append("The profile does not have its kernels, so there is nothing to diagnose.")
    return Diagnoses(
        tuple(diagnosis for diagnosis, _ in shared_diagnoses),
        tuple(share for _, share in shared_diagnoses),
        (*notes,),
    )


def _of_kernel(profile: Profile, kernel: ProfiledKernel) -> Diagnosis | str:
    try:
        compilation = kernel.compilation
    except KernelLabError as error:
        return f"{kernel.name}: {error.problem}"
    if compilation is None:
        return f"The source of {kernel.name!r} is not available, so there is nothing to diagnose."
    evidence = Evidence(compilation, kernel.grid, kernel.integers)
    evidence, notes = _sampled(evidence, kernel.integers)
    lines = [record for record in profile.line_records if record.kernel == kernel.name]
    return diagnosis_of(evidence, notes=[*_measured(lines), *notes])


def _measured(lines: Sequence[ProfiledLine]) -> Iterator[str]:
    """Yield the hottest line in words; with stall reasons, the three hottest."""
    sampled = any(_stalls(line) for line in lines)
    for line in sorted(lines, key=lambda line: -line.share)[: 3 if sampled else 1]:
        reasons = sorted(_stalls(line).items(), key=lambda reason: -reason[1])[:2]
        said = ", ".join(f"{name} {share:.0%}" for name, share in reasons)
        stalled = f" Its samples stall for: {said}." if reasons else ""
        yield f"Measured: line {line.line} has {line.share:.0%} of the kernel.{stalled}"


def _stalls(line: ProfiledLine) -> Mapping[str, float]:
    """Return the share of a line's samples by stall reason, under Nsight Compute's names."""
    samples = line.metrics.get("num_samples", 0.0)
    return {
        name.removeprefix("stalled_").replace("_", " ").lower(): number / samples
        for name, number in line.metrics.items()
        if samples and number and name.startswith("stalled_") and name != "stalled_selected"
    }
