"""Kernels with operations that only the latest version of Triton has: `versions.HAS_ATOMIC_LOADS`."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# fmt: off


@triton.jit
def handed_over(x_ptr, out_ptr, n, N: tl.constexpr):
    """Loaded and stored atomically, under masks and without, between two launches' waits for each other."""
    gdc_wait()
    lanes = tl.arange(0, N)
    out = out_ptr + tl.program_id(0) * 2 * N + lanes
    x = tl.atomic_load(x_ptr + lanes, mask=lanes < n)
    tl.atomic_store(out, x * 2, mask=lanes < n - tl.program_id(0))
    scalar = tl.atomic_load(x_ptr + tl.program_id(0), sem="relaxed", scope="sys")
    tl.atomic_store(out + N, scalar + lanes)
    gdc_launch_dependents()


@triton.jit
def divided(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out_ptr + lanes, tl.fdiv(tl.load(x_ptr + lanes), tl.load(y_ptr + lanes), approx=True))


@triton.jit
def polled(flag_ptr, out_ptr):
    """Each program waits for the one after it; the last one starts the chain."""
    program = tl.program_id(0)
    if program < tl.num_programs(0) - 1:
        seen = tl.atomic_poll(flag_ptr + program + 1, 1)
        tl.store(out_ptr + program, tl.load(out_ptr + program + 1) + seen.to(tl.int32))
    else:
        tl.store(out_ptr + program, 100)
    tl.atomic_store(flag_ptr + program, 1)


@triton.jit
def all_polled(flag_ptr, out_ptr, N: tl.constexpr):
    """Program 0 waits for every other to have come by; each element has a moment of its own."""
    program = tl.program_id(0)
    if program == 0:
        lanes = tl.arange(0, N)
        seen = tl.atomic_poll(flag_ptr + lanes, lanes + 1)
        tl.store(out_ptr + lanes, seen.to(tl.int32))
    else:
        tl.atomic_store(flag_ptr + program - 1, program)
        tl.atomic_poll(out_ptr + program - 1, 1)
        tl.atomic_store(flag_ptr + program - 1, 0)


@triton.jit
def spinning(flag_ptr, out_ptr):
    """An atomic load in a loop waits as any atomic does."""
    program = tl.program_id(0)
    if program == 0:
        while tl.atomic_load(flag_ptr) == 0:
            pass
        tl.store(out_ptr, 7)
    else:
        tl.atomic_store(flag_ptr, 1)


@triton.jit
def never_set(flag_ptr, out_ptr):
    tl.atomic_poll(flag_ptr + tl.program_id(0), 1)  # WAITS: never_set
    tl.store(out_ptr + tl.program_id(0), 1)


@triton.jit
def timed(flag_ptr, out_ptr):
    seen = tl.atomic_poll(flag_ptr, 1, timeout_ns=1000)  # UNSUPPORTED: timed
    tl.store(out_ptr, seen.to(tl.int32))
