"""Wrong answers as students type them, each in its own words: no edits of the solutions."""

import re

from kernellab.workshop.exercise import exercise_named
from tests.workshop.attempts import WrongAnswer
from tests.workshop.mistakes import IMPORTS

_TEXT = """
== add_one: the sum is thrown away
    i = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i)
    v + 1
    tl.store(z_ptr + i, v)
== add_one: stored to x
    i = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + i)
    tl.store(x_ptr + i, v + 1)
== add: the mask asks for the elements beyond
    pid = tl.program_id(0)
    idx = pid * BLOCK + tl.arange(0, BLOCK)
    ok = idx >= n
    a = tl.load(x_ptr + idx, mask=ok)
    b = tl.load(y_ptr + idx, mask=ok)
    tl.store(z_ptr + idx, a + b, mask=ok)
== add: one element at a time without a bound
    pid = tl.program_id(0)
    for i in range(BLOCK):
        idx = pid * BLOCK + i
        tl.store(z_ptr + idx, tl.load(x_ptr + idx) + tl.load(y_ptr + idx))
== scale_and_shift: a and b are loaded
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = idx < n
    x = tl.load(x_ptr + idx, mask=ok)
    tl.store(z_ptr + idx, tl.load(a) * x + tl.load(b), mask=ok)
== clamp: the first limit is lost
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = idx < n
    x = tl.load(x_ptr + idx, mask=ok)
    y = tl.where(x < low, low, x)
    y = tl.where(x > high, high, x)
    tl.store(z_ptr + idx, y, mask=ok)
== reverse: the block from the end
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    idx = pid * BLOCK + lanes
    last = tl.num_programs(0) - 1 - pid
    back = last * BLOCK + BLOCK - 1 - lanes
    x = tl.load(x_ptr + back, mask=back < n)
    tl.store(z_ptr + idx, x, mask=idx < n)
== every_other: the mask of the source is too short
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + 2 * idx, mask=2 * idx < n, other=0.0)
    tl.store(z_ptr + idx, x, mask=idx < n)
== few_programs: as many turns as programs
    pid = tl.program_id(0)
    for i in range(tl.num_programs(0)):
        idx = (pid + i * tl.num_programs(0)) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + idx, mask=idx < n)
        tl.store(z_ptr + idx, 2 * x, mask=idx < n)
== few_programs: the next block in place of the next turn
    pid = tl.program_id(0)
    start = pid * BLOCK
    while start < n:
        idx = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + idx, mask=idx < n)
        tl.store(z_ptr + idx, x + x, mask=idx < n)
        start += pid * BLOCK
== silu_gate: a forgotten parenthesis
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = idx < n
    x = tl.load(x_ptr + idx, mask=ok)
    y = tl.load(y_ptr + idx, mask=ok)
    silu = x / 1 + tl.exp(-x)
    tl.store(z_ptr + idx, silu * y, mask=ok)
== outer_add: the rows of a program by the columns
    i = tl.program_id(0) * COLUMNS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + i, mask=i < rows)
    y = tl.load(y_ptr + j, mask=j < columns)
    m = (i[:, None] < rows) & (j[None, :] < columns)
    tl.store(z_ptr + i[:, None] * columns + j[None, :], x[:, None] + y[None, :], mask=m)
== scale_rows: one factor for the program
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    m = (i[:, None] < rows) & (j[None, :] < columns)
    p = i[:, None] * columns + j[None, :]
    s = tl.load(scale_ptr + tl.program_id(0))
    tl.store(z_ptr + p, tl.load(x_ptr + p, mask=m) * s, mask=m)
== transpose: the place of the source with the other stride
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    m = (i[:, None] < rows) & (j[None, :] < columns)
    t = tl.load(x_ptr + i[:, None] * columns + j[None, :], mask=m)
    tl.store(z_ptr + i[:, None] * rows + j[None, :], t, mask=m)
== causal_mask: the indices in the tile
    a = tl.arange(0, ROWS)
    b = tl.arange(0, COLUMNS)
    i = tl.program_id(0) * ROWS + a
    j = tl.program_id(1) * COLUMNS + b
    m = (i[:, None] < rows) & (j[None, :] < columns)
    p = i[:, None] * columns + j[None, :]
    x = tl.load(x_ptr + p, mask=m)
    x = tl.where(b[None, :] <= a[:, None], x, float("-inf"))
    tl.store(z_ptr + p, x, mask=m)
== pad: the border is not written
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    m = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i[:, None] * columns + j[None, :], mask=m)
    tl.store(z_ptr + (i[:, None] + 1) * (columns + 2) + j[None, :] + 1, x, mask=m)
== gather_rows: the rows of the result by the ids
    row = tl.program_id(0)
    id = tl.load(ids_ptr + row)
    lanes = tl.arange(0, BLOCK)
    t = tl.load(table_ptr + id * width + lanes, mask=lanes < width)
    tl.store(z_ptr + id * width + lanes, t, mask=lanes < width)
== sum_rows: the mask is the block's
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < BLOCK, other=0.0)
    s = tl.sum(x, axis=0)
    tl.store(z_ptr + row, s)
== max_rows: a small number beyond
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=1e-9)
    tl.store(z_ptr + row, tl.max(x, axis=0))
== argmax_rows: the position in the table
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    p = row * columns + lanes
    x = tl.load(x_ptr + p, mask=lanes < columns, other=float("-inf"))
    tl.store(z_ptr + row, row * columns + tl.argmax(x, axis=0))
== argmax_rows: the last of equal ones
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=float("-inf"))
    m = tl.max(x, axis=0)
    tl.store(z_ptr + row, tl.max(tl.where(x == m, lanes, 0), axis=0))
== sum_long_rows: only whole blocks
    row = tl.program_id(0)
    s = 0.0
    for b in range(columns // BLOCK):
        lanes = b * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=0.0)
        s += tl.sum(x, axis=0)
    tl.store(z_ptr + row, s)
== moments: one degree of freedom less
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    d = tl.where(m, x - mean, 0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, tl.sum(d * d, axis=0) / (columns - 1))
== running_sum: the carry counts the own block
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        m = lanes < columns
        x = tl.load(x_ptr + row * columns + lanes, mask=m, other=0.0)
        carry += tl.sum(x, axis=0)
        tl.store(z_ptr + row * columns + lanes, carry + tl.cumsum(x, axis=0), mask=m)
== sum_columns: only one block of rows
    j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    s = tl.zeros((COLUMNS,), dtype=tl.float32)
    for i in range(ROWS):
        s += tl.load(x_ptr + i * columns + j, mask=j < columns, other=0.0)
    tl.store(z_ptr + j, s, mask=j < columns)
== dot_product: the product of the sums
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = idx < n
    x = tl.load(x_ptr + idx, mask=ok, other=0.0)
    y = tl.load(y_ptr + idx, mask=ok, other=0.0)
    tl.atomic_add(z_ptr, tl.sum(x, axis=0) * tl.sum(y, axis=0))
== histogram: the value is added at the place
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = idx < n
    x = tl.load(x_ptr + idx, mask=ok)
    tl.atomic_add(z_ptr + idx, x, mask=ok)
== softmax: the sum is of other exponentials
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    s = tl.sum(tl.exp(x), axis=0)
    tl.store(z_ptr + row * columns + lanes, e / s, mask=m)
== softmax: the maximum is added
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=float("-inf"))
    e = tl.exp(x + tl.max(x, axis=0))
    tl.store(z_ptr + row * columns + lanes, e / tl.sum(e, axis=0), mask=m)
== log_softmax: the log of each term
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=float("-inf"))
    x = x - tl.max(x, axis=0)
    tl.store(z_ptr + row * columns + lanes, x - tl.sum(tl.log(tl.exp(x)), axis=0), mask=m)
== online_softmax: one maximum for each block
    row = tl.program_id(0)
    top = float("-inf")
    s = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=float("-inf"))
        top = tl.max(x, axis=0)
        s += tl.sum(tl.exp(x - top), axis=0)
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        m = lanes < columns
        x = tl.load(x_ptr + row * columns + lanes, mask=m)
        tl.store(z_ptr + row * columns + lanes, tl.exp(x - top) / s, mask=m)
== softmax_backward: the sum of dx in place of the product
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    y = tl.load(y_ptr + row * columns + lanes, mask=m, other=0.0)
    g = tl.load(dy_ptr + row * columns + lanes, mask=m, other=0.0)
    s = tl.sum(y * g, axis=0)
    tl.store(dx_ptr + row * columns + lanes, y * g - s, mask=m)
== cross_entropy: the row is missing
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=float("-inf"))
    top = tl.max(x, axis=0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    t = tl.load(target_ptr + row)
    tl.store(z_ptr + row, lse - tl.load(x_ptr + t))
== rms_norm: without a root
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=0.0)
    w = tl.load(weight_ptr + lanes, mask=m)
    ms = tl.sum(x * x, axis=0) / columns
    tl.store(z_ptr + row * columns + lanes, x / (ms + eps) * w, mask=m)
== layer_norm: the spread of x itself
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=0.0)
    w = tl.load(weight_ptr + lanes, mask=m)
    b = tl.load(bias_ptr + lanes, mask=m)
    mean = tl.sum(x, axis=0) / columns
    var = tl.sum(x * x, axis=0) / columns
    tl.store(z_ptr + row * columns + lanes, (x - mean) / tl.sqrt(var + eps) * w + b, mask=m)
== rope: the second half after the block
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < half
    p = row * 2 * half + lanes
    a = tl.load(x_ptr + p, mask=m)
    b = tl.load(x_ptr + p + BLOCK, mask=m)
    co = tl.load(cos_ptr + row * half + lanes, mask=m)
    si = tl.load(sin_ptr + row * half + lanes, mask=m)
    tl.store(z_ptr + p, a * co - b * si, mask=m)
    tl.store(z_ptr + p + half, b * co + a * si, mask=m)
== matvec: x by the rows
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    s = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, columns, COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        m = (i[:, None] < rows) & (j[None, :] < columns)
        a = tl.load(a_ptr + i[:, None] * columns + j[None, :], mask=m, other=0.0)
        x = tl.load(x_ptr + i, mask=i < rows, other=0.0)
        s += tl.sum(a * x[:, None], axis=1)
    tl.store(z_ptr + i, s, mask=i < rows)
== dot_of_tiles: b is transposed
    i = tl.arange(0, SIZE)
    p = i[:, None] * SIZE + i[None, :]
    a = tl.load(a_ptr + p)
    b = tl.load(b_ptr + p)
    tl.store(c_ptr + p, tl.dot(a, tl.trans(b)))
== matmul: the pointers advance along the wrong axes
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    pa = a_ptr + i[:, None] * K + k[None, :]
    pb = b_ptr + k[:, None] * N + j[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(pa, mask=(i[:, None] < M) & (k[None, :] < K - start), other=0.0)
        b = tl.load(pb, mask=(k[:, None] < K - start) & (j[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        pa += BLOCK_K
        pb += BLOCK_K
    tl.store(c_ptr + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))
== linear_relu: the bias in every turn
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    bias = tl.load(bias_ptr + j, mask=j < N, other=0.0)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + i[:, None] * K + k[None, :],
                    mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + j[None, :],
                    mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        acc += bias[None, :]
    acc = tl.where(acc > 0, acc, 0.0)
    tl.store(c_ptr + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))
== batched_matmul: the result of every matrix at one place
    g = tl.program_id(2)
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + g * M * K + i[:, None] * K + k[None, :],
                    mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + g * K * N + k[:, None] * N + j[None, :],
                    mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    tl.store(c_ptr + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))
== quantized_matmul: the scales along k
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + i[:, None] * K + k[None, :],
                    mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + j[None, :],
                    mask=(k[:, None] < K) & (j[None, :] < N), other=0)
        s = tl.load(scale_ptr + k, mask=k < K, other=0.0)
        acc += tl.dot(a, (b * s[:, None]).to(tl.float16))
    tl.store(c_ptr + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))
== convolution: the elements behind
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(taps):
        p = idx + t
        s += tl.load(x_ptr + p, mask=p < n, other=0.0) * tl.load(w_ptr + t)
    tl.store(z_ptr + idx, s, mask=idx < n)
== sort_rows: minus infinity beyond
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=float("-inf"))
    tl.store(z_ptr + row * columns + lanes, tl.sort(x), mask=m)
== weight_gradient: the product of the sums
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    m = (i[:, None] < rows) & (j[None, :] < columns)
    p = i[:, None] * columns + j[None, :]
    x = tl.load(x_ptr + p, mask=m, other=0.0)
    g = tl.load(dy_ptr + p, mask=m, other=0.0)
    tl.atomic_add(dw_ptr + j, tl.sum(x, axis=0) * tl.sum(g, axis=0), mask=j < columns)
== attention: the softmax along the queries
    i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    j = tl.arange(0, BLOCK_K)
    d = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + i[:, None] * WIDTH + d[None, :], mask=i[:, None] < queries, other=0.0)
    k = tl.load(k_ptr + j[:, None] * WIDTH + d[None, :], mask=j[:, None] < keys, other=0.0)
    v = tl.load(v_ptr + j[:, None] * WIDTH + d[None, :], mask=j[:, None] < keys, other=0.0)
    s = tl.dot(q, tl.trans(k)) * scale
    s = tl.where(j[None, :] < keys, s, float("-inf"))
    s = tl.exp(s - tl.max(s, axis=1)[:, None])
    s = s / tl.sum(s, axis=0)[None, :]
    z = tl.dot(s.to(tl.float16), v)
    tl.store(z_ptr + i[:, None] * WIDTH + d[None, :], z, mask=i[:, None] < queries)
== flash_attention: the old maximum in the weights
    i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + i[:, None] * WIDTH + d[None, :], mask=i[:, None] < queries, other=0.0)
    top = tl.zeros((BLOCK_Q,), dtype=tl.float32) - float("inf")
    s = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_Q, WIDTH), dtype=tl.float32)
    for start in range(0, keys, BLOCK_K):
        j = start + tl.arange(0, BLOCK_K)
        k = tl.load(k_ptr + j[:, None] * WIDTH + d[None, :], mask=j[:, None] < keys, other=0.0)
        v = tl.load(v_ptr + j[:, None] * WIDTH + d[None, :], mask=j[:, None] < keys, other=0.0)
        qk = tl.dot(q, tl.trans(k)) * scale
        qk = tl.where(j[None, :] < keys, qk, float("-inf"))
        new = tl.maximum(top, tl.max(qk, axis=1))
        p = tl.exp(qk - top[:, None])
        fix = tl.exp(top - new)
        s = s * fix + tl.sum(p, axis=1)
        acc = acc * fix[:, None] + tl.dot(p.to(tl.float16), v)
        top = new
    tl.store(z_ptr + i[:, None] * WIDTH + d[None, :], acc / s[:, None], mask=i[:, None] < queries)
== causal_attention: the lanes of the tile are compared
    i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + i[:, None] * WIDTH + d[None, :], mask=i[:, None] < queries, other=0.0)
    top = tl.full((BLOCK_Q,), float("-inf"), dtype=tl.float32)
    s = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_Q, WIDTH), dtype=tl.float32)
    for start in range(0, keys, BLOCK_K):
        b = tl.arange(0, BLOCK_K)
        j = start + b
        k = tl.load(k_ptr + j[:, None] * WIDTH + d[None, :], mask=j[:, None] < keys, other=0.0)
        v = tl.load(v_ptr + j[:, None] * WIDTH + d[None, :], mask=j[:, None] < keys, other=0.0)
        qk = tl.dot(q, tl.trans(k)) * scale
        qk = tl.where((j[None, :] < keys) & (b[None, :] <= i[:, None]), qk, float("-inf"))
        new = tl.maximum(top, tl.max(qk, axis=1))
        p = tl.exp(qk - new[:, None])
        fix = tl.exp(top - new)
        s = s * fix + tl.sum(p, axis=1)
        acc = acc * fix[:, None] + tl.dot(p.to(tl.float16), v)
        top = new
    tl.store(z_ptr + i[:, None] * WIDTH + d[None, :], acc / s[:, None], mask=i[:, None] < queries)
== turn_vectors: the second layout is the first
    wide: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    r = gl.arange(0, SIZE, layout=gl.SliceLayout(1, wide))
    c = gl.arange(0, SIZE, layout=gl.SliceLayout(0, wide))
    v = gl.load(x_ptr + r[:, None] * SIZE + c[None, :])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    s = gl.allocate_shared_memory(v.dtype, [SIZE, SIZE], plain, v)
    gl.store(z_ptr + r[:, None] * SIZE + c[None, :], s.load(wide))
== three_stages: two tiles are waited for in the first iteration only
    lay: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.arange(0, 512, layout=lay)
    buf = gl.allocate_shared_memory(gl.float32, [3, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    for t in range(2):
        copy_to_shared(buf.index(t), x_ptr + t * 512 + i)
        async_copy.commit_group()
    async_copy.wait_group(0)
    for t in range(TILES):
        if t + 2 < TILES:
            copy_to_shared(buf.index((t + 2) % 3), x_ptr + (t + 2) * 512 + i)
            async_copy.commit_group()
        gl.store(z_ptr + t * 512 + i, buf.index(t % 3).load(lay) * 2)
== in_place: the store is waited for before the stage is written
    lay: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    buf = gl.allocate_shared_memory(x.dtype, [2, 64, 64], x.layout)
    bar = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for b in gl.static_range(2):
        mbarrier.init(bar.index(b), count=1)
    for t in range(TILES):
        s = t % 2
        mbarrier.expect(bar.index(s), x.block_type.nbytes)
        tma_load(x, [t * 64, 0], bar.index(s), buf.index(s))
        mbarrier.wait(bar.index(s), t // 2 & 1)
        tma.store_wait(1)
        v = buf.index(s).load(lay)
        buf.index(s).store(v * 2)
        fence_async_shared()
        tma_store(z, [t * 64, 0], buf.index(s))
    tma.store_wait(0)
== two_groups: one group does both
    lay: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    buf = gl.allocate_shared_memory(x.dtype, [2, 64, 64], x.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    r = gl.arange(0, 64, layout=gl.SliceLayout(1, lay))
    c = gl.arange(0, 64, layout=gl.SliceLayout(0, lay))
    for t in range(TILES):
        mbarrier.expect(bar, x.block_type.nbytes)
        tma_load(x, [t * 64, 0], bar, buf.index(t % 2))
        mbarrier.wait(bar, 0)
        v = buf.index(t % 2).load(lay)
        gl.store(z_ptr + t * 4096 + r[:, None] * 64 + c[None, :], v * 2)
== running_sum: the largest sum is carried
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        m = lanes < columns
        x = tl.load(x_ptr + row * columns + lanes, mask=m, other=0.0)
        c = carry + tl.cumsum(x, axis=0)
        tl.store(z_ptr + row * columns + lanes, c, mask=m)
        carry = tl.max(c, axis=0)
== rms_norm: the mean of the weighted squares
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=0.0)
    w = tl.load(weight_ptr + lanes, mask=m, other=0.0)
    xw = x * w
    ms = tl.sum(xw * xw, axis=0) / columns
    tl.store(z_ptr + row * columns + lanes, xw / tl.sqrt(ms + eps), mask=m)
"""

_TWO_FAULTS = """
== add: 128 is written out; minus
    idx = tl.program_id(0) * 128 + tl.arange(0, BLOCK)
    ok = idx < n
    x = tl.load(x_ptr + idx, mask=ok)
    y = tl.load(y_ptr + idx, mask=ok)
    tl.store(z_ptr + idx, x - y, mask=ok)
== scale_and_shift: the sum is scaled; the mask has one too many
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = idx <= n
    x = tl.load(x_ptr + idx, mask=ok)
    tl.store(z_ptr + idx, a * (x + b), mask=ok)
== causal_mask: without the diagonal; zeros
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    m = (i[:, None] < rows) & (j[None, :] < columns)
    p = i[:, None] * columns + j[None, :]
    x = tl.load(x_ptr + p, mask=m)
    x = tl.where(j[None, :] < i[:, None], x, 0.0)
    tl.store(z_ptr + p, x, mask=m)
== gather_rows: rows of a block; the mask has one too many
    row = tl.program_id(0)
    id = tl.load(ids_ptr + row)
    lanes = tl.arange(0, BLOCK)
    m = lanes <= width
    t = tl.load(table_ptr + id * BLOCK + lanes, mask=m)
    tl.store(z_ptr + row * width + lanes, t, mask=m)
== softmax: base 2; not divided
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=float("-inf"))
    e = tl.exp2(x - tl.max(x, axis=0))
    tl.store(z_ptr + row * columns + lanes, e, mask=m)
== rms_norm: the mean over the block; no weight
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    m = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=m, other=0.0)
    ms = tl.sum(x * x, axis=0) / BLOCK
    tl.store(z_ptr + row * columns + lanes, x / tl.sqrt(ms + eps), mask=m)
"""


def _answers(text: str) -> list[WrongAnswer]:
    """Return the answers of a text, each of which begins with "== EXERCISE: NAME"."""
    parts = re.split(r"^== (\w+): (.+)\n", text, flags=re.MULTILINE)[1:]
    return [
        WrongAnswer(exercise, name, _cell(exercise, body))
        for exercise, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def _cell(exercise: str, body: str) -> str:
    stub = exercise_named(exercise).stub
    above, decorator = re.split(r"^(@\w+\.jit\n)", stub, flags=re.MULTILINE)[:2]
    return f"{IMPORTS}{above}{decorator}{exercise_named(exercise).first_line}\n{body}"


TWO_FAULTS = _answers(_TWO_FAULTS)
"""Answers with two independent mistakes, both of which are named."""

ANSWERS = [*_answers(_TEXT), *TWO_FAULTS]
