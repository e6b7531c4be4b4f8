"""Ways to look at a module that every analysis needs: order, places, names, control flow."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from kernellab.errors import SourcePosition
from kernellab.ir.locations import locate
from kernellab.ir.operations import operation_name


@cache
def _library() -> str:
    """The folder of Triton's Python code: `tl.sum` and its like are inlined from there."""
    spec = importlib.util.find_spec("triton")
    return str(Path(spec.origin).parent) if spec is not None and spec.origin else ""


def users_line(frames: Iterable[SourcePosition]) -> SourcePosition | None:
    """Of a chain of calls, innermost first, the first place that is not in Triton's own library;
    None for no place.
    """
    places = list(frames)
    own = (place for place in places if not place.file.startswith(_library()))
    return next(own, places[0] if places else None)


def kind(op: Operation) -> str:
    """An operation's name, "tt.load"; also of one that `ir/` has no class for."""
    return operation_name(op)


def position_of(op: Operation) -> SourcePosition | None:
    """The line of the user's code that an operation comes from:
    of a helper's that was inlined, the helper's.
    """
    return users_line(locate(op.location).frames)


def name_of(op: Operation) -> str:
    """The kernel's own name for an operation's first result: "acc", or "" where it has none."""
    return locate(op.location).name or "" if op.results else ""


def numbered(module: Operation) -> dict[Operation, int]:
    """Every operation with its number in the order of the module's text,
    the module itself being 0.
    """
    return {op: number for number, op in enumerate(module.walk())}


def lines_of_operations(text: str) -> Mapping[str, list[int]]:
    """The lines of a module's text that have operations of each name, in order."""
    lines: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _OPERATION.match(line):
            lines.setdefault(match[1], []).append(number)
    return lines


_OPERATION = re.compile(r'\s*(?:%[^=]*= )?"?([\w.]+)')
"""The operation of a line of MLIR's text."""


def attribute(op: Operation, name: str) -> Attribute | None:
    """An attribute, wherever the operation keeps it."""
    return op.attributes.get(name, op.properties.get(name))


def integer(op: Operation, name: str) -> int | None:
    """The value of an integer attribute, or None."""
    value = attribute(op, name)
    return value.value.data if isinstance(value, builtin.IntegerAttr) else None


def symbol(op: Operation, name: str) -> str:
    """The text of an attribute that names a symbol: "sym_name", "callee";
    "" where there is none.
    """
    value = attribute(op, name)
    if isinstance(value, builtin.SymbolRefAttr):
        return value.root_reference.data
    return value.data if isinstance(value, builtin.StringAttr) else ""


def functions(module: Operation) -> Iterator[Operation]:
    """The functions of a module of Triton's."""
    return (op for op in module.walk() if kind(op) == "tt.func")


def arguments_toward(block: Block) -> Iterator[tuple[Operation, Sequence[SSAValue]]]:
    """For each way into a block: the operation that leads there,
    and what it hands to the block's arguments.
    """
    region = block.parent
    if region is None:
        return
    for other in region.blocks:
        end = other.last_op
        if end is None:
            continue
        for which, successor in enumerate(end.successors):
            if successor is block:
                yield end, _handed_over(end, which)
    parent = region.parent
    if parent is not None and block is region.blocks.first:
        if kind(parent) == "scf.for":
            yield parent, [parent.operands[0], *parent.operands[3:]]
        elif kind(parent) in ("scf.while", "kernellab.inlined_call"):
            yield parent, parent.operands
        elif kind(parent) == "ttg.warp_specialize.partitions":
            outer = parent.parent_op()
            yield parent, parent.operands or (outer.operands if outer is not None else ())


def _handed_over(branch: Operation, which: int) -> Sequence[SSAValue]:
    if branch.name == "cf.br":
        return branch.operands
    if branch.name == "cf.cond_br":
        sizes = [int(size) for size in _segment_sizes(branch)]
        first = sizes[0] + (sizes[1] if which else 0)
        return branch.operands[first : first + sizes[which + 1]]
    return ()


def _segment_sizes(op: Operation) -> Sequence[int]:
    sizes = attribute(op, "operandSegmentSizes")
    assert isinstance(sizes, builtin.DenseArrayBase)
    return [int(size) for size in sizes.get_values()]


def blocks_of(op: Operation) -> Iterator[Block]:
    """Every block of an operation, those of nested regions included."""
    for inner in op.walk():
        for region in inner.regions:
            yield from region.blocks


def successors(block: Block) -> Sequence[Block]:
    """Where control goes from a block, inside its region."""
    return block.last_op.successors if block.last_op is not None else ()


def parents(op: Operation) -> Iterator[Operation]:
    """The operations around one, the innermost first."""
    parent = op.parent_op()
    while parent is not None:
        yield parent
        parent = parent.parent_op()


def loops_around(op: Operation) -> list[Operation]:
    """The loops of the kernel around an operation, the innermost first."""
    return [parent for parent in parents(op) if kind(parent) in ("scf.for", "scf.while")]


def enclosing(op: Operation, region: Region) -> Operation | None:
    """The operation directly in `region` that is `op` or contains it."""
    current: Operation | None = op
    while current is not None and current.parent_region() is not region:
        current = current.parent_op()
    return current
