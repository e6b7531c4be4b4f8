"""Kernels whose parameters have the names of what functions that launch kernels are told."""

import triton
import triton.language as tl


@triton.jit
def like_check(outputs, target, most_turns):
    tl.store(outputs, target + most_turns)


@triton.jit
def like_trace(programs, operations, in_place, exact_bytes, target):
    tl.store(programs, operations + in_place + exact_bytes + target)


@triton.jit
def like_debug(program, breakpoints, in_place):
    tl.store(program, breakpoints + in_place)


@triton.jit
def like_accesses(x_ptr, target):
    tl.store(x_ptr, target)


@triton.jit
def like_bisect(target, rtol, atol, skip, pipeline):
    tl.store(target, rtol + atol + skip + pipeline)
