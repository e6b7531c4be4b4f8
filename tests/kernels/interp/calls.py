"""Functions that are called, not inlined; and functions of single elements, with loops and branches of their own."""

import triton
import triton.language as tl

# fmt: off


@triton.jit(noinline=True)
def checked_store(where, value, limit):
    if value > limit:
        return 0
    tl.store(where, value)
    return 1


@triton.jit(noinline=True)
def store_twice(where, value, limit):
    return checked_store(where, value, limit) + 10 * checked_store(where + 1, value * 2, limit)


@triton.jit
def kept_apart(out_ptr, count_ptr, limit):
    """Calls of calls, in a loop, on both sides of a branch that programs take differently."""
    program = tl.program_id(0)
    out = out_ptr + program * 8
    count = 0
    for step in range(3):
        if (program + step) % 2 == 0:
            count += store_twice(out + 2 * step, program + step, limit)
        else:
            count += 100 * checked_store(out + 2 * step, -step, limit)
    tl.store(count_ptr + program, count)


@triton.jit
def digits(number, base):
    """Two ways out, one of them after a loop."""
    if number < base:
        return 1, number
    count = 1
    total = number % base
    while number >= base:
        number = number // base
        total += number % base
        count += 1
    return count, total


@triton.jit
def zeroed(where, flag):
    if flag:
        return
    tl.store(where, 0)


@triton.jit
def returns_in_loops(out_ptr, n):
    """Helpers with returns in the middle, which Triton cannot inline into a loop."""
    program = tl.program_id(0)
    total = 0
    for number in range(program * 3, n + program):
        count, digit_sum = digits(number, 2 + program)
        total += count * 100 + digit_sum
        zeroed(out_ptr + program * 16 + number % 16, number % 3 != 0)
    tl.store(out_ptr + program * 16 + 15, total)


@triton.jit
def gcd(a, b):
    """Associative, with a loop of another length for every pair of elements."""
    while b != 0:
        a, b = b, a % b
    return a


@triton.jit
def greatest_common_divisors(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    program = tl.program_id(0)
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + program * M * N + rows * N + columns)
    out = out_ptr + program * (M * N + M + N)
    tl.store(out + rows * N + columns, tl.associative_scan(x, 1, gcd))
    tl.store(out + M * N + tl.arange(0, M), tl.reduce(x, 1, gcd))
    tl.store(out + M * N + M + tl.arange(0, N), tl.reduce(x, 0, gcd))


@triton.jit
def first_longest(value, index, other_value, other_index):
    if value > other_value:
        return value, index
    if other_value > value:
        return other_value, other_index
    smaller = index
    if other_index < index:
        smaller = other_index
    return value, smaller


@triton.jit
def longest(x_ptr, value_ptr, index_ptr, where_ptr, N: tl.constexpr):
    """Several results; for half precision too; the same tile in every program."""
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    value, index = tl.reduce((x, lanes), 0, first_longest)
    tl.store(value_ptr + tl.program_id(0), value)
    tl.store(index_ptr + tl.program_id(0), index)
    _, running = tl.associative_scan((x, lanes), 0, first_longest, reverse=True)
    tl.store(where_ptr + tl.program_id(0) * N + lanes, running)


@triton.jit
def collatz_steps(number):
    steps = 0
    while number != 1:
        if number % 2 == 0:
            number = number // 2
        else:
            number = 3 * number + 1
        steps += 1
    return steps


@triton.jit
def pairs(a, b, x, y):
    """Of two elements of each operand: their sorted sum and product; y is used only sometimes."""
    if a > b:
        a, b = b, a
    total = x
    for _ in range(2):
        if a < 0:
            total += y
    return a, b, total, x * y


@triton.jit
def sign_of_difference(a, b):
    if a < b:
        return a * 0 - 1
    if a == b:
        return a * 0
    return b * 0 + 1


@triton.jit
def mapped(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    base = tl.program_id(0) * N + lanes
    steps = lanes * 0
    if tl.program_id(0) > 0:  # of 0, which the first program has, the steps never end
        steps = tl.map_elementwise(collatz_steps, base)
    tl.store(out_ptr + base, steps.to(tl.float32))
    x, y = tl.load(x_ptr + base), tl.load(y_ptr + lanes)
    first, second = tl.map_elementwise(pairs, x, y, pack=2)
    three_ways = tl.map_elementwise(sign_of_difference, x, y)
    total = tl.num_programs(0) * N
    tl.store(out_ptr + total + base, first)
    tl.store(out_ptr + 2 * total + base, second)
    tl.store(out_ptr + 3 * total + base, three_ways)


@triton.jit
def lower_bound(table, n, key):
    """A binary search, one for each element."""
    low = n * 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if tl.load(table + middle) < key:  # FAULT: lower_bound
            low = middle + 1
        else:
            high = middle
    return low


@triton.jit
def searched(table_ptr, key_ptr, out_ptr, n, N: tl.constexpr):
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    keys = tl.load(key_ptr + lanes)
    tables = table_ptr + tl.zeros((N,), tl.int32)
    tl.store(out_ptr + lanes, tl.map_elementwise(lower_bound, tables, tl.zeros((N,), tl.int32) + n, keys))


@triton.jit
def searched_by_some(table_ptr, key_ptr, out_ptr, n, N: tl.constexpr):
    """In the second program only."""
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    keys = tl.load(key_ptr + lanes)
    if tl.program_id(0) == 1:
        tables = table_ptr + tl.zeros((N,), tl.int32)
        found = tl.map_elementwise(lower_bound, tables, tl.zeros((N,), tl.int32) + n, keys)
        tl.store(out_ptr + lanes, found)


@triton.jit(noinline=True)
def too_far(x_ptr, offset):
    return tl.load(x_ptr + offset)  # FAULT: too_far


@triton.jit
def calls_too_far(x_ptr, out_ptr):
    value = too_far(x_ptr, tl.program_id(0) * 3)  # CALL: too_far
    tl.store(out_ptr + tl.program_id(0), value)
