"""`kernellab.tune` through its entry_point, with no GPU: everything but times."""

from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import ArchiveError, ArgumentError
from tests.kernels.tuned import add_one, autotuned_double, double, product, wrong_in_some


def grid(values):
    return (triton.cdiv(values["n"], values["BLOCK"]),)


def tensors(n=1000):
    return torch.arange(n, dtype=torch.float32), torch.zeros(n)


def tuned(kernel, *args, **keywords):
    return kernellab.tune(kernel, grid, *args, workers=1, **keywords)


@pytest.mark.slow
def test_a_sweep_without_a_gpu_compiles_and_checks_and_has_no_times(raised) -> None:
    x, z = tensors()
    sweep = tuned(double, x, z, 1000, space={"BLOCK": [64, 128], "num_warps": [2, 4]}, key="n")
    table = sweep.table
    assert (list(table.index), list(table["BLOCK"])) == ([0, 1, 2, 3], [64, 64, 128, 128])
    assert set(table["same result as"]) == {"the first config"}
    assert not any("us" in column.split() or "GB/s" in column for column in table)
    assert (z == 0).all()  # the arguments stay as they are
    assert sweep.key == {"n": 1000}
    assert not sweep.is_timed
    raised(ArgumentError, lambda: sweep.best)
    for number in range(4):
        compiled = sweep.compilation(number)
        row = table.loc[number]
        assert compiled.resources.registers == row["registers"]
        assert compiled.occupancy().fraction == row["occupancy"]
        assert compiled.options["num_warps"] == row["num_warps"]
    assert sweep.work.bytes == 2 * 4 * 1000
    assert sweep.compare(0, 1).options[0].name == "num_warps"
    assert kernellab.tunings(double)[-1] == sweep


@pytest.mark.slow
def test_wrong_results_are_dropped_and_shown() -> None:
    x, z = tensors()
    sweep = tuned(
        wrong_in_some, x, z, 1000, space={"BLOCK": [64], "BIAS": [1, 0, 2]}, reference={"z_ptr": x}
    )
    assert list(sweep.table["dropped"]) == ["wrong result", "", "wrong result"]
    why = sweep.trial(0).outcome.dropped.why
    assert why.endswith("1,000 of 1,000 elements differ, compared with the reference")
    assert sweep.trial(1).outcome.checked == "the reference"


@pytest.mark.slow
def test_where_no_config_is_valid_each_reason_is_listed() -> None:
    space = [
        {"BLOCK": 128, "BLOCK_K": 512},
        {"BLOCK": 48, "BLOCK_K": 32},
        {"BLOCK": 64, "BLOCK_K": 32, "num_warps": 3},
    ]
    types = ("*fp16:16", "*fp16:16", "*fp16:16", "i32:16")
    sweep = kernellab.tune(product, None, *types, space=space, workers=1, num_stages=4)
    assert list(sweep.table["dropped"]) == ["out of resources", "compile error", "compile error"]
    with pytest.raises(ArgumentError) as caught:
        _ = sweep.best
    words = str(caught.value)
    assert "config of 'product' is valid" in words
    assert "0: BLOCK=128, BLOCK_K=512: out of resources: 'product' needs" in words
    assert "2: BLOCK=64, BLOCK_K=32, num_warps=3: compile error" in words


def test_types_alone_are_compiled_and_the_matrix_instruction_named() -> None:
    types = ("*fp16:16", "*fp16:16", "*fp16:16", "i32:16")
    sweep = kernellab.tune(
        product, None, *types, space={"BLOCK": [32, 64], "BLOCK_K": [32]}, workers=1
    )
    names = list(sweep.table["matrix instruction"])
    assert names[0].startswith("mma.m16n8k16")
    assert names[1].startswith("wgmma.mma_async.m64n64k16")


@pytest.mark.slow
def test_in_place_kernels_get_their_inputs_back() -> None:
    x = numpy.zeros(300, dtype=numpy.float32)
    expected = {"x_ptr": numpy.ones(300, dtype=numpy.float32)}
    sweep = tuned(add_one, x, 300, space={"BLOCK": [32, 64, 128]}, reference=expected)
    assert not any(one.is_dropped for one in sweep.trials)
    assert (x == 0).all()


@pytest.mark.slow
def test_what_the_autotuner_carries_is_swept_with_its_resets() -> None:
    x, _ = tensors()
    z = torch.full_like(x, 7)  # reset to zero before each run
    sweep = tuned(autotuned_double, x, z, 1000, reference=lambda x, z, n: {"z_ptr": 2 * x})
    assert list(sweep.table["BLOCK"]) == [64, 128]
    assert not any(one.is_dropped for one in sweep.trials)
    assert (z == 7).all()


def test_pruning() -> None:
    x, z = tensors()
    space = {"BLOCK": [64, 128, 256]}
    sweep = tuned(double, x, z, 1000, space=space, prune=lambda one: one["BLOCK"] * 10 > one["n"])
    assert list(sweep.table["BLOCK"]) == [64]
    assert sweep.pruned == 2


def test_a_saved_sweep_is_the_same_elsewhere(tmp_path, raised) -> None:
    x, z = tensors()
    sweep = tuned(double, x, z, 1000, space={"BLOCK": [64, 128]}, key="n")
    again = kernellab.Tuning.load(sweep.save(tmp_path / "sweep.json"), kernel=double)
    assert again.table.equals(sweep.table)
    assert again.machine == sweep.machine
    assert (
        again.compilation(1).specialization.constants
        == sweep.compilation(1).specialization.constants
    )
    assert sweep.compare(0, 1).names == ("BLOCK=64", "BLOCK=128")
    assert sweep.compare(1, 1).names == ("config 1", "config 1")
    raised(ArgumentError, kernellab.Tuning.load(tmp_path / "sweep.json").compilation, 0)
    (tmp_path / "cut.json").write_text((tmp_path / "sweep.json").read_text()[:200])
    with pytest.raises(ArchiveError, match="is cut off or damaged"):
        kernellab.Tuning.load(tmp_path / "cut.json")


# Configs with a `pre_hook`: each has arguments of its own


@triton.jit
def summed(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0), 0))


@pytest.mark.slow
def test_the_reference_counts_where_every_config_has_a_hook() -> None:
    x, out = torch.arange(100.0), torch.ones(1)

    def clear(names: dict[str, Any]) -> None:
        names["out_ptr"].zero_()

    configs = [triton.Config({"BLOCK": block}, pre_hook=clear) for block in (32, 64)]
    for right, dropped in ((x.sum(), ""), (x.sum() + 100, "wrong result")):
        sweep = kernellab.tune(
            summed, lambda meta: (triton.cdiv(100, meta["BLOCK"]),), x, out, 100, space=configs,
            key="n", reference={"out_ptr": right.reshape(1)}, check=True, cache=False, workers=1,
        )  # fmt: skip
        assert list(sweep.table["dropped"]) == [dropped] * 2
    assert list(sweep.table["same result as"]) == ["", ""]
    assert out == 1


def test_the_key_is_known_where_no_config_could_be_launched() -> None:
    def fails(names: dict[str, Any]) -> None:
        raise KeyError("nothing")

    x, out = torch.arange(100.0), torch.ones(1)
    configs = [triton.Config({"BLOCK": 64}, pre_hook=fails)]
    sweep = kernellab.tune(
        summed, (2,), x, out, 100, space=configs, key="n", cache=False, workers=1
    )
    assert sweep.key == {"n": 100}
    dropped: Any = sweep.trials[0].outcome.dropped
    assert dropped.line == "The pre_hook raised KeyError: 'nothing'"
