"""What xDSL prints, MLIR reads back to the same module; `make corpus` sends every pass round."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from kernellab.compiler.targets import parse_target
from tests.corpus.loader import WHOLE, case_name, cases, entry
from tests.ir.round_trip import round_trip_entry

EVERY_PASS = [
    ("matmul_small", "sm_75"), ("layer_norm_backward", "sm_80"), ("matmul_fp8", "sm_89"),
    ("matmul_tma", "sm_90"), ("attention_forward", "sm_90"), ("matmul_tma_specialized", "sm_100"),
    ("matmul_mxfp4", "sm_100"), ("gluon_tma_copy", "sm_90"), ("matmul", "gfx950"),
    ("matmul_persistent", "gfx942"), ("collatz", "gfx1100"),
]  # fmt: skip
"""One kernel for each kind of pipeline, as different as can be."""
CASES = cases() if WHOLE else [(entry(name), parse_target(target)) for name, target in EVERY_PASS]

QUICK = "matmul-sm_90", "matmul-gfx942"
BY_STAGES = [
    pytest.param(
        case, id=case_name(case), marks=[] if case_name(case) in QUICK else [pytest.mark.slow]
    )
    for case in cases()
]


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessPoolExecutor]:
    """One process that a broken module may abort: the test that sent it fails."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.corpus
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_the_module_after_every_pass_comes_back_the_same(case, worker):
    one, target = case
    result = worker.submit(round_trip_entry, one.name, target, True).result()
    assert result.snapshots > (3 if WHOLE else 0)
    assert not result.failures, "\n".join(result.failures)


@pytest.mark.corpus
@pytest.mark.skipif(WHOLE, reason="every pass of every pair is tested")
@pytest.mark.parametrize("case", BY_STAGES)
def test_the_stages_come_back_the_same(case, worker):
    one, target = case
    result = worker.submit(round_trip_entry, one.name, target, False).result()
    assert result.snapshots == (1 if one.kernel.is_gluon() else 2)
    assert not result.failures, "\n".join(result.failures)
