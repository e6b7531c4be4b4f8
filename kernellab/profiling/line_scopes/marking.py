"""A compilation once more, with marks: the same passes until TTGIR, then marks, then Triton's own
stages to the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import IntegerAttr

from kernellab import triton_api
from kernellab.compiler.machine_code.occupancy import has_limits, occupancy
from kernellab.compiler.machine_code.resources import resource_reader
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import UnsupportedOperation
from kernellab.ir.syntax import read_module
from kernellab.profiling.line_scopes.placing import Detail, MarkedModule, mark
from kernellab.records import Compilation, Resources, Target
from kernellab.triton_api.marked_kernels import ReadingMemory, compile_marked


@dataclass(frozen=True)
class PlainKernel:
    """A kernel as it is launched, before there are marks."""

    kernel: Any
    call: BoundCall
    compilation: Compilation
    generic: str
    """Its TTGIR in MLIR's generic form."""
    warps: int
    """Of a program, those of its partitions too."""


@dataclass(frozen=True)
class MarkedKernel:
    """A kernel with marks, compiled."""

    plain: PlainKernel
    detail: Detail
    module: MarkedModule
    memory: ReadingMemory
    compiled: Any
    """Triton's own CompiledKernel, not yet loaded."""
    resources: Resources

    @property
    def changes(self) -> tuple[str, ...]:
        """What a program takes otherwise than without marks, in words."""
        before, after = self.plain.compilation.resources, self.resources
        pairs = (
            ("registers", before.registers, after.registers),
            ("bytes of shared memory", before.shared_bytes, after.shared_bytes),
            ("spilled registers", before.spills, after.spills),
        )
        return tuple(f"{new:,} {what} instead of {old:,}" for what, old, new in pairs if old != new)

    def programs_at_once(self) -> tuple[int, int] | None:
        """How many programs a multiprocessor holds, without marks and with them; None where the
        limits of the target are not known.
        """
        target = self.plain.compilation.target
        if not has_limits(target):
            return None
        both = self.plain.compilation.resources, self.resources
        before, after = (
            occupancy(resources, target, self.plain.warps).blocks for resources in both
        )
        return before, after


def plain_kernel(kernel: Any, call: BoundCall, target: Target) -> PlainKernel:
    """Compile a call as a launch would.

    Raises:
        CompileError: the compiler refused the kernel.
        UnsupportedOperation: the target has no TTGIR that marks could be put into.
    """
    compilation = compile_bound(kernel, call, target, for_launch=True)
    if "ttgir" not in compilation.stages or call.options.get("ir_override"):
        raise UnsupportedOperation(
            f"{kernel.__name__!r} cannot be profiled by line: marks go into its TTGIR, and the "
            "compiler produced none"
        )
    text = compilation.stages["ttgir"].text
    generic = triton_api.generic_form(text, target)
    warps = int(compilation.options["num_warps"])  # by now with those of its partitions
    return PlainKernel(kernel, call, compilation, generic, warps)


def within_occupancy(marked: MarkedKernel) -> MarkedKernel:
    """The same marks with as few registers as it takes for a multiprocessor to hold as many
    programs as without them, where it holds fewer; that may still not be enough.
    """
    at_once = marked.programs_at_once()
    if at_once is None or at_once[1] >= at_once[0]:
        return marked
    plain = marked.plain
    target = plain.compilation.target
    most = plain.compilation.resources.registers
    for registers in range(most, marked.resources.registers):
        resources = replace(marked.resources, registers=registers)
        if occupancy(resources, target, plain.warps).blocks >= at_once[0]:
            most = registers
    memory = marked.memory
    return marked_kernel(plain, marked.detail, memory.readings, memory.noting, most_registers=most)


def marked_kernel(
    plain: PlainKernel,
    detail: Detail,
    readings: int,
    noting: tuple[int, ...] = (),
    *,
    most_registers: int | None = None,
) -> MarkedKernel:
    """Compile a kernel with marks.

    Args:
        plain: without.
        detail: how many marks there are.
        readings: how many fit for each warp; rounded up to a power of two.
        noting: the warps that note the clock; none for all.
        most_registers: of a thread; what needs more spills.

    Raises:
        UnsupportedOperation: the kernel cannot have marks.
        CompileError: the compiler refused it with them.
    """
    compilation, call = plain.compilation, plain.call
    module = read_module(plain.generic)
    if most_registers is not None:
        module.attributes["ttg.maxnreg"] = IntegerAttr(most_registers, 32)
    marked = mark(module, detail)
    memory = ReadingMemory(1 << max(readings - 1, 1).bit_length(), plain.warps, noting)
    compiled = compile_marked(
        plain.kernel, call.specialization, compilation.target, call.options, marked.text, memory
    )
    made = triton_api.CompiledKernel(dict(compiled.asm), compiled.metadata._asdict())
    read = resource_reader(made, compilation.target)
    assert read is not None, "there is machine code of a kernel for NVIDIA's GPUs"
    return MarkedKernel(plain, detail, marked, memory, compiled, read())
