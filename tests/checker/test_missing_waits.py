"""Missing waits: every fault of the asynchronous kernels is found on its line, and nothing in the
right kernels.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import kernellab
from kernellab.checker.records import Findings
from tests.kernels import asynchronous, pipelines
from tests.support.broken_kernels import broken, faults_of, waits_of, without_wait


def checked(kernels: Any, name: str, programs: int = 1) -> Findings:
    kernel, arguments, _right = kernels.launched(name)
    target = asynchronous.target_of(name)
    found = kernellab.check(
        kernel, (programs,), *arguments, TILES=asynchronous.TILES, target=target
    )
    assert not any(" failed: " in note for note in found.notes), found.notes
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", asynchronous.NAMES)
def test_nothing_is_found_in_right_kernels(name: str) -> None:
    assert not checked(asynchronous, name)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "fault"), faults_of(asynchronous, asynchronous.NAMES))
def test_the_fault_is_found_on_its_line(name: str, fault: str, tmp_path: Path) -> None:
    kernels, expected = broken(asynchronous, name, fault, tmp_path)
    assert expected
    found = checked(kernels, name)
    assert {(one.kind, one.line) for one in found} == expected, str(found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("copies", "C"),
        ("tma_copies", "D"),
        ("tma_copies", "G"),
        ("tma_copies", "J"),
        ("products", "D"),
        ("handed_over", "A"),
        ("handed_over", "D"),
        ("sent", "A"),
        ("tensor_groups", "E"),
        ("fresh_barriers", "D"),
    ],
)
def test_what_is_said(name: str, fault: str, tmp_path: Path, messages: SnapshotAssertion) -> None:
    kernels, _expected = broken(asynchronous, name, fault, tmp_path)
    *_, last = sorted(checked(kernels, name), key=lambda one: one.kind != "endless-wait")
    assert f"{last.message}\n{last.advice}" == messages


def found_in_pipeline(kernels: Any, name: str) -> Findings:
    kernel, programs, arguments, _out, _right = kernels.launched(name)
    return kernellab.check(kernel, (programs,), *arguments, target=pipelines.target_of(name))


@pytest.mark.parametrize("name", pipelines.NAMES)
def test_a_pipeline_is_right_whenever_operations_complete(name: str) -> None:
    kernel, programs, arguments, out, right = pipelines.launched(name)
    for completion in ("early", "late", "shuffled"):
        out.zero_()
        with kernellab.interpreted(target=pipelines.target_of(name), completion=completion):
            kernel[(programs,)](*arguments)
        torch.testing.assert_close(out.float(), right, rtol=2e-3, atol=2e-2)
    assert not found_in_pipeline(pipelines, name)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "line"), waits_of(pipelines, pipelines.NAMES))
def test_each_wait_of_a_pipeline_is_needed(name: str, line: int, tmp_path: Path) -> None:
    kinds = {one.kind for one in found_in_pipeline(without_wait(pipelines, line, tmp_path), name)}
    assert kinds & {"missing-wait", "extra-arrival", "endless-wait"}, kinds


@pytest.mark.sampled(3)
@pytest.mark.skipif(not hasattr(mbarrier, "sync_cluster_init"), reason="from Triton 3.7 on")
@pytest.mark.parametrize("fault", ["", "A", "B", "C", "D", "E"])
def test_clusters(fault: str, tmp_path: Path) -> None:
    from tests.kernels import clusters as right

    kernels, expected = broken(right, "multicast", fault, tmp_path) if fault else (right, set())
    for splits in (False, True):
        kernel, arguments, result = kernels.launched(splits)
        launch: Any = kernel, (1,), *arguments, right.TILES
        found = kernellab.check(*launch, num_ctas=2, target="sm_90")
        assert {(one.kind, one.line) for one in found} == expected, str(found)
        assert any("2 CTAs" in note for note in found.notes)
        if not fault:
            kernellab.run(*launch, num_ctas=2, target="sm_90", completion="late")
            assert torch.equal(arguments[1], result)


@pytest.mark.slow
def test_a_kernel_that_never_waits() -> None:
    found = kernellab.check(asynchronous.never_waits, (1,), torch.zeros(512), 3_000, target="sm_90")
    assert found.of_kind("missing-wait")
    assert not any(" failed: " in note for note in found.notes), found.notes
