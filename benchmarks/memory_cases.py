"""Kernels, sizes and options that accesses to memory are predicted and measured for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks import memory_kernels as kernels
from benchmarks.small_cases import Tensors, blank, integers, moderate


@dataclass(frozen=True)
class MemoryCase:
    """One launch.

    Attributes:
        name: what it is about.
        kernel: the kernel.
        tensors: makes its tensors, by parameter name, in the order of the parameters; the
            same ones each time.
        grid: how many programs run, along each axis.
        scalars: its other runtime arguments.
        constants: its constexprs.
        options: num_warps and the like.
    """

    name: str
    kernel: Any
    tensors: Callable[[], Tensors]
    grid: tuple[int, ...]
    scalars: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the tensors and the grid, by name."""
        return {**self.scalars, **self.constants, **self.options}


ONE_DIMENSION = 1 << 16
ROWS, COLUMNS = 256, 512
BLOCK = 1024


def copies(dtype: torch.dtype, read: int = ONE_DIMENSION) -> Callable[[], Tensors]:
    """Something to read, and something of the same type to write."""
    return lambda: {"x": moderate(dtype, 1, read), "out": blank(dtype, ONE_DIMENSION)}


def line(name: str, kernel: Any, tensors: Callable[[], Tensors], **settings: Any) -> MemoryCase:
    """A kernel over one dimension, `BLOCK` elements a program."""
    warps = settings.pop("num_warps", 4)
    scalars = {key: settings.pop(key) for key in ["n", "shift"] if key in settings}
    return MemoryCase(
        name,
        kernel,
        tensors,
        (ONE_DIMENSION // BLOCK,),
        scalars,
        {"BLOCK": BLOCK, **settings},
        {"num_warps": warps},
    )


LINES = [
    line("copy fp32", kernels.copy_whole, copies(torch.float32)),
    line("copy fp32, 1 warp", kernels.copy_whole, copies(torch.float32), num_warps=1),
    line("copy fp32, 8 warps", kernels.copy_whole, copies(torch.float32), num_warps=8),
    line("copy fp16", kernels.copy_whole, copies(torch.float16)),
    line("copy fp64", kernels.copy_whole, copies(torch.float64)),
    line("copy int8", kernels.copy_whole, copies(torch.int8)),
    line("copy fp32, odd size", kernels.copy, copies(torch.float32), n=65_101),
    line("copy fp16, odd size", kernels.copy, copies(torch.float16), n=65_104),
    line(
        "copy fp32, stride 2",
        kernels.copy_strided,
        copies(torch.float32, 2 * ONE_DIMENSION),
        STRIDE=2,
    ),
    line(
        "copy fp32, stride 8",
        kernels.copy_strided,
        copies(torch.float32, 8 * ONE_DIMENSION),
        STRIDE=8,
    ),
    line(
        "copy fp16, shifted by 1",
        kernels.copy_shifted,
        copies(torch.float16, ONE_DIMENSION + 8),
        shift=1,
    ),
    line(
        "copy fp32, shifted by 3",
        kernels.copy_shifted,
        copies(torch.float32, ONE_DIMENSION + 8),
        shift=3,
    ),
    line("copy fp32, every other 64", kernels.copy_every_other, copies(torch.float32)),
    line(
        "gather fp32",
        kernels.gather,
        lambda: {
            "x": moderate(torch.float32, 1, ONE_DIMENSION),
            "index": integers(torch.int32, 2, 0, ONE_DIMENSION, ONE_DIMENSION),
            "out": blank(torch.float32, ONE_DIMENSION),
        },
    ),
    line(
        "scatter fp32",
        kernels.scatter,
        lambda: {
            "x": moderate(torch.float32, 1, ONE_DIMENSION),
            "index": integers(torch.int32, 2, 0, ONE_DIMENSION, ONE_DIMENSION),
            "out": blank(torch.float32, ONE_DIMENSION),
        },
    ),
    line("atomic add, own element", kernels.add_atomically, copies(torch.float32), EVERY=1),
    line("atomic add, 4 lanes an element", kernels.add_atomically, copies(torch.float32), EVERY=4),
    line(
        "atomic add, result used",
        kernels.take_a_number,
        lambda: {"x": blank(torch.int32, ONE_DIMENSION), "out": blank(torch.int32, ONE_DIMENSION)},
    ),
    line(
        "histogram",
        kernels.histogram,
        lambda: {
            "x": integers(torch.int32, 3, 0, 64, ONE_DIMENSION),
            "out": blank(torch.int32, 64 * 64),
        },
        BINS=64,
    ),
]


def plane(
    name: str,
    kernel: Any,
    dtype: torch.dtype,
    tile: tuple[int, int],
    warps: int = 4,
    scalars: Mapping[str, int] | None = None,
    shape: tuple[int, int] = (ROWS, COLUMNS),
    **constants: Any,
) -> MemoryCase:
    """A kernel over a matrix, one tile a program."""
    m, n = tile
    return MemoryCase(
        name,
        kernel,
        lambda: {"x": moderate(dtype, 1, *shape), "out": blank(dtype, *shape)},
        (-(-shape[0] // m), -(-shape[1] // n)),
        scalars or {},
        {"M": m, "N": n, **constants},
        {"num_warps": warps},
    )


PLANES = [
    plane(
        "rows fp32", kernels.copy_rows, torch.float32, (32, 64), scalars={"m": ROWS, "n": COLUMNS}
    ),
    plane(
        "rows fp16", kernels.copy_rows, torch.float16, (32, 64), scalars={"m": ROWS, "n": COLUMNS}
    ),
    plane(
        "rows fp32, odd sizes",
        kernels.copy_rows,
        torch.float32,
        (32, 64),
        scalars={"m": 250, "n": 333},
        shape=(250, 333),
    ),
    plane("columns fp32", kernels.copy_columns, torch.float32, (64, 32), STRIDE=ROWS),
    plane("transpose fp32", kernels.transpose, torch.float32, (32, 32), ROWS=ROWS, COLUMNS=COLUMNS),
    plane("transpose fp16", kernels.transpose, torch.float16, (64, 64), ROWS=ROWS, COLUMNS=COLUMNS),
    MemoryCase(
        "sum of rows fp32",
        kernels.sum_rows,
        lambda: {"x": moderate(torch.float32, 1, ROWS, COLUMNS), "out": blank(torch.float32, ROWS)},
        (ROWS // 4,),
        {},
        {"M": 4, "N": COLUMNS},
        {"num_warps": 4},
    ),
    MemoryCase(
        "sum of columns fp32",
        kernels.sum_columns,
        lambda: {
            "x": moderate(torch.float32, 1, ROWS, 64),
            "out": blank(torch.float32, ROWS // 64, 64),
        },
        (ROWS // 64,),
        {},
        {"M": 64, "N": 64},
        {"num_warps": 4},
    ),
    MemoryCase(
        "softmax fp32",
        kernels.softmax,
        lambda: {"x": moderate(torch.float32, 1, 64, 781), "out": blank(torch.float32, 64, 781)},
        (64,),
        {"n": 781},
        {"BLOCK": 1024},
        {"num_warps": 4},
    ),
    MemoryCase(
        "running sums fp32",
        kernels.running_sums,
        lambda: {
            "x": moderate(torch.float32, 1, 8, 64, 32),
            "out": blank(torch.float32, 8, 64, 32),
        },
        (8,),
        {},
        {"M": 64, "N": 32},
        {"num_warps": 4},
    ),
]


def product(
    name: str, kernel: Any, dtype: torch.dtype, tile: tuple[int, int, int], stages: int, warps: int
) -> MemoryCase:
    """A product of 256x256 matrices."""
    m, n, k = tile
    size = 256
    return MemoryCase(
        name,
        kernel,
        lambda: {
            "a_ptr": moderate(torch.float32, 1, size, size).to(dtype),
            "b_ptr": moderate(torch.float32, 2, size, size).to(dtype),
            "c_ptr": blank(dtype, size, size),
        },
        (size // m, size // n),
        {"n": size, "k": size},
        {"M": m, "N": n, "K": k},
        {"num_warps": warps, "num_stages": stages},
    )


PRODUCTS = [
    product("matmul fp16, 1 stage", kernels.matmul, torch.float16, (64, 64, 32), 1, 4),
    product("matmul fp16, 3 stages", kernels.matmul, torch.float16, (64, 64, 32), 3, 4),
    product("matmul fp16, 16 rows", kernels.matmul, torch.float16, (16, 64, 32), 3, 2),
    product("matmul fp32, tf32", kernels.matmul, torch.float32, (64, 64, 32), 3, 4),
    product(
        "matmul fp16, descriptors", kernels.matmul_by_descriptors, torch.float16, (64, 64, 64), 3, 4
    ),
    product("matmul bf16, 8 warps", kernels.matmul, torch.bfloat16, (128, 128, 32), 3, 8),
]


def copied(
    name: str,
    dtype: torch.dtype,
    tile: tuple[int, int],
    vector: int,
    lanes: int,
    first: int = 1,
    part: int = 1,
    apart: int = 1,
    swizzle: int = 1,
) -> MemoryCase:
    """Tiles that are copied asynchronously, by 4 warps.

    Args:
        name: what it is about.
        dtype, tile: of each of the 64 programs.
        vector: elements of a lane.
        lanes: of a warp along a row.
        first: 1 where rows of the tile are rows of shared memory, 0 where they are columns.
        part: one in so many of the elements is on, the first ones.
        apart: a row of global memory is so many rows of the tile long.
        swizzle: so many rows in turn have their pieces of 16 bytes in another order in shared
            memory; 1 for none.
    """
    rows, columns = tile
    return MemoryCase(
        f"async copies, {name}",
        kernels.copy_asynchronously,
        lambda: {
            "x": moderate(dtype, 1, 64, rows, columns * apart),
            "out": blank(dtype, 64, rows, columns * apart),
        },
        (64,),
        {"n": rows * columns // part},
        {
            "ROWS": rows,
            "COLUMNS": columns,
            "VECTOR": vector,
            "LANES": lanes,
            "FIRST": first,
            "APART": columns * apart,
            "SWIZZLE": swizzle,
        },
        {"num_warps": 4},
    )


COPIES = [
    copied("16 bytes, rows of 64", torch.float16, (64, 32), 8, 4),
    copied("16 bytes, rows of 128", torch.float16, (32, 64), 8, 8),
    copied("16 bytes, rows of 256", torch.float16, (16, 128), 8, 16),
    copied("16 bytes, rows of 512", torch.float16, (4, 256), 8, 32),
    copied("16 bytes, half of them off", torch.float16, (32, 64), 8, 8, part=2),
    copied("8 bytes", torch.float16, (16, 128), 4, 32),
    copied("4 bytes", torch.float32, (32, 32), 1, 32),
    copied("4 bytes, into columns", torch.float32, (32, 32), 1, 32, first=0),
    copied("16 bytes, rows of 64, apart", torch.float16, (64, 32), 8, 4, apart=4),
    copied(
        "16 bytes, rows of 64, apart and swizzled by 4",
        torch.float16,
        (64, 32),
        8,
        4,
        apart=4,
        swizzle=4,
    ),
    copied("16 bytes, rows of 64, swizzled by 4", torch.float16, (64, 32), 8, 4, swizzle=4),
    copied("16 bytes, rows of 128, apart", torch.float16, (32, 64), 8, 8, apart=4),
    copied(
        "16 bytes, rows of 128, apart and swizzled by 8",
        torch.float16,
        (32, 64),
        8,
        8,
        apart=4,
        swizzle=8,
    ),
    copied("16 bytes, rows of 128, swizzled by 8", torch.float16, (32, 64), 8, 8, swizzle=8),
    copied("16 bytes, rows of 256, apart", torch.float16, (16, 128), 8, 16, apart=4),
    copied("16 bytes, rows of 32, apart", torch.float16, (128, 16), 8, 2, apart=8),
    copied("4 bytes, rows of 32 apart", torch.float32, (128, 8), 1, 8, apart=8),
    copied("4 bytes, half of them off", torch.float32, (32, 32), 1, 32, part=2),
]

MEMORY_CASES: tuple[MemoryCase, ...] = (*LINES, *PLANES, *PRODUCTS, *COPIES)
