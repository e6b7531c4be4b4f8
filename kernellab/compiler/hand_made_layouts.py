"""Layouts that somebody wrote: the part of `Layout.parse` that runs in the worker process, where Triton may abort."""

from __future__ import annotations

import re

from kernellab import triton_api
from kernellab.compiler.targets import parse_target
from kernellab.errors import KernelLabError, LayoutError
from kernellab.layouts import Layout, RegisterLayout, Shape, sizes
from kernellab.records import Target
from kernellab.triton_api.layouts import TileType, layouts_of

_SPELLING = 'Encodings are spelt as in TTGIR, without aliases: "#ttg.blocked<{sizePerThread = [1, 4], ...}>".'


def make(encoding: str, shape: Shape, target: str | None) -> Layout:
    """The layout of an encoding for a shape, and for a target where one is given.

    Raises:
        LayoutError: what `Layout.parse` says.
        TargetError: no such target.
    """
    if not encoding.startswith("#"):
        raise LayoutError(f"{encoding!r} is no encoding.", advice=_SPELLING)
    if any(size < 1 for size in shape):
        raise LayoutError(f"A tile of {sizes(shape)} has no elements.")
    try:
        (layout,) = layouts_of([_type(encoding, shape)])
    except KernelLabError as error:
        words = re.sub(r"^.*?line \d+, column \d+: ", "", error.problem, flags=re.DOTALL)
        raise LayoutError(
            f"Triton refuses {encoding} for a tile of {sizes(shape)}: {words}.", advice=_SPELLING
        ) from error
    if isinstance(layout, LayoutError):
        raise layout
    if target is not None:
        _check_target(layout, parse_target(target))
    return layout


def _type(encoding: str, shape: Shape) -> TileType:
    """A type that has the layout: of a tile in registers, or in the memory that the encoding is for."""
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


# Which GPU has which layouts

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
                f"A warp of {target} has {lanes} lanes, and {layout.encoding} is for {layout.lanes}."
            )


def _parts(encoding: str) -> list[tuple[str, int | None]]:
    """The families of an encoding and its parents, each with its version where it has one."""
    found = re.findall(r"#\w+\.(\w+?)(?:_encoding)?<\{?(?:version(?:Major)? = (\d+))?", encoding)
    return [(family, int(version) if version else None) for family, version in found]


def _has(target: Target, family: str, version: int | None) -> bool:
    arch = int(target.arch) if target.backend == "cuda" else 0
    match family:
        case "nvidia_mma":
            return arch == 90 if version == 3 else arch >= 75
        case "nvmma_shared":
            return arch >= 90
        case "tensor_memory" | "tensor_memory_scales":
            return arch in (100, 103)
        case "amd_mfma":
            return target.arch == _MFMA_TARGETS.get(version or 0)
        case "amd_wmma":
            return target.arch.startswith(_WMMA_TARGETS.get(version or 0, "no target"))
        case "amd_rotating_shared":
            return target.backend == "hip"
        case _:
            return True
