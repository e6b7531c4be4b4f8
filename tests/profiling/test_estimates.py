"""Estimates of time and rooflines: what is counted, what is made of it, what is refused."""

import dataclasses
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from benchmarks.diagnosed.arithmetic_kernels import window_sums
from kernellab.cli.demo.kernels import matmul, vector_add
from kernellab.compiler.targets import GPUS, SUPPORTED_TARGETS, Gpu
from kernellab.errors import ArgumentError, MissingArguments, NotRecorded, OptionError, TargetError
from kernellab.profiling.estimates.counts import Asked, LaunchCounts
from kernellab.profiling.estimates.estimate import Estimate
from kernellab.profiling.estimates.instructions import product_of
from kernellab.profiling.estimates.model import CALIBRATION, estimated_gpu, gpu_of, refetched

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
def estimated(added: Any, vector: Any) -> Any:
    return added.estimate((1024,), vector, vector, vector, SIZE)


@pytest.fixture(scope="module")
def multiplied() -> Any:
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
    return compilation.estimate((64,), **tensors, **sizes, **strides)


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


@pytest.mark.slow
def test_products_of_tensor_memory_are_counted() -> None:
    size = 256
    a = torch.empty(size, size, dtype=torch.float16, device="meta")
    steps = dict.fromkeys(("stride_am", "stride_bk", "stride_cm", "M", "N", "K"), size)
    ones = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
    tensors = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), a)
    compilation = compiled(
        matmul, **dict.fromkeys(tensors, "*fp16:16"), **dict.fromkeys(steps, "i32:16"), **ones,
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, PRECISION="tf32", target="sm_100",
    )  # fmt: skip
    found = compilation.estimate((4,), **tensors, **steps)
    assert found.counts.macs["16 group"] * found.counts.programs == size**3


@pytest.mark.slow
def test_a_pipelined_product_is_counted_as_the_gpu_counts(multiplied: Estimate) -> None:
    counts = multiplied.counts
    assert executed(counts) == pytest.approx(1_120_256, rel=0.15)
    assert counts.instructions["tensor"] * counts.programs == 32_768
    assert sum(counts.macs.values()) * counts.programs == 1024**3
    assert counts.requests * counts.programs == pytest.approx(65_536 + 4_096)
    # Where loads take longer than what the stages hide, the path grows with them, else it does not.
    fast, slow = counts.path[0], counts.path[-1]
    assert counts.path[1] - fast < 0.3 * (slow - counts.path[-2])


@triton.jit
def repeated(x_ptr, out_ptr, turns, EVERY: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if program % EVERY == 0:
        for _ in range(turns):
            x = x * 1.0001 + 0.5
    tl.store(out_ptr + at, x)


@pytest.mark.parametrize(
    ("every", "turns"), [(1, 1000), pytest.param(2, 1000, marks=pytest.mark.slow), (1, 3)]
)
def test_loops_are_counted_as_often_as_they_run(every: int, turns: int) -> None:
    """The machine code has four turns in its loop, and two and one for the rest behind it."""
    x, programs = torch.empty(SIZE, device="meta"), SIZE // 1024
    compilation = compiled(
        repeated, x, x, turns, EVERY=every, BLOCK=1024, target="sm_90", record="stages"
    )
    counted = compilation.estimate((programs,), x, x, turns).counts.instructions["fma"]
    assert counted == pytest.approx(1024 / 32 * turns / every, rel=0.15)


@pytest.mark.slow
def test_operations_that_share_a_line_are_not_taken_for_turns() -> None:
    """Five instructions for each of 4,096 elements in 64 turns; two of them name one operation."""
    x, turns = torch.empty(1 << 22, device="meta"), 64
    asked = {"n": 1 << 21, "TURNS": turns, "BLOCK": 4096}
    compilation = compiled(window_sums, x, x, **asked, num_warps=8, target="sm_90")
    counts = compilation.estimate((1,), x, x, **asked).counts
    assert counts.instructions["fma"] == pytest.approx(4096 / 32 * 5 * turns, rel=0.05)


@triton.jit
def windows(x_ptr, totals_ptr, out_ptr, step, BLOCK: tl.constexpr):
    program, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + program * step + at)
    tl.atomic_add(totals_ptr + at % 8, x)
    tl.store(out_ptr + at * 4096 + program, x)


@pytest.mark.slow
def test_overlapping_loads_come_from_dram_once_and_atomics_take_turns_by_element() -> None:
    programs, size = 4096, 1024
    x = torch.empty(1 << 28, device="meta")
    compilation = compiled(
        windows, "*fp32:16", "*fp32:16", "*fp32:16", "i32:16", BLOCK=size, target="sm_90",
        record="stages",
    )  # fmt: skip
    totals, out = torch.empty(8, device="meta"), torch.empty(size * 4096, device="meta")
    counts = compilation.estimate((programs,), x, totals, out, 32).counts
    read = 4 * (32 * programs + size)
    assert counts.read_bytes == pytest.approx(read, rel=0.05)
    # Every element goes to the one sector, and of each request, four lanes to the same element:
    # an H200 takes 1.76 ns for each of them (`benchmarks/data/atomics_h200.json`).
    nanoseconds = counts.atomic_turns * CALIBRATION.contention
    assert nanoseconds == pytest.approx(programs * size / 32 * 4 * 1.76, rel=0.1)
    # Each lane writes 4 bytes of a sector of its own: a line and a sector for every element.
    assert counts.partial_stores == pytest.approx(size * (1 + 1 / 4) * 7 / 8)


def test_what_l2_loses_depends_on_the_order_of_programs(estimated: Estimate) -> None:
    """1,024 programs, 132 at once, read each of 256 MiB eight times; L2 holds 50 MiB."""
    whole, gpu = 256 << 20, GPUS["h200"]
    apart = Asked("x", whole / 128, 0.0, 0.0, whole, 1.0, 0.0)
    counts = dataclasses.replace(estimated.counts, programs=1024, resident=1, arguments=(apart,))
    lost = 7 * whole * (1 - (50 << 20) / whole)
    assert refetched(counts, gpu) == pytest.approx(lost, rel=0.01)
    together = dataclasses.replace(apart, apart=1 / 8)
    assert refetched(dataclasses.replace(counts, arguments=(together,)), gpu) == 0


def test_what_a_run_changes_is_the_samples_own() -> None:
    x, y = torch.ones(4096), torch.ones(4096)
    out = torch.full((4096,), 7.0)
    compilation = compiled(vector_add, x, y, out, 4096, BLOCK=1024, target="sm_90")
    compilation.estimate((4,), x, y, out, 4096)
    assert (out == 7).all()


def test_an_estimate_says_what_bounds_the_launch(estimated: Estimate, multiplied: Estimate) -> None:
    # What is written fits in the L2 cache, so it may go to DRAM afterwards.
    assert estimated.lower_bound == pytest.approx(8 * SIZE / 4.8e6)
    assert estimated.lower_bound < estimated.microseconds < 20
    assert "DRAM" in estimated.bound
    assert "not measured" in str(estimated)
    assert "median error" in estimated.accuracy
    assert "x_ptr" in estimated.notes[0]
    assert multiplied.microseconds > multiplied.lower_bound > 0
    assert {"tensor cores", "L2", "DRAM"} <= set(multiplied.table()["name"])
    assert "about" in estimated._repr_mimebundle_()["text/html"]


def test_another_gpu_is_scaled_and_said_to_be(added, vector, messages) -> None:
    slower = added.estimate((1024,), vector, vector, vector, SIZE, gpu="h100")
    assert slower.lower_bound == pytest.approx(8 * SIZE / 3.35e6)
    assert slower.accuracy == messages


def test_a_roofline_has_operations_bytes_and_the_place(added: Any, vector: Any) -> None:
    found = added.roofline((1024,), vector, vector, vector, SIZE, microseconds=5.152)
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
    """Peak rates that the data sheets print, in TFLOP/s: fp16, fp32, fp64."""
    sheets = {
        "t4": (65, 8.1, 0.25), "a100": (312, 19.5, 9.7), "a40": (149.7, 37.4, 0.58),
        "l40s": (362, 91.6, 1.4), "h100": (989, 67, 34), "h200": (989, 67, 34),
        "b200": (2250, 75, 37), "b300": (2250, 75, 1.2), "rtx 5090": (209.5, 104.8, 1.64),
        "mi250": (181, 22.6, 22.6), "mi300x": (1307, 163.4, 81.7),
        "mi355x": (2516, 157.3, 78.6), "rx 7900 xtx": (122.8, 61.4, 1.92),
        "rx 9070 xt": (195, 48.7, 1.52),
    }  # fmt: skip
    rates = {
        name: tuple(gpu.peak(kind) / 1e6 for kind in ("16", "fp32", "fp64"))
        for name, gpu in GPUS.items()
    }
    assert set(rates) == set(sheets)
    for name, sheet in sheets.items():
        assert rates[name] == pytest.approx(sheet, rel=0.1), name


def test_every_number_of_every_gpu_has_a_source_or_is_absent() -> None:
    assert {gpu.arch for gpu in GPUS.values()} == {target.arch for target in SUPPORTED_TARGETS}
    words = {"name", "backend", "arch", "driver_name", "sources"}
    numbers = {field.name for field in dataclasses.fields(Gpu)} - words
    for gpu in GPUS.values():
        with_source = {name for name in numbers if getattr(gpu, name) is not None}
        assert set(gpu.sources) == with_source, gpu.name
        assert all(len(source) > 8 for source in gpu.sources.values())


@pytest.mark.slow
def test_what_has_no_source_is_left_out_and_said_to_be(vector: Any) -> None:
    compilation = compiled(vector_add, *TYPES, BLOCK=1024, target="sm_89")
    arguments = ((1024,), vector, vector, vector, SIZE)
    estimate = compilation.estimate(*arguments)
    assert GPUS["l40s"].cache_peak is None
    assert next(part for part in estimate.parts if part.name == "L2").microseconds == 0
    assert any("L2 bandwidth of the L40S" in note for note in estimate.notes)
    assert [roof.name for roof in compilation.roofline(*arguments).memory] == ["L1", "DRAM"]


def test_a_target_without_numbers_is_an_error_that_names_the_others(raised) -> None:
    raised(TargetError, gpu_of, kernellab.Target("cuda", "99"), match="sm_99")


def test_products_of_instructions() -> None:
    one, group = product_of("HMMA.16816.F32"), product_of("HGMMA.64x128x16.F32")
    assert one is not None
    assert group is not None
    assert (one.macs, one.bits, one.asynchronous) == (16 * 8 * 16, 16, False)
    assert (4 * group.macs, group.asynchronous) == (64 * 128 * 16, True)
    assert product_of("MOVM.16.MT88") is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (lambda x: (x, x, x, "i32"), ArgumentError),
        (lambda x: (x.half(), x, x, 8), ArgumentError),
        (lambda x: (x, x, x, None), ArgumentError),
        (lambda x: (torch.ones(8).to_sparse(), x, x, 8), ArgumentError),
        (lambda x: (x, x), MissingArguments),
        (lambda x: (x, x, x, 8, 1024, 9), ArgumentError),
    ],
)
def test_arguments_that_do_not_fit(added, vector, arguments, error, raised) -> None:
    raised(error, added.estimate, (4,), *arguments(vector))


def test_gpus_and_times_that_are_none(added: Any, vector: Any, raised) -> None:
    arguments = ((1024,), vector, vector, vector, SIZE)
    raised(OptionError, added.estimate, *arguments, gpu="h20000")
    raised(OptionError, added.estimate, *arguments, gpu="a100", match="sm_80")
    raised(OptionError, added.roofline, *arguments, microseconds=-1)
    raised(ArgumentError, added.estimate, *arguments, num_warps=4, match="num_warps")


def test_targets_that_are_not_calibrated() -> None:
    amd = compiled(vector_add, *TYPES, BLOCK=1024, target="gfx942", record="stages")
    with pytest.raises(TargetError, match="not calibrated") as error:
        amd.estimate((4,), *[torch.empty(4096, device="meta")] * 3, 4096)
    assert "sm_90 (H100, H200)" in str(error.value)
    assert gpu_of(kernellab.Target("cuda", "90")).name == "H200"
    assert gpu_of(amd.target).name == "MI300X"
    assert estimated_gpu(kernellab.Target("cuda", "90"), "h100").name == "H100"


def test_a_record_without_its_kernel(added, tmp_path, vector, raised) -> None:
    loaded = kernellab.load(added.save(tmp_path / "added.json.gz"))
    raised(NotRecorded, loaded.estimate, (triton.cdiv(SIZE, 1024),), vector, vector, vector, SIZE)
