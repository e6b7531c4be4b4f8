"""The estimate held against recorded times of an H200: what docs/estimates.md says."""

import json
from typing import Any

import numpy
import pytest
import torch

import kernellab
from benchmarks.estimate_fit import verdicts
from benchmarks.estimate_kernels import column_sums
from benchmarks.estimates import GOOD_BEST, GOOD_RANK, TIMES, Timed, counts_of, recorded, timed
from benchmarks.fidelity_outputs import DATA
from benchmarks.harness import ROOT
from kernellab.compiler.targets import GPUS
from kernellab.profiling.estimates.estimate import bounds_of
from kernellab.profiling.estimates.model import CALIBRATION


def test_configs_are_ranked_as_the_page_says() -> None:
    found = recorded()
    estimates = found.model.microseconds(CALIBRATION)
    ranked = verdicts(found, {name: estimates[rows] for name, rows in found.rows.items()})
    assert len(ranked) == 22
    assert sum(one.rank >= GOOD_RANK for one in ranked) >= 15
    assert sum(one.best_of_five <= GOOD_BEST for one in ranked) >= 20
    page = (ROOT / "docs/estimates.md").read_text()
    good = sum(one.rank >= GOOD_RANK for one in ranked)
    assert f"{good} of {len(ranked)} kernels have a rank correlation of {GOOD_RANK}" in page


def test_a_kernel_that_was_left_out_is_ranked() -> None:
    found = recorded()
    by = found.fitted(CALIBRATION, 60, without=("convolution",))
    estimates = {name: found.model.microseconds(by)[rows] for name, rows in found.rows.items()}
    left_out = next(one for one in verdicts(found, estimates) if one.kernel == "convolution")
    assert left_out.rank > 0.95
    assert left_out.best_of_five <= GOOD_BEST


def test_no_launch_was_faster_than_its_lower_bound() -> None:
    found = recorded()
    bounds = [max(bounds_of(counts, GPUS["h200"]).values()) for counts in found.counts]
    assert (numpy.array(bounds) <= found.microseconds).all()


def test_what_was_counted_is_the_binary_that_was_timed() -> None:
    sweeps = json.loads((DATA / TIMES).read_text())["cases"]
    found = recorded()
    known = {one.key: counts for one, counts in zip(timed(), found.counts, strict=True)}
    seen = 0
    for name, sweep in sweeps.items():
        for row in sweep["configs"]:
            config = dict(zip(sweep["columns"], row))
            values = {key: config[key] for key in sweep["columns"][: -len(_MEASURED)]}
            counts = known.get(Timed(name, values, 0.0).key)
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
    found = recorded()
    at = next(
        number for number, one in enumerate(timed()) if one.case == case and one.values == values
    )
    then, now = found.counts[at], counts_of(case, values)
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
