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
