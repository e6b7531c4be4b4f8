"""Accesses, hints and descriptors: kernels that were written from the page alone."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from tests.checker.unseen import far_helpers
from tests.checker.unseen.twins import call, twins

# fmt: off


# paged attention's gather: the last page of a sequence is not full, its id is -1
@triton.jit
def paged_dot(q, pool, table, lens, out, P: tl.constexpr, D: tl.constexpr, NP: tl.constexpr, OK: tl.constexpr):
    s = tl.program_id(0)
    n = tl.load(lens + s)
    d = tl.arange(0, D)[None, :]
    t = tl.arange(0, P)[:, None]
    qv = tl.load(q + s * D + d)
    best = tl.full((), -1e30, tl.float32)
    for pg in range(NP):
        row = far_helpers.page_row(table, s, pg, NP)
        live = pg * P + t < n
        if OK:
            k = tl.load(pool + (row * P + t) * D + d, mask=live, other=0.0)
        else:
            k = tl.load(pool + (row * P + t) * D + d)  # fault: out-of-bounds
        sc = tl.where(live, tl.sum(k * qv, axis=1, keep_dims=True), -1e30)
        best = tl.maximum(best, tl.max(tl.max(sc, 1), 0))
    tl.store(out + s, best)


def _paged_ref(launch):
    q, pool, tab, lens = launch.args[:4]
    o = []
    for s in range(2):
        ks = torch.cat([pool.view(5, 4, 16)[p] for p in tab[s].tolist() if p >= 0])[: lens[s]]
        o.append((ks @ q[s]).max())
    return {4: torch.stack(o)}


twins(lambda ok: call(paged_dot, (2,), torch.randn(2, 16), torch.randn(5 * 4, 16), torch.tensor([[4, 0, -1], [2, 1, 3]], dtype=torch.int32),
             torch.tensor([7, 12], dtype=torch.int32), torch.empty(2), P=4, D=16, NP=3, OK=ok),
      _paged_ref)


# implicit-GEMM convolution: padding not looked at vertically
@triton.jit
def conv_ig(x, w, y, H, W, OH, OW, C: tl.constexpr, K: tl.constexpr, R: tl.constexpr, PAD: tl.constexpr, BP: tl.constexpr, OK: tl.constexpr):
    px = tl.program_id(0) * BP + tl.arange(0, BP)
    oy, ox = px // OW, px % OW
    kk = tl.arange(0, K)
    acc = tl.zeros((BP, K), tl.float32)
    for rs in tl.static_range(R * R):
        iy = oy - PAD + rs // R
        ix = ox - PAD + rs % R
        inside = (ix >= 0) & (ix < W) & (px < OH * OW)
        if OK:
            inside = inside & (iy >= 0) & (iy < H)
        for c in range(C):
            v = tl.load(x + (c * H + iy) * W + ix, inside, other=0.0)  # fault: out-of-bounds
            f = tl.load(w + ((kk * C + c) * R * R + rs))
            acc += v[:, None] * f[None, :]
    tl.store(y + kk[None, :] * (OH * OW) + px[:, None], acc, (px < OH * OW)[:, None])


twins(lambda ok: call(conv_ig, (3,), torch.randn(2, 6, 7), torch.randn(4, 2, 3, 3), torch.empty(4, 6, 7), 6, 7, 6, 7, C=2, K=4, R=3, PAD=1, BP=16, OK=ok),
     lambda launch: {2: torch.conv2d(launch.args[0][None], launch.args[1], padding=1)[0]})


# tuple of tensors as one argument; the wrong one is short
@triton.jit
def cat_all(srcs, sizes, dst, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    base = 0
    for k in tl.static_range(len(srcs)):
        n = sizes[k] if OK else sizes[0]
        tl.store(dst + base + i, tl.load(srcs[k] + i, i < n, 0.0), i < n)  # fault: out-of-bounds
        base += n


twins(lambda ok: call(cat_all, (1,), (torch.randn(9), torch.randn(5), torch.randn(7)), (9, 5, 7), torch.empty(27 if not ok else 21), B=16, OK=ok), lambda launch: {2: torch.cat(launch.args[0])})


# overlapping windows are fine; reading a stride too many is not
@triton.jit
def unfold_dot(win, ker, out, n, stride_w, TAPS: tl.constexpr, B: tl.constexpr):
    w = tl.program_id(0) * B + tl.arange(0, B)
    t = tl.arange(0, TAPS)
    v = tl.load(win + w[:, None] * stride_w + t[None, :], mask=(w < n)[:, None], other=0.0)  # fault: out-of-bounds
    tl.store(out + w, tl.sum(v * tl.load(ker + t)[None, :], 1), w < n)


def _uf(n):
    base = torch.randn(36)
    return call(unfold_dot, (2,), base.as_strided((17, 4), (2, 1)), torch.randn(4), torch.zeros(20), n, 2, TAPS=4, B=16)


twins(lambda ok: _uf(17 if ok else 19),
     lambda launch: {2: torch.cat([launch.args[0] @ launch.args[1], torch.zeros(3)])})


# modular hash in signed numbers in a far helper
@triton.jit
def rolling(keys, heads, o, P: tl.constexpr, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    k = tl.load(keys + i)
    if OK:
        h = far_helpers.mulmod(k.to(tl.int64), 48271, P)
    else:
        h = far_helpers.mulmod(k, 48271, P)
    tl.store(o + i, tl.load(heads + h))


twins(lambda ok: call(rolling, (1,), torch.arange(1, 17, dtype=torch.int32) * 44497, torch.arange(101.), torch.empty(16), P=101, B=16, OK=ok),
     lambda launch: {2: launch.args[1][(launch.args[0].long() * 48271) % 101]})


# argmax of wrapped scores picks another row
@triton.jit
def pick(score, weight, rows, out, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    s = tl.load(score + i)
    if OK:
        s = s.to(tl.int64)
    k = s * tl.load(weight + i)  # fault: index-overflow
    j = tl.argmax(k, 0)
    tl.store(out, tl.load(rows + j))


twins(lambda ok: call(pick, (1,), torch.tensor([100_000, 3, 40_000, 2], dtype=torch.int32), torch.tensor([30_000, 5, 6, 7], dtype=torch.int32), torch.arange(4.), torch.empty(1), B=4, OK=ok), lambda launch: {3: torch.zeros(1)})


# the ghost cells of a scratch row
@triton.jit
def heat(u, tmp, out, n, T: tl.constexpr, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(tmp + 1 + i, tl.load(u + i, i < n, 0.0), i < n)
    if OK:
        tl.store(tmp + (n + 1) * tl.arange(0, 2), 0.0)
    for _ in range(T):
        tl.debug_barrier()
        left, right = tl.load(tmp + i, i < n, 0.0), tl.load(tmp + i + 2, i < n, 0.0)  # fault: uninitialized-read
        tl.debug_barrier()
        tl.store(tmp + 1 + i, 0.5 * (left + right), i < n)
    tl.store(out + i, tl.load(tmp + 1 + i, i < n, 0.0), i < n)


def _he_ref(launch):
    u = launch.args[0]
    for _ in range(3):
        p = torch.nn.functional.pad(u, (1, 1))
        u = 0.5 * (p[:-2] + p[2:])
    return {2: u}


twins(lambda ok: call(heat, (1,), torch.randn(12), kernellab.uninitialized(torch.zeros(14)), torch.empty(12), 12, T=3, B=16, OK=ok),
      _he_ref)


# atomic maximum over memory that no one has set
@triton.jit
def colmax(x, m, M, N, BM: tl.constexpr, BN: tl.constexpr, SET: tl.constexpr):
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    if SET:
        tl.store(m + c, float("-inf"), c < N)
        tl.debug_barrier()
    for r0 in range(0, M, BM):
        r = r0 + tl.arange(0, BM)
        v = tl.load(x + r[:, None] * N + c[None, :], (r < M)[:, None] & (c < N)[None, :], float("-inf"))
        tl.atomic_max(m + c, tl.max(v, 0), c < N)  # fault: uninitialized-read


twins(lambda ok: call(colmax, (2,), torch.randn(9, 20), kernellab.uninitialized(torch.zeros(20)), 9, 20, BM=4, BN=16, SET=ok), lambda launch: {1: launch.args[0].amax(0)})


# upsampling by two writes only even rows
@triton.jit
def upsample(x, y, H, W, BW: tl.constexpr, OK: tl.constexpr):
    h = tl.program_id(1)
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    v = tl.load(x + h * W + w, w < W, 0.0)
    for dy in tl.static_range(2 if OK else 1):
        line = y + (2 * h + dy) * 2 * W
        tl.store(line + 2 * w, v, w < W)  # fault: unwritten-output
        tl.store(line + 2 * w + 1, v, w < W)


twins(lambda ok: call(upsample, (2, 3), torch.randn(3, 20), torch.empty(6, 40), 3, 20, BW=16, OK=ok, outputs=["y"]),
     lambda launch: {1: launch.args[0].repeat_interleave(2, 0).repeat_interleave(2, 1)})


# a host descriptor's store clips; the grid rounds down in one axis
@triton.jit
def desc_add(da, db, dc, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    dc.store([i, j], da.load([i, j]) + db.load([i, j]))  # fault: unwritten-output


def _da(cols):
    a, b, c = torch.randn(20, 40), torch.randn(20, 40), torch.zeros(20, 40)
    blocks = [TensorDescriptor.from_tensor(one, [16, 16]) for one in (a, b, c)]
    return call(desc_add, (2, cols), *blocks, BM=16, BN=16, outputs="dc")


twins(lambda ok: _da(3 if ok else 2), lambda launch: {2: launch.args[0].base + launch.args[1].base})


# a product over masked lanes
@triton.jit
def cumprod_all(x, o, n, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    if OK:
        v = tl.load(x + i, mask=i < n, other=1.0)
    else:
        v = tl.load(x + i, mask=i < n)  # fault: missing-other
    p = tl.associative_scan(v, 0, _mul, reverse=True)
    tl.store(o + i, p, i < n)


@triton.jit
def _mul(a, b):
    return a * b


twins(lambda ok: call(cumprod_all, (1,), torch.rand(11) + 0.5, torch.empty(11), 11, B=16, OK=ok), lambda launch: {1: launch.args[0].flip(0).cumprod(0).flip(0)})


# sort with open lanes; the twin's load is open but hidden by the store's mask
@triton.jit
def sort_row(x, y, n, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    bias = tl.load(x + i, mask=i < n)  # fault: missing-other
    v = bias * 1.0
    if OK:
        v = tl.where(i < n, v, float("inf"))
    tl.store(y + tl.program_id(0) * n + i, tl.sort(v), i < n)


twins(lambda ok: call(sort_row, (1,), torch.randn(10), torch.empty(10), 10, B=16, OK=ok), lambda launch: {1: launch.args[0].sort().values})


@triton.jit
def topk_mask(x, o, K: tl.constexpr, B: tl.constexpr, LIM: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    t = tl.topk(v, K)
    low = tl.min(t, 0)
    n = tl.sum((v >= low).to(tl.int32), 0)
    tl.device_assert(n == LIM, "ties")  # fault: failed-assertion
    tl.store(o + tl.arange(0, K), t)


def _tk(tie):
    x = torch.arange(16.).flip(0)
    if tie:
        x[4] = x[3]
    return call(topk_mask, (1,), x, torch.empty(4), K=4, B=16, LIM=4)


twins(lambda ok: _tk(not ok), lambda launch: {1: launch.args[0].sort(descending=True).values[:4]})


# hint on a pointer, in bytes
@triton.jit
def vec_ptr(x, y, off, B: tl.constexpr):
    p = tl.multiple_of(x + off, 16)  # fault: broken-hint
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(p + i))


def _vp(off):
    x = torch.empty(64)
    x = x[(-x.data_ptr() // 4) % 4:][:48]
    x.copy_(torch.arange(48.))
    return call(vec_ptr, (1,), x, torch.empty(16), off, B=16)


twins(lambda ok: _vp(8 if ok else 6), lambda launch: {1: launch.args[0][8:24]})


# contiguity after a permuted index
@triton.jit
def swap_cols(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr, SW: tl.constexpr):
    r = tl.arange(0, BM)
    c = tl.arange(0, BN) ^ SW
    c = tl.max_contiguous(c, 4)  # fault: broken-hint
    tl.store(y + r[:, None] * N + tl.arange(0, BN)[None, :], tl.load(x + r[:, None] * N + c[None, :]))


twins(lambda ok: call(swap_cols, (1,), torch.randn(4, 16), torch.empty(4, 16), 4, 16, BM=4, BN=16, SW=4 if ok else 2),
      lambda launch: {1: launch.args[0][:, torch.arange(16) ^ 4]})


@triton.jit
def batched_desc(x, y, B_, M, N, sb, sm, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(x, [B_, M, N], [sb, sm, 1], [1, BM, BN])  # fault: descriptor-alignment
    b = tl.program_id(0)
    t = d.load([b, 0, 0]).reshape(BM, BN)
    tl.store(y + b * BM + tl.arange(0, BM), tl.sum(t.to(tl.float32), 1))


def _bd(extra):
    base = torch.randn(3 * (8 * 16 + extra)).half()
    return call(batched_desc, (3,), base.as_strided((3, 8, 16), (128 + extra, 16, 1)), torch.empty(3, 8), 3, 8, 16, 128 + extra, 16, BM=8, BN=16)


twins(lambda ok: _bd(8 if ok else 4), lambda launch: {1: launch.args[0].float().sum(2)})
