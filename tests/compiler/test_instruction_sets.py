"""Gluon kernels with an instruction that the target lacks are refused: passes would crash."""

from typing import Any

import pytest
import torch
from triton.experimental.gluon import language as gl

import kernellab
from tests.kernels import descriptors
from tests.support.source_lines import line_of

TILE = f"tensordesc<fp16[64, 64],{gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)}>"


def copy(target: str) -> Any:
    return kernellab.compile(descriptors.gluon_copy, TILE, TILE, target=target)


def matmul(target: str, **options: Any) -> Any:
    kernel = descriptors.gluon_matmul
    return kernellab.compile(kernel, "*fp16", "*fp16", "*fp32", target=target, **options)


@pytest.mark.parametrize(
    ("made", "target", "text"),
    [
        (matmul, "sm_80", "= warpgroup_mma"),
        (matmul, "sm_100", "= warpgroup_mma"),
        (matmul, "sm_120", "= warpgroup_mma"),
        (copy, "sm_75", "tma_load("),
        (copy, "sm_80", "tma_load("),
    ],
)
def test_an_instruction_of_other_targets(made, target, text, raised) -> None:
    caught: Any = raised(kernellab.CompileError, made, target)
    assert caught.position.file == descriptors.__file__
    assert caught.position.line == line_of(descriptors, text)


def test_targets_that_have_it() -> None:
    assert "wgmma" in matmul("sm_90").stages["ptx"].text
    for target in ("sm_90", "sm_100", "sm_120"):
        assert "cp.async.bulk.tensor" in copy(target).stages["ptx"].text


def test_it_is_refused_without_the_record_of_the_passes_too() -> None:
    with pytest.raises(kernellab.CompileError, match="wgmma"):
        matmul("sm_80", record="stages")
    x, y = torch.ones(64, 32, dtype=torch.float16), torch.ones(32, 32, dtype=torch.float16)
    refused = pytest.raises(kernellab.CompileError, match="wgmma")
    with kernellab.interpreted(target="sm_80"), refused:
        descriptors.gluon_matmul.warmup(x, y, torch.empty(64, 32), grid=(1,))
