"""`kernellab.judge`: one verdict on a kernel, or on a function that launches kernels.

The submission's Python runs in a confined process on random numbers, where its launches are
written down. What is judged is the record: it is replayed here with the real inputs, which that
process never sees.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch

from kernellab.checker.arguments import uninitialized
from kernellab.checker.check import check
from kernellab.checker.records import Findings
from kernellab.common.arguments import check_tolerance, check_whole
from kernellab.common.saved_files import BadFile, regular_bytes, saved_path, text_in
from kernellab.common.system import StoppedForGood, limited
from kernellab.common.text import element_text, remember_source, what_it_raised
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
from kernellab.judging.code import Code, PackedKernel, SourcePart, Texts
from kernellab.judging.confinement import unconfined
from kernellab.judging.recording import HostCall, HostRequest, TensorView
from kernellab.judging.records import STAGES, JudgedKernel, Verdict
from kernellab.judging.replay import FORGED, RecordedLaunch, Replay, Writer, view_of
from kernellab.judging.submissions import confined, foreign_code
from kernellab.judging.unseen import UNSEEN, JudgedCase, derived, tensors_within
from kernellab.launch.reference_results import right_results, usage_of
from kernellab.launch.results import Tolerances, compare, relative_tolerance, rounding_of
from kernellab.records import BoundLaunch, Target
from kernellab.records.display import described
from kernellab.records.launches import Difference
from kernellab.triton_api import JITFunction
from kernellab.triton_api.kernel_contents import pack

SECONDS = 60.0
"""A submission that takes longer counts as one that does not end."""

_MOST_TURNS = 20_000

_LARGEST_SUBMISSION = 4 << 20
"""Bytes of a submission's file."""

Cases = Sequence[Any] | Mapping[str, Any] | Callable[[], Any]


def judge(
    submission: Any,
    reference: Any,
    cases: Cases,
    *,
    targets: str | Sequence[str] = "sm_90",
    baseline: float | None = None,
    claimed: float | None = None,
    rtol: float | None = None,
    init: Sequence[Any] = (),
    unseen: Sequence[str] = UNSEEN,
    seed: int = 0,
    seconds: float = SECONDS,
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
            by parameter with the key "grid". Or a function that returns them. A single case need
            not be in a list.
        targets: the GPUs to compile for; the launches are emulated for the first.
        baseline: the most microseconds that the first case may take by the estimate.
        claimed: the microseconds that the submission says to take for the first case; less than the
            hardware allows is rejected.
        rtol: how far an element may be off: this part of it, and of the root mean square of its
            output. The default is the tolerance of the dtype of the output, or of the operations of
            a kernel that is given with a grid (docs/tolerances.md).
        init: what a class is called with.
        unseen: which further cases are made of the given ones: "values", "shapes", "strides".
        seed: chooses their numbers.
        seconds: how long the submission's Python, and afterwards all of the rest, may take.

    Returns:
        The Verdict. Whatever the submission and the reference do, no error is raised.

    Raises:
        ArgumentError: there is no such file, or `cases` or `unseen` are not what they must be.
        TargetError: there is no such target.
    """
    __tracebackhide__ = True
    check_whole("seed", seed)
    names = targets.split(",") if isinstance(targets, str) else targets
    judging = _Judging(
        _name_of(submission),
        code_of(submission),
        _Reference.of(reference, tuple(init)),
        derived(_listed(cases), tuple(unseen), seed),
        [parse_target(name) for name in names],
        tuple(init),
        baseline,
        claimed,
        check_tolerance("rtol", rtol),
        seconds,
    )
    try:
        with limited(2 * seconds, StoppedForGood):
            return judging.verdict()
    except _Ended as ended:
        return ended.verdict
    except StoppedForGood:
        words = f"the submission was not judged within {2 * seconds:g} seconds"
        return judging.ending("parses", Diagnostic("error", "no-end", words))


# The submission and its cases


def code_of(submission: Any) -> Code:
    """Return the code of a submission, as it is sent to the confined process.

    Raises:
        ArgumentError: there is no such file, or the object has no source.
    """
    if isinstance(submission, JITFunction):
        return PackedKernel(pack(submission))
    if isinstance(submission, str):
        path, _, name = submission.partition("::")
    else:
        inner = submission
        while hasattr(inner, "fn"):  # an autotuner's kernel
            inner = inner.fn
        try:
            path, name = inspect.getsourcefile(inner) or "", str(inner.__qualname__)
        except (AttributeError, TypeError) as error:
            raise ArgumentError(
                f"submission must be FILE::NAME, a kernel, a function or a class, got "
                f"{described(submission)}."
            ) from error
    try:
        text = text_in(regular_bytes(saved_path(path, ArgumentError), _LARGEST_SUBMISSION))
    except (OSError, BadFile) as error:
        why = f"it {error}" if isinstance(error, BadFile) else error
        raise ArgumentError(
            f"The file of the submission, {path!r}, cannot be read: {why}.",
            advice="Name it as FILE::NAME.",
        ) from error
    remember_source(path, text)
    return Texts((SourcePart(path, text),), name)


def _name_of(submission: Any) -> str:
    return (
        submission
        if isinstance(submission, str)
        else str(getattr(submission, "__name__", type(submission).__name__))
    )


def _listed(cases: Any) -> list[JudgedCase]:
    """Return the cases that the caller gave.

    Raises:
        ArgumentError: there are none, or one is neither a sequence nor a mapping.
    """
    given = cases() if callable(cases) else cases
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, list | tuple) or not given:
        raise ArgumentError(
            f"cases must be a list of the arguments of each call, got {described(given)}.",
            advice="For example: cases=[(torch.randn(64, 200),)].",
        )
    if not all(isinstance(case, list | tuple | Mapping) for case in given):
        given = [given]
    return [JudgedCase.of(case, f"case {number}") for number, case in enumerate(given)]


@dataclass(frozen=True)
class _Reference:
    """What gives the right results."""

    function: Any
    parameters: Mapping[str, torch.Tensor] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def of(cls, reference: Any, init: tuple[Any, ...]) -> _Reference:
        if not isinstance(reference, type):
            return cls(reference)
        try:
            made = reference(*init)
        except Exception as error:  # the user's code
            return cls(None, problem=what_it_raised("reference", error))
        if not isinstance(made, torch.nn.Module):
            return cls(made)
        made.eval()
        return cls(made, {name: value.detach() for name, value in made.state_dict().items()})

    def results(self, case: JudgedCase) -> list[torch.Tensor]:
        """Return the right results of a function: what it returns, or else the arguments that it
        changed.
        """
        args, keywords = case.copied()
        with torch.no_grad():
            returned = self.function(*args, **keywords)
        return list(tensors_within((args, keywords) if returned is None else returned))


class _Ended(Exception):
    """Judging ended with a verdict."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.verdict)
        self.verdict = verdict


# The stages


@dataclass
class _Judging:
    """The steps that lead to a verdict."""

    name: str
    code: Code
    reference: _Reference
    cases: list[JudgedCase]
    targets: list[Target]
    init: tuple[Any, ...]
    baseline: float | None
    claimed: float | None
    rtol: float | None
    seconds: float
    known: Verdict = field(default_factory=lambda: Verdict("", "accepted"))

    @property
    def _file(self) -> str:
        return self.code.parts[0].file if isinstance(self.code, Texts) else "<submission>"

    def verdict(self) -> Verdict:
        """Return the verdict."""
        self.known = Verdict(self.name, "accepted")
        for words in unconfined():
            self._note(f"confinement: {words}")
        if self.reference.problem:
            self._not_judged("", Diagnostic("error", "reference", self.reference.problem))
        right = self._right_results()
        record = self._recorded(self.targets[0])
        try:
            replay = Replay(record, self.targets[0], self._file)
            self._compile(record)
            for number in range(len(self.cases)):
                self._judge_case(replay, record["calls"][number], number, right[number])
        except _Ended:
            raise
        except UnsupportedOperation as error:
            self._not_judged("compiles", error.diagnostic)
        except KernelLabError as error:
            self._reject("compiles", error.diagnostic)
        except FORGED:
            self._reject("", Diagnostic("error", "invalid-record", _FORGED))
        self._check_equality(record)
        self._check_steadiness(record)
        self._check_budget(record)
        return replace(self.known, reached=STAGES[-1])

    def ending(self, reached: str, problem: Diagnostic, **facts: Any) -> Verdict:
        """Return the verdict on a submission with a problem."""
        said = {"verdict": "rejected", **facts}
        return replace(self.known, reached=reached, diagnostic=problem, **said)

    def _reject(self, reached: str, problem: Diagnostic, **facts: Any) -> NoReturn:
        raise _Ended(self.ending(reached, problem, **facts))

    def _not_judged(self, reached: str, problem: Diagnostic, **facts: Any) -> NoReturn:
        raise _Ended(self.ending(reached, problem, **facts, verdict="not judged"))

    def _note(self, words: str) -> None:
        if words not in self.known.not_examined:
            self.known = replace(self.known, not_examined=(*self.known.not_examined, words))

    # The right results

    def _right_results(self) -> list[list[torch.Tensor]]:
        """Return the results of the reference for each case; cases that were made and that it
        refuses are left out. A kernel's are known when it is.
        """
        right, kept, seen = [], [], []
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
                if case.is_made and not all(map(_is_finite, results)):
                    self._note(f"{case.words}: the right results are not finite")
                    continue
            kept.append(case)
            right.append(results)
            seen.append(case.values_only)
        self.cases = kept
        if _are_constant(right, seen):
            self._note("the reference: its results do not depend on the values of its inputs")
        return right

    # The record

    def _recorded(self, target: Target, again: bool = False) -> dict[str, Any]:
        """Return what the submission does for all cases, as its confined process says."""
        storages = _Storages()
        calls = tuple(storages.call(case) for case in self.cases)
        parameters = {
            name: storages.view(value, "parameter")
            for name, value in self.reference.parameters.items()
        }
        self.storages = storages
        request = HostRequest(
            self.code, target, tuple(storages.sizes), calls,
            self.init, parameters, seed=1000 if again else 0,
        )  # fmt: skip
        answer = confined("recording:record_confined", request, self.seconds)
        if isinstance(answer, Diagnostic):
            self._reject("", answer)
        try:
            if "problem" in answer:
                self._reject("", self._problem(answer["problem"]))
            if "instead" in answer:
                words = f"{str(answer['instead'])[:200]} is neither a kernel nor a function"
                self._reject("", Diagnostic("error", "not-a-kernel", words))
            if len(answer["calls"]) != len(self.cases) or not isinstance(answer["setup"], list):
                raise ValueError
        except FORGED:
            self._reject("", Diagnostic("error", "invalid-record", _FORGED))
        return answer

    def _problem(self, data: Mapping[str, Any]) -> Diagnostic:
        """Return a diagnostic of the confined process, of which only words and a line are taken."""
        place = data.get("position") or data
        line = place.get("line")
        kind, what, why, advice = (
            str(data[name])[:_LONGEST] for name in ("kind", "what", "why", "advice")
        )
        position = SourcePosition(self._file, line) if type(line) is int and line > 0 else None
        return Diagnostic("error", kind, what, position, why=why, advice=advice)

    def _compile(self, record: Mapping[str, Any]) -> None:
        """Compile every kernel for every target."""
        for target in self.targets:
            own = record if target is self.targets[0] else self._recorded(target)
            for launch in Replay(own, target, self._file).bound():
                try:
                    made = compile_bound(launch.kernel, launch.call, target)
                    resources = made.resources
                except KernelLabError as error:
                    self._reject("parses", error.diagnostic)
                problem = foreign_code(launch.kernel, target)
                if problem is not None:
                    self._not_judged("compiles", problem)
                kernel = JudgedKernel(
                    str(launch.kernel.__name__), str(target), resources.registers,
                    resources.spills, resources.shared_bytes,
                )  # fmt: skip
                if kernel not in self.known.kernels:
                    self.known = replace(self.known, kernels=(*self.known.kernels, kernel))

    # One case

    def _judge_case(
        self, replay: Replay, call: Mapping[str, Any], number: int, right: list[torch.Tensor]
    ) -> None:
        case = self.cases[number]
        self.storages.load(replay, case, number, self.reference.parameters)
        failed = [step for step in call["steps"] if "failed" in step]
        if "problem" in call:
            if case.is_made:
                self._note(f"{case.words}: the submission refuses it by an error")
                return
            self._reject(
                "parses" if failed else "compiles", self._problem(call["problem"]), case=case.words
            )
        if any("read" in step for step in call["steps"]):
            self._not_judged("runs", _reads_values(call, self._file), case=case.words)
        roughest = 0.0
        parts: Mapping[str, float] = {}
        results: dict[str, Any] = {}
        for launch in replay.steps(call["steps"], number):
            code = program_code(launch.kernel, launch.call, self.targets[0])
            roughest = max(roughest, *rounding_of(code).values(), 0.0)
            if case.grid is not None:
                parts = rounding_of(code, own_formats=False)
                results = self._right_of_kernel(launch, case)
            if not case.values_only:
                self._check(launch, replay, case)
        self._compare(replay, call, number, right, results, roughest, parts, failed)
        self.known = replace(self.known, cases=self.known.cases + 1)

    def _check(self, launch: RecordedLaunch, replay: Replay, case: JudgedCase) -> None:
        """Run a launch with every detector."""
        values = {
            name: uninitialized(value)
            if isinstance(value, torch.Tensor) and replay.memory.is_unwritten(value)
            else value
            for name, value in launch.call.values.items()
        }
        bound = BoundLaunch(launch.kernel, launch.grid, (), {**values, **launch.call.options})
        findings: Findings = check(bound, target=self.targets[0], most_turns=_MOST_TURNS)
        for finding in findings:
            if finding.severity == "error":
                stage = "safe" if finding.kind in _OF_ORDER else "runs"
                self._reject(_before(stage) if stage == "safe" else stage, finding, case=case.words)
        for finding in findings:
            if finding.kind == "order-dependence":
                self._reject("right", finding, case=case.words)

    def _right_of_kernel(self, launch: RecordedLaunch, case: JudgedCase) -> dict[str, Any]:
        code = program_code(launch.kernel, launch.call, self.targets[0])
        try:
            right = right_results(
                self.reference.function, launch.kernel, (), dict(launch.call.values),
                usage_of(code, launch.call),
            )  # fmt: skip
        except ArgumentError as error:
            self._not_judged("runs", replace(error.diagnostic, kind="reference"), case=case.words)
        return {name: (value, right.allowed.get(name)) for name, value in right.items()}

    def _compare(
        self,
        replay: Replay,
        call: Mapping[str, Any],
        number: int,
        right: list[torch.Tensor],
        results: Mapping[str, Any],
        roughest: float,
        parts: Mapping[str, float],
        failed: Sequence[Mapping[str, Any]],
    ) -> None:
        """Compare the outputs of one case with the right results, and reject what differs.

        Args:
            replay: has replayed the case.
            call: the record of the case.
            number: of the case.
            right: the results of the reference.
            results: the results of a kernel that was given with a grid, by parameter, and how far
                each may be off.
            roughest: the largest part of a result that the formats of the kernels explain.
            parts: what rounding explains, by parameter of such a kernel.
            failed: launches that failed.
        """
        case = self.cases[number]
        only_read: list[bool] = []
        if case.grid is not None:
            launch = next((step for step in call["steps"] if "launch" in step), None)
            if launch is None:
                self._reject("runs", _no_kernel("the submission"), case=case.words)
            outputs = {name: launch["values"][name] for name in results}
            expected = dict(results)
        else:
            returned = list(_views(call["outputs"]))
            if not returned:  # it writes to its arguments, of which some are only read
                returned = list(self.storages.encoded(case))
                given = list(tensors_within((case.args, case.keywords)))
                only_read = [torch.equal(*pair) for pair in zip(given, right)]
            names = [f"output {place}" for place in range(len(returned))]
            outputs = dict(zip(names, returned))
            expected = {name: (value, None) for name, value in zip(names, right)}
            self._check_shapes(returned, right, case)
        for place, (name, encoded) in enumerate(outputs.items()):
            view = view_of(encoded)
            if not (only_read and only_read[place]):
                self._check_origin(replay, name, view, number, failed)
            actual, (value, allowed) = replay.memory.tensor(view), expected[name]
            stated = {} if allowed is None else {name: allowed}
            of_name = parts if self.rtol is None else {name: self.rtol}
            exact = Tolerances(stated=stated, parts=functools.partial(dict, of_name))
            difference = next(compare({name: actual}, {name: value}, exact), None)
            if difference is not None:
                rough = Tolerances(parts=functools.partial(dict, {name: roughest}))
                usual = relative_tolerance(value.dtype)
                is_rounding = roughest > usual > 0 and not any(
                    compare({name: actual}, {name: value}, rough)
                )
                self._reject_wrong(replay, view, difference, number, is_rounding)

    def _check_shapes(
        self, returned: Sequence[Any], right: Sequence[torch.Tensor], case: JudgedCase
    ) -> None:
        got = [(list(each["shape"]), str(each["dtype"])) for each in returned]
        want = [(list(each.shape), str(each.dtype).removeprefix("torch.")) for each in right]
        if got != want:
            shown = (
                "; ".join(f"{shape} of {dtype}" for shape, dtype in side) for side in (got, want)
            )
            words = "the outputs are {}, and {} is expected".format(*shown)
            self._reject("safe", Diagnostic("error", "wrong-shape", words), case=case.words)

    def _check_origin(
        self,
        replay: Replay,
        name: str,
        view: TensorView,
        number: int,
        failed: Sequence[Mapping[str, Any]],
    ) -> None:
        """Reject an output that no kernel of this call computed."""
        codes, writers = replay.memory.writers_of(view)
        case = self.cases[number].words
        by_torch = replay.computed or next((w for w in writers if w.kind == "torch"), None)
        if by_torch is not None:
            self._reject("safe", _by_torch(name, by_torch, failed), case=case)
        stale = next((w for w in writers if w.kind == "kernel" and w.call != number), None)
        own = [w for w in writers if w.kind == "kernel" and w.call == number]
        if writers and not own:
            problem = _stale(name, stale) if stale is not None else _not_stored(name, writers)
            self._reject("safe", problem, case=case)
        if number == 0 and writers:
            stored = sum(int((codes == replay.memory.code(writer)).sum()) for writer in own)
            traced = {**self.known.traced, name: stored / codes.size}
            self.known = replace(self.known, traced=traced)

    def _reject_wrong(
        self,
        replay: Replay,
        view: TensorView,
        difference: Difference,
        number: int,
        is_rounding: bool,
    ) -> NoReturn:
        case = self.cases[number]
        codes, _ = replay.memory.writers_of(view)
        writer = replay.memory.writers[int(codes[difference.index])]
        stale = writer.kind == "kernel" and writer.call != number
        kind = "stale-result" if stale else "rounding" if is_rounding else "wrong-result"
        right_before = ", ".join(each.words for each in self.cases[:number])
        why = f"It is right for {right_before}." if number else ""
        problem = Diagnostic(
            "error", kind, str(difference), writer.position, why=f"{_wrote(writer)} {why}".strip(),
            advice=_MADE if case.is_made and kind == "wrong-result" else _ADVICE[kind],
        )  # fmt: skip
        self._reject("safe", problem, element=difference, case=case.words)

    # All cases

    def _check_equality(self, record: Mapping[str, Any]) -> None:
        """Decide whether the only launch of the first case gives the results of the reference for
        all inputs of its sizes, and reject it if it does not.
        """
        case, steps = self.cases[0], record["calls"][0]["steps"]
        kinds = [kind for step in (*record["setup"], *steps) for kind in _MOVES if kind in step]
        if kinds != ["launch"] or not callable(self.reference.function):
            self._note("equality for all inputs: it is decided for a single launch without copies")
            return
        replay = Replay(record, self.targets[0], self._file)
        self.storages.load(replay, case, 0, self.reference.parameters)
        launch = next(replay.steps(steps, 0))
        bound = BoundLaunch(
            launch.kernel, launch.grid, (), {**launch.call.values, **launch.call.options}
        )
        function = self.reference.function
        if case.grid is None:
            args, keywords = self.storages.tensors(replay, case)
            function = functools.partial(self.reference.function, *args, **keywords)
        try:
            right = function if case.grid is not None else lambda: function()
            equality = equal(bound, right, target=self.targets[0])
        except (KernelLabError, TypeError, RuntimeError) as error:  # the reference may do anything
            self._note(f"equality for all inputs: {error}")
            return
        self.known = replace(self.known, equality=equality.verdict)
        if equality.verdict == "different":
            words = "the kernel gives other results than the reference for some inputs"
            if equality.difference is not None and equality.difference.floats is not None:
                index, actual, expected = equality.difference.floats
                place = element_text(equality.difference.tensor, index)
                words += f": {place} is {actual:g}, and {expected:g} is expected"
            problem = Diagnostic("error", "not-equal", words, equality.position)
            self._reject("safe", problem, case=case.words)

    def _check_steadiness(self, record: Mapping[str, Any]) -> None:
        """Reject a submission that does something else in a second process."""
        if self._recorded(self.targets[0], again=True) != record:
            words = "the submission does not make the same launches when it runs a second time"
            why = "Its Python depends on values of tensors, on time, or on random numbers."
            self._reject("right", Diagnostic("error", "unsteady-host", words, why=why))

    def _check_budget(self, record: Mapping[str, Any]) -> None:
        """Estimate the time of the first case, and compare it with what was asked for."""
        replay = Replay(record, self.targets[0], self._file)
        self.storages.load(replay, self.cases[0], 0, self.reference.parameters)
        total = least = 0.0
        try:
            for launch in replay.steps(record["calls"][0]["steps"], 0):
                made = compile_bound(launch.kernel, launch.call, self.targets[0])
                estimate = made.estimate(launch.grid, **launch.call.values)
                total += estimate.microseconds
                least += estimate.lower_bound
        except KernelLabError as error:
            self._note(f"the time: {error.problem}")
            return
        self.known = replace(self.known, microseconds=_rounded(total), at_least=_rounded(least))
        if self.claimed is not None and self.claimed < least:
            words = (
                f"the claimed time is {self.claimed:g} us, and by the data sheet of the GPU no "
                f"launch of these kernels takes less than {least:.3g} us"
            )
            self._reject("deterministic", Diagnostic("error", "impossible-time", words))
        if self.baseline is not None and total > self.baseline:
            words = f"the estimated time is {total:.3g} us, and the budget is {self.baseline:g} us"
            self._reject("deterministic", Diagnostic("error", "over-budget", words))


_MOVES = ("launch", "copy", "computed", "constant", "fill")
_OF_ORDER = frozenset({"race", "lost-update"})


def _before(stage: str) -> str:
    return STAGES[STAGES.index(stage) - 1]


def _is_finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


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


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _views(outputs: Sequence[Any]) -> Iterator[Any]:
    for output in outputs:
        if isinstance(output, Mapping) and "storage" in output:
            yield output
        elif isinstance(output, Mapping) and "items" in output:
            yield from _views(output["items"])


# What is said of outputs

_LONGEST = 1_000
_FORGED = "the confined process did not answer with a record of its launches"

_MADE = (
    "This case was made of a given one. A function may refuse what it does not support by raising "
    "an error; unseen= leaves out such cases."
)
_ADVICE = {
    "wrong-result": "kernellab.check(kernel, grid, ..., expect=...) explains the element.",
    "rounding": 'Its dots round fp32 to fewer bits: write input_precision="ieee", or pass rtol=.',
    "stale-result": "Compute the result in every call; do not keep results of earlier calls.",
}


def _wrote(writer: Writer) -> str:
    return {
        "kernel": f"The kernel {writer.name} stored it.",
        "fill": "No kernel stored it: it has the value that it was filled with.",
        "input": "No kernel stored it: it is an input.",
        "torch": f"torch computed it ({writer.name}).",
        "nothing": "Nothing wrote it.",
    }[writer.kind]


def _reads_values(call: Mapping[str, Any], file: str) -> Diagnostic:
    step = next(step for step in call["steps"] if "read" in step)
    line = step.get("line")
    place = SourcePosition(file, line) if type(line) is int and line > 0 else None
    return Diagnostic(
        "error",
        "reads-values",
        "the Python around the kernels reads values of tensors",
        place,
        why="What it launches may depend on them, and they are not those of the real inputs.",
        advice="Take out .item(), bool(tensor) and comparisons of tensors.",
    )


def _no_kernel(subject: str) -> Diagnostic:
    return Diagnostic("error", "no-kernel", f"{subject} launches no kernel")


def _by_torch(name: str, writer: Writer, failed: Sequence[Mapping[str, Any]]) -> Diagnostic:
    why = ""
    if failed:
        why = f"The launch of {failed[0]['failed']} failed before: {failed[0]['why']}"[:600]
    return Diagnostic(
        "error",
        "computed-by-torch",
        f"{name} depends on a result that torch computes ({writer.name}), not a kernel",
        writer.position,
        why=why,
        advice="Compute it in a kernel; torch may allocate, copy, reshape and fill.",
    )


def _stale(name: str, writer: Writer) -> Diagnostic:
    return Diagnostic(
        "error",
        "stale-result",
        f"{name} was stored by {writer.name} in an earlier call, and not in this one",
        writer.position,
        advice=_ADVICE["stale-result"],
    )


def _not_stored(name: str, writers: Sequence[Writer]) -> Diagnostic:
    return Diagnostic(
        "error",
        "not-computed",
        f"no kernel stored an element of {name}",
        writers[0].position,
        why=" ".join(dict.fromkeys(map(_wrote, writers)))[:600],
        advice="Return the memory that a kernel stores to.",
    )


# The tensors of the cases as storages


class _Storages:
    """The storages of all cases. Cases that differ in values only share theirs, so that the
    submission sees the same tensors with other contents.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._numbers: dict[Any, int] = {}

    def view(self, tensor: torch.Tensor, owner: str) -> TensorView:
        """Return the view that stands for a tensor."""
        storage = tensor.untyped_storage()
        key = (owner, storage.data_ptr())
        if key not in self._numbers:
            self._numbers[key] = len(self.sizes)
            self.sizes.append(storage.nbytes())
        shape, strides = tuple(tensor.shape), tensor.stride()
        return TensorView(
            self._numbers[key], tensor.dtype, shape, strides, int(tensor.storage_offset())
        )

    def call(self, case: JudgedCase) -> HostCall:
        """Return the call of a case."""
        return HostCall(
            self._encoded(case.like.args, case), self._encoded(case.like.keywords, case), case.grid
        )

    def _encoded(self, value: Any, case: JudgedCase) -> Any:
        if isinstance(value, torch.Tensor):
            return self.view(value, "case")
        if isinstance(value, list | tuple):
            return type(value)(self._encoded(item, case) for item in value)
        if isinstance(value, Mapping):
            return {name: self._encoded(item, case) for name, item in value.items()}
        return value

    def encoded(self, case: JudgedCase) -> Iterator[dict[str, Any]]:
        """Yield the tensors of a case as a record has them."""
        for tensor in tensors_within((case.like.args, case.like.keywords)):
            view = self.view(tensor, "case")
            yield {
                "storage": view.storage,
                "dtype": str(view.dtype).removeprefix("torch."),
                "shape": list(view.shape),
                "strides": list(view.strides),
                "offset": view.offset,
            }

    def tensors(self, replay: Replay, case: JudgedCase) -> tuple[Any, Any]:
        """Return the arguments of a case with the tensors of a replay."""

        def placed(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return replay.memory.tensor(self.view(value, "case"))
            return value

        moved = case.like.changed("", placed)
        return moved.args, moved.keywords

    def load(
        self, replay: Replay, case: JudgedCase, number: int, parameters: Mapping[str, torch.Tensor]
    ) -> None:
        """Put the inputs of a case into the memory of a replay."""
        likes = tensors_within((case.like.args, case.like.keywords))
        for like, tensor in zip(likes, tensors_within((case.args, case.keywords))):
            replay.memory.load(self.view(like, "case").storage, _bytes_of(tensor), number)
        for value in parameters.values():
            view = self.view(value, "parameter")
            replay.memory.load(view.storage, _bytes_of(value), number)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
