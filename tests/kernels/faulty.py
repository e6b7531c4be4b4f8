"""Kernels that a compiler refuses, each for one reason on its marked line; awkward on purpose."""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def odd_arange(
    x_ptr,
    BLOCK: tl.constexpr,
):
    offsets = tl.arange(0, BLOCK)  # FAULT: odd_arange
    tl.store(x_ptr + offsets, 1.0)


@triton.jit(
    do_not_specialize=[
        "n",
    ],
    debug=False,
)
def decorated(x_ptr, n, BLOCK: tl.constexpr = 4, scale=1.0):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, scale * undefined_name, mask=offsets < n)  # type: ignore[name-defined]  # noqa: F821  FAULT: decorated


@triton.jit
def inner_helper(x, FACTOR: tl.constexpr = 2):
    y = x * FACTOR
    return tl.reshape(y, (3, 5))  # FAULT: inner_helper


@triton.jit
def outer_helper(x):
    return inner_helper(x) + 1


@triton.jit
def calls_helpers(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, outer_helper(tl.load(x_ptr + offsets)))


@triton.jit
def library_fault(x_ptr, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK, 3), tl.float32)  # FAULT: library_fault
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.sum(acc, 1))


@triton.jit
def wrong_construct(x_ptr, BLOCK: tl.constexpr):
    values = [v for v in range(BLOCK) if v > 1]  # FAULT: wrong_construct
    tl.store(x_ptr, values)


def make_kernel():
    @triton.jit
    def indented(x_ptr, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK == 8, "BLOCK must be 8")  # FAULT: indented
        tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)

    return indented


indented = make_kernel()


@triton.jit
def bad_assembly(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.inline_asm_elementwise("no_such.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)  # FAULT: bad_assembly
    tl.store(x_ptr + offsets, y)


def plain_python(x):
    return x


@triton.jit
def calls_python(x_ptr, BLOCK: tl.constexpr):
    y = plain_python(1.0)  # FAULT: calls_python


@triton.jit
def says_hello(x_ptr, BLOCK: tl.constexpr):
    tl.static_print("BLOCK is", BLOCK)
    tl.store(x_ptr + tl.arange(0, BLOCK), missing)  # type: ignore[name-defined]  # noqa: F821  FAULT: says_hello


@triton.jit
def bad_packing(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r,r", [x], tl.float32, True, 3)  # FAULT: bad_packing
    tl.store(x_ptr + offsets, y)
