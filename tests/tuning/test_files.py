"""Sweeps in files: what they hold, what they can only name, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl
from syrupy.assertion import SnapshotAssertion
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab.common.system import cache_folder
from kernellab.errors import ArchiveError, ArgumentError
from tests.kernels.tuned import applies, double
from tests.support.messages import Raised
from tests.support.pretended_gpu import pretended_gpu

N = 96


def set_block(arguments):
    """The hook of the configs below."""
    arguments["rows"].block_shape = [arguments["ROWS"], 64]


@triton.autotune(
    [triton.Config({"ROWS": rows}, num_warps=4, pre_hook=set_block) for rows in (16, 32)], key=["n"]
)
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["ROWS"] == 0})
@triton.jit
def doubled_rows(rows, z_ptr, n, ROWS: tl.constexpr, EVEN: tl.constexpr):
    first = tl.program_id(0) * ROWS
    x = rows.load([first, 0])
    places = (first + tl.arange(0, ROWS))[:, None] * 64 + tl.arange(0, 64)[None, :]
    if EVEN:
        tl.store(z_ptr + places, 2 * x)
    else:
        tl.store(z_ptr + places, 2 * x, mask=places < n * 64)


@pytest.mark.slow
def test_a_config_with_a_hook_a_descriptor_and_a_heuristic_is_the_same_from_a_file(
    tmp_path, raised: Raised
) -> None:
    x, z = torch.randn(80, 64), torch.zeros(80, 64)
    rows = TensorDescriptor.from_tensor(x, [1, 64])
    with pretended_gpu(lambda task: 1 / dict(task.values)["ROWS"]):
        sweep = kernellab.tune(
            doubled_rows, lambda meta: (triton.cdiv(80, meta["ROWS"]),), rows, z, 80,
            reference={"z_ptr": 2 * x},
        )  # fmt: skip
    assert not any(one.is_dropped for one in sweep.trials)
    assert sweep.key == {"n": 80}  # the autotuner's
    assert rows.block_shape == [1, 64]
    again = kernellab.Tuning.load(sweep.save(tmp_path / "rows.json"), kernel=doubled_rows)
    assert [one.types for one in again.trials] == [{}, {"rows": "tensordesc<fp32[32, 64]>"}]
    assert [one.constants for one in again.trials] == [{}, {"EVEN": False}]
    for number in (0, 1):
        ours, theirs = again.compilation(number), sweep.compilation(number)
        assert kinds_of(ours) == kinds_of(theirs)
        assert ours.specialization.constants == theirs.specialization.constants
    applied = again.apply()
    with kernellab.interpreted():
        applied[(3,)](rows, z, 80)
    assert torch.equal(z, 2 * x)
    assert rows.block_shape == [32, 64]
    plain = doubled_rows.fn.fn
    raised(
        ArgumentError, kernellab.Tuning.load(tmp_path / "rows.json").apply, plain, match="set_block"
    )
    both = again.merged(sweep)
    assert kinds_of(both.compilation(1))["rows"] == "tensordesc<fp32[32,64]>"


def kinds_of(compilation):
    """Each parameter's type; a space in a block's shape says nothing."""
    return {name: kind.replace(" ", "") for name, kind in compilation.specialization.signature.items()}  # fmt: skip


@triton.jit
def half(x):
    return x / 2


@pytest.mark.slow
def test_functions_among_constants_are_found_again_beside_the_kernel(
    tmp_path, messages: SnapshotAssertion
) -> None:
    kinds = ("*fp32:16", "*fp32:16", "i32")
    sweep = kernellab.tune(applies, None, *kinds, FUNCTION=half, space={"BLOCK": [64]}, workers=1)
    file = sweep.save(tmp_path / "half.json")
    again = kernellab.Tuning.load(file)
    assert repr(again.constants["FUNCTION"]) == repr(half)
    assert again.save(tmp_path / "again.json").read_text() == file.read_text()
    with pytest.raises(ArgumentError, match="FUNCTION") as refused:  # fmt: skip
        again.compilation(0, kernel=applies)  # half is defined in another file than the kernel
    assert refused.value == messages
    applies.fn.__globals__["half"] = half
    try:
        compiled = again.compilation(0, kernel=applies)
    finally:
        del applies.fn.__globals__["half"]
    assert compiled.resources == sweep.compilation(0).resources


def test_another_function_among_the_constants_is_another_config_for_the_cache() -> None:
    def outcomes_kept_after(factor: int) -> int:
        @triton.jit
        def scale(x):
            return x * FACTOR

        FACTOR = tl.constexpr(factor)
        kinds = ("*fp32:16", "*fp32:16", "i32")
        kernellab.tune(applies, None, *kinds, FUNCTION=scale, space={"BLOCK": [64]}, workers=1)
        return len(list(cache_folder("tuning").rglob("*.json")))

    assert [outcomes_kept_after(factor) for factor in (2, 3, 2)] == [1, 2, 2]


def saved(tmp_path, **changes):
    tuning = kernellab.tune(
        double, None, "*fp32:16", "*fp32:16", "i32", space={"BLOCK": [64]}, workers=1
    )
    file = tuning.save(tmp_path / "sweep.json")
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, **changes}))
    return file


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe\x00",
        b"import triton\n",
        b'{"format":\n "kernel',
        b"[1, 2]",
        b'{"format": "kernellab.tuning", "version": 0}',
        b'{"format": "kernellab.tuning", "version": 2}',
        b'{"format": "kernellab.tuning", "version": 1}',
        b'{"format": "kernellab.tuning", "version": 1, "tunings": [{"kernel": "x"}]}',
        b'{"format": "kernellab.tuning", "version": 1, "tunings": 5}',
        b'{"format": "kernellab.tuning", "version": 1, "tunings": []}',
    ],
)
def test_a_file_that_is_no_sweep_is_refused(tmp_path, text, raised: Raised) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(text)
    raised(ArchiveError, kernellab.Tuning.load, file)


def test_parts_that_are_none_are_named(tmp_path, raised: Raised) -> None:
    file = saved(tmp_path)
    data = json.loads(file.read_text())
    (one,) = data["tunings"]
    one["source"]["modules"] = {"mylib": 5}
    file.write_text(json.dumps(data))
    raised(ArchiveError, kernellab.Tuning.load, file)
    one["source"]["modules"] = {}
    one["trials"][0]["constants"] = {"DTYPE": {"dtype": "fp17"}}
    file.write_text(json.dumps(data))
    raised(ArchiveError, kernellab.Tuning.load, file, match="DTYPE")


@pytest.mark.parametrize("time", [1e-300, 1e290])
def test_times_of_no_clock_are_refused(tmp_path, time: float, raised: Raised) -> None:
    file = saved(tmp_path)
    data = json.loads(file.read_text())
    timing = {"median": time, "lower": time, "upper": time, "fastest": time}
    data["tunings"][0]["trials"][0]["timing"] = {**timing, "runs": 3, "method": "events"}
    file.write_text(json.dumps(data))
    raised(ArchiveError, kernellab.Tuning.load, file, match=r"timing\.median")


def test_sweeps_of_two_kernels_are_not_put_together(tmp_path, raised: Raised) -> None:
    sweep = kernellab.Tuning.load(saved(tmp_path))
    raised(ArgumentError, sweep.merged, replace(sweep, kernel="other"))


def test_places_that_cannot_be_read_or_written_are_named(tmp_path, raised: Raised) -> None:
    tuning = kernellab.Tuning.load(saved(tmp_path))
    raised(ArchiveError, kernellab.Tuning.load, tmp_path)
    raised(ArchiveError, tuning.save, tmp_path / "nowhere" / "sweep.json")


def test_a_kernel_that_the_file_is_not_of_is_refused(tmp_path, raised: Raised) -> None:
    tuning = kernellab.Tuning.load(saved(tmp_path))
    raised(ArgumentError, tuning.with_kernel, applies, match="double")
    older = replace(tuning, constants={"SCALE": 2})
    raised(ArgumentError, older.with_kernel, double, match="SCALE")
