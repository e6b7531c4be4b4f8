"""Pairs known to be equal are accepted, and wrong kernels made of them are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import KernelLabError
from tests.cases.case import normal
from tests.support.equal_pairs import PAIRS, Pair, mutants

MOST, LEAST_WRONG, SEEDS = 12, 3, range(20)
"""How many rewritten kernels of a pair are tried, more if fewer than `LEAST_WRONG` of them are
wrong, and with which inputs their floats run.
"""


DIFFER_FOR_NAN = {
    "linear, fused", "largest of rows", "attention of the corpus", "recurrence by a scan",
}  # fmt: skip
"""A maximum of Triton's ignores NaN, and kernels skip products of NaN and 0."""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", PAIRS)
def test_what_is_equal_is_accepted(name: str) -> None:
    pair = PAIRS[name]
    found = kernellab.equal(pair.bound(), pair.second())
    if name in DIFFER_FOR_NAN:
        assert (found.verdict, "NaN" in found.reason) == ("not decided", True)
        found = kernellab.equal(pair.bound(), pair.second(), inputs="finite")
    assert found.verdict == "equal", found
    assert set(found.compared) == set(pair.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_what_is_wrong_is_different_from_the_first_wrong_element_on(
    name: str, tmp_path: Path
) -> None:
    """What runs with floats show decides which of the rewritten kernels are wrong."""
    pair = PAIRS[name]
    right, wrong = [results(pair, pair.kernel, seed) for seed in SEEDS], 0
    rewritten = list(mutants(pair, tmp_path))
    step = max(1, len(rewritten) // MOST)
    spread = [mutant for first in range(step) for mutant in rewritten[first::step]]
    for number, mutant in enumerate(spread):
        if number >= MOST and wrong >= LEAST_WRONG:
            break
        try:
            off = Off(pair, right, [results(pair, mutant.kernel, seed) for seed in SEEDS])
            found = kernellab.equal(pair.bound(mutant.kernel), pair.second())
        except KernelLabError:  # out of bounds, without results, does not compile
            continue
        if off.first is None or "narrow" in mutant.name:  # it is right, or only rounds
            continue
        wrong += 1
        assert found.verdict == "different", (mutant.name, found)
        assert found.difference is not None
        output, index = found.difference.tensor, found.difference.index
        place = pair.outputs.index(output), index
        assert place <= off.first, (mutant.name, place, off.first)
        assert off.at_all[output][index], (mutant.name, place)
    assert wrong >= LEAST_WRONG


def results(pair: Pair, kernel: Any, seed: int) -> dict[str, torch.Tensor]:
    """What a kernel writes, from the pair's inputs or from others."""
    values = dict(pair.arguments)
    for number, (name, value) in enumerate(pair.arguments.items()):
        if isinstance(value, torch.Tensor):
            values[name] = value.clone()
            if seed and value.is_floating_point() and name not in pair.outputs:
                shift = 6 if name in ("sums_ptr", "log_sum_ptr") else 0
                values[name] = normal(*value.shape, seed=100 * seed + number) + shift
    kernellab.run(kernel, pair.grid, **values, **pair.constants)
    return {name: values[name].double() for name in pair.outputs}


class Off:
    """Where floats of a wrong kernel are off.

    Attributes:
        at_all: the elements that differ by more than a few roundings, for each output.
        first: the number of the output and the index of the first element that is off by 2 % in
            the run with the pair's own inputs.
    """

    def __init__(self, pair: Pair, right: list[Any], wrong: list[Any]) -> None:
        self.at_all: dict[str, torch.Tensor] = {}
        self.first: tuple[int, tuple[int, ...]] | None = None
        for number, name in enumerate(pair.outputs):
            runs = [self._distance(one[name], other[name]) for one, other in zip(right, wrong)]
            self.at_all[name] = torch.stack(runs).amax(0) > 1e-6
            visible = (runs[0] > 2e-2).nonzero()
            if len(visible) and self.first is None:
                self.first = number, tuple(int(place) for place in visible[0])

    def _distance(self, right: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
        size = right.abs() + right.square().mean().sqrt()
        away = ((right - wrong).abs() / size).nan_to_num(nan=torch.inf)
        return torch.where((right == wrong) | (right.isnan() & wrong.isnan()), 0.0, away)
