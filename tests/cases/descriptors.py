"""Cases of tensor descriptors and block pointers."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.cases.arithmetic import name_of
from tests.cases.case import Case, as_numpy, iota, normal, whole
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


def copied(dtype: torch.dtype, padding: str, row: int, column: int) -> Case:
    """From a view with a stride and an offset; three programs,
    the last one beyond the target's end.
    """

    def make() -> dict[str, Any]:
        x = normal(14, 48).mul(10).to(dtype)[2:, 16:44]
        out = torch.ones(11, 32, dtype=dtype)
        return dict(
            source=TensorDescriptor(x, x.shape, x.stride(), [4, 32], padding),
            target=TensorDescriptor.from_tensor(out, [4, 32]),
            row=row,
            column=column,
            M=4,
            N=32,
        )

    def reference(source: Any, **_: Any) -> dict[str, Any]:
        fill = np.nan if padding == "nan" else 0
        return {"target": block_of(as_numpy(source.base), (row, column), (11, 32), fill)}

    name = f"copied_by_descriptor-{name_of(dtype)}-{padding}-{row}-{column}"
    return Case(name, descriptors.copied_by_descriptor, (3,), make, reference)


def rounded_to_tf32() -> Case:
    """Ties go to the even neighbor; what is no number stays as it is."""
    low = 2.0**-11
    numbers = [1 + low, 1 + 3 * low, 1 + low + 2.0**-20, -1 - low, np.inf, -np.inf, np.nan, 1.5]
    rounded = [1.0, 1 + 4 * low, 1 + 2 * low, -1.0, np.inf, -np.inf, np.nan, 1.5]

    def make() -> dict[str, Any]:
        x = torch.tensor([numbers] * 4)
        return dict(
            source=TensorDescriptor.from_tensor(x, [4, 8], round_f32_to_tf32=True),
            target=TensorDescriptor.from_tensor(torch.zeros(4, 8), [4, 8]),
            row=0,
            column=0,
            M=4,
            N=8,
        )

    return Case(
        "rounded_to_tf32",
        descriptors.copied_by_descriptor,
        (1,),
        make,
        lambda **_: {"target": np.array([rounded] * 4, np.float32)},
    )


def facts() -> Case:
    def make() -> dict[str, Any]:
        return dict(
            source=TensorDescriptor.from_tensor(torch.zeros(7, 12), [4, 8]),
            target=TensorDescriptor.from_tensor(torch.zeros(4, 8), [4, 8]),
            out_ptr=torch.zeros(4, dtype=torch.int32),
        )

    return Case(
        "facts_of_descriptor",
        descriptors.facts_of_descriptor,
        (1,),
        make,
        lambda **_: {"out_ptr": np.array([7, 12, 12, 8])},
    )


def one_a_program() -> Case:
    def make() -> dict[str, Any]:
        return dict(
            x_ptr=normal(5, 4, 8),
            out_ptr=torch.zeros(4, 4, 8),
            rows_ptr=torch.tensor([4, 1, 3, 0], dtype=torch.int32),
            B=4,
            M=4,
            N=8,
        )

    def reference(x_ptr: Any, rows_ptr: Any, **_: Any) -> dict[str, Any]:
        out = np.full((4, 4, 8), np.nan, np.float32)
        for program, rows in enumerate(rows_ptr.tolist()):
            matrix = x_ptr.numpy().reshape(-1, 8)[4 * program :: 1 + program % 2]
            out[program, :rows] = matrix[:rows]
        return {"out_ptr": out}

    return Case("one_a_program", descriptors.one_a_program, (4,), make, reference)


def of_either() -> Case:
    def make() -> dict[str, Any]:
        rows = torch.arange(7, -1, -1, dtype=torch.int32)
        return dict(
            x_ptr=normal(8, 8), y_ptr=normal(8, 8, seed=1), out_ptr=torch.ones(4, 8, 8),
            rows_ptr=rows, M=8, N=8,
        )  # fmt: skip

    def reference(x_ptr: Any, y_ptr: Any, **_: Any) -> dict[str, Any]:
        out = np.zeros((4, 8, 8), np.float32)
        for program, source in enumerate((x_ptr, y_ptr)):
            out[program, :7, :6] = source[1:, :6]
            out[program + 2] = source.flip(0)
        return {"out_ptr": out}

    return Case("of_either", descriptors.of_either, (2,), make, reference)


def carried() -> Case:
    def make() -> dict[str, Any]:
        turns = torch.tensor([2, 0, 1, 3], dtype=torch.int32)
        return dict(x_ptr=normal(4, 4, 8), out_ptr=torch.ones(4, 4, 8), turns_ptr=turns, M=4, N=8)

    def reference(x_ptr: Any, turns_ptr: Any, **_: Any) -> dict[str, Any]:
        out = x_ptr[turns_ptr.long()]
        out[2, :2], out[2, 2:] = x_ptr[0, :2], 0
        return {"out_ptr": out}

    return Case("carried", descriptors.carried, (4,), make, reference)


def selected(flag: int) -> Case:
    def make() -> dict[str, Any]:
        return dict(
            x_ptr=whole(2, 4, 8),
            out_ptr=torch.zeros(3, 4, 8, dtype=torch.int32),
            flag=flag,
            M=4,
            N=8,
        )

    def reference(x_ptr: Any, **_: Any) -> dict[str, Any]:
        return {"out_ptr": x_ptr[[0, 1, 0]] + 10 * x_ptr[int(flag > 0)]}

    return Case(f"selected-{flag}", descriptors.selected, (3,), make, reference)


def fewer_dimensions() -> Case:
    def make() -> dict[str, Any]:
        x = TensorDescriptor.from_tensor(normal(2, 3, 5, 8), [1, 1, 4, 8])
        return dict(x=x, out_ptr=torch.zeros(2, 4, 8), M=4, N=8)

    def reference(x: Any, **_: Any) -> dict[str, Any]:
        return {"out_ptr": x.base[:, 1, 1:]}

    return Case("fewer_dimensions", descriptors.fewer_dimensions, (2,), make, reference)


ROWS = [3, -1, 0, 12, 9, 3, 2**31 - 1, 5, 1, 2, 4, 6, 7, 8, 10, 11]
"""Rows of a matrix of 11, some of them outside."""


def gathered_rows(column: int) -> Case:
    def make() -> dict[str, Any]:
        return dict(
            x=TensorDescriptor.from_tensor(normal(11, 12), [1, 8], "nan"),
            out=TensorDescriptor.from_tensor(torch.zeros(16, 8), [8, 8]),
            rows_ptr=torch.tensor(ROWS, dtype=torch.int32),
            column=column,
            ROWS=8,
        )

    def reference(x: Any, **_: Any) -> dict[str, Any]:
        rows = [block_of(x.base.numpy(), (row, column), (1, 8), np.nan) for row in ROWS]
        return {"out": np.concatenate(rows)}

    return Case(f"gathered_rows-{column}", descriptors.gathered_rows, (2,), make, reference)


def scattered_rows() -> Case:
    def make() -> dict[str, Any]:
        return dict(
            x_ptr=normal(16, 8),
            out=TensorDescriptor.from_tensor(torch.zeros(11, 12), [1, 8]),
            rows_ptr=torch.tensor(ROWS, dtype=torch.int32),
            column=6,
            ROWS=8,
            N=8,
        )

    def reference(x_ptr: Any, **_: Any) -> dict[str, Any]:
        out = torch.zeros(11, 12)
        for line, row in enumerate(ROWS):
            if 0 <= row < 11:
                out[row, 6:] = x_ptr[line, :6]
        return {"out": out}

    return Case("scattered_rows", descriptors.scattered_rows, (2,), make, reference)


REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def reduced_into(how: str, dtype: torch.dtype) -> Case:
    """Small integers, exact in every type; unsigned ones about the sign bit."""
    low = 0 if str(dtype).startswith("torch.u") else -9
    high = 2**31 + 20 if dtype == torch.uint32 and how != "add" else 10

    def make() -> dict[str, Any]:
        out = whole(6, 16, low=low, high=high, seed=1, dtype=torch.int64).to(dtype)
        return dict(
            x_ptr=whole(3, 4, 16, low=low, high=high, dtype=torch.int64).to(dtype),
            out=TensorDescriptor.from_tensor(out, [4, 16]),
            row=-1,
            HOW=how,
            M=4,
            N=16,
        )

    def reference(x_ptr: Any, out: Any, **_: Any) -> dict[str, Any]:
        result, x = as_numpy(out.base).copy(), as_numpy(x_ptr)
        for block in x:
            result[:3] = REDUCTIONS[how](result[:3], block[1:])
        return {"out": result}

    return Case(
        f"reduced_into-{how}-{name_of(dtype)}", descriptors.reduced_into, (3,), make, reference
    )


# Block pointers


def padded_blocks(padding: str) -> Case:
    def make() -> dict[str, Any]:
        return dict(
            x_ptr=normal(9, 6), out_ptr=torch.ones(8, 12), m=6, n=9, PADDING=padding, M=4, N=4
        )

    def reference(x_ptr: Any, **_: Any) -> dict[str, Any]:
        fill = np.nan if padding == "nan" else 0
        return {"out_ptr": block_of(x_ptr.numpy().T, (-2, -1), (8, 12), fill)}

    return Case(f"padded_blocks-{padding}", descriptors.padded_blocks, (2,), make, reference)


def checked_along_one() -> Case:
    def make() -> dict[str, Any]:
        return dict(x_ptr=iota(10), out_ptr=torch.zeros(10), n=5, N=8)

    def reference(x_ptr: Any, **_: Any) -> dict[str, Any]:
        return {"out_ptr": x_ptr + 1}

    return Case("checked_along_one", descriptors.checked_along_one, (1,), make, reference)


def ragged(first: int, size: int) -> Case:
    rows, columns, most = 8, 16, 2**31 - 2**16

    def make() -> dict[str, Any]:
        x = normal(20, columns)
        shape, strides = [most, most, 2**30, columns], [2**34 - columns, columns, columns, 1]
        source = TensorDescriptor(x, shape, strides, [1, 1, rows, columns])
        return dict(
            source=source, out_ptr=torch.ones(rows, columns), first=first, size=size, M=rows,
            N=columns,
        )  # fmt: skip

    def reference(source: Any, **_: Any) -> dict[str, Any]:
        out = np.zeros((rows, columns), np.float32)
        out[:size] = source.base[first : first + size]
        return {"out_ptr": out}

    return Case(f"ragged-{first}-{size}", descriptors.ragged, (1,), make, reference)


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
