"""Answers to queries about a compilation: from its kernel, or from its record alone.

xDSL takes a while to import, and most compilations need none of it: what does is imported where
it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kernellab import triton_api
from kernellab.compiler.files.saving import save
from kernellab.compiler.machine_code.decoding import decode
from kernellab.compiler.machine_code.occupancy import has_limits, occupancy_of
from kernellab.compiler.modules.mlir_queries import Query, query_here, query_worker
from kernellab.compiler.modules.needs import missing_input
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import CompilationStopped, NotRecorded
from kernellab.records import (
    Analyst,
    Capability,
    Compilation,
    Instruction,
    Occupancy,
    Resources,
    SourceMap,
)
from kernellab.records.compilations import Remark

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


class RecordProvider:
    """Answers from what was kept of a compilation; its kernel is not at hand.

    MLIR reads the texts in the worker process: a file may hold anything.

    Args:
        resources: reads them; None where there is no machine code.
        source_map: reads it; None where no lines were kept.
        remarks: what the compiler said; None where no one listened.
    """

    _query: Query = staticmethod(query_worker)
    kernel: Any = None
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        resources: Callable[[], Resources] | None = None,
        source_map: Callable[[], SourceMap] | None = None,
        remarks: tuple[Remark, ...] | None = None,
    ) -> None:
        self._resources = resources
        self._source_map = source_map
        self._remarks = remarks

    def missing(self, compilation: Compilation, capability: Capability) -> NotRecorded | None:
        """The error where something that an answer needs is missing; None otherwise."""
        match capability:
            case "resources":
                return self._without_resources(compilation) if self._resources is None else None
            case "source_map":
                no_lines = f"No line information was kept for {compilation.kernel!r}."
                return NotRecorded(no_lines) if self._source_map is None else None
            case "remarks":
                return self._without_remarks(compilation)
            case "module":
                return _without_mlir(compilation)
            case "instructions":
                return _without_machine_code(compilation) or self.missing(compilation, "source_map")
            case "occupancy":
                return self._without_occupancy(compilation)
            case _:
                return missing_input(compilation, capability)

    def _without_resources(self, compilation: Compilation) -> NotRecorded:
        return NotRecorded(
            f"The record of {compilation.kernel!r} holds no machine code to read resources from."
        )

    def _without_remarks(self, compilation: Compilation) -> NotRecorded | None:
        if self._remarks is not None:
            return None
        return NotRecorded(
            f"The record of {compilation.kernel!r} has no remarks, and no kernel to compile again.",
            advice=(
                "Compile the kernel with kernellab.compile, or load a file that "
                "compilation.save wrote."
            ),
        )

    def _without_occupancy(self, compilation: Compilation) -> NotRecorded | None:
        if self._resources is None:
            error = self._without_resources(compilation)
            return type(error)(f"The occupancy is not known: {error.problem}")
        if "num_warps" not in compilation.options:
            return NotRecorded(
                f"The occupancy of {compilation.kernel!r} is not known: its record does not say "
                "how many warps it has."
            )
        if not has_limits(compilation.target):
            return NotRecorded(
                f"The limits of {compilation.target} are not known, so its occupancy is not either."
            )
        return None

    def source_now(self) -> str | None:
        """None: no one knows which kernel the record is of."""
        return None

    def save(self, compilation: Compilation, path: str | os.PathLike[str]) -> os.PathLike[str]:
        """Write the record to a file."""
        return save(compilation, path)

    def resources(self, _compilation: Compilation) -> Resources:
        """What one program takes."""
        assert self._resources is not None
        return self._resources()

    def source_map(self, _compilation: Compilation) -> SourceMap:
        """Which line of one stage became which lines of another."""
        assert self._source_map is not None
        return self._source_map()

    def remarks(self, _compilation: Compilation) -> tuple[Remark, ...]:
        """What the compiler said."""
        assert self._remarks is not None
        return self._remarks

    def module(self, compilation: Compilation, name: str) -> ModuleOp:
        """The module of a stage or after a pass."""
        from kernellab.compiler.modules.opening import open_module

        return open_module(compilation, name, self._query)

    def instructions(self, compilation: Compilation) -> tuple[Instruction, ...]:
        """The machine code, decoded."""
        return decode(compilation)

    def occupancy(
        self,
        compilation: Compilation,
        registers: int | None,
        shared_bytes: int | None,
        warps: int | None,
    ) -> Occupancy:
        """How many programs fit on one multiprocessor."""
        return occupancy_of(compilation, registers, shared_bytes, warps)

    def make_analyst(self, compilation: Compilation) -> Analyst:
        """Who answers the analyses."""
        from kernellab.compiler.modules.analyst import CompilerAnalyst

        return CompilerAnalyst(compilation, self._query)


class TextProvider(RecordProvider):
    """Answers for an IR text that was compiled on here: no kernel of Python is behind it."""

    def _without_resources(self, _compilation: Compilation) -> NotRecorded:
        return CompilationStopped(
            "the compilation was stopped before there was machine code to read resources from"
        )


class KernelProvider(TextProvider):
    """Answers for a kernel that was compiled here; MLIR reads in this process what it wrote itself.

    Args:
        resources, source_map: as for a record.
        kernel: the plain JIT function.
        call: what it was compiled for.
        assembler_log: what `ptxas -v` said; None where ptxas has to run again.
    """

    _query: Query = staticmethod(query_here)

    def __init__(
        self,
        resources: Callable[[], Resources] | None,
        source_map: Callable[[], SourceMap],
        kernel: Any,
        call: BoundCall,
        assembler_log: str | None,
    ) -> None:
        super().__init__(resources, source_map)
        self.kernel = kernel
        self.options = call.options
        self._call = call
        self._assembler_log = assembler_log

    def _without_remarks(self, _compilation: Compilation) -> NotRecorded | None:
        return None

    def source_now(self) -> str | None:
        """The source of the kernel that has the name now."""
        return triton_api.source_now(self.kernel)

    def remarks(self, compilation: Compilation) -> tuple[Remark, ...]:
        """What the compiler says.

        The passes of MLIR run once more for this, and the assembler too
        where the compilation recorded no passes.
        """
        from kernellab.compiler.remarks.collecting import collect_remarks
        from kernellab.triton_api.analyses import diagnose

        diagnosis = diagnose(
            self.kernel, self._call.specialization, compilation.target, self._call.options
        )
        return collect_remarks(compilation, diagnosis, self._assembler_log)


def _without_mlir(compilation: Compilation) -> NotRecorded | None:
    in_stages = any(name in compilation.stages for name in ("ttir", "ttgir"))
    if in_stages or any(run.op_counts_after for run in compilation.passes):
        return None
    return NotRecorded(f"The record of {compilation.kernel!r} holds no module of MLIR.")


def _without_machine_code(compilation: Compilation) -> NotRecorded | None:
    stages = compilation.stages
    # Machine code that this machine cannot disassemble is there: the decoder says what is missing.
    if any(name in stages for name in ("sass", "amdgcn")) or "sass" in stages.failed:
        return None
    return NotRecorded(f"The record of {compilation.kernel!r} holds no machine code.")
