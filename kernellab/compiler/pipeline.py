"""Triton's pipeline, driven and kept: `kernellab.compile`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kernellab import triton_api, triton_pipeline
from kernellab.compiler import resources
from kernellab.compiler.occupancy import occupancy
from kernellab.compiler.recorder import PassRecorder
from kernellab.compiler.sass import disassemble
from kernellab.compiler.sass_decoding import decode, spill_sites
from kernellab.compiler.source_map import module_frames, read_source_map
from kernellab.compiler.targets import DEFAULT_TARGET, local_target, parse_targets, shared_limit
from kernellab.errors import ArgumentError, CompileError, OptionError, SourcePosition, nearest
from kernellab.records import Compilation, Occupancy, PassRun, Resources, Stage, Stages, Target
from kernellab.specialize import BoundCall, bind

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from kernellab.records import Analyst

STAGE_LANGUAGES = {
    "ttir": "mlir",
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
    **keywords: Any,
) -> Compilation | dict[str, Compilation]:
    """Compile a kernel through Triton's whole pipeline, on any machine, with or without a GPU.

    Args:
        kernel: a Triton or Gluon kernel. Of an autotuned kernel the first config is taken, its constants and its
            num_warps; heuristics are computed from the arguments. What is given here goes before either.
        *args: the kernel's arguments: tensors, NumPy arrays, numbers, or type strings ("*fp16:16", "i32").
        target: "sm_90", "gfx942", ...; None means this machine's GPU, else sm_90. A list, or one string with commas,
            compiles for each and gives a dict by target name.
        record: "passes" keeps what every pass did and made; "stages" what every stage made, which is faster and may come out
            of Triton's cache.
        options: backend options (num_warps, num_stages, maxnreg, ...), also those whose name is a kernel parameter's.
        constants: kernel parameters to compile in, also those whose name is one of this function's own.
        **keywords: kernel parameters by name; other names are backend options.

    Returns:
        The Compilation, or a dict of them by target name. SASS is disassembled, and resources are read, when first
        asked for.

    Raises:
        TargetError, OptionError, ArgumentError: what was asked for does not exist or does not fit.
        CompileError: the compiler refused the kernel; the error points at the kernel's line.
    """
    if record not in _RECORDINGS:
        raise OptionError(
            f"record={record!r} is not a way to record.",
            advice=f'{nearest(record, _RECORDINGS)} "passes" keeps what every pass did, "stages" what every stage made.'.strip(),
        )
    targets = [local_target() or DEFAULT_TARGET] if target is None else parse_targets(target)
    plain, keywords = unwrap_kernel(kernel, args, keywords, constants or {})
    compilations = {
        one.name: compile_bound(
            plain,
            bind(plain, args, keywords, one, options=options, constants=constants),
            one,
            record=record,
        )
        for one in targets
    }
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
) -> Compilation:
    """Compile a kernel for a call that is bound already: a launch that was seen, for example.

    Args:
        kernel: the plain JIT function.
        call, target: what it is compiled for.
        record: as for `compile`.
        ttgir_lines: let locations after TTGIR name its lines, which makes the source map exact; None means with
            record="passes".

    Raises:
        CompileError: the compiler refused the kernel, or it needs more shared memory or threads than the
            target has.
    """
    if ttgir_lines is None:
        ttgir_lines = record == "passes"
    compiled, passes = _compile_and_record(kernel, call, target, record, ttgir_lines)
    _check_launchable(kernel, compiled, target)
    stages = _stages(kernel, compiled)
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
        read_instructions=decode,
        read_spill_sites=spill_sites,
        read_occupancy=_occupancy,
    )


def _occupancy(
    compilation: Compilation, registers: int | None, shared_bytes: int | None, warps: int | None
) -> Occupancy:
    own_warps = int(compilation.options["num_warps"])
    return occupancy(
        compilation.resources,
        compilation.target,
        own_warps if warps is None else warps,
        registers=registers,
        shared_bytes=shared_bytes,
    )


def _open_module(compilation: Compilation, name: str) -> ModuleOp:
    # xDSL takes a while to import, and most compilations need none of it.
    from kernellab.compiler.modules import open_module

    return open_module(compilation, name)


def _write_record(
    compilation: Compilation, path: str | os.PathLike[str]
) -> os.PathLike[str]:
    from kernellab.compiler.archive import save

    return save(compilation, path)


def _make_analyst(kernel: Any, call: BoundCall, target: Target) -> Analyst:
    from kernellab.compiler.analyst import CompilerAnalyst
    from kernellab.triton_analyses import diagnose

    return CompilerAnalyst(
        functools.partial(diagnose, kernel, call.specialization, target, call.options)
    )


def _compile_and_record(
    kernel: Any, call: BoundCall, target: Target, record: str, ttgir_lines: bool
) -> tuple[triton_api.CompiledKernel, tuple[PassRun, ...]]:
    """Compile, watched or not; a kernel that does not compile keeps its record up to the failing pass."""
    asked = (kernel, call.specialization, target, call.options)
    if record == "stages":
        return triton_api.compile_kernel(*asked, ttgir_lines=ttgir_lines), ()
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
        if found := triton_api.position_in_kernel(kernel, file, line, column - 1):
            return found
    return triton_api.definition_of(kernel)


def _stages(kernel: Any, compiled: triton_api.CompiledKernel) -> Stages:
    """The kernel's source, the compiler's stages, and SASS after a cubin."""
    stages: dict[str, Stage | Callable[[], Stage]] = {
        "source": Stage("source", "python", "".join(kernel.raw_src))
    }
    for name, content in compiled.stages.items():
        stages[name] = Stage(name, STAGE_LANGUAGES.get(name, "text"), content)
    cubin = compiled.stages.get("cubin")
    if isinstance(cubin, bytes):
        stages["sass"] = functools.partial(_sass_stage, cubin)
    return Stages(stages)


def _sass_stage(cubin: bytes) -> Stage:
    return Stage("sass", "sass", disassemble(cubin))


def resource_reader(compiled: triton_api.CompiledKernel) -> Callable[[], Resources]:
    """Reads the resources of what Triton compiled: from the cubin, or from AMD's assembly."""
    shared = int(compiled.metadata["shared"])
    cubin = compiled.stages.get("cubin")
    if isinstance(cubin, bytes):
        columns = int(compiled.metadata.get("tmem_size") or 0)
        return functools.partial(
            resources.read_nvidia, cubin, str(compiled.metadata["name"]), shared, columns
        )
    return functools.partial(resources.read_amd, str(compiled.stages["amdgcn"]), shared)


_MOST_THREADS = 1024
"""Threads in one program, on every GPU here. CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"; HIP's device property maxThreadsPerBlock."""


def _check_launchable(kernel: Any, compiled: triton_api.CompiledKernel, target: Target) -> None:
    """Raise for a kernel that no launch could ever start; Triton itself finds out at the launch."""
    shared = int(compiled.metadata["shared"])
    threads = int(compiled.metadata["num_warps"]) * triton_api.gpu_target(target).warp_size
    limits = [
        (shared, shared_limit(target), "bytes of shared memory", "shared memory"),
        (threads, _MOST_THREADS, "threads", "threads"),
    ]
    for needed, limit, what, resource in limits:
        if limit is not None and needed > limit:
            words = triton_api.OutOfResources(needed, limit, resource)
            raise CompileError(
                f"{kernel.__name__!r} needs {needed:,} {what} per program, and {target} has {limit:,}. "
                f"At a launch Triton says: {words}",
                position=triton_api.definition_of(kernel),
            ) from words


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
