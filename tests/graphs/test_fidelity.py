"""What is generated with no GPU, beside what an H200 recorded (docs/fidelity.md)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.generated_graphs import codes_here, differences
from tests.support.graph_corpus import CASES

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "kernels_of_h200.json").read_text(encoding="utf-8")
)

DIFFERENT = {"rms_norm_bf16"}
"""One operation on a GPU, several on the CPU."""

SAME_TORCH = torch.__version__.split(".")[:2] == RECORDED["torch"].split(".")[:2]

REPLAYED = sorted(CASES) if SAME_TORCH else ["adam_step", "convolution", "softmax", "sum_columns"]
"""All graphs with the torch of the record; with another, whose kernels read otherwise, some."""


def test_the_record_is_of_the_whole_corpus() -> None:
    assert RECORDED["gpu"] == "NVIDIA H200"
    assert set(RECORDED["graphs"]) == set(CASES)
    assert len(CASES) >= 60


@pytest.mark.slow
@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", REPLAYED)
def test_kernels_are_those_of_an_h200(name: str) -> None:
    """Character by character with the torch of the record; with another, as many of each kind."""
    recorded = RECORDED["graphs"][name]
    made, errors = codes_here(CASES[name], "h200")
    torch._dynamo.reset()
    assert not errors
    if SAME_TORCH:
        assert bool(list(differences(recorded, made))) == (name in DIFFERENT)
    assert sorted(map(_kind, made)) == sorted(map(_kind, recorded))


def _kind(kernel: str) -> str:
    """What a kernel's name says of its kind: "triton_per" of "triton_per_fused_sum_1"."""
    return "_".join(kernel.split("_")[:2])
