"""Every kernel of the corpus gives in TTGIR what it gives in TTIR, for every target."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab.checker.detectors.asynchrony import MissingWait
from kernellab.checker.detectors.barriers import MissingBarrier
from kernellab.compiler.targets import parse_target
from tests.cases.case import as_numpy, assert_same
from tests.corpus.entries import ENTRIES, Entry
from tests.corpus.launches import LAUNCHES, CorpusLaunch
from tests.corpus.loader import WHOLE, launched

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950")
QUICK = {
    "sm_80": ("matmul", "attention_forward", "matmul_tma"),
    "sm_90": (
        "matmul_tma",
        "matmul_descriptors",
        "matmul_persistent",
        "attention_forward",
        "attention_backward",
    ),
    "sm_100": ("matmul", "matmul_mxfp8", "matmul_warp_specialized"),
    "gfx942": ("matmul", "histogram", "attention_forward", "matmul_tma"),
}
"""What a default run takes; a run of the whole corpus takes everything."""
IN_SMALLER_STEPS = {("matmul", "sm_80")}
"""Where the pass `prefetch` (from Triton 3.8 on) splits a product along K,
and so adds up in another order."""


CHOSEN = [pair for pair in launched(TARGETS) if WHOLE or pair[0].name in QUICK.get(pair[1], ())]


def test_every_kernel_of_triton_has_a_launch() -> None:
    without = {one.name for one in ENTRIES if one.name not in LAUNCHES}
    assert all(name.startswith("gluon_") for name in without), without
    assert set(LAUNCHES) <= {one.name for one in ENTRIES}


def after(
    one: Entry, launch: CorpusLaunch, target: str, stage: str, completion: str = "early"
) -> list[torch.Tensor]:
    """What a stage leaves in the tensors of the launch."""
    arguments = launch.make()
    constants: dict[str, Any] = {**one.constants, "options": dict(one.options)}
    with kernellab.interpreted(target=target, stage=stage, completion=completion):
        kernellab.run(one.kernel, launch.grid, *arguments, **constants)
    found = [a.base if isinstance(a, TensorDescriptor) else a for a in arguments]
    return [tensor for tensor in found if isinstance(tensor, torch.Tensor)]


@pytest.mark.slow
@pytest.mark.parametrize("pair", CHOSEN, ids=lambda pair: f"{pair[0].name}-{pair[1]}")
def test_ttgir_gives_what_ttir_gives(pair: tuple[Entry, str]) -> None:
    one, target = pair
    launch = LAUNCHES[one.name]
    expected = after(one, launch, target, "ttir")
    untouched = [a for a in launch.make() if isinstance(a, torch.Tensor | TensorDescriptor)]
    assert any(
        not torch.equal(
            now.double(), (was.base if isinstance(was, TensorDescriptor) else was).double()
        )
        for now, was in zip(expected, untouched)
    ), "the launch writes nothing"
    found = after(one, launch, target, "ttgir")
    for number, (want, got) in enumerate(zip(expected, found)):
        if (one.name, target) in IN_SMALLER_STEPS:
            torch.testing.assert_close(got, want, rtol=2**-10, atol=2**-10)
        else:
            assert_same(as_numpy(got), as_numpy(want), f"tensor {number}")


@pytest.mark.slow
@pytest.mark.covering
@pytest.mark.parametrize("completion", ["late", "shuffled"])
@pytest.mark.parametrize("pair", CHOSEN, ids=lambda pair: f"{pair[0].name}-{pair[1]}")
def test_late_completion_changes_no_result(pair: tuple[Entry, str], completion: str) -> None:
    one, target = pair
    launch = LAUNCHES[one.name]
    expected = after(one, launch, target, "ttgir")
    found = after(one, launch, target, "ttgir", completion)
    for number, (want, got) in enumerate(zip(expected, found)):
        assert_same(as_numpy(got), as_numpy(want), f"tensor {number}")


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
@pytest.mark.parametrize("pair", CHOSEN, ids=lambda pair: f"{pair[0].name}-{pair[1]}")
def test_no_barrier_or_wait_is_missing(pair: tuple[Entry, str], stage: str) -> None:
    one, target = pair
    launch = LAUNCHES[one.name]
    options = {**one.options, "stage": stage}
    found = kernellab.check(
        one.kernel, launch.grid, *launch.make(), **one.constants, options=options, target=target
    )
    assert not any(" failed: " in note for note in found.notes), found.notes
    kinds = {
        *MissingBarrier.kinds,
        *MissingWait.kinds,
        "endless-wait",
        "extra-arrival",
        "invalid-barrier",
    }
    assert not [finding for finding in found if finding.kind in kinds]


@pytest.mark.parametrize(
    ("name", "target", "completion"),
    [
        ("matmul_tma", "sm_90", "late"),
        pytest.param("matmul", "sm_90", "late", marks=pytest.mark.slow),
        pytest.param("matmul_tma", "sm_100", "early", marks=pytest.mark.slow),
    ],
)
def test_the_ctas_of_a_cluster_compute_as_one(name: str, target: str, completion: str) -> None:
    one = next(each for each in ENTRIES if each.name == name)
    cluster = replace(one, options={**one.options, "num_ctas": 2})
    expected = after(one, LAUNCHES[name], target, "ttir")
    found = after(cluster, LAUNCHES[name], target, "ttgir", completion)
    for number, (want, got) in enumerate(zip(expected, found)):
        assert_same(as_numpy(got), as_numpy(want), f"tensor {number}")


def test_targets_are_targets() -> None:
    for name in (*TARGETS, *QUICK):
        parse_target(name)
