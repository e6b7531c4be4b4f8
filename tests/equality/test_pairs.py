"""Pairs known to be equal are accepted, and wrong kernels made of them are not."""

from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import CompileError, KernelLabError
from tests.cases.case import normal
from tests.kernels import helion
from tests.support.equal_pairs import PAIRS, Pair, beside, mutants, wide

RULES_OF_EACH, SEEDS = 3, range(6)
"""Of how many rules a wrong kernel of each pair is compared: 177 in all."""

DIFFER_FOR_NAN = {
    "linear, fused", "largest of rows", "attention of the corpus",
    "attention of the corpus, backward", "recurrence by a scan",
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


def test_a_mask_that_helion_leaves_out_is_different() -> None:
    pair = beside(
        PAIRS["layer norm in one block"], helion._helion_layer_norm, (1,), _RDIM_SIZE_1=128
    )
    equality: Any = kernellab.equal(pair.second(), pair.bound())
    assert equality.verdict == "different"
    assert equality.difference.index == (0, 0)


@pytest.mark.slow
@pytest.mark.thinned(4)
@pytest.mark.parametrize("number", range(len(PAIRS)), ids=list(PAIRS))
def test_wrong_kernels_are_different_from_the_first_wrong_element_on(number, tmp_path) -> None:
    """Runs decide which kernels are wrong, from which element on: in float64 where Triton can."""
    pair = list(PAIRS.values())[number]
    try:
        kind, kernel = torch.float64, wide(pair, tmp_path / "right.py")
        right = [results(pair, kernel, seed, kind) for seed in SEEDS]
    except CompileError:
        kind = torch.float32
        right = [results(pair, pair.kernel, seed, kind) for seed in SEEDS]
    by_rule: dict[str, list[Any]] = {}
    for name, *kernels in mutants(pair, tmp_path):
        by_rule.setdefault(name.partition(":")[0], []).append((name, *kernels))
    rules, compared = list(by_rule.values()), 0
    several = [each[n] for n in range(4) for each in rules[number:] + rules[:number] if each[n:]]
    for name, mutant, wide_mutant in several:
        try:
            kernel = wide_mutant if kind == torch.float64 else mutant
            wrong = [results(pair, kernel, seed, kind) for seed in SEEDS]
            equality: Any = kernellab.equal(pair.bound(mutant), pair.second(), inputs="finite")
        except KernelLabError:  # out of bounds, without results, does not compile
            continue
        if (first := first_off(pair, right, wrong)) is None or "narrow" in name:
            continue  # it is right for these inputs, or only rounds
        assert equality.verdict == "different", (name, equality)
        assert (equality.difference.tensor, equality.difference.index) == first, name
        compared += 1
        if compared == RULES_OF_EACH:
            return
    raise AssertionError(f"only {compared} of {len(several)} kernels are wrong")


def results(pair: Pair, kernel: Any, seed: int, kind: torch.dtype) -> dict[str, torch.Tensor]:
    """What a kernel writes with floats of a dtype, from the pair's inputs or from others."""
    values = dict(pair.arguments)
    for number, (name, value) in enumerate(pair.arguments.items()):
        if isinstance(value, torch.Tensor):
            values[name] = value.to(kind, copy=True) if value.is_floating_point() else value.clone()
            if seed and value.is_floating_point() and name not in pair.outputs:
                shift = 6 if name in ("sums_ptr", "log_sum_ptr") else 0
                values[name] = normal(*value.shape, seed=100 * seed + number).to(kind) + shift
    kernellab.run(kernel, pair.grid, **values, **pair.constants)
    return {name: values[name] for name in pair.outputs}


def first_off(pair: Pair, right: list[Any], wrong: list[Any]) -> tuple[str, tuple[int, ...]] | None:
    """The first element that differs in some of the runs."""
    for name in pair.outputs:
        runs = [(a[name], b[name]) for a, b in zip(right, wrong)]
        part = 1e-9 if runs[0][0].dtype == torch.float64 else 3e-5
        size = [part * float(a.nan_to_num(0, 0, 0).abs().max()) for a, _ in runs]
        off = torch.stack([~torch.isclose(*each, part, n, True) for each, n in zip(runs, size)])
        if off.any():
            return name, tuple(int(place) for place in off.any(0).nonzero()[0])
    return None
