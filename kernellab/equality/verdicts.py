"""What follows from the residues of two computations, and from runs with floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab.common.formatting import counted
from kernellab.equality.launches import ExactTensors
from kernellab.equality.results import ResultPair
from kernellab.equality.sides import KernelSide, Side
from kernellab.errors import SourcePosition
from kernellab.launch.differences import differences_between, tolerance
from kernellab.records.equality import Equality, FloatPair, UnequalElement, Verdict


@dataclass(frozen=True)
class Comparison:
    """Two computations after their runs with residues.

    Attributes:
        seeds: how many sets of residues they ran with.
        pairs: their results.
        uninterpreted: functions without a law that they called.
        again: the residues of the last run, before it.
    """

    first: Side
    second: Side
    seeds: int
    pairs: Sequence[ResultPair]
    uninterpreted: tuple[str, ...]
    again: ExactTensors

    def equality(self) -> Equality:
        """The verdict."""
        for pair in self.pairs:
            if pair.differs.any():
                return self._unequal(pair, pair.differs, self._why_not_visible())
        for pair in self.pairs:
            if not pair.decided.all():
                return self._unequal(pair, ~pair.decided, _without_residue(pair))
        for pair in self.pairs:
            floats = self._visible(pair, ())
            if floats is not None and all(map(math.isfinite, floats[1:])):
                element = UnequalElement(pair.names[0], floats[0], 0, pair.differs.size, floats)
                return self._verdict("not decided", _CONTRADICTED, element)
        return self._verdict("equal")

    def _verdict(
        self,
        verdict: Verdict,
        reason: str = "",
        difference: UnequalElement | None = None,
        position: SourcePosition | None = None,
    ) -> Equality:
        compared = {pair.names[0]: pair.differs.size for pair in self.pairs}
        names = self.first.name, self.second.name
        return Equality(
            *names, verdict, self.seeds, compared, difference, reason, position, self.uninterpreted
        )

    def _unequal(self, pair: ResultPair, off: numpy.ndarray, otherwise: str) -> Equality:
        """The verdict if elements are off: "different" only if floats show it."""
        index = tuple(int(place) for place in numpy.argwhere(off)[0])
        floats = self._visible(pair, _INPUTS)
        element = UnequalElement(pair.names[0], index, int(off.sum()), off.size, floats)
        position = self._stored_at(pair, index)
        if floats is None:
            return self._verdict("not decided", otherwise, element, position)
        return self._verdict("different", "", element, position)

    def _why_not_visible(self) -> str:
        reason = "The exact values differ, and runs with floats show no difference"
        if self.uninterpreted:
            functions = ", ".join(self.uninterpreted)
            reason += (
                f"; nothing is known of {functions} but that equal arguments give equal results"
            )
        return reason

    def _stored_at(self, pair: ResultPair, index: tuple[int, ...]) -> SourcePosition | None:
        """The line that stores an element."""
        for side, name in zip((self.first, self.second), pair.names):
            if isinstance(side, KernelSide):
                position = side.stored_at(name, index, self.again)
                if position is not None:
                    return position
        return None

    def _visible(self, pair: ResultPair, inputs: Sequence[MadeOfNormal]) -> FloatPair | None:
        """An element that differs by more than rounding explains, after runs with the floats that
        were given and with others.
        """
        sides = self.first, self.second
        tensors = {tensor.data_ptr(): tensor for side in sides for _, tensor in side.tensors()}
        for numbers in (None, *inputs):
            with nullcontext() if numbers is None else _holding(tensors.values(), numbers):
                results = [
                    side.run_floats()[name].detach() for side, name in zip(sides, pair.names)
                ]
            bounds = [tolerance(result, None, None) for result in results]
            rtol, atol = (_TIMES_ROUNDING * max(bound) for bound in zip(*bounds))
            left, right = map(_finite, results)
            for difference in differences_between({"": left}, {"": right}, rtol, atol):
                index = difference.index
                return index, float(results[0][index]), float(results[1][index])
        return None


_CONTRADICTED = (
    "The exact values agree, and a run with the given floats differs by more than the usual "
    "rounding: by a race between programs (see kernellab.check), or by rounding"
)

_TIMES_ROUNDING = 4
"""How many times the usual tolerance of a dtype a visible difference is."""


def _without_residue(pair: ResultPair) -> str:
    count = int((~pair.decided).sum())
    return (
        f"{counted(count, 'element')} of {pair.names[0]} {'has' if count == 1 else 'have'} no "
        "residue in both: NaN, or a product of an exponential and a logarithm"
    )


def _finite(result: torch.Tensor) -> torch.Tensor:
    """A result with large numbers for infinities, which no tolerance excuses."""
    return result.double().nan_to_num(nan=float("nan"), posinf=1e300, neginf=-1e300)


MadeOfNormal = Callable[[torch.Tensor], torch.Tensor]

_INPUTS: tuple[MadeOfNormal, ...] = (
    lambda normal: normal,
    lambda normal: normal * 1e-3,
    lambda normal: normal.flatten().sort().values.reshape(normal.shape),
    lambda normal: normal.flatten().sort(descending=True).values.reshape(normal.shape),
)
"""What inputs hold, made of normal numbers."""


@contextmanager
def _holding(tensors: Iterable[Any], numbers: MadeOfNormal) -> Iterator[None]:
    """Let tensors of floats hold other numbers for a while."""
    floats = [tensor.detach() for tensor in tensors if tensor.is_floating_point()]
    before = [tensor.clone() for tensor in floats]
    generator = torch.Generator().manual_seed(0)
    try:
        for tensor in floats:
            tensor.copy_(numbers(torch.randn(tensor.shape, generator=generator)))
        yield
    finally:
        for tensor, contents in zip(floats, before):
            tensor.copy_(contents)
