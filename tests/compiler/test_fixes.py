"""Mistakes of the first hour: each is told with a fix, and the fix helps."""

import itertools
import runpy
from functools import partial

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia import hopper
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab.triton_api.fixes import rules
from kernellab.triton_api.fixes.rules import TABLES
from kernellab.triton_api.fixes.values import instead_of, is_form
from tests.kernels import descriptors
from tests.support.versions import (
    ADDS_DOTS_TO_FLOAT16,
    CHAINS_COMPARISONS,
    NAMES_LAYOUTS_OF_TMA,
)

HEAD = """\
import math
import numpy as np
import torch
import triton
import triton.language as tl

FACTOR = 3

@triton.jit
def kernel(x_ptr, y_ptr, n):
    i = tl.arange(0, 64)
    x = tl.load(x_ptr + i)
"""


MISTAKES = {
    "torch": ("tl.store(y_ptr + i, torch.relu(x))", "tl.store(y_ptr + i, tl.maximum(x, 0))"),
    "numpy": ("tl.store(y_ptr + i, np.exp(x))", "tl.store(y_ptr + i, tl.exp(x))"),
    "math": ("tl.store(y_ptr + i, math.sqrt(x))", "tl.store(y_ptr + i, tl.sqrt(x))"),
    "torch's dtype": ("tl.store(y_ptr + i, x.to(torch.float16))",
        "tl.store(y_ptr + i, x.to(tl.float16))"),
    "function that tl lacks": ("tl.store(y_ptr + i, tl.relu(x))",
        "tl.store(y_ptr + i, tl.maximum(x, 0))"),
    "slip in a function of tl": ("tl.store(y_ptr + i, tl.mximum(x, 0))",
        "tl.store(y_ptr + i, tl.maximum(x, 0))"),
    "slip in a method": ("tl.store(y_ptr + i, x.sgimoid())", "tl.store(y_ptr + i, x.sigmoid())"),
    "power": ("tl.store(y_ptr + i, x ** 2)", "tl.store(y_ptr + i, x * x)"),
    "length of a tile": ("tl.store(y_ptr + i, x * len(x))", "tl.store(y_ptr + i, x * x.shape[0])"),
    "a range without its beginning": ("j = tl.arange(64)\ntl.store(y_ptr + j, x)",
        "j = tl.arange(0, 64)\ntl.store(y_ptr + j, x)"),
    "a program's number along no axis": ("tl.store(y_ptr + i + tl.program_id(), x)",
        "tl.store(y_ptr + i + tl.program_id(0), x)"),
    "flipped along no axis": ("tl.store(y_ptr + i, tl.flip(x))",
        "tl.store(y_ptr + i, tl.flip(x, 0))"),
    "while True": ("while True:\n    x += 1\ntl.store(y_ptr + i, x)",
        "k = 0\nwhile k < n:\n    x += 1\n    k += 1\ntl.store(y_ptr + i, x)"),
    "power by ^": ("tl.store(y_ptr + i, x ^ 2)", "tl.store(y_ptr + i, x * x)"),
    "a type as a text": ("tl.store(y_ptr + i, x.to('float32'))",
        "tl.store(y_ptr + i, x.to(tl.float32))"),
    "transpose of one axis": ("tl.store(y_ptr + i, x.T)",
        "tl.store(y_ptr + i[:, None], x[:, None])"),
    "a tuple as a number": ("sizes = (n, n)\ntl.store(y_ptr + i, x, mask=i < sizes)",
        "sizes = (n, n)\ntl.store(y_ptr + i, x, mask=i < sizes[0])"),
    "a tile in two names": ("a, b = x\ntl.store(y_ptr + i, a)",
        "a, b = tl.split(x.reshape(32, 2))\ntl.store(y_ptr + tl.arange(0, 32), a)"),
    "element of a pointer": ("tl.store(y_ptr + i, x_ptr[i])",
        "tl.store(y_ptr + i, tl.load(x_ptr + i))"),
    "element of a pointer, updated": ("y_ptr[i] += 1",
        "tl.store(y_ptr + i, tl.load(y_ptr + i) + 1)"),
    "element of a tile, by a number that was loaded": (
        "tl.store(y_ptr, x[tl.load(y_ptr).to(tl.int32)])",
        "tl.store(y_ptr, tl.sum(tl.where(i == tl.load(y_ptr).to(tl.int32), x, 0), axis=0))"),
    "a list that grows": ("xs = [i]\nxs.append(x)\ntl.store(y_ptr + i, xs[1])",
        "xs = [i]\nxs = xs + [x]\ntl.store(y_ptr + i, xs[1])"),
    "a store the wrong way round": ("tl.store(x, y_ptr + i)", "tl.store(y_ptr + i, x)"),
    "zeros of no type": ("tl.store(y_ptr + i, tl.zeros((64,)) + x)",
        "tl.store(y_ptr + i, tl.zeros((64,), dtype=tl.float32) + x)"),
    "undefined name": ("offsets = i\ntl.store(y_ptr + offset, x)",
        "offsets = i\ntl.store(y_ptr + offsets, x)"),
    "enumerate": ("for k, v in enumerate(range(3)):\n    tl.store(y_ptr + k, 1.0)",
        "for k in range(3):\n    tl.store(y_ptr + k, 1.0)"),
    "global variable": ("tl.store(y_ptr + i, x * FACTOR)", ""),
    "missing constexpr in arange": ("j = tl.arange(0, n)\ntl.store(y_ptr + j, 1.0)",
        "def kernel(x_ptr, y_ptr, n: tl.constexpr):\n    tl.store(y_ptr + tl.arange(0, n), 1.0)"),
    "missing constexpr in a shape": ("z = tl.zeros((n,), tl.float32)\ntl.store(y_ptr + i, z)",
        "def kernel(x_ptr, y_ptr, n: tl.constexpr):\n"
        "    tl.store(y_ptr + tl.arange(0, n), tl.zeros((n,), tl.float32))"),
    "missing constexpr in static_range": (
        "for k in tl.static_range(n):\n    tl.store(y_ptr + k, 1.0)",
        "for k in range(n):\n    tl.store(y_ptr + k, 1.0)"),
    "static_assert of a value": ("tl.static_assert(n > 3)\ntl.store(y_ptr + i, x)",
        "tl.device_assert(n > 3)\ntl.store(y_ptr + i, x)"),
    "bound that the kernel computes": ("m = n // 2\nj = tl.arange(0, m)\ntl.store(y_ptr + j, 1.0)",
        ""),
    "50 lanes": ("j = tl.arange(0, 50)\ntl.store(y_ptr + j, 1.0)",
        "j = tl.arange(0, 64)\ntl.store(y_ptr + j, 1.0, mask=j < 50)"),
    "arange that ends before it begins": ("j = tl.arange(64, 0)\ntl.store(y_ptr + j, 1.0)",
        "j = tl.arange(0, 64)\ntl.store(y_ptr + j, 1.0)"),
    "three rows": ("tl.store(y_ptr + i, tl.sum(tl.zeros((3, 64), tl.float32), axis=0))",
        "tl.store(y_ptr + i, tl.sum(tl.zeros((4, 64), tl.float32), axis=0))"),
    "tile too large": ("j = tl.arange(0, 2097152)\ntl.store(y_ptr + j, 1.0, mask=j < 64)",
        "j = tl.arange(0, 1024)\ntl.store(y_ptr + j, 1.0, mask=j < 64)"),
    "axis of the grid": ("tl.store(y_ptr + tl.program_id(3), 1.0)",
        "tl.store(y_ptr + tl.program_id(0), 1.0)"),
    "len of a tensor": ("for k in range(len(x_ptr)):\n    tl.store(y_ptr + k, 1.0)",
        "for k in range(n):\n    tl.store(y_ptr + k, 1.0)"),
    "shape of a tensor": ("for k in range(x_ptr.shape[0]):\n    tl.store(y_ptr + k, 1.0)",
        "for k in range(n):\n    tl.store(y_ptr + k, 1.0)"),
    "if on a tile": ("if x > 0:\n    x = x * 2\ntl.store(y_ptr + i, x)",
        "x = tl.where(x > 0, x * 2, x)\ntl.store(y_ptr + i, x)"),
    "if and else on a tile": ("if x > 0:\n    v = x\nelse:\n    v = -x\ntl.store(y_ptr + i, v)",
        "v = tl.where(x > 0, x, -x)\ntl.store(y_ptr + i, v)"),
    "conditional expression on a tile": ("tl.store(y_ptr + i, x if x > 0 else 0.0)",
        "tl.store(y_ptr + i, tl.where(x > 0, x, 0.0))"),
    "while on a tile": ("while x > 0:\n    x = x - 1\ntl.store(y_ptr + i, x)",
        "while tl.max((x > 0).to(tl.int32), axis=0) != 0:\n    x = tl.where(x > 0, x - 1, x)\n"
        "tl.store(y_ptr + i, x)"),
    "dot of integers": ("j = tl.arange(0, 16)\na = (j[:, None] * 16 + j[None, :]).to(tl.int32)\n"
        "d = tl.dot(a, a)\ntl.store(y_ptr + i, x)",
        "j = tl.arange(0, 16)\na = (j[:, None] * 16 + j[None, :]).to(tl.float32)\n"
        "d = tl.dot(a, a)\ntl.store(y_ptr + i, x)"),
    "dot of two types": ("a = tl.zeros((16, 16), tl.float32)\nd = tl.dot(a, a.to(tl.float16))\n"
        "tl.store(y_ptr + i, x)",
        "a = tl.zeros((16, 16), tl.float32)\nd = tl.dot(a, a.to(tl.float16).to(tl.float32))\n"
        "tl.store(y_ptr + i, x)"),
    "dot of shapes that do not fit": (
        "a = tl.zeros((16, 32), tl.float32)\nd = tl.dot(a, a)\ntl.store(y_ptr + i, x)",
        "a = tl.zeros((16, 32), tl.float32)\nd = tl.dot(a, tl.trans(a))\ntl.store(y_ptr + i, x)"),
    "dot of rows": ("d = tl.dot(x, x)\ntl.store(y_ptr, d)",
        "d = tl.sum(x * x, axis=0)\ntl.store(y_ptr, d)"),
    "dot of small tiles": (
        "a = tl.zeros((4, 4), tl.float32)\nd = tl.dot(a, a)\ntl.store(y_ptr + i, x)",
        "a = tl.zeros((4, 4), tl.float32)\nd = tl.sum(a[:, :, None] * a[None, :, :], axis=1)\n"
        "tl.store(y_ptr + i, x)"),
    "tile stored at one address": ("tl.store(y_ptr, x)", "tl.store(y_ptr + i, x)"),
    "mask at one address": ("tl.store(y_ptr + i, tl.load(x_ptr, mask=i < 3))",
        "tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < 3))"),
    "values as a mask": ("tl.store(y_ptr + i, x, mask=x)", "tl.store(y_ptr + i, x, mask=x != 0)"),
    "other without a mask": ("tl.store(y_ptr + i, tl.load(x_ptr + i, other=0.0))",
        "tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0))"),
    "pointers added": ("tl.store(y_ptr + i, x_ptr + y_ptr)",
        "tl.store(y_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))"),
    "pointer as a number": ("tl.store(y_ptr + i, x_ptr * 2.0)",
        "tl.store(y_ptr + i, tl.load(x_ptr + i) * 2.0)"),
    "offsets in floats": ("half = i / 2\ntl.store(y_ptr + half, x)",
        "half = i // 2\ntl.store(y_ptr + half, x)"),
    "pointer indexed": ("tl.store(y_ptr, x_ptr[0])", "tl.store(y_ptr, tl.load(x_ptr + 0))"),
    "tile indexed": ("tl.store(y_ptr, x[0])",
        "tl.store(y_ptr, tl.sum(tl.where(i == 0, x, 0), axis=0))"),
    "element assigned": ("x[3] = 1.0\ntl.store(y_ptr + i, x)",
        "x = tl.where(i == 3, 1.0, x)\ntl.store(y_ptr + i, x)"),
    "shapes that do not fit": ("w = tl.load(x_ptr + tl.arange(0, 32))\ntl.store(y_ptr + i, x + w)",
        "w = tl.load(x_ptr + tl.arange(0, 64))\ntl.store(y_ptr + i, x + w)"),
    "broadcast": ("tl.store(y_ptr + i, tl.broadcast_to(tl.load(x_ptr + tl.arange(0, 32)), (64,)))",
        "tl.store(y_ptr + i, tl.broadcast_to(tl.load(x_ptr + tl.arange(0, 1)), (64,)))"),
    "reshape": ("tl.store(y_ptr + i, tl.sum(tl.reshape(x, (16, 8)), axis=0))",
        "tl.store(y_ptr + tl.arange(0, 8), tl.sum(tl.reshape(x, (8, 8)), axis=0))"),
    "axis of a sum": ("tl.store(y_ptr, tl.sum(x, axis=1))", "tl.store(y_ptr, tl.sum(x, axis=0))"),
    "transposed row": ("tl.store(y_ptr + i, tl.trans(x))",
        "tl.store(y_ptr + i[:, None], x[:, None])"),
    "function of floats": ("tl.store(y_ptr + i, tl.exp(i))",
        "tl.store(y_ptr + i, tl.exp(i.to(tl.float32)))"),
    "not of floats": ("tl.store(y_ptr + i, ~x)", "tl.store(y_ptr + i, x == 0)"),
    "minus of a pointer": ("tl.store(y_ptr + i, -x_ptr)",
        "tl.store(y_ptr + i, -tl.load(x_ptr + i))"),
    "bitcast to another size": ("tl.store(y_ptr + i, x.to(tl.int64, bitcast=True))",
        "tl.store(y_ptr + i, x.to(tl.int32, bitcast=True))"),
    "sum that begins as an integer": (
        "acc = 0\nfor k in range(4):\n    acc += tl.load(x_ptr + k)\ntl.store(y_ptr, acc)",
        "acc = 0.0\nfor k in range(4):\n    acc += tl.load(x_ptr + k)\ntl.store(y_ptr, acc)"),
    "sum that begins as a number": (
        "acc = 0.0\nfor k in range(4):\n    acc += tl.load(x_ptr + i)\ntl.store(y_ptr + i, acc)",
        "acc = tl.zeros((64,), tl.float32)\nfor k in range(4):\n    acc += tl.load(x_ptr + i)\n"
        "tl.store(y_ptr + i, acc)"),
    "branches of two types": ("if n > 3:\n    v = 1\nelse:\n    v = x\ntl.store(y_ptr + i, v)",
        "v = tl.where(n > 3, 1.0, x)\ntl.store(y_ptr + i, v)"),
    "range of floats": ("for k in range(n / 2):\n    tl.store(y_ptr + k, 1.0)",
        "for k in range(n // 2):\n    tl.store(y_ptr + k, 1.0)"),
    "range of a tile": ("for k in range(i):\n    tl.store(y_ptr + k, 1.0)",
        "for k in range(tl.max(i, axis=0)):\n    tl.store(y_ptr + k, 1.0)"),
    "unknown option of a function of tl": ("tl.store(y_ptr + i, x, msk=i < 3)",
        "tl.store(y_ptr + i, x, mask=i < 3)"),
    "torch's option": ("tl.store(y_ptr, tl.sum(x, dim=0))", "tl.store(y_ptr, tl.sum(x, axis=0))"),
    "atomics of a type": ("tl.atomic_add(y_ptr.to(tl.pointer_type(tl.int8)) + i, i.to(tl.int8))",
        "tl.atomic_add(y_ptr.to(tl.pointer_type(tl.int32)) + i, i.to(tl.int32))"),
    "break": (
        "for k in range(4):\n    if k == n:\n        break\n    x += 1\ntl.store(y_ptr + i, x)",
        "k = 0\nwhile (k < 4) & (k != n):\n    x += 1\n    k += 1\ntl.store(y_ptr + i, x)"),
    "continue": ("for k in range(4):\n    if k == n:\n        continue\n    x += 1\n"
        "tl.store(y_ptr + i, x)",
        "for k in range(4):\n    if k != n:\n        x += 1\ntl.store(y_ptr + i, x)"),
    "try": ("try:\n    tl.store(y_ptr + i, x)\nexcept Exception:\n    pass",
        "tl.store(y_ptr + i, x)"),
    "lambda": ("f = lambda v: v + 1\ntl.store(y_ptr + i, f(x))", "tl.store(y_ptr + i, x + 1)"),
    "dict": ("d = {'a': x}\ntl.store(y_ptr + i, d['a'])", "d = (x,)\ntl.store(y_ptr + i, d[0])"),
    "list comprehension": ("v = [tl.load(x_ptr + k) for k in range(4)]\ntl.store(y_ptr, v[0])",
        "v = 0.0\nfor k in range(4):\n    v = tl.load(x_ptr + k)\ntl.store(y_ptr, v)"),
    "function inside": ("def f(v):\n    return v + 1\ntl.store(y_ptr + i, f(x))",
        "tl.store(y_ptr + i, x + 1)"),
    "return in a loop": (
        "for k in range(4):\n    if k == n:\n        return\n    tl.store(y_ptr + k, 1.0)",
        "for k in range(4):\n    if k < n:\n        tl.store(y_ptr + k, 1.0)"),
    "chained comparison": ("tl.store(y_ptr + i, x, mask=0 <= i < n)",
        "tl.store(y_ptr + i, x, mask=(0 <= i) & (i < n))"),
    "comparisons that & chains": ("tl.store(y_ptr + i, x, mask=i < n & 3 < i)",
        "tl.store(y_ptr + i, x, mask=(i < n) & (3 < i))"),
    "loop over a list": ("for k in [1, 2, 3]:\n    tl.store(y_ptr + k, 1.0)",
        "for k in range(1, 4):\n    tl.store(y_ptr + k, 1.0)"),
    "arguments in another order": ("def kernel(n, x_ptr, y_ptr):\n    i = tl.arange(0, 64)\n"
        "    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)",
        "def kernel(x_ptr, y_ptr, n):\n    i = tl.arange(0, 64)\n"
        "    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)"),
    "matrix product": ("a = tl.zeros((16, 16), tl.float32)\nd = a @ a\ntl.store(y_ptr + i, x)",
        "a = tl.zeros((16, 16), tl.float32)\nd = tl.dot(a, a)\ntl.store(y_ptr + i, x)"),
    "membership": ("if n in (1, 2):\n    x = x + 1\ntl.store(y_ptr + i, x)",
        "if (n == 1) | (n == 2):\n    x = x + 1\ntl.store(y_ptr + i, x)"),
    "if of a tuple": ("if (x, x):\n    x = x + 1\ntl.store(y_ptr + i, x)",
        "if n > 0:\n    x = x + 1\ntl.store(y_ptr + i, x)"),
    "attribute assigned": ("x.scale = 2\ntl.store(y_ptr + i, x)",
        "scale = 2\ntl.store(y_ptr + i, x)"),
    "constant assigned twice": ("x: tl.constexpr = 3\ntl.store(y_ptr + i, x)",
        "scale: tl.constexpr = 3\ntl.store(y_ptr + i, scale)"),
    "constant in an unrolled loop": (
        "for k in tl.static_range(2):\n    half: tl.constexpr = 64 // 2\n"
        "    j = k * half + tl.arange(0, half)\n    tl.store(y_ptr + j, 1.0)",
        "half: tl.constexpr = 64 // 2\nfor k in tl.static_range(2):\n"
        "    j = k * half + tl.arange(0, half)\n    tl.store(y_ptr + j, 1.0)"),
    "constant of the number of an unrolled loop": (
        "for k in tl.static_range(2):\n    size: tl.constexpr = 16 * (k + 1)\n"
        "    tl.store(y_ptr + tl.arange(0, size), 1.0)",
        "for k in tl.static_range(2):\n    tl.store(y_ptr + tl.arange(0, 16 * (k + 1)), 1.0)"),
    "a stride of one that a loop changes": (
        "def kernel(x_ptr, y_ptr, n, s=1):\n    for k in range(4):\n"
        "        tl.store(y_ptr + k, tl.load(x_ptr + k * s))\n        s = n", ""),
    "a stride of one that a branch changes": (
        "def kernel(x_ptr, y_ptr, n, s=1):\n    if n > 3:\n        s = s + n\n"
        "    tl.store(y_ptr, tl.load(x_ptr + s))", ""),
    "a stride of one that is cast": (
        "def kernel(x_ptr, y_ptr, n, s=1):\n    o = tl.program_id(0) * s.to(tl.int64)\n"
        "    tl.store(y_ptr + o, 1.0)", ""),
    "a constant that an unrolled loop doubles": (
        "k: tl.constexpr = 1\nfor j in tl.static_range(2):\n    k: tl.constexpr = k * 2\n"
        "    tl.store(y_ptr + j, k)",
        "k = 1\nfor j in tl.static_range(2):\n    k = k * 2\n    tl.store(y_ptr + j, k)"),
    "an operand with two numbers in a byte": (
        "a = tl.zeros((64, 64), tl.uint8)\ns = tl.full((64, 2), 127, tl.uint8)\n"
        "b = tl.zeros((64, 64), tl.bfloat16)\n"
        'c = tl.dot_scaled(a, s, "e2m1", b, None, "bf16")\ntl.store(y_ptr + i, tl.sum(c, 0))', ""),
    "scales for 16 numbers in uint8": (
        "a = tl.zeros((64, 32), tl.uint8)\ns = tl.full((64, 4), 127, tl.uint8)\n"
        'c = tl.dot_scaled(a, s, "e2m1", a.T, s, "e2m1")\ntl.store(y_ptr + i, tl.sum(c, 0))', ""),
    "none of the largest": ("k: tl.constexpr = 0\ntl.store(y_ptr + i, tl.topk(x, k))",
        "k: tl.constexpr = 4\ntl.store(y_ptr + tl.arange(0, k), tl.topk(x, k))"),
    "more of the largest than a row has": (
        "tl.store(y_ptr + tl.arange(0, 16), tl.sum(tl.topk(x.reshape(8, 8), 16), 0))", ""),
    "an operator as the function of a reduction": (
        "tl.store(y_ptr, tl.reduce(x, 0, tl.maximum))", "tl.store(y_ptr, tl.max(x, 0))"),
    "a variable of one branch": ("if n > 3:\n    v = 1.0\ntl.store(y_ptr + i, v)",
        "v = 0.0\nif n > 3:\n    v = 1.0\ntl.store(y_ptr + i, v)"),
    "a descriptor with short rows": (
        "d = tl.make_tensor_descriptor(y_ptr, [8, 8], [8, 1], [8, 2])\n"
        "d.store([0, 0], tl.zeros((8, 2), tl.float32))", ""),
    "constant that is not annotated": ("m = 64 // 2\nj = tl.arange(0, m)\ntl.store(y_ptr + j, 1.0)",
        "m: tl.constexpr = 64 // 2\nj = tl.arange(0, m)\ntl.store(y_ptr + j, 1.0)"),
    "values in an f-string": (
        'tl.static_print(f"x is {x}")\ntl.static_assert(n, f"x is {x}")\ntl.store(y_ptr + i, x)',
        'tl.device_print("x is", x)\ntl.store(y_ptr + i, x)'),
    "signed and unsigned": ("tl.store(y_ptr + i, i // i.to(tl.uint32))",
        "tl.store(y_ptr + i, i // i.to(tl.uint32).to(tl.int32))"),
    "number and tuple in a loop": (
        "v = (1, 2)\nfor k in range(4):\n    v = x\ntl.store(y_ptr + i, v)",
        "v = x\nfor k in range(4):\n    v = x + k\ntl.store(y_ptr + i, v)"),
    "None in a number's place": ("k = None\ntl.store(y_ptr + i, x * k)",
        "k = None\nif k is not None:\n    tl.store(y_ptr + i, x * k)"),
    "too many digits": ("k: tl.constexpr = 10 ** 30\ntl.store(y_ptr + i, i * k)",
        "k: tl.constexpr = 10 ** 3\ntl.store(y_ptr + i, i * k)"),
    "number in a tensor's place": ("tl.store(n + i, x)", ""),
    "dot that adds to another type": (
        "a = tl.zeros((16, 16), tl.float16)\nd = tl.dot(a, a, tl.zeros((16, 16), tl.float16))\n"
        "tl.store(y_ptr + i, x)",
        "a = tl.zeros((16, 16), tl.float16)\nd = tl.dot(a, a, tl.zeros((16, 16), tl.float32))\n"
        "tl.store(y_ptr + i, x)"),
    "dot that adds to integers": (
        "a = tl.zeros((32, 32), tl.int8)\nd = tl.dot(a, a, tl.zeros((32, 32), tl.int32))\n"
        "tl.store(y_ptr, tl.sum(tl.sum(d, 0), 0))",
        "a = tl.zeros((32, 32), tl.int8)\n"
        "d = tl.dot(a, a, tl.zeros((32, 32), tl.int32), out_dtype=tl.int32)\n"
        "tl.store(y_ptr, tl.sum(tl.sum(d, 0), 0))"),
    "dot of integers that adds to floats": (
        "a = tl.zeros((32, 32), tl.int8)\nd = tl.dot(a, a, tl.zeros((32, 32), tl.float16))\n"
        "tl.store(y_ptr, tl.sum(tl.sum(d, 0), 0))",
        "a = tl.zeros((32, 32), tl.int8)\n"
        "d = tl.dot(a, a, tl.zeros((32, 32), tl.int32), out_dtype=tl.int32)\n"
        "tl.store(y_ptr, tl.sum(tl.sum(d, 0), 0))"),
    "the sign bit of a number": ("tl.store(y_ptr + i, i & 0xFFFF0000)",
        "tl.store(y_ptr + i, i & -0x10000)"),
    "a pointer cast to a number": ("tl.store(y_ptr + i, tl.rand(y_ptr.to(tl.int32), i))",
        "tl.store(y_ptr + i, tl.rand(tl.load(y_ptr).to(tl.int32), i))"),
    "inline assembly that packs three": (
        'v = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 3)\n'
        "tl.store(y_ptr + i, v)",
        'v = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)\n'
        "tl.store(y_ptr + i, v)"),
}  # fmt: skip
"""Name -> the wrong lines of a kernel after its head, or the whole of it, and the right ones: fixed
as the advice says, or "" where that lies outside the kernel."""

VALID_HERE = {
    "chained comparison": CHAINS_COMPARISONS,
    "comparisons that & chains": CHAINS_COMPARISONS,
    "dot that adds to another type": ADDS_DOTS_TO_FLOAT16,
}
REFUSED = [name for name in MISTAKES if not VALID_HERE.get(name)]

_numbers = itertools.count()


def kernel_of(lines, folder):
    head, body = HEAD, lines
    if lines.startswith("def kernel"):
        head = HEAD[: HEAD.index("def kernel")]
    else:
        body = "\n".join(f"    {line}" for line in lines.split("\n"))
    file = folder / f"mistake_{next(_numbers)}.py"
    file.write_text(f"{head}{body}\n")
    return runpy.run_path(str(file))["kernel"]


def launch(kernel):
    return kernellab.run(kernel, (1,), torch.rand(256), torch.zeros(256), 64)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_told_with_its_line_and_a_fix_that_helps(name, tmp_path, raised):
    wrong, right = MISTAKES[name]
    kernel = kernel_of(wrong, tmp_path)
    error = raised(kernellab.CompileError, launch, kernel)
    assert error.advice
    # On a line of the kernel's own, whose text is shown.
    place = error.position
    assert place is not None
    assert place.file == kernel.fn.__code__.co_filename
    assert kernel.raw_src[place.line - kernel.starting_line_number].strip() in str(error)
    if right:
        launch(kernel_of(right, tmp_path))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", sorted(TABLES.function))
def test_what_stands_for_a_function_of_torch_compiles(name, tmp_path):
    instead = instead_of(name, ("x", "y", "z"))
    if is_form(instead):
        assert instead.startswith("tl.")
        for word, value in (("BLOCK", "64"), ("value", "1"), ("seed", "7"), ("offsets", "i")):
            instead = instead.replace(word, value)
    setting = "x = x * 0.5 + 0.25\ny = x + 1\nz = x + 2\n"
    if name in ("matmul", "mm", "bmm", "dot", "transpose"):
        setting = "x = tl.zeros((16, 16), tl.float32)\ny = x\n"
    if name == "where":
        setting += "x = x > 0.5\n"
    launch(kernel_of(f"{setting}v = {instead}\ntl.store(y_ptr + i, i)", tmp_path))


FUNCTIONAL = torch.nn.functional
COMPUTED = {
    **{name: getattr(FUNCTIONAL, name) for name in ("gelu", "silu", "softplus", "leaky_relu")},
    **{name: getattr(torch, name) for name in ("relu", "tanh", "log10", "log1p", "expm1", "tan")},
    **{name: getattr(torch, name) for name in ("sign", "rsqrt", "square", "reciprocal")},
    "log_softmax": lambda x: torch.log_softmax(x, 0),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", COMPUTED)
def test_what_stands_for_a_function_of_torch_computes_it(name, tmp_path):
    kernel = kernel_of(f"tl.store(y_ptr + i, {instead_of(name, ('x',))})", tmp_path)
    x, y = torch.rand(64) + 0.1, torch.zeros(64)
    kernellab.run(kernel, (1,), x, y, 64)
    torch.testing.assert_close(y, COMPUTED[name](x), rtol=1e-5, atol=1e-5)


def compiled(lines, folder):
    return kernellab.compile(
        kernel_of(lines, folder), "*fp32", "*fp32", "i32", target="sm_90", record="stages"
    )


def test_a_fix_knows_the_kernels_variables_where_triton_compiles_by_itself(tmp_path, raised):
    """On the way out of `triton.compile` an error loses the frames that they stand in."""
    caught = raised(kernellab.CompileError, compiled, "tl.store(y_ptr + i, x_ptr[i])", tmp_path)
    assert "x_ptr" in str(caught)
    assert caught.advice == "Write tl.load(x_ptr + i)."


def test_a_kernel_that_returns_is_told_to_store(tmp_path, raised):
    """Triton refuses it where layouts are given, in words about these."""
    caught = raised(kernellab.CompileError, compiled, "return x * 2", tmp_path)
    assert "out_ptr" in caught.advice
    assert compiled("tl.store(y_ptr + i, x * 2)", tmp_path).resources.registers


def test_a_descriptor_without_a_layout(tmp_path, raised):
    x, y = torch.rand(64, 64), torch.zeros(64, 64)
    block = [64, 64]
    caught = raised(
        kernellab.CompileError, kernellab.run, descriptors.gluon_copy, (1,),
        TensorDescriptor.from_tensor(x, block), TensorDescriptor.from_tensor(y, block),
    )  # fmt: skip
    assert "from_tensor" in caught.advice
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float32)
    made = (hopper.TensorDescriptor.from_tensor(tensor, block, layout) for tensor in (x, y))
    kernellab.run(descriptors.gluon_copy, (1,), *made)
    assert torch.equal(y, x)
    of_type = f"tensordesc<fp32{block},{layout}>"
    compilation = kernellab.compile(descriptors.gluon_copy, of_type, of_type, target="sm_90")
    assert isinstance(compilation, kernellab.Compilation)
    assert "cp.async.bulk.tensor" in compilation.stages["ptx"].text


@gluon.jit
def two_layouts(x_ptr, size: gl.constexpr, first: gl.constexpr, second: gl.constexpr):
    total = gl.arange(0, size, first) + gl.arange(0, size, second)
    gl.store(x_ptr + total, 1.0)


@triton.jit
def to_fp8(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr).to(tl.float8e4nv))


@triton.jit
def dot_of_int8(x_ptr):
    a = tl.zeros((32, 32), tl.int8)
    tl.store(x_ptr, tl.sum(tl.dot(a, a)))


@gluon.jit
def to_any_memory(desc, size: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.float32, [size], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    gl.nvidia.hopper.tma.async_copy_shared_to_global(desc, [0], memory)


OF_4, OF_8 = (gl.BlockedLayout([1], [32], [warps], [0]) for warps in (4, 8))
LAYOUTS_AND_TYPES = [
    (two_layouts, "sm_90", ("*fp32", 256, OF_4, gl.BlockedLayout([2], [32], [4], [0])),
        "convert_layout"),
    (two_layouts, "sm_90", ("*fp32", 256, OF_8, OF_8), "num_warps=8"),
    (to_fp8, "sm_80", ("*fp32", "*fp8e4nv"), "sm_89"),
    (dot_of_int8, "sm_75", ("*i32",), "fp16"),
    pytest.param(to_fp8, "sm_90", ("*fp64", "*fp8e4nv"), "fp32", marks=pytest.mark.slow),
]  # fmt: skip
if NAMES_LAYOUTS_OF_TMA:
    described = f"tensordesc<fp32[64],{gl.NVMMASharedLayout(0, 32, 1)}>"
    LAYOUTS_AND_TYPES.append((to_any_memory, "sm_90", (described, 64), "desc.layout"))


@pytest.mark.parametrize(("kernel", "target", "arguments", "words"), LAYOUTS_AND_TYPES)
def test_layouts_and_types_of_a_gpu(kernel, target, arguments, words):
    with pytest.raises(kernellab.CompileError) as caught:
        kernellab.compile(kernel, *arguments, target=target)
    assert words in str(caught.value.advice)


@pytest.mark.slow
def test_every_rule_is_provoked(tmp_path, monkeypatch):
    """A rule that no mistake here meets might be one that nothing does."""
    answering = set()

    def watched(function):
        def ask(refused, told):
            fix = function(refused, told)
            if fix is not None:
                answering.add(function)
            return fix

        return ask

    registered = list(rules._RULES)
    watching = [(pattern, watched(function)) for pattern, function in registered]
    monkeypatch.setattr(rules, "_RULES", watching)
    for name in REFUSED:
        kernel = kernel_of(MISTAKES[name][0], tmp_path)
        with pytest.raises(kernellab.CompileError):
            partial(launch, kernel)()
    with pytest.raises(kernellab.CompileError):
        compiled("return x", tmp_path)
    for row in LAYOUTS_AND_TYPES:
        test_layouts_and_types_of_a_gpu(*getattr(row, "values", row))
    types = ["tensordesc<fp32[64,64]>"] * 2
    with pytest.raises(kernellab.CompileError):
        kernellab.compile(descriptors.gluon_copy, *types)
    silent = {function for _, function in registered} - answering
    unmet = {getattr(function, "__name__", "of a table") for function in silent}
    taken = {
        "_chained": CHAINS_COMPARISONS,
        "_dot_sum": ADDS_DOTS_TO_FLOAT16,
        "_": not NAMES_LAYOUTS_OF_TMA,
    }
    assert unmet == {rule for rule, is_taken in taken.items() if is_taken}


def test_the_words_of_the_tables_are_sentences():
    constructs = [*TABLES.statement.values(), *TABLES.operator.values()]
    advice = [rule.advice for rule in TABLES.rule]
    advice += [construct.advice for construct in constructs]
    advice += TABLES.python.values()
    assert [words for words in advice if not words.endswith(".")] == []
    assert all(rule.reason for rule in TABLES.constant)
