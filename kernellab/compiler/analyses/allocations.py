"""Buffers in shared and tensor memory, of a module after the pass that allocates them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any, TypeVar

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.printer import Printer

from kernellab.compiler.analyses.records import (
    TENSOR_MEMORY_COLUMNS,
    SharedBuffer,
    SharedMemory,
    TensorBuffer,
    TensorMemory,
)
from kernellab.compiler.modules import (
    OpenedModules,
    attribute,
    blocks_of,
    enclosing,
    functions,
    integer,
    kind,
    name_of,
    numbered,
    position_of,
    successors,
    symbol,
)
from kernellab.compiler.targets import has_tensor_memory
from kernellab.errors import SourcePosition
from kernellab.ir import flow, tt, ttg, ttng
from kernellab.ir.types import MemDescType
from kernellab.triton_api.analyses import allocated_bytes, tensor_memory_places

Buffer = TypeVar("Buffer", SharedBuffer, TensorBuffer)

OFFSET = "allocation.offset"
"""The attribute with which the allocation pass says where an operation's shared memory begins."""

Measure = Callable[[str], int]
"""The shared memory of a module in bytes, by the compiler's allocation pass on its text."""

Views = Mapping[SSAValue, frozenset[Operation]]
"""A value that stands for memory -> the allocating operations that it may be a view of."""

ALLOCATIONS = (ttg.LocalAllocOp, ttng.TmemAllocOp)
"""Operations that allocate a buffer and do nothing else; others have scratch space."""


def shared_memory_of(opened: OpenedModules) -> SharedMemory:
    """The layout of shared memory after the pass that allocates it."""
    target = opened.compilation.target
    allocated = opened.compilation.first_pass("allocate_shared_memory")

    def measure(text: str) -> int:
        total: int = opened.query(allocated_bytes, text, target, allocated.arguments)
        return total

    module = opened.after(allocated)
    number = numbered(module)
    views = views_of(module)
    allocating = [op for op in number if allocates(op)]
    names = unique_names(allocating)
    buffers = [
        SharedBuffer(
            name=names[op],
            operation=kind(op),
            offset=_offset(op),
            size_bytes=_size(op, module, measure),
            first_operation=number[op],
            last_operation=last_use(op, views, number),
            position=position_of(op),
        )
        for op in allocating
        if not isinstance(op, tt.FuncOp) or _offset(op) < (integer(module, "ttg.shared") or 0)
    ]
    return SharedMemory(
        buffers=_with_sharers(buffers),
        total_bytes=integer(module, "ttg.shared") or 0,
        read_from=allocated.label,
        **_landmarks(module, number),
    )


def _landmarks(module: builtin.ModuleOp, number: Mapping[Operation, int]) -> dict[str, Any]:
    return {
        "kernel": next((symbol(function, "sym_name") for function in functions(module)), ""),
        "positions": tuple(_changes_of_line(number)),
        "loops": tuple(_loops(module, number)),
        "warp_groups": tuple(_warp_groups(number)),
    }


def _changes_of_line(number: Mapping[Operation, int]) -> Iterator[tuple[int, SourcePosition]]:
    """Where the module's text comes to another line of the kernel."""
    line = None
    for op, at in number.items():
        position = None if isinstance(op, builtin.ModuleOp | tt.FuncOp) else position_of(op)
        if position is not None and (position.file, position.line) != line:
            line = position.file, position.line
            yield at, position


def _loops(module: Operation, number: Mapping[Operation, int]) -> Iterator[tuple[int, int]]:
    """First and last operation of what a branch leads back to, the outer loops first."""
    spans = [
        (number[first], number[end])
        for block in blocks_of(module)
        if (end := block.last_op) is not None
        for successor in successors(block)
        if (first := successor.first_op) is not None and number[first] <= number[end]
    ]
    yield from sorted(spans, key=lambda span: (span[0], -span[1]))


def _warp_groups(number: Mapping[Operation, int]) -> Iterator[tuple[int, int]]:
    """First and last operation of each region of a warp-specialized operation."""
    for op in number:
        if isinstance(op, ttg.WarpSpecializeOp | ttg.WarpSpecializePartitionsOp):
            for region in op.regions:
                ops = list(region.walk())
                inside = [number[inner] for inner in ops if inner is not op]
                partitions = any(isinstance(op, ttg.WarpSpecializePartitionsOp) for op in ops)
                if inside and not partitions:
                    yield min(inside), max(inside)


def _with_sharers(buffers: list[Buffer]) -> tuple[Buffer, ...]:
    return tuple(
        replace(
            buffer,
            shares_with=tuple(
                other.name for other in buffers if other is not buffer and buffer.overlaps(other)
            ),
        )
        for buffer in buffers
    )


def allocates(op: Operation) -> bool:
    """Whether the pass gave this operation memory; a function that starts warp groups has some."""
    return OFFSET in op.attributes


def _size(op: Operation, module: builtin.ModuleOp, measure: Measure) -> int:
    if isinstance(op, tt.CallOp):
        callee = symbol(op, "callee")
        function = next(f for f in functions(module) if symbol(f, "sym_name") == callee)
        inside = [inner for inner in function.walk() if allocates(inner)]
        return max((_offset(inner) + _size(inner, module, measure) for inner in inside), default=0)
    if isinstance(op, tt.FuncOp):
        # The pass gives no size, and a function cannot be measured alone:
        # its memory ends where the next buffer begins.
        others = [_offset(inner) for inner in module.walk() if allocates(inner)]
        end = min((offset for offset in others if offset > _offset(op)), default=None)
        return (end if end is not None else integer(module, "ttg.shared") or 0) - _offset(op)
    return measure(alone(op, module))


def _offset(op: Operation) -> int:
    """The first byte; of a buffer in several pieces the lowest."""
    value = op.attributes.get(OFFSET)
    if isinstance(value, builtin.ArrayAttr):
        return min(
            attribute.value.data
            for attribute in value
            if isinstance(attribute, builtin.IntegerAttr)
        )
    return integer(op, OFFSET) or 0


def unique_names(ops: list[Operation]) -> dict[Operation, str]:
    """A name for each: the kernel's for a buffer, else the operation's; doubles get numbers."""
    names: dict[Operation, str] = {}
    for op in ops:
        plain = (name_of(op) if isinstance(op, ALLOCATIONS) else "") or kind(op).partition(".")[2]
        taken = sum(1 for name in names.values() if name.partition("#")[0] == plain)
        names[op] = f"{plain}#{taken + 1}" if taken else plain
    return names


def alone(op: Operation, module: builtin.ModuleOp) -> str:
    """A generic module with the same attributes and a kernel that does this one operation."""
    taken = taken_from_outside(op)
    block = Block(arg_types=[value.type for value in taken])
    copy = op.clone(dict(zip(taken, block.args)))
    copy.attributes.pop(OFFSET, None)
    if isinstance(copy, ttg.WarpSpecializeOp):
        _empty(copy)
    block.add_op(copy)
    # An atomic whose result is not used does not need memory to spread it.
    wanted = (
        []
        if isinstance(op, ALLOCATIONS)
        else [new for old, new in zip(op.results, copy.results) if old.uses]
    )
    block.add_op(builtin.UnregisteredOp.with_name("tt.return").create(operands=wanted))
    return kernel_text(block, [result.type for result in wanted], module, leave_out="ttg.shared")


def kernel_text(
    block: Block, results: list[Attribute], module: builtin.ModuleOp, leave_out: str
) -> str:
    """A generic module whose one kernel has this body, and all of `module`'s attributes but one."""
    kernel = builtin.UnregisteredOp.with_name("tt.func").create(
        properties={
            "function_type": builtin.FunctionType.from_lists(
                [argument.type for argument in block.args], results
            ),
            "sym_name": builtin.StringAttr("alone"),
            "sym_visibility": builtin.StringAttr("public"),
        },
        regions=[Region(block)],
    )
    attributes = {name: value for name, value in module.attributes.items() if name != leave_out}
    output = StringIO()
    Printer(stream=output, print_generic_format=True).print_op(
        builtin.ModuleOp([kernel], attributes)
    )
    return output.getvalue()


def taken_from_outside(op: Operation) -> list[SSAValue]:
    """The values that an operation takes, those that only an operation inside it takes included."""
    made: set[SSAValue] = {result for inner in op.walk() for result in inner.results}
    made |= {argument for block in blocks_of(op) for argument in block.args}
    taken = [value for inner in op.walk() for value in inner.operands if value not in made]
    return list(dict.fromkeys(taken))


def _empty(op: Operation) -> None:
    for region in [region for inner in op.walk() for region in inner.regions]:
        ends = [block.last_op for block in region.blocks if block.last_op is not None]
        last = (ttg.WarpYieldOp, ttg.WarpReturnOp)
        end = next((end for end in ends if isinstance(end, last)), None)
        if end is None or end.operands:
            continue
        types = [argument.type for argument in region.blocks[0].args]
        for block in list(region.blocks):
            region.erase_block(block, safe_erase=False)
        region.add_block(
            Block([builtin.UnregisteredOp.with_name(kind(end)).create()], arg_types=types)
        )


def views_of(module: Operation, mark: str = OFFSET) -> Views:
    """The allocations that each memory value may view, through branches and loops.

    Args:
        mark: the attribute by which the pass marks allocations.
    """
    return flow.analyze(module.walk(), _ViewsOf(mark))


@dataclass(frozen=True)
class _ViewsOf:
    """The allocations behind each memory value."""

    mark: str
    entry: Views = field(default_factory=dict)

    def transfer(
        self, op: Operation, states: Views
    ) -> Iterator[tuple[SSAValue, frozenset[Operation]]]:
        if not flow.computes(op):
            return
        for result in op.results:
            if not isinstance(result.type, MemDescType):
                continue
            if isinstance(op, ALLOCATIONS):
                yield result, frozenset([op] if attribute(op, self.mark) is not None else ())
            else:
                known = (states[operand] for operand in op.operands if operand in states)
                yield result, frozenset[Operation]().union(*known)

    def join(self, left: frozenset[Operation], right: frozenset[Operation]) -> frozenset[Operation]:
        return left | right


def last_use(allocation: Operation, views: Views, number: Mapping[Operation, int]) -> int:
    """Number of the last operation at which a buffer lives, by liveness over control flow."""
    region = allocation.parent_region()
    home = allocation.parent_block()
    used_by = {
        inner
        for value, roots in views.items()
        if allocation in roots
        for use in value.uses
        if region is not None and (inner := enclosing(use.operation, region)) is not None
    }
    if region is None or home is None or not used_by:
        return number[allocation]
    alive_at_end = _alive_at_end(home, used_by)
    ends = [_end(op, number) for op in used_by]
    ends += [_end(block.last_op, number) for block in alive_at_end if block.last_op is not None]
    return max([number[allocation], *ends])


def _alive_at_end(home: Block, used_by: set[Operation]) -> set[Block]:
    """The blocks at whose end a buffer made in `home` is still to be used."""
    using = {block for op in used_by if (block := op.parent_block()) is not None}

    def before(block: Block) -> Sequence[Block]:
        return () if block is home else block.predecessors()

    alive = flow.reached((end for block in using for end in before(block)), before)
    return set(flow.reached([home], successors)).intersection(alive)


def _end(op: Operation, number: Mapping[Operation, int]) -> int:
    return max(number[inner] for inner in op.walk())


COLUMN = "tensor_memory_col_offset"
ROW = "tensor_memory_row_offset"
"""The attributes with which the pass says where a buffer begins."""
TOTAL = "ttg.tensor_memory_size"

Place = tuple[int, int]
"""Row and column."""
Allocate = Callable[[str], tuple[Sequence[Place], int]]
"""Where a module's buffers begin, and its columns, by the compiler's pass on its text."""


def tensor_memory_of(opened: OpenedModules) -> TensorMemory:
    """The layout of tensor memory after the pass that allocates it; none if there is none."""
    compilation = opened.compilation
    if not has_tensor_memory(compilation.target):
        absence = (
            f"{compilation.target} has no tensor memory: compile for compute capability 10.x, such "
            "as sm_100."
        )
        return TensorMemory((), 0, "", compilation.kernel, absence=absence)
    allocated = compilation.first_pass("allocate_tensor_memory")

    def allocate(text: str) -> tuple[Sequence[Place], int]:
        places: tuple[Sequence[Place], int]
        places = opened.query(tensor_memory_places, text, compilation.target)
        return places

    module = opened.after(allocated)
    number = numbered(module)
    views = views_of(module, COLUMN)
    allocating = [op for op in number if COLUMN in op.attributes]
    names = unique_names(allocating)
    sizes: dict[Attribute, tuple[int, int]] = {}
    buffers = []
    for op in allocating:
        memory = op.results[0].type
        if memory not in sizes:
            sizes[memory] = _tensor_size(op, module, allocate)
        rows, columns = sizes[memory]
        buffers.append(
            TensorBuffer(
                name=names[op],
                operation=kind(op),
                column=integer(op, COLUMN) or 0,
                columns=columns,
                row=integer(op, ROW) or 0,
                rows=rows,
                first_operation=number[op],
                last_operation=last_use(op, views, number),
                position=position_of(op),
            )
        )
    return TensorMemory(
        buffers=_with_sharers(buffers),
        total_columns=integer(module, TOTAL) or 0,
        read_from=allocated.label,
        absence="" if buffers else "The program allocates no tensor memory.",
        **_landmarks(module, number),
    )


def _tensor_size(op: Operation, module: builtin.ModuleOp, allocate: Allocate) -> tuple[int, int]:
    """Rows and columns of a buffer.

    The pass leaves no sizes, but it puts copies of one buffer, alive together, side by side: two of
    64 rows above each other, others in the next columns, at a multiple of 4. Up to Triton 3.8 the
    total is exact where it is more than there is; from 3.9 on it is rounded up, and so less than 4
    columns count as 4.
    """
    places, _ = allocate(_copies(op, 3, module))
    above = places[1][1] == places[0][1]
    step = places[2 if above else 1][1]
    enough = TENSOR_MEMORY_COLUMNS // step + 1
    places, total = allocate(_copies(op, enough * (2 if above else 1), module))
    return 64 if above else 128, min(step, total - max(column for _, column in places))


def _copies(op: Operation, count: int, module: builtin.ModuleOp) -> str:
    """A module with a kernel that makes one buffer several times, and uses all at its end."""
    taken = taken_from_outside(op)
    block = Block(arg_types=[value.type for value in taken])
    copies = [op.clone(dict(zip(taken, block.args))) for _ in range(count)]
    for copy in copies:
        copy.attributes.pop(COLUMN, None)
        copy.attributes.pop(ROW, None)
    block.add_ops(copies)
    used = [copy.results[0] for copy in copies]
    block.add_op(builtin.UnrealizedConversionCastOp.get(used, [builtin.i32]))
    block.add_op(builtin.UnregisteredOp.with_name("tt.return").create())
    return kernel_text(block, [], module, leave_out=TOTAL)
