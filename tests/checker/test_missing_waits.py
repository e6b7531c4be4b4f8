"""Missing waits: every fault of the asynchronous kernels is found on its line, and nothing in the
right kernels; nor in the compiled kernels of the corpus, in which no barrier is missing either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.checker.records import Findings
from tests.corpus.entries import ENTRIES
from tests.corpus.launches import LAUNCHES
from tests.corpus.loader import accepting
from tests.kernels import asynchronous
from tests.support.broken_kernels import broken, faults_of


def checked(kernels: Any, name: str, programs: int = 1) -> Findings:
    kernel, arguments, _right = kernels.launched(name)
    target = asynchronous.target_of(name)
    found = kernellab.check(
        kernel, (programs,), *arguments, TILES=asynchronous.TILES, target=target
    )
    assert not any(" failed: " in note for note in found.notes), found.notes
    return found


@pytest.mark.parametrize("name", asynchronous.NAMES)
def test_nothing_is_found_in_right_kernels(name: str) -> None:
    assert not checked(asynchronous, name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "fault"), faults_of(asynchronous, asynchronous.NAMES))
def test_the_fault_is_found_on_its_line(name: str, fault: str, tmp_path: Path) -> None:
    kernels, expected = broken(asynchronous, name, fault, tmp_path)
    assert expected
    found = checked(kernels, name)
    assert {(one.kind, one.line) for one in found} == expected, str(found)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("copies", "C"),
        ("tma_copies", "D"),
        ("tma_copies", "G"),
        ("tma_copies", "J"),
        ("products", "D"),
    ],
)
def test_what_is_said(name: str, fault: str, tmp_path: Path, messages: SnapshotAssertion) -> None:
    kernels, _expected = broken(asynchronous, name, fault, tmp_path)
    (*_, last) = checked(kernels, name)
    assert f"{last.message}\n{last.advice}" == messages


def test_a_kernel_that_never_waits() -> None:
    found = kernellab.check(asynchronous.never_waits, (1,), torch.zeros(512), 3_000, target="sm_90")
    assert found.of_kind("missing-wait")
    assert not any(" failed: " in note for note in found.notes), found.notes


@pytest.mark.slow
@pytest.mark.parametrize("on", ["sm_80", "sm_90", "sm_100", "gfx950"])
@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.name in LAUNCHES])
def test_nothing_is_missing_in_the_corpus(entry: Any, on: str) -> None:
    if on not in {accepted.name for accepted in accepting(entry)}:
        pytest.skip(f"the kernel does not compile for {on}")
    launch, constants = LAUNCHES[entry.name], {**entry.constants, **entry.options}
    for stage in ("ttir", "ttgir"):
        found = kernellab.check(
            entry.kernel, launch.grid, *launch.make(), target=on, stage=stage, **constants
        )
        assert not any(" failed: " in note for note in found.notes), found.notes
        kinds = ("missing-barrier", "missing-wait", "endless-wait", "extra-arrival")
        assert not any(one.kind in kinds for one in found), str(found)
