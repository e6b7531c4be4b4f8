"""`kernellab.validate`: whether each pass of the compiler keeps what a kernel computes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy
import torch

from kernellab import triton_api
from kernellab.common.arguments import check_whole
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.compiler import passes
from kernellab.compiler.pipeline import record_passes
from kernellab.equality.functions import ExactLaunch, ExactTensors, unchanged
from kernellab.equality.records import UnequalElement, ValidatedPass, Validation, Verdict
from kernellab.equality.residues import agreement
from kernellab.errors import ArgumentError, KernelFault, SourcePosition, UnsupportedOperation
from kernellab.interpreter.execution.program import is_asynchronous
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.bisection import changing, from_inliner_on, rewritten_lines
from kernellab.launch.preparation import (
    EntryPoint,
    PreparedLaunch,
    prepare_bound,
    refused,
    takes_launch,
)
from kernellab.launch.reference_results import usage_of
from kernellab.records import BoundLaunch, PassRun, Target

_VALIDATE = EntryPoint("validate", refused("validate runs the module after every pass"))


@takes_launch
def validate(
    launch: BoundLaunch,
    *,
    target: str | Target | None = None,
    seeds: int = 1,
    skip: str | Sequence[str] = (),
    pipeline: Sequence[passes.Item] | None = None,
) -> Validation:
    """Decide for each pass of the compiler whether it keeps what a kernel computes.

    One compilation records the module after every pass of the TTIR and TTGIR stages. From the
    inliner on, each module that differs from the one before runs on the CPU with residues in place
    of floats (docs/equality.md), and leaves the same in all tensors or does not. A pass that only
    computes sums in another order is equal. A module with asynchronous operations runs once more,
    and there they complete only when something waits for them. The arguments do not change.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch.
        target: the GPU whose pipeline runs; None for the one that a launch would emulate.
        seeds: how many sets of random residues each module runs with.
        skip, pipeline: changes of the target's pipeline, as for `kernellab.compile`.

    Returns:
        The Validation: a row for each pass, and of the first that changes a result the element and
        the lines that it rewrote. It is true only if all passes are equal.

    Raises:
        ArgumentError, GridError, CompileError: as `kernellab.run`.
        UnsupportedOperation: the first module has an operation that is not decided.
    """
    check_whole("seeds", seeds, 1)
    prepared = prepare_bound(launch, target, _VALIDATE)
    prepared.sizes()  # no programs compare nothing
    modules = _Modules(prepared, seeds)
    with ProgressBar(f"validate {prepared.kernel.__name__}", None, "modules", UNTOUCHED) as work:
        passes = record_passes(
            prepared.kernel, prepared.call, prepared.target, skip=skip, pipeline=pipeline
        )
        several = list(changing(from_inliner_on(passes)))
        work.total = len(several)
        for module in several:
            modules.add(module)
            work.advance()
    return modules.validation()


class _Modules:
    """The modules of one launch, one after the other, compared with the first."""

    def __init__(self, prepared: PreparedLaunch, seeds: int) -> None:
        self._prepared = prepared
        self._seeds = seeds
        self._first = ""
        self._expected: list[Mapping[str, torch.Tensor]] = []
        self._before = ""
        self._passes: list[ValidatedPass] = []
        self._difference: UnequalElement | None = None
        self._lines: tuple[SourcePosition, ...] = ()

    def add(self, module: PassRun) -> None:
        """Run the module after a pass, and compare."""
        text = triton_api.generic_form(module.text.read(), self._prepared.target)
        start = time.perf_counter()
        if not self._first:
            launch = ExactLaunch(self._prepared, text)
            if not usage_of(launch.code, self._prepared.call).writes:
                raise ArgumentError(
                    f"{self._prepared.kernel.__name__} writes no tensor, so there is nothing to "
                    "compare."
                )
            self._expected = self._results(launch)
            self._check_stores(launch)
            self._first = module.label
        else:
            verdict, reason = self._judged(text)
            seconds = time.perf_counter() - start
            self._passes.append(ValidatedPass(module.label, verdict, seconds, reason))
            if verdict == "different" and not self._lines:
                self._lines = rewritten_lines(self._before, text, self._prepared.kernel)
        self._before = text

    def _check_stores(self, launch: ExactLaunch) -> None:
        tensors = dict(tensors_in(self._prepared.call.values))
        before = ExactTensors(0).holding(tensors.items())
        after = self._expected[0]
        if all(unchanged(before.of(tensors[name], name), after[name]) for name in after):
            if launch.last_store(before) is None:
                raise ArgumentError(
                    f"{self._prepared.kernel.__name__} stores nothing, as the mask of no store is "
                    "true, so there is nothing to compare."
                )

    def _judged(self, text: str) -> tuple[Verdict, str]:
        try:
            launch = ExactLaunch(self._prepared, text)
            results = self._results(launch)
        except UnsupportedOperation as unknown:
            return "not decided", unknown.problem
        except KernelFault as fault:
            return "different", f"it fails: {fault.problem}"
        undecided = 0
        for expected, contents in zip(self._expected, results):
            for name, tensor in expected.items():
                same, known = agreement(tensor.numpy(), contents[name].numpy())
                undecided += int((~known).sum())
                if not same.all():
                    self._note_difference(name, ~same)
                    return "different", ""
        if is_asynchronous(launch.code) and (late := self._late(text, results)):
            return "different", late
        if undecided:
            return "not decided", f"{undecided:,} elements have no residue in both"
        return "equal", ""

    def _late(self, text: str, results: Sequence[Mapping[str, torch.Tensor]]) -> str:
        """The fault of a run whose operations complete only when waited for; "" if none."""
        try:
            late = self._results(ExactLaunch(self._prepared, text, is_late=True))
        except KernelFault as fault:
            return f"it fails where operations complete late: {fault.problem}"
        for early, contents in zip(results, late):
            for name, tensor in early.items():
                same, known = agreement(tensor.numpy(), contents[name].numpy())
                off = ~same | ~known & agreement(tensor.numpy(), tensor.numpy())[1]
                if off.any():
                    self._note_difference(name, off)
                    return "something is used before an asynchronous operation completes"
        return ""

    def _note_difference(self, name: str, off: numpy.ndarray) -> None:
        if self._difference is None:
            index = tuple(int(i) for i in numpy.argwhere(off)[0])
            self._difference = UnequalElement(name, index, int(off.sum()), off.size)

    def _results(self, launch: ExactLaunch) -> list[Mapping[str, torch.Tensor]]:
        values = self._prepared.call.values
        fresh = (ExactTensors(seed).holding(tensors_in(values)) for seed in range(self._seeds))
        return [launch.run(tensors) for tensors in fresh]

    def validation(self) -> Validation:
        """The result."""
        return Validation(
            self._prepared.kernel.__name__,
            str(self._prepared.target),
            self._first,
            tuple(self._passes),
            self._difference,
            self._lines,
            self._prepared.notes,
        )
