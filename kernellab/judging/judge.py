"""`kernellab.judge`: one verdict on a kernel, or on a function that launches kernels.

The submission's Python runs in a confined process on random numbers, where its launches are
written down. What is judged is the record: it is replayed here with the real inputs, which that
process never sees.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import torch

from kernellab import triton_api
from kernellab.checker.arguments import uninitialized
from kernellab.checker.check import check
from kernellab.checker.records import Finding, Findings
from kernellab.common.arguments import check_tolerance
from kernellab.common.system import StoppedForGood, limited
from kernellab.common.text import element_text, format_bytes, what_it_raised
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import parse_target
from kernellab.equality.equal import equal
from kernellab.errors import (
    ArgumentError,
    Diagnostic,
    KernelLabError,
    SourcePosition,
    UnsupportedOperation,
)
from kernellab.interpreter.execution.program import program_code
from kernellab.interpreter.memory.address_space import only_reachable
from kernellab.judging.budgets import Lock, cost_of, facts_of
from kernellab.judging.cases import UNSEEN, Cases, JudgedCase, Reference, Storages, derived, listed
from kernellab.judging.code import MOST_CONFIGS, Code, HostRequest, Texts
from kernellab.judging.confinement import unconfined
from kernellab.judging.outputs import CallOutputs, outputs_of_function, reads_values
from kernellab.judging.records import STAGES, Ended, JudgedKernel, Verdict
from kernellab.judging.replay import (
    LARGEST_MEMORY,
    BadRecord,
    RecordedLaunch,
    Replay,
    check_record,
    reading_record,
    view_of,
)
from kernellab.judging.submissions import code_of, confined, foreign_code, name_of
from kernellab.launch.argument_copies import copied
from kernellab.launch.reference_results import Results, right_results, usage_of
from kernellab.launch.results import Tolerances, Within, is_finite, rounding_of
from kernellab.records import BoundLaunch, Target

SECONDS = 60.0
"""A submission that takes longer counts as one that does not end."""

_MOST_TURNS = 20_000
_COMPILED = 8
"""The configs of an autotuner that are compiled to machine code, beside those of the cases."""


def judge(
    submission: Any,
    reference: Any,
    cases: Cases,
    *,
    targets: str | Sequence[str] = "sm_90",
    baseline: float | None = None,
    claimed: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    init: Sequence[Any] = (),
    unseen: Sequence[str] = UNSEEN,
    seconds: float = SECONDS,
    lock: str | Path | None = None,
    update: bool = False,
    imports: Sequence[str] = (),
) -> Verdict:
    """Judge a kernel, or a function that launches kernels, against a reference.

        kernellab.judge("answer.py::softmax", torch_softmax, [(torch.randn(64, 200),)])
        kernellab.judge(kernel, lambda x_ptr: {"z_ptr": 2 * x_ptr}, [{"grid": (4,), ...}])

    Args:
        submission: "FILE::NAME", which this process does not run; or a kernel, or a function or a
            class whose file is read. A class is called with `init` first, as KernelBench's ModelNew
            is. A function returns its results, or writes them to its arguments.
        reference: a function of the same arguments that returns the right results or changes its
            arguments, or a class, which is called with `init` first. For a kernel, as `expect=` of
            `kernellab.check`. It runs in this process.
        cases: the arguments of each call: a tuple or a list for a function; for a kernel a mapping
            by parameter with the key "grid", and with "outputs" if the kernel must write all of
            these parameters, whose contents then count as uninitialized. Or a function that returns
            them. A single case need not be in a list.
        targets: the GPUs to compile for; the launches are emulated for the first.
        baseline: the most microseconds that the first case may take by the estimate.
        claimed: the microseconds that the submission says to take for the first case; less than the
            hardware allows is rejected.
        rtol, atol: how far an element may differ: `atol + rtol * |right|`; with `rtol` alone, this
            part of it and of the root mean square of its output. The default is the tolerance of
            the dtype of the output, or of the operations of a kernel that is given with a grid
            (docs/tolerances.md).
        init: what a class is called with.
        unseen: which further cases are made of the given ones: "values", "shapes", "strides".
        seconds: how long the submission's Python, and afterwards all of the rest, may take.
        lock: a file with what the kernels of the first case may cost on each target: registers,
            spills, sectors, instructions and the estimated time. More than that is rejected, with
            the first pass of the compiler and the first line that differ.
        update: whether to write to `lock` what they cost, and reject nothing.
        imports: folders with further modules that the submission may import; it may import those
            beside its file.

    Returns:
        The Verdict. Whatever the submission and the reference do, no error is raised.

    Raises:
        ArgumentError: there is no such file, or `cases` or `unseen` are not what they must be.
        ArchiveError: `lock` names a file of another kind.
        TargetError: there is no such target.
    """
    __tracebackhide__ = True
    names = targets.split(",") if isinstance(targets, str) else targets
    budget = None if lock is None else Lock(Path(lock), submission, update)
    if budget is not None:
        budget.entries()  # so that an error of the file comes before any work
    judging = _Judging(
        name_of(submission),
        code_of(submission, imports),
        Reference.of(reference, tuple(init)),
        derived(listed(cases), tuple(unseen)),
        [parse_target(name) for name in names],
        tuple(init),
        baseline,
        claimed,
        check_tolerance("rtol", rtol),
        check_tolerance("atol", atol),
        seconds,
        budget,
    )
    try:
        with limited(2 * seconds, StoppedForGood):
            return judging.verdict()
    except Ended as ended:
        return judging.ending(ended)
    except BadRecord as error:
        words = f"the confined process did not answer with a record of its launches: {error}"
        return judging.ending(Ended("", Diagnostic("error", "invalid-record", words)))
    except StoppedForGood:
        words = f"the submission was not judged within {2 * seconds:g} seconds"
        problem = Diagnostic("error", "no-end", words, advice="Pass smaller cases, or seconds=.")
        return judging.ending(Ended("parses", problem, verdict="not judged"))


# The stages


@dataclass
class _Judging:
    """The steps that lead to a verdict."""

    name: str
    code: Code
    reference: Reference
    cases: list[JudgedCase]
    targets: list[Target]
    init: tuple[Any, ...]
    baseline: float | None
    claimed: float | None
    rtol: float | None
    atol: float | None
    seconds: float
    lock: Lock | None

    def __post_init__(self) -> None:
        self.known = Verdict(self.name, "accepted")

    @property
    def _file(self) -> str:
        return self.code.parts[0].file if isinstance(self.code, Texts) else "<submission>"

    def verdict(self) -> Verdict:
        """Return the verdict."""
        for words in unconfined():
            self._note(f"confinement: {words}")
        if self.reference.problem:
            self._not_judged("", Diagnostic("error", "reference", self.reference.problem))
        right = self._right_results()
        record = self._recorded(self.targets[0])
        self.records = {self.targets[0]: record}
        try:
            replay = self._replayed(record)
            self._compile()
            self._judge_cases(replay, record, right)
            for target, other in self.records.items():
                if _without_files(other) != _without_files(record):
                    self._judge_cases(self._replayed(other, target), other, right, target)
        except UnsupportedOperation as error:
            self._not_judged("compiles", error.diagnostic)
        except KernelLabError as error:
            self._reject("compiles", error.diagnostic)
        self._check_equality(record)
        self._check_steadiness(record)
        self._check_budget(record)
        if self.lock is not None:
            self._check_lock(self.lock)
        return replace(self.known, reached=STAGES[-1])

    def ending(self, ended: Ended) -> Verdict:
        """Return the verdict on a submission with a problem."""
        said = {"verdict": "rejected", **ended.facts}
        problem = ended.diagnostic
        problem = replace(problem, what=_without_addresses(problem.what))
        return replace(self.known, reached=ended.reached, diagnostic=problem, **said)

    def _reject(self, reached: str, problem: Diagnostic, **facts: Any) -> NoReturn:
        raise Ended(reached, problem, **facts)

    def _not_judged(self, reached: str, problem: Diagnostic, **facts: Any) -> NoReturn:
        raise Ended(reached, problem, **facts, verdict="not judged")

    def _note(self, words: str) -> None:
        words = _without_addresses(words)
        if words not in self.known.not_examined:
            self.known = replace(self.known, not_examined=(*self.known.not_examined, words))

    # The right results

    def _right_results(self) -> list[list[torch.Tensor]]:
        """Return the results of the reference for each case; cases that were made and that it
        refuses are left out. A kernel's are known when it is.
        """
        right, kept = [], []
        for case in self.cases:
            if case.grid is not None or not callable(self.reference.function):
                results: list[torch.Tensor] = []
            else:
                try:
                    results = self.reference.results(case)
                except Exception as error:  # the user's code
                    if not case.is_made:
                        words = what_it_raised("reference", error)
                        self._not_judged("", Diagnostic("error", "reference", words))
                    self._note(f"{case.words}: the reference raises an error")
                    continue
                if not results and not case.is_made:
                    words = "the reference returns no tensor"
                    self._not_judged("", Diagnostic("error", "reference", words))
                if case.is_made and not all(map(is_finite, results)):
                    self._note(f"{case.words}: the right results are not finite")
                    continue
            kept.append(case)
            right.append(results)
        self.cases = kept
        if any(right) and not any(result.numel() for results in right for result in results):
            words = "the results of the reference have no elements in any case"
            self._not_judged("", Diagnostic("error", "reference", words))
        if _are_constant(right, [case.values_only for case in kept]):
            self._note("the reference: its results do not depend on the values of its inputs")
        return right

    # The record

    def _recorded(self, target: Target, again: bool = False) -> dict[str, Any]:
        """Return what the submission does for all cases, as its confined process says."""
        storages = Storages()
        calls = tuple(storages.call(case) for case in self.cases)
        parameters = {
            name: storages.view(value, "parameter")
            for name, value in self.reference.parameters.items()
        }
        self.storages = storages
        self._check_size(storages.sizes)
        request = HostRequest(
            self.code, target, tuple(storages.sizes), calls,
            self.init, parameters, again,
        )  # fmt: skip
        answer = confined("recording:record_confined", request, self.seconds)
        if isinstance(answer, Diagnostic):
            self._reject("", answer)
        if "problem" in answer:
            self._reject("", self._problem(answer["problem"]))
        if "instead" in answer:
            words, advice = str(answer["instead"])[:_LONGEST], "Name the submission FILE::NAME."
            self._reject("", Diagnostic("error", "not-a-kernel", words, advice=advice))
        check_record(answer, len(self.cases))
        with reading_record("storages"):
            self._check_size(answer["storages"])
        return answer

    def _check_size(self, storages: Sequence[int]) -> None:
        """End the judging if all cases together have more memory than is judged."""
        if (size := sum(storages)) > LARGEST_MEMORY:
            words = f"the tensors of all cases have {format_bytes(size)}, and at most "
            words += f"{format_bytes(LARGEST_MEMORY)} are judged"
            advice = "Pass fewer or smaller cases, or leave some out by unseen=."
            self._not_judged("", Diagnostic("error", "too-large", words, advice=advice))

    def _replayed(self, record: Mapping[str, Any], target: Target | None = None) -> Replay:
        """Return a replay of what the submission did before its first call."""
        replay = Replay(record, target or self.targets[0], self._file)
        self.storages.load_parameters(replay, self.reference.parameters, -1)
        replay.setup()
        return replay

    def _problem(self, data: Mapping[str, Any]) -> Diagnostic:
        """Return a diagnostic of the confined process, of which only words and a line are taken."""
        with reading_record("an error"):
            line = (data.get("position") or data).get("line")
            kind, what, why, advice = (
                str(data[name])[:_LONGEST] for name in ("kind", "what", "why", "advice")
            )
            kind = kind[:_LONGEST_KIND]
        position = SourcePosition(self._file, line) if type(line) is int and line > 0 else None
        return Diagnostic("error", kind, what, position, why=why, advice=advice)

    def _compile(self) -> None:
        for target in self.targets:
            own = self.records.get(target) or self._recorded(target)
            self.records[target] = own
            for launch in Replay(own, target, self._file).bound(len(self.cases) + _COMPILED):
                try:
                    made = compile_bound(launch.kernel, launch.call, target)
                    made.resources  # noqa: B018 - which assembles it
                except KernelLabError as error:
                    self._reject("parses", error.diagnostic)
                problem = foreign_code(launch.kernel, target)
                if problem is not None:
                    self._not_judged("compiles", problem)
                kernel = JudgedKernel(launch.kernel.__name__, str(target), **facts_of(made))
                if kernel not in self.known.kernels:
                    self.known = replace(self.known, kernels=(*self.known.kernels, kernel))

    # One case

    def _judge_cases(
        self,
        replay: Replay,
        record: Mapping[str, Any],
        right: Sequence[list[torch.Tensor]],
        target: Target | None = None,
    ) -> None:
        """Judge the calls of a record; `target` is a further one, with other launches."""
        cases, configs = [*self.cases], int(record["configs"])
        for number in range(1, min(configs, MOST_CONFIGS)):
            words = f"{cases[0].words} with config {number} of the autotuner"
            cases.append(replace(cases[0], words=words))
        if configs > MOST_CONFIGS:
            words = (
                f"an autotuner has {configs} configs, of which at most {MOST_CONFIGS} are judged"
            )
            self._not_judged("compiles", Diagnostic("error", "too-many-configs", words))
        if target is not None:
            cases = [replace(case, words=f"{case.words} on {target}") for case in cases]
        rights = [*right, *[right[0]] * (len(cases) - len(right))]
        for number, call in enumerate(record["calls"]):
            self._judge_case(replay, call, cases[: number + 1], rights[number], target)

    def _judge_case(
        self,
        replay: Replay,
        call: Mapping[str, Any],
        seen: Sequence[JudgedCase],
        right: list[torch.Tensor],
        further: Target | None,
    ) -> None:
        case, number, target = seen[-1], len(seen) - 1, further or self.targets[0]
        self.storages.load(replay, case, number, self.reference.parameters)
        failed = [step for step in call["steps"] if "failed" in step]
        if "problem" in call:
            if case.is_made and not case.values_only:
                self._note(f"{case.words}: the submission refuses it by an error")
                return
            problem, reached = self._problem(call["problem"]), "parses" if failed else "compiles"
            if problem.kind == "unsupported-operation":
                self._not_judged(reached, problem, case=case.words)
            self._reject(reached, problem, case=case.words)
        for name in [step["assumed"] for step in call["steps"] if "assumed" in step]:
            self._note(
                f"launches that depend on {str(name)[:20]}, which is not known to the Python"
            )
        if any("read" in step for step in call["steps"]):
            self._not_judged("runs", reads_values(call, self._file), case=case.words)
        roughest = 0.0
        parts: Mapping[str, float] = {}
        results: Mapping[str, torch.Tensor] | None = None
        problems: list[Finding] = []
        for launch in replay.steps(call["steps"], number):
            code = program_code(launch.kernel, launch.call, target)
            roughest = max(roughest, *rounding_of(code).values(), 0.0)
            if case.grid is not None:
                parts = rounding_of(code, own_formats=False)
                results = self._right_of_kernel(launch, case, code)
            if not case.values_only:
                exact = self._tolerances(results or {}, parts)
                problems += self._check(launch, replay, case, results, exact, target)
        if case.grid is None:
            views, only_read = outputs_of_function(call, case, self.storages, right)
            results = dict(zip(views, right))
        elif results is None:
            problem = Diagnostic("error", "no-kernel", "the submission launches no kernel")
            self._reject("runs", problem, case=case.words)
        else:
            with reading_record("outputs"):
                given = next(step for step in call["steps"] if "launch" in step)["values"]
                views, only_read = {name: view_of(given[name]) for name in results}, frozenset()
        exact = self._tolerances(results, parts)
        outputs = CallOutputs(
            replay, seen, views, results, exact, only_read, failed, roughest, problems
        )
        traced = outputs.check()
        if further is None:
            self.known = replace(self.known, cases=self.known.cases + 1)
        if number == 0 and further is None:
            tensors = {*self.storages.views(case), *views.values()}
            size = sum(view.nbytes for view in tensors)
            self.known = replace(self.known, traced=traced, compulsory_bytes=size)

    def _check(
        self,
        launch: RecordedLaunch,
        replay: Replay,
        case: JudgedCase,
        results: Mapping[str, torch.Tensor] | None,
        exact: Tolerances,
        target: Target,
    ) -> Sequence[Finding]:
        """Run a launch with every detector; returns what may explain a wrong result."""
        values = {
            name: uninitialized(value)
            if isinstance(value, torch.Tensor) and replay.memory.is_unwritten(value)
            else value
            for name, value in launch.call.values.items()
        }
        keywords = {**values, **launch.call.options}
        expect: dict[str, Any] = {
            name: Within(right, exact.elements(name, right, right))
            for name, right in (results or {}).items()
        }
        bound = BoundLaunch(launch.kernel, launch.grid, (), keywords, target, expect or None)
        problems = problems_of(bound, case.outputs, reachable=replay.memory.tensors)
        for problem in sorted(filter(is_fault, problems), key=_is_of_order):
            reached = "right" if _is_of_order(problem) else "runs"
            self._reject(reached, problem, case=case.words)
        return problems

    def _tolerances(self, results: Mapping[str, Any], parts: Mapping[str, float]) -> Tolerances:
        """Return how far results may be off; `parts` is what the operations of a kernel explain."""
        if self.atol is not None:
            return Tolerances(self.rtol, self.atol)
        if self.rtol is not None:
            parts = dict.fromkeys(results, self.rtol)
        stated = results.allowed if isinstance(results, Results) else {}
        return Tolerances(stated=stated, parts=functools.partial(dict, parts))

    def _right_of_kernel(self, launch: RecordedLaunch, case: JudgedCase, code: Any) -> Results:
        try:
            return right_results(
                self.reference.function, launch.kernel, (), dict(launch.call.values),
                usage_of(code, launch.call),
            )  # fmt: skip
        except ArgumentError as error:
            self._not_judged("runs", replace(error.diagnostic, kind="reference"), case=case.words)

    # All cases

    def _check_equality(self, record: Mapping[str, Any]) -> None:
        """Decide whether the only launch of the first case gives the results of the reference for
        all inputs of its sizes, and reject it if it does not.
        """
        case, steps = self.cases[0], record["calls"][0]["steps"]
        function = self.reference.function
        kinds = [kind for step in (*record["setup"], *steps) for kind in _MOVES if kind in step]
        if kinds != ["launch"] or _ADDRESS in json.dumps(steps) or not callable(function):
            self._note("equality for all inputs: it is decided for a single launch without copies")
            return
        replay = self._replayed(record)
        self.storages.load(replay, case, 0, self.reference.parameters)
        launch = next(replay.steps(steps, 0))
        bound = BoundLaunch(
            launch.kernel, launch.grid, (), {**launch.call.values, **launch.call.options}
        )
        if case.grid is None:
            args, keywords = self.storages.tensors(replay, case)
            function = functools.partial(self.reference.function, *args, **keywords)
        try:
            right = function if case.grid is not None else lambda: function()
            equality = equal(bound, right, target=self.targets[0])
            if equality.verdict == "different":
                finite = equal(bound, right, target=self.targets[0], inputs="finite")
                if finite.verdict != "different":
                    self._note(_NOT_FINITE)
                    equality = finite
        except (KernelLabError, TypeError, RuntimeError) as error:  # the reference may do anything
            self._note(f"equality for all inputs: {error}")
            return
        self.known = replace(self.known, equality=equality.verdict)
        if equality.verdict == "different":
            words = "the kernel gives other results than the reference for some inputs"
            if equality.difference is not None and equality.difference.floats is not None:
                index, actual, expected = equality.difference.floats
                place = element_text(equality.difference.tensor, index)
                words += f": {place} is {actual:g}, expected {expected:g}"
            problem = Diagnostic("error", "not-equal", words, equality.position)
            self._reject("safe", problem, case=case.words)

    def _check_steadiness(self, record: Mapping[str, Any]) -> None:
        """Reject a submission that does something else in a second process."""
        again = self._recorded(self.targets[0], again=True)
        if _without_files(again) != _without_files(record):
            words = "the submission does not make the same launches when it runs a second time"
            why = "Its Python depends on values of tensors, on time, or on random numbers."
            self._reject("right", Diagnostic("error", "unsteady-host", words, why=why))

    def _check_budget(self, record: Mapping[str, Any]) -> None:
        """Estimate the time of the first case, and compare it with what was asked for."""
        replay = self._replayed(record)
        self.storages.load(replay, self.cases[0], 0, self.reference.parameters)
        total = least = moved = 0.0
        try:
            for launch in replay.steps(record["calls"][0]["steps"], 0):
                made = compile_bound(launch.kernel, launch.call, self.targets[0])
                estimate = made.estimate(launch.grid, **launch.call.values)
                total += estimate.microseconds
                least += estimate.lower_bound
                moved += estimate.counts.read_bytes + estimate.counts.written_bytes
        except KernelLabError as error:
            self._note(f"the time: {error.problem}")
            return
        self.known = replace(
            self.known, microseconds=_rounded(total), at_least=_rounded(least),
            moved_bytes=round(moved),
        )  # fmt: skip
        if self.claimed is not None and self.claimed < least:
            words = (
                f"the claimed time is {self.claimed:g} us, and by the data sheet of the GPU no "
                f"launch of these kernels takes less than {least:.3g} us"
            )
            self._reject("deterministic", Diagnostic("error", "impossible-time", words))
        if self.baseline is not None and total > self.baseline:
            words = f"the estimated time is {total:.3g} us, and the budget is {self.baseline:g} us"
            self._reject("deterministic", Diagnostic("error", "over-budget", words))

    def _check_lock(self, lock: Lock) -> None:
        """Compare what the launches of the first case cost with what a lock allows."""
        costs, places = [], {}
        for target, record in self.records.items():
            replay = self._replayed(record, target)
            self.storages.load(replay, self.cases[0], 0, self.reference.parameters)
            try:
                for launch in replay.steps(record["calls"][0]["steps"], 0):
                    costs.append(cost_of(launch, target))
                    places[costs[-1].name] = triton_api.definition_of(launch.kernel)
            except KernelLabError as error:
                self._note(f"the lock: on {target}, {error.problem}")
        problem = lock.examined(costs, places)
        if isinstance(problem, str):
            self._note(problem)
        elif problem is not None:
            self._reject("deterministic", problem)


_MOVES = ("launch", "copy", "moved", "computed", "constant", "fill")


_ADDRESS = '{"address": '
"""Begins an address among the values of a recorded launch."""


def problems_of(
    launch: BoundLaunch,
    outputs: Sequence[str] = (),
    *,
    is_strict: bool = False,
    reachable: Sequence[torch.Tensor] = (),
) -> list[Finding]:
    """Return what is wrong with a launch, as `kernellab.check` finds it: its faults; or else its
    wrong results, after the warnings that may explain them, such as the origin of a NaN.

    Args:
        launch: with the expected results, if they are to be compared.
        outputs: the parameters of which the kernel must write all elements; what they hold before
            the launch counts as uninitialized.
        is_strict: whether a load without a value for masked elements that affect a result is a
            problem even if the GPU happens to leave zeros there.
        reachable: the tensors that the kernel may access, besides its arguments.
    """
    values = dict(launch.keywords)
    filled = {name: values[name] for name in outputs if isinstance(values[name], torch.Tensor)}
    values |= {name: uninitialized(tensor) for name, tensor in copied(filled).items()}
    launch = replace(launch, keywords=values)
    with only_reachable(reachable):
        findings: Findings = check(launch, outputs=outputs, most_turns=_MOST_TURNS)
    faults = [finding for finding in findings if is_fault(finding)]
    wrong = [*findings.of_kind("wrong-result"), *findings.of_kind("rounding")]
    warnings = [
        replace(finding, severity="warning")
        for finding in findings
        if (is_strict and finding.kind == "missing-other")
        or (wrong and finding.severity == "warning" and finding not in wrong)
    ]
    return faults or [*warnings, *wrong]


def is_fault(problem: Diagnostic) -> bool:
    """Return whether a problem is a fault, which includes results that depend on the order of
    programs.
    """
    is_error = problem.severity == "error" and problem.kind != "wrong-result"
    return is_error or _is_of_order(problem)


def _is_of_order(problem: Diagnostic) -> bool:
    return problem.kind == "order-dependence"


_NOT_FINITE = "NaN and infinity among the inputs, where the results differ from the reference's"


def _are_constant(right: Sequence[Sequence[torch.Tensor]], values_only: Sequence[bool]) -> bool:
    """Return whether the results of the first two cases that differ in values only are equal."""
    for number in range(1, len(right)):
        if values_only[number] and right[number] and right[number - 1]:
            pairs = zip(right[number - 1], right[number])
            return all(
                before.shape == after.shape and torch.equal(before, after)
                for before, after in pairs
            )
    return False


def _without_files(record: Mapping[str, Any]) -> str:
    """Return a record as text that does not name the files of its kernels, which the submission may
    have written to a new folder.
    """
    text = json.dumps(record)
    with reading_record("the functions of a kernel"):
        functions = [each for kernel in record["kernels"] for each in kernel["functions"]]
        for number, file in enumerate(dict.fromkeys(str(each["file"]) for each in functions)):
            text = text.replace(file, f"file {number}")
    return text


def _without_addresses(words: str) -> str:
    """Return words without addresses, and what is near them, which differ from run to run."""
    return re.sub(r" at address 0x[0-9a-f]+(, where no tensor is; .*? it\b)?", "", words)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


_LONGEST, _LONGEST_KIND = 1_000, 40
