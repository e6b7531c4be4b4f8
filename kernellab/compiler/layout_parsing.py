"""The part of `Layout.parse` in the worker process, where Triton may abort."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from kernellab import triton_api
from kernellab.compiler.targets import has_tensor_memory, parse_target
from kernellab.errors import KernelLabError, LayoutError
from kernellab.records import Target
from kernellab.records.layouts import Layout, RegisterLayout, Shape, sizes
from kernellab.records.layouts.constructors import misspelled_error, misspelling
from kernellab.triton_api.layouts import TileType, layouts_of

_SPELLING = (
    'Write the encoding as TTGIR prints it, not its alias: "#ttg.blocked<{sizePerThread = [1, 4], '
    '...}>".'
)
_MOST_ELEMENTS = 1 << 20
"""Of a tile: TRITON_MAX_TENSOR_NUMEL of Triton's language."""


def make(encoding: str, shape: Shape, target: str | None) -> Layout:
    """The layout of an encoding for a shape, and for a target if one is given.

    Raises:
        LayoutError: what `Layout.parse` says.
        TargetError: no such target.
    """
    if not encoding.startswith("#"):
        raise LayoutError(f"{encoding!r} is not an encoding.", advice=_SPELLING)
    _check_sizes(shape)
    _check_vectors(encoding, shape)
    try:
        (layout,) = layouts_of([_type(encoding, shape)])
    except KernelLabError as error:
        raise _refused(encoding, shape, error.problem) from error
    if isinstance(layout, LayoutError):
        misspelled = misspelling(encoding, layout.problem)
        raise misspelled_error(encoding, misspelled, layout.problem) if misspelled else layout
    if target is not None:
        _check_target(layout, parse_target(target))
    return layout


def _refused(encoding: str, shape: Shape, problem: str) -> LayoutError:
    """MLIR's message about an encoding that it refuses, without the place in a made-up text."""
    words = re.sub(r"^.*?line \d+, column \d+: ", "", problem, flags=re.DOTALL).rstrip(".")
    words = re.sub(r"\nline \d+, column \d+: ", "; ", words)
    unknown = re.search(r"#\"?(\w+).*unregistered dialect", words)
    if unknown:
        words = f"there is no dialect {unknown[1]!r}"
    misspelled = "" if unknown else misspelling(encoding, words)
    if misspelled:
        return misspelled_error(encoding, misspelled, f"Triton says: {words}.")
    wrong_syntax = unknown or re.search(r"alias|(?<!but )expected ['a-z]|unbalanced|unknown", words)
    return LayoutError(
        f"Triton rejects {encoding} for a tile of {sizes(shape)}: {words}.",
        advice=_SPELLING if wrong_syntax else "",
    )


def _check_sizes(shape: Shape) -> None:
    if any(size < 1 for size in shape):
        raise LayoutError(f"The sizes of a tile must be at least 1, got {sizes(shape)}.")
    if math.prod(shape) > _MOST_ELEMENTS:
        raise LayoutError(
            f"A tile must have at most {_MOST_ELEMENTS:,} elements, got {sizes(shape)}, which has "
            f"{math.prod(shape):,}."
        )


def _check_vectors(encoding: str, shape: Shape) -> None:
    """Basis vectors must have the tile's dimensions, and lead to every element."""
    for linear in re.findall(r"#ttg\.linear<\{.*?\}>", encoding):
        vectors = [
            tuple(int(number) for number in vector.split(","))
            for vector in re.findall(r"\[\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]", linear)
        ]
        rank = len(shape) if linear == encoding else len(vectors[0]) if vectors else 0
        for vector in vectors:
            if len(vector) != rank or min(vector) < 0:
                raise LayoutError(
                    f"The basis vectors of {encoding} must be {rank} non-negative numbers each, "
                    f"got {list(vector)}."
                )
        spanned, covered = _spanned(vectors), math.prod(_covered(vectors, rank))
        if spanned < covered:
            raise LayoutError(
                f"The basis vectors of {encoding} reach only {spanned} of the {covered} elements "
                f"of a {sizes(_covered(vectors, rank))} tile.",
                advice=(
                    "Each number 1, 2, 4, ... along each dimension must be the XOR of some vectors."
                ),
            )


def _covered(vectors: Sequence[tuple[int, ...]], rank: int) -> Shape:
    return tuple(1 << max((v[dim] for v in vectors), default=0).bit_length() for dim in range(rank))


def _spanned(vectors: Sequence[tuple[int, ...]]) -> int:
    """How many elements the XOR of some of the vectors leads to."""
    independent: list[int] = []
    for vector in vectors:
        number = sum(index << (32 * dim) for dim, index in enumerate(vector))
        for other in independent:
            number = min(number, number ^ other)
        if number:
            independent.append(number)
    return 1 << len(independent)


def _type(encoding: str, shape: Shape) -> TileType:
    """A type that has the layout: of a tile in registers, or in the encoding's memory."""
    dimensions = "".join(f"{size}x" for size in shape)
    if re.match(r"#ttg\.\w*shared", encoding):
        bits = re.search(r"elementBitWidth = (\d+)", encoding)
        text = (
            f"!ttg.memdesc<{dimensions}i{bits[1] if bits else 32}, {encoding}, #ttg.shared_memory>"
        )
    elif encoding.startswith("#ttng.tensor_memory"):
        stride = re.search(r"colStride = (\d+)", encoding)
        bits_of_element = 32 // max(int(stride[1]), 1) if stride else 8
        text = f"!ttg.memdesc<{dimensions}i{bits_of_element}, {encoding}, #ttng.tensor_memory>"
    else:
        text = f"tensor<{dimensions}f32, {encoding}>"
    return TileType(text, encoding, shape)


_MFMA_TARGETS = {2: "gfx90a", 3: "gfx942", 4: "gfx950"}
_WMMA_TARGETS = {1: "gfx11", 2: "gfx12"}


def _check_target(layout: Layout, target: Target) -> None:
    for family, version in _parts(layout.encoding):
        if not _has(target, family, version):
            number = f" of version {version}" if version is not None else ""
            raise LayoutError(f"{target} has no {family} layouts{number}: {layout.encoding}.")
    if isinstance(layout, RegisterLayout):
        lanes = triton_api.gpu_target(target).warp_size
        if layout.lanes != lanes:
            raise LayoutError(
                f"A warp of {target} has {lanes} lanes, and {layout.encoding} is for "
                f"{layout.lanes}."
            )


def _parts(encoding: str) -> list[tuple[str, int | None]]:
    families = re.findall(r"#\w+\.(\w+?)(?:_encoding)?<\{?(?:version(?:Major)? = (\d+))?", encoding)
    return [(family, int(version) if version else None) for family, version in families]


def _has(target: Target, family: str, version: int | None) -> bool:
    arch = int(target.arch) if target.backend == "cuda" else 0
    match family:
        case "nvidia_mma":
            return arch == 90 if version == 3 else arch >= 75
        case "nvmma_shared":
            return arch >= 90
        case "tensor_memory" | "tensor_memory_scales":
            return has_tensor_memory(target)
        case "amd_mfma":
            return target.arch == _MFMA_TARGETS.get(version or 0)
        case "amd_wmma":
            return target.arch.startswith(_WMMA_TARGETS.get(version or 0, "no target"))
        case "amd_rotating_shared":
            return target.backend == "hip"
        case _:
            return True
