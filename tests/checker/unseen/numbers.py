"""Numbers: kernels that were written from the page alone."""

import numpy as np
import torch
import triton
import triton.language as tl

from tests.checker.unseen import far_helpers
from tests.checker.unseen.far_helpers import welford, welford_safe
from tests.checker.unseen.twins import call, twins

# fmt: off


# Welford over a tile with empty lanes
@triton.jit
def std_welford(x, o, n, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    live = i < n
    v = tl.load(x + tl.program_id(0) * n + i, live, 0.0)
    w = live.to(tl.float32)
    if OK:
        _, s, k = tl.reduce((v, tl.zeros_like(v), w), 0, welford_safe)
    else:
        _, s, k = tl.reduce((v, tl.zeros_like(v), w), 0, welford)
    tl.store(o + tl.program_id(0), tl.sqrt(s / (k - 1)))


twins(lambda ok: call(std_welford, (3,), torch.randn(3, 9), torch.empty(3), 9, B=16, OK=ok), lambda launch: {1: launch.args[0].std(1)})


# entropy: 0 * log 0
@triton.jit
def entropy(p, h, C: tl.constexpr, OK: tl.constexpr):
    r = tl.program_id(0)
    q = tl.load(p + r * C + tl.arange(0, C))
    lg = tl.log2(q)  # fault: infinity
    if OK:
        lg = tl.where(q > 0, lg, 0.0)
    tl.store(h + r, -tl.sum(q * lg, 0))


def _ent(ok):
    p = torch.rand(3, 8)
    p[1, 2] = 0
    return call(entropy, (3,), p / p.sum(1, True), torch.empty(3), C=8, OK=ok)


twins(_ent,
     lambda launch: {1: -(launch.args[0] * torch.where(launch.args[0] > 0, launch.args[0], 1.0).log2()).sum(1)})


# bf16 weights' inverse temperature: exp2 too large, in a helper-free branch in one program only
@triton.jit
def gumbel(x, t, o, B: tl.constexpr, OK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * B + i).to(tl.float32) / tl.load(t + r)
    if OK:
        v = v - tl.max(v, axis=0)
    e = tl.exp2(v)  # fault: infinity
    tl.store(o + r * B + i, (e / tl.sum(e, axis=0)).to(tl.bfloat16))


twins(lambda ok: call(gumbel, (3,), torch.randn(3, 8).bfloat16() + 1, torch.tensor([1.0, 0.005, 0.5]), torch.empty(3, 8).bfloat16(), B=8, OK=ok),
     lambda launch: {2: ((launch.args[0].float() / launch.args[1][:, None]) * np.log(2)).softmax(1).bfloat16()}, 1e-2)


# fp16 accumulation of a dot
@triton.jit
def mm16(a, b, c, K, M: tl.constexpr, BK: tl.constexpr, OK: tl.constexpr):
    m = tl.arange(0, M)
    k = tl.arange(0, BK)
    acc = tl.zeros((M, M), tl.float32 if OK else tl.float16)
    for k0 in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k0 + k)[None, :])
        y = tl.load(b + (k0 + k)[:, None] * M + m[None, :])
        if OK:
            acc = tl.dot(x, y, acc)
        else:
            acc = tl.dot(x, y, acc, out_dtype=tl.float16)  # fault: infinity
    tl.store(c + m[:, None] * M + m[None, :], 1.0 / (1.0 + acc.to(tl.float32) / K))


twins(lambda ok: call(mm16, (1,), torch.full((16, 64), 40.0).half(), torch.full((64, 16), 40.0).half(), torch.empty(16, 16), 64, M=16, BK=16, OK=ok),
     lambda launch: {2: 1 / (1 + launch.args[0].float() @ launch.args[1].float() / 64)}, 1e-5)


# fp8 with a scale from another block
@triton.jit
def fp8_blocks(x, sc, y, N: tl.constexpr, OK: tl.constexpr):
    b = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.load(x + b * N + i)
    s = tl.load(sc + (b if OK else 0))
    tl.store(y + b * N + i, (v / s).to(tl.float8e5))  # fault: float-overflow


def _f8(ok):
    x = torch.randn(4, 16) * torch.tensor([1.0, 10.0, 1e3, 0.1])[:, None]
    return call(fp8_blocks, (4,), x, x.abs().amax(1) / 57344, torch.empty(4, 16).to(torch.float8_e5m2), N=16, OK=ok)


twins(_f8,
     lambda launch: {2: (launch.args[0] / launch.args[1][:, None]).to(torch.float8_e5m2)}, 0.3)


# running mean in bf16, product and sum in one
@triton.jit
def track(g, m, steps, B: tl.constexpr, OK: tl.constexpr):
    i = tl.arange(0, B)
    s = tl.load(m + i)
    if OK:
        s = s.to(tl.float32)
    for t in range(steps):
        gg = tl.load(g + t * B + i)
        s += gg * 0.001953125  # fault: stalled-sum
    tl.store(m + i, s.to(tl.bfloat16))


twins(lambda ok: call(track, (1,), (torch.rand(600, 8) * 0.5 + 0.5).bfloat16(), torch.ones(8).bfloat16(), 600, B=8, OK=ok), lambda launch: {1: 1 + launch.args[0].float().sum(0) / 512}, 2e-2)


# zero points of quantized operands
@triton.jit
def dequant(q, zp, s, o, N: tl.constexpr, OK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, N)
    a = tl.load(q + r * N + i)
    z = tl.load(zp + r)
    if OK:
        d = a.to(tl.int16) - z
    else:
        d = a - z  # fault: integer-overflow
    tl.store(o + r * N + i, d * tl.load(s + r))


def _dq(ok):
    q = torch.randint(-128, 128, (2, 16), dtype=torch.int8)
    return call(dequant, (2,), q, torch.tensor([5, -60], dtype=torch.int8), torch.rand(2), torch.empty(2, 16), N=16, OK=ok)


twins(_dq, lambda launch: {3: (launch.args[0].float() - launch.args[1].float()[:, None]) * launch.args[2][:, None]})


# uint8 mean of four; twin is a checksum that wraps on purpose
@triton.jit
def pool2(x, y, ck, W: tl.constexpr, OK: tl.constexpr):
    j = tl.arange(0, W // 2)
    r = tl.program_id(0)
    a = tl.load(x + (2 * r) * W + 2 * j)
    b = tl.load(x + (2 * r) * W + 2 * j + 1)
    c = tl.load(x + (2 * r + 1) * W + 2 * j)
    d = tl.load(x + (2 * r + 1) * W + 2 * j + 1)
    if OK:
        s = (a.to(tl.uint16) + b + c + d) >> 2
    else:
        s = (a + b + c + d) >> 2  # fault: integer-overflow
    tl.store(y + r * (W // 2) + j, s.to(tl.uint8))
    tl.store(ck + r * (W // 2) + j, a + b)


def _p2_ref(launch):
    x = launch.args[0].int()
    return {1: ((x[::2, ::2] + x[::2, 1::2] + x[1::2, ::2] + x[1::2, 1::2]) >> 2).to(torch.uint8), 2: (x[::2, ::2] + x[::2, 1::2]).to(torch.uint8)}


twins(lambda ok: call(pool2, (2,), torch.randint(0, 256, (4, 16), dtype=torch.uint8), torch.empty(2, 8, dtype=torch.uint8), torch.empty(2, 8, dtype=torch.uint8), W=16, OK=ok),
      _p2_ref)


# rint in a far helper
@triton.jit
def quant_rows(x, q, s, N: tl.constexpr, TOP: tl.constexpr):
    r = tl.program_id(0)
    v = tl.load(x + r * N + tl.arange(0, N))
    sc = tl.max(tl.abs(v), 0) / TOP
    tl.store(q + r * N + tl.arange(0, N), far_helpers.scale_to(v, sc))
    tl.store(s + r, sc)


def _qr_ref(launch):
    s = launch.args[0].abs().amax(1) / 127
    return {1: (launch.args[0] / s[:, None]).round().to(torch.int8), 2: s}


twins(lambda ok: call(quant_rows, (3,), torch.randn(3, 16), torch.empty(3, 16, dtype=torch.int8), torch.empty(3), N=16, TOP=127.0 if ok else 130.0),
      _qr_ref)


# audio: fp32 to int16 by int32
@triton.jit
def to_pcm(x, y, n, B: tl.constexpr, OK: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, 0.0) * 32767
    if OK:
        v = tl.where(v > 32767, 32767.0, tl.where(v < -32768, -32768.0, v))
    tl.store(y + i, v.to(tl.int32).to(tl.int16), mask=i < n)  # fault: cast-overflow


def _pcm(ok):
    x = torch.rand(40) * 2 - 1
    x[11] = 1.5
    return call(to_pcm, (3,), x, torch.empty(40, dtype=torch.int16), 40, B=16, OK=ok)


twins(_pcm,
     lambda launch: {1: (launch.args[0] * 32767).clamp(-32768, 32767).to(torch.int32).to(torch.int16)})


# cdiv by a length of zero, to decide on turns of a loop
@triton.jit
def share(total, parts, o, B: tl.constexpr, OK: tl.constexpr):
    g = tl.program_id(0)
    n = tl.load(parts + g)
    if OK:
        n = tl.maximum(n, 1)
    each = tl.cdiv(tl.load(total + g), n)  # fault: division-by-zero
    s = 0
    for k in range(each):
        s += k
    tl.store(o + g, s)


twins(lambda ok: call(share, (3,), torch.tensor([12, 7, 9], dtype=torch.int32), torch.tensor([4, 0, 3], dtype=torch.int32), torch.zeros(3, dtype=torch.int32), B=1, OK=ok), lambda launch: {2: torch.tensor([3, 21, 3]).int()})


# k-means: distance in tf32, then the minimum
@triton.jit
def kmeans(x, c, dist, lab, D: tl.constexpr, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr):
    n, k, d = tl.arange(0, N), tl.arange(0, K), tl.arange(0, D)
    xs = tl.load(x + n[:, None] * D + d[None, :])
    cs = tl.load(c + k[:, None] * D + d[None, :])
    dd = -2.0 * tl.dot(xs, tl.trans(cs), input_precision=P)  # fault: dot-precision
    dd += tl.sum(xs * xs, 1)[:, None]
    dd += tl.sum(cs * cs, 1)[None, :]
    tl.store(dist + n, tl.min(dd, 1))


def _km(p):
    c = torch.randn(16, 16) * 4 + 10
    x = c[torch.randint(0, 16, (32,))] + 0.02 * torch.randn(32, 16)
    return call(kmeans, (1,), x, c, torch.empty(32), torch.empty(32), D=16, N=32, K=16, P=p)


twins(lambda ok: _km("ieee" if ok else "tf32"),
     lambda launch: {2: (torch.cdist(launch.args[0].double(), launch.args[1].double()) ** 2).amin(1)}, 5e-3)
