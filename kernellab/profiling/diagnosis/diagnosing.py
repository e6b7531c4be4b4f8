"""`kernellab.diagnose`: why a kernel is slow, what costs most first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from math import prod
from typing import Any

import torch

from kernellab.common import doors
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.formatting import shown
from kernellab.compiler.kept import compile_kept
from kernellab.errors import ArgumentError, KernelLabError, OptionError
from kernellab.interpreter.execution.grid import check_grid
from kernellab.launch.preparation import EntryPoint, Grid, apart_from_parameters, prepare
from kernellab.profiling.accesses.counting import accesses
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.diagnosis.evidence import ASSUMED_TURNS, ASSUMED_WAVES, Evidence, Loop
from kernellab.profiling.diagnosis.loop_turns import counted_turns
from kernellab.profiling.diagnosis.records import (
    WORTH_SAYING,
    CostFinding,
    Diagnoses,
    Diagnosis,
)
from kernellab.profiling.diagnosis.rule import Rule, all_rules
from kernellab.profiling.estimates.sampling import with_memory
from kernellab.records import AskedLaunch, Compilation, Target

_MOST_COUNTED = 1 << 21
"""Elements that a launch accesses, up to which it is run on the interpreter without being asked."""

_DIAGNOSE = EntryPoint(
    "diagnose",
    {
        "stage": (why := "diagnose looks at what the compiler ends with"),
        "order": why,
        "seed": why,
        "bounds": why,
    },
    on_gpu="bound",
    runs_hooks=False,
)


@dataclass(frozen=True)
class Asked:
    """What `diagnose` was given beside its subject; see there."""

    args: tuple[Any, ...] = ()
    grid: Any = None
    target: Any = None
    counts: Any = None
    keywords: Mapping[str, Any] = ()  # type: ignore[assignment]

    def takes_nothing_of_a_launch(self, subject: str) -> None:
        """Raise ArgumentError where a launch was said of what has its own."""
        if self.args or self.grid is not None or self.target is not None or dict(self.keywords):
            raise ArgumentError(
                f"diagnose takes no launch beside {subject}, which knows its own.",
                advice="Give it alone.",
            )


@names_bad_arguments
def diagnose(
    subject: Any,
    *args: Any,
    grid: Grid = None,
    target: str | Target | None = None,
    counts: bool | Accesses | None = None,
    **keywords: Any,
) -> Diagnosis | Diagnoses:
    """Say why a kernel is slow: findings ranked by what they cost, each with its line, its evidence
    and what to change. No GPU is needed, and nothing is timed.

    Args:
        subject: a kernel, whose arguments and grid follow; or what is known of one: a
            `Compilation`, what `kernellab.accesses` gave, a `Tuning`, a report of
            `kernellab.graph` or one of its kernels.
        args, keywords: of a kernel as for `kernellab.compile`, values or type strings; of a
            compilation the values of its parameters, as far as they are known. Of tensors nothing
            is read unless the launch is counted; meta tensors do.
        grid: of the launch; without it a grid is assumed that fills the GPU.
        target: the GPU, "sm_90", ...; None means the one that a launch would emulate.
        counts: what `kernellab.accesses` gave for the launch; True runs the launch on the
            interpreter to count, False does not; None does where the launch is small.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Returns:
        The Diagnosis: a sequence of findings. Of what has several kernels, Diagnoses.

    Raises:
        ArgumentError, OptionError, TargetError, GridError, CompileError: as `kernellab.compile` and
            `kernellab.accesses`.
    """
    if diagnosed.dispatch(type(subject)) is diagnosed.dispatch(object):
        doors.records_that_are_diagnosed()
    found = diagnosed(subject, Asked(args, grid, target, counts, keywords))
    assert isinstance(found, Diagnosis | Diagnoses)
    return found


@singledispatch
def diagnosed(subject: Any, asked: Asked) -> Any:
    """The diagnosis of a subject, by its class; of anything else, as a kernel."""
    own, keywords = apart_from_parameters(
        _Options(asked.grid, asked.target, asked.counts), subject, asked.args, asked.keywords
    )
    args = tuple(_with_memory(one) for one in asked.args)
    keywords = {name: _with_memory(one) for name, one in keywords.items()}
    launch = prepare(subject, own.grid, args, keywords, own.target, _DIAGNOSE)
    _check_counts(own.counts)
    sizes = None if launch.grid is None else check_grid(launch.grid, launch.call.values)
    compilation = compile_kept(launch.kernel, launch.call, launch.target)
    evidence = Evidence(compilation, sizes, integers_of(launch.call.values))
    whole = AskedLaunch(subject, launch.grid, args, keywords, launch.target)
    meta = [one for one in (*asked.args, *asked.keywords.values()) if _is_meta(one)]
    can_run = sizes is not None and not meta and not launch.call.stated
    has_integers = all(one.is_floating_point() for one in meta) and not launch.call.stated
    if sizes is not None and has_integers and not all(one.is_known for one in _loops(evidence)):
        turns = counted_turns(compilation, launch.kernel, sizes, launch.call)
        evidence = replace(evidence, turns=turns)
    return _diagnosis(evidence, own.counts, whole if can_run else None)


def _is_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_meta


def _with_memory(value: Any) -> Any:
    """In the place of a meta tensor one of zeros, which take no room."""
    return with_memory({"": value})[""] if _is_meta(value) else value


@dataclass(frozen=True)
class _Options:
    """What `diagnose` itself is told; see there."""

    grid: Any = None
    target: Any = None
    counts: Any = None


@diagnosed.register
def _of_compilation(compilation: Compilation, asked: Asked) -> Diagnosis:
    if asked.target is not None:
        raise OptionError(
            f"target={shown(asked.target)}: this is a compilation for {compilation.target}.",
            advice="Leave it out, or give the kernel.",
        )
    _check_counts(asked.counts)
    values = _by_name(compilation, asked.args, dict(asked.keywords))
    sizes = None if asked.grid is None else check_grid(asked.grid, values)
    evidence = Evidence(compilation, sizes, integers_of(values))
    return _diagnosis(evidence, asked.counts, None)


@diagnosed.register
def _of_accesses(counts: Accesses, asked: Asked) -> Any:
    asked.takes_nothing_of_a_launch("counted accesses")
    if counts.asked is None:
        raise ArgumentError(
            "These accesses were counted of a text, whose launch is not at hand.",
            advice="Count those of a kernel: kernellab.accesses(kernel, grid, ...).",
        )
    one = counts.asked
    return diagnosed(one.kernel, Asked(one.args, one.grid, one.target, counts, dict(one.keywords)))


@diagnosed.register
def _of_launch(launch: AskedLaunch, asked: Asked) -> Any:
    asked.takes_nothing_of_a_launch("a launch")
    return diagnosed(
        launch.kernel,
        Asked(launch.args, launch.grid, launch.target, asked.counts, dict(launch.keywords)),
    )


@diagnosed.register
def _of_diagnosis(diagnosis: Diagnosis, asked: Asked) -> Diagnosis:
    asked.takes_nothing_of_a_launch("a diagnosis")
    return diagnosis


def _check_counts(counts: Any) -> None:
    if counts is not None and not isinstance(counts, bool | Accesses):
        raise OptionError(
            f"counts={shown(counts)} is nothing that was counted.",
            advice="Give what kernellab.accesses gave, or True, False or None.",
        )


def _by_name(
    compilation: Compilation, args: Sequence[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
    names = list(compilation.specialization.signature)
    if len(args) > len(names):
        raise ArgumentError(
            f"{compilation.kernel!r} has {len(names)} parameters, and {len(args)} values are given."
        )
    unknown = [name for name in keywords if names and name not in names]
    if unknown:
        raise ArgumentError(
            f"{unknown[0]!r} is no parameter of {compilation.kernel!r}.",
            advice=f"Its parameters are {', '.join(names)}.",
        )
    constants = {
        names[path[0]]: value
        for path, value in compilation.specialization.constants.items()
        if len(path) == 1 and path[0] < len(names)
    }
    return {**constants, **dict(zip(names, args)), **keywords}


def integers_of(values: Mapping[str, Any]) -> dict[str, int]:
    """The integers among arguments, by name."""
    return {
        name: int(value)
        for name, value in values.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


# What is found


def _diagnosis(evidence: Evidence, counts: Any, asked: AskedLaunch | None) -> Diagnosis:
    notes: list[str] = []
    if isinstance(counts, Accesses):
        evidence.counts = counts
    elif counts is True and asked is None:
        raise ArgumentError(
            "There is nothing to count: a launch needs its grid and the values of all arguments.",
            advice="Give grid=(...) and tensors on the CPU, or leave counts out.",
        )
    elif counts is not False and asked is not None:
        evidence = _counted(evidence, asked, bool(counts), notes)
    return diagnosis_of(evidence, asked, notes)


def diagnosis_of(
    evidence: Evidence, asked: AskedLaunch | None = None, notes: Sequence[str] = ()
) -> Diagnosis:
    """What every rule finds in a kernel's evidence, ranked."""
    said = [*notes]
    if "ttgir" not in evidence.compilation.stages:
        said.append("The record has no TTGIR: rules that read it have nothing to say.")
    found = [one for each in all_rules() for one in _asked(each, evidence, said)]
    told = [one for one in found if one.cost >= WORTH_SAYING or one.severity == "note"]
    ranked = sorted(told, key=lambda one: -one.cost)
    return Diagnosis(
        kernel=evidence.compilation.kernel,
        target=str(evidence.compilation.target),
        grid=evidence.grid,
        findings=tuple(ranked),
        parts=_parts(evidence),
        notes=(*_assumed(evidence), *dict.fromkeys(said)),
        compilation=evidence.compilation,
        asked=asked,
    )


def _asked(rule: Rule, evidence: Evidence, notes: list[str]) -> list[CostFinding]:
    """What a rule finds; nothing where what it needs is not there. One that fails says so, and the
    others go on: a kernel may hold what nobody here has met.
    """
    if not all(_is_there(need, evidence) for need in rule.needs):
        return []
    try:
        return list(rule.find(evidence))
    except Exception as error:
        notes.append(f"{', '.join(rule.kinds)} could not be looked at: {error!r}")
        return []


def _is_there(need: str, evidence: Evidence) -> bool:
    match need:
        case "ttgir":
            return "ttgir" in evidence.compilation.stages
        case "resources" | "occupancy" | "instructions":
            return evidence.compilation.can_answer(need)
        case "grid":
            return evidence.grid is not None
        case _:
            return evidence.counts is not None


def _parts(evidence: Evidence) -> dict[str, float]:
    try:
        parts = vars(evidence.parts)
    except Exception:  # of a module that nobody here can read; the rules have said it
        return {}
    return {name: round(float(value), 4) for name, value in parts.items()}


def _assumed(evidence: Evidence) -> Iterator[str]:
    if evidence.grid is None:
        yield (
            f"The grid is not known: as many programs are assumed as fill the GPU "
            f"{ASSUMED_WAVES} times. grid=(...) says it."
        )
    unknown = [one for one in _loops(evidence) if not one.is_known]
    lines = dict.fromkeys(str(one.position.line) for one in unknown if one.position is not None)
    if unknown:
        yield (
            f"How many iterations the loop{'' if len(lines) == 1 else 's'} on line "
            f"{', '.join(lines) or '?'} takes is not known: {ASSUMED_TURNS} are assumed."
        )


def _loops(evidence: Evidence) -> tuple[Loop, ...]:
    try:
        return tuple(evidence.loops.values())
    except Exception:  # of a module that nobody here can read; the rules will say it
        return ()


def _counted(evidence: Evidence, asked: AskedLaunch, must: bool, notes: list[str]) -> Evidence:
    """The evidence with what a run on the interpreter counts, where that is wanted."""
    if not must:
        if evidence.compilation.target.backend != "cuda":
            return evidence
        try:
            elements = evidence.programs * sum(
                prod(one.shape or (1,)) * one.times for one in evidence.accesses
            )
        except Exception:  # the rules will say what cannot be read
            return evidence
        if elements > _MOST_COUNTED:
            notes.append(
                f"The launch accesses about {elements:,.0f} elements and was not run: what its "
                "accesses cost is worked out. counts=True runs it on the interpreter."
            )
            return evidence
    try:
        counts = asked.given_to(accesses)
    except KernelLabError as error:
        if must:
            raise
        notes.append(f"Accesses were not counted: {error.problem}")
        return evidence
    return replace(evidence, counts=counts)
