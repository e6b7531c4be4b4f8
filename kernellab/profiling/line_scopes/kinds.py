"""What an operation of TTGIR is in a profile: a load, a wait, arithmetic, or next to nothing."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Operation

from kernellab.ir.operations import operation_name

LIGHT = "index arithmetic"
"""Of operations that cost little by themselves: addresses, masks, views, changes of shape."""
COMPUTE = "compute"

HEAVY: Mapping[str, str] = {
    "tt.load": "load",
    "tt.gather": "gather",
    "tt.descriptor_load": "load",
    "tt.descriptor_gather": "load",
    "ttg.async_copy_global_to_local": "async copy",
    "ttng.async_tma_copy_global_to_local": "async copy",
    "ttng.async_tma_gather": "async copy",
    "ttg.async_wait": "wait",
    "ttng.wait_barrier": "wait",
    "ttng.async_tma_store_wait": "wait",
    "ttng.warp_group_dot_wait": "wait for dot",
    "tt.dot": "dot",
    "tt.dot_scaled": "dot",
    "ttng.warp_group_dot": "dot",
    "ttng.tc_gen5_mma": "dot",
    "ttng.tc_gen5_mma_scaled": "dot",
    "tt.store": "store",
    "tt.descriptor_store": "store",
    "tt.descriptor_reduce": "store",
    "ttng.async_tma_copy_local_to_global": "store",
    "ttng.async_tma_reduce": "store",
    "ttng.async_tma_scatter": "store",
    "ttg.convert_layout": "conversion",
    "ttg.local_load": "shared load",
    "ttg.local_gather": "shared load",
    "ttg.local_store": "shared store",
    "ttg.local_scatter": "shared store",
    "ttng.tmem_load": "tensor memory load",
    "ttng.tmem_store": "tensor memory store",
    "ttng.tmem_copy": "tensor memory store",
    "tt.reduce": "reduction",
    "tt.scan": "scan",
    "tt.histogram": "histogram",
    "tt.atomic_rmw": "atomic",
    "tt.atomic_cas": "atomic",
    "ttg.barrier": "barrier",
    "ttg.local_barrier": "barrier",
    "gpu.barrier": "barrier",
    "ttng.cluster_wait": "barrier",
    "ttng.arrive_barrier": "arrival",
    "tt.map_elementwise": COMPUTE,
    "tt.extern_elementwise": COMPUTE,
    "tt.elementwise_inline_asm": COMPUTE,
    "tt.fp_to_fp": COMPUTE,
    "tt.mulhiui": COMPUTE,
    "tt.call": "call",
}
"""Operation -> what it is there for. In the order of the pipeline: copies in, waits, products,
copies out, what moves between threads."""

_COSTLY_INTEGERS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "xori", "shrui")
)
"""What addresses are seldom made of: random numbers, packed integers, divisions."""

_NO_CODE = frozenset(("arith.constant", "ttg.local_dealloc", "ub.poison"))

DATA_COMES_LATER = frozenset(("load", "gather", "shared load", "tensor memory load", "atomic"))
"""Kinds that return before their value is there."""


def makes_code(op: Operation) -> bool:
    """Whether there may be an instruction for it."""
    return operation_name(op) not in _NO_CODE


def kind_of(op: Operation) -> str:
    """What an operation is there for: one of `HEAVY`'s values, `COMPUTE` or `LIGHT`."""
    name = operation_name(op)
    if name in HEAVY:
        return HEAVY[name]
    if name == "ttg.local_alloc":
        return "shared store" if op.operands else LIGHT
    if not is_tile_wide(op):
        return LIGHT
    if name in _COSTLY_INTEGERS or (name.startswith(("arith.", "math.")) and _is_of_floats(op)):
        return COMPUTE
    return LIGHT


def is_tile_wide(op: Operation) -> bool:
    """Whether it makes a tile: work for each lane."""
    return any(isinstance(result.type, TensorType) for result in op.results)


def _is_of_floats(op: Operation) -> bool:
    values = (*op.operands, *op.results)
    return any(
        isinstance(value.type, TensorType) and isinstance(value.type.element_type, AnyFloat)
        for value in values
    )
