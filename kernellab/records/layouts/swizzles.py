"""Swizzled layouts of shared memory by their formulas, for a Triton that does not answer for them.

Triton 3.6 has no linear layout of memory that it would hand out, and no version has one of AMD's
rotating layouts. The formulas are those of `LinearLayoutConversions.cpp` in Triton. Each function
returns the basis vectors of the offset: entry k is the index of the element at offset 2**k.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.records.layouts.linear import Bases, Shape, Vector


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
    """The basis vectors of an `nvmma_shared` layout without fp4 padding:
    `nvmmaSharedToLinearLayout`.

    The tile lies in memory block by block, as TMA copies it: a block has at most 256 elements along
    each dimension, and along the contiguous one as many as a swizzle has bytes. Within a block the
    16-byte groups of a row trade places, by the XOR with the row's number.

    Args:
        shape: of the tile, powers of two; at least 8 rows of `swizzle_bytes`. A transposed tile has
            two dimensions: of more, Triton's answer is not a transposition.
        swizzle_bytes: 0, 32, 64 or 128.
        element_bits: of an element.
        transposed: whether the first dimension is the contiguous one; means nothing without a
            swizzle.
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
    """1, 2, 4, ..., below a size."""
    return [1 << bit for bit in range((size - 1).bit_length())]


def _with(vector: Vector, dim: int, index: int) -> Vector:
    return (*vector[:dim], index, *vector[dim + 1 :])
