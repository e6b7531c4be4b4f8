"""How the shared memory of a program is laid out, and its tensor memory.

The source of each number is in the docstring of its class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernellab.errors import SourcePosition
from kernellab.records.showing import plot
from kernellab.records.tables import column_names, data_frame


@dataclass(frozen=True)
class SharedBuffer:
    """One piece of shared memory (AMD: LDS) that a kernel's module has."""

    name: str
    """The value's name in the IR ("a"); of scratch space the operation's ("convert_layout")."""
    operation: str
    """The operation that has it: "ttg.local_alloc" for a buffer,
    any other for scratch space of that operation."""
    offset: int
    """First byte. Source: the attribute `allocation.offset` that Triton's
    allocation pass leaves."""
    size_bytes: int
    """Source: the same pass, run on a module that holds this one operation."""
    first_operation: int
    """Life span: number of the first operation at which it lives, in the order of the module's text
    after the pass. Ours, by liveness over the control flow of that module: alive from its making to
    the last use of it or of a view of it."""
    last_operation: int
    position: SourcePosition | None
    """The kernel's line."""
    shares_with: tuple[str, ...] = ()
    """The other buffers that have some of the same bytes: their lives do not meet."""

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.size_bytes

    @property
    def is_scratch(self) -> bool:
        """Whether it is space that one operation needs while it runs."""
        return "alloc" not in self.operation


@dataclass(frozen=True)
class SharedMemory:
    """How the shared memory of one program is laid out."""

    buffers: tuple[SharedBuffer, ...]
    total_bytes: int
    """What a launch asks for. Source: the module's attribute `ttg.shared`,
    which is the metadata's `shared`."""
    read_from: str
    """The pass after which the module was read: "llir.allocate_shared_memory_nv"."""
    kernel: str = ""
    positions: tuple[tuple[int, SourcePosition], ...] = ()
    """(number of an operation, the kernel's line), wherever the module's text comes
    to another line. Source: the locations that the compiler keeps."""
    loops: tuple[tuple[int, int], ...] = ()
    """(first, last operation) of each loop: where the module's branches lead back."""
    warp_groups: tuple[tuple[int, int], ...] = ()
    """(first, last operation) of each part of a warp-specialized kernel:
    they are one after the other, and run at once."""

    def table(self) -> Any:
        """One row per buffer, as a pandas DataFrame."""
        return data_frame(self.buffers, column_names(SharedBuffer))

    def bytes_in_use(self, operation: int) -> int:
        """How many bytes belong to a buffer that lives at an operation.
        Ours, from the life spans.
        """
        alive = [
            buffer
            for buffer in self.buffers
            if buffer.first_operation <= operation <= buffer.last_operation
        ]
        used, reached = 0, 0
        for buffer in sorted(alive, key=lambda buffer: buffer.offset):
            used += max(0, buffer.end - max(buffer.offset, reached))
            reached = max(reached, buffer.end)
        return used

    @property
    def busiest_operation(self) -> int | None:
        """The first operation with the most bytes in use; None without buffers.

        `total_bytes` is at least what is in use there, and more where buffers are aligned
        or a place is free only for a while.
        """
        starts = {buffer.first_operation for buffer in self.buffers}
        return min(starts, key=lambda at: (-self.bytes_in_use(at), at), default=None)

    def plot(self) -> Any:
        """The buffers over the program's operations:
        a picture that a cell displays (docs/analyses.md).
        """
        return plot(self)


TENSOR_MEMORY_COLUMNS = 512
"""Of each multiprocessor, of 32 bits and 128 rows (lanes). Source: PTX ISA, Tensor Memory."""


@dataclass(frozen=True)
class TensorBuffer:
    """One piece of tensor memory that a kernel's module has."""

    name: str
    """The value's name in the IR."""
    operation: str
    column: int
    """First column. Source: the attribute `tensor_memory_col_offset`
    that Triton's allocation pass leaves."""
    columns: int
    """Of 32 bits in each row. Source: the same pass, run on a module that holds copies
    of this one operation."""
    row: int
    """First row within a warp's 32: 0, or 16 for a buffer of 64 rows in the upper half. Source:
    `tensor_memory_row_offset`."""
    rows: int
    """128; or 64: 16 of the 32 rows of each of four warps. Source: as for `columns`."""
    first_operation: int
    """Life span: as of `SharedBuffer`."""
    last_operation: int
    position: SourcePosition | None
    """The kernel's line."""
    shares_with: tuple[str, ...] = ()
    """The other buffers that have some of the same columns and rows: their lives do not meet."""

    @property
    def end(self) -> int:
        """The first column after it."""
        return self.column + self.columns

    @property
    def halves(self) -> tuple[int, ...]:
        """Which halves of each warp's 32 rows it has: 0 the lower 16, 1 the upper."""
        return (0, 1) if self.rows == 128 else (self.row // 16,)

    def overlaps(self, other: TensorBuffer) -> bool:
        """Whether both have a column of a row."""
        return (
            self.column < other.end
            and other.column < self.end
            and bool(set(self.halves) & set(other.halves))
        )


@dataclass(frozen=True)
class TensorMemory:
    """How the tensor memory of one program is laid out (Blackwell: 512 columns of 128 rows)."""

    buffers: tuple[TensorBuffer, ...]
    total_columns: int
    """What the program asks for when it begins: 0, 32, 64, 128, 256 or 512. Source:
    the module's attribute `ttg.tensor_memory_size`."""
    read_from: str
    """The pass after which the module was read: "llir.allocate_tensor_memory";
    "" where there is none."""
    kernel: str = ""
    positions: tuple[tuple[int, SourcePosition], ...] = ()
    """As of `SharedMemory`; so are the next two."""
    loops: tuple[tuple[int, int], ...] = ()
    warp_groups: tuple[tuple[int, int], ...] = ()
    absence: str = ""
    """Why there is no buffer; "" where there is one."""

    def table(self) -> Any:
        """One row per buffer, as a pandas DataFrame."""
        return data_frame(self.buffers, column_names(TensorBuffer))

    def columns_in_use(self, operation: int) -> int:
        """How many columns belong, in some row, to a buffer that lives at an operation.
        Ours, from the life spans.
        """
        alive = [
            buffer
            for buffer in self.buffers
            if buffer.first_operation <= operation <= buffer.last_operation
        ]
        return len({column for buffer in alive for column in range(buffer.column, buffer.end)})

    @property
    def busiest_operation(self) -> int | None:
        """The first operation with the most columns in use; None without buffers."""
        starts = {buffer.first_operation for buffer in self.buffers}
        return min(starts, key=lambda at: (-self.columns_in_use(at), at), default=None)

    def plot(self) -> Any:
        """The buffers over the program's operations:
        a picture that a cell displays (docs/analyses.md).
        """
        return plot(self)
