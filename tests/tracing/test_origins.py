"""`trace.why`: what an element was computed from, against what happens if an input changes."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import ArgumentError, NotRecorded

ROWS, COLUMNS = 4, 8


@triton.jit
def scaled(x, factor):
    doubled = x * 2
    return doubled * factor


@triton.jit
def columns(x_ptr, w_ptr, z_ptr, rows, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    inside = lanes < n
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        x = tl.load(x_ptr + row * n + lanes, mask=inside)
        total += scaled(x, row + 1)
    total *= tl.load(w_ptr)
    tl.store(z_ptr + lanes, total, mask=inside)


@triton.jit
def transposed(x_ptr, w_ptr, z_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)
    column = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (column[None, :] < n)
    x = tl.load(x_ptr + row[:, None] * n + column[None, :], mask=inside)
    w = tl.load(w_ptr + column, mask=column < n)
    tl.store(z_ptr + column[None, :] * rows + row[:, None], x + w[None, :], mask=inside)


@triton.jit
def through_memory(x_ptr, w_ptr, z_ptr, rows, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(z_ptr + lanes, x, mask=lanes < n)
    tl.debug_barrier()
    back = tl.load(z_ptr + (n - 1 - lanes), mask=lanes < n)
    w = tl.load(w_ptr + lanes, mask=lanes < 2, other=1.0)
    tl.store(z_ptr + n + lanes, tl.where(lanes > 3, back, -back) * w, mask=lanes < n)


@triton.jit
def summed(x_ptr, w_ptr, z_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=0.0)
    tl.store(z_ptr + row, tl.sum(x, axis=0))


@triton.jit
def added(x_ptr, w_ptr, z_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    factor = tl.load(w_ptr + row) if row != 1 else 2.0
    tl.atomic_add(z_ptr, tl.load(x_ptr + row * n) * factor)


@triton.jit
def chosen(x_ptr, w_ptr, z_ptr, rows, n, BLOCK: tl.constexpr):
    bound = tl.load(x_ptr + 3)
    if bound > 2:
        factor = tl.load(w_ptr)
    else:
        factor = 2.0
    tl.store(z_ptr, factor)


def arguments() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(ROWS, COLUMNS, generator=generator) + 1
    return x, torch.rand(COLUMNS, generator=generator) + 1, torch.zeros(ROWS * COLUMNS)


def launch_of(kernel: Any, *tensors: torch.Tensor) -> Any:
    programs = ROWS if kernel in (summed, added) else 1
    return kernellab.bind(kernel, (programs,), *tensors, ROWS, COLUMNS, BLOCK=16)


def changing(kernel: Any, element: int) -> set[str]:
    """The inputs with which an element of the result changes, each changed in turn."""
    x, w, z = arguments()
    kernellab.run(launch_of(kernel, x, w, z))
    names = set()
    for name, size in (("x_ptr", x.numel()), ("w_ptr", w.numel())):
        for place in range(size):
            one, two, out = arguments()
            (one if name == "x_ptr" else two).view(-1)[place] += 1
            kernellab.run(launch_of(kernel, one, two, out))
            if out[element] != z[element]:
                index = divmod(place, COLUMNS) if name == "x_ptr" else (place,)
                names.add(f"{name}[{', '.join(map(str, index))}]")
    return names


@pytest.mark.parametrize(
    ("kernel", "element"),
    [
        (columns, 5),
        (transposed, 6),
        (through_memory, 9),
        (through_memory, 15),
        (added, 0),
        (chosen, 0),
    ],
)
def test_the_loads_are_the_inputs_that_matter(kernel: Any, element: int) -> None:
    origin = kernellab.trace(launch_of(kernel, *arguments())).why("z_ptr", element)
    loads = {load for each in origin.walk() for load in each.loads}
    assert {load for load in loads if load[:2] in ("x_", "w_") and "[" in load} == changing(
        kernel, element
    )
    assert all("[" in load or "mask is off" in load for load in loads)


def test_a_sum_names_the_tile_and_the_program_that_wrote_it_is_traced() -> None:
    trace = kernellab.trace(launch_of(summed, *arguments()), programs=0)
    origin = trace.why("z_ptr", 2)
    assert origin.program == (2, 0, 0)
    assert trace.facts.programs == ((0, 0, 0),)
    (x,) = (each for each in origin.walk() if each.name == "x")
    assert x.loads == ("x_ptr: elements 16 to 23 (8 of 16 tile elements)",)
    assert float(origin.value) == pytest.approx(float(arguments()[0][2].sum()), rel=1e-5)


def test_the_tree(messages) -> None:
    assert str(kernellab.trace(launch_of(columns, *arguments())).why("z_ptr", 5)) == messages


def test_what_no_step_wrote(tmp_path, raised) -> None:
    trace = kernellab.trace(launch_of(summed, *arguments()), programs=0)
    raised(ArgumentError, trace.why, "z", 0)
    raised(ArgumentError, trace.why, "x_ptr", (1, 8))
    raised(NotRecorded, trace.why, "z_ptr", 4)
    loaded = kernellab.load(trace.save(tmp_path / "sums.trace"))
    assert loaded.why("z_ptr", 0).value == trace.why("z_ptr", 0).value
    raised(NotRecorded, loaded.why, "z_ptr", 2)
