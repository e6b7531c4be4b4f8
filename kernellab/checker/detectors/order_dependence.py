"""Results that change with the order in which programs run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.detectors.race import Race
from kernellab.checker.outcomes import Apart, as_text, differences
from kernellab.checker.shadow.memory import ShadowArray, Storage, Storages
from kernellab.errors import KernelFault
from kernellab.interpreter.analyses.memory_effects import memory_effects
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.interpreter.memory.layers import Atomic
from kernellab.ir.locations import locate
from kernellab.records.run_options import RunOptions

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

_ORDERS = (
    ("backwards", RunOptions(order="reversed")),
    ("in a shuffled order (seed 1)", RunOptions(order="shuffled", seed=1)),
    ("in a shuffled order (seed 2)", RunOptions(order="shuffled", seed=2)),
)


class OrderDependence(Detector):
    """Runs the launch in other orders, where programs can learn of each other at all,
    and looks whether results change.

    A race is told as that: what it does to results is its consequence.
    """

    kinds = ("order-dependence",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._sums = FloatSums(run)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return run.programs > 1

    def meet(self, others: Sequence[Detector]) -> None:
        (self._race,) = (one for one in others if isinstance(one, Race))

    def before(self, access: Access) -> None:
        self._sums.before(access)

    def ask(self, session: CheckSession) -> None:
        shown = self._race.shared or memory_effects(self.run.code).order_shows
        if not shown or any(self._race.findings()):
            return
        for words, options in _ORDERS:
            try:
                run = session.repeat(options=options)
            except (Stopped, KernelFault) as failure:
                self._report_failure(words, failure)
                return
            apart = list(differences(self.run.results, run.results, self._sums.tolerance))
            if apart:
                self._report(session, words, apart)
                return

    def _report(self, session: CheckSession, words: str, apart: Sequence[Apart]) -> None:
        first = apart[0]
        writers: list[_Writer] = []

        def watch(run: CheckedRun) -> Sequence[Detector]:
            writers.append(_Writer(run, first))
            return writers

        session.repeat(watch)
        others = [one.name for one in apart[1:]]
        also = (
            f"; {', '.join(others)} change{'s' if len(others) == 1 else ''} too" if others else ""
        )
        message = (
            f"{first.element} depends on the order of the programs: it is {as_text(first.one)} "
            f"when they run in the order of their ids, {as_text(first.other)} when they run "
            f"{words}{also}"
        )
        facts = {"argument": first.name, "index": first.index, "message": message}
        self._add(writers[0].operation, facts, writers[0].programs, first.count)

    def _report_failure(self, words: str, failure: Stopped | KernelFault) -> None:
        if isinstance(failure, Stopped):
            position, why = failure.finding.position, failure.finding.message
        else:
            position, why = failure.position, failure.what
        message = (
            f"with its programs run {words} the kernel does not end as it does in the order of "
            f"their ids: {why}"
        )
        facts = {
            "kind": self.kinds[0],
            "position": position,
            "message": message,
            "advice": _ADVICE,
        }
        self.collector.add("order", facts)

    def _add(
        self, op: Operation | None, facts: dict[str, Any], programs: Sequence[int], count: int
    ) -> None:
        frames = () if op is None else locate(op.location).frames
        where = {
            "kind": self.kinds[0],
            "position": frames[0] if frames else None,
            "calls": tuple(reversed(frames[1:])),
            "advice": _ADVICE,
        }
        self.collector.add("order", {**where, **facts}, programs, count)


_ADVICE = (
    "A GPU promises no order. Look for what a program learns from an atomic (a ticket, a count "
    "that others go on changing) and lets into its results; let results depend on tl.program_id "
    "alone, or sort them afterwards."
)


class _Writer(Detector):
    """Hears who writes one element last."""

    kinds = ()

    def __init__(self, run: CheckedRun, apart: Apart) -> None:
        super().__init__(run)
        tensor = run.tensors[apart.name]
        offset = sum(place * step for place, step in zip(apart.index, tensor.stride()))
        size = tensor.element_size()
        self._start = tensor.untyped_storage().data_ptr()
        self._byte = (tensor.storage_offset() + offset) * size
        self.operation: Operation | None = None
        self.programs: tuple[int, ...] = ()

    def before(self, access: Access) -> None:
        if (
            access.action == "load"
            or access.buffer.tensor.untyped_storage().data_ptr() != self._start
        ):
            return
        buffer = access.buffer
        first = buffer.elements.__array_interface__["data"][0] - self._start
        here = access.index == (self._byte - first) // buffer.itemsize
        if access.on is not None:
            here = here & access.on
        if here.any():
            self.operation = access.operation
            has_programs = here.ndim > access.rank
            among = (
                here.reshape(len(here), -1).any(axis=1) if has_programs and len(here) > 1 else None
            )
            self.programs = tuple(access.linear_ids(among).tolist())


class FloatSums(Detector):
    """What is added to each element by atomics on floats, so that the rounding
    of another order can be told from a fault.

    n numbers that are added up in two orders, each sum rounded to a unit u, are at most 2 (n - 1) u
    sum|x| apart (N. J. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). In a
    kernel that adds floats so, floats elsewhere may be made of such sums: they may be apart by the
    square root of u, relative to the tensor's largest.
    """

    kinds = ()

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._storages = Storages(self._begin)
        self._any = False

    def _begin(self, buffer: Buffer) -> tuple[Storage, ShadowArray, ShadowArray]:
        storage = Storage(buffer)
        return storage, storage.shadow(0, numpy.int64), storage.shadow(0.0, numpy.float64)

    def before(self, access: Access) -> None:
        request = access.request
        if not isinstance(request, Atomic) or request.operation not in ("fadd", "add"):
            return
        if access.buffer.elements.dtype.kind in "iu":
            return
        self._any = True
        storage, counts, sums = self._storages[access.buffer]
        added = numpy.abs(numpy.asarray(request.value).astype(numpy.float64))
        everyone = (request.programs, *request.shape)
        on = numpy.broadcast_to(True if access.on is None else access.on, everyone)
        index = numpy.broadcast_to(storage.index_in(access.index, access.buffer), everyone)[on]
        numpy.add.at(counts.elements, index, 1)
        numpy.add.at(sums.elements, index, numpy.broadcast_to(added, everyone)[on])

    def tolerance(self, name: str, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor | None:
        """See `outcomes.Tolerance`."""
        if not self._any:
            return None
        unit = torch.finfo(one.dtype).eps / 2
        largest = max(
            float(tensor.double().abs().nan_to_num(0, 0, 0).max()) for tensor in (one, other)
        )
        derived = torch.full(one.shape, unit**0.5 * largest, dtype=torch.float64)
        tensor = self.run.tensors[name]
        known = self._storages.by_start.get(tensor.untyped_storage().data_ptr())
        if known is None:
            return derived
        storage, counts, sums = known
        if storage.unit != tensor.element_size():
            return derived
        numbers = torch.from_numpy(storage.view(tensor, counts.elements).copy())
        magnitudes = torch.from_numpy(storage.view(tensor, sums.elements).copy())
        return torch.where(
            numbers > 0, 2 * numbers * unit * (magnitudes + one.double().abs()), derived
        )
