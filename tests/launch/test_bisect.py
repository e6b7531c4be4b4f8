"""`kernellab.bisect` finds the pass that was made wrong, and no other."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import OptionError
from kernellab.viz.kernels import bisection_card
from tests.cases.case import normal
from tests.corpus import matmuls
from tests.corpus.rows import softmax
from tests.kernels.gluon_add import gluon_add
from tests.support.compiled import plant, source_line
from tests.support.versions import PREFETCHES_BY_PARTS

BISECTION = "kernellab.launch.bisection"
M = N = K = 64
SHAPE: dict[str, Any] = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 4}


def matmul_arguments() -> tuple[Any, ...]:
    a, b = normal(M, K, dtype=torch.float16), normal(K, N, seed=1, dtype=torch.float16)
    c = torch.zeros(M, N, dtype=torch.float16)
    return a, b, c, M, N, K, K, 1, N, 1, N, 1


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_no_pass_of_triton_changes_a_product(target) -> None:
    arguments = matmul_arguments()
    found = kernellab.bisect(matmuls.matmul, (4,), *arguments, **SHAPE, target=target)
    if PREFETCHES_BY_PARTS and target == "sm_80":
        assert found.label is not None
        assert "prefetch" in found.label
        return
    assert found.label is None
    assert found.differences == ()
    assert found.position is None
    assert found.not_run == {}
    assert found.modules > 10
    assert not arguments[2].any(), "the arguments themselves stay as they are"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("target", "label"),
    [("sm_90", "ttir.combine"), ("sm_90", "ttgir.coalesce"), ("gfx942", "ttgir.pipeline")],
)
def test_the_planted_pass_is_found(target, label, monkeypatch) -> None:
    """min becomes max in the rows of a group, so programs compute other tiles than theirs."""
    plant(monkeypatch, BISECTION, label, r"arith\.minsi", "arith.maxsi")
    out = matmul_arguments()
    found = kernellab.bisect(matmuls.matmul, (4,), *out, **SHAPE | {"GROUP_M": 1}, target=target)
    assert (found.label, found.target) == (label, target)
    assert "rows = min(tiles_m - first, GROUP_M)" in map(source_line, found.lines)


@pytest.mark.slow
def test_what_differs_is_measured(monkeypatch) -> None:
    """Powers of e become powers of 2: the softmax of x * log(2)."""
    plant(monkeypatch, BISECTION, "ttgir.coalesce", r"math\.exp ", "math.exp2 ")
    x, out = normal(8, 100), torch.zeros(8, 100)
    found = kernellab.bisect(softmax, (8,), x, out, 100, 100, BLOCK=128, target="sm_90")
    assert found.label == "ttgir.coalesce"
    right = torch.softmax(x.double(), 1)
    wrong = torch.softmax(x.double() * torch.log(torch.tensor(2.0).double()), 1)
    (difference,) = found.differences
    assert (difference.name, difference.size) == ("out_ptr", 800)
    assert difference.count > 790
    assert difference.largest == pytest.approx(float((wrong - right).abs().max()), rel=1e-4)
    assert difference.expected == pytest.approx(float(right[difference.index]), rel=1e-5)
    assert difference.actual == pytest.approx(float(wrong[difference.index]), rel=1e-5)
    assert [source_line(position) for position in found.lines] == [
        "numerator = tl.exp(x - tl.max(x, axis=0))"
    ]
    tolerant = kernellab.bisect(
        softmax, (8,), x, out, 100, 100, BLOCK=128, target="sm_90", atol=1.0
    )
    assert tolerant.label is None


@triton.jit
def scaled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 0.1, mask=at < n)


def test_rounding_counts_only_if_every_bit_does(monkeypatch) -> None:
    plant(monkeypatch, BISECTION, "ttgir.coalesce", r"1\.000000e-01", "1.00000009e-01")
    launch = kernellab.bind(scaled, (1,), normal(100), torch.zeros(100), 100, BLOCK=128)
    assert kernellab.bisect(launch, target="sm_90").label is None
    assert kernellab.bisect(launch, target="sm_90", rtol=0).label == "ttgir.coalesce"


def test_a_fault_counts_as_a_difference(monkeypatch, messages) -> None:
    plant(
        monkeypatch, "kernellab.launch.bisection", "ttgir.coalesce", r"arith\.cmpi slt",
        "arith.cmpi sge",
    )  # fmt: skip
    x, out = normal(8, 100), torch.zeros(8, 100)
    found = kernellab.bisect(softmax, (8,), x, out, 100, 100, BLOCK=256, target="sm_90")
    assert found.label == "ttgir.coalesce"
    assert found.failure == messages
    assert found.differences == ()


def test_tensors_that_share_memory_share_it_in_every_run() -> None:
    x = normal(8, 100)
    found = kernellab.bisect(softmax, (8,), x, x, 100, 100, BLOCK=128)
    assert found.label is None


def test_a_gluon_kernel() -> None:
    x, y, z = normal(256), normal(256, seed=1), torch.zeros(256)
    found = kernellab.bisect(gluon_add, (2,), x, y, z, 256, BLOCK=128)
    assert found.label is None
    assert found.modules >= 1


@pytest.mark.slow
def test_another_pipeline(raised) -> None:
    arguments = matmul_arguments()
    found = kernellab.bisect(
        matmuls.matmul, (4,), *arguments, **SHAPE, target="sm_80", skip="pipeline"
    )
    assert found.label is None
    raised(
        OptionError, kernellab.bisect, matmuls.matmul, (4,), *arguments, **SHAPE, skip="pipelines",
        match="pipelines",
    )  # fmt: skip


def test_the_card_says_the_same_in_text_and_html(monkeypatch) -> None:
    plant(monkeypatch, BISECTION, "ttgir.coalesce", r"math\.exp ", "math.exp2 ")
    x, out = normal(8, 100), torch.zeros(8, 100)
    found = kernellab.bisect(softmax, (8,), x, out, 100, 100, BLOCK=128, target="sm_90")
    card = bisection_card(found)
    for shown in (card.text(), card.html()):
        assert "ttgir.coalesce is the first pass after which a result changes" in shown
        assert "out_ptr" in shown
        assert "numerator = tl.exp(x - tl.max(x, axis=0))" in shown
    found = kernellab.bisect(softmax, (8,), x, out, 100, 100, BLOCK=128, atol=1.0)
    assert "No pass changes a result" in bisection_card(found).text()
