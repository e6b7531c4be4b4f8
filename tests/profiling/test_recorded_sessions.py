"""Profiles that `benchmarks/profiling_on_gpu.py` recorded on an H200, opened without one."""

import json
import statistics
from typing import Any

import pytest

import kernellab
from tests.support.source_files import ROOT

DATA = ROOT / "benchmarks/data"
PROFILES = ROOT / "notebooks/recorded"
KERNELS = (ROOT / "benchmarks/profiling_on_gpu.py").read_text().split("\n")
DOT = next(number for number, line in enumerate(KERNELS, 1) if "acc = tl.dot(a, b, acc)" in line)


def opened(name: str) -> Any:
    return kernellab.load(PROFILES / f"profile_h200_{name}")


def test_proton_through_the_lab_costs_at_most_a_tenth_more() -> None:
    runs = json.loads((DATA / "profiling_h200.json").read_text())["cost"]["runs"]
    for part in ("ratio_launches", "ratio_whole"):
        assert statistics.median(one[part] for one in runs) <= 1.1


def test_a_step_has_scopes_rates_and_names() -> None:
    step = opened("step.klprofile")
    assert (step.measured_by, step.machine.device) == ("proton", "NVIDIA H200")
    table = step.table(["time/ms", "count", "loss", "tflop16/s", "util"]).set_index("name")
    assert table.loc["forward", "loss"] == 0.75  # of two: Proton adds what it is given
    assert table.loc["forward", "count"] == 2
    assert table.loc["ROOT", "count"] == 6  # not the one while it was paused
    matmul = table.loc["matmul_<M:4096, num_warps:8>"]
    assert matmul["tflop16/s"].between(400, 990).all()  # 990: the H200's data sheet
    assert (matmul["util"] < 1).all()
    assert step.kernel("matmul_<M:4096, num_warps:8>").options["BK"] == 64


def test_samples_are_on_the_lines_of_kernels() -> None:
    samples = opened("samples.hatchet")
    lines = samples.lines
    matmul = lines[lines["kernel"].str.startswith("matmul")]
    assert matmul["share"].sum() == pytest.approx(1)
    assert matmul["line"].iloc[0] == DOT
    reasons = [name for name in lines.columns if name.startswith("stalled_")]
    assert len(reasons) > 10
    assert (lines[reasons].sum(axis=1) == lines["num_stalled_samples"]).all()
    assert samples.machine.devices[0].multiprocessors == 132
    assert "matmul" in str(samples.tree("num_samples"))


@pytest.mark.slow
def test_cycles_of_lines_have_a_timeline(messages) -> None:
    found = opened("lines.klprofile")
    assert found.measured_by == messages
    assert found.perturbation.ratio < 1.3
    assert found.lines["share"].sum() == pytest.approx(1)
    hot = found.lines.groupby("line")["share"].sum()
    assert hot[DOT] > 0.2
    program = int(found.events.program[0])
    records = found.timeline(program).records
    assert sorted(records["warp"].unique()) == list(range(8))
    assert (records["duration"] >= 0).all()
    assert found.timeline(program)._repr_png_().startswith(b"\x89PNG")
