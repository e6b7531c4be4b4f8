"""Pipelines with edits, and IR texts: what is compiled in the worker process,
because it may abort.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab import triton_api
from kernellab.common.arguments import is_one_of, plain_scalar
from kernellab.common.saved_files import BadFile, regular_bytes, saved_path, why_unreadable
from kernellab.common.text import remember_source, shown
from kernellab.compiler.compilations import compilation_of, compilation_of_text
from kernellab.compiler.passes import steering
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import ArgumentError, CompileError, OptionError, suggestion
from kernellab.records import Compilation, Target
from kernellab.triton_api import IrText
from kernellab.triton_api import pipeline as triton_pipeline
from kernellab.triton_api.mlir_stages import list_passes


@dataclass(frozen=True)
class Edits:
    """What the caller wants to run otherwise, as given."""

    skip: str | Sequence[str]
    stop_after: str | None
    pipeline: Sequence[steering.Item] | None
    seconds: float
    """How long the compilation may take."""

    @property
    def any(self) -> bool:
        """Whether there are any: else the target's own pipeline runs, in this process."""
        return not _is_empty(self.skip) or self.stop_after is not None or self.pipeline is not None

    def plan(self, target: Target, options: Mapping[str, Any], gluon: bool) -> steering.Plan:
        """These options against the passes that the target has."""
        listed = list_passes(target, options, gluon)
        stages = triton_api.stage_names(target, gluon)
        return steering.make_plan(
            listed, stages, self.skip, self.stop_after, self.pipeline, target.backend
        )


def _is_empty(skip: Any) -> bool:
    """Whether no pass at all is named; wrong names are refused where the passes are known."""
    return isinstance(skip, str | list | tuple | set | frozenset) and not skip


def compile_edited(kernel: Any, call: BoundCall, target: Target, edits: Edits) -> Compilation:
    """A kernel through an edited pipeline: the front end here, all passes in the worker process.

    Raises:
        CompileError: the compiler refused the kernel, or died; its position is in
            the kernel's file.
        OptionError: an edit, or an option's value, that does not fit the target.
        WorkerError: it took longer than `edits.seconds`.
    """
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
    return compilation_of(kernel, call, target, compiled, outcome.passes)


def given_text(given: str | os.PathLike[str], language: str | None) -> IrText:
    """An IR text, or the file that holds one.

    Raises:
        ArgumentError: there is no such file.
        OptionError: there is no such language, or the text does not show its language.
    """
    text, file, suffix = str(given), "", ""
    if isinstance(given, os.PathLike) or "\n" not in given:
        path = saved_path(given, ArgumentError)
        try:
            text = regular_bytes(path).decode()
        except (OSError, BadFile) as error:
            why = why_unreadable(path, error) if isinstance(error, OSError) else f"It {error}."
            raise ArgumentError(
                f"{str(given)!r} is not a kernel, an IR text, or a file with an IR text. {why}",
                advice=(
                    "Give the kernel itself, a TTIR, TTGIR, LLVM IR, PTX or AMDGCN text, or "
                    "the path of a file with such a text."
                ),
            ) from error
        except UnicodeDecodeError as error:
            raise ArgumentError(f"{str(given)!r} holds no text: it is a binary file.") from error
        file, suffix = str(path), path.suffix
    if language is None:
        language = steering.guess_language(text, suffix)
    elif not is_one_of(language, steering.LANGUAGES):
        raise OptionError(
            f"language must name an IR that can be compiled, got {shown(language)}.",
            advice=suggestion(language, steering.LANGUAGES, "There are"),
        )
    return IrText(text, language, file=file or f"<{language} text>")


def compile_given(
    given: IrText, target: Target, options: Mapping[str, Any], edits: Edits
) -> Compilation:
    """An IR text, compiled on to the end in the worker process.

    Raises:
        CompileError: the compiler refused the text, or died; its position is in the text
            where that is known.
        OptionError: an edit, or an option, that does not fit the target.
        WorkerError: it took longer than `edits.seconds`.
    """
    known = triton_api.option_names(target)
    for name in options:
        if name not in known:
            raise OptionError(
                f"{target} has no option {name!r}.", advice=suggestion(name, known, "There are")
            )
    options = {name: plain_scalar(value) for name, value in options.items()}
    triton_api.check_options(options, target)
    plan = edits.plan(target, options, given.gluon)
    try:
        outcome = steering.compile_in_worker(given, target, options, plan, edits.seconds)
    except CompileError:
        remember_source(given.file, given.text)  # for the error's excerpt
        raise
    compiled = triton_api.CompiledKernel(outcome.stages, outcome.metadata)
    return compilation_of_text(given, target, compiled, outcome.passes)
