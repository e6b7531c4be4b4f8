"""Cases of tensor descriptors and block pointers."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.cases.case import Case, as_numpy, case, iota, normal, whole
from tests.kernels.interp import descriptors
from tests.support import versions


def block_of(x: np.ndarray, first: tuple[int, ...], shape: tuple[int, ...], padding: float) -> Any:
    """The part of x from `first` on; `padding` where there is none: one element after the other."""
    block = np.full(shape, padding, x.dtype)
    for index in np.ndindex(*shape):
        place = tuple(f + i for f, i in zip(first, index))
        if all(0 <= p < size for p, size in zip(place, x.shape)):
            block[index] = x[place]
    return block


@case("copied_by_descriptor-{}-{}-{}-{}", descriptors.copied_by_descriptor, (3,))
def copied(dtype, padding, row, column):
    """From a view with a stride and an offset; the last program is beyond the target's end."""
    x = normal(14, 48).mul(10).to(dtype)[2:, 16:44]
    out = torch.ones(11, 32, dtype=dtype)
    source = TensorDescriptor(x, x.shape, x.stride(), [4, 32], padding)
    yield dict(
        source=source, target=TensorDescriptor.from_tensor(out, [4, 32]), row=row, column=column,
        M=4, N=32,
    )  # fmt: skip
    fill = np.nan if padding == "nan" else 0
    yield {"target": block_of(as_numpy(source.base), (row, column), (11, 32), fill)}


@case("rounded_to_tf32", descriptors.copied_by_descriptor)
def rounded_to_tf32():
    """Ties go to the even neighbor; what is no number stays as it is."""
    low = 2.0**-11
    numbers = [1 + low, 1 + 3 * low, 1 + low + 2.0**-20, -1 - low, np.inf, -np.inf, np.nan, 1.5]
    rounded = [1.0, 1 + 4 * low, 1 + 2 * low, -1.0, np.inf, -np.inf, np.nan, 1.5]
    x = torch.tensor([numbers] * 4)
    yield dict(
        source=TensorDescriptor.from_tensor(x, [4, 8], round_f32_to_tf32=True),
        target=TensorDescriptor.from_tensor(torch.zeros(4, 8), [4, 8]),
        row=0,
        column=0,
        M=4,
        N=8,
    )
    yield {"target": np.array([rounded] * 4, np.float32)}


@case("facts_of_descriptor", descriptors.facts_of_descriptor)
def facts():
    yield dict(
        source=TensorDescriptor.from_tensor(torch.zeros(7, 12), [4, 8]),
        target=TensorDescriptor.from_tensor(torch.zeros(4, 8), [4, 8]),
        out_ptr=torch.zeros(4, dtype=torch.int32),
    )
    yield {"out_ptr": np.array([7, 12, 12, 8])}


@case("one_a_program", descriptors.one_a_program, (4,))
def one_a_program():
    x = normal(5, 4, 8)
    rows_ptr = torch.tensor([4, 1, 3, 0], dtype=torch.int32)
    yield dict(x_ptr=x, out_ptr=torch.zeros(4, 4, 8), rows_ptr=rows_ptr, B=4, M=4, N=8)
    out = np.full((4, 4, 8), np.nan, np.float32)
    for program, rows in enumerate(rows_ptr.tolist()):
        matrix = x.numpy().reshape(-1, 8)[4 * program :: 1 + program % 2]
        out[program, :rows] = matrix[:rows]
    yield {"out_ptr": out}


@case("of_either", descriptors.of_either, (2,))
def of_either():
    rows = torch.arange(7, -1, -1, dtype=torch.int32)
    x = normal(8, 8)
    y = normal(8, 8, seed=1)
    yield dict(
        x_ptr=x, y_ptr=y, out_ptr=torch.ones(4, 8, 8),
        rows_ptr=rows, M=8, N=8,
    )  # fmt: skip
    out = np.zeros((4, 8, 8), np.float32)
    for program, source in enumerate((x, y)):
        out[program, :7, :6] = source[1:, :6]
        out[program + 2] = source.flip(0)
    yield {"out_ptr": out}


@case("carried", descriptors.carried, (4,))
def carried():
    turns = torch.tensor([2, 0, 1, 3], dtype=torch.int32)
    x = normal(4, 4, 8)
    yield dict(x_ptr=x, out_ptr=torch.ones(4, 4, 8), turns_ptr=turns, M=4, N=8)
    out = x[turns.long()]
    out[2, :2], out[2, 2:] = x[0, :2], 0
    yield {"out_ptr": out}


@case("selected-{}", descriptors.selected, (3,))
def selected(flag):
    x = whole(2, 4, 8)
    yield dict(x_ptr=x, out_ptr=torch.zeros(3, 4, 8, dtype=torch.int32), flag=flag, M=4, N=8)
    yield {"out_ptr": x[[0, 1, 0]] + 10 * x[int(flag > 0)]}


@case("fewer_dimensions", descriptors.fewer_dimensions, (2,))
def fewer_dimensions():
    x = TensorDescriptor.from_tensor(normal(2, 3, 5, 8), [1, 1, 4, 8])
    yield dict(x=x, out_ptr=torch.zeros(2, 4, 8), M=4, N=8)
    yield {"out_ptr": x.base[:, 1, 1:]}


ROWS = [3, -1, 0, 12, 9, 3, 2**31 - 1, 5, 1, 2, 4, 6, 7, 8, 10, 11]
"""Rows of a matrix of 11, some of them outside."""


@case("gathered_rows-{}", descriptors.gathered_rows, (2,))
def gathered_rows(column):
    x = TensorDescriptor.from_tensor(normal(11, 12), [1, 8], "nan")
    yield dict(
        x=x,
        out=TensorDescriptor.from_tensor(torch.zeros(16, 8), [8, 8]),
        rows_ptr=torch.tensor(ROWS, dtype=torch.int32),
        column=column,
        ROWS=8,
    )
    rows = [block_of(x.base.numpy(), (row, column), (1, 8), np.nan) for row in ROWS]
    yield {"out": np.concatenate(rows)}


@case("scattered_rows", descriptors.scattered_rows, (2,))
def scattered_rows():
    x = normal(16, 8)
    yield dict(
        x_ptr=x,
        out=TensorDescriptor.from_tensor(torch.zeros(11, 12), [1, 8]),
        rows_ptr=torch.tensor(ROWS, dtype=torch.int32),
        column=6,
        ROWS=8,
        N=8,
    )
    out = torch.zeros(11, 12)
    for line, row in enumerate(ROWS):
        if 0 <= row < 11:
            out[row, 6:] = x[line, :6]
    yield {"out": out}


REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@case("reduced_into-{}-{}", descriptors.reduced_into, (3,))
def reduced_into(how, dtype):
    """Small integers, exact in every type; unsigned ones about the sign bit."""
    low = 0 if str(dtype).startswith("torch.u") else -9
    high = 2**31 + 20 if dtype == torch.uint32 and how != "add" else 10
    x = whole(3, 4, 16, low=low, high=high, dtype=torch.int64).to(dtype)
    out = whole(6, 16, low=low, high=high, seed=1, dtype=torch.int64).to(dtype)
    target = TensorDescriptor.from_tensor(out, [4, 16])
    yield dict(x_ptr=x, out=target, row=-1, HOW=how, M=4, N=16)
    result = as_numpy(out)
    for block in as_numpy(x):
        result[:3] = REDUCTIONS[how](result[:3], block[1:])
    yield {"out": result}


@case("padded_blocks-{}", descriptors.padded_blocks, (2,))
def padded_blocks(padding):
    x = normal(9, 6)
    yield dict(x_ptr=x, out_ptr=torch.ones(8, 12), m=6, n=9, PADDING=padding, M=4, N=4)
    fill = np.nan if padding == "nan" else 0
    yield {"out_ptr": block_of(x.numpy().T, (-2, -1), (8, 12), fill)}


@case("checked_along_one", descriptors.checked_along_one)
def checked_along_one():
    x = iota(10)
    yield dict(x_ptr=x, out_ptr=torch.zeros(10), n=5, N=8)
    yield {"out_ptr": x + 1}


@case("ragged-{}-{}", descriptors.ragged)
def ragged(first, size):
    rows, columns, most = 8, 16, 2**31 - 2**16
    x = normal(20, columns)
    shape, strides = [most, most, 2**30, columns], [2**34 - columns, columns, columns, 1]
    source = TensorDescriptor(x, shape, strides, [1, 1, rows, columns])
    yield dict(
        source=source, out_ptr=torch.ones(rows, columns), first=first, size=size, M=rows,
        N=columns,
    )  # fmt: skip
    out = np.zeros((rows, columns), np.float32)
    out[:size] = source.base[first : first + size]
    yield {"out_ptr": out}


def descriptor_cases() -> Iterator[Case]:
    for dtype in (torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float32):
        yield copied(dtype, "nan", -3, -5)
    for dtype in (torch.float32, torch.int32, torch.uint8, torch.int64):
        yield copied(dtype, "zero", 3, 7)
    yield copied(torch.float32, "zero", 100, 0)
    if versions.DESCRIPTORS_ROUND_TO_TF32:
        yield rounded_to_tf32()
    yield facts()
    yield one_a_program()
    yield of_either()
    yield carried()
    yield from map(selected, (0, 2))
    yield fewer_dimensions()
    yield from map(gathered_rows, (0, 6, -3))
    yield scattered_rows()
    for dtype in (torch.int32, torch.uint32, torch.float16, torch.bfloat16):
        yield from (reduced_into(how, dtype) for how in ("add", "min", "max"))
    yield reduced_into("add", torch.float32)
    for how in ("and", "or", "xor"):
        yield from (reduced_into(how, dtype) for dtype in (torch.int32, torch.uint32))
    if versions.HAS_BLOCK_POINTERS:
        yield from map(padded_blocks, ("zero", "nan"))
        yield checked_along_one()
    yield ragged(3, 5)
    yield ragged(12, 8)
    yield ragged(0, 0)
