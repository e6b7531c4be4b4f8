"""The linear function that a layout is, and arithmetic on it.

A layout is linear over bits. Each of its inputs (a register's number, a lane's, an offset in
memory) has one basis vector for each bit: the index of the element that this bit leads to. The
element of an input is the XOR of the vectors of the bits that are set in it. The vectors come from
Triton (its linear layouts), or from the formulas of swizzled layouts at the end; what is done with
them here is arithmetic.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import numpy
from numpy.typing import ArrayLike, NDArray

from kernellab.common.arguments import at_most
from kernellab.common.text import joined_sizes, shown
from kernellab.errors import LayoutError

Shape = tuple[int, ...]
Vector = tuple[int, ...]
Bases = tuple[Vector, ...]
"""The basis vectors of one input: entry k is the index that the number 2**k leads to."""
Numbers = NDArray[numpy.int64]


def sizes(shape: Sequence[int]) -> str:
    """A shape in words: "128x64"; of a tile without dimensions "one element"."""
    return joined_sizes(shape) or "one element"


@dataclass(frozen=True)
class LinearTile:
    """A tile's layout as a linear function from numbers of registers or places to elements."""

    shape: Shape
    encoding: str
    """The layout as TTGIR writes it, without aliases: "#ttg.blocked<{sizePerThread = ...}>"."""

    _inputs: ClassVar[tuple[str, ...]]
    """The fields that are inputs; the first varies fastest where inputs are counted through."""

    @property
    def bases(self) -> Mapping[str, Bases]:
        return {name: getattr(self, name) for name in self._inputs}

    @property
    def family(self) -> str:
        """MLIR's name of the kind of layout: "blocked", "slice", "nvidia_mma", ..."""
        match = re.match(r"#\w+\.(\w+)", self.encoding)
        return match[1].removesuffix("_encoding") if match else ""

    @property
    def element_count(self) -> int:
        return math.prod(self.shape)

    @property
    def replication(self) -> int:
        """How many holders each element has."""
        return int(self._inputs_by_element.shape[1])

    def __str__(self) -> str:
        return f"{self.family.replace('_', ' ')} layout of {sizes(self.shape)}"

    def _title(self) -> str:
        words = str(self)
        return f"{words[:1].upper()}{words[1:]}"

    # The linear function

    def _size(self, name: str) -> int:
        return 1 << len(self.bases[name])

    def _number(self, index: Sequence[int]) -> int:
        """An element's number, the last dimension fastest, so that XOR of indices is of numbers."""
        number = 0
        for position, size in zip(index, self.shape):
            number = number * size + position
        return number

    def _indices(self, numbers: Numbers) -> Numbers:
        """The indices of elements by their numbers, as an array of shape (*numbers.shape, rank)."""
        if not self.shape:
            return numpy.zeros((*numbers.shape, 0), numpy.int64)
        return numpy.stack(numpy.unravel_index(numbers, self.shape), axis=-1)

    def _elements(self, **inputs: ArrayLike) -> Numbers:
        """The indices of the elements that numbers of the inputs lead to; arrays are broadcast."""
        outputs = numpy.zeros((), numpy.int64)
        for name, given in inputs.items():
            numbers = self._asked(name, given)
            # With no bits, it has a shape all the same.
            outputs = outputs ^ numpy.zeros_like(numbers)
            for bit, vector in enumerate(self.bases[name]):
                outputs = outputs ^ numpy.where(numbers >> bit & 1, self._number(vector), 0)
        return self._indices(outputs)

    def _asked(self, name: str, given: ArrayLike) -> Numbers:
        inputs = numpy.asarray(given)
        if inputs.size and inputs.dtype.kind not in "iu":
            raise LayoutError(f"{name} must be an integer, got {given!r}.")
        outside = (inputs < 0) | (inputs >= self._size(name))
        if outside.any():
            raise LayoutError(
                f"{name} must be from 0 to {self._size(name) - 1} for a {self}, got "
                f"{int(inputs[outside].flat[0])}."
            )
        return inputs.astype(numpy.int64)

    @cached_property
    def _element_numbers(self) -> Numbers:
        numbers = numpy.zeros(1, numpy.int64)
        for vectors in self.bases.values():
            for vector in vectors:
                numbers = numpy.concatenate([numbers, numbers ^ self._number(vector)])
        return numbers

    @cached_property
    def _inputs_by_element(self) -> Numbers:
        """For every element its inputs, in order: shape (elements, replication)."""
        # Linear and onto: as many inputs lead to one element as to any other.
        return numpy.argsort(self._element_numbers, kind="stable").reshape(self.element_count, -1)

    def _inputs_of(self, index: Sequence[int]) -> Numbers:
        try:
            given = tuple(operator.index(i) for i in at_most(index, len(self.shape)) or ())
        except (TypeError, ValueError):  # not a sequence of integers
            given = ()
        if len(given) != len(self.shape) or any(not 0 <= i < n for i, n in zip(given, self.shape)):
            raise LayoutError(
                f"A tile of {sizes(self.shape)} has no element {shown(index)}.",
                advice=f"An index has {len(self.shape)} integers, each below the size of its axis.",
            )
        return cast(Numbers, self._inputs_by_element[self._number(given)])

    def _inputs_of_all(self, indices: ArrayLike) -> Numbers:
        """Indices of shape (..., rank) to the inputs that lead there: shape (..., replication)."""
        try:
            inputs = numpy.asarray(indices)
        except (TypeError, ValueError, RuntimeError) as error:  # such as a sparse tensor
            raise LayoutError(
                f"{shown(indices)} is not an array of indices: {error}",
                advice="Pass one index, or a NumPy array of them.",
            ) from error
        rank = len(self.shape)
        if inputs.shape[-1] != rank or (inputs.size and inputs.dtype.kind not in "iu"):
            raise LayoutError(
                f"Indices into a tile of {sizes(self.shape)} must be integers of shape (..., "
                f"{rank}), got {inputs.dtype} of shape {inputs.shape}.",
                advice=f"Each row of the array is an index of {rank} integers.",
            )
        outside = ((inputs < 0) | (inputs >= numpy.array(self.shape))).any(axis=-1)
        if outside.any():
            first = tuple(inputs[outside][0].tolist())
            raise LayoutError(
                f"A tile of {sizes(self.shape)} has no element {first}.",
                advice="Each index must be below the size of its axis.",
            )
        along = numpy.moveaxis(inputs.astype(numpy.int64), -1, 0)
        numbers = numpy.zeros(inputs.shape[:-1], numpy.int64) + self._number(
            cast(Sequence[int], along)
        )
        return self._inputs_by_element[numbers]

    def _split(self, inputs: Numbers) -> Numbers:
        columns = []
        for name in self.bases:
            columns.append(inputs % self._size(name))
            inputs = inputs // self._size(name)
        return numpy.stack(columns, axis=-1)


# Swizzled layouts of shared memory by their formulas, for a Triton that does not answer for
# them.
#
# Triton 3.6 does not return linear layouts of memory, and no version returns those of AMD's
# rotating layouts. The formulas are those of `LinearLayoutConversions.cpp` in Triton. Each function
# returns the basis vectors of the offset: entry k is the index of the element at offset 2**k.


def swizzled_bases(
    shape: Shape,
    order: Sequence[int],
    *,
    vector: int,
    per_phase: int,
    max_phase: int,
    rotating: bool = False,
) -> Bases:
    """The basis vectors of a `swizzled_shared` or, with `rotating`, an `amd_rotating_shared`
    layout: `swizzledSharedToLinearLayout`, `sharedToLinearLayoutAMDRotating`.

    Groups of `vector` elements trade places within a row, by the XOR of the group's number with
    the row's phase. A rotating layout changes the phases after each `max_phase` rows (times
    `per_phase`).

    Args:
        shape: of the tile, powers of two.
        order: the dimensions, the fastest first.
        vector, per_phase, max_phase: as in the encoding, powers of two.
    """
    vectors = []
    for place, dim in enumerate(order):
        for index in _bits(shape[dim]):
            vector_of_bit = [index * (other == dim) for other in range(len(shape))]
            if place == 1:
                block, phase = divmod(index // per_phase, max_phase)
                group = phase ^ block % max_phase if rotating else phase
                vector_of_bit[order[0]] = vector * group % shape[order[0]]
            vectors.append(tuple(vector_of_bit))
    return tuple(vectors)


def nvmma_bases(
    shape: Shape, *, swizzle_bytes: int, element_bits: int, transposed: bool = False
) -> Bases:
    """The basis vectors of `nvmma_shared` without fp4 padding: `nvmmaSharedToLinearLayout`.

    The tile is in memory block by block, as TMA copies it: a block has at most 256 elements along
    each dimension, and along the contiguous one as many as a swizzle has bytes. Within a block the
    16-byte groups of a row trade places, by the XOR with the row's number.

    Args:
        shape: of the tile, powers of two, at least 8 rows of `swizzle_bytes`; transposed, 2D.
        swizzle_bytes: 0, 32, 64 or 128.
        element_bits: of an element.
        transposed: whether the first dimension is contiguous; unused without a swizzle.
    """
    rank = len(shape)
    turned = transposed and swizzle_bytes > 0
    dims = [*range(1, rank), 0] if turned else [*range(rank)]  # the contiguous one last
    block = [min(size, _LARGEST_BLOCK) for size in shape]
    if swizzle_bytes:
        block[dims[-1]] = 8 * swizzle_bytes // element_bits
    vectors = [
        tuple(index * (other == dim) for other in range(rank))
        for dim in reversed(dims)
        for index in _bits(block[dim])
    ]
    if swizzle_bytes:
        columns = (block[dims[-1]] - 1).bit_length()
        phases = swizzle_bytes // 16
        for row in (1, 2, 4):
            group = row * phases // 8 * (128 // element_bits)
            bit = columns + row.bit_length() - 1
            vectors[bit] = _with(vectors[bit], dims[-1], group)
    blocks = (
        tuple(index * (other == dim) for other in range(rank))
        for dim in (range(rank) if swizzle_bytes else reversed(range(rank)))
        for index in _bits(shape[dim])
        if index >= block[dim]
    )
    return (*vectors, *blocks)


_LARGEST_BLOCK = 256
"""Elements that TMA copies at once along a dimension."""


def _bits(size: int) -> list[int]:
    return [1 << bit for bit in range((size - 1).bit_length())]


def _with(vector: Vector, dim: int, index: int) -> Vector:
    return (*vector[:dim], index, *vector[dim + 1 :])
