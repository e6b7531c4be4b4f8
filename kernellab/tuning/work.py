"""What a launch moves and computes, counted: the bytes and operations behind GB/s and TFLOP/s."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Mapping
from typing import Any

import torch
from xdsl.ir import BlockArgument, OpResult, SSAValue

from kernellab.compiler.analyses.axis import pointers_of, root_argument
from kernellab.errors import KernelLabError
from kernellab.ir import tt
from kernellab.records import Compilation

_ACCESSES = (
    tt.LoadOp, tt.StoreOp, tt.AtomicRMWOp, tt.AtomicCASOp,
)  # fmt: skip


def tensor_bytes(value: Any) -> int:
    """Bytes of a tensor's different elements: those of an expanded dimension are one."""
    tensor = value if isinstance(value, torch.Tensor) else value.base
    sizes = [size for size, stride in zip(tensor.shape, tensor.stride()) if stride]
    return int(math.prod(sizes)) * int(tensor.element_size())


def bytes_moved(compilation: Compilation, sizes: Mapping[str, int]) -> tuple[float | None, str]:
    """The least that a launch moves: each tensor that the kernel reads or writes, whole and once; twice where it does both.

    Args:
        compilation: of any config.
        sizes: bytes of each tensor among the arguments.

    Returns:
        Bytes, and how they were counted; None where an access starts from no argument.
    """
    touched: set[tuple[str, str]] = set()
    for op in compilation.module("ttir").walk():
        words = op.name.removeprefix("tt.")
        if isinstance(op, _ACCESSES):
            name = root_argument(pointers_of(op))
        elif words.startswith("descriptor_"):
            name = _behind(op.operands[0])
        else:
            continue
        if name not in sizes:
            return None, "an access starts from no tensor of the arguments"
        if "load" in words or "gather" in words or "atomic" in words:
            touched.add((name, "read"))
        if "load" not in words and "gather" not in words:
            touched.add((name, "written"))
    total = sum(sizes[name] for name, _ in touched)
    return float(total), "counted: each tensor that the kernel reads or writes, whole and once"


def _behind(descriptor: SSAValue) -> str:
    match descriptor:
        case OpResult(op=tt.MakeTensorDescOp(base=base)):
            return root_argument(base)
        case BlockArgument() if isinstance(descriptor.block.parent_op(), tt.FuncOp):
            return descriptor.name_hint or ""
        case _:
            return ""


def flops_done(
    compilation: Compilation, programs: int, scalars: Mapping[str, Any]
) -> tuple[float | None, str]:
    """Floating-point operations of a launch, from the IR of one config: masked lanes count.

    Args:
        compilation: of the config.
        programs: how many the launch has.
        scalars: numbers among the arguments, for the trip counts of loops.

    Returns:
        Operations, and how they were counted; None where a trip count depends on more than the arguments.
    """
    total = 0.0
    try:
        for loops, operations in compilation.work().flops.items():
            times = _number(ast.parse(loops, mode="eval").body, scalars)
            total += operations * times * programs
    except (SyntaxError, KeyError, KernelLabError, ValueError, ZeroDivisionError):
        return None, "how often a loop runs is not known beforehand"
    return total, "counted from the IR of one config, masked lanes included"


_OPERATORS: Mapping[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def _number(node: ast.expr, scalars: Mapping[str, Any]) -> float:
    """The value of a trip count as `Work` writes it: "ceil(K / 64) * 2"."""
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
            raise ValueError(f"{ast.unparse(node)} is no number")
