"""Kernels by which the order of the programs shows, or must not."""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def write_program(out_ptr):
    program = tl.program_id(0)
    tl.store(out_ptr + program, program)


@triton.jit
def seeded(out_ptr, seed):
    """A parameter that has an option's name."""
    program = tl.program_id(0)
    tl.store(out_ptr + program, seed + program)


@triton.jit
def last_writer(out_ptr, N: tl.constexpr):
    """Every program writes to every element."""
    tl.store(out_ptr + tl.arange(0, N), tl.program_id(0) + tl.zeros((N,), tl.int32))


@triton.jit
def tickets(count_ptr, ticket_ptr):
    """Every program writes down how many came before it."""
    program = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    tl.store(ticket_ptr + program, tl.atomic_add(count_ptr, 1))


@triton.jit
def takes_from_its_neighbor(x_ptr):
    """A race: a program reads what another one writes."""
    program = tl.program_id(0)
    if program > 0:
        tl.store(x_ptr + program, tl.load(x_ptr + program - 1) + 1)


@triton.jit
def square(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Its programs have nothing to do with each other."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * x, mask=offsets < n)
