"""What Triton's compiler made, as a `Compilation` and its `Stages`: who answers queries about it,
and how it is saved.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import triton

from kernellab import triton_api
from kernellab.common.saved_files import (
    kernellab_version,
    pairs_to_json,
    save_whole,
    saved_path,
    value_to_json,
)
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.machine_code.instructions import decode, disassemble
from kernellab.compiler.machine_code.resources import (
    check_launchable,
    has_limits,
    occupancy_of,
    resource_reader,
)
from kernellab.compiler.source_map import read_source_map
from kernellab.compiler.targets import has_tensor_memory
from kernellab.errors import (
    ArchiveError,
    CompilationStopped,
    KernelLabError,
    NotRecorded,
    SourcePosition,
)
from kernellab.records import (
    Analyst,
    Capability,
    Compilation,
    Instruction,
    Occupancy,
    PassRun,
    Resources,
    SourceMap,
    Specialization,
    Stage,
    Stages,
    StoredText,
    Target,
)
from kernellab.records.compilations import PASSES_READ, STAGES_READ, Remark
from kernellab.triton_api import IrText
from kernellab.triton_api.stages import Query, query_here, query_worker

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

# The format of a saved compilation: schema/record.schema.json, gzipped.
#
# A change that an older reader would misread gets a new version number.


FORMAT = "kernellab.record"
VERSION = 1
SCHEMA = Path(__file__).with_name("schema") / "record.schema.json"
"""The format, for other programs to read."""

BINARY = frozenset({"cubin", "hsaco"})
"""The stages that are binary."""

# Compilations to files: `compilation.save`.


_COMPRESSION = 6


class _Pool:
    """Things that are kept once, and named by their place."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._places: dict[Any, int] = {}

    def place(self, key: Any, item: Callable[[], Any]) -> int:
        if key not in self._places:
            self._places[key] = len(self.items)
            self.items.append(item())
        return self._places[key]


def save(compilation: Compilation, path: str | os.PathLike[str]) -> Path:
    """Write the whole record of a compilation: stages, passes, resources, source map, remarks.

    Args:
        compilation: what is saved. What it computes on demand is computed now.
        path: the file, whatever its suffix: gzipped JSON. A file that is there is overwritten once
            the new one is complete.

    Returns:
        The path.

    Raises:
        ArchiveError: the file cannot be written.
    """
    target = saved_path(path, ArchiveError)
    data = json.dumps(to_json(compilation), separators=(",", ":"), ensure_ascii=False)
    return save_whole(target, gzip.compress(data.encode(), _COMPRESSION, mtime=0), ArchiveError)


def to_json(compilation: Compilation) -> dict[str, Any]:
    """The record as plain data that fits the schema."""
    texts, counts = _Pool(), _Pool()
    passes = [_pass_to_json(run, texts, counts) for run in compilation.passes]
    stages = [_stage_to_json(stage, texts) for stage in compilation.stages.made()]
    return {
        "format": FORMAT,
        "version": VERSION,
        "kernellab": kernellab_version(),
        "triton": triton.__version__,
        "kernel": compilation.kernel,
        "target": {"backend": compilation.target.backend, "arch": compilation.target.arch},
        "specialization": {
            field.name: pairs_to_json(getattr(compilation.specialization, field.name))
            for field in dataclasses.fields(Specialization)
        },
        "options": pairs_to_json(compilation.options),
        "texts": texts.items,
        "op_counts": counts.items,
        "stages": stages,
        "passes": passes,
        "resources": _answer(
            compilation, "resources", lambda: dataclasses.asdict(compilation.resources)
        ),
        "source_map": _answer(compilation, "source_map", lambda: compilation.source_map.to_json()),
        "remarks": _answer(
            compilation,
            "remarks",
            lambda: [_remark_to_json(remark) for remark in compilation.remarks],
        ),
        "functions": [dataclasses.asdict(function) for function in compilation.functions],
    }


def _answer(compilation: Compilation, capability: Capability, query: Callable[[], Any]) -> Any:
    """None for what a record does not have."""
    if not compilation.can_answer(capability):
        return None
    try:
        return query()
    except KernelLabError:  # A tool fails on it: what is there already is worth a file.
        return None


def _pass_to_json(run: PassRun, texts: _Pool, counts: _Pool) -> dict[str, Any]:
    def counted(numbers: Mapping[str, int]) -> int:
        return counts.place(tuple(numbers.items()), lambda: dict(numbers))

    return {
        "stage": run.stage,
        "name": run.name,
        "occurrence": run.occurrence,
        "arguments": [value_to_json(value) for value in run.arguments],
        "seconds": round(run.seconds, 6),
        "changed": run.changed,
        "before": counted(run.op_counts_before),
        "after": counted(run.op_counts_after),
        "text": texts.place(run.text.digest, run.text.read),
    }


def _stage_to_json(stage: Stage, texts: _Pool) -> dict[str, Any]:
    common = {"name": stage.name, "language": stage.language}
    if isinstance(stage.content, bytes):
        return {**common, "base64": base64.b64encode(stage.content).decode()}
    text = stage.content
    return {**common, "text": texts.place(StoredText(text).digest, lambda: text)}


def _remark_to_json(remark: Remark) -> dict[str, Any]:
    return {
        "severity": remark.severity,
        "what": remark.what,
        "origin": remark.kind,
        "span": None if remark.position is None else _position_to_json(remark.position),
        "called_from": [_position_to_json(position) for position in remark.called_from],
    }


def _position_to_json(position: SourcePosition) -> list[Any]:
    return [position.file, position.line, position.column]


# Whether the record of a compilation has what an analysis reads.


def pass_read(compilation: Compilation, analysis: Capability) -> PassRun:
    """The pass whose module an analysis reads.

    Raises NotRecorded where it is not in the record.
    """
    beginning = PASSES_READ[analysis]
    for run in compilation.passes:
        if run.name.startswith(beginning):
            return run
    raise NotRecorded(
        f"The record of {compilation.kernel!r} has no pass {beginning!r}."
        if compilation.passes
        else f"The record of {compilation.kernel!r} holds no passes.",
        advice='Compile with record="passes", and do not stop before this pass.',
    )


def missing_input(compilation: Compilation, analysis: Capability) -> NotRecorded | None:
    """The error to raise where a stage that an analysis reads is missing; None otherwise."""
    stages = STAGES_READ.get(analysis)
    if stages is not None:
        if any(name in compilation.stages for name in stages):
            return None
        return NotRecorded(
            f"The record of {compilation.kernel!r} has no stage {' or '.join(stages)}."
        )
    if analysis == "tensor_memory" and not has_tensor_memory(compilation.target):
        return None
    try:
        pass_read(compilation, analysis)
    except NotRecorded as error:
        return error
    return missing_input(compilation, "shared_memory") if analysis == "barriers" else None


# Answers to queries about a compilation: from its kernel, or from its record alone.
#
# xDSL takes a while to import, and most compilations need none of it: what does is imported
# where it is asked for.


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
        from kernellab.compiler.modules import open_module

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
        from kernellab.compiler.modules import CompilerAnalyst

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
        from kernellab.compiler.remarks import collect_remarks
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


# What Triton's compiler made, as a `Compilation` and its `Stages`: SASS follows a cubin.


def compilation_of(
    kernel: Any,
    call: BoundCall,
    target: Target,
    compiled: triton_api.CompiledKernel,
    passes: tuple[PassRun, ...],
) -> Compilation:
    """The record of a kernel that was compiled.

    Raises:
        CompileError: no launch could ever start it.
    """
    check_launchable(kernel, compiled, target, passes)
    stages = make_stages(compiled.stages, source="".join(kernel.raw_src))
    return Compilation(
        kernel=kernel.__name__,
        target=target,
        specialization=call.specialization,
        options=_options(compiled, target),
        stages=stages,
        passes=passes,
        functions=triton_api.function_sources(
            kernel, triton_api.functions_within(call.specialization.constants.values())
        ),
        provider=KernelProvider(
            resource_reader(compiled, target),
            _map_reader(stages, triton_api.definition_of(kernel), target, compiled),
            kernel,
            call,
            compiled.assembler_log,
        ),
    )


def compilation_of_text(
    given: IrText,
    target: Target,
    compiled: triton_api.CompiledKernel,
    passes: tuple[PassRun, ...],
) -> Compilation:
    """The record of an IR text that was compiled on: no kernel of Python is behind it."""
    compiled = replace(compiled, stages={given.language: given.text, **compiled.stages})
    stages = make_stages(compiled.stages)
    return Compilation(
        kernel=str(compiled.metadata.get("name", given.file)),
        target=target,
        specialization=Specialization({}, {}, {}),
        options=_options(compiled, target),
        stages=stages,
        passes=passes,
        provider=TextProvider(
            resource_reader(compiled, target),
            _map_reader(stages, SourcePosition(given.file, 1), target, compiled),
        ),
    )


def _options(compiled: triton_api.CompiledKernel, target: Target) -> dict[str, Any]:
    return {name: compiled.metadata[name] for name in triton_api.option_names(target)}


def _map_reader(
    stages: Stages, kernel: SourcePosition, target: Target, compiled: triton_api.CompiledKernel
) -> Callable[[], SourceMap]:
    return partial(read_source_map, stages, kernel, target, compiled.metadata)


LANGUAGES = {
    "ttir": "mlir",
    "glir": "mlir",
    "ttgir": "mlir",
    "llir": "llvm",
    "ptx": "ptx",
    "cubin": "elf",
    "amdgcn": "amdgcn",
    "hsaco": "elf",
}
"""Stage of Triton's -> what it is written in."""


def make_stages(contents: Mapping[str, str | bytes], source: str = "") -> Stages:
    """The stages of one compilation, in order.

    Args:
        contents: Triton's stages, by name.
        source: the kernel's, "" where there is none.
    """
    stages: dict[str, Stage | Callable[[], Stage]] = {}
    if source:
        stages["source"] = Stage("source", "python", source)
    for name, content in contents.items():
        stages[name] = Stage(name, _language_of(name, content), content)
    cubin = contents.get("cubin")
    if isinstance(cubin, bytes):
        stages["sass"] = partial(_sass_stage, cubin)
    return Stages(stages)


def _language_of(stage: str, content: str | bytes) -> str:
    if stage == "llir" and isinstance(content, str) and re.match(r"(?:#|module\b)", content):
        return "mlir"  # Stopped before LLVM: this is MLIR's LLVM dialect.
    return LANGUAGES.get(stage, "text")


def _sass_stage(cubin: bytes) -> Stage:
    return Stage("sass", "sass", disassemble(cubin))
