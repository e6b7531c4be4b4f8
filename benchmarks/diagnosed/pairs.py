"""What a pair is: a slow kernel, its good twin, one launch of each, and the finding that leads from
one to the other. All of it is plain data: type strings for the compiler, tensors for a GPU.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

DTYPES = {
    "fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """A tensor of a launch.

    Attributes:
        type: of its elements: "fp16".
        shape: its sizes.
        fill: "random" numbers around 0, "zeros", or "below N": whole numbers from 1 to N - 1.
        offset: elements by which it starts later than its memory, which then is not aligned.
    """

    type: str
    shape: tuple[int, ...]
    fill: str = "random"
    offset: int = 0

    @property
    def type_string(self) -> str:
        """As the compiler takes it."""
        return f"*{self.type}" + ("" if self.offset else ":16")

    def made(self, name: str, device: str) -> torch.Tensor:
        """The tensor itself: the same numbers for the same name, on every device."""
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        count, dtype = prod(self.shape), DTYPES[self.type]
        if self.fill == "zeros":
            values = torch.zeros(count, dtype=dtype)
        elif self.fill.startswith("below "):
            values = torch.randint(1, int(self.fill[6:]), (count,), generator=generator).to(dtype)
        elif not dtype.is_floating_point:
            values = torch.randint(-9, 9, (count,), generator=generator).to(dtype)
        else:
            values = (torch.rand(count, generator=generator, dtype=torch.float32) - 0.5).to(dtype)
        memory = torch.zeros(count + self.offset, dtype=dtype, device=device)
        memory[self.offset :] = values.to(device)
        return memory[self.offset :].view(self.shape)


@dataclass(frozen=True)
class Variant:
    """One kernel and its launch."""

    kernel: Any
    arguments: Mapping[str, Tensor | int | float]
    grid: tuple[int, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def types(self) -> dict[str, Any]:
        """The arguments with type strings in the place of tensors."""
        return {
            name: one.type_string if isinstance(one, Tensor) else one
            for name, one in self.arguments.items()
        }

    def values(self, device: str) -> dict[str, Any]:
        """The arguments for a launch."""
        return {
            name: one.made(name, device) if isinstance(one, Tensor) else one
            for name, one in self.arguments.items()
        }


@dataclass(frozen=True)
class Pair:
    """A slow kernel and its good twin.

    Attributes:
        name: of the pair.
        kind: of the finding that has to come first for the slow one.
        edit: what leads from the slow one to its twin, as the finding's advice says it.
        outputs: the arguments that both have to agree on, up to `compared` elements.
        tolerance: how far apart they may be, of the largest.
        predicted: how many times faster the twin is, as its author predicted before any GPU timed
            it; None for the pairs that were written before their times were predicted.
        line: a part of the line of the slow kernel that the finding has to name; "" for any line.
        also: kinds of findings that are true of the twin too: it is not as fast as it could be.
    """

    name: str
    kind: str
    slow: Variant
    good: Variant
    edit: str
    outputs: tuple[str, ...]
    compared: int | None = None
    tolerance: float = 1e-3
    predicted: float | None = None
    line: str = ""
    also: tuple[str, ...] = ()


def compiled_with_values(variant: Variant) -> tuple[Any, dict[str, Any]]:
    """The compilation of a launch, and its arguments, whose floats have no values."""
    import kernellab

    values = {
        name: one.made(name, "meta" if DTYPES[one.type].is_floating_point else "cpu")
        if isinstance(one, Tensor)
        else one
        for name, one in variant.arguments.items()
    }
    made = kernellab.compile(
        variant.kernel, constants=dict(variant.constants), options=dict(variant.options),
        target="sm_90", record="stages", **variant.types,
    )  # fmt: skip
    return made, values


def diagnosed(variant: Variant) -> Any:
    """The diagnosis of a launch whose floats have no values."""
    import kernellab

    made, values = compiled_with_values(variant)
    return kernellab.diagnose(made, grid=variant.grid, **values)
