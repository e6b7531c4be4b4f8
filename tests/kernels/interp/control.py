"""Loops, branches, returns, helpers, and who runs them."""

import triton
import triton.language as tl


@triton.jit
def where_am_i(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny, nz = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    linear = (z * ny + y) * nx + x
    tl.store(out_ptr + linear, x + 100 * y + 10000 * z + 1000000 * nz)


@triton.jit
def collatz(out_ptr, N: tl.constexpr):
    """A while loop of another length in every program."""
    value = tl.program_id(0) + 1
    steps = 0
    while value != 1:
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        steps += 1
    tl.store(out_ptr + tl.program_id(0), steps)


@triton.jit
def triangular(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A for loop of another length, start and step in every program; tiles and scalars carried, and swapped."""
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    a, b = 0, 1
    last = -1
    for i in range(program // 2, program * 2, 1 + program % 2):
        total += tl.load(x_ptr + i * BLOCK + lanes)
        a, b = b, a + b
        last = i
    tl.store(out_ptr + program * (BLOCK + 2) + lanes, total)
    tl.store(out_ptr + program * (BLOCK + 2) + BLOCK, a)
    tl.store(out_ptr + program * (BLOCK + 2) + BLOCK + 1, last)


@triton.jit
def nested(n_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Divergent branches in divergent loops in a uniform loop; a uniform value loaded inside a divergent branch."""
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    count = 0
    for outer in range(3):
        if program > outer:
            n = tl.load(n_ptr)
            if n > 2:
                for inner in range(n):
                    total += inner * tl.load(x_ptr + lanes)
            for inner in range(program):
                if inner % 2 == outer % 2:
                    count += 1
                    if lanes.shape[0] > 1:
                        total += tl.where(lanes < inner, 1, 0)
                elif inner == 3:
                    count += 100
        else:
            total -= 1
    tl.store(out_ptr + program * (BLOCK + 1) + lanes, total)
    tl.store(out_ptr + program * (BLOCK + 1) + BLOCK, count)


@triton.jit
def early_returns(x_ptr, out_ptr, n, N: tl.constexpr):
    """Three ways out; a tile made before the second is still used after the third."""
    program = tl.program_id(0)
    lanes = tl.arange(0, N)
    if program > n:
        return
    x = tl.load(x_ptr + lanes)
    row = x[None, :]
    if program == 1:
        tl.store(out_ptr + program * N + lanes, x * 10)
        return
    y = x * 2
    if program % 2 == 0:
        y += 1
        if n > 1000:
            return
    tl.store(out_ptr + program * N + lanes[None, :], y[None, :] + row)


@triton.jit
def helper_with_returns(x, limit):
    if x > limit:
        return x - limit
    return x * 2


@triton.jit
def returning_helper(out_ptr, limit):
    program = tl.program_id(0)
    tl.store(
        out_ptr + program, helper_with_returns(program, limit) + helper_with_returns(limit, program)
    )


@triton.jit
def uniform_branches(x_ptr, out_ptr, flag, n, BLOCK: tl.constexpr):
    """Branches and loops that all programs take alike, on arguments and on loaded values."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    if flag:
        x += 1
    else:
        x -= 1
    threshold = tl.load(x_ptr)
    if threshold > 0:
        x *= 2
    step = 0
    while step < n:
        x += step
        step += 1
    if n > 5 and threshold > 0:
        x += 1000
    tl.store(out_ptr + tl.program_id(0) * BLOCK + lanes, x)


@triton.jit
def binary_search(x_ptr, key_ptr, out_ptr, n):
    """A while loop that loads, per program."""
    key = tl.load(key_ptr + tl.program_id(0))
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if tl.load(x_ptr + middle) < key:
            low = middle + 1
        else:
            high = middle
    tl.store(out_ptr + tl.program_id(0), low)


@triton.jit
def conditional_atomics(count_ptr, out_ptr):
    program = tl.program_id(0)
    for i in range(program):
        if i % 3 == 0:
            tl.atomic_add(count_ptr + i, 1)
    value = -1
    if program > 1:
        value = tl.atomic_add(count_ptr + 8, program)
    tl.store(out_ptr + program, value)


@triton.jit
def unrolled(x_ptr, out_ptr, n, N: tl.constexpr):
    tl.static_assert(N > 0)
    tl.assume(n > 0)
    tl.device_assert(n > 0, "n is positive")
    total = 0.0
    for i in tl.static_range(N):
        if i != 1:
            total += tl.load(x_ptr + i) * (i + 1)
    for i in tl.range(0, n, num_stages=1):
        total -= i
    tl.store(out_ptr, total)


@triton.jit
def sum_of_pair(pair, factor):
    return (pair[0] + pair[1]) * factor


@triton.jit
def tuples(pointers, sizes, out_ptr, BLOCK: tl.constexpr):
    """Tuples as arguments, as carried values, and returned by a helper."""
    lanes = tl.arange(0, BLOCK)
    inside = lanes < sizes[0]
    x = tl.load(pointers[0] + lanes, mask=inside, other=0.0)
    y = tl.load(pointers[1] + lanes, mask=lanes < sizes[1], other=0.0)
    tl.store(out_ptr + lanes, sum_of_pair((x, y), sizes[2]))


@triton.jit
def loop_results(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Values that a loop hands on unchanged, swapped, or never sets, and two loops in a row."""
    lanes = tl.arange(0, BLOCK)
    a = tl.load(x_ptr + lanes)
    b = a + 1
    c = a * 0
    for _i in tl.range(n):
        c = a
        a, b = b, a
    for i in tl.range(n):
        for _j in tl.range(i):
            a = a + b
        b = c + i
    tl.store(out_ptr + lanes, a)
    tl.store(out_ptr + BLOCK + lanes, b)
    tl.store(out_ptr + 2 * BLOCK + lanes, c)


@triton.jit
def printing(x_ptr, n):
    program = tl.program_id(0)
    lanes = tl.arange(0, 4)
    if program % 2 == 0:
        tl.device_print("x", tl.load(x_ptr + program * 4 + lanes), n)
    tl.device_print("bits", tl.load(x_ptr + program * 4), hex=True)


@triton.jit
def chosen_bounds(n_ptr, out_ptr, limit):
    """Numbers that are the same in every program that has them, but that not every program has: bounds and conditions."""
    program = tl.program_id(0)
    n = 2
    if program > 1:
        n = tl.load(n_ptr)
        tl.store(n_ptr, n)
    count = 0
    for i in range(n):
        count += i + 1
    step = 0
    while step < program:
        step += 1
        if step == limit:
            count += 100
            step = 1000
    if step > 500:
        count = -count
    last = -1
    for _i in range(program):
        last = limit
    if last > 0:
        count += 10000
    for _i in range(program, 6):
        count += 1000000
    for _i in range(0, 6, program + 1):
        count += 100000000
    tl.store(out_ptr + program, count)
