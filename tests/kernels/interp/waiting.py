"""Kernels whose programs wait for each other: for one that runs later as well as for one that ran before."""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def grid_barrier(count_ptr, x_ptr, out_ptr, PHASES: tl.constexpr):
    """Between phases everybody waits for everybody: each program then reads what both neighbors wrote."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    value = tl.load(x_ptr + program)
    for phase in range(PHASES):
        tl.store(out_ptr + phase % 2 * programs + program, value)
        tl.atomic_add(count_ptr, 1)
        while tl.atomic_add(count_ptr, 0) < (phase + 1) * programs:
            pass
        left = tl.load(out_ptr + phase % 2 * programs + (program + programs - 1) % programs)
        right = tl.load(out_ptr + phase % 2 * programs + (program + 1) % programs)
        value = left + right
        tl.atomic_add(count_ptr + 1, 1)
        while tl.load(count_ptr + 1, volatile=True) < (phase + 1) * programs:
            pass
    tl.store(x_ptr + program, value)


@triton.jit
def flags(flag_ptr, out_ptr, PLAIN: tl.constexpr):
    """Each program waits for the one after it; the last one starts the chain."""
    program = tl.program_id(0)
    if program < tl.num_programs(0) - 1:
        seen = 0
        while seen == 0:
            seen = tl.load(flag_ptr + program + 1, volatile=not PLAIN)
        tl.store(out_ptr + program, tl.load(out_ptr + program + 1) + seen)
    else:
        tl.store(out_ptr + program, 100)
    tl.atomic_xchg(flag_ptr + program, 1)


@triton.jit
def ticket_lock(lock_ptr, log_ptr, TURNS: tl.constexpr):
    """Tickets are drawn in any order; the log shows that they are served in theirs."""
    program = tl.program_id(0)
    for _ in range(TURNS):
        mine = tl.atomic_add(lock_ptr, 1)
        while tl.atomic_add(lock_ptr + 1, 0) != mine:
            pass
        place = tl.load(lock_ptr + 2)
        tl.store(log_ptr + place, program)
        tl.store(lock_ptr + 2, place + 1)
        tl.atomic_add(lock_ptr + 1, 1)


@triton.jit
def producer_consumer(slot_ptr, full_ptr, out_ptr, ITEMS: tl.constexpr):
    """One slot between the two: program 0 takes what program 1 makes."""
    if tl.program_id(0) == 0:
        for item in range(ITEMS):
            while tl.atomic_cas(full_ptr, 1, 1) != 1:
                pass
            tl.store(out_ptr + item, tl.load(slot_ptr))
            tl.atomic_xchg(full_ptr, 0)
    else:
        for item in range(ITEMS):
            while tl.atomic_cas(full_ptr, 0, 0) != 0:
                pass
            tl.store(slot_ptr, item * item)
            tl.atomic_xchg(full_ptr, 1)


@triton.jit
def stream_k(a_ptr, b_ptr, c_ptr, partial_ptr, lock_ptr, steps, K: tl.constexpr, PER_TILE: tl.constexpr, SHARE: tl.constexpr, BLOCK: tl.constexpr):
    """Equal shares of all the steps of all tiles; the program that starts a tile waits for the parts of those after it."""
    program = tl.program_id(0)
    step, end = program * SHARE, tl.minimum((program + 1) * SHARE, steps)
    rows = tl.arange(0, BLOCK)[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    while step < end:
        tile = step // PER_TILE
        first = step % PER_TILE
        stop = tl.minimum(PER_TILE, first + end - step)
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(first, stop):
            a = tl.load(a_ptr + (tile * BLOCK + rows) * K + k * BLOCK + columns)
            b = tl.load(b_ptr + (k * BLOCK + rows) * BLOCK + columns)
            total += tl.dot(a, b, input_precision="ieee")
        if first == 0:
            covered = stop
            helper = program + 1
            while covered < PER_TILE:
                while tl.atomic_cas(lock_ptr + helper, 1, 1) != 1:
                    pass
                total += tl.load(partial_ptr + helper * BLOCK * BLOCK + rows * BLOCK + columns)
                covered += tl.minimum(SHARE, PER_TILE - covered)
                helper += 1
            tl.store(c_ptr + (tile * BLOCK + rows) * BLOCK + columns, total)
        else:
            tl.store(partial_ptr + program * BLOCK * BLOCK + rows * BLOCK + columns, total)
            tl.debug_barrier()
            tl.atomic_xchg(lock_ptr + program, 1)
        step += stop - first


@triton.jit
def look_back(x_ptr, out_ptr, status_ptr, sum_ptr, N: tl.constexpr):
    """A scan in one pass: status 1 says that a block's own sum is there, 2 that the sum up to its end is."""
    program = tl.program_id(0)
    lanes = program * N + tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    own = tl.sum(x)
    tl.store(sum_ptr + 2 * program, own)
    tl.atomic_xchg(status_ptr + program, 1)
    before = own * 0
    back = program - 1
    while back >= 0:
        status = tl.atomic_add(status_ptr + back, 0)
        if status == 2:
            before += tl.load(sum_ptr + 2 * back + 1)
            back = -1
        elif status == 1:
            before += tl.load(sum_ptr + 2 * back)
            back -= 1
    tl.store(sum_ptr + 2 * program + 1, before + own)
    tl.atomic_xchg(status_ptr + program, 2)
    tl.store(out_ptr + lanes, before + tl.cumsum(x))


@triton.jit
def counts_its_waiting(flag_ptr, tries_ptr):
    """Program 0 changes memory as it waits for the last one."""
    program = tl.program_id(0)
    if program == tl.num_programs(0) - 1:
        tl.atomic_xchg(flag_ptr, 1)
    elif program == 0:
        while tl.load(flag_ptr, volatile=True) == 0:
            tl.atomic_add(tries_ptr, 1)


@triton.jit
def gives_up(flag_ptr, tries_ptr, n):
    """Waits for what no one does, n times at most."""
    program = tl.program_id(0)
    tries = 0
    while (tl.load(flag_ptr, volatile=True) == 0) & (tries < n):  # WAITS: gives_up
        tries += 1
    tl.store(tries_ptr + program, tries)


@triton.jit
def acquire(lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) != 0:  # WAITS: in acquire
        pass


@triton.jit
def two_locks(lock_ptr, meet_ptr):
    """Programs 0 and 1 take two locks, each the other's first one."""
    program = tl.program_id(0)
    if program < 2:
        acquire(lock_ptr + program)
        tl.atomic_add(meet_ptr, 1)
        while tl.atomic_add(meet_ptr, 0) < 2:
            pass
        acquire(lock_ptr + 1 - program)  # WAITS: two_locks
        tl.atomic_xchg(lock_ptr + program, 0)
        tl.atomic_xchg(lock_ptr + 1 - program, 0)


@triton.jit
def never_released(lock_ptr, x_ptr):
    program = tl.program_id(0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # WAITS: never_released
        pass
    x = tl.load(x_ptr)
    tl.store(x_ptr, x + 1)
    if program != 2:
        tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def goes_in_circles(flag_ptr):
    """Its variables change from turn to turn, and come back."""
    turn = 0
    while tl.load(flag_ptr, volatile=True) == 0:  # WAITS: goes_in_circles
        turn = (turn + 1) % 7


@triton.jit
def counts_for_ever(flag_ptr, tries_ptr):
    tries = 0
    while tl.load(flag_ptr + tl.program_id(0), volatile=True) == 0:  # WAITS: counts_for_ever
        tries += 1
    tl.store(tries_ptr, tries)


@triton.jit
def faults_while_waiting(flag_ptr, n):
    """Program 1 looks at one flag after the other, beyond the last."""
    program = tl.program_id(0)
    place = n * 0
    while tl.atomic_add(flag_ptr + place, 0) == 0:  # FAULT: faults_while_waiting
        place += program


@triton.jit
def gives_up_beyond_the_end(flag_ptr, tries_ptr, n):
    tries = 1
    while (tl.atomic_add(flag_ptr + tries, 0) == 0) & (tries < n):  # FAULT: gives_up_beyond_the_end
        tries += 1
    tl.store(tries_ptr, tries)  # RACE: gives_up_beyond_the_end


@triton.jit
def follows_links(next_ptr, out_ptr):
    """A `while` on loaded values that waits for no one."""
    program = tl.program_id(0)
    node, steps = program, 0
    while node >= 0:
        node = tl.load(next_ptr + node)
        steps += 1
    tl.store(out_ptr + program, steps)


@triton.jit(noinline=True)
def acquire_out_of_line(lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) != 0:
        pass


@triton.jit
def locked_out_of_line(lock_ptr, order_ptr, count_ptr):
    """Programs enter backwards: each waits for the one after it before it takes the lock."""
    program = tl.program_id(0)
    while tl.atomic_add(count_ptr, 0) != tl.num_programs(0) - 1 - program:
        pass
    acquire_out_of_line(lock_ptr)
    tl.store(order_ptr + tl.load(count_ptr), program)
    tl.atomic_xchg(lock_ptr, 0)
    tl.atomic_add(count_ptr, 1)


@triton.jit
def locked_by_address(locks_ptr, total_ptr, RELEASES: tl.constexpr):
    """The lock is one of a list of pointers."""
    program = tl.program_id(0)
    lock = tl.load(locks_ptr + program % 2).to(tl.pointer_type(tl.int32))
    while tl.atomic_cas(lock, 0, 1) != 0:  # WAITS: locked_by_address
        pass
    tl.store(total_ptr + program % 2, tl.load(total_ptr + program % 2) + 1)
    if RELEASES:
        tl.atomic_xchg(lock, 0)
