"""The outputs of a call: whether kernels of the call stored them, and whether they are right."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernellab.checker.records import Finding
from kernellab.errors import Diagnostic, SourcePosition
from kernellab.judging.cases import JudgedCase, Storages
from kernellab.judging.code import TensorView, tensors_within
from kernellab.judging.records import Ended
from kernellab.judging.replay import Replay, Writer, reading_record, view_of
from kernellab.launch.results import Tolerances, compare, relative_tolerance
from kernellab.records.launches import Difference


@dataclass
class CallOutputs:
    """The outputs of one call after its replay.

    Attributes:
        replay: has replayed the call.
        cases: the cases up to that of the call, which is the last.
        views: the outputs by name.
        right: the right results by name.
        exact: how far they may be off.
        only_read: outputs that are arguments which the reference does not change.
        failed: the launches of the call that failed.
        roughest: the largest part of a result that the formats of the kernels explain.
        problems: what `check` found in the launches, which may explain a wrong result.
    """

    replay: Replay
    cases: Sequence[JudgedCase]
    views: Mapping[str, TensorView]
    right: Mapping[str, torch.Tensor]
    exact: Tolerances
    only_read: frozenset[str] = frozenset()
    failed: Sequence[Mapping[str, Any]] = ()
    roughest: float = 0.0
    problems: Sequence[Finding] = ()

    @property
    def _number(self) -> int:
        return len(self.cases) - 1

    def check(self) -> dict[str, float]:
        """Return the part of each output that a kernel stored.

        Raises:
            Ended: an output is wrong, or no kernel of the call computed it.
            BadRecord: an output is not a tensor.
        """
        traced = {}
        for name, view in self.views.items():
            if name not in self.only_read:
                part = self._stored_part(name, view)
                if part is not None:
                    traced[name] = part
            actual, value = self.replay.memory.tensor(view), self.right[name]
            bounds, is_unforeseen = self.exact, self.cases[-1].is_unforeseen
            if is_unforeseen:  # wider, since what rounds just enough must not differ between runs
                bounds = Tolerances(noise=2 * bounds.elements(name, actual, value))
            difference = next(compare({name: actual}, {name: value}, bounds), None)
            if difference is not None and is_unforeseen:
                ties = 0 if value.is_floating_point() else difference.size // 1000
                if difference.count > ties:
                    raise self._ended(_memorized(name))
            elif difference is not None:
                rough = Tolerances(parts=functools.partial(dict, {name: self.roughest}))
                usual = relative_tolerance(value.dtype)
                is_rounding = self.roughest > usual > 0 and not any(
                    compare({name: actual}, {name: value}, rough)
                )
                raise self._wrong(view, difference, is_rounding)
        return traced

    def _stored_part(self, name: str, view: TensorView) -> float | None:
        """Return the part of an output that kernels of this call stored; None if it is empty.
        Raises Ended: no kernel of this call computed it.
        """
        codes, writers = self.replay.memory.writers_of(view)
        by_torch = self.replay.computed or next((w for w in writers if w.kind == "torch"), None)
        if by_torch is not None:
            raise self._ended(_by_torch(name, by_torch, self.failed))
        stale = next((w for w in writers if w.kind == "kernel" and w.call != self._number), None)
        own = [w for w in writers if w.kind == "kernel" and w.call == self._number]
        if not writers:
            return None
        if not own:
            raise self._ended(_not_stored(name, writers) if stale is None else _stale(name, stale))
        return sum(int((codes == self.replay.memory.code(each)).sum()) for each in own) / codes.size

    def _wrong(self, view: TensorView, difference: Difference, is_rounding: bool) -> Ended:
        codes, _ = self.replay.memory.writers_of(view)
        writer = self.replay.memory.writers[int(codes[difference.index])]
        stale = writer.kind == "kernel" and writer.call != self._number
        kind = "stale-result" if stale else "rounding" if is_rounding else "wrong-result"
        why, advice = [_wrote(writer)], _ADVICE[kind]
        for problem in self.problems:
            if problem.kind not in ("wrong-result", "rounding"):
                why, advice = [*why, f"{problem.what}."], problem.advice or advice
            elif problem.argument == difference.name:
                origin = problem.circumstances.get("computed from")
                why += [f"It was computed in {problem.where}{f' from {origin}' * bool(origin)}."]
        right_before = ", ".join(each.words for each in self.cases[:-1])
        if right_before:
            why.append(f"It is right for {right_before}.")
        if self.cases[-1].is_made and kind == "wrong-result":
            advice = _MADE
        diagnostic = Diagnostic(
            "error", kind, str(difference), writer.position, why=" ".join(why), advice=advice
        )
        return self._ended(diagnostic, element=difference)

    def _ended(self, problem: Diagnostic, **facts: Any) -> Ended:
        return Ended("safe", problem, case=self.cases[-1].words, **facts)


def outputs_of_function(
    call: Mapping[str, Any], case: JudgedCase, storages: Storages, right: Sequence[torch.Tensor]
) -> tuple[dict[str, TensorView], frozenset[str]]:
    """Return the outputs of a function's call by name: what it returned, or else its arguments; and
    those of them that it should only read.

    Raises:
        Ended: they have other shapes or dtypes than the right results.
        BadRecord: they are not tensors.
    """
    with reading_record("outputs"):
        views = [view_of(encoded) for encoded in _tensors(call["outputs"])]
    only_read = []
    if not views:
        views = list(storages.views(case))
        only_read = [
            torch.equal(*pair) for pair in zip(tensors_within((case.args, case.keywords)), right)
        ]
    got = [(list(view.shape), view.dtype) for view in views]
    want = [(list(each.shape), each.dtype) for each in right]
    if got != want:
        shown = ("; ".join(f"{shape} of {_word(d)}" for shape, d in side) for side in (got, want))
        words = "the outputs are {}, expected {}".format(*shown)
        raise Ended("safe", Diagnostic("error", "wrong-shape", words), case=case.words)
    named = {f"output {place}": view for place, view in enumerate(views)}
    return named, frozenset(name for name, is_read in zip(named, only_read) if is_read)


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _tensors(outputs: Sequence[Any]) -> Iterator[Any]:
    for output in outputs:
        if isinstance(output, Mapping) and "storage" in output:
            yield output
        elif isinstance(output, Mapping) and "items" in output:
            yield from _tensors(output["items"])


# What is said about them

_MADE = (
    "This case was made of a given one. A function may refuse what it does not support by raising "
    "an error; unseen= leaves out such cases."
)
_ADVICE = {
    "wrong-result": "kernellab.check(kernel, grid, ..., expect=...) explains the element.",
    "rounding": "It rounds to fewer bits than its output has: compute in the dtype of the output, "
    'with input_precision="ieee" in dots, or pass rtol=.',
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


def _by_torch(name: str, writer: Writer, failed: Sequence[Mapping[str, Any]]) -> Diagnostic:
    why = ""
    if failed:
        why = f"The launch of {failed[0]['failed']} failed before: {failed[0].get('why')}"[:600]
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


def _memorized(name: str) -> Diagnostic:
    return Diagnostic(
        "error",
        "memorized-result",
        f"{name} is right for values that can be foreseen, and wrong for values that cannot",
        why="The values of this case differ in every run, so the verdict does not state them.",
        advice="Compute the result from the inputs.",
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


def reads_values(call: Mapping[str, Any], file: str) -> Diagnostic:
    """Return the diagnostic of a call whose Python reads values of tensors."""
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
