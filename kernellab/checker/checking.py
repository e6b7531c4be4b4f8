"""`kernellab.check`: run a launch with every detector on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.detector import Detector, overrides, that_define
from kernellab.checker.detectors import DETECTORS
from kernellab.checker.failures import Failures
from kernellab.checker.records import Finding, Findings
from kernellab.checker.restrided import restrided
from kernellab.checker.session import CheckSession
from kernellab.checker.uninitialized import is_uninitialized
from kernellab.common.argument_checks import check_tolerance, check_whole, listed
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.formatting import shown
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.compiler.subjects import subject_of
from kernellab.errors import ArgumentError, suggestion
from kernellab.interpreter.execution.program import program_code
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.preparation import (
    EntryPoint,
    Grid,
    apart_from_parameters,
    prepare,
)
from kernellab.launch.right_results import Reference, expected_results
from kernellab.records import AskedLaunch, Target
from kernellab.records.run_options import DEFAULT


@names_bad_arguments
def check(
    kernel: Any,
    grid: Grid,
    *args: Any,
    outputs: str | Sequence[str] = (),
    target: str | Target | None = None,
    most_turns: int = 100_000,
    expect: Reference | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    **keywords: Any,
) -> Findings:
    """Run a launch with every detector on, and tell each fault that it finds once.

    The interpreter runs the kernel on copies of the arguments, which stay as they are.
    A fault does not stop the others from being found, as far as the run can go on.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`; of an autotuned kernel, the first
            config counts. Arguments wrapped in `kernellab.uninitialized` are memory that nobody has
            written. Of the interpreter's options, `stage` may be given.
        outputs: names of arguments that the kernel must write as a whole.
        target: the GPU to emulate, "sm_90", ...; None means the one that a launch would emulate.
        most_turns: a `while` loop that takes more turns is stopped, and told as endless.
        expect: right results by parameter, {"z_ptr": x + y}, or a function that computes them.
            One whose parameters are named as some of the kernel's is called with these; any other
            as the kernel is, or, where that does not fit it, with the tensors that the kernel reads
            only, in their order: `torch.matmul`. It may return the one tensor that the kernel
            writes, or a tuple of them. The first element that is off is a finding, with the line
            and the program that wrote it.
        rtol, atol: how far off elements may be, `atol + rtol * |expected|`; by default what sums in
            another order may be in the dtype.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Returns:
        The Findings; docs/checking.md tells what each kind means, and what is no finding.

    Raises:
        ArgumentError: arguments that do not fit, tensors on a GPU, a name in `outputs` that is no
            argument with memory, or what is expected fits no argument.
        OptionError, GridError, CompileError, UnsupportedOperation: as `kernellab.run`.
        KernelFault: what stops a run and is no finding: a gather from beyond its tile, a store
            into a read-only array.
    """
    __tracebackhide__ = True
    given = _CheckOptions(outputs, target, most_turns, expect, rtol, atol)
    own, keywords = apart_from_parameters(given, kernel, args, keywords)
    launch = prepare(kernel, grid, args, keywords, own.target, _CHECK)
    plain, call, chosen = launch.kernel, launch.call, launch.target
    sizes = launch.sizes()
    check_whole("most_turns", own.most_turns, least=1)
    check_tolerance("rtol", own.rtol)
    check_tolerance("atol", own.atol)
    named = _outputs(plain, call, own.outputs)
    stage = launch.options.stage
    if plain.is_gluon() and stage == DEFAULT.stage:
        stage = "ttgir"
    code = program_code(plain, call, chosen, stage)
    marked = tuple(name for name, one in tensors_in(call.values) if is_uninitialized(one))

    checked = CheckedRun(
        plain, call, code, sizes, chosen, named, marked, own.most_turns, restrided(call.values),
        expected=expected_results(own.expect, launch, code), tolerances=(own.rtol, own.atol),
    )  # fmt: skip
    session = CheckSession(checked, tuple(one for one in DETECTORS if one.guards))
    with ProgressBar(f"check {plain.__name__}", len(DETECTORS) + 1, "steps", UNTOUCHED) as work:
        failures = Failures()
        detectors, stopped = session.run_detectors(DETECTORS, failures)
        work.total = len(detectors) + 1
        asking = that_define("ask", detectors) if stopped is None else []
        work.advance(len(detectors) - len(asking))
        for one in asking:
            work.advance()
            with failures.kept(type(one)):
                one.ask(session)
    found = _in_order([*_found(detectors, failures), *([] if stopped is None else [stopped])])
    said = (note for one in detectors for note in one.notes)
    notes = (*(() if stopped is None else (_UNASKED,)), *said, *failures.notes())
    subject = subject_of(plain, launch.own_call, chosen)
    compared = tuple(checked.expected) if stopped is None else ()
    asked = AskedLaunch(kernel, grid, args, keywords, chosen)
    return Findings(plain.__name__, str(chosen), sizes, found, notes, subject, compared, asked)


_UNASKED = (
    "The run was stopped, since it would not have ended. Only what was seen until then is told: "
    "not races, outputs left unwritten, the order of programs, or what masked loads leave open."
)


def _found(detectors: Sequence[Detector], failures: Failures) -> Iterator[Finding]:
    """What they found, but for what one of them knows to be another fault's consequence;
    nothing of those that failed.
    """
    explained: set[Operation] = set()
    for one in that_define("explains", detectors):
        with failures.kept(type(one)):
            explained |= one.explains() if type(one) not in failures else frozenset()
    for one in detectors:
        if not one.collector and not overrides(type(one), "findings"):
            continue
        found: Sequence[Finding] = ()
        with failures.kept(type(one)):
            found = tuple(one.findings(explained))
        yield from found if type(one) not in failures else ()


def _in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By file and line; those of one line in the order in which they were found.
    A helper that is called several times has its fault told once.
    """

    def place(one: Finding) -> tuple[str, int]:
        outermost = (*one.calls, one.position)[0]
        return ("", 0) if outermost is None else (outermost.file, outermost.line)

    told: dict[Hashable, Finding] = {}
    for number, one in enumerate(findings):
        key = (one.kind, one.argument, one.position or number)
        told[key] = one.joined(told[key]) if key in told else one
    return tuple(sorted(told.values(), key=place))


# What was asked


_WHY_NOT = (
    "check takes no {}, because it runs the kernel in several orders, and checks accesses "
    "against storage and view"
)
_CHECK = EntryPoint(
    "check",
    {name: _WHY_NOT.format(name) for name in ("order", "seed", "bounds")},
    keeps_assertions=True,
)


@dataclass(frozen=True)
class _CheckOptions:
    """What `check` itself is told; see there."""

    outputs: Any = ()
    target: Any = None
    most_turns: Any = 100_000
    expect: Any = None
    rtol: Any = None
    atol: Any = None


def _outputs(kernel: Any, call: BoundCall, outputs: str | Sequence[str]) -> tuple[str, ...]:
    """The names, each of which must be that of an argument with memory."""
    given: Any = outputs  # whatever somebody wrote
    named = isinstance(given, Iterable) and not isinstance(given, bytes | torch.Tensor)
    names = (given,) if isinstance(given, str) else tuple(listed("outputs", given)) if named else ()
    if not named or not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            f"outputs={shown(outputs)} names no arguments of {kernel.__name__!r}",
            advice='Give a name or a list of names: outputs="z_ptr", outputs=["y_ptr", "z_ptr"].',
        )
    known = dict(tensors_in(call.values))
    for name in names:
        if name in known:
            continue
        problem = f"outputs names {name!r}, which is no argument of {kernel.__name__!r}"
        if name in call.values:
            problem = f"outputs names {name!r}, which is {call.values[name]!r} and no tensor"
        advice = suggestion(str(name), known, "Its tensors are")
        raise ArgumentError(problem, advice=advice, position=triton_api.definition_of(kernel))
    return names
