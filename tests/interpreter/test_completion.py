"""With `completion="late"` right kernels compute the same, and a missing wait shows."""

import pytest
import torch

import kernellab
from kernellab.errors import EndlessWait, ExtraArrival, InvalidBarrier, OptionError
from tests.corpus.elementwise import vector_add
from tests.kernels import asynchronous
from tests.kernels.asynchronous import is_right
from tests.support.broken_kernels import broken, faults_of


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", asynchronous.NAMES)
def test_right_kernels_compute_the_same(name) -> None:
    assert is_right(asynchronous, name, "early")
    assert is_right(asynchronous, name, "late", programs=2)
    assert is_right(asynchronous, name, "shuffled", seed=1)


_UNSEEN = {("tma_copies", "J"), ("sent", "A"), ("sent", "E"), ("passed_on", "B")}
FAULTS = [
    (name, fault)
    for name, fault in faults_of(asynchronous, asynchronous.NAMES)
    if (name, fault) not in _UNSEEN
]
"""All but stores that no wait follows, which only another program could show, a missing fence, and
one group of warps that overtakes another.
"""


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_missing_wait_shows(name, fault, tmp_path) -> None:
    kernels, _found = broken(asynchronous, name, fault, tmp_path)
    try:
        shows = not is_right(kernels, name, "late")
    except (EndlessWait, ExtraArrival, InvalidBarrier):
        shows = True
    assert shows


def test_operations_that_complete_early_or_late_by_chance(tmp_path) -> None:
    kernels, _found = broken(asynchronous, "copies", "D", tmp_path)
    right = [is_right(kernels, "copies", "shuffled", seed=seed) for seed in range(4)]
    assert not all(right)


def test_ttir_has_nothing_that_completes_late(raised) -> None:
    x = torch.zeros(128)
    raised(OptionError, kernellab.run, vector_add, (1,), x, x, x, 128, BLOCK=128, completion="late")
    raised(
        OptionError, kernellab.trace, vector_add, (1,), x, x, x, 128, BLOCK=128, completion="late"
    )
    raised(OptionError, kernellab.run, vector_add, (1,), x, x, x, 128, BLOCK=128, completion="soon")
