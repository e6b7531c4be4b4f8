"""Kernels with code that is not Triton's: inline assembly and functions of device libraries."""

import triton
import triton.language as tl
from triton.language import core
from triton.language.extra import libdevice


@triton.jit
def one_register_each(x_ptr, y_ptr, out_ptr, shift, ASM: tl.constexpr, N: tl.constexpr):
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    z = tl.inline_asm_elementwise(ASM, "=r,r, r, r", [x, y, shift], tl.int32, is_pure=True, pack=1)
    tl.store(out_ptr + lanes, z)


@triton.jit
def four_in_a_register(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    asm: tl.constexpr = "and.b32 $0, $1, 0x1F1F1F1F; shl.b32 $0, $0, 3;"
    y = tl.inline_asm_elementwise(asm, "=r,r", [x], tl.int8, is_pure=True, pack=4)
    tl.store(out_ptr + lanes, y)


@triton.jit
def several_results(a_ptr, b_ptr, c_ptr, d_ptr, N: tl.constexpr):
    """Four bytes and four floats at a time; a tile and a row of it."""
    rows, lanes = tl.arange(0, 2)[:, None], tl.arange(0, N)[None, :]
    where = tl.program_id(0) * 2 * N + rows * N + lanes
    a, b = tl.load(a_ptr + where), tl.load(b_ptr + lanes)
    c, d = tl.inline_asm_elementwise(
        """{
            .reg .b8 part<4>;                     // the bytes of a
            mov.b32 {part0, part1, part2, part3}, $8;
            cvt.u32.u8 $0, part0; cvt.u32.u8 $1, part1;
            cvt.u32.u8 $2, part2; cvt.u32.u8 $3, part3;
        }
        /* the larger of a and b, as floats */
        cvt.rn.f32.s32 $4, $0; cvt.rn.f32.s32 $5, $1;
        cvt.rn.f32.s32 $6, $2; cvt.rn.f32.s32 $7, $3;
        max.f32 $4, $4, $9; max.f32 $5, $5, $10; max.f32 $6, $6, $11; max.f32 $7, $7, $12;
        """,
        "=r,=r,=r,=r,=r,=r,=r,=r,r,r,r,r,r",
        [a, b],
        (tl.int32, tl.float32),
        is_pure=True,
        pack=4,
    )
    tl.store(c_ptr + where, c)
    tl.store(d_ptr + where, d)


@triton.jit
def through_memory(x_ptr, out_ptr, n, N: tl.constexpr):
    """Loads and stores in the assembly itself; only lanes below n are stored."""
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    tl.inline_asm_elementwise(
        """{
            .reg .pred inside;
            .reg .b32 value;
            setp.lt.s32 inside, $3, $4;
            ld.global.b16 value, [$1];
            shl.b32 value, value, 3;
            @inside st.global.b16 [$2], value;
            mov.b32 $0, value;
        }""",
        "=r,l,l,r,r",
        [x_ptr + lanes, out_ptr + lanes, lanes, n],
        tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def pairs_of_halves(x_ptr, y_ptr, out_ptr, ASM: tl.constexpr, N: tl.constexpr):
    """Two 16-bit floats in a register; N need not be even."""
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    z = tl.inline_asm_elementwise(ASM, "=r,r,r", [x, y], x.dtype, is_pure=True, pack=2)
    tl.store(out_ptr + lanes, z)


@triton.jit
def through_e4b15(x_ptr, out_ptr, bits_ptr, N: tl.constexpr):
    """Triton itself writes this conversion as assembly."""
    lanes = tl.arange(0, N)
    narrow = tl.load(x_ptr + lanes).to(tl.float8e4b15)
    tl.store(bits_ptr + lanes, narrow.to(tl.uint8, bitcast=True))
    tl.store(out_ptr + lanes, narrow.to(tl.float16))


@triton.jit
def timed(out_ptr):
    start = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], tl.int64, is_pure=False, pack=1)  # fmt: skip
    end = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], tl.int64, is_pure=False, pack=1)  # fmt: skip
    tl.store(out_ptr, end - start)
    tl.store(out_ptr + 1, start)


@triton.jit
def functions_of_one(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, libdevice.tanh(x) + libdevice.tgamma(x) - libdevice.erfinv(0.5 / x))


@triton.jit
def functions_of_several(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    tl.store(out_ptr + lanes, libdevice.pow(libdevice.abs(x), y))
    tl.store(out_ptr + N + lanes, libdevice.fma_rz(x, y, 1e-9))
    tl.store(out_ptr + 2 * N + lanes, libdevice.jn(3, x))
    tl.store(out_ptr + 3 * N + lanes, libdevice.float2int_ru(x).to(tl.float32))


@triton.jit
def integers_and_bits(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, libdevice.popc(x))
    tl.store(out_ptr + N + lanes, libdevice.clz(x))
    tl.store(out_ptr + 2 * N + lanes, libdevice.brev(x))
    tl.store(out_ptr + 3 * N + lanes, libdevice.ffs(x))
    tl.store(out_ptr + 4 * N + lanes, libdevice.mulhi(x, x + 77))


@core.extern
def thrice(x, _semantic=None):
    """A function of a device library of somebody's own."""
    known = {(core.dtype("fp32"),): ("__mine_thrice", core.dtype("fp32"))}
    return core.extern_elementwise("", "", [x], known, is_pure=True, _semantic=_semantic)


@triton.jit
def of_the_users_own_library(x_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(x_ptr + lanes, thrice(tl.load(x_ptr + lanes)))


@triton.jit
def of_the_users_own(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    low, high = tl.inline_asm_elementwise("wonder.f32 $0, $1, $2;  // no one knows", "=f,=f,f", [x], (tl.float32, tl.float32), is_pure=True, pack=1)  # fmt: skip
    tl.store(out_ptr + lanes, low)
    tl.store(out_ptr + N + lanes, high)


@triton.jit
def rounded_as_asked(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    tl.store(out_ptr + lanes, libdevice.div_rz(x, y))
    tl.store(out_ptr + N + lanes, libdevice.fma_ru(x, y, x))
    tl.store(out_ptr + 2 * N + lanes, libdevice.sqrt_rd(tl.abs(x)))
    tl.store(out_ptr + 3 * N + lanes, libdevice.add_rd(x, y))
    tl.store(out_ptr + 4 * N + lanes, libdevice.mul_rz(x, y))
    tl.store(out_ptr + 5 * N + lanes, libdevice.rint(x))
    tl.store(out_ptr + 6 * N + lanes, libdevice.nextafter(x, y))
    tl.store(out_ptr + 7 * N + lanes, libdevice.float2int_ru(x).to(tl.float32))
    asm: tl.constexpr = "{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.f32 t, $1, $2; cvt.u32.u16 $0, t; }"
    packed = tl.inline_asm_elementwise(asm, "=r,r,r", [x, y], tl.int32, is_pure=True, pack=1)
    tl.store(out_ptr + 8 * N + lanes, packed.to(tl.float32))
