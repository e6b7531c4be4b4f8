"""Triton's pipeline, driven and kept: `kernellab.compile`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernellab import triton_api
from kernellab.common import processes
from kernellab.common.arguments import check_duration, check_mapping, parameters_first
from kernellab.common.progress import ProgressBar
from kernellab.common.text import shown
from kernellab.compiler.compilations import compilation_of
from kernellab.compiler.passes import steering
from kernellab.compiler.passes.edited import (
    Edits,
    compile_edited,
    compile_given,
    given_text,
)
from kernellab.compiler.passes.recorder import PassRecorder
from kernellab.compiler.source_map import module_frames
from kernellab.compiler.specialization.assumed_types import assume
from kernellab.compiler.specialization.binding import BoundCall, bind
from kernellab.compiler.specialization.inductor_kernels import InductorKernel
from kernellab.compiler.specialization.unwrapping import parameter_names, unwrap_kernel
from kernellab.compiler.targets import DEFAULT_TARGET, local_target, parse_targets
from kernellab.errors import ArgumentError, CompileError, OptionError, SourcePosition, nearest
from kernellab.records import Compilation, PassRun, Target
from kernellab.triton_api import pipeline as triton_pipeline

_RECORDINGS = ("passes", "stages")


@parameters_first(parameter_names)
def compile(
    kernel: Any,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    *,
    target: str | Target | Iterable[str | Target] | None = None,
    record: str = "passes",
    options: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    skip: str | Sequence[str] = (),
    stop_after: str | None = None,
    pipeline: Sequence[steering.Item] | None = None,
    language: str | None = None,
    seconds: float = processes.SECONDS,
) -> Compilation | dict[str, Compilation]:
    """Compile a kernel through Triton's whole pipeline, on any machine, with or without a GPU.

    A pass is named "stage.name#k", its k-th run in that stage ("ttgir.canonicalizer#2"), or
    "stage.name" or "name" for all its runs; `compilation.passes` has the labels. A compilation with
    `skip`, `stop_after` or `pipeline`, and one of an IR text, runs in a separate process: what
    aborts there is an error here. Triton's cache is not used for it.

    Args:
        kernel: a Triton or Gluon kernel; or an IR text (TTIR, TTGIR, LLVM IR, PTX, AMD assembly) or
            the path of one, which is compiled on from there to the end. Of an autotuned kernel the
            first config is taken, its constants and its num_warps; heuristics are computed from the
            arguments. What is given here goes before either. A kernel that Inductor generated knows
            its types, and its target where None is said.
        *args: the kernel's arguments: tensors, NumPy arrays, numbers, or type strings
            ("*fp16:16", "i32").
        target: "sm_90", "gfx942", ...; None means this machine's GPU, else sm_90. A list, or one
            string with commas, compiles for each and gives a dict by target name.
        record: "passes" keeps what every pass did and made; "stages" what every stage made, which
            is faster and may come out of Triton's cache.
        options: backend options (num_warps, num_stages, maxnreg, ...), also those whose name is a
            kernel parameter's.
        constants: kernel parameters to compile in, also those whose name is one of
            this function's own.
        skip: passes to leave out.
        stop_after: a pass (its first run) or a stage to stop after; `stages` holds what was
            made until then.
        pipeline: the passes to run, in order, in every stage that it names; the other stages stay
            as they are. A bare name stays in the stage of the pass before it, where it runs there.
            A pass keeps the arguments that the target gives it; (name, argument, ...) gives others.
        language: of an IR text, "ttir", "ttgir", "llir", "ptx" or "amdgcn", where neither the text
            nor its path shows it.
        seconds: how long a compilation in a separate process may take.
        **keywords: kernel parameters by name; other names are backend options.

    Returns:
        The Compilation, or a dict of them by target name.
        SASS is disassembled, and resources are read, when first asked for.

    Raises:
        TargetError, OptionError, ArgumentError: what was asked for does not exist or does not fit.
        CompileError: the compiler refused the kernel; the error points at the kernel's line, or at
            the line of the text. Its `passes` hold the record up to the failing pass.
        WorkerError: the separate process took too long.
    """
    given: Any = record  # whatever somebody wrote
    if not isinstance(given, str) or given not in _RECORDINGS:
        raise OptionError(
            f"record={shown(record)} is not a way to record a compilation.",
            advice=(
                f'{nearest(record, _RECORDINGS)} "passes" keeps what every pass did, "stages" '
                "what every stage "
                "made."
            ).strip(),
        )
    check_duration("seconds", seconds, processes.SECONDS)
    if options is not None:
        check_mapping("options", options, '{"num_warps": 8}')
    if constants is not None:
        check_mapping("constants", constants, '{"BLOCK": 1024}')
    targets = [local_target() or DEFAULT_TARGET] if target is None else parse_targets(target)
    edits = Edits(skip, stop_after, pipeline, seconds)
    if isinstance(kernel, str | os.PathLike):
        text = given_text(kernel, language)
        if args or constants:
            raise ArgumentError("an IR text takes no arguments: they are compiled in already.")
        chosen = {**keywords, **(options or {})}
        compilations = [compile_given(text, parsed, chosen, edits) for parsed in targets]
    else:
        if language is not None:
            raise OptionError(
                f"language={shown(language)} applies to an IR text, but this is a kernel.",
                advice="Leave it out.",
            )
        plain, keywords = unwrap_kernel(kernel, args, keywords, constants or {})
        if isinstance(plain, InductorKernel):
            targets = [plain.target] if target is None else targets
            by_position = dict(zip(plain.arg_names, args, strict=False))
            given = {**by_position, **keywords, **(constants or {})}
            keywords = {**assume(plain, given), **keywords}
        compilations = []
        with ProgressBar(f"compile {plain.__name__}", len(targets), "targets") as work:
            for parsed in targets:
                call = bind(plain, args, keywords, parsed, options=options, constants=constants)
                if edits.any:
                    compilations.append(compile_edited(plain, call, parsed, edits))
                else:
                    compilations.append(compile_bound(plain, call, parsed, record=record))
                work.advance()
    if _names_several(target):
        return {parsed.name: made for parsed, made in zip(targets, compilations, strict=True)}
    return compilations[0]


def _names_several(target: str | Target | Iterable[str | Target] | None) -> bool:
    """Whether targets were asked for in the plural, of which there may be one:
    as a list, or with a comma.
    """
    if isinstance(target, str):
        return "," in target
    return target is not None and not isinstance(target, Target)


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
        ttgir_lines: let locations after TTGIR name its lines, which makes the source map exact;
            None means with record="passes".
        for_launch: with record="stages" and no `ttgir_lines`, leave it in Triton's cache where a
            launch on the GPU finds it.

    Raises:
        CompileError: the compiler refused the kernel, or it needs more shared memory or threads
            than the target has.
    """
    if ttgir_lines is None:
        ttgir_lines = record == "passes"
    compiled, passes = _compile_and_record(kernel, call, target, record, ttgir_lines, for_launch)
    return compilation_of(kernel, call, target, compiled, passes)


def _compile_and_record(
    kernel: Any, call: BoundCall, target: Target, record: str, ttgir_lines: bool, for_launch: bool
) -> tuple[triton_api.CompiledKernel, tuple[PassRun, ...]]:
    """Compile, watched or not; a kernel that does not compile keeps its record up
    to the failing pass.
    """
    arguments = (kernel, call.specialization, target, call.options)
    if record == "stages":
        compiled = triton_api.compile_kernel(
            *arguments, ttgir_lines=ttgir_lines, for_launch=for_launch
        )
        return compiled, ()
    recorder = PassRecorder()
    try:
        compiled = triton_pipeline.compile_watched(*arguments, recorder, ttgir_lines=ttgir_lines)
    except CompileError as error:
        error.passes = tuple(recorder.passes)
        error.position = _kernel_position(kernel, error.position, recorder.stage_texts)
        raise
    return compiled, tuple(recorder.passes)


def _kernel_position(
    kernel: Any, position: SourcePosition | None, texts: Mapping[str, str]
) -> SourcePosition | None:
    """The kernel's line of a place that may be a line of the TTGIR text,
    which locations after TTGIR name.
    """
    if position is None or not position.file.endswith(triton_api.TTGIR_FILE_SUFFIX):
        return position
    lines = module_frames(texts.get("ttgir", ""))
    chains = lines[position.line - 1] if position.line <= len(lines) else ()
    for frame in (frame for chain in chains for frame in chain):
        file, line, column = frame
        if position := triton_api.position_in_kernel(kernel, file, line, column):
            return position
    return triton_api.definition_of(kernel)


def record_passes(
    kernel: Any,
    call: BoundCall,
    target: Target,
    *,
    skip: str | Sequence[str] = (),
    pipeline: Sequence[steering.Item] | None = None,
    stop_after: str = "ttgir",
) -> tuple[PassRun, ...]:
    """What every pass up to a stage did, the front end first;
    `skip` and `pipeline` as for `compile`.

    Raises:
        CompileError, OptionError, WorkerError: as `compile`.
    """
    edits = Edits(skip, stop_after, pipeline, processes.SECONDS)
    return compile_edited(kernel, call, target, edits).passes
