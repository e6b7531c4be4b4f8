"""First kernels: one program, many programs, masks, other orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.workshop.exercise import Budget, Case, Draw, Exercise

CHAPTER = "First kernels"


def _vectors(draw: Draw, n: int, block: int, *inputs: str, **numbers: Any) -> Case:
    """A launch over `n` elements in blocks."""
    tensors = {name: draw.normal(n) for name in inputs}
    return Case(
        (-(-n // block),),
        {**tensors, "z_ptr": torch.zeros(n), **numbers, "n": n},
        ("z_ptr",),
        {"BLOCK": block},
    )


def _usual(draw: Draw, *inputs: str, **numbers: Any) -> Iterator[Case]:
    """Whole blocks, a remainder, one element, another block."""
    yield _vectors(draw, 4 * 128, 128, *inputs, **numbers)
    yield _vectors(draw, draw.size(513, 1023), 128, *inputs, **numbers)
    yield _vectors(draw, draw.size(1, 20), 64, *inputs, **numbers)
    n = draw.size(2049, 4000)
    yield _vectors(draw, n, 256, *inputs, **numbers)
    yield _vectors(draw, n, 1024, *inputs, **numbers)


def _add_one_cases(draw: Draw) -> Iterator[Case]:
    for block in (128, 64, draw.of((256, 512))):
        yield Case(
            (1,), {"x_ptr": draw.normal(block), "z_ptr": torch.zeros(block)}, ("z_ptr",),
            {"BLOCK": block},
        )  # fmt: skip


def _add_one(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr + 1}


def _add(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr + y_ptr}


def _axpb(x_ptr: torch.Tensor, a: float, b: float) -> Mapping[str, Any]:
    return {"z_ptr": a * x_ptr + b}


def _clamp(x_ptr: torch.Tensor, low: float, high: float) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.clamp(low, high)}


def _reverse(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.flip(0)}


def _gated(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": torch.nn.functional.silu(x_ptr) * y_ptr}


def _every_other_cases(draw: Draw) -> Iterator[Case]:
    for n, block in ((512, 128), (draw.size(513, 999), 128), (draw.size(1500, 2500), 256)):
        yield Case(
            (-(-n // block),),
            {"x_ptr": draw.normal(2 * n), "z_ptr": torch.zeros(n), "n": n},
            ("z_ptr",),
            {"BLOCK": block},
        )


def _every_other(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr[::2]}


def _few_programs_cases(draw: Draw) -> Iterator[Case]:
    for n, block, programs in (
        (1024, 128, 4),
        (draw.size(1025, 2047), 128, 4),
        (draw.size(1, 100), 64, 3),
        (draw.size(3000, 5000), 256, draw.size(1, 5)),
    ):
        yield Case(
            (programs,),
            {"x_ptr": draw.normal(n), "z_ptr": torch.zeros(n), "n": n},
            ("z_ptr",),
            {"BLOCK": block},
        )


def _twice(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": 2 * x_ptr}


EXERCISES = (
    Exercise(
        "add_one",
        "Add one",
        CHAPTER,
        "`z[i] = x[i] + 1` for `BLOCK` elements, in a single program.",
        """@triton.jit
def add_one(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    # load x, add 1, store to z
""",
        _add_one_cases,
        _add_one,
        (
            "`x_ptr + lanes` is a tile of pointers, one for each lane.",
            "`tl.load(x_ptr + lanes)` is the tile of elements there.",
            "`tl.store(z_ptr + lanes, tile)` writes a tile, one element a lane.",
        ),
        "Nothing: one program cannot do more with one tile. The next exercise has many programs.",
        Budget(traffic=1.0),
    ),
    Exercise(
        "add",
        "Add two vectors",
        CHAPTER,
        "`z[i] = x[i] + y[i]` for `n` elements. Program `p` does `BLOCK` of them, from "
        "`p * BLOCK`; the last one may have fewer left. The grid has `ceil(n / BLOCK)` programs.",
        """@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        lambda draw: _usual(draw, "x_ptr", "y_ptr"),
        _add,
        (
            "`tl.program_id(0)` is the number of the program.",
            "Its elements are `tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)`.",
            "Lanes beyond `n` must be switched off, of the loads and of the store: "
            "`mask=offsets < n`.",
        ),
        "On a GPU larger blocks give each thread several neighbouring elements, which it moves "
        "16 bytes at a time.",
        Budget(traffic=1.1),
    ),
    Exercise(
        "scale_and_shift",
        "Scale and shift",
        CHAPTER,
        "`z[i] = a * x[i] + b`, where `a` and `b` are numbers of the launch.",
        """@triton.jit
def scale_and_shift(x_ptr, z_ptr, a, b, n, BLOCK: tl.constexpr):
    ...
""",
        lambda draw: _usual(draw, "x_ptr", a=draw.size(2, 90) / 8, b=-draw.size(1, 90) / 8),
        _axpb,
        (
            "`a` and `b` are used as they are: a number and a tile give a tile.",
            "The rest is as for `add`: offsets, a mask, a load, a store.",
        ),
        "The multiplication and the addition become one instruction (FFMA): look at the SASS.",
        Budget(traffic=1.1),
    ),
    Exercise(
        "clamp",
        "Clamp",
        CHAPTER,
        "`z[i]` is `x[i]`, but no less than `low` and no more than `high`.",
        """@triton.jit
def clamp(x_ptr, z_ptr, low, high, n, BLOCK: tl.constexpr):
    ...
""",
        lambda draw: _usual(draw, "x_ptr", low=-draw.size(1, 8) / 8, high=draw.size(1, 8) / 8),
        _clamp,
        (
            "`tl.where(condition, one, other)` chooses lane by lane.",
            "`tl.minimum` and `tl.maximum` do it without a condition.",
        ),
        "`tl.minimum(tl.maximum(x, low), high)` is two instructions a lane; `tl.where` with two "
        "comparisons is four.",
        Budget(traffic=1.1),
    ),
    Exercise(
        "reverse",
        "Backwards",
        CHAPTER,
        "`z[i] = x[n - 1 - i]`.",
        """@triton.jit
def reverse(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        lambda draw: _usual(draw, "x_ptr"),
        _reverse,
        (
            "Pointers may run downwards: `x_ptr + (n - 1 - offsets)`.",
            "A lane that is off in the store would load from before the tensor: mask the load too.",
        ),
        "Loads that run downwards move the same sectors as upward ones, but one element at a time: "
        "the compiler joins neighbours only in ascending order.",
        Budget(traffic=1.3),
    ),
    Exercise(
        "every_other",
        "Every other element",
        CHAPTER,
        "`z[i] = x[2 * i]` for `n` elements of `z`; `x` has twice as many.",
        """@triton.jit
def every_other(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        _every_other_cases,
        _every_other,
        (
            "The offsets into `x` and those into `z` differ: two tiles of pointers.",
            "Both accesses have the same lanes, and so the same mask.",
        ),
        "Half of the bytes of each sector that is loaded are thrown away. A kernel that needs both "
        "halves loads them once, and takes them apart with `tl.split`.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "few_programs",
        "More blocks than programs",
        CHAPTER,
        "`z[i] = 2 * x[i]`, with fewer programs than there are blocks: program `p` of "
        "`tl.num_programs(0)` does the blocks `p`, `p + programs`, `p + 2 * programs`, ...",
        """@triton.jit
def few_programs(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        _few_programs_cases,
        _twice,
        (
            "A loop in a kernel is `for start in range(first, n, step):`.",
            "The first block of a program is at `tl.program_id(0) * BLOCK`; from one to the next "
            "are `tl.num_programs(0) * BLOCK` elements.",
        ),
        "With one program for each multiprocessor, what every block needs (a table, a weight) is "
        "loaded once a program: such kernels are called persistent.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "silu_gate",
        "A gate",
        CHAPTER,
        "`z = silu(x) * y`, where `silu(x) = x / (1 + exp(-x))`.",
        """@triton.jit
def silu_gate(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        lambda draw: _usual(draw, "x_ptr", "y_ptr"),
        _gated,
        (
            "`tl.exp` and `tl.sigmoid` work on tiles.",
            "`silu(x)` is `x * tl.sigmoid(x)`.",
        ),
        "Torch makes two kernels of this and writes what is between them to memory; yours reads "
        "each input once and writes once. That is what fusing means.",
        Budget(traffic=1.1),
    ),
)
