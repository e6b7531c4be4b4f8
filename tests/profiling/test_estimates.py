"""Estimates of time and rooflines: what is counted, what is made of it, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton

import kernellab
from kernellab.cli.demo.kernels import matmul, vector_add
from kernellab.errors import ArgumentError, MissingArguments, NotRecorded, OptionError, TargetError
from kernellab.profiling.estimates.counting import LaunchCounts
from kernellab.profiling.estimates.hardware import GPUS, gpu_of
from kernellab.profiling.estimates.pipes import pipe_of, product_of
from kernellab.profiling.estimates.records import Estimate, Roofline

SIZE = 1 << 20
compiled: Any = kernellab.compile
TYPES = ("*fp32:16", "*fp32:16", "*fp32:16", "i32:16")


@pytest.fixture(scope="module")
def added() -> Any:
    """Vector add, compiled."""
    return compiled(vector_add, *TYPES, BLOCK=1024, target="sm_90")


@pytest.fixture(scope="module")
def vector() -> Any:
    return torch.empty(SIZE, device="meta")


@pytest.fixture(scope="module")
def estimated(added: Any, vector: Any) -> Estimate:
    """Its estimate."""
    found = added.estimate((1024,), vector, vector, vector, SIZE)
    assert isinstance(found, Estimate)
    return found


@pytest.fixture(scope="module")
def multiplied() -> Estimate:
    """A product of 1024 x 1024 matrices in 64 programs, as an H200 counted it."""
    size = 1024
    a = torch.empty(size, size, dtype=torch.float16, device="meta")
    strides = {"stride_am": size, "stride_bk": size, "stride_cm": size}
    ones = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
    sizes = {"M": size, "N": size, "K": size}
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16")
    compilation = compiled(
        matmul, **types, **dict.fromkeys(sizes, "i32:16"), **dict.fromkeys(strides, "i32:16"),
        **ones, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, PRECISION="tf32", num_warps=8,
        num_stages=3, target="sm_90",
    )  # fmt: skip
    tensors = {"a_ptr": a, "b_ptr": a, "c_ptr": a}
    found = compilation.estimate((64,), **tensors, **sizes, **strides)
    assert isinstance(found, Estimate)
    return found


# What is counted, beside Nsight Compute's counters of the same launches on an H200 with Triton 3.6


def executed(counts: LaunchCounts) -> float:
    """Instructions of warps in the whole launch."""
    return sum(counts.instructions.values()) * counts.programs


def test_an_elementwise_kernel_is_counted_as_the_gpu_counts(estimated: Estimate) -> None:
    counts = estimated.counts
    assert executed(counts) == pytest.approx(167_936, rel=0.03)
    assert counts.requests * counts.programs == 24_576
    assert counts.sectors * counts.programs == 393_216
    assert (counts.read_bytes, counts.written_bytes) == (8 * SIZE, 4 * SIZE)


def test_a_pipelined_product_is_counted_as_the_gpu_counts(multiplied: Estimate) -> None:
    counts = multiplied.counts
    assert executed(counts) == pytest.approx(1_120_256, rel=0.15)
    assert counts.instructions["tensor"] * counts.programs == 32_768
    assert sum(counts.macs.values()) * counts.programs == 1024**3
    assert counts.requests * counts.programs == pytest.approx(65_536 + 4_096)
    # Where loads take longer than what the stages hide, the path grows with them, else it does not.
    fast, slow = counts.path[0], counts.path[-1]
    assert counts.path[1] - fast < 0.3 * (slow - counts.path[-2])


def test_what_a_run_changes_is_the_samples_own() -> None:
    x, y = torch.ones(4096), torch.ones(4096)
    out = torch.full((4096,), 7.0)
    compilation = compiled(vector_add, x, y, out, 4096, BLOCK=1024, target="sm_90")
    compilation.estimate((4,), x, y, out, 4096)
    assert (out == 7).all()


# What is made of it


def test_an_estimate_says_what_bounds_the_launch(estimated: Estimate, multiplied: Estimate) -> None:
    assert estimated.lower_bound == pytest.approx(12 * SIZE / 4.8e6)
    assert estimated.lower_bound < estimated.microseconds < 20
    assert "DRAM" in estimated.bound
    assert "not measured" in str(estimated)
    assert "median error" in estimated.accuracy
    assert "x_ptr" in estimated.notes[0]
    assert multiplied.microseconds > multiplied.lower_bound > 0
    assert {"tensor cores", "L2", "DRAM"} <= set(multiplied.table()["name"])
    assert "about" in estimated._repr_mimebundle_()["text/html"]


def test_more_work_takes_longer(added: Any) -> None:
    times = [
        added.estimate((size // 1024,), *[torch.empty(size, device="meta")] * 3, size).microseconds
        for size in (1 << 20, 1 << 24, 1 << 27)
    ]
    assert times[0] < times[1] < times[2]
    assert times[2] / times[1] == pytest.approx(8, rel=0.15)


def test_another_gpu_is_scaled_and_said_to_be(added: Any, vector: Any) -> None:
    slower = added.estimate((1024,), vector, vector, vector, SIZE, gpu="h100")
    assert slower.lower_bound == pytest.approx(12 * SIZE / 3.35e6)
    assert "not tested there" in slower.accuracy


def test_a_roofline_has_operations_bytes_and_the_place(added: Any, vector: Any) -> None:
    found = added.roofline((1024,), vector, vector, vector, SIZE, microseconds=5.152)
    assert isinstance(found, Roofline)
    assert found.total_operations == SIZE
    assert found.intensity["DRAM"] == pytest.approx(1 / 12)
    assert found.highest.name == "DRAM"
    assert found.reached == pytest.approx(12 * SIZE / 4.8e6 / 5.152)
    assert "given" in str(found)
    assert len(found.table()) == 4
    svg = found.plot().svg()
    assert "DRAM" in svg
    assert "mathdefault" not in svg  # numbers below ticks, no formulas
    parts = added.estimate((1024,), vector, vector, vector, SIZE).parts
    assert all(one.microseconds >= one.at_least for one in parts)
    assert found._repr_mimebundle_()["text/plain"].startswith("vector_add")


def test_rates_are_those_of_the_data_sheets() -> None:
    tflops = {name: gpu.peak("16") / 1e6 for name, gpu in GPUS.items()}
    sheet = {"a100": 312, "l40s": 362, "h100": 989, "h200": 989, "b200": 2250}
    assert tflops == pytest.approx(sheet, rel=0.02)
    assert GPUS["a100"].peak("fp32") / 1e6 == pytest.approx(19.5, rel=0.02)
    assert GPUS["h200"].peak("fp64") / 1e6 == pytest.approx(34, rel=0.1)


@pytest.mark.parametrize(
    ("opcode", "pipe"),
    [
        ("FFMA", "fma"), ("IMAD.MOV.U32", "fma"), ("LOP3.LUT", "alu"), ("MUFU.EX2", "special"),
        ("LDG.E.128", "global"), ("LDS.128", "shared"), ("HGMMA.64x128x16.F32", "tensor"),
        ("BAR.SYNC.DEFER_BLOCKING", "other"), ("DFMA", "double"),
    ],
)  # fmt: skip
def test_units_of_instructions(opcode: str, pipe: str) -> None:
    assert pipe_of(opcode) == pipe


def test_products_of_instructions() -> None:
    one, group = product_of("HMMA.16816.F32"), product_of("HGMMA.64x128x16.F32")
    assert one is not None
    assert group is not None
    assert (one.macs, one.bits, one.asynchronous) == (16 * 8 * 16, 16, False)
    assert (4 * group.macs, group.asynchronous) == (64 * 128 * 16, True)
    assert product_of("MOVM.16.MT88") is None


# What is refused


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (lambda x: (x, x, x, "i32"), ArgumentError, "only the type is known"),
        (lambda x: (x.half(), x, x, 8), ArgumentError, "was compiled for"),
        (lambda x: (x, x, x, None), ArgumentError, "'n' is None"),
        (lambda x: (torch.ones(8).to_sparse(), x, x, 8), ArgumentError, "layout torch.sparse_coo"),
        (lambda x: (x, x), MissingArguments, "also takes out_ptr, n"),
        (lambda x: (x, x, x, 8, 1024, 9), ArgumentError, "5 arguments"),
    ],
)
def test_arguments_that_do_not_fit(
    added: Any,
    vector: Any,
    arguments: Callable[[Any], tuple[Any, ...]],
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        added.estimate((4,), *arguments(vector))


def test_gpus_and_times_that_are_none(added: Any, vector: Any) -> None:
    arguments = ((1024,), vector, vector, vector, SIZE)
    with pytest.raises(OptionError, match="is none of"):
        added.estimate(*arguments, gpu="h20000")
    with pytest.raises(OptionError, match="is of sm_80"):
        added.estimate(*arguments, gpu="a100")
    with pytest.raises(OptionError, match="is no time in microseconds"):
        added.roofline(*arguments, microseconds=-1)
    with pytest.raises(ArgumentError, match="no parameter 'num_warps'"):
        added.estimate(*arguments, num_warps=4)


def test_targets_that_are_not_calibrated() -> None:
    amd = compiled(vector_add, *TYPES, BLOCK=1024, target="gfx942", record="stages")
    with pytest.raises(TargetError, match="not calibrated"):
        amd.estimate((4,), *[torch.empty(4096, device="meta")] * 3, 4096)
    assert gpu_of(kernellab.Target("cuda", "90")).name == "H200"


def test_a_record_without_its_kernel(added: Any, tmp_path: Any, vector: Any) -> None:
    loaded = kernellab.load(added.save(tmp_path / "added.json.gz"))
    with pytest.raises(NotRecorded, match="no kernel to run"):
        loaded.estimate((triton.cdiv(SIZE, 1024),), vector, vector, vector, SIZE)
