"""Tensor memory of a module after the pass that allocates it:
which columns and rows each buffer has, and how long it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation

from kernellab.compiler.analyses.shared_memory import (
    changes_of_line,
    kernel_text,
    last_use,
    loops,
    taken_from_outside,
    unique_names,
    views_of,
    warp_groups,
)
from kernellab.compiler.modules.analyst import answers
from kernellab.compiler.modules.needs import pass_read
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.compiler.modules.structure import (
    functions,
    integer,
    kind,
    numbered,
    position_of,
    symbol,
)
from kernellab.compiler.targets import has_tensor_memory
from kernellab.records.analyses import TENSOR_MEMORY_COLUMNS, TensorBuffer, TensorMemory
from kernellab.records.compilations import TENSOR_MEMORY
from kernellab.triton_api.analyses import tensor_memory_places

COLUMN = "tensor_memory_col_offset"
ROW = "tensor_memory_row_offset"
"""The attributes with which the pass says where a buffer begins."""
TOTAL = "ttg.tensor_memory_size"

Place = tuple[int, int]
"""Row and column."""
Allocate = Callable[[str], tuple[Sequence[Place], int]]
"""Where a module's buffers begin, and how many columns it takes:
the compiler's own pass, run on the module's text."""


def tensor_memory(module: builtin.ModuleOp, allocate: Allocate, read_from: str) -> TensorMemory:
    """The layout of a module's tensor memory.

    Args:
        module: as the pass left it.
        allocate: queries the compiler for sizes.
        read_from: the pass's label.
    """
    number = numbered(module)
    views = views_of(module, COLUMN)
    allocating = [op for op in number if COLUMN in op.attributes]
    names = unique_names(allocating)
    sizes: dict[Attribute, tuple[int, int]] = {}
    buffers = []
    for op in allocating:
        memory = op.results[0].type
        if memory not in sizes:
            sizes[memory] = _size(op, module, allocate)
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
        buffers=tuple(_with_sharers(buffers)),
        total_columns=integer(module, TOTAL) or 0,
        read_from=read_from,
        kernel=next((symbol(function, "sym_name") for function in functions(module)), ""),
        positions=tuple(changes_of_line(number)),
        loops=tuple(loops(module, number)),
        warp_groups=tuple(warp_groups(number)),
        absence="" if buffers else "The program allocates none.",
    )


def _with_sharers(buffers: list[TensorBuffer]) -> list[TensorBuffer]:
    return [
        replace(
            buffer,
            shares_with=tuple(
                other.name for other in buffers if other is not buffer and buffer.overlaps(other)
            ),
        )
        for buffer in buffers
    ]


def _size(op: Operation, module: builtin.ModuleOp, allocate: Allocate) -> tuple[int, int]:
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
    """A module with a kernel that makes the same buffer several times,
    and uses all of them at its end.
    """
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


@answers(TENSOR_MEMORY)
def tensor_memory_of(opened: OpenedModules) -> TensorMemory:
    """The layout of tensor memory after the pass that allocates it; none where there is none."""
    compilation = opened.compilation
    if not has_tensor_memory(compilation.target):
        absence = f"{compilation.target} has no tensor memory: GPUs of compute capability 10 have."
        return TensorMemory((), 0, "", compilation.kernel, absence=absence)
    allocated = pass_read(compilation, "tensor_memory")
    return tensor_memory(
        opened.after(allocated),
        lambda text: opened.query(tensor_memory_places, text, compilation.target),
        allocated.label,
    )
