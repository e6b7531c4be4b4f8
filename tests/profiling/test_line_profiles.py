"""A launch profiled by marks on a made-up GPU: the marks, what is left of the tensors, messages."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.compiler.targets import parse_target
from kernellab.errors import GpuFault, ProfileError, UnsupportedOperation
from kernellab.profiling.profiles import line_profile
from kernellab.profiling.profiles.line_marks import MarkedKernel
from kernellab.profiling.profiles.line_profile import (
    LineOptions,
    Readings,
    gpu_faults_told,
    profile_on_gpu,
)
from kernellab.profiling.profiles.profile import Profile


@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(out + at, tl.exp(tl.load(x + at)) * 2)


@dataclass
class FakeGpu:
    """Launches compute `out = 2 * x`; what a marked one takes depends on its marks."""

    ratio: Callable[[MarkedKernel], float] = lambda _marked: 1.1
    spoils: Callable[[MarkedKernel], bool] = lambda _marked: False
    readings: int = 10
    launched: list[MarkedKernel] = field(default_factory=list)


class FakeLaunch:
    gpu: FakeGpu

    def __init__(self, marked: Any, grid: tuple[int, int, int], values: Any) -> None:
        self.marked, self.grid, self.values = marked, grid, values

    def __call__(self) -> None:
        self.values[1].copy_(2 * self.values[0])
        if isinstance(self.marked, MarkedKernel):
            self.gpu.launched.append(self.marked)
            if self.gpu.spoils(self.marked):
                self.values[1].add_(1)

    def most_readings(self) -> int:
        return self.gpu.readings

    def readings(self, programs: int) -> Readings:
        count = min(programs, self.grid[0])
        marks = self.marked.module.marks
        order = sorted(range(len(marks)), key=lambda at: (marks[at] is None, marks[at] or 0))
        warps = self.marked.memory.noted
        shape = (count, len(warps), len(order))
        return Readings(
            programs=numpy.arange(count),
            warps=warps,
            taken=numpy.full(shape[:2], len(order)),
            kept=numpy.full(shape[:2], len(order)),
            marks=numpy.broadcast_to(numpy.array(order), shape),
            clocks=numpy.broadcast_to(numpy.arange(len(order), dtype=numpy.uint32) * 10, shape),
        )


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    made = FakeGpu()
    FakeLaunch.gpu = made
    monkeypatch.setattr(line_profile, "local_target", lambda: parse_target("sm_90"))
    monkeypatch.setattr(line_profile, "PlainLaunch", FakeLaunch)
    monkeypatch.setattr(line_profile, "MarkedLaunch", FakeLaunch)
    monkeypatch.setattr(line_profile, "room_for_readings", lambda _programs, _warps: 1 << 20)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def times(_plain: Any, marked: Any, *_others: Any) -> tuple[float, float]:
        return 10.0, 10.0 * made.ratio(marked.marked)

    monkeypatch.setattr(line_profile, "times_in_turns", times)
    return made


def profiled(**options: Any) -> tuple[Profile, torch.Tensor]:
    x, out = torch.arange(64.0), torch.zeros(64)
    named = {"BLOCK": 64, "num_warps": 2}
    return profile_on_gpu(doubled, (8,), (x, out, 64), named, LineOptions(**options)), out


def test_the_finest_marks_that_hardly_slow_the_launch_down(gpu, messages) -> None:
    profile, out = profiled()
    assert torch.equal(out, 2 * torch.arange(64.0))
    assert profile.perturbation is not None
    assert profile.perturbation.ratio == pytest.approx(1.1)
    assert {one.detail for one in gpu.launched} == {"lines"}
    assert set(profile.timeline().records["warp"]) == {0, 1}
    assert {"load", "store"} <= set(profile.lines["operation"])
    assert profile.measured_by == messages


def test_slow_marks_give_way_to_fewer(gpu: FakeGpu) -> None:
    gpu.ratio = lambda marked: 2.0 if marked.detail == "lines" else 1.2
    profile, _ = profiled()
    assert profile.perturbation is not None
    assert profile.perturbation.ratio == pytest.approx(1.2)
    assert [(one.detail, one.memory.noting) for one in gpu.launched] == [
        ("lines", ()), ("lines", (0,)), ("operations", ()),
    ]  # fmt: skip
    assert any("took 2.00 times the plain launch" in one for one in profile.notes)


@pytest.mark.slow
def test_where_all_are_slow_the_fastest_counts(gpu: FakeGpu) -> None:
    gpu.ratio = lambda marked: 3.0 - 0.1 * len(marked.memory.noting) - (marked.detail == "loops")
    profile, _ = profiled()
    assert profile.perturbation is not None
    assert profile.perturbation.ratio == pytest.approx(1.9)
    assert any("of 1 warp (0)" in one for one in profile.notes)


def test_what_is_asked_for_is_done_however_slow(gpu: FakeGpu) -> None:
    gpu.ratio = lambda _marked: 5.0
    profile, _ = profiled(detail="program")
    assert {one.detail for one in gpu.launched} == {"program"}
    assert profile.lines["operation"].tolist() == ["program"]


def test_marks_that_change_results_are_not_taken(gpu: FakeGpu) -> None:
    gpu.spoils = lambda marked: marked.detail == "lines"
    profile, out = profiled()
    assert {one.detail for one in gpu.launched} == {"lines", "operations"}
    assert any("change what 'doubled' computes" in one for one in profile.notes)
    assert torch.equal(out, 2 * torch.arange(64.0))


def test_too_little_memory_for_the_readings_is_made_larger(gpu: FakeGpu) -> None:
    gpu.readings = 900
    profiled()
    assert [one.memory.readings for one in gpu.launched] == [256, 1024]


def test_readings_that_have_no_room_are_cut(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.readings = 900
    monkeypatch.setattr(line_profile, "room_for_readings", lambda _programs, _warps: 300)
    profiled()
    assert [one.memory.readings for one in gpu.launched] == [256]


@pytest.mark.slow
def test_another_occupancy_is_refused_unless_asked_for(gpu, monkeypatch) -> None:
    monkeypatch.setattr(MarkedKernel, "programs_at_once", lambda _self: (4, 3))
    with pytest.raises(UnsupportedOperation, match="3 programs of 'doubled'") as caught:
        profiled()
    assert "allow_occupancy_change=True" in caught.value.advice
    profile, _ = profiled(allow_occupancy_change=True)
    assert profile.line_records


def test_no_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(64)
    monkeypatch.setattr(line_profile, "local_target", lambda: None)
    with pytest.raises(kernellab.MachineError, match="none here"):
        profile_on_gpu(doubled, (1,), (x, x, 64), {"BLOCK": 64}, LineOptions())


def test_a_launch_that_dies_and_a_full_gpu_are_told(monkeypatch, messages) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    with (
        pytest.raises(GpuFault, match="GPU") as refused,
        gpu_faults_told("k"),
    ):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    assert refused.value == messages
    with (
        pytest.raises(ProfileError, match="'k'") as profile_error,
        gpu_faults_told("k"),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory")
    assert profile_error.value == messages
    with pytest.raises(RuntimeError, match="something else"), gpu_faults_told("k"):
        raise RuntimeError("something else")
