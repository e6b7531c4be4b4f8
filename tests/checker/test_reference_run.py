"""One further run follows all causes of inexact results that a launch has, each by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl
from xdsl.ir import Operation

import kernellab
from kernellab.checker.detectors.integers import CastOverflow
from kernellab.checker.exact_functions import function_of
from kernellab.checker.records import Findings
from kernellab.checker.reference_run import ReferenceRun
from kernellab.ir import mlir, tt
from tests.support.compiled import compiled


@triton.jit
def wraps_cuts_and_divides(
    x_ptr, i_ptr, d_ptr, sum_ptr, cast_ptr, quotient_ptr, BLOCK: tl.constexpr
):
    lanes = tl.arange(0, BLOCK)
    i = tl.load(i_ptr + lanes)
    tl.store(sum_ptr + lanes, (i + i).to(tl.int32))
    tl.store(cast_ptr + lanes, (tl.load(x_ptr + lanes) * 2.0).to(tl.int8))
    tl.store(quotient_ptr + lanes, 7 // tl.load(d_ptr + lanes))


def found() -> Findings:
    i = torch.arange(16, dtype=torch.int8) + 60
    x = torch.full((16,), 100.0)
    d = torch.arange(16, dtype=torch.int32)
    outputs = [torch.zeros(16, dtype=kind) for kind in (torch.int32, torch.int8, torch.int32)]
    return kernellab.check(wraps_cuts_and_divides, (1,), x, i, d, *outputs, BLOCK=16)


def test_one_run_follows_all_causes(monkeypatch) -> None:
    followed: list[list[str]] = []
    meet = ReferenceRun.meet

    def meeting(self: ReferenceRun, others: Sequence[object]) -> None:
        meet(self, others)
        followed.append([type(one.cause).__name__ for one in self.followed])

    monkeypatch.setattr(ReferenceRun, "meet", meeting)
    assert set(found().kinds) == {"integer-overflow", "cast-overflow", "division-by-zero"}
    assert followed[0] == ["NarrowOverflow", "CastOverflow", "DivisionByZero"]


def test_a_cause_that_fails_costs_no_finding_of_the_others(monkeypatch) -> None:
    def fail(*_given: Any) -> Mapping[str, Any]:
        raise KeyError("no facts")

    monkeypatch.setattr(CastOverflow, "facts", fail)
    findings = found()
    assert set(findings.kinds) == {"integer-overflow", "division-by-zero"}
    (note,) = findings.notes
    assert "'CastOverflow' failed: KeyError: 'no facts'" in note


@triton.jit
def computes(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    tile = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + tile)
    y = tl.load(y_ptr + tile)
    product = tl.dot(x, y, out_dtype=tl.float32)
    wide = x.to(tl.float32)
    total = tl.sum(tl.exp(wide) / tl.sqrt(y.to(tl.float32)), 1)
    running = tl.cumsum(x, 1)
    tl.store(out_ptr + tile, product + running + total[:, None])


def exact(kind: type[Operation], *operands: torch.Tensor) -> list[torch.Tensor]:
    """The results of the first operation of a kind in `computes`, of operands with a program."""
    compilation = compiled(computes, "*fp16", "*fp16", "*fp32", BLOCK=16, target="sm_90")
    module = compilation.module("ttir")
    op = next(op for op in module.walk() if isinstance(op, kind))
    function: Any = function_of(op)
    results = function(*(operand[None].numpy() for operand in operands))
    several = results if isinstance(results, tuple) else (results,)
    return [torch.from_numpy(numpy.asarray(one))[0] for one in several]


X = torch.randn(16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = X.flip(0) + 4
C = torch.zeros(16, 16, dtype=torch.float64)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "operands", "right"),
    [
        (mlir.ExpOp, (X,), X.exp()), (mlir.SqrtOp, (Y,), Y.sqrt()), (mlir.DivFOp, (X, Y), X / Y),
        (tt.DotOp, (X, Y, C), X @ Y), (tt.ScanOp, (X,), X.cumsum(1)),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
def test_operations_do_not_round(kind, operands, right) -> None:
    (result,) = exact(kind, *operands)
    assert result.dtype == torch.float64
    torch.testing.assert_close(result, right, rtol=1e-14, atol=1e-14)
