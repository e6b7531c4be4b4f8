"""Triton's pipeline, driven: `kernellab.compile`, with edits too, and the cache of its results."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from kernellab import errors, triton_api
from kernellab.common import processes
from kernellab.common.arguments import (
    check_duration,
    check_mapping,
    is_one_of,
    parameters_first,
    plain_scalar,
)
from kernellab.common.progress import ProgressBar
from kernellab.common.saved_files import BadFile, regular_bytes
from kernellab.common.system import saved_path, why_unreadable
from kernellab.common.text import remember_source, shown
from kernellab.compiler import passes
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.compilations import Compilation, compilation_of, compilation_of_text
from kernellab.compiler.kernels import InductorKernel, assume, parameter_names, unwrap_kernel
from kernellab.compiler.passes import PassRecorder
from kernellab.compiler.registered_passes import compile_with, registered_for
from kernellab.compiler.source_map import module_frames
from kernellab.compiler.targets import DEFAULT_TARGET, local_target, parse_targets
from kernellab.records import PassRun, Target
from kernellab.triton_api import IrText
from kernellab.triton_api import pipeline as triton_pipeline
from kernellab.triton_api.kernel_contents import content_of
from kernellab.triton_api.pipeline import list_passes


@dataclass(frozen=True)
class Edits:
    """The changes to the pipeline, as the caller gave them."""

    skip: str | Sequence[str]
    stop_after: str | None
    pipeline: Sequence[passes.Item] | None
    seconds: float
    """How long the compilation may take."""

    @property
    def any(self) -> bool:
        """Whether there are any; otherwise the target's own pipeline runs, in this process."""
        return not _is_empty(self.skip) or self.stop_after is not None or self.pipeline is not None

    def plan(self, target: Target, options: Mapping[str, Any], gluon: bool) -> passes.Plan:
        """Match these options with the target's passes."""
        listed = list_passes(target, options, gluon)
        stages = triton_api.stage_names(target, gluon)
        return passes.make_plan(
            listed, stages, self.skip, self.stop_after, self.pipeline, target.backend
        )


def _is_empty(skip: Any) -> bool:
    """Whether no pass at all is named; wrong names are refused where the passes are known."""
    return isinstance(skip, str | list | tuple | set | frozenset) and not skip


def compile_edited(kernel: Any, call: BoundCall, target: Target, edits: Edits) -> Compilation:
    """A kernel through an edited pipeline: the front end here, all passes in the worker process.

    Raises:
        CompileError: the compiler refused the kernel, or died; the position is in its file.
        OptionError: an edit, or an option's value, that does not fit the target.
        WorkerError: it took longer than `edits.seconds`.
    """
    options, is_gluon = triton_api.options_of_launch(kernel, call.options), bool(kernel.is_gluon())
    plan = edits.plan(target, options, is_gluon)
    given = triton_pipeline.front_end_text(kernel, call.specialization, target, call.options)
    listed = list_passes(target, options, is_gluon)
    registered = registered_for(kernel)
    try:
        outcome = compile_with(registered, given, target, options, plan, listed, edits.seconds)
    except errors.CompileError as error:
        if error.position is not None:
            place = error.position
            error.position = triton_api.native_position(
                kernel, place.file, place.line, place.column
            )
        raise
    compiled = triton_api.CompiledKernel(outcome.stages, outcome.metadata)
    return compilation_of(kernel, call, target, compiled, outcome.passes)


def given_text(given: str | os.PathLike[str], language: str | None) -> IrText:
    """An IR text, or the file that holds one.

    Raises:
        ArgumentError: there is no such file.
        OptionError: there is no such language, or the text does not show its language.
    """
    text, file, suffix = str(given), "", ""
    if isinstance(given, os.PathLike) or "\n" not in given:
        path = saved_path(given, errors.ArgumentError)
        try:
            text = regular_bytes(path).decode()
        except (OSError, BadFile) as error:
            raise errors.ArgumentError(
                why_unreadable(path, error)
                if isinstance(error, OSError)
                else f"{str(given)!r} {error}.",
                advice="Pass a kernel, the path of an existing IR file, or the IR itself as a "
                "string (TTIR, TTGIR, LLVM IR, PTX or AMDGCN).",
            ) from error
        except UnicodeDecodeError as error:
            raise errors.ArgumentError(
                f"{str(given)!r} is not a text file: it is binary.",
                advice="Pass a file with TTIR, TTGIR, LLVM IR, PTX or AMDGCN.",
            ) from error
        file, suffix = str(path), path.suffix
    if language is None:
        language = passes.guess_language(text, suffix)
    elif not is_one_of(language, passes.LANGUAGES):
        raise errors.OptionError(
            f"language must name an IR that can be compiled, got {shown(language)}.",
            advice=errors.suggestion(language, passes.LANGUAGES, "Languages:"),
        )
    return IrText(text, language, file=file or f"<{language} text>")


def compile_given(
    given: IrText, target: Target, options: Mapping[str, Any], edits: Edits
) -> Compilation:
    """An IR text, compiled on to the end in the worker process.

    Raises:
        CompileError: the compiler refused the text, or died; the position is in it if known.
        OptionError: an edit, or an option, that does not fit the target.
        WorkerError: it took longer than `edits.seconds`.
    """
    known = triton_api.option_names(target)
    for name in options:
        if name not in known:
            raise errors.OptionError(
                f"{target} has no option {name!r}.",
                advice=errors.suggestion(name, known, "Options:"),
            )
    options = {name: plain_scalar(value) for name, value in options.items()}
    triton_api.check_options(options, target)
    plan = edits.plan(target, options, given.gluon)
    try:
        outcome = passes.compile_in_worker(given, target, options, plan, edits.seconds)
    except errors.CompileError:
        remember_source(given.file, given.text)  # for the error's excerpt
        raise
    compiled = triton_api.CompiledKernel(outcome.stages, outcome.metadata)
    return compilation_of_text(given, target, compiled, outcome.passes)


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
    pipeline: Sequence[passes.Item] | None = None,
    language: str | None = None,
    seconds: float = processes.SECONDS,
) -> Compilation | dict[str, Compilation]:
    """Compile a kernel through Triton's whole pipeline, on any machine, with or without a GPU.

    The name of a pass is "stage.name#k" for its k-th run in that stage ("ttgir.canonicalizer#2"),
    or "stage.name" or "name" for all its runs; `compilation.passes` lists the labels. A compilation
    with `skip`, `stop_after` or `pipeline`, and one of an IR text, runs in a separate process, so
    that a crash of the compiler becomes an error here. Triton's cache is not used for it.

    Args:
        kernel: a Triton or Gluon kernel; or an IR text (TTIR, TTGIR, LLVM IR, PTX, AMD assembly) or
            the path of one, which is compiled from that stage on. Of an autotuned kernel, the first
            config is used, and heuristics are computed from the arguments; what is given here has
            priority. A kernel that Inductor generated knows its types, and its target if `target`
            is None.
        *args: the kernel's arguments: tensors, NumPy arrays, numbers, or type strings
            ("*fp16:16", "i32").
        target: "sm_90", "gfx942", ...; None means this machine's GPU, else sm_90. A list, or one
            string with commas, compiles for each target and returns a dict by target name.
        record: "passes" records every pass; "stages" records every stage only, which is faster and
            may use Triton's cache.
        options: backend options (num_warps, num_stages, maxnreg, ...), including those whose name
            is also a parameter of the kernel.
        constants: values of tl.constexpr parameters, including those whose name is also a parameter
            of this function.
        skip: passes to leave out.
        stop_after: a pass (its first run) or a stage to stop after; `stages` has what was made
            until then.
        pipeline: the passes to run, in order, in every stage that it names; other stages do not
            change. A bare name belongs to the stage of the pass before it if that stage has it. A
            pass keeps the arguments that the target gives it; (name, argument, ...) replaces them.
        language: the language of an IR text, "ttir", "ttgir", "llir", "ptx" or "amdgcn", if neither
            the text nor its path shows it.
        seconds: the time limit of a compilation in a separate process.
        **keywords: kernel parameters by name; other names are backend options.

    Returns:
        The Compilation, or a dict of Compilations by target name.
        SASS is disassembled, and resources are read, when first requested.

    Raises:
        TargetError, OptionError, ArgumentError: a target, option or argument does not exist or does
            not fit.
        CompileError: the compiler refused the kernel; the error points at the kernel's line, or at
            the line of the text. Its `passes` hold the record up to the failing pass.
        WorkerError: the separate process took too long.
    """
    given: Any = record  # whatever somebody wrote
    if not isinstance(given, str) or given not in _RECORDINGS:
        raise errors.OptionError(
            f'record must be "passes" or "stages", got {shown(record)}.',
            advice=(
                f'{errors.nearest(record, _RECORDINGS)} "passes" keeps what every pass did, '
                '"stages" what every stage made.'
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
            raise errors.ArgumentError(
                "An IR text takes no arguments: they are compiled in already.",
                advice="Remove the arguments.",
            )
        chosen = {**keywords, **(options or {})}
        compilations = [compile_given(text, parsed, chosen, edits) for parsed in targets]
    else:
        if language is not None:
            raise errors.OptionError(
                f"language={shown(language)} applies to an IR text, but this is a kernel.",
                advice="Remove language=.",
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
    """Whether there may be several targets: a list, even of one, or a text with a comma."""
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
        call, target: what it is compiled for.
        record: as for `compile`.
        ttgir_lines: let later locations name TTGIR's lines (exact source map); None: with passes.
        for_launch: with stages and no `ttgir_lines`, leave it in Triton's cache for launches.

    Raises:
        CompileError: the compiler refused it, or it exceeds the target's memory or threads.
    """
    if registered_for(kernel):
        return compile_edited(kernel, call, target, Edits((), None, None, processes.SECONDS))
    if ttgir_lines is None:
        ttgir_lines = record == "passes"
    compiled, passes = _compile_and_record(kernel, call, target, record, ttgir_lines, for_launch)
    return compilation_of(kernel, call, target, compiled, passes)


def _compile_and_record(
    kernel: Any, call: BoundCall, target: Target, record: str, ttgir_lines: bool, for_launch: bool
) -> tuple[triton_api.CompiledKernel, tuple[PassRun, ...]]:
    """Compile, watched or not; a failed kernel keeps its record up to the failing pass."""
    arguments = (kernel, call.specialization, target, call.options)
    if record == "stages":
        compiled = triton_api.compile_kernel(
            *arguments, ttgir_lines=ttgir_lines, for_launch=for_launch
        )
        return compiled, ()
    recorder = PassRecorder()
    try:
        compiled = triton_pipeline.compile_watched(*arguments, recorder, ttgir_lines=ttgir_lines)
    except errors.CompileError as error:
        error.passes = tuple(recorder.passes)
        error.position = _kernel_position(kernel, error.position, recorder.stage_texts)
        raise
    return compiled, tuple(recorder.passes)


def _kernel_position(
    kernel: Any, position: errors.SourcePosition | None, texts: Mapping[str, str]
) -> errors.SourcePosition | None:
    """The kernel's line for a position that may be in the TTGIR text."""
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
    pipeline: Sequence[passes.Item] | None = None,
    stop_after: str = "ttgir",
) -> tuple[PassRun, ...]:
    """Return the effect of each pass up to a stage, front end first; `skip` and `pipeline` are as
    in `compile`.

    Raises
    CompileError, OptionError, WorkerError: as `compile`.
    """
    edits = Edits(skip, stop_after, pipeline, processes.SECONDS)
    return compile_edited(kernel, call, target, edits).passes


# The cache: the latest compilations of a kernel, pass by pass; whatever shows one compiles it once.

_KEPT = "_kernellab_compilations"
"""Kept on the kernel itself, so that they are freed with it."""

_MOST = 8
"""The most compilations of one kernel that are kept: the latest ones."""


@dataclass(frozen=True)
class _Asked:
    """The inputs of a compilation besides the target's name."""

    made_of: Hashable
    """The kernel, and functions that it is given as constants; or the kernel's file and content."""
    specialization: Hashable
    target: Target
    options: Hashable
    compiler: str


_of_contents: WeakValueDictionary[_Asked, Compilation] = WeakValueDictionary()
"""Those still alive, by the file and source of their kernel; a cell run again makes another."""


def compiled_from(file: str) -> list[Compilation]:
    """The live compilations of kernels of a file or cell, so that a rerun cell reuses them."""
    known = list(_of_contents.items())
    return [
        compilation
        for key, compilation in known
        if isinstance(key.made_of, tuple) and key.made_of[0] == file
    ]


def compile_kept(kernel: Any, call: BoundCall, target: Target) -> Compilation:
    """The compilation of a kernel with its passes recorded: the earlier one, as long as its inputs
    have not changed.

    Args:
        call, target: what it is compiled for.

    Raises:
        CompileError: as `compile_bound`.
        KernelLabError: a global that the kernel reads has changed since it was compiled.
    """
    given = tuple(triton_api.functions_within(call.specialization.constants.values()))
    key = _Asked(
        tuple(map(triton_api.check_globals, (kernel, *given))),
        repr(call.specialization),
        target,
        repr(sorted(call.options.items())),
        f"{triton_api.compiler_key(target)} {registered_for(kernel)}",
    )
    kept: dict[_Asked, Compilation] = vars(kernel).setdefault(_KEPT, {})
    compilation = kept.pop(key, None) or _of_same_content(kernel, call, key, bool(given))
    kept[key] = compilation  # as the latest one
    while len(kept) > _MOST:
        del kept[next(iter(kept))]
    return compilation


def _of_same_content(
    kernel: Any, call: BoundCall, known_by: _Asked, has_functions: bool
) -> Compilation:
    """The compilation of another kernel of the same file, source and globals; else a new one."""
    if has_functions:  # which are constants, and may be others of one name
        return compile_bound(kernel, call, known_by.target, record="passes")
    content = content_of(kernel)
    key = replace(
        known_by, made_of=(triton_api.definition_of(kernel).file, kernel.__name__, content)
    )
    compilation = _of_contents.get(key)
    if compilation is None:
        compilation = compile_bound(kernel, call, known_by.target, record="passes")
        _of_contents[key] = compilation
    return compilation


def keeps(kernel: Any, compilation: Compilation) -> bool:
    """Whether `compile_kept` made a compilation from this very kernel."""
    kept: dict[_Asked, Compilation] = vars(kernel).get(_KEPT, {})
    return any(known is compilation for known in kept.values())
