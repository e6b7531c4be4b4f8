"""The estimate held against recorded times of an H200: what docs/estimates.md says."""

import dataclasses
import json
from typing import Any

import numpy
import pytest
import torch

import kernellab
from benchmarks import estimates
from benchmarks.estimate_fit import verdicts
from benchmarks.estimate_kernels import column_sums
from benchmarks.fidelity_outputs import DATA
from benchmarks.harness import ROOT
from kernellab.compiler.targets import GPUS
from kernellab.profiling.estimates.estimate import bounds_of
from kernellab.profiling.estimates.model import CALIBRATION, Model

PAGE = (ROOT / "docs/estimates.md").read_text()


def test_configs_are_ranked_as_the_page_says() -> None:
    found = estimates.recorded()
    times = found.model.microseconds(CALIBRATION)
    ranked = verdicts(found, {name: times[rows] for name, rows in found.rows.items()})
    assert sum(one.rank >= estimates.GOOD_RANK for one in ranked) >= 15
    assert sum(one.best_of_five <= estimates.GOOD_BEST for one in ranked) >= 20
    good = sum(one.rank >= estimates.GOOD_RANK for one in ranked)
    assert f"{good} of {len(ranked)} kernels have a rank correlation of" in PAGE


def test_launches_of_pairs_are_estimated_as_the_page_says() -> None:
    errors = estimates.launch_errors(CALIBRATION)
    for word in ("all", "held out"):
        near = (errors[word] <= 0.25).sum()
        assert f"{100 * numpy.median(errors[word]):.1f} %" in PAGE
        assert f"{near} of {len(errors[word])}" in PAGE
    assert numpy.median(errors["all"]) <= 0.08
    assert (errors["all"] <= 0.25).mean() >= 0.9


def test_no_launch_was_faster_than_its_lower_bound() -> None:
    found, held_out = estimates.recorded(), estimates.recorded(held_out=True)
    for counts, times in (
        (found.counts, found.microseconds),
        (found.launches, found.launch_microseconds),
        (held_out.launches, held_out.launch_microseconds),
    ):
        bounds = [max(bounds_of(each, GPUS["h200"]).values()) for each in counts]
        assert (numpy.array(bounds) <= times).all()


def test_a_lock_takes_longer_the_more_programs_wait_for_it() -> None:
    columns, rows = json.loads((DATA / "machine_h200.json").read_text())["locks"].values()
    locks = [dict(zip(columns, row, strict=True)) for row in rows]
    counts = [
        dataclasses.replace(
            estimates.recorded().counts[0], programs=lock["programs"], locked=lock["programs"],
            resident=min(32, 64 // lock["warps"]), atomic_sectors=0, atomic_turns=0,
        )
        for lock in locks
    ]  # fmt: skip
    estimated = Model(counts, GPUS["h200"]).parts(CALIBRATION)["atomics"]
    assert estimated == pytest.approx([lock["us"] for lock in locks], rel=0.25, abs=30)


def test_what_was_counted_is_the_binary_that_was_timed() -> None:
    sweeps = json.loads((DATA / estimates.TIMES).read_text())["cases"]
    found = estimates.recorded()
    known = {one.key: counts for one, counts in zip(estimates.timed(), found.counts, strict=True)}
    seen = 0
    for name, sweep in sweeps.items():
        for row in sweep["configs"]:
            config = dict(zip(sweep["columns"], row))
            values = {key: config[key] for key in sweep["columns"][: -len(_MEASURED)]}
            counts = known.get(estimates.Timed(name, values, 0.0).key)
            if counts is not None:
                seen += 1
                assert counts.registers == pytest.approx(config["registers"], abs=2)
                assert counts.shared_bytes == config["shared"]
    assert seen > 600


_MEASURED = ("us", "lower", "upper", "registers", "spills", "shared")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "values"),
    [
        (
            "batched_product",
            {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 4},
        ),
        ("rms_norm", {"BLOCK": 1024, "num_warps": 4}),
    ],
)  # fmt: skip
def test_what_is_counted_here_is_what_was_recorded(case: str, values: dict[str, int]) -> None:
    found = estimates.recorded()
    at = next(
        number
        for number, one in enumerate(estimates.timed())
        if one.case == case and one.values == values
    )
    then, now = found.counts[at], estimates.counts_of(case, values)
    assert now.programs == then.programs
    assert now.requests == pytest.approx(then.requests, rel=0.05)
    assert now.own_sectors == pytest.approx(then.own_sectors, rel=0.05)
    assert dict(now.macs) == pytest.approx(dict(then.macs))
    # Another version of the compiler: as many instructions, more or less.
    assert sum(now.instructions.values()) == pytest.approx(
        sum(then.instructions.values()), rel=0.25
    )


@pytest.mark.slow
def test_loops_and_reductions_are_counted_as_the_gpu_counts() -> None:
    x = torch.empty(4096, 2048, device="meta")
    compiled: Any = kernellab.compile
    compilation = compiled(
        column_sums, "*fp32:16", "*fp32:16", "i32:16", "i32:16", PART=512, ROWS=16, COLUMNS=64,
        target="sm_90",
    )  # fmt: skip
    counts = compilation.estimate((32, 8), x, torch.empty(2048, device="meta"), 4096, 2048).counts
    assert sum(counts.instructions.values()) * counts.programs == pytest.approx(1_209_344, rel=0.05)
    assert counts.atomic_sectors * counts.programs == 2_048
    assert counts.read_bytes == pytest.approx(4 * 4096 * 2048, rel=0.01)
