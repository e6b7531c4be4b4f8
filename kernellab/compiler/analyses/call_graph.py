"""The functions of a kernel that inlining has left, and who calls whom."""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import Operation

from kernellab.compiler.modules.analyst import answers
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.compiler.modules.structure import (
    attribute,
    functions,
    kind,
    position_of,
    symbol,
)
from kernellab.records.analyses import CallGraph, Function
from kernellab.records.compilations import CALL_GRAPH


def call_graph(module: Operation, read_from: str) -> CallGraph:
    """The call graph of a module of TTIR or TTGIR."""
    return CallGraph(tuple(_function(op) for op in functions(module)), read_from)


def _function(op: Operation) -> Function:
    inside = [inner for inner in op.walk() if inner is not op]
    return Function(
        name=symbol(op, "sym_name"),
        is_kernel=symbol(op, "sym_visibility") == "public",
        noinline=_is_true(op, "noinline"),
        calls=tuple(symbol(inner, "callee") for inner in inside if kind(inner) == "tt.call"),
        operations=len(inside),
        position=position_of(op),
    )


def _is_true(op: Operation, name: str) -> bool:
    value = attribute(op, name)
    return isinstance(value, builtin.IntegerAttr) and value.value.data != 0


@answers(CALL_GRAPH)
def call_graph_of(opened: OpenedModules) -> CallGraph:
    """The functions left after inlining, and who calls whom."""
    return call_graph(opened.snapshot(opened.first_stage), opened.first_stage)
