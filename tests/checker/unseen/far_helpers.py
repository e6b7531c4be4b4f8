"""Functions that the kernels beside this module call."""

import triton
import triton.language as tl


@triton.jit(noinline=True)
def page_row(table, seq, page, NPAGES: tl.constexpr):
    return tl.load(table + seq * NPAGES + page)


@triton.jit
def split_id(pid, a, b):
    return pid // (a * b), (pid // b) % a, pid % b


@triton.jit
def welford(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    d = m2 - m1
    return m1 + d * n2 / n, s1 + s2 + d * d * n1 * n2 / n, n  # fault: nan


@triton.jit
def welford_safe(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    w = tl.where(n > 0, n2 / tl.maximum(n, 1.0), 0.0)
    d = m2 - m1
    return m1 + d * w, s1 + s2 + d * d * n1 * w, n


@triton.jit
def sigmoid16(t):
    return 1 / (1 + tl.exp(-t.to(tl.float32)))


@triton.jit
def put(ptr, at, value, live):
    tl.store(ptr + at, value, mask=live)  # fault: race


@triton.jit
def mulmod(a, b, m):
    return a * b % m  # fault: index-overflow


@triton.jit
def scale_to(v, s):
    q = tl.extra.cuda.libdevice.rint(v / s)
    return q.to(tl.int8)  # fault: cast-overflow
