# mypy: ignore-errors
"""Honest submissions with unusual kernels or Python; their names begin with the task's."""

import contextlib
import enum
import functools
import importlib.util
import logging
import tempfile
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.extra import libdevice


def rows(kernel, *, like=torch.empty_like, programs=len, **options):
    """Return a function that launches a kernel for each row of a matrix."""

    def launched(x):
        x = x.contiguous()
        z, block = like(x), triton.next_power_of_2(x.shape[1])
        sizes = {"M": len(x)} if "M" in kernel.arg_names else {}
        kernel[(programs(x),)](x, z, x.shape[1], BLOCK=block, **sizes, **options)
        return z

    return launched


def one_for_each_row(x):
    return torch.zeros(len(x), device=x.device)


@rows
@triton.jit
def softmax_by_block_pointers(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * N
    source = tl.make_block_ptr(x_ptr + row, (N,), (1,), (0,), (BLOCK,), (0,))
    x = tl.load(source, boundary_check=(0,))
    x = tl.where(tl.arange(0, BLOCK) < N, x, float("-inf"))
    target = tl.make_block_ptr(z_ptr + row, (N,), (1,), (0,), (BLOCK,), (0,))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(target, e / tl.sum(e, 0), boundary_check=(0,))


@rows
@triton.jit
def softmax_by_powers_of_two(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < N, other=-1e30) * 1.4426950408889634
    e = tl.exp2(x - tl.max(x, 0))
    tl.store(z_ptr + row + at, e / tl.sum(e, 0), mask=at < N)


@rows
@triton.jit
def softmax_by_libdevice(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < N, other=float("-inf"))
    e = libdevice.exp(x - tl.max(x, 0))
    tl.store(z_ptr + row + at, libdevice.div_rn(e, tl.sum(e, 0)), mask=at < N)


@triton.jit
def joined(m, t, n, u):
    most = tl.maximum(m, n)
    return most, t * tl.exp(m - most) + u * tl.exp(n - most)


@rows
@triton.jit
def softmax_by_a_reduction_of_pairs(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < N, other=-1e30)
    most, total = tl.reduce((x, tl.full((BLOCK,), 1.0, tl.float32)), 0, joined)
    tl.store(z_ptr + row + at, tl.exp(x - most) / total, mask=at < N)


@rows
@triton.jit
def softmax_with_hints(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 2)
    tl.assume(N > 0)
    row, at = tl.program_id(0) * N, tl.max_contiguous(tl.arange(0, BLOCK), BLOCK)
    tl.device_assert(row >= 0, "a row")
    x = tl.load(x_ptr + row + at, mask=at < N, other=float("-inf"), eviction_policy="evict_first")
    tl.debug_barrier()
    e = tl.exp(x - tl.max(x, 0, return_indices=False))
    tl.store(z_ptr + row + at, e / tl.sum(e, 0), mask=at < N, cache_modifier=".cs")


@functools.partial(rows, programs=lambda x: x.shape[0] + 5)
@triton.jit
def softmax_by_more_programs_than_rows(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.num_programs(0) - 1 - tl.program_id(0), tl.arange(0, BLOCK)
    if row >= tl.num_programs(0) - 5:
        return
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(z_ptr + row * N + at, e / tl.sum(e, 0), mask=at < N)


@rows
@triton.jit
def softmax_in_loops_of_every_kind(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at, most, total, start = tl.program_id(0) * N, tl.arange(0, 4), -1e30, 0.0, 0
    for part in tl.static_range(0, BLOCK, 4):
        x = tl.load(x_ptr + row + part + at, mask=part + at < N, other=-1e30)
        most = tl.maximum(most, tl.max(x, 0))
    while start < N:
        x = tl.load(x_ptr + row + start + at, mask=start + at < N, other=-1e30)
        total += tl.sum(tl.exp(x - most), 0)
        start += 4
    for part in tl.range(0, N, 4, num_stages=3, loop_unroll_factor=2):
        x = tl.load(x_ptr + row + part + at, mask=part + at < N)
        tl.store(z_ptr + row + part + at, tl.exp(x - most) / total, mask=part + at < N)


@triton.jit(noinline=True)
def start_of(row, N):
    return row * N


@triton.jit
def by_exponential(x):
    return tl.exp(x)


@functools.partial(rows, FUNCTION=by_exponential)
@triton.jit
def softmax_by_a_function_that_is_given(
    x_ptr, z_ptr, N, BLOCK: tl.constexpr, FUNCTION: tl.constexpr
):
    row, at = start_of(tl.program_id(0), N), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < N, other=float("-inf"))
    e = FUNCTION(x - tl.max(x, 0))
    tl.store(z_ptr + row + at, e / tl.sum(e, 0), mask=at < N)


@functools.partial(rows, programs=lambda x: triton.cdiv(x.shape[0], 4))
@triton.jit
def softmax_by_four_rows(x_ptr, z_ptr, N, BLOCK: tl.constexpr, M):
    row, at = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None], tl.arange(0, BLOCK)[None, :]
    mask = (row < M) & (at < N)
    x = tl.load(x_ptr + row * N + at, mask=mask, other=-1e30)
    e = tl.exp(x - tl.max(x, 1, keep_dims=True))
    tl.store(z_ptr + row * N + at, e / tl.sum(e, 1)[:, None], mask=mask)


@triton.jit
def of_a_pair(pair, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    x = tl.load(pair[0] + row + at, mask=at < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(pair[1] + row + at, e / tl.sum(e, 0), mask=at < N)


def softmax_of_a_pair_of_pointers(x):
    x = x.contiguous()
    z = torch.empty_like(x)
    of_a_pair[(len(x),)]((x, z), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return z


@triton.jit
def queued(x_ptr, z_ptr, queue_ptr, M, N, BLOCK: tl.constexpr):
    at, row = tl.arange(0, BLOCK), tl.atomic_add(queue_ptr, 1)
    while row < M:
        x = tl.load(x_ptr + row * N + at, mask=at < N, other=float("-inf"))
        e = tl.exp(x - tl.max(x, 0))
        tl.store(z_ptr + row * N + at, e / tl.sum(e, 0), mask=at < N)
        row = tl.atomic_add(queue_ptr, 1)


def softmax_by_a_queue_of_rows(x):
    x, queue = x.contiguous(), torch.zeros(1, device=x.device, dtype=torch.int32)
    z = torch.empty_like(x)
    queued[(4,)](x, z, queue, *x.shape, BLOCK=triton.next_power_of_2(x.shape[1]))
    return z


@rows
@gluon.jit
def softmax_in_gluon(x_ptr, z_ptr, N, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    row, at = gl.program_id(0) * N, gl.arange(0, BLOCK, layout=layout)
    x = gl.load(x_ptr + row + at, mask=at < N, other=float("-inf"))
    e = gl.exp(x - gl.max(x, 0))
    gl.store(z_ptr + row + at, e / gl.sum(e, 0), mask=at < N)


@functools.partial(rows, like=one_for_each_row, programs=lambda x: 5 * len(x))
@triton.jit
def total_by_atomics(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, part = tl.program_id(0) // 5, tl.program_id(0) % 5
    for start in range(part * 4, N, 20):
        at = start + tl.arange(0, 4)
        x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
        tl.atomic_add(z_ptr + row, tl.sum(x, 0), sem="relaxed")


@functools.partial(rows, like=one_for_each_row)
@triton.jit
def total_with_compensation(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, total, lost = tl.program_id(0), 0.0, 0.0
    for at in range(N):
        y = tl.load(x_ptr + row * N + at) - lost
        now = total + y
        lost = (now - total) - y
        total = now
    tl.store(z_ptr + row, total)


@functools.partial(rows, like=one_for_each_row, programs=lambda x: 1)
@triton.jit
def total_by_a_dot_with_ones(x_ptr, z_ptr, N, BLOCK: tl.constexpr, M):
    row, at = tl.arange(0, 16), tl.arange(0, BLOCK)
    mask = (row < M)[:, None] & (at < N)[None, :]
    x = tl.load(x_ptr + row[:, None] * N + at[None, :], mask=mask, other=0.0)
    sums = tl.dot(x, tl.full((BLOCK, 16), 1.0, tl.float32), input_precision="ieee")
    tl.store(z_ptr + row, tl.max(sums, 1), mask=row < M)


@functools.partial(rows, like=one_for_each_row)
@triton.jit
def total_of_bits(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    bits = tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + row * N + at, mask=at < N, other=0)
    tl.store(z_ptr + row, tl.sum(bits.to(tl.float32, bitcast=True), 0))


@triton.jit
def summed(x_ptr, part_ptr, count_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    tl.store(part_ptr + row * parts + part, tl.sum(x, 0))
    if tl.atomic_add(count_ptr + row, 1, sem="acq_rel") == parts - 1:
        all = tl.arange(0, 16)
        own = tl.load(part_ptr + row * parts + all, mask=all < parts, other=0.0)
        tl.store(z_ptr + row, tl.sum(own, 0))


def total_by_the_last_program(x):
    x, count = x.contiguous(), torch.zeros(len(x), device=x.device, dtype=torch.int32)
    parts, z = triton.cdiv(x.shape[1], 8), torch.empty(len(x), device=x.device)
    part = torch.empty(len(x), parts, device=x.device)
    summed[(len(x), parts)](x, part, count, z, x.shape[1], BLOCK=8)
    return z


@triton.jit
def halved(x_ptr, z_ptr, N, M):
    row, at = tl.program_id(0), tl.program_id(1)
    x = tl.load(x_ptr + row * N + 2 * at)
    tl.store(z_ptr + row * M + at, x + tl.load(x_ptr + row * N + 2 * at + 1, 2 * at + 1 < N, 0.0))


def total_by_a_tree_of_launches(x):
    x = x.contiguous()
    while x.shape[1] > 1:
        z = torch.empty(len(x), triton.cdiv(x.shape[1], 2), device=x.device)
        halved[z.shape](x, z, x.shape[1], z.shape[1])
        x = z
    return x.squeeze(1)


@triton.jit
def largest(x_ptr, z_ptr, i_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=float("-inf"))
    most, place = tl.max(x, 0, return_indices=True)
    tl.store(z_ptr + row, most)
    tl.store(i_ptr + row, place)


def best_with_indices(x):
    x, z = x.contiguous(), torch.empty(len(x), device=x.device)
    places = torch.empty(len(x), device=x.device, dtype=torch.int64)
    largest[(len(x),)](x, z, places, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return namedtuple("Best", "values indices")(z, places)


@triton.jit
def looking_back(x_ptr, z_ptr, sum_ptr, ready_ptr, N, BLOCK: tl.constexpr):
    row, part, parts = tl.program_id(1), tl.program_id(0), tl.num_programs(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.cumsum(tl.load(x_ptr + row * N + at, mask=at < N, other=0.0), 0)
    before = 0.0
    if part > 0:
        while tl.atomic_add(ready_ptr + row * parts + part - 1, 0) == 0:
            pass
        before = tl.load(sum_ptr + row * parts + part - 1, volatile=True)
    last = tl.arange(0, BLOCK) == BLOCK - 1
    tl.store(sum_ptr + row * parts + part, before + tl.sum(tl.where(last, x, 0.0), 0))
    tl.debug_barrier()
    tl.atomic_xchg(ready_ptr + row * parts + part, 1)
    tl.store(z_ptr + row * N + at, before + x, mask=at < N)


def scan_that_looks_back(x):
    x, parts = x.contiguous(), triton.cdiv(x.shape[1], 8)
    z, sums = torch.empty_like(x), torch.empty(len(x), parts, device=x.device)
    ready = torch.zeros(len(x), parts, device=x.device, dtype=torch.int32)
    looking_back[(parts, len(x))](x, z, sums, ready, x.shape[1], BLOCK=8)
    return z


@functools.partial(rows, like=lambda x: torch.empty_like(x, dtype=torch.bool))
@triton.jit
def positive_as_a_mask(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    tl.store(z_ptr + row + at, tl.load(x_ptr + row + at, mask=at < N) > 0, mask=at < N)


@triton.jit
def of_labels(x_ptr, y_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=float("-inf"))
    most = tl.max(x, 0)
    own = tl.load(x_ptr + row * N + tl.load(y_ptr + row))
    tl.store(z_ptr + row, tl.log(tl.sum(tl.exp(x - most), 0)) + most - own)


def loss_of_labels(x, y):
    x, z = x.contiguous(), torch.empty(len(x), device=x.device)
    of_labels[(len(x),)](x, y, z, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return z


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, z_ptr, N, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    d, m = tl.arange(0, D), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place, far = m[:, None] * D + d[None, :], float("-inf")
    q = tl.load(q_ptr + place, mask=m[:, None] < N, other=0.0) * scale
    most, total = tl.full((BLOCK,), far, tl.float32), tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < N, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < N, other=0.0)
        s = tl.where(n[None, :] < N, tl.dot(q, k, input_precision="ieee"), far)
        now = tl.maximum(most, tl.max(s, 1))
        p, less = tl.exp(s - now[:, None]), tl.exp(most - now)
        total, most = total * less + tl.sum(p, 1), now
        acc = acc * less[:, None] + tl.dot(p, v, input_precision="ieee")
    tl.store(z_ptr + place, acc / total[:, None], mask=m[:, None] < N)


def attention_in_one_pass(q, k, v):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    z = torch.empty_like(q)
    if q.shape[1] != 16:
        raise ValueError("16 columns")
    attend[(triton.cdiv(len(q), 16),)](q, k, v, z, len(q), 0.25, D=16, BLOCK=16)
    return z


@triton.jit
def described(x_ptr, z_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [ROWS, BLOCK])
    z = tl.make_tensor_descriptor(z_ptr, [M, N], [N, 1], [ROWS, BLOCK])
    at = tl.program_id(0) * ROWS
    z.store([at, 0], x.load([at, 0]) * 2)


def double_by_descriptors_of_the_device(x):
    if x.shape[1] % 4:
        raise ValueError("rows must be whole multiples of 16 bytes")
    x = x.contiguous()
    z = torch.empty_like(x)
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda"))
    described[(triton.cdiv(len(x), 16),)](x, z, *x.shape, ROWS=16, BLOCK=32)
    return z


@triton.jit
def twice(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def image_in_channels_last(x):
    x = x.contiguous(memory_format=torch.channels_last)
    z = torch.empty_like(x, memory_format=torch.preserve_format)
    twice[(triton.cdiv(x.numel(), 64),)](x, z, x.numel(), BLOCK=64)
    return z


def complex_as_pairs(x):
    z = torch.empty(x.shape, device=x.device, dtype=x.dtype)
    pairs = torch.view_as_real(x.contiguous())
    twice[(1,)](pairs, torch.view_as_real(z), pairs.numel(), BLOCK=256)
    return z


def half_by_its_own_type(x):
    z = torch.empty_like(x)
    twice[(1,)](x, z, x.numel(), BLOCK=512)
    return z


@triton.jit
def each_of(table_ptr, z_ptr, n, N, BLOCK: tl.constexpr):
    which, at = tl.program_id(0), tl.arange(0, BLOCK)
    x_ptr = tl.load(table_ptr + which).to(tl.pointer_type(tl.float32))
    tl.store(z_ptr + which * N + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def stacked_by_a_table_of_pointers(x, y):
    x, y = x.contiguous(), y.contiguous()
    table = torch.tensor([x.data_ptr(), y.data_ptr()], device=x.device)
    z = torch.empty(2, len(x), device=x.device)
    each_of[(2,)](table, z, len(x), len(x), BLOCK=512)
    return z


@rows
@triton.jit
def plain(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(z_ptr + row + at, e / tl.sum(e, 0), mask=at < N)


kernel = plain.__closure__[0].cell_contents


def softmax_by_run(x):
    x = x.contiguous()
    z, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    kernel.run(x, z, x.shape[1], BLOCK=block, grid=(len(x),), warmup=False)
    return z


softmax_by_a_partial = functools.partial(plain)


@torch.library.custom_op("unusual::softmax", mutates_args=())
def softmax_as_a_custom_operation(x: torch.Tensor) -> torch.Tensor:
    return plain(x)


@torch.library.triton_op("unusual::wrapped", mutates_args=())
def softmax_as_a_triton_operation(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    z, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    torch.library.wrap_triton(kernel)[(len(x),)](x, z, x.shape[1], BLOCK=block)
    return z


SOURCE = """
import triton, triton.language as tl
@triton.jit
def made(x_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(z_ptr + row + at, e / tl.sum(e, 0), mask=at < N)
"""


@functools.lru_cache
def made():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "made.py")
        file.write_text(SOURCE)
        spec = importlib.util.spec_from_file_location("made", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return rows(module.made)


def softmax_of_a_generated_file(x):
    return made()(x)


@torch.inference_mode()
def softmax_in_inference_mode(x):
    with torch.autocast("cuda"):
        return plain(x)


def softmax_in_a_thread(x):
    x = x.contiguous()
    z, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    options = {"BLOCK": block}
    thread = threading.Thread(target=kernel[(len(x),)], args=(x, z, x.shape[1]), kwargs=options)
    thread.start()
    thread.join()
    return z


def softmax_after_a_config_that_fails(x):
    with contextlib.suppress(Exception):
        return rows(kernel, num_warps=3)(x)
    return rows(kernel, num_warps=4)(x)


def to_zero(arguments):
    arguments["z_ptr"].zero_()


configs = [triton.Config({}, num_warps=w, pre_hook=to_zero) for w in (1, 2)]
tuned = triton.autotune(
    configs,
    key=["N"],
    reset_to_zero=["z_ptr"],
    prune_configs_by={"early_config_prune": lambda c, *_, **__: c[:1]},
)(kernel)
softmax_by_an_autotuner_with_hooks = rows(tuned)


def softmax_timed_by_hand(x):
    warps = min((1, 2), key=lambda w: triton.testing.do_bench(lambda: rows(kernel, num_warps=w)(x)))
    return rows(kernel, num_warps=warps)(x)


def softmax_of_a_kernel_compiled_before(x):
    x = x.contiguous()
    z, block = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    compiled = kernel.warmup(x, z, x.shape[1], BLOCK=block, grid=(1,))
    compiled._init_handles()
    assert compiled.n_regs * 32 * compiled.metadata.num_warps <= 65536 > compiled.metadata.shared
    compiled[(len(x), 1, 1)](x, z, x.shape[1], block)
    return z


@triton.jit
def by_address(x, z, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    kind: tl.constexpr = tl.pointer_type(tl.float32)
    x = tl.load(x.to(kind) + row + at, mask=at < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(z.to(kind) + row + at, e / tl.sum(e, 0), mask=at < N)


def softmax_of_addresses(x):
    x, block = x.contiguous(), triton.next_power_of_2(x.shape[1])
    z = torch.empty_like(x)
    by_address[(len(x),)](x.data_ptr(), z.data_ptr(), x.shape[1], BLOCK=block)
    return z


def softmax_of_rows_in_another_order(x):
    order = torch.arange(len(x) - 1, -1, -1, device=x.device)
    return plain(torch.rot90(x[order], 2).flip(1)).index_select(0, order.flip(0))


def softmax_by_the_device(x):
    major, _ = torch.cuda.get_device_capability(x.device)
    shared = torch.cuda.get_device_properties(0).shared_memory_per_block
    warps = 8 if major >= 9 and shared >= 1 << 14 else 4
    assert x.data_ptr() % 4 == 0
    return rows(kernel, num_warps=warps, num_stages=1 + (x.element_size() == 4))(x)


def softmax_with_clocks_and_logs(x):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begun = time.perf_counter()
    start.record()
    z = plain(x)
    end.record()
    z.record_stream(torch.cuda.current_stream())
    logging.getLogger("softmax").debug("took %s", time.perf_counter() - begun)
    return z


def softmax_in_a_workspace_of_bytes(x):
    x, count = x.contiguous(), x.numel()
    space = torch.empty(8 * count + 512, device=x.device, dtype=torch.uint8)
    z = space[256 : 256 + 4 * count].view(torch.float32).view(x.shape)
    kernel[(len(x),)](x, z, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return z


def softmax_of_a_padded_copy(x):
    wide = torch.nn.functional.pad(x, (0, 12), value=-torch.inf)
    return plain(wide)[:, : x.shape[1]]


def softmax_of_a_flipped_copy(x):
    return plain(x.flip(0).roll(2, 1)).roll(-2, 1).flip(0)


def softmax_by_a_dictionary(x):
    return {"probabilities": plain(x)}


def softmax_into_an_argument(x, out=None):
    out = torch.empty_like(x) if out is None else out
    return out.copy_(plain(x))


def softmax_of_detached_data(x):
    return plain(x.detach().data.requires_grad_(False))


@triton.jit
def weighted(x_ptr, w_ptr, z_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    tl.store(z_ptr + row, tl.sum(x * tl.load(w_ptr + at, mask=at < N, other=0.0), 0))


def decay_by_a_table(x):
    x, z = x.contiguous(), torch.empty(len(x), device=x.device)
    table = torch.exp(-torch.arange(x.shape[1], device=x.device) / 8)
    weighted[(len(x),)](x, table, z, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return z


_tables = {}


def decay_by_a_kept_table(x):
    x, z, n = x.contiguous(), torch.empty(len(x), device=x.device), x.shape[1]
    if n not in _tables:
        _tables[n] = torch.linspace(0, -(n - 1) / 8, n, device=x.device).exp_()
    weighted[(len(x),)](x, _tables[n], z, n, BLOCK=triton.next_power_of_2(n))
    return z


def softmax_of_marked_rows(x):
    return plain(x[torch.ones(len(x), dtype=torch.bool, device=x.device)])


def softmax_in_a_pool(x):
    with ThreadPoolExecutor(1) as pool:
        return torch.cat([*pool.map(plain, x.split(3))])


class Size(enum.IntEnum):
    WARPS = 2


@rows
@triton.jit
def scaled(x_ptr, z_ptr, N, BLOCK: tl.constexpr, factor=1.0):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < N, other=float("-inf")) * factor
    e = tl.exp(x - tl.max(x, 0))
    tl.store(z_ptr + row + at, e / tl.sum(e, 0), mask=at < N)


def softmax_with_numbers_of_numpy(x):
    launched = scaled.__closure__[0].cell_contents
    return rows(launched, factor=numpy.sqrt(1.0), num_warps=Size.WARPS)(x)


def softmax_of_a_table_of_rows(x):
    x = x.contiguous()
    z = torch.empty_like(x)
    table = numpy.array([t.untyped_storage().data_ptr() for t in (x, z)])
    by_table[(len(x),)](torch.from_numpy(table).to(x.device), x.shape[1], BLOCK=32)
    return z


@triton.jit
def by_table(table_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * N, tl.arange(0, BLOCK)
    kind: tl.constexpr = tl.pointer_type(tl.float32)
    x = tl.load(tl.load(table_ptr).to(kind) + row + at, mask=at < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(tl.load(table_ptr + 1).to(kind) + row + at, e / tl.sum(e, 0), mask=at < N)


def softmax_of_sizes_in_a_tensor(x):
    sizes = torch.tensor(x.shape)
    block = triton.next_power_of_2(int(sizes.max()))
    z = torch.empty(sizes.tolist(), device=x.device)
    kernel[(int(sizes[0]),)](x.contiguous(), z, int(sizes[1]), BLOCK=block)
    return z
