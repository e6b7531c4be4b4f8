"""The corpus as a table: what each kernel is compiled with, and which targets refuse it and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from tests.corpus import attention, elementwise, gluon_kernels, matmuls, rows

OLDEST = version("triton").startswith("3.6.")
"""Whether this is the oldest Triton supported, which words a few refusals in another way,
and refuses one kernel more."""


@dataclass(frozen=True)
class Entry:
    """One kernel, and one way to compile it."""

    name: str
    kernel: Any
    types: tuple[str, ...]
    """Type strings of the parameters that are not compiled in, in order: "*fp16:16", "i32"."""
    constants: Mapping[str, Any]
    targets: tuple[str, ...]
    """The targets of a default test run; a run of the whole corpus takes all that do not refuse."""
    options: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    """Target -> part of the message with which the compiler refuses the kernel there."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Target -> why no one should wait for this entry there; a smaller one stands in."""


def everywhere(reason: str, *targets: str) -> dict[str, str]:
    """The same refusal on several targets."""
    return dict.fromkeys(targets, reason)


ABORTS = "the compiler aborts the process"
"""The reason where there is no message: no one may try this in a process that has to live on."""

NVIDIA_BEFORE_HOPPER = ("sm_75", "sm_80", "sm_86", "sm_89")
NVIDIA = (*NVIDIA_BEFORE_HOPPER, "sm_90", "sm_100", "sm_103", "sm_120")
CDNA = ("gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1100", "gfx1201")
COMMON = ("sm_80", "sm_90", "gfx942")

STRIDES = ("i32:16", "i32:1", "i32:16", "i32:1", "i32:16", "i32:1")
HALVES = ("*fp16:16", "*fp16:16", "*fp16:16")
SIZES = ("i32:16", "i32:16", "i32:16")
TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
GROUPED = {**TILE, "GROUP_M": 8}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}
SCALED = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128}
SCALED_SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64}
SCALED_TYPES = ("*u8:16", "*u8:16", "*u8:16", "*u8:16", "*fp32:16", "i32:16", "i32:16")
TMA_TYPES = ("tensordesc<fp16[128,64]>", "tensordesc<fp16[128,64]>", "tensordesc<fp16[128,128]>")

WITHOUT_MATRIX_UNITS = everywhere("its scalar code takes the assembler minutes", "sm_75", *RDNA)
WITHOUT_FP8 = everywhere("fp8e4nv not supported in this architecture", "sm_75", "sm_80", "sm_86")
WITHOUT_SCALED_DOT = everywhere("Unsupported DotScaleOp", "gfx90a", "gfx942")
LANES_64 = everywhere("invalid layout", *CDNA)
LANES_32 = everywhere("invalid layout", *NVIDIA, *RDNA)
NOT_ASYNC = {
    **everywhere(ABORTS, "sm_75"),
    **everywhere("direct to lds loads" if OLDEST else "async_copy_global_to_local", *RDNA),
}
NOT_TMA = {
    **everywhere(ABORTS, *NVIDIA_BEFORE_HOPPER),
    **everywhere("ttng.init_barrier" if OLDEST else "HIPOptions", *CDNA, *RDNA),
}

ENTRIES = (
    # Element by element
    Entry("vector_add", elementwise.vector_add, ("*fp32:16",) * 3 + ("i32",), {"BLOCK": 1024},
        (*COMMON, "sm_100")),
    Entry("dropout", elementwise.dropout, ("*fp32:16", "*fp32:16", "i32", "fp32", "i32"),
        {"BLOCK": 1024}, ("sm_90", "gfx942")),
    Entry("swish", elementwise.swish, ("*bf16:16", "*bf16:16", "i32", "fp32"), {"BLOCK": 512},
        ("sm_80",)),
    Entry("ragged_scale", elementwise.ragged_scale, ("*fp32:16", "*i32:16", "*fp32:16", "fp32"),
        {"BLOCK": 512}, ("sm_90", "gfx942")),
    Entry("collatz", elementwise.collatz, ("*i32:16", "*i32:16", "i32"), {"BLOCK": 256},
        ("sm_90", "gfx1100")),
    Entry("atomics", elementwise.atomics, ("*i32:16",) * 4 + ("*fp32:16", "i32"), {"BLOCK": 256},
        ("sm_90", "gfx942")),
    Entry("guarded_copy", elementwise.guarded_copy, ("*fp32:16", "*fp32:16", "i32"), {"BLOCK": 256},
        ("sm_90", "gfx942"), {"debug": True}),
    # Along an axis
    Entry("softmax", rows.softmax, ("*fp32:16", "*fp32:16", "i32:16", "i32"), {"BLOCK": 1024},
        COMMON),
    Entry("softmax_persistent", rows.softmax_persistent,
        ("*fp16:16", "*fp16:16", "i32:16", "i32", "i32"), {"BLOCK": 2048}, ("sm_90", "gfx942"),
        {"num_warps": 8}),
    Entry("cumsum", rows.cumsum, ("*fp32:16", "*fp32:16"), {"ROWS": 32, "COLUMNS": 128},
        ("sm_90", "gfx942")),
    Entry("linear_recurrence", rows.linear_recurrence, ("*fp32:16",) * 3, {"BLOCK": 512},
        ("sm_80",)),
    Entry("sort", rows.sort, ("*i32:16", "*i32:16"), {"ROWS": 4, "COLUMNS": 64}, ("sm_90",)),
    Entry("histogram", rows.histogram, ("*i32:16", "*i32:16", "i32"), {"BLOCK": 1024, "BINS": 256},
        ("sm_90", "gfx942")),
    Entry("layer_norm_backward", rows.layer_norm_backward,
        ("*fp16:16",) * 6 + ("*fp32:16", "*fp32:16", "*i32:16", "i32:16", "i32"),
        {"GROUPS": 64, "BLOCK": 1024}, COMMON),
    # Matrix products
    Entry("matmul", matmuls.matmul, HALVES + SIZES + STRIDES, GROUPED,
        (*COMMON, "sm_100", "gfx950"), {"num_warps": 8, "num_stages": 3}),
    Entry("matmul_small", matmuls.matmul, HALVES + SIZES + STRIDES, SMALL,
        ("sm_75", "sm_86", "sm_103", "sm_120", "gfx90a", "gfx1100", "gfx1201")),
    Entry("matmul_persistent", matmuls.matmul_persistent, HALVES + SIZES + ("i32:16",) * 3,
        {**GROUPED, "PROGRAMS": 132}, ("sm_80", "sm_90", "gfx942"), {"num_warps": 8}),
    Entry("matmul_descriptors", matmuls.matmul_descriptors, HALVES + SIZES, TILE,
        ("sm_80", "sm_90", "sm_100", "gfx942")),
    Entry("matmul_tma", matmuls.matmul_tma, TMA_TYPES + SIZES,
        {**GROUPED, "PROGRAMS": 132, "SPECIALIZE": False}, ("sm_90", "sm_100")),
    Entry("matmul_tma_specialized", matmuls.matmul_tma, TMA_TYPES + SIZES,
        {**GROUPED, "PROGRAMS": 132, "SPECIALIZE": True}, ("sm_100",),
        refused=everywhere("shared memory", "sm_120")),
    Entry("matmul_warp_specialized", matmuls.matmul_warp_specialized, (*TMA_TYPES, "i32:16"), TILE,
        ("sm_100",), refused=everywhere("must have the same number of elements", "sm_90")),
    Entry("matmul_fp8", matmuls.matmul, ("*fp8e5:16", "*fp8e5:16", "*fp16:16", *SIZES, *STRIDES),
        GROUPED, ("sm_89", "sm_90", "sm_100", "gfx950"), {"num_warps": 8}),
    Entry("matmul_mxfp8", matmuls.matmul_scaled, SCALED_TYPES,
        {**SCALED, "A_FORMAT": "e4m3", "B_FORMAT": "e4m3"}, ("sm_90", "sm_100", "gfx950"),
        left_out=WITHOUT_MATRIX_UNITS, refused={**WITHOUT_FP8, **WITHOUT_SCALED_DOT}),
    Entry(
        "matmul_mxfp8_small",
        matmuls.matmul_scaled,
        SCALED_TYPES,
        {**SCALED_SMALL, "A_FORMAT": "e4m3", "B_FORMAT": "e4m3"},
        ("gfx1100",) if OLDEST else ("sm_89", "gfx1100"),
        refused={
            **WITHOUT_FP8,
            **WITHOUT_SCALED_DOT,
            **(everywhere("cvt with .bf16.f16", "sm_89") if OLDEST else {}),
        },
    ),
    Entry("matmul_mxfp4", matmuls.matmul_scaled, SCALED_TYPES,
        {**SCALED, "A_FORMAT": "e2m1", "B_FORMAT": "e2m1"}, ("sm_100", "gfx950"),
        left_out=WITHOUT_MATRIX_UNITS, refused=WITHOUT_SCALED_DOT),
    Entry("matmul_mxfp4_small", matmuls.matmul_scaled, SCALED_TYPES,
        {**SCALED_SMALL, "A_FORMAT": "e2m1", "B_FORMAT": "e2m1"}, ("sm_80", "gfx1201"),
        refused=WITHOUT_SCALED_DOT),
    # Attention
    Entry("attention_forward", attention.attention_forward,
        ("*fp16:16",) * 4 + ("*fp32:16", "fp32", "i32:16", "i32:16", "i32"),
        {"HEAD": 64, "BLOCK_M": 128, "BLOCK_N": 64}, (*COMMON, "sm_100")),
    Entry("attention_backward", attention.attention_backward,
        ("*fp16:16",) * 7 + ("*fp32:16", "*fp32:16", "fp32", "i32:16", "i32:16", "i32"),
        {"HEAD": 64, "BLOCK": 64, "STEP": 32}, ("sm_90", "gfx942")),
    # Gluon
    Entry("gluon_transpose", gluon_kernels.transpose_through_shared, ("*fp16:16", "*fp16:16"),
        {"ROWS": 64, "COLUMNS": 64, "LANES": 32}, ("sm_80", "sm_90"), refused=LANES_64),
    Entry("gluon_transpose_wave64", gluon_kernels.transpose_through_shared,
        ("*fp16:16", "*fp16:16"), {"ROWS": 64, "COLUMNS": 64, "LANES": 64}, ("gfx942",),
        refused=LANES_32),
    Entry("gluon_copy_async", gluon_kernels.copy_async, ("*fp32:16", "*fp32:16"),
        {"ROWS": 64, "COLUMNS": 64}, ("sm_80",), refused={**LANES_64, **NOT_ASYNC}),
    Entry("gluon_copy_padded", gluon_kernels.copy_padded, ("*fp32:16", "*fp32:16"),
        {"ROWS": 64, "COLUMNS": 64}, ("gfx942",), refused=LANES_32),
    Entry(
        "gluon_tma_copy",
        gluon_kernels.tma_copy,
        (
            "tensordesc<fp16[64,64],NVMMASharedLayout(swizzle_byte_width=128,element_bitwidth=16,rank=2)>",
        )
        * 2,
        {"ROWS": 64, "COLUMNS": 64},
        ("sm_90",),
        refused=NOT_TMA,
    ),
)  # fmt: skip
"""Every entry; names are unique."""
