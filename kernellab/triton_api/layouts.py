"""Triton's answers on layouts: basis vectors of an encoding and a shape (private names)."""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import triton
from packaging.version import Version
from triton._C.libtriton import gluon_ir, linear_layout

from kernellab.errors import LayoutError
from kernellab.records import Target
from kernellab.records.layouts import (
    Bases,
    Layout,
    RegisterLayout,
    Shape,
    SharedLayout,
    TensorMemoryLayout,
    sizes,
)
from kernellab.records.layouts.linear import nvmma_bases, swizzled_bases
from kernellab.triton_api.stages import freed_after, parse_mlir

_ANY_TARGET = Target("cuda", "90")
"""Encodings belong to dialects that every backend loads."""
_ANSWERS_FOR_MEMORY = Version(triton.__version__) >= Version("3.7")
"""Triton 3.6 takes every layout for one of registers, and aborts on the others."""


@dataclass(frozen=True)
class TileType:
    """The type of a tile in registers or in memory, as a question for Triton."""

    type: str
    """In MLIR's words, aliases spelled out: "tensor<128x64xf16, #ttg.blocked<...>>"."""
    encoding: str
    """The layout's part of `type`."""
    shape: Shape
    """Of a part of a larger piece of memory, that piece's.
    A layout of memory speaks of the last dimensions."""

    @property
    def in_memory(self) -> bool:
        """Whether it is in shared or tensor memory."""
        return self.type.startswith("!ttg.memdesc")


def layouts_of(types: Sequence[TileType]) -> list[Layout | LayoutError]:
    """The layout of each type, or why Triton does not say it.

    Every type has to come from the compiler, or be asked for in a process that may abort:
    Triton ends it for some that somebody made up.

    Raises:
        KernelLabError: MLIR cannot read a type.
    """
    arguments = ",\n".join(f"%value{number}: {type.type}" for number, type in enumerate(types))
    text = f"module {{ tt.func public @types(\n{arguments}\n) {{ tt.return }} }}"
    layouts: list[Layout | LayoutError] = []
    with freed_after(parse_mlir(text, _ANY_TARGET)) as module:
        builder = gluon_ir.GluonOpBuilder(module.context)
        function = module.get_function("types")
        for number, type in enumerate(types):
            try:
                layouts.append(_layout(type, function.args(number), builder))
            except LayoutError as error:
                # Not the one that was raised: its traceback holds MLIR's objects.
                layouts.append(LayoutError(error.problem, advice=error.advice))
    return layouts


def _layout(type: TileType, value: Any, builder: Any) -> Layout:
    if type.encoding.startswith("#ttg.amd_rotating_shared<"):
        return _rotating(type)
    read = (
        builder.get_gluon_layout_from_memdesc
        if type.in_memory
        else builder.get_gluon_layout_from_tensor
    )
    try:
        stated = read(value)
    except (ValueError, AssertionError) as error:
        words = str(error) or _failed_assertion(error)
        raise LayoutError(f"Triton has no layout {type.encoding}: {words}.") from error
    shape = type.shape[len(type.shape) - _rank(stated) :] if type.in_memory else type.shape
    _check_shape(stated, shape, type)
    if _states_its_vectors(stated):
        return _stated(stated, shape, type)
    if type.in_memory and math.prod(shape) == 1:
        # An mbarrier: Triton's class for an answer wants at least one vector.
        return SharedLayout(shape, type.encoding, (), ())
    if type.in_memory and not _ANSWERS_FOR_MEMORY:
        return _by_formula(stated, shape, type)
    _check_answerable(stated, type)
    linear = builder.to_linear_layout(stated._to_ir(builder), list(shape))
    return _evaluated(linear, shape, type.encoding)


def _failed_assertion(error: BaseException) -> str:
    """A requirement of a Gluon class on its fields, from the line that checks it."""
    line = traceback.extract_tb(error.__traceback__)[-1].line or ""
    return f"it requires {line.removeprefix('assert ').replace('self.', '')}"


def _states_its_vectors(stated: Any) -> bool:
    """Whether the encoding has the vectors: padded ones, and memory on Triton 3.6."""
    is_padded = hasattr(stated, "interval_padding_pairs")
    return is_padded or (hasattr(stated, "offset_bases") and not _ANSWERS_FOR_MEMORY)


def _stated(stated: Any, shape: Shape, type: TileType) -> Layout:
    """Return a layout whose basis vectors are in the encoding itself."""
    blocks = stated.block_bases if hasattr(stated, "block_bases") else stated.cga_layout
    offsets = _bases(stated.offset_bases)
    covered = _covered((*offsets, *_bases(blocks)), len(shape))
    if covered != shape:
        raise LayoutError(
            f"{type.encoding} is for a {sizes(covered)} tile, got a {sizes(shape)} tile."
        )
    return SharedLayout(
        shape,
        type.encoding,
        offsets,
        _bases(blocks),
        getattr(stated, "alignment", 16),
        _bases(getattr(stated, "interval_padding_pairs", ())),
    )


def _covered(vectors: Bases, rank: int) -> Shape:
    """The shape of the tile that basis vectors span."""
    largest = [0] * rank
    for vector in vectors:
        largest = [most | index for most, index in zip(largest, vector)]
    return tuple(most + 1 for most in largest)


def _evaluated(linear: Any, shape: Shape, encoding: str) -> Layout:
    if hasattr(linear, "reg_bases"):
        held = tuple(vector for vector in _bases(linear.reg_bases) if any(vector))
        return RegisterLayout(
            shape,
            encoding,
            held,
            _bases(linear.lane_bases),
            _bases(linear.warp_bases),
            _bases(linear.block_bases),
        )
    if hasattr(linear, "offset_bases"):
        return SharedLayout(
            shape,
            encoding,
            _bases(linear.offset_bases),
            _bases(linear.block_bases),
            linear.alignment,
        )
    return TensorMemoryLayout(shape, encoding, _bases(linear.rows), _bases(linear.cols))


def _bases(vectors: Iterable[Iterable[int]]) -> Any:
    return tuple(tuple(vector) for vector in vectors)


# What Triton does not answer for


def _rotating(type: TileType) -> SharedLayout:
    stated = re.fullmatch(
        r"#ttg\.amd_rotating_shared<\{vec = (\d+), perPhase = (\d+), maxPhase = (\d+), order "
        r"= \[(.*)\]\}>",
        type.encoding,
    )
    if stated is None:
        raise LayoutError(f"Triton does not say what {type.encoding} means.")
    vector, per_phase, phases = (int(number) for number in stated.group(1, 2, 3))
    order = [int(dim) for dim in stated[4].split(",")]
    shape = type.shape[len(type.shape) - len(order) :]
    _check_fits(len(order), shape, type)
    _check_powers({"vec": vector, "perPhase": per_phase, "maxPhase": phases}, type)
    offset = swizzled_bases(
        shape, order, vector=vector, per_phase=per_phase, max_phase=phases, rotating=True
    )
    return SharedLayout(shape, type.encoding, offset, ())


def _by_formula(stated: Any, shape: Shape, type: TileType) -> SharedLayout:
    """A swizzled layout of shared memory, on a Triton that does not answer for memory."""
    spans_blocks = bool(stated.__dict__.get("cga_layout"))
    if hasattr(stated, "per_phase") and not spans_blocks:
        offset = swizzled_bases(
            shape,
            stated.order,
            vector=stated.vec,
            per_phase=stated.per_phase,
            max_phase=stated.max_phase,
        )
        return SharedLayout(shape, type.encoding, offset, ())
    if _has_nvmma_formula(stated, len(shape)) and not spans_blocks:
        width = stated.swizzle_byte_width
        offset = nvmma_bases(
            shape,
            swizzle_bytes=width,
            element_bits=stated.element_bitwidth,
            transposed=stated.transposed,
        )
        return SharedLayout(shape, type.encoding, offset, (), 128 * max(width // 16, 1))
    raise LayoutError(
        f"Triton {triton.__version__} cannot compute the layout of a {type.encoding}.",
        advice="Triton 3.7 and later do.",
    )


def _has_nvmma_formula(stated: Any, rank: int) -> bool:
    if not hasattr(stated, "swizzle_byte_width") or stated.fp4_padded:
        return False
    return stated.swizzle_byte_width == 0 or not stated.transposed or rank <= 2


# What Triton would abort on


def _rank(stated: Any) -> int:
    """The dimensions that a layout of Gluon's speaks of."""
    for name in ("rank", "order", "shape", "block"):
        value = getattr(stated, name, None)
        if value is not None:
            return value if isinstance(value, int) else len(value)
    return 2  # the scales in tensor memory


def _check_fits(rank: int, shape: Shape, type: TileType) -> None:
    if len(shape) != rank:
        dimensions = "1 dimension" if rank == 1 else f"{rank} dimensions"
        raise LayoutError(
            f"{type.encoding} needs a tile of {dimensions}, got the shape {sizes(shape)}."
        )
    if any(size < 1 or size & (size - 1) for size in shape):
        raise LayoutError(f"The sizes of a tile must be powers of two, got {sizes(shape)}.")


def _check_shape(stated: Any, shape: Shape, type: TileType) -> None:
    _check_fits(_rank(stated), shape, type)
    fields = {"vec": "vec", "perPhase": "per_phase", "maxPhase": "max_phase"}
    _check_powers({name: getattr(stated, field, 1) for name, field in fields.items()}, type)
    swizzle = getattr(stated, "swizzle_byte_width", 0)
    if swizzle:
        outer, inner = (shape[1:], shape[:1]) if stated.transposed else (shape[:-1], shape[-1:])
        rows = math.prod(outer)
        columns = 8 * swizzle // stated.element_bitwidth
        if rows < 8 or math.prod(inner) < columns // (2 if stated.fp4_padded else 1):
            raise LayoutError(
                f"A swizzle over {swizzle} bytes needs at least 8 rows of {columns} elements, "
                f"and a tile of {sizes(shape)} has fewer."
            )


def _check_powers(numbers: Mapping[str, int], type: TileType) -> None:
    """Triton's formulas divide by these numbers, and speak of one bit of each."""
    for name, number in numbers.items():
        if number < 1 or number & (number - 1):
            raise LayoutError(f"{name} must be a power of two, got {number} in {type.encoding}.")


def _check_answerable(stated: Any, type: TileType) -> None:
    version = _mma_version(stated)
    if version not in (None, 2, 3):
        known = "The result of an mma of version 5 is not in registers"
        raise LayoutError(
            f"{known if version == 5 else f'The version of an mma must be 2 or 3, got {version}'}: "
            f"{type.encoding}.",
            advice=(
                "Version 2 is mma.sync, and version 3 is wgmma. For Blackwell's results in tensor "
                "memory, use Layout.tensor_memory."
            ),
        )


def _mma_version(stated: Any) -> int | None:
    while hasattr(stated, "parent"):
        stated = stated.parent
    version = getattr(stated, "version", None)
    return version[0] if isinstance(version, list | tuple) else None


# From one layout to another


def bases_between(source: RegisterLayout, destination: RegisterLayout) -> Mapping[str, Bases]:
    """Where a register of the destination finds its element in the source:
    Triton's composition of the one with the other's inverse.

    For each input of the destination, the basis vectors of its bits:
    numbers of a register, lane, warp and block of the source.
    """
    composed = _triton(destination).invert_and_compose(_triton(source))
    return {name: _bases(vectors) for name, vectors in composed.bases}


def _triton(layout: RegisterLayout) -> Any:
    names = [f"dim{dim}" for dim in range(len(layout.shape))]
    bases = [(name, [list(vector) for vector in vectors]) for name, vectors in layout.bases.items()]
    return linear_layout.LinearLayout.from_bases(bases, names, list(layout.shape), True)


# Gluon's layout objects, by class and fields, as in files.

_LAYOUTS = "triton.experimental.gluon.language"


def parts_of_layout(value: Any) -> tuple[str, dict[str, Any]] | None:
    """The class, by full name, and the fields of one of Gluon's layouts; None of others."""
    kind = type(value)
    if not kind.__module__.startswith(_LAYOUTS) or not dataclasses.is_dataclass(value):
        return None
    fields = {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init
    }
    try:
        is_same = kind(**fields) == value
    except Exception:  # a constructor of Triton's may assert anything
        return None
    return (f"{kind.__module__}.{kind.__qualname__}", fields) if is_same else None


def layout_of_parts(name: str, fields: Mapping[str, Any]) -> Any:
    """The layout that `parts_of_layout` took apart. Raises ValueError: this Triton has none."""
    module, _, own = name.rpartition(".")
    try:
        if f"{module}.".startswith(f"{_LAYOUTS}."):
            kind = getattr(importlib.import_module(module), own)
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                return kind(**fields)
    except Exception as error:  # a constructor of Triton's may assert anything
        raise ValueError(f"the layout {name} cannot be made here: {error}") from error
    raise ValueError(f"{name!r} is not a layout of this version of Triton")
