"""Programs and lanes in no order: kernels that were written from the page alone."""

import torch
import triton
import triton.language as tl

from tests.checker.unseen.far_helpers import put
from tests.checker.unseen.twins import call, twins

# fmt: off


# stream-K: two programs finish one tile, both through the helper's store
@triton.jit
def streamk(a, y, total, TILE: tl.constexpr, PER: tl.constexpr, OK: tl.constexpr):
    first = tl.program_id(0) * PER
    last = tl.minimum(first + PER, total)
    it = first
    while it < last:
        tile = it // TILE
        end = tl.minimum((tile + 1) * TILE, last)
        s = 0.0
        while it < end:
            s += tl.load(a + it)
            it += 1
        if OK:
            tl.atomic_add(y + tile, s)
        else:
            put(y, tile, s, True)


twins(lambda ok: call(streamk, (4,), torch.randn(24), torch.zeros(4), 24, TILE=6, PER=7, OK=ok), lambda launch: {1: launch.args[0].view(4, 6).sum(1)})


# decoupled look-back: value is written after the flag
@triton.jit
def lookback(x, agg, flag, y, B: tl.constexpr, OK: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + p * B + i)
    mine = tl.sum(v, 0)
    before = 0.0
    if p > 0:
        while tl.atomic_add(flag + p - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(agg + p - 1)
    if OK:
        tl.store(agg + p, before + mine)
        tl.atomic_xchg(flag + p, 1, sem="release")
    else:
        tl.atomic_xchg(flag + p, 1, sem="release")
        tl.store(agg + p, before + mine)  # fault: race
    tl.store(y + p * B + i, before + tl.cumsum(v, 0))


twins(lambda ok: call(lookback, (5,), torch.randn(40), torch.zeros(5), torch.zeros(5, dtype=torch.int32), torch.empty(40), B=8, OK=ok), lambda launch: {3: launch.args[0].cumsum(0)})


# red-black update where black and red are mixed up
@triton.jit
def gauss_seidel(u, n, color, B: tl.constexpr):
    i = 1 + tl.program_id(0) * B + tl.arange(0, B)
    m = (i < n - 1) & ((i % 2) == color) if color >= 0 else (i < n - 1)
    new = 0.5 * (tl.load(u + i - 1, m, 0.0) + tl.load(u + i + 1, m, 0.0))
    tl.store(u + i, new, m)  # fault: race


@triton.jit
def gauss_any(u, n, B: tl.constexpr):
    i = 1 + tl.program_id(0) * B + tl.arange(0, B)
    m = i < n - 1
    new = 0.5 * (tl.load(u + i - 1, m, 0.0) + tl.load(u + i + 1, m, 0.0))
    tl.store(u + i, new, m)  # fault: race


def _gs(ok):
    u = torch.randn(34)
    return call(gauss_seidel, (4,), u, 34, 1, B=8) if ok else call(gauss_any, (4,), u, 34, B=8)


def _gs_ref(launch):
    u = launch.args[0].clone()
    u[1:-1:2] = 0.5 * (u[0:-2:2] + u[2::2])
    return {0: u}


twins(_gs, _gs_ref)


# ticket lock whose ticket is served relaxed
@triton.jit
def ticket_lock(x, acc, nxt, serving, B: tl.constexpr, SEM: tl.constexpr):
    i = tl.arange(0, B)
    my = tl.atomic_add(nxt, 1, sem="relaxed")
    while tl.atomic_add(serving, 0, sem=SEM) != my:
        pass
    tl.store(acc + i, tl.load(acc + i) + tl.load(x + tl.program_id(0) * B + i))  # fault: race
    tl.debug_barrier()
    tl.atomic_add(serving, 1)


twins(lambda ok: call(ticket_lock, (4,), torch.randn(4, 8), torch.zeros(8), torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), B=8, SEM="acquire" if ok else "relaxed"),
      lambda launch: {1: launch.args[0].sum(0)})


# MoE permutation: rank within expert is missing
@triton.jit
def moe_place(expert, start, slot_of, B: tl.constexpr, E: tl.constexpr, OK: tl.constexpr):
    t = tl.arange(0, B)
    e = tl.load(expert + t)
    onehot = (e[:, None] == tl.arange(0, E)[None, :]).to(tl.int32)
    rank = tl.sum(tl.cumsum(onehot, 0) * onehot, 1) - 1
    if not OK:
        rank = rank // 2
    tl.store(slot_of + tl.load(start + e) + rank, t)  # fault: lane-collision


def _moe(ok):
    e = torch.tensor([0, 1, 1, 0, 3, 1, 2, 3], dtype=torch.int32)
    return call(moe_place, (1,), e, torch.tensor([0, 2, 5, 6], dtype=torch.int32), torch.zeros(8, dtype=torch.int32), B=8, E=4, OK=ok)


twins(_moe,
     lambda launch: {2: torch.sort(launch.args[0], stable=True).indices.int()})


# transposed store with the tile's own extent for a pitch; equal clamps in the twin
@triton.jit
def clamp_edges(x, y, n, m, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.minimum(i, n - 1)
    if OK:
        v = tl.load(x + j)
    else:
        v = tl.load(x + tl.minimum(i, m - 1))
    tl.store(y + j, v)  # fault: lane-collision


twins(lambda ok: call(clamp_edges, (1,), torch.arange(16.), torch.empty(10), 10, 16, B=16, OK=ok), lambda launch: {1: launch.args[0][:10]})


# grid of segments: load, add a broadcast, store; twice the same key in a 2-D tile
@triton.jit
def segment2d(keys, vals, acc, R: tl.constexpr, C: tl.constexpr, OK: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    k = tl.load(keys + r)
    p = acc + k * C + c
    v = tl.load(vals + r * C + c)
    if OK:
        tl.atomic_add(p, v)
    else:
        t = tl.load(p)
        t += v
        tl.store(p, t)  # fault: lost-update


twins(lambda ok: call(segment2d, (1,), torch.tensor([2, 0, 2, 1]), torch.randn(4, 8), torch.zeros(3, 8), R=4, C=8, OK=ok),
     lambda launch: {2: torch.zeros(3, 8).index_add(0, launch.args[0], launch.args[1])})


# lost decrement with a where
@triton.jit
def drain(stock, order, B: tl.constexpr, OK: tl.constexpr):
    o = tl.load(order + tl.arange(0, B))
    live = o >= 0
    if OK:
        tl.atomic_add(stock + o, -1, mask=live)
    else:
        left = tl.load(stock + o, mask=live, other=0)
        tl.store(stock + o, left - tl.where(live, 1, 0), mask=live)  # fault: lost-update


twins(lambda ok: call(drain, (1,), torch.full((4,), 10, dtype=torch.int32), torch.tensor([0, 1, -1, 1, 3, 3, -1, 1]), B=8, OK=ok), lambda launch: {0: torch.tensor([9, 7, 10, 8]).int()})


# work queue: rows get the ticket's number
@triton.jit
def queue(x, y, head, n, B: tl.constexpr, OK: tl.constexpr):
    c = tl.arange(0, B)
    t = tl.atomic_add(head, 1)
    turn = 0
    while t < n:
        v = tl.load(x + t * B + c)
        tl.store(y + t * B + c, v * (1 if OK else (1 + tl.program_id(0))))  # fault: order-dependence
        t = tl.atomic_add(head, 1)
        turn += 1


twins(lambda ok: call(queue, (3,), torch.randn(7, 8), torch.empty(7, 8), torch.zeros(1, dtype=torch.int32), 7, B=8, OK=ok), lambda launch: {1: launch.args[0].clone()})


# early exit: a flag that others raise decides how much is done
@triton.jit
def first_hit(x, found, work, B: tl.constexpr, OK: tl.constexpr):
    p = tl.program_id(0)
    v = tl.load(x + p * B + tl.arange(0, B))
    seen = tl.atomic_or(found, 0)
    hit = tl.max((v > 2.0).to(tl.int32), 0)
    if hit == 1:
        tl.atomic_or(found, 1)
    if OK:
        tl.store(work + p, hit)
    else:
        tl.store(work + p, hit + 10 * seen)  # fault: order-dependence


def _fh(ok):
    x = torch.rand(6, 8)
    x[2, 5] = 3
    return call(first_hit, (6,), x, torch.zeros(1, dtype=torch.int32), torch.zeros(6, dtype=torch.int32), B=8, OK=ok)


twins(_fh, lambda launch: {2: (launch.args[0] > 2).any(1).int()})


# a semaphore that counts to one too few places back
@triton.jit
def pipeline(x, ring, full, empty, y, n, SLOTS: tl.constexpr, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    if tl.program_id(0) == 0:
        for t in range(n):
            s = t % SLOTS
            while tl.atomic_add(empty + s, 0) < t // SLOTS:  # fault: deadlock
                pass
            tl.store(ring + s * B + i, tl.load(x + t * B + i))
            tl.atomic_add(full + s, 1)
    else:
        for t in range(n):
            s = t % SLOTS
            while tl.atomic_add(full + s, 0) <= t // SLOTS:
                pass
            tl.store(y + t * B + i, tl.load(ring + s * B + i) * 2)
            if OK:
                tl.atomic_add(empty + s, 1)
            else:
                if s != SLOTS - 1:
                    tl.atomic_add(empty + s, 1)


def _pi(ok):
    full, empty = torch.zeros(2, 3, dtype=torch.int32)
    return call(pipeline, (2,), torch.randn(8, 4), torch.zeros(3, 4), full, empty, torch.empty(8, 4), 8, SLOTS=3, B=4, OK=ok)


twins(_pi, lambda launch: {4: launch.args[0] * 2})


# reader and writer lock, with a reader that comes back
@triton.jit
def reenter(x, o, lock, OK: tl.constexpr):
    p = tl.program_id(0)
    while tl.atomic_cas(lock, 0, p + 1, sem="acquire") != 0:
        pass
    v = tl.load(o)
    if v + tl.load(x + p) > 2.0:
        if not OK:
            while tl.atomic_cas(lock, 0, p + 1, sem="acquire") != 0:  # fault: deadlock
                pass
    tl.store(o, v + tl.load(x + p))
    tl.atomic_xchg(lock, 0, sem="release")


twins(lambda ok: call(reenter, (4,), torch.ones(4), torch.zeros(1), torch.zeros(1, dtype=torch.int32), OK=ok), lambda launch: {1: torch.tensor([4.0])})


# a stride that becomes 0
@triton.jit
def tree_sum(x, o, n, B: tl.constexpr, OK: tl.constexpr):
    acc = 0.0
    step = 8
    at = 0
    while at < n:  # fault: endless-loop
        acc += tl.load(x + at)
        if OK:
            step = tl.maximum(step // 2, 1)
        else:
            step = step // 2
        at += step
    tl.store(o, acc)


def _ts2_ref(launch):
    at, step, k = 0, 8, 0
    while at < 20:
        k += 1
        step = max(step // 2, 1)
        at += step
    return {1: torch.tensor([float(k)])}


twins(lambda ok: call(tree_sum, (1,), torch.ones(20), torch.zeros(1), 20, B=1, OK=ok),
      _ts2_ref)


# wrong result by an off-by-one of a causal mask
def _tri(q, k):
    s = q @ k.T
    return s.masked_fill(torch.ones_like(s).triu(1).bool(), 0.0)


@triton.jit
def causal_scores(q, k, s, N, D: tl.constexpr, B: tl.constexpr, OK: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    d = tl.arange(0, D)
    a = tl.load(q + i[:, None] * D + d[None, :])
    b = tl.load(k + j[None, :] * D + d[:, None])
    t = tl.dot(a, b, input_precision="ieee")
    keep = (i[:, None] >= j[None, :]) if OK else (i[:, None] > j[None, :])
    tl.store(s + i[:, None] * N + j[None, :], tl.where(keep, t, 0.0))  # fault: wrong-result


twins(lambda ok: call(causal_scores, (2, 2), torch.randn(32, 16), torch.randn(32, 16), torch.empty(32, 32), 32, D=16, B=16, OK=ok, expect=_tri), lambda launch: {2: _tri(*launch.args[:2])})


# seqlock: the reader that trusts the version of before
@triton.jit
def seqlock(ver, data, out, tries: tl.constexpr, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.atomic_add(ver, 1)
        tl.store(data + i, 5.0 + i)  # fault: race
        tl.debug_barrier()
        tl.atomic_add(ver, 1)
    else:
        done = 0
        d = tl.zeros([B], tl.float32)
        while done == 0:
            v0 = tl.atomic_add(ver, 0)
            d = tl.load(data + i)
            v1 = tl.atomic_add(ver, 0)
            if OK:
                done = ((v0 == v1) & (v0 == 2)).to(tl.int32)
            else:
                done = (v1 >= 1).to(tl.int32)
        tl.store(out + i, d)


twins(lambda ok: call(seqlock, (2,), torch.zeros(1, dtype=torch.int32), torch.zeros(4), torch.empty(4), tries=9, B=4, OK=ok), lambda launch: {2: 5 + torch.arange(4.)})
