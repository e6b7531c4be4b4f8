"""Count what a launch moves and computes: the bytes and operations behind GB/s and TFLOP/s."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Mapping
from typing import Any

import torch
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.modules.pointers import underlying_argument
from kernellab.errors import KernelLabError
from kernellab.ir import tt
from kernellab.ir.locations import argument_name
from kernellab.ir.operations import GlobalAccess, GlobalRead, GlobalWrite, has, trait_of
from kernellab.ir.types import is_pointer
from kernellab.records import Compilation


def tensor_bytes(value: Any) -> int:
    """Return the bytes of a tensor's distinct elements: an expanded dimension has one."""
    tensor = value if isinstance(value, torch.Tensor) else value.base
    sizes = [size for size, stride in zip(tensor.shape, tensor.stride()) if stride]
    return int(math.prod(sizes)) * int(tensor.element_size())


def bytes_moved(compilation: Compilation, sizes: Mapping[str, int]) -> tuple[float | None, str]:
    """Return the least that a launch moves: each tensor that the kernel reads or writes, once;
    twice if the kernel does both.

    Args:
        compilation: of any config.
        sizes: bytes of each tensor among the arguments.

    Returns:
        The bytes, and how they were counted; None if an access does not start from an argument.
    """
    touched: set[tuple[str, type]] = set()
    for op in compilation.module(_first_stage(compilation)).walk():
        access = trait_of(op, GlobalAccess)
        if access is None:
            continue
        memory = access.base_of(op)
        name = underlying_argument(memory) if is_pointer(memory.type) else _behind(memory)
        if name not in sizes:
            return None, "an access does not start from a tensor of the arguments"
        touched |= {(name, how) for how in (GlobalRead, GlobalWrite) if has(op, how)}
    total = sum(sizes[name] for name, _ in touched)
    return float(total), "counted: each tensor that the kernel reads or writes, whole and once"


def _first_stage(compilation: Compilation) -> str:
    """Return the stage nearest to the source: a Gluon kernel has no TTIR."""
    return "ttir" if "ttir" in compilation.stages else "ttgir"


def _behind(descriptor: SSAValue) -> str:
    match descriptor:
        case OpResult(op=tt.MakeTensorDescOp(base=base)):
            return underlying_argument(base)
        case BlockArgument() if isinstance(descriptor.block.parent_op(), tt.FuncOp):
            return argument_name(descriptor) or ""
        case _:
            return ""


def flops_done(
    compilation: Compilation, programs: int, scalars: Mapping[str, Any]
) -> tuple[float | None, str]:
    """Return a launch's floating-point operations from the IR of one config; masked elements count.

    Args:
        compilation: of the config.
        programs: how many the launch has.
        scalars: numbers among the arguments, for the trip counts of loops.

    Returns:
        The operations, and how they were counted; None if a trip count depends on more than the
        arguments, or the kernel has operations that are not counted.
    """
    unknown = next(
        (
            op.name
            for op in compilation.module(_first_stage(compilation)).walk()
            if _is_uncounted_product(op)
        ),
        None,
    )
    if unknown is not None:
        return None, f"operations of {unknown} are not counted"
    total = 0.0
    try:
        for loops, operations in compilation.work().flops.items():
            times = _number(ast.parse(loops, mode="eval").body, scalars)
            total += operations * times * programs
    except (SyntaxError, KeyError, KernelLabError, ValueError, ZeroDivisionError):
        return None, "the trip count of a loop is not known before it runs"
    return total, "counted from the IR of one config, including masked elements"


def _is_uncounted_product(op: Operation) -> bool:
    """Whether an operation is one of Gluon's matmul instructions."""
    names = ("_mma", "warp_group_dot", "wmma", "mfma")
    return not op.name.startswith("tt.") and any(name in op.name for name in names)


_OPERATORS: Mapping[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def _number(node: ast.expr, scalars: Mapping[str, Any]) -> float:
    """Evaluate a trip count as `Work` writes it: "ceil(K / 64) * 2"."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return float(scalars[name])
        case ast.BinOp(left=left, op=op, right=right):
            result: float = _OPERATORS[type(op)](_number(left, scalars), _number(right, scalars))
            return result
        case ast.Call(func=ast.Name(id="ceil"), args=[inside]):
            return math.ceil(_number(inside, scalars))
        case _:
            raise ValueError(f"{ast.unparse(node)} is not a number")
