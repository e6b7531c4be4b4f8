"""`kernellab.validate`: which pass of the compiler changes what a kernel computes."""

from typing import Any

import pytest
import torch

import kernellab
from kernellab.cli.demo import kernels
from tests.corpus.launches import LAUNCHES
from tests.corpus.loader import launched, name_of
from tests.kernels.interp.products import scaled_product
from tests.support.compiled import plant

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")
ROWS, SIZE = 96, 64


def matmul(target: str) -> Any:
    a, b = torch.zeros(ROWS, SIZE).half(), torch.zeros(SIZE, SIZE).half()
    c = torch.zeros(ROWS, SIZE).half()
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2, "PRECISION": "ieee"}
    sizes = (ROWS, SIZE, SIZE, SIZE, 1, SIZE, 1, SIZE, 1)
    return kernellab.validate(kernels.matmul, (6,), a, b, c, *sizes, target=target, **blocks)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("label", "pattern", "replacement"),
    [
        ("ttgir.coalesce", r"arith\.minsi", "arith.maxsi"),
        ("ttgir.remove_layout_conversions", r"arith\.addf", "arith.subf"),
        ("ttgir.pipeline", r"(async_wait .*num = )\d", r"\g<1>9"),
    ],
)
def test_a_wrong_pass_is_found(label, pattern, replacement, monkeypatch) -> None:
    plant(monkeypatch, "kernellab.equality.validation", label, pattern, replacement)
    found: Any = layer_norm() if "addf" in pattern else matmul("sm_90")
    assert found.wrong.label == label
    assert found.difference is not None or found.wrong.reason
    assert found.lines
    assert label in str(found)


def layer_norm() -> Any:
    x, out = torch.zeros(4, 100), torch.zeros(4, 100)
    weight, bias, mean, rstd = torch.zeros(100), torch.zeros(100), torch.zeros(4), torch.zeros(4)
    return kernellab.validate(
        kernels.layer_norm, (4,), x, weight, bias, out, mean, rstd, 100, 100, 1e-5, BLOCK=64,
        target="sm_80",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["e2m1", "e4m3"])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_matmuls_with_scales_of_one_side_on_amd(kind: str, target: str) -> None:
    a = torch.randint(0, 96, (64, 32 if kind == "e2m1" else 64), dtype=torch.uint8)
    scales, b = torch.randint(120, 135, (64, 2), dtype=torch.uint8), torch.zeros(64, 64).bfloat16()
    given = a if kind == "e2m1" else a.view(torch.float8_e4m3fn), scales, b, None
    sizes = {"M": 64, "N": 64, "K": 64, "A_K_PACK": True, "B_K_PACK": True, "FAST": False}
    assert kernellab.validate(
        scaled_product, (1,), *given, torch.zeros(64, 64), A_FORMAT=kind, B_FORMAT="bf16",
        target=target, **sizes,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.covering
@pytest.mark.parametrize(("entry", "target"), launched(TARGETS), ids=name_of)
def test_no_pass_changes_a_kernel_of_the_corpus(entry: Any, target: str) -> None:
    launch = LAUNCHES[entry.name]
    constants = {**entry.constants, **entry.options}
    found = kernellab.validate(
        entry.kernel, launch.grid, *launch.make(), target=target, **constants
    )
    assert found, found
    assert "Every pass keeps the results" in str(found)
