"""First kernels: one program, many programs, masks, other orders of elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.launch.differences import Within
from kernellab.workshop.exercise import Budget, Case, Draw, Exercise, exact, unrounded

CHAPTER = "First kernels"


def _vectors(draw: Draw, n: int, block: int, *inputs: str, **numbers: Any) -> Case:
    """Return a launch over `n` elements in blocks."""
    tensors = {name: draw.normal(n) for name in inputs}
    return Case(
        (-(-n // block),),
        {**tensors, "z_ptr": torch.zeros(n), **numbers, "n": n},
        ("z_ptr",),
        {"BLOCK": block},
    )


def _usual(draw: Draw, *inputs: str, **numbers: Any) -> Iterator[Case]:
    """Yield launches with whole blocks, a remainder, few elements, a remainder of one element,
    other block sizes, and many more elements.
    """
    yield _vectors(draw, 4 * 128, 128, *inputs, **numbers)
    yield _vectors(draw, draw.uneven(513, 1023, 128), 128, *inputs, **numbers)
    yield _vectors(draw, draw.size(1, 20), 64, *inputs, **numbers)
    n = 1024 * draw.size(2, 3) + 1
    yield _vectors(draw, n, 256, *inputs, **numbers)
    yield _vectors(draw, n, 1024, *inputs, **numbers)
    block = draw.of((8, 16, 32))
    yield _vectors(draw, draw.uneven(40, 400, block), block, *inputs, **numbers)
    yield _vectors(draw, draw.large(20_000, 200_000), draw.of((512, 2048)), *inputs, **numbers)


def _gate_cases(draw: Draw) -> Iterator[Case]:
    """Yield the usual launches; in the second, exp(x) and exp(-x) overflow."""
    for number, case in enumerate(_usual(draw, "x_ptr", "y_ptr")):
        if number == 1:
            case.arguments["x_ptr"].mul_(100)
        yield case


def _add_one_cases(draw: Draw) -> Iterator[Case]:
    for block in (128, 64, draw.of((256, 512)), draw.of((2, 8, 16, 32)), draw.of((2048, 4096))):
        yield Case(
            (1,), {"x_ptr": draw.normal(block), "z_ptr": torch.zeros(block)}, ("z_ptr",),
            {"BLOCK": block},
        )  # fmt: skip


def _add_one(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": (exact(x_ptr) + 1.0).within()}


def _add(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": (exact(x_ptr) + exact(y_ptr)).within()}


def _axpb(x_ptr: torch.Tensor, a: float, b: float) -> Mapping[str, Within]:
    return {"z_ptr": (exact(x_ptr) * a + b).within()}


def _clamp(x_ptr: torch.Tensor, low: float, high: float) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(x_ptr.clamp(low, high))}


def _reverse(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(x_ptr.flip(0))}


def _gated(x_ptr: torch.Tensor, y_ptr: torch.Tensor) -> Mapping[str, Within]:
    x = exact(x_ptr)
    return {"z_ptr": (x * x.sigmoid() * exact(y_ptr)).within()}


def _every_other_cases(draw: Draw) -> Iterator[Case]:
    for n, block in (
        (512, 128),
        (draw.uneven(513, 999, 128), 128),
        (256 * draw.size(6, 9) + 1, 256),
        (draw.size(1, 300), draw.of((8, 16, 32, 64))),
        (draw.large(20_000, 100_000), draw.of((512, 1024, 2048))),
    ):
        yield Case(
            (-(-n // block),),
            {"x_ptr": draw.normal(2 * n), "z_ptr": torch.zeros(n), "n": n},
            ("z_ptr",),
            {"BLOCK": block},
        )


def _every_other(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(x_ptr[::2])}


def _few_programs_cases(draw: Draw) -> Iterator[Case]:
    for n, block, programs in (
        (1024, 128, 4),
        (draw.uneven(1025, 2047, 128), 128, 4),
        (draw.size(1, 63), 64, 3),
        (256 * draw.size(12, 19) + 1, 256, draw.size(1, 5)),
        (draw.uneven(100, 900, 8), draw.of((8, 16, 32)), draw.size(6, 13)),
        (draw.large(20_000, 100_000), draw.of((512, 2048)), draw.size(2, 40)),
    ):
        yield Case(
            (programs,),
            {"x_ptr": draw.normal(n), "z_ptr": torch.zeros(n), "n": n},
            ("z_ptr",),
            {"BLOCK": block},
        )


def _twice(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": unrounded(2 * x_ptr)}


EXERCISES = (
    Exercise(
        "add_one",
        "Add one",
        CHAPTER,
        "`z[i] = x[i] + 1` for `BLOCK` elements, in a single program.",
        """@triton.jit
def add_one(x_ptr, z_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    # Load x, add 1, and store the result to z.
""",
        _add_one_cases,
        _add_one,
        (
            "`x_ptr + offsets` is a tile of pointers, one for each element.",
            "`tl.load(x_ptr + offsets)` loads a tile with the elements at these pointers.",
            "`tl.store(z_ptr + offsets, tile)` writes a tile, one element to each pointer.",
        ),
        "A single program with one tile cannot do better. The next exercise has many programs.",
        Budget(traffic=1.0),
    ),
    Exercise(
        "add",
        "Add two vectors",
        CHAPTER,
        "`z[i] = x[i] + y[i]` for `n` elements. Program `p` computes `BLOCK` elements, starting at "
        "`p * BLOCK`; the last program may have fewer. The grid has `ceil(n / BLOCK)` programs.",
        """@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        lambda draw: _usual(draw, "x_ptr", "y_ptr"),
        _add,
        (
            "`tl.program_id(0)` is the number of the program.",
            "Its elements are `tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)`.",
            "Elements beyond `n` must be masked off, in the loads and in the store: `mask=offsets "
            "< n`.",
        ),
        "On a GPU, larger blocks give each thread several neighboring elements, which it moves 16 "
        "bytes at a time.",
        Budget(traffic=1.1),
    ),
    Exercise(
        "scale_and_shift",
        "Scale and shift",
        CHAPTER,
        "`z[i] = a * x[i] + b`, where `a` and `b` are numbers.",
        """@triton.jit
def scale_and_shift(x_ptr, z_ptr, a, b, n, BLOCK: tl.constexpr):
    ...
""",
        lambda draw: _usual(draw, "x_ptr", a=draw.size(1, 45) / 4 + 1 / 8, b=-draw.size(1, 45) / 4),
        _axpb,
        (
            "You can use `a` and `b` directly: a number times a tile is a tile.",
            "The rest is as in `add`: offsets, a mask, a load, a store.",
        ),
        "The multiplication and the addition become one instruction, FFMA: look for it in the "
        "SASS.",
        Budget(traffic=1.1),
    ),
    Exercise(
        "clamp",
        "Clamp",
        CHAPTER,
        "`z[i]` is `x[i]`, limited to the range from `low` to `high`.",
        """@triton.jit
def clamp(x_ptr, z_ptr, low, high, n, BLOCK: tl.constexpr):
    ...
""",
        lambda draw: _usual(
            draw, "x_ptr", low=draw.size(-4, -1) / 4 + 1 / 8, high=draw.size(1, 4) / 4
        ),
        _clamp,
        (
            "`tl.where(condition, a, b)` chooses element by element.",
            "`tl.minimum` and `tl.maximum` do it without a condition.",
        ),
        "`tl.minimum(tl.maximum(x, low), high)` takes two instructions per element; `tl.where` "
        "with two comparisons takes four.",
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
            "The pointers of a tile may be in descending order: `x_ptr + (n - 1 - offsets)`.",
            "Where the store is masked off, the load would read memory in front of the tensor: "
            "mask the load too.",
        ),
        "Loads in descending order move the same sectors as loads in ascending order, but one "
        "element at a time: the compiler combines only neighbors in ascending order.",
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
            "The offsets into `x` and into `z` differ, so you need two tiles of pointers.",
            "Both accesses cover the same elements of `z`, so they have the same mask.",
        ),
        "Half of each loaded sector is discarded. A kernel that needs both halves loads them once "
        "and separates them with `tl.split`.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "few_programs",
        "More blocks than programs",
        CHAPTER,
        "`z[i] = 2 * x[i]`, with fewer programs than blocks. Of `programs = tl.num_programs(0)` "
        "programs, program `p` computes the blocks `p`, `p + programs`, `p + 2 * programs`, ...",
        """@triton.jit
def few_programs(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    ...
""",
        _few_programs_cases,
        _twice,
        (
            "Write the loop as `for start in range(first, n, step):`.",
            "The first block of a program starts at `tl.program_id(0) * BLOCK`; its next block "
            "starts `tl.num_programs(0) * BLOCK` elements later.",
        ),
        "With one program for each multiprocessor, a program loads what every block needs, such as "
        "a table or a weight, only once. Such kernels are called persistent.",
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
        _gate_cases,
        _gated,
        (
            "`tl.exp` and `tl.sigmoid` work on tiles.",
            "`silu(x)` is `x * tl.sigmoid(x)`.",
        ),
        "PyTorch runs two kernels for this, and writes the intermediate result to memory. Your "
        "kernel reads each input once and writes the output once. This is called fusion.",
        Budget(traffic=1.1),
    ),
)
