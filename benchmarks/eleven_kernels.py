"""The eleven kernels that the interpreter is measured on, each at one size.

A row is a `Case` of the demo: a plain `triton.jit` kernel, its grid, constants and seeded inputs
(the same on every machine), what it must give and how exactly, and torch doing the same maths. The
keys of `tolerance` are the arguments that the kernel writes; `cleared` makes them ready for a
launch, on the CPU or on a GPU:

    case = eleven_cases()[0]
    arguments = on_device(cleared(case, case.make_arguments()), "cuda")
    case.kernel[case.grid](**arguments, **case.constants, **case.options)
"""

from __future__ import annotations

import dataclasses

import torch
import triton

from benchmarks import kernels
from kernellab.cli.demo import (
    EXACT,
    Arguments,
    Case,
    dropout_case,
    layer_norm_case,
    matmul_case,
    random_normal,
    softmax_case,
    vector_add_case,
)
from kernellab.launch.results import Tolerances

SEED = 11
LOG2_E = 1.4426950408889634


def eleven_cases() -> list[Case]:
    """All rows, in the order of the tables."""
    return [
        vector_add_case(1 << 20),
        softmax_case(1823, 781),
        persistent_softmax_case(1823, 781, programs=264),
        half_matmul_case(512),
        layer_norm_case(1151, 8192),
        dropout_case(1 << 18, 0.5),
        atomic_histogram_case(1 << 18),
        block_histogram_case(1 << 18),
        cumulative_sum_case(1024, 1024),
        attention_case(heads=2, length=512, head=64),
        descriptor_attention_case(heads=2, length=512, head=64),
    ]


def cleared(case: Case, arguments: Arguments) -> Arguments:
    """The arguments with every output set to zero, in place:
    what kernels that add to an output start from.
    """
    for name in case.tolerance:
        arguments[name].zero_()
    return arguments


def on_device(arguments: Arguments, device: str) -> Arguments:
    """The arguments with their tensors on another device.

    On a GPU, descriptors made in a kernel need memory: it is allocated with torch.
    """
    if device != "cpu":
        triton.set_allocator(
            lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device=device)
        )
    return {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in arguments.items()
    }


def persistent_softmax_case(rows: int, columns: int, programs: int) -> Case:
    """Softmax of each row of an fp32 matrix, by a fixed number of programs."""
    one_row_each = softmax_case(rows, columns)
    return dataclasses.replace(
        one_row_each,
        name="softmax, persistent",
        size=f"{rows}x{columns} fp32, {programs} programs",
        kernel=kernels.persistent_softmax,
        grid=(programs,),
        make_arguments=lambda: {**one_row_each.make_arguments(), "n_rows": rows},
    )


def half_matmul_case(size: int) -> Case:
    """The demo's product of fp16 matrices, beside torch's product in fp32:
    its own in fp16 has no fast path on most CPUs.
    """
    return dataclasses.replace(
        matmul_case(torch.float16, size),
        torch_twin=lambda arguments: (
            arguments["a_ptr"].float() @ arguments["b_ptr"].float()
        ).half(),
    )


BINS = 256


def _values(n: int) -> torch.Tensor:
    """n int32 values below BINS, small ones more often."""
    return (torch.rand(n, generator=torch.Generator().manual_seed(SEED)) ** 2 * BINS).int()


def _histogram_case(n: int, name: str, kernel: object, **constants: int) -> Case:
    def make_arguments() -> Arguments:
        return {
            "x_ptr": _values(n),
            "counts_ptr": torch.zeros(BINS, dtype=torch.int32),
            "n": n,
        }

    def counts(arguments: Arguments) -> torch.Tensor:
        return torch.bincount(arguments["x_ptr"], minlength=BINS)

    return Case(
        name=name,
        size=f"{n:,} int32, {BINS} bins",
        kernel=kernel,
        grid=(-(-n // constants["BLOCK"]),),
        constants=constants,
        make_arguments=make_arguments,
        reference=lambda arguments: {"counts_ptr": counts(arguments).int()},
        torch_twin=counts,
        tolerance={"counts_ptr": EXACT},
        why_tolerance="integers",
    )


def atomic_histogram_case(n: int) -> Case:
    """How often each of 256 values occurs among n, by an atomic addition for each."""
    return _histogram_case(n, "histogram by atomic_add", kernels.atomic_histogram, BLOCK=1024)


def block_histogram_case(n: int) -> Case:
    """How often each of 256 values occurs among n, by a `tl.histogram` of each block."""
    return _histogram_case(n, "tl.histogram", kernels.block_histogram, BLOCK=1024, BINS=BINS)


def cumulative_sum_case(rows: int, columns: int) -> Case:
    """The running sum of each row of an fp32 matrix."""

    def make_arguments() -> Arguments:
        x = random_normal(rows, columns, seed=SEED)
        return {
            "x_ptr": x,
            "out_ptr": torch.empty_like(x),
            "row_stride": x.stride(0),
            "n_columns": columns,
        }

    # Each of `columns` additions rounds a sum of up to about 4 * sqrt(columns)
    # by at most half a unit of 2**-23.
    rounded = columns * 4 * columns**0.5 * 2.0**-24
    return Case(
        name="cumsum",
        size=f"{rows}x{columns} fp32",
        kernel=kernels.cumulative_sum,
        grid=(rows,),
        constants={"BLOCK": 1 << (columns - 1).bit_length()},
        make_arguments=make_arguments,
        reference=lambda arguments: {
            "out_ptr": torch.cumsum(arguments["x_ptr"].double(), dim=1).float()
        },
        torch_twin=lambda arguments: torch.cumsum(arguments["x_ptr"], dim=1),
        tolerance={"out_ptr": Tolerances(atol=rounded)},
        why_tolerance="the order of fp32 sums",
    )


def attention_case(heads: int, length: int, head: int) -> Case:
    """Causal attention of one batch of fp16 queries, keys and values, shape (1,
    heads, length, head).
    """
    block_m, block_n = 64, 32

    def make_arguments() -> Arguments:
        q, k, v = (
            random_normal(1, heads, length, head, dtype=torch.float16, seed=SEED + number)
            for number in range(3)
        )
        return {
            "q_ptr": q,
            "k_ptr": k,
            "v_ptr": v,
            "out_ptr": torch.empty_like(q),
            "scale": head**-0.5 * LOG2_E,
            "stride_head": q.stride(1),
            "stride_token": q.stride(2),
        }

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def reference(arguments: Arguments) -> dict[str, torch.Tensor]:
        q, k, v = (arguments[name].double() for name in ("q_ptr", "k_ptr", "v_ptr"))
        return {"out_ptr": attend(q, k, v).half()}

    return Case(
        name="attention",
        size=f"1x{heads}x{length}x{head} fp16, causal",
        kernel=kernels.attention,
        grid=(length // block_m, heads),
        constants={"HEAD": head, "BLOCK_M": block_m, "BLOCK_N": block_n},
        make_arguments=make_arguments,
        reference=reference,
        torch_twin=lambda arguments: attend(*(arguments[n] for n in ("q_ptr", "k_ptr", "v_ptr"))),
        tolerance={"out_ptr": Tolerances(atol=2.0**-10, rtol=2.0**-10)},
        why_tolerance=(
            "probabilities are rounded to fp16 before they weigh the values, the result once more"
        ),
        options={"num_warps": 4},
    )


def descriptor_attention_case(heads: int, length: int, head: int) -> Case:
    """The same attention, its memory reached through tensor descriptors."""
    by_pointers = attention_case(heads, length, head)

    def make_arguments() -> Arguments:
        arguments = by_pointers.make_arguments()
        del arguments["stride_head"], arguments["stride_token"]
        return {**arguments, "heads": heads, "length": length}

    return dataclasses.replace(
        by_pointers,
        name="attention by descriptors",
        kernel=kernels.attention_by_descriptors,
        make_arguments=make_arguments,
    )
