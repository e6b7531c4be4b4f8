"""Triton's pipeline, driven and kept: `kernellab.compile`."""

from __future__ import annotations

import functools
import linecache
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab import triton_api, worker
from kernellab.compiler import resources, steering
from kernellab.compiler.buffers import buffer_report
from kernellab.compiler.occupancy import occupancy_of
from kernellab.compiler.recorder import PassRecorder
from kernellab.compiler.sass import disassemble
from kernellab.compiler.sass_decoding import decode, spill_sites
from kernellab.compiler.source_map import module_frames, read_source_map
from kernellab.compiler.targets import DEFAULT_TARGET, local_target, parse_targets, shared_limit
from kernellab.errors import (
    ArgumentError,
    CompileError,
    OptionError,
    SourcePosition,
    nearest,
    suggestion,
)
from kernellab.long_work import LongWork
from kernellab.records import (
    Compilation,
    PassRun,
    Resources,
    Specialization,
    Stage,
    Stages,
    Target,
)
from kernellab.saved_data import why_unreadable
from kernellab.specialize import BoundCall, bind
from kernellab.triton_api import IrText
from kernellab.triton_api import pipeline as triton_pipeline
from kernellab.triton_api.mlir_stages import list_passes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from kernellab.records import Analyst

STAGE_LANGUAGES = {
    "ttir": "mlir",
    "glir": "mlir",
    "ttgir": "mlir",
    "llir": "llvm",
    "ptx": "ptx",
    "cubin": "elf",
    "amdgcn": "amdgcn",
    "hsaco": "elf",
}

_RECORDINGS = ("passes", "stages")


def compile(
    kernel: Any,
    /,
    *args: Any,
    target: str | Target | Iterable[str | Target] | None = None,
    record: str = "passes",
    options: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    skip: str | Sequence[str] = (),
    stop_after: str | None = None,
    pipeline: Sequence[steering.Item] | None = None,
    language: str | None = None,
    seconds: float = worker.SECONDS,
    **keywords: Any,
) -> Compilation | dict[str, Compilation]:
    """Compile a kernel through Triton's whole pipeline, on any machine, with or without a GPU.

    A pass is named "stage.name#k", its k-th run in that stage ("ttgir.canonicalizer#2"), or "stage.name" or "name" for all its
    runs; `compilation.passes` has the labels. A compilation with `skip`, `stop_after` or `pipeline`, and one of an IR text, runs in a process
    of its own: what aborts there is an error here. Triton's cache is not used for it.

    Args:
        kernel: a Triton or Gluon kernel; or an IR text (TTIR, TTGIR, LLVM IR, PTX, AMD assembly) or the path of one, which is
            compiled on from there to the end. Of an autotuned kernel the first config is taken, its constants and its
            num_warps; heuristics are computed from the arguments. What is given here goes before either.
        *args: the kernel's arguments: tensors, NumPy arrays, numbers, or type strings ("*fp16:16", "i32").
        target: "sm_90", "gfx942", ...; None means this machine's GPU, else sm_90. A list, or one string with commas,
            compiles for each and gives a dict by target name.
        record: "passes" keeps what every pass did and made; "stages" what every stage made, which is faster and may come out
            of Triton's cache.
        options: backend options (num_warps, num_stages, maxnreg, ...), also those whose name is a kernel parameter's.
        constants: kernel parameters to compile in, also those whose name is one of this function's own.
        skip: passes to leave out.
        stop_after: a pass (its first run) or a stage to stop after; `stages` holds what was made until then.
        pipeline: the passes to run, in order, in every stage that it names; the other stages stay as they are. A bare name
            stays in the stage of the pass before it, where it runs there. A pass keeps the arguments that the target gives it; (name, argument, ...) gives others.
        language: of an IR text, "ttir", "ttgir", "llir", "ptx" or "amdgcn", where neither the text nor its path tells.
        seconds: how long a compilation in a process of its own may take.
        **keywords: kernel parameters by name; other names are backend options.

    Returns:
        The Compilation, or a dict of them by target name. SASS is disassembled, and resources are read, when first
        asked for.

    Raises:
        TargetError, OptionError, ArgumentError: what was asked for does not exist or does not fit.
        CompileError: the compiler refused the kernel; the error points at the kernel's line, or at the line of the text.
            Its `passes` hold the record up to the failing pass.
        WorkerError: a process of its own took too long.
    """
    if record not in _RECORDINGS:
        raise OptionError(
            f"record={record!r} is not a way to record.",
            advice=f'{nearest(str(record), _RECORDINGS)} "passes" keeps what every pass did, "stages" what every stage made.'.strip(),
        )
    targets = [local_target() or DEFAULT_TARGET] if target is None else parse_targets(target)
    edits = _Edits(skip, stop_after, pipeline, seconds)
    if isinstance(kernel, str | os.PathLike):
        given = _given_text(kernel, language)
        if args or constants:
            raise ArgumentError("an IR text takes no arguments: they are compiled in already.")
        chosen = {**keywords, **(options or {})}
        compilations = {one.name: _compile_given(given, one, chosen, edits) for one in targets}
    else:
        compilations = {}
        plain, keywords = unwrap_kernel(kernel, args, keywords, constants or {})
        with LongWork(f"compile {plain.__name__}", len(targets), "targets") as work:
            for one in targets:
                call = bind(plain, args, keywords, one, options=options, constants=constants)
                compilations[one.name] = (
                    _compile_edited(plain, call, one, edits)
                    if edits.any
                    else compile_bound(plain, call, one, record=record)
                )
                work.advance()
    several = (
        target is not None
        and not isinstance(target, Target)
        and (not isinstance(target, str) or "," in target)
    )
    return compilations if several else compilations[targets[0].name]


def compile_bound(
    kernel: Any,
    call: BoundCall,
    target: Target,
    *,
    record: str = "stages",
    ttgir_lines: bool | None = None,
    for_launch: bool = False,
) -> Compilation:
    """Compile a kernel for a call that is bound already: a launch that was seen, for example.

    Args:
        kernel: the plain JIT function.
        call, target: what it is compiled for.
        record: as for `compile`.
        ttgir_lines: let locations after TTGIR name its lines, which makes the source map exact; None means with
            record="passes".
        for_launch: with record="stages" and no `ttgir_lines`, leave it in Triton's cache where a launch on the GPU finds it.

    Raises:
        CompileError: the compiler refused the kernel, or it needs more shared memory or threads than the
            target has.
    """
    if ttgir_lines is None:
        ttgir_lines = record == "passes"
    compiled, passes = _compile_and_record(kernel, call, target, record, ttgir_lines, for_launch)
    return _compilation(kernel, call, target, compiled, passes)


def _compilation(
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
    _check_launchable(kernel, compiled, target, passes)
    stages = _stages("".join(kernel.raw_src), compiled)
    return Compilation(
        kernel=kernel.__name__,
        target=target,
        specialization=call.specialization,
        options={name: compiled.metadata[name] for name in triton_api.option_names(target)},
        stages=stages,
        read_resources=resource_reader(compiled),
        passes=passes,
        open_module=_open_module,
        make_analyst=functools.partial(_make_analyst, kernel, call, target),
        write_record=_write_record,
        read_source_map=functools.partial(
            read_source_map, stages, triton_api.definition_of(kernel), target, compiled.metadata
        ),
        read_source_now=functools.partial(triton_api.source_now, kernel),
        read_instructions=decode,
        read_spill_sites=spill_sites,
        read_occupancy=occupancy_of,
    )


def _open_module(compilation: Compilation, name: str) -> ModuleOp:
    # xDSL takes a while to import, and most compilations need none of it.
    from kernellab.compiler.modules import open_module

    return open_module(compilation, name)


def _write_record(compilation: Compilation, path: str | os.PathLike[str]) -> os.PathLike[str]:
    from kernellab.compiler.archive import save

    return save(compilation, path)


def _make_analyst(kernel: Any, call: BoundCall, target: Target) -> Analyst:
    from kernellab.compiler.analyst import CompilerAnalyst
    from kernellab.triton_api.analyses import diagnose

    return CompilerAnalyst(
        functools.partial(diagnose, kernel, call.specialization, target, call.options)
    )


def _compile_and_record(
    kernel: Any, call: BoundCall, target: Target, record: str, ttgir_lines: bool, for_launch: bool
) -> tuple[triton_api.CompiledKernel, tuple[PassRun, ...]]:
    """Compile, watched or not; a kernel that does not compile keeps its record up to the failing pass."""
    asked = (kernel, call.specialization, target, call.options)
    if record == "stages":
        compiled = triton_api.compile_kernel(*asked, ttgir_lines=ttgir_lines, for_launch=for_launch)
        return compiled, ()
    recorder = PassRecorder()
    try:
        compiled = triton_pipeline.compile_watched(*asked, recorder, ttgir_lines=ttgir_lines)
    except CompileError as error:
        error.passes = tuple(recorder.passes)
        error.position = _kernel_position(kernel, error.position, recorder.stage_texts)
        raise
    return compiled, tuple(recorder.passes)


def _kernel_position(
    kernel: Any, position: SourcePosition | None, texts: Mapping[str, str]
) -> SourcePosition | None:
    """The kernel's line of a place that may be a line of the TTGIR text, which locations after TTGIR name."""
    if position is None or not position.file.endswith(triton_api.TTGIR_FILE_SUFFIX):
        return position
    lines = module_frames(texts.get("ttgir", ""))
    chains = lines[position.line - 1] if position.line <= len(lines) else ()
    for frame in (frame for chain in chains for frame in chain):
        file, line, column = frame
        if found := triton_api.position_in_kernel(kernel, file, line, column):
            return found
    return triton_api.definition_of(kernel)


def _stages(source: str, compiled: triton_api.CompiledKernel) -> Stages:
    """The kernel's source where there is one, the compiler's stages, and SASS after a cubin."""
    stages: dict[str, Stage | Callable[[], Stage]] = {}
    if source:
        stages["source"] = Stage("source", "python", source)
    for name, content in compiled.stages.items():
        stages[name] = Stage(name, _language_of(name, content), content)
    cubin = compiled.stages.get("cubin")
    if isinstance(cubin, bytes):
        stages["sass"] = functools.partial(_sass_stage, cubin)
    return Stages(stages)


def _language_of(stage: str, content: str | bytes) -> str:
    if stage == "llir" and isinstance(content, str) and re.match(r"(?:#|module\b)", content):
        return "mlir"  # Stopped before LLVM: this is MLIR's LLVM dialect.
    return STAGE_LANGUAGES.get(stage, "text")


def _sass_stage(cubin: bytes) -> Stage:
    return Stage("sass", "sass", disassemble(cubin))


def resource_reader(compiled: triton_api.CompiledKernel) -> Callable[[], Resources]:
    """Reads the resources of what Triton compiled: from the cubin, or from AMD's assembly."""
    if not {"cubin", "amdgcn"} & set(compiled.stages):
        return _no_resources
    shared = int(compiled.metadata["shared"])
    cubin = compiled.stages.get("cubin")
    if isinstance(cubin, bytes):
        columns = int(compiled.metadata.get("tmem_size") or 0)
        return functools.partial(
            resources.read_nvidia, cubin, str(compiled.metadata["name"]), shared, columns
        )
    return functools.partial(resources.read_amd, str(compiled.stages["amdgcn"]), shared)


def _no_resources() -> Resources:
    raise CompileError(
        "the compilation was stopped before there was machine code to read resources from"
    )


_MOST_THREADS = 1024
"""Threads in one program, on every GPU here. CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"; HIP's device property maxThreadsPerBlock."""


def _check_launchable(
    kernel: Any,
    compiled: triton_api.CompiledKernel,
    target: Target,
    passes: tuple[PassRun, ...] = (),
) -> None:
    """Raise for a kernel that no launch could ever start; Triton itself finds out at the launch."""
    if "shared" not in compiled.metadata:
        return  # Stopped before that was known.
    shared = int(compiled.metadata["shared"])
    threads = int(compiled.metadata["num_warps"]) * triton_api.gpu_target(target).warp_size
    limits = [
        (shared, shared_limit(target), "bytes of shared memory", "shared memory"),
        (threads, _MOST_THREADS, "threads", "threads"),
    ]
    for needed, limit, what, resource in limits:
        if limit is not None and needed > limit:
            words = triton_api.OutOfResources(needed, limit, resource)
            error = CompileError(
                f"{kernel.__name__!r} needs {needed:,} {what} per program, and {target} has {limit:,}. "
                f"At a launch Triton says: {words}",
                advice=buffer_report(kernel, compiled) if resource == "shared memory" else "",
                position=triton_api.definition_of(kernel),
                kernel=kernel.__name__,
                target=str(target),
            )
            error.passes = passes
            raise error from words


# ---------------------------------------------------------------------------------------------------------------------
# Edited pipelines and edited texts
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Edits:
    """What the caller wants to run otherwise, as given."""

    skip: str | Sequence[str]
    stop_after: str | None
    pipeline: Sequence[steering.Item] | None
    seconds: float

    @property
    def any(self) -> bool:
        return bool(self.skip) or self.stop_after is not None or self.pipeline is not None

    def plan(self, target: Target, options: Mapping[str, Any], gluon: bool) -> steering.Plan:
        """These wishes against the passes that the target has."""
        listed = list_passes(target, options, gluon)
        stages = triton_api.stage_names(target, gluon)
        return steering.make_plan(
            listed, stages, self.skip, self.stop_after, self.pipeline, target.backend
        )


def _compile_edited(kernel: Any, call: BoundCall, target: Target, edits: _Edits) -> Compilation:
    """A kernel through an edited pipeline: the front end here, all passes in the worker process."""
    options = triton_api.options_of_launch(kernel, call.options)
    plan = edits.plan(target, options, bool(kernel.is_gluon()))
    given = triton_pipeline.front_end_text(kernel, call.specialization, target, call.options)
    try:
        outcome = steering.compile_in_worker(given, target, options, plan, edits.seconds)
    except CompileError as error:
        if error.position is not None:
            place = error.position
            error.position = triton_api.native_position(
                kernel, place.file, place.line, place.column
            )
        raise
    compiled = triton_api.CompiledKernel(outcome.stages, outcome.metadata)
    return _compilation(kernel, call, target, compiled, outcome.passes)


def record_passes(
    kernel: Any,
    call: BoundCall,
    target: Target,
    *,
    skip: str | Sequence[str] = (),
    pipeline: Sequence[steering.Item] | None = None,
    stop_after: str = "ttgir",
) -> tuple[PassRun, ...]:
    """What every pass up to a stage did, the front end first; `skip` and `pipeline` as for `compile`.

    Raises:
        CompileError, OptionError, WorkerError: as `compile`.
    """
    edits = _Edits(skip, stop_after, pipeline, worker.SECONDS)
    return _compile_edited(kernel, call, target, edits).passes


def _given_text(given: str | os.PathLike[str], language: str | None) -> IrText:
    """An IR text, or the file that holds one.

    Raises:
        ArgumentError: there is no such file.
        OptionError: no such language, or none that the text tells.
    """
    text, file, suffix = str(given), "", ""
    if isinstance(given, os.PathLike) or "\n" not in given:
        path = Path(given)
        try:
            text = path.read_text()
        except OSError as error:
            why = why_unreadable(path, error)
            raise ArgumentError(
                f"{str(given)!r} is neither a kernel, nor an IR text, nor a file that holds one. {why}",
                advice="Give the kernel itself, a TTIR, TTGIR, LLVM IR, PTX or AMDGCN text, or the path of one.",
            ) from error
        except UnicodeDecodeError as error:
            raise ArgumentError(f"{str(given)!r} holds no text: it is a binary file.") from error
        file, suffix = str(path), path.suffix
    if language is None:
        language = steering.guess_language(text, suffix)
    elif language not in steering.LANGUAGES:
        raise OptionError(
            f"language={language!r} is none that can be compiled on.",
            advice=suggestion(str(language), steering.LANGUAGES, "There are"),
        )
    return IrText(text, language, file=file or f"<{language} text>")


def _compile_given(
    given: IrText, target: Target, options: Mapping[str, Any], edits: _Edits
) -> Compilation:
    """An IR text, compiled on to the end in the worker process."""
    known = triton_api.option_names(target)
    for name in options:
        if name not in known:
            raise OptionError(
                f"{target} has no option {name!r}.", advice=suggestion(name, known, "There are")
            )
    plan = edits.plan(target, options, given.gluon)
    try:
        outcome = steering.compile_in_worker(given, target, options, plan, edits.seconds)
    except CompileError:
        _let_errors_show(given)
        raise
    stages = {given.language: given.text, **outcome.stages}
    compiled = triton_api.CompiledKernel(stages, outcome.metadata)
    kept = _stages("", compiled)
    return Compilation(
        kernel=str(outcome.metadata.get("name", given.file)),
        target=target,
        specialization=Specialization({}, {}, {}),
        options={name: outcome.metadata[name] for name in known},
        stages=kept,
        read_resources=resource_reader(compiled),
        passes=outcome.passes,
        open_module=_open_module,
        write_record=_write_record,
        read_source_map=functools.partial(
            read_source_map, kept, SourcePosition(given.file, 1), target, outcome.metadata
        ),
        read_instructions=decode,
        read_spill_sites=spill_sites,
        read_occupancy=occupancy_of,
    )


def _let_errors_show(given: IrText) -> None:
    """Give Python's cache of source lines the text, which may be in no file, for an error's excerpt."""
    lines = given.text.splitlines(keepends=True)
    linecache.cache[given.file] = (len(given.text), None, lines, given.file)


# ---------------------------------------------------------------------------------------------------------------------
# Autotuned kernels
# ---------------------------------------------------------------------------------------------------------------------


def unwrap_kernel(
    kernel: Any,
    args: Iterable[Any],
    keywords: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """The JIT function inside `triton.autotune` and `triton.heuristics`, and the keywords with what these two add.

    An autotuner adds its first config; heuristics are computed from the arguments, as in a launch.

    Raises:
        ArgumentError: `kernel` is no kernel, or a heuristic cannot be computed from these arguments.
    """
    added: dict[str, Any] = {}
    current = kernel
    while isinstance(current, triton_api.Autotuner | triton_api.Heuristics):
        given = {
            **dict(zip(current.arg_names, args, strict=False)),
            **added,
            **constants,
            **keywords,
        }
        if isinstance(current, triton_api.Autotuner):
            added = {**current.configs[0].all_kwargs(), **added}
        else:
            for name, compute in current.values.items():
                if name not in given:
                    added[name] = given[name] = _heuristic(name, compute, given)
        current = current.fn
    if not isinstance(current, triton_api.JITFunction):
        raise ArgumentError(
            f"{kernel!r} is not a Triton kernel.",
            advice="Put @triton.jit (or @gluon.jit) above the function."
            if callable(kernel)
            else "",
        )
    taken = {name: value for name, value in added.items() if name not in constants}
    return current, {**taken, **keywords}


def _heuristic(name: str, compute: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> Any:
    try:
        return compute(given)
    except Exception as error:
        raise ArgumentError(
            f"The heuristic for {name!r} cannot be computed from these arguments: {error!r}.",
            advice=f"Give values instead of types, or the result: {name}=...",
        ) from error
