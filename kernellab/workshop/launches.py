"""The hidden launches of the exercises: random numbers and tensors, and functions that make the
launches from them. The files of `chapters/` name those without an underscore.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from kernellab.launch.argument_copies import map_tensors, tensors_in


class Draw:
    """Random numbers and tensors for the launches of one answer, which depend only on a seed and on
    the numbers in a kernel: where it compares with one, sizes and elements are on both sides of it.
    """

    def __init__(
        self, seed: int, sizes: Iterable[int] = (), elements: Iterable[float] = ()
    ) -> None:
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._sizes, self._drawn, self._were_large = sorted(sizes), Counter[int](), 0
        self._elements = [part * each for each in sorted(elements) for part in (1, 2, -2, 0)]

    def size(self, least: int, most: int) -> int:
        """Return an integer from `least` to `most`, both included."""
        near = self._near(least, most)
        if near and self._random.random() < 0.5:  # a caller may not want any of these
            return self._not_yet(near)
        return self._random.randint(least, most)

    def _near(self, least: int, most: int, unit: int = 1) -> list[int]:
        sizes = self._random.sample(self._sizes, len(self._sizes))
        near = ((each + away) * unit for away in (0, -1, 1, 2) for each in sizes)
        return [number for number in near if least <= number <= most]

    def _not_yet(self, near: Sequence[int]) -> int:
        """Return the first of these numbers that was returned least often."""
        number = min(near, key=self._drawn.__getitem__)
        self._drawn[number] += 1
        return number

    def uneven(self, least: int, most: int, *blocks: int) -> int:
        """Return an integer from `least` to `most` that is not a multiple of any of the blocks."""
        while True:
            number = self.size(least, most)
            if all(number % block for block in blocks):
                return number

    def large(self, least: int, most: int, block: int = 1) -> int:
        """Return an integer from `least` to `most`, each order of magnitude as often; more than
        `most` only if the kernel has such a number, of elements or of blocks.
        """
        near = self._near(least, 16 * most) or self._near(least, 16 * most, block)
        if near:
            self._were_large += 1
            return max(near) if self._were_large == 1 else self._not_yet(near)
        return int(least * math.pow(most / least, self._random.random()))

    def of(self, choices: Sequence[int]) -> int:
        """Return one of the choices, which are sizes of blocks, or one up to twice as large that
        the kernel has.
        """
        sizes = (size for size in self._sizes if choices[0] <= size <= 2 * choices[-1])
        return self._random.choice([size for size in sizes if size.bit_count() == 1] or choices)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return normally distributed numbers of that shape, the same on every processor.

        In single precision the last digit would depend on the processor's vector instructions.
        """
        exact = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        given = torch.tensor(self._elements[: exact.numel() // 4], dtype=torch.float64)
        places = torch.randperm(exact.numel(), generator=self._generator) if len(given) else given
        exact.view(-1)[places[: len(given)].long()] = given
        return exact.to(dtype)

    def whole(
        self, least: int, most: int, *shape: int, dtype: torch.dtype = torch.int32
    ) -> torch.Tensor:
        """Return integers from `least` up to `most`, which is excluded."""
        return torch.randint(least, most, shape, generator=self._generator, dtype=dtype)


@dataclass(frozen=True)
class Case:
    """One launch of a student's kernel.

    Attributes:
        grid: the number of programs along x, y, z.
        arguments: tensors and numbers by parameter.
        outputs: the parameters of which the kernel must write all elements; their contents before
            the launch count as uninitialized.
        constants: the kernel's constexprs.
        step: what a kernel that fails here, but not before, does not do yet: "the mask of the
            keys"; "" if the sizes say it.
        hint: the first hint about that step, from 1.
    """

    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    step: str = ""
    hint: int = 1

    @property
    def keywords(self) -> dict[str, Any]:
        """All arguments by name, constexprs too."""
        return {**self.arguments, **self.constants}

    def displaced(self, away: int) -> Case:
        """Return the launch with tensors that begin so many bytes into their memory, a multiple of
        16, as slices may: Triton compiles the same kernel, and nothing else may depend on an
        address.
        """
        move = partial(_displaced, away=away)
        values = {name: map_tensors(value, move) for name, value in self.arguments.items()}
        return replace(self, arguments=values)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors by parameter, also those of descriptors."""
        return dict(tensors_in(self.arguments))

    @property
    def sizes(self) -> list[Any]:
        """The shapes of the tensors, and the numbers, without the constexprs."""
        tensors = self.tensors
        return [
            tuple(tensors[name].shape) if name in tensors else value
            for name, value in self.arguments.items()
        ]

    def __str__(self) -> str:
        """Return "n = 1000, BLOCK = 128, x_ptr: float32 (1000,)", which identifies the case."""
        numbers = [
            f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in self.keywords.items()
            if name not in self.tensors
        ]
        tensors = [
            f"{name}: {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
            for name, value in self.tensors.items()
        ]
        return ", ".join((*numbers, *tensors[:1]))


# First kernels: one program, many programs, masks, other orders of elements.


def _vectors(draw: Draw, n: int, block: int, *inputs: str, **numbers: Any) -> Case:
    tensors = {name: draw.normal(n) for name in inputs}
    return _in_blocks(n, block, {**tensors, "z_ptr": torch.zeros(n), **numbers}, "z_ptr")


def _displaced(tensor: torch.Tensor, away: int) -> torch.Tensor:
    before, size = away // tensor.element_size(), tensor.untyped_storage().nbytes()
    memory = torch.zeros(before + size // tensor.element_size(), dtype=tensor.dtype)
    made = memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset() + before)
    return made.copy_(tensor)


def _in_blocks(n: int, block: int, arguments: dict[str, Any], *outputs: str) -> Case:
    """Return a launch with a program for each block of `n` elements."""
    return Case((_tiles(n, block),), {**arguments, "n": n}, outputs, {"BLOCK": block})


def _by_rows(rows: int, block: int, arguments: dict[str, Any], *outputs: str) -> Case:
    return Case((rows,), arguments, outputs or ("z_ptr",), {"BLOCK": block})


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def _usual(draw: Draw, *inputs: str, **numbers: Any) -> Iterator[Case]:
    """Yield launches with whole blocks, remainders, few and many elements, other blocks."""
    yield _vectors(draw, 4 * 128, 128, *inputs, **numbers)
    yield _vectors(draw, draw.uneven(513, 1023, 128), 128, *inputs, **numbers)
    yield _vectors(draw, draw.size(1, 20), 64, *inputs, **numbers)
    n = 1024 * draw.size(2, 3) + 1
    yield _vectors(draw, n, 256, *inputs, **numbers)
    yield _vectors(draw, n, 1024, *inputs, **numbers)
    block = draw.of((8, 16, 32))
    yield _vectors(draw, draw.uneven(40, 400, block), block, *inputs, **numbers)
    block = draw.of((512, 2048))
    yield _vectors(draw, draw.large(20_000, 200_000, block), block, *inputs, **numbers)


def _up_to_nan(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the cases; x of the last has zeros, a subnormal, a large number, infinity and NaN."""
    *others, last = cases
    last.arguments["x_ptr"].view(-1)[3:9] = torch.tensor(
        [0.0, -0.0, 1e-40, 1e5, math.inf, math.nan]
    )
    yield from (*others, last)


def one_block(draw: Draw) -> Iterator[Case]:
    """Yield launches of one program."""
    for block in (128, 64, draw.of((256, 512)), draw.of((2, 8, 16, 32)), draw.of((2048, 4096))):
        yield _by_rows(1, block, {"x_ptr": draw.normal(block), "z_ptr": torch.zeros(block)})


def two_vectors(draw: Draw) -> Iterator[Case]:
    """Yield the usual launches with two inputs, which are one tensor in the third."""
    cases = list(_up_to_nan(_usual(draw, "x_ptr", "y_ptr")))
    same = {"y_ptr": cases[2].arguments["x_ptr"]}
    cases[2] = replace(cases[2], arguments={**cases[2].arguments, **same})
    yield from cases


def scaled_vector(draw: Draw) -> Iterator[Case]:
    """Return the usual launches with a factor and an offset."""
    usual = _usual(draw, "x_ptr", a=draw.size(1, 45) / 4 + 1 / 8, b=-draw.size(1, 45) / 4)
    return _up_to_nan(_every_other_moved(usual, a=-12.0, b=12.0))


def limited_vector(draw: Draw) -> Iterator[Case]:
    """Return the usual launches with two limits."""
    usual = _usual(draw, "x_ptr", low=draw.size(-4, -1) / 4 + 1 / 8, high=draw.size(1, 4) / 4)
    return _every_other_moved(usual, low=1.0, high=1.0)


def _every_other_moved(cases: Iterable[Case], **by: float) -> Iterator[Case]:
    """Yield the cases; in every other one, numbers are moved to beyond 0."""
    for number, case in enumerate(cases):
        moved = {name: case.arguments[name] + number % 2 * away for name, away in by.items()}
        yield replace(case, arguments={**case.arguments, **moved})


def every_other(draw: Draw) -> Iterator[Case]:
    """Yield launches whose input is twice as long as the output."""
    for n, block in (
        (512, 128),
        (draw.uneven(513, 999, 128), 128),
        (256 * draw.size(6, 9) + 1, 256),
        (draw.size(1, 300), draw.of((8, 16, 32, 64))),
        (draw.large(20_000, 100_000), draw.of((512, 1024, 2048))),
    ):
        arguments = {"x_ptr": draw.normal(2 * n), "z_ptr": torch.zeros(n)}
        yield _in_blocks(n, block, arguments, "z_ptr")


def few_programs(draw: Draw) -> Iterator[Case]:
    """Yield launches with fewer programs than blocks."""
    for n, block, programs in (
        (1024, 128, 4),
        (draw.uneven(1025, 2047, 128), 128, 4),
        (draw.size(1, 63), 64, 3),
        (256 * draw.size(12, 19) + 1, 256, draw.size(1, 5)),
        (draw.uneven(100, 900, 8), draw.of((8, 16, 32)), draw.size(6, 13)),
        (draw.large(20_000, 100_000), draw.of((512, 2048)), draw.size(2, 40)),
    ):
        arguments = {"x_ptr": draw.normal(n), "z_ptr": torch.zeros(n), "n": n}
        yield _by_rows(programs, block, arguments)


def gated_vectors(draw: Draw) -> Iterator[Case]:
    """Yield the usual launches; in the second, exp(x) and exp(-x) overflow."""
    for number, case in enumerate(two_vectors(draw)):
        if number == 1:
            case.arguments["x_ptr"].mul_(100)
        yield case


# Two dimensions: rows, columns, tiles, and indices that are loaded from memory.


def _tiled(
    grid: Iterable[int], arguments: dict[str, Any], tile: Sequence[int], *outputs: str
) -> Case:
    return Case(tuple(grid), arguments, outputs, {"ROWS": tile[0], "COLUMNS": tile[1]})


def _table_sizes(draw: Draw) -> Iterator[tuple[int, int, int, int]]:
    """Yield the sizes of a table and of a tile: whole tiles, remainders, one row, tall tiles, other
    tiles, a large table. The grids of the first two are not square.
    """
    yield 64, 192, 32, 64
    yield draw.size(35, 60), draw.size(131, 180), 32, 64
    yield 1, draw.size(2, 13), 16, 16
    yield draw.uneven(40, 70, 32), draw.uneven(40, 70, 16), 32, 16
    yield draw.uneven(20, 60, 2), draw.uneven(10, 40, 8), draw.of((2, 4, 8)), draw.of((8, 64, 128))
    yield (
        draw.uneven(150, 300, 64),
        draw.uneven(200, 400, 32),
        draw.of((64, 128)),
        draw.of((32, 128)),
    )


def _table(
    draw: Draw, rows: int, columns: int, inputs: Mapping[str, str], z: str
) -> dict[str, Any]:
    """Return the arguments of a launch on a table; "rc" is the shape (rows, columns)."""
    sizes = {"r": rows, "c": columns}
    tensors = {name: draw.normal(*(sizes[axis] for axis in axes)) for name, axes in inputs.items()}
    zeros = torch.zeros([sizes[axis] for axis in z])
    return {**tensors, "z_ptr": zeros, "rows": rows, "columns": columns}


def _tables(draw: Draw, z: str = "rc", **inputs: str) -> Iterator[Case]:
    for rows, columns, *tile in _table_sizes(draw):
        arguments = _table(draw, rows, columns, inputs, z)
        yield _tiled(map(_tiles, (rows, columns), tile), arguments, tile, "z_ptr")


def padded_table(draw: Draw) -> Iterator[Case]:
    """Yield launches whose output has a border of one element."""
    for rows, columns, *tile in _table_sizes(draw):  # of `z`
        rows, columns = max(rows - 2, 1), max(columns - 2, 1)
        arguments = {
            "x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(rows + 2, columns + 2),
            "rows": rows, "columns": columns,
        }  # fmt: skip
        yield _tiled(map(_tiles, (rows + 2, columns + 2), tile), arguments, tile, "z_ptr")


def gathered_rows(draw: Draw) -> Iterator[Case]:
    """Yield launches with one row of a table for each index."""
    for count, vocabulary, width, block in (
        (8, 16, 64, 64),
        (draw.size(5, 20), draw.size(20, 90), draw.size(33, 63), 64),
        (draw.size(20, 40), draw.size(5, 9), draw.size(65, 120), 128),
        (draw.size(1, 9), draw.size(2, 9), draw.size(1, 16), draw.of((16, 32))),
        (draw.size(150, 300), draw.large(1000, 3000), draw.size(129, 256), draw.of((256, 512))),
    ):
        ids = draw.whole(0, vocabulary, count)
        ids[-1] = vocabulary - 1
        arguments = {
            "ids_ptr": ids,
            "table_ptr": draw.normal(vocabulary, width),
            "z_ptr": torch.zeros(count, width), "width": width,
        }  # fmt: skip
        yield _by_rows(count, block, arguments)


# Reductions: sums of rows and columns, running sums, atomics.


def _rows(draw: Draw, rows: int, columns: int, block: int, **outputs: torch.Tensor) -> Case:
    """Return a launch with one program per row of a table whose numbers are mostly negative, in the
    first row all of them, and of both signs in every other row; those of the third row are far
    below any number that stands for minus infinity. The maximum is at the end of the first row, at
    the start of the second, and twice in the last one.
    """
    x = draw.normal(rows, columns) - 3
    x[0] = -1 - x[0].abs()
    x[0, -1] = -0.5
    x[1::2] += 3
    x[1:2, 0] = 6
    x[2:3] = -_FAR * (1 + x[2:3].abs())
    if columns > 1:
        x[-1, (int(x[-1].argmax()) + draw.size(1, columns - 1)) % columns] = x[-1].max()
    return _by_rows(rows, block, {"x_ptr": x, **outputs, "columns": columns}, *outputs)


_FAR = 1e12
"""Farther from 0 than what is written for infinity in other kernels."""

_Outputs = Callable[[int, int], dict[str, torch.Tensor]]
"""Makes the outputs for a number of rows and columns."""


def _short_rows(draw: Draw, outputs: _Outputs) -> Iterator[Case]:
    for rows, columns, block in (
        (4, 512, 512),
        (draw.size(3, 9), draw.size(65, 127), 128),
        (draw.size(1, 5), draw.size(2, 30), 64),
        (draw.size(2, 6), draw.size(513, 1000), 1024),
        (draw.size(10, 30), draw.size(1, 16), draw.of((16, 32))),
        (draw.size(30, 60), draw.size(1025, 2048), 2048),
    ):
        yield _rows(draw, rows, columns, block, **outputs(rows, columns))


def _long_rows(draw: Draw, outputs: _Outputs) -> Iterator[Case]:
    for rows, columns, block in (
        (4, 512, 128),
        (draw.size(3, 6), draw.uneven(513, 900, 128), 128),
        (draw.size(1, 4), draw.size(5, 40), 64),
        (draw.size(2, 4), 256 * draw.size(6, 9) + 1, 256),
        (draw.size(5, 20), draw.uneven(50, 200, 8), draw.of((8, 16, 32))),
        (draw.size(1, 8), draw.large(5000, 20_000), draw.of((512, 2048))),
    ):
        yield _rows(draw, rows, columns, block, **outputs(rows, columns))


def columns_of_table(draw: Draw) -> Iterator[Case]:
    """Yield launches with one program for a group of columns."""
    for rows, columns, *tile in (
        (64, 128, 16, 64),
        (draw.uneven(33, 70, 16), draw.size(131, 180), 16, 64),
        (draw.size(1, 5), draw.size(2, 20), 32, 8),
        (32 * draw.size(2, 4) + 1, draw.uneven(100, 200, 32), 32, 32),
        (draw.uneven(10, 40, 2), draw.uneven(10, 40, 4), draw.of((2, 4)), draw.of((4, 8, 16))),
        (
            draw.uneven(200, 500, 64),
            draw.uneven(200, 500, 16),
            draw.of((64, 128)),
            draw.of((16, 128)),
        ),
    ):
        arguments = {
            "x_ptr": draw.normal(rows, columns), "z_ptr": torch.zeros(columns),
            "rows": rows, "columns": columns,
        }  # fmt: skip
        yield _tiled((_tiles(columns, tile[1]),), arguments, tile, "z_ptr")


def dot_product(draw: Draw) -> Iterator[Case]:
    """Yield launches whose programs add to one number."""
    for n, block in (
        (512, 128),
        (draw.uneven(513, 1000, 128), 128),
        (draw.size(1, 50), 64),
        (8 * draw.size(8, 40) + 1, draw.of((8, 16, 32))),
        (draw.large(20_000, 100_000), draw.of((512, 2048))),
    ):
        arguments = {"x_ptr": draw.normal(n), "y_ptr": draw.normal(n), "z_ptr": torch.zeros(1)}
        yield _in_blocks(n, block, arguments)


def histogram(draw: Draw) -> Iterator[Case]:
    """Yield launches whose programs count in shared bins."""
    for n, block, bins in (
        (512, 128, 16),
        (draw.uneven(513, 1000, 128), 128, draw.size(3, 20)),
        (draw.size(1, 50), 64, 8),
        (8 * draw.size(8, 40) + 1, draw.of((8, 16, 32)), draw.size(30, 200)),
        (draw.large(10_000, 30_000), draw.of((512, 2048)), draw.large(200, 400)),
    ):
        counts = torch.zeros(bins, dtype=torch.int32)
        yield _in_blocks(n, block, {"x_ptr": draw.whole(0, bins, n), "z_ptr": counts})


# Softmax, losses and norms: several steps over a row, fused in one kernel.


_SHORT = ((4, 512, 512), (0, 100, 128), (1, 20, 64), (2, 700, 1024), (9, 32, 32), (4, 2048, 2048))
_LONG = ((4, 512, 128), (0, 600, 128), (1, 20, 64), (2, 2000, 256), (9, 90, 16), (3, 9000, 2048))


def _row_sizes(
    draw: Draw, sizes: tuple[tuple[int, int, int], ...]
) -> Iterator[tuple[int, int, int]]:
    """Yield rows, columns and block; all but the first are random, without whole blocks only."""
    yield sizes[0]
    for rows, columns, block in sizes[1:]:
        columns = draw.uneven(columns - columns // 4, columns - 1, block)
        yield rows + draw.size(1, 4), columns, block


def _values(draw: Draw, rows: int, columns: int, spread: float) -> torch.Tensor:
    """Return a table of mostly negative numbers; every other row has a mean of about 0. Of several
    rows, the first is mostly positive, its first number being the largest by far, the second one
    is far below 0 if numbers are large, and the last one is tiny.
    """
    x = (draw.normal(rows, columns) - 5) * spread
    x[1::2] += 5 * spread
    if spread > 1:
        x[1:2] -= 1e5
    if rows > 1:
        x[0] = -x[0]
        x[0, 0] = 15 * spread
        x[-1] *= 1e-3 / spread
    return x


def _table_rows(
    draw: Draw,
    sizes: tuple[tuple[int, int, int], ...],
    weights: tuple[str, ...] = (),
    spread: float = 1.0,
    **numbers: float,
) -> Iterator[Case]:
    for rows, columns, block in _row_sizes(draw, sizes):
        arguments = {
            "x_ptr": _values(draw, rows, columns, spread),
            **{name: draw.normal(columns) for name in weights},
            "z_ptr": torch.zeros(rows, columns), "columns": columns, **numbers,
        }  # fmt: skip
        yield _by_rows(rows, block, arguments)


def softmax_gradient(draw: Draw) -> Iterator[Case]:
    """Yield launches with results of a softmax and gradients."""
    for rows, columns, block in _row_sizes(draw, _SHORT):
        y, dy = draw.normal(rows, columns).softmax(1), draw.normal(rows, columns)
        arguments = {"y_ptr": y, "dy_ptr": dy, "dx_ptr": torch.zeros_like(y), "columns": columns}
        yield _by_rows(rows, block, arguments, "dx_ptr")


def losses(draw: Draw) -> Iterator[Case]:
    """Yield launches with large numbers and a target for each row."""
    for rows, columns, block in _row_sizes(draw, _SHORT):
        arguments = {
            "x_ptr": _values(draw, rows, columns, 40.0),
            "target_ptr": draw.whole(0, columns, rows),
            "z_ptr": torch.zeros(rows), "columns": columns,
        }  # fmt: skip
        yield _by_rows(rows, block, arguments)


def rotated_rows(draw: Draw) -> Iterator[Case]:
    """Yield launches with two halves of rows and their angles."""
    for rows, half, block in (
        (4, 128, 128),
        (draw.size(3, 9), draw.size(17, 31), 32),
        (draw.size(1, 6), draw.size(33, 60), 64),
        (draw.size(9, 20), draw.size(1, 15), draw.of((32, 128))),
        (draw.size(30, 60), draw.size(257, 511), 512),
    ):
        angles = draw.normal(rows, half) * 3
        arguments = {
            "x_ptr": draw.normal(rows, 2 * half), "cos_ptr": angles.cos(), "sin_ptr": angles.sin(),
            "z_ptr": torch.zeros(rows, 2 * half), "half": half,
        }  # fmt: skip
        yield _by_rows(rows, block, arguments)


# Matmuls: from a matrix and a vector to tiles on the tensor cores.


def matrix_and_vector(draw: Draw) -> Iterator[Case]:
    """Yield launches with one program for a group of rows."""
    for rows, columns, *tile in (
        (32, 128, 16, 64),
        (draw.uneven(17, 40, 16), draw.size(65, 120), 16, 64),
        (draw.size(1, 5), draw.size(2, 30), 32, 8),
        (
            draw.uneven(100, 200, 32),
            draw.uneven(300, 600, 16),
            draw.of((32, 64)),
            draw.of((16, 128)),
        ),
    ):
        arguments = {
            "a_ptr": draw.normal(rows, columns), "x_ptr": draw.normal(columns),
            "z_ptr": torch.zeros(rows), "rows": rows, "columns": columns,
        }  # fmt: skip
        yield _tiled((_tiles(rows, tile[0]),), arguments, tile, "z_ptr")


def one_tile(draw: Draw) -> Iterator[Case]:
    """Yield launches of one program with two square matrices."""
    for size in (16, 32, draw.of((32, 64))):
        a, b = (draw.normal(size, size, dtype=torch.float16) for _ in "ab")
        arguments = {"a_ptr": a, "b_ptr": b, "c_ptr": torch.zeros(size, size)}
        yield Case((1,), arguments, ("c_ptr",), {"SIZE": size})


def _matmul(
    draw: Draw, m: int, n: int, k: int, tile: tuple[int, int, int], extra: bool = False
) -> Case:
    bias = {"bias_ptr": draw.normal(n)} if extra else {}
    a, b = (draw.normal(*shape, dtype=torch.float16) for shape in ((m, k), (k, n)))
    return _product(tile, {"a_ptr": a, "b_ptr": b, **bias}, m, n, k)


def _product(
    tile: tuple[int, int, int], inputs: dict[str, Any], m: int, n: int, k: int, *batch: int
) -> Case:
    """Return a launch with a program for each tile of `c`."""
    arguments = {**inputs, "c_ptr": torch.zeros(*batch, m, n), "M": m, "N": n, "K": k}
    blocks = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile))
    return Case((_tiles(m, tile[0]), _tiles(n, tile[1]), *batch), arguments, ("c_ptr",), blocks)


_WIDE = (16, 64, 32)
"""A tile that is the largest along the columns, and as large along no two axes."""


def _matmuls(draw: Draw, extra: bool) -> Iterator[Case]:
    yield _matmul(draw, 64, 64, 64, (32, 32, 32), extra)
    m, n, k = draw.uneven(33, 63, 16), draw.size(65, 95), draw.uneven(34, 62, 16)
    yield _matmul(draw, m, n, k + (k == m), (32, 32, 32), extra)
    yield _matmul(draw, m, n, k + (k == m), _WIDE, extra)
    yield _matmul(
        draw, draw.size(1, 9), draw.uneven(18, 40, 16), draw.size(1, 9), (16, 16, 16), extra
    )
    m, n, k = (draw.uneven(91, 160, 16) for _ in range(3))
    yield _matmul(draw, m, n, k, (64, draw.of((16, 32)), draw.of((16, 32))), extra)


def batched_matrices(draw: Draw) -> Iterator[Case]:
    """Yield launches with several pairs of matrices."""
    for (batch, m, n, k), tile in (
        ((2, 32, 32, 32), (32, 32, 32)),
        ((draw.size(2, 4), draw.size(65, 90), draw.size(33, 60), draw.size(17, 31)), (64, 16, 32)),
        ((draw.size(2, 4), *(draw.uneven(65, 99, 16) for _ in range(3))), _WIDE),
    ):
        a, b = (draw.normal(batch, *shape, dtype=torch.float16) for shape in ((m, k), (k, n)))
        yield _product(tile, {"a_ptr": a, "b_ptr": b}, m, n, k, batch)


def quantized_matrices(draw: Draw) -> Iterator[Case]:
    """Yield launches with a matrix of 8-bit integers and its scales."""
    for (m, n, k), tile in (
        ((32, 32, 64), (32, 32, 32)),
        ((draw.size(65, 90), draw.size(33, 60), draw.size(17, 31)), (64, 16, 32)),
        ((draw.uneven(33, 120, 16), draw.uneven(65, 150, 16), draw.size(33, 150)), _WIDE),
    ):
        inputs = {
            "a_ptr": draw.normal(m, k, dtype=torch.float16),
            "b_ptr": draw.whole(-127, 128, k, n, dtype=torch.int8),
            "scale_ptr": draw.normal(n).abs() / 64,
        }
        yield _product(tile, inputs, m, n, k)


# Gluon: one program, whose tiles are one after the other.


def square_table(draw: Draw) -> Iterator[Case]:
    """Yield launches with a square table that is one tile."""
    for size in (64, 128, draw.of((64, 128))):
        x = draw.normal(size, size)
        yield Case((1,), {"x_ptr": x, "z_ptr": torch.zeros(size, size)}, ("z_ptr",), {"SIZE": size})


def tiles_of_a_vector(draw: Draw) -> Iterator[Case]:
    """Yield launches with tiles of 512 elements."""
    for tiles in _tile_counts(draw):
        x, z = draw.normal(tiles * 512), torch.zeros(tiles * 512)
        yield Case((1,), {"x_ptr": x, "z_ptr": z}, ("z_ptr",), {"TILES": tiles})


def tiles_by_descriptors(draw: Draw) -> Iterator[Case]:
    """Yield launches with descriptors of tiles of 64 by 64 elements."""
    for tiles in _tile_counts(draw):
        x, z = (_described_tiles(draw.normal(tiles * 64, 64, dtype=torch.float16)) for _ in "xz")
        yield Case((1,), {"x": x, "z": z}, ("z",), {"TILES": tiles})


def tiles_by_a_descriptor(draw: Draw) -> Iterator[Case]:
    """Yield launches with a descriptor of tiles of 64 by 64 elements, and a pointer."""
    for tiles in _tile_counts(draw):
        x = draw.normal(tiles * 64, 64, dtype=torch.float16)
        arguments = {"x": _described_tiles(x), "z_ptr": torch.zeros_like(x)}
        yield Case((1,), arguments, ("z_ptr",), {"TILES": tiles})


def _tile_counts(draw: Draw) -> tuple[int, ...]:
    return 4, 2, draw.size(2, 3) * 2 + 1, draw.size(8, 12)


def _described_tiles(tensor: torch.Tensor) -> Any:
    from kernellab.triton_api.compilation import descriptor_of

    shape, strides = list(tensor.shape), list(tensor.stride())
    layout = {"swizzle_byte_width": 128, "element_bitwidth": 16, "rank": 2}
    parts = {"shape": shape, "strides": strides, "block_shape": [64, 64], "layout": layout}
    return descriptor_of(tensor, parts)


# Attention, and other kernels that combine several ideas.


def convolution(draw: Draw) -> Iterator[Case]:
    """Yield launches with a vector and a filter."""
    for n, taps, block in (
        (256, 4, 64),
        (draw.uneven(257, 500, 64), draw.size(3, 9), 64),
        (draw.size(9, 30), draw.size(2, 8), 128),
        (8 * draw.size(8, 25) + 1, 1, draw.of((8, 16, 32))),
        (draw.large(10_000, 50_000), draw.size(10, 20), draw.of((512, 1024))),
    ):
        arguments = {"x_ptr": draw.normal(n), "w_ptr": draw.normal(taps), "z_ptr": torch.zeros(n)}
        yield _in_blocks(n, block, {**arguments, "n": n, "taps": taps}, "z_ptr")


def sorted_rows(draw: Draw) -> Iterator[Case]:
    """Yield launches with rows that fit in one block."""
    for rows, columns, block in (
        (4, 64, 64),
        (draw.size(2, 6), draw.size(33, 63), 64),
        (draw.size(1, 4), draw.size(65, 127), 128),
        (draw.size(9, 40), draw.size(1, 16), draw.of((16, 32))),
    ):
        x = draw.normal(rows, columns)
        x[-1] *= _FAR
        arguments = {"x_ptr": x, "z_ptr": torch.zeros_like(x), "columns": columns}
        yield _by_rows(rows, block, arguments)


def weight_gradient(draw: Draw) -> Iterator[Case]:
    """Yield launches whose programs add to the same columns."""
    for rows, columns, *tile in (
        (64, 64, 16, 32),
        (draw.uneven(65, 90, 16), draw.size(33, 60), 16, 32),
        (draw.size(17, 31), draw.size(17, 31), 32, 16),
        (draw.uneven(100, 300, 4), draw.uneven(100, 300, 8), draw.of((4, 64)), draw.of((8, 64))),
    ):
        arguments = {
            "x_ptr": draw.normal(rows, columns), "dy_ptr": draw.normal(rows, columns),
            "dw_ptr": torch.zeros(columns), "rows": rows, "columns": columns,
        }  # fmt: skip
        yield _tiled(map(_tiles, (rows, columns), tile), arguments, tile)


def _attention(
    draw: Draw,
    queries: int,
    keys: int,
    width: int,
    *,
    large: bool = False,
    step: tuple[str, int] = ("", 1),
    **blocks: int,
) -> Case:
    """Return a launch in which all scores of the first query are very negative, with `large` below
    -1e4, which stands for minus infinity in other kernels. Then the last two queries have scores
    whose exponentials overflow: one has its largest score at the last key, one at the first.
    """
    q, k, v = (draw.normal(count, width, dtype=torch.float16) for count in (queries, keys, keys))
    q[0] = -2
    k += 1
    if large:
        q[0], q[-1], q[-2] = -3072, 64 * k[-1], 64 * k[0]
    rows = blocks.get("BLOCK_Q", queries)
    return Case(
        (_tiles(queries, rows),),
        {
            "q_ptr": q, "k_ptr": k, "v_ptr": v,
            "z_ptr": torch.zeros(queries, width, dtype=torch.float16),
            "queries": queries, "keys": keys, "scale": width**-0.5,
        },
        ("z_ptr",),
        {**blocks, "WIDTH": width},
        *step,
    )  # fmt: skip


_SCORES = ("the scores, the softmax of one block and its product with v", 1)
_KEYS = ("the mask of the keys and queries that a block has too many of", 1)


def attention(draw: Draw) -> Iterator[Case]:
    """Yield launches whose keys fit in one block."""
    yield _attention(draw, 16, 32, 32, BLOCK_Q=16, BLOCK_K=32, step=_SCORES)
    queries, keys = draw.size(65, 100), draw.size(17, 31)
    yield _attention(draw, queries, keys, 16, BLOCK_Q=64, BLOCK_K=32, step=_KEYS)
    queries, keys = draw.size(33, 60), draw.size(33, 63)
    yield _attention(draw, queries, keys, 64, large=True, BLOCK_Q=32, BLOCK_K=64)
    queries, keys = draw.uneven(100, 200, 64), draw.size(65, 127)
    yield _attention(draw, queries, keys, 32, BLOCK_Q=64, BLOCK_K=128)


def flash_attention(draw: Draw) -> Iterator[Case]:
    """Yield launches with one block of keys, then some masked ones, then several blocks: each needs
    one step more.
    """
    yield _attention(draw, 32, 32, 32, BLOCK_Q=16, BLOCK_K=32, step=_SCORES)
    queries, keys = draw.uneven(17, 31, 16), draw.size(17, 31)
    yield _attention(draw, queries, keys, 32, BLOCK_Q=16, BLOCK_K=32, step=_KEYS)
    step = ("the rescaling of what the earlier blocks of keys left", 2)
    yield _attention(draw, 32, 96, 32, BLOCK_Q=16, BLOCK_K=32, step=step)
    queries, keys = draw.uneven(17, 60, 16), draw.uneven(65, 150, 16)
    yield _attention(draw, queries, keys, 32, BLOCK_Q=16, BLOCK_K=32)
    yield _attention(draw, queries, keys, 64, large=True, BLOCK_Q=32, BLOCK_K=16)
    queries, keys = draw.uneven(1, 99, 64), draw.uneven(300, 500, 64)
    yield _attention(draw, queries, keys, 16, BLOCK_Q=64, BLOCK_K=64)


def causal_attention(draw: Draw) -> Iterator[Case]:
    """Yield launches with as many keys as queries."""
    for length, width, rows, columns, large in (
        (64, 32, 16, 32, False),
        (draw.uneven(33, 100, 16), 16, 32, 32, False),
        (draw.size(3, 15), 16, 16, 16, False),
        (draw.uneven(133, 180, 32), 64, 128, draw.of((32, 64)), True),
    ):
        yield _attention(draw, length, length, width, large=large, BLOCK_Q=rows, BLOCK_K=columns)


# Launches that one expression makes.


SHORT: Mapping[str, Callable[[Draw], Any]] = {
    "one_vector": lambda draw: _up_to_nan(_usual(draw, "x_ptr")),
    "outer_sum": lambda draw: _up_to_nan(_tables(draw, x_ptr="r", y_ptr="c")),
    "scaled_rows": lambda draw: _up_to_nan(_tables(draw, x_ptr="rc", scale_ptr="r")),
    "table": lambda draw: _up_to_nan(_tables(draw, x_ptr="rc")),
    "transposed_table": lambda draw: _up_to_nan(_tables(draw, "cr", x_ptr="rc")),
    "large_transposed_table": lambda draw: _tiled(
        (4, 4), _table(draw, 256, 256, {"x_ptr": "rc"}, "cr"), (64, 64), "z_ptr"
    ),
    "short_rows": lambda draw: _short_rows(draw, lambda rows, _: {"z_ptr": torch.zeros(rows)}),
    "short_rows_with_index": lambda draw: _short_rows(
        draw, lambda rows, _: {"z_ptr": torch.zeros(rows, dtype=torch.int32)}
    ),
    "short_rows_with_moments": lambda draw: _short_rows(
        draw, lambda rows, _: {"mean_ptr": torch.zeros(rows), "variance_ptr": torch.zeros(rows)}
    ),
    "long_rows": lambda draw: _long_rows(draw, lambda rows, _: {"z_ptr": torch.zeros(rows)}),
    "long_rows_to_rows": lambda draw: _long_rows(
        draw, lambda rows, columns: {"z_ptr": torch.zeros(rows, columns)}
    ),
    "softmax_rows": lambda draw: _table_rows(draw, _SHORT, spread=40.0),
    "long_softmax_rows": lambda draw: _table_rows(draw, _LONG, spread=40.0),
    "weighted_rows": lambda draw: _table_rows(
        draw, _SHORT, ("weight_ptr",), eps=draw.size(11, 90) * 1e-6
    ),
    "weighted_and_biased_rows": lambda draw: _table_rows(
        draw, _SHORT, ("weight_ptr", "bias_ptr"), eps=draw.size(11, 90) * 1e-6
    ),
    "matrices": lambda draw: _matmuls(draw, False),
    "large_matrices": lambda draw: _matmul(draw, 256, 256, 256, (64, 64, 32)),
    "layer": lambda draw: _matmuls(draw, True),
    "large_layer": lambda draw: _matmul(draw, 256, 256, 256, (64, 64, 32), True),
}
