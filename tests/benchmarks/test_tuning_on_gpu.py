"""The recording script, as far as it goes with no GPU."""

import json
from dataclasses import replace

import pytest
import torch
import triton

import kernellab
from benchmarks import tuning_on_gpu
from benchmarks.tuning_cases import FULL, all_cases
from kernellab.tuning.records import Timing
from tests.support.pretended_gpu import NAME, pretended_gpu

CASES = ("vector_add", "attention")


def test_every_case_has_forty_configs_or_more() -> None:
    tiny = replace(
        FULL, vector=64, rows=4, columns=64, matrix=16, norm_rows=2, norm_columns=64, heads=1,
        tokens=128,
    )  # fmt: skip
    counts = {name: len(make().configs) for name, make in all_cases(tiny, "cpu").items()}
    assert min(counts.values()) >= 40, counts


@pytest.mark.slow
def test_the_recording_writes_sweeps_that_load_and_survives_a_part_that_fails(
    tmp_path, monkeypatch
) -> None:
    def few_configs(sizes, device):
        def smaller(case):
            return replace(
                case, space={name: values[-2:][:1] for name, values in case.space.items()}
            )

        return {
            name: lambda make=make: smaller(make())
            for name, make in all_cases(sizes, device).items()
            if name in CASES
        }

    monkeypatch.setattr(tuning_on_gpu, "all_cases", few_configs)
    monkeypatch.setattr(tuning_on_gpu, "ROUNDS", 1)
    monkeypatch.setattr(tuning_on_gpu, "matmul_sizes", lambda *_: {})
    monkeypatch.setattr(tuning_on_gpu, "time_baseline", lambda _: Timing.of([1.0], "events"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(
        triton.testing, "do_bench", lambda launch, return_mode: (launch() and 0.25) or 0.25
    )
    with kernellab.interpreted(), pretended_gpu(lambda task: 0.1 + task.options["num_warps"] / 100):
        numbers = tuning_on_gpu.record(tmp_path, small=True, gpus=1, device="cpu")
    written = json.loads((tmp_path / "numbers.json").read_text())
    assert written == numbers.data
    for name in CASES:
        assert "error" not in written[name], written[name]
        assert written[name]["winners"]["lab over triton"] == 1
        tuning = kernellab.Tuning.load(tmp_path / f"tuning_h200_{name}.json")
        assert (tuning.machine.gpu, tuning.best.outcome.checked) == (NAME, "the reference")
    assert (
        "error" in written["compiling matmul"]
    )  # no GPU to compile for; what follows was done all the same
    sizes = kernellab.Tunings.load(tmp_path / "tuning_h200_vector_add_sizes.json")
    assert [one.key["n"] for one in sizes] == [256, 1024]
    assert "seconds" in written["all of it"]
