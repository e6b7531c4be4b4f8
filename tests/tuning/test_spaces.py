"""Which configs a sweep tries."""

from __future__ import annotations

import pytest
import triton
from syrupy.assertion import SnapshotAssertion

from kernellab.errors import ArgumentError, OptionError
from kernellab.records import Target
from kernellab.tuning.configs import candidates
from tests.kernels.tuned import autotuned_double, double

SM_90 = Target("cuda", "90")


def values(found):
    return [one.values for one in found]


def test_a_space_is_all_combinations_constants_apart_from_options() -> None:
    found = candidates(double, {"BLOCK": [64, 128], "num_warps": [2, 4]}, SM_90, (), {})
    assert values(found) == [
        {"BLOCK": 64, "num_warps": 2}, {"BLOCK": 64, "num_warps": 4},
        {"BLOCK": 128, "num_warps": 2}, {"BLOCK": 128, "num_warps": 4},
    ]  # fmt: skip
    assert found[0].constants == {"BLOCK": 64}
    assert found[0].options == {"num_warps": 2}


def test_tritons_configs_and_dicts_are_taken_as_they_are_and_each_once() -> None:
    config = triton.Config({"BLOCK": 64}, num_warps=2, num_stages=5)
    found = candidates(double, [config, config, {"BLOCK": 32}], SM_90, (), {})
    assert found[0].values == {"BLOCK": 64, "num_warps": 2, "num_ctas": 1, "num_stages": 5}
    assert found[1].values == {"BLOCK": 32}
    assert len(found) == 2


def test_without_a_space_the_autotuners_configs_count() -> None:
    found = candidates(autotuned_double, None, SM_90, (), {})
    assert [one.constants["BLOCK"] for one in found] == [64, 128]
    assert [one.options["num_warps"] for one in found] == [2, 4]


def test_an_autotuners_own_pruning_counts(messages: SnapshotAssertion) -> None:
    @triton.autotune(
        [triton.Config({"BLOCK": size}) for size in (64, 128, 256)],
        key=["n"],
        prune_configs_by={
            "early_config_prune": lambda configs, named, **_: [
                one for one in configs if one.kwargs["BLOCK"] <= named["n"]
            ]
        },
    )
    @triton.jit
    def pruned(x_ptr, n, BLOCK: triton.language.constexpr):
        pass

    found = candidates(pruned, None, SM_90, ("x", 128), {})
    assert [one.constants["BLOCK"] for one in found] == [64, 128]
    with pytest.raises(ArgumentError, match="pruned") as refused:
        candidates(pruned, None, SM_90, ("x", 1), {})
    assert refused.value == messages


@pytest.mark.parametrize(
    ("space", "error"),
    [
        ({}, ArgumentError),
        ([], ArgumentError),
        ({"BLOCK": []}, ArgumentError),
        ({"BLOCK": 64}, ArgumentError),
        ({"BLOC": [64]}, OptionError),
        ({"num_warp": [4]}, OptionError),
        ({"n": [4]}, OptionError),
        ([64], ArgumentError),
        (None, ArgumentError),
    ],
)
def test_what_cannot_be_tried_is_said(space, error, messages: SnapshotAssertion) -> None:
    with pytest.raises(error) as refused:
        candidates(double, space, SM_90, ("x", "z", 1000), {})
    assert refused.value == messages
