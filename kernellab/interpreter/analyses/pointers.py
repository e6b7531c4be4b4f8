"""What stands for each pointer of a kernel.

Most pointers can only point into one argument, known before anything runs: that is their
underlying object, and the value is an offset, in elements. Any other pointer (chosen between
arguments, loaded from memory, made from an integer, cast to elements of another size) is an
address: 64 bits, in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy
from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.interpreter.analyses.dataflow import handed_on
from kernellab.interpreter.codegen.calls import InlinedCallOp
from kernellab.ir import scf, tt, ub
from kernellab.ir.traits import MovesElements, trait_of
from kernellab.ir.types import PointerType, dtype, element_type, is_pointer

ADDRESS = None
"""In place of an underlying object: the pointer is an address."""

UnderlyingObject = BlockArgument | None


PointsInto = Callable[[tt.CallOp], tuple[int | None, ...]]
"""For each result of a call the argument that it points into, or None."""


def underlying_objects(
    function: tt.FuncOp, addresses: Sequence[bool] = (), points_into: PointsInto | None = None
) -> dict[SSAValue, UnderlyingObject]:
    """The argument that each pointer of `function` points into, or ADDRESS.

    Args:
        addresses: for each argument whether it is an address itself; none is by default.
        points_into: what is known of the results of calls.
    """
    entry = function.body.blocks.first
    assert entry is not None
    objects: dict[SSAValue, UnderlyingObject] = {a: a for a in entry.args if is_pointer(a.type)}
    objects |= {a: ADDRESS for a, is_address in zip(entry.args, addresses) if is_address}
    operations = list(function.walk())
    changed = True
    while changed:
        changed = False
        for op in operations:
            for pointer, underlying in _arriving(op, objects, points_into):
                if pointer not in objects:
                    objects[pointer], changed = underlying, True
                elif objects[pointer] not in (underlying, ADDRESS):
                    objects[pointer], changed = ADDRESS, True
    return dict.fromkeys(_pointers_in(operations), ADDRESS) | objects


def _pointers_in(operations: Iterable[Operation]) -> Iterator[SSAValue]:
    for op in operations:
        arguments = (
            value for region in op.regions for block in region.blocks for value in block.args
        )
        yield from (value for value in (*op.results, *arguments) if is_pointer(value.type))


def _arriving(
    op: Operation, objects: dict[SSAValue, UnderlyingObject], points_into: PointsInto | None
) -> Iterator[tuple[SSAValue, UnderlyingObject]]:
    """(pointer, underlying object) for each pointer that `op` makes or hands on,
    as far as its sources are known.
    """
    for source, target in handed_on(op):
        if source in objects:
            yield target, objects[source]
    known = points_into(op) if points_into is not None and isinstance(op, tt.CallOp) else None
    for number, result in enumerate(op.results):
        if is_pointer(result.type):
            made_from = _made_from(op)
            if known is not None and (argument := known[number]) is not None:
                made_from = (op.operands[argument],)
            for origin in made_from:
                if origin is ADDRESS:
                    yield result, ADDRESS
                elif origin in objects:
                    yield result, objects[origin]


def _made_from(op: Operation) -> tuple[SSAValue | None, ...]:
    """The pointers that the results of `op` have their underlying objects from;
    ADDRESS where they have none.
    """
    if (moved := trait_of(op, MovesElements)) is not None:
        return moved.sources_of(op)
    match op:
        case tt.AddPtrOp():
            return (op.pointer,)
        case tt.BitcastOp():
            same = pointee_dtype(op.operand).itemsize == pointee_dtype(op.result).itemsize
            return (op.operand,) if same else (ADDRESS,)
        case ub.PoisonOp():
            return ()  # it may point anywhere, so also where the pointers that it meets do
        case scf.ForOp() | scf.IfOp() | scf.WhileOp() | InlinedCallOp():
            return ()
        case _:
            return (ADDRESS,)


def pointee_dtype(pointer: SSAValue) -> numpy.dtype:
    """The dtype of the elements that `pointer` points to; pointers in memory are int64."""
    kind = element_type(pointer.type)
    assert isinstance(kind, PointerType)
    return dtype(kind.pointee)
