"""Triton's pipeline run stage by stage and pass by pass, with someone watching.

The stages are run one after another as `triton.compile` runs them, without its cache:
a cache hit runs no pass. What makes passes watchable is in `stand_ins.py`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from triton import __version__
from triton.compiler.compiler import parse

from kernellab import triton_api
from kernellab.errors import CompileError
from kernellab.records import Specialization, Target
from kernellab.triton_api import IrText
from kernellab.triton_api.front_end import module_of_kernel
from kernellab.triton_api.instruction_sets import check_instructions
from kernellab.triton_api.patches import Session, patched
from kernellab.triton_api.stages import (
    StageFunction,
    freed_after,
    read_module,
    stage_functions,
)
from kernellab.triton_api.watching import FRONT_END, FRONT_END_STAGE, PassCall, Watcher


def compile_watched(
    kernel: Any,
    specialization: Specialization,
    target: Target,
    options: Mapping[str, Any],
    watcher: Watcher,
    *,
    ttgir_lines: bool = False,
) -> triton_api.CompiledKernel:
    """Compile a kernel as `triton_api.compile_kernel` does, pass by pass, without Triton's cache.

    Raises:
        CompileError: as for `compile_kernel`; `failed_pass` names the pass.
        OptionError: an option value that the target's backend refuses.
    """
    launch_options = triton_api.options_of_launch(kernel, options)
    triton_api.check_options(launch_options, target)
    backend = triton_api.backend_for(target)
    parsed = backend.parse_options(launch_options)
    session = Session(watcher)

    def attempt(variant: Any) -> None:
        with freed_after(module_of_kernel(variant, specialization, target, parsed)):
            pass

    with (
        triton_api.translated_errors(kernel, target, session.running_label, attempt),
        patched(backend, session),
        ExitStack() as freed,
    ):
        started = time.perf_counter()
        module = freed.enter_context(
            freed_after(module_of_kernel(kernel, specialization, target, parsed))
        )
        check_instructions(module, kernel, target)
        watcher.module_made(FRONT_END, time.perf_counter() - started, module)
        stages = stage_functions(backend, parsed, bool(kernel.is_gluon()))
        if ttgir_lines:
            stages["llir"] = triton_api.after_location_snapshot(
                stages["llir"], kernel.__name__, watcher.relocated
            )
        return _run_stages(stages, module, target, parsed, session)


def front_end_text(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> IrText:
    """The text of the front end's module, for `compile_text` to go on from.

    Raises:
        CompileError, OptionError: as for `compile_watched`.
    """
    launch_options = triton_api.options_of_launch(kernel, options)
    triton_api.check_options(launch_options, target)
    parsed = triton_api.backend_for(target).parse_options(launch_options)
    with (
        triton_api.translated_errors(kernel, target),
        freed_after(module_of_kernel(kernel, specialization, target, parsed)) as module,
    ):
        text = str(module)
    return IrText(text, FRONT_END_STAGE, bool(kernel.is_gluon()), kernel.__name__)


def compile_text(
    given: IrText,
    target: Target,
    options: Mapping[str, Any],
    watcher: Watcher,
    replacements: Mapping[str, Sequence[PassCall]],
) -> triton_api.CompiledKernel:
    """Compile on from an IR text. A bad text, and an odd order of passes, may abort the process.

    Args:
        given: the text; the first stage to run is the one after its language.
        target, options: what it is compiled for.
        watcher: may leave out passes, and raise `triton_api.PipelineStopped`: what was made until
            then is returned.
        replacements: stage -> the passes to run in it instead.

    Raises:
        CompileError: the compiler refused it; the position is in the text (file `given.file`), or
            in the kernel's file where the text's own locations lead there.
        OptionError: an option value that the target's backend refuses.
    """
    triton_api.check_options(options, target)
    backend = triton_api.backend_for(target)
    session = Session(watcher, replacements)
    with (
        triton_api.translated_text_errors(given, target, session.running_label),
        patched(backend, session),
        ExitStack() as freed,
    ):
        started = time.perf_counter()
        start = _read(given, backend)
        parsed = backend.parse_options({**dict(options), **_options_in(given, start)})
        if not isinstance(start, str):
            freed.enter_context(freed_after(start))
            watcher.module_made(_start_of(given), time.perf_counter() - started, start)
        stages = stage_functions(backend, parsed, given.gluon)
        if given.language != FRONT_END_STAGE:
            names = list(stages)
            if given.language not in names:
                raise CompileError(
                    f"A {given.language!r} text cannot be compiled for {target}: its stages are "
                    f"{', '.join(names)}."
                )
            stages = {name: stages[name] for name in names[names.index(given.language) + 1 :]}
        return _run_stages(stages, start, target, parsed, session, _facts(given))


def _read(given: IrText, backend: Any) -> Any:
    """The module of an MLIR text; any other text as it is."""
    if given.language not in (FRONT_END_STAGE, *_MLIR_LANGUAGES):
        return given.text
    return read_module(given.text, backend, given.file_name)


_MLIR_LANGUAGES = ("ttir", "glir", "ttgir")


def _start_of(given: IrText) -> PassCall:
    """The first entry of the record: a kernel's own module, or a text that somebody gave."""
    if given.language == FRONT_END_STAGE:
        return FRONT_END
    return PassCall(given.language, "given_text", 1)


def _options_in(given: IrText, module: Any) -> dict[str, Any]:
    """Return the options that a TTGIR module was made with, from its attributes."""
    if given.language != "ttgir":
        return {}
    module_attributes = {"num_warps": "ttg.num-warps", "num_ctas": "ttg.num-ctas"}
    values = {option: module.get_int_attr(name) for option, name in module_attributes.items()}
    return {option: value for option, value in values.items() if value is not None}


_ENTRY = {
    "ptx": re.compile(r"^\s*\.(?:visible|extern)\s+\.entry\s+([\w$]+)", re.M),
    "amdgcn": re.compile(r"^\s*\.amdhsa_kernel\s+([\w$]+)", re.M),
}


def _facts(given: IrText) -> dict[str, Any]:
    """What earlier stages would have found out: of a later text only the entry's name is known,
    and no shared memory.
    """
    facts: dict[str, Any] = {}
    if given.language not in (FRONT_END_STAGE, *_MLIR_LANGUAGES):
        facts["shared"] = 0
    if given.language in _ENTRY and (entry := _ENTRY[given.language].search(given.text)):
        facts["name"] = entry[1]
    return facts


def _run_stages(
    stages: Mapping[str, StageFunction],
    start: Any,
    target: Target,
    parsed: Any,
    session: Session,
    facts: Mapping[str, Any] | None = None,
) -> triton_api.CompiledKernel:
    """Each stage on what the one before it made, as `triton.compile` runs them,
    until the watcher has seen enough.
    """
    metadata: dict[str, Any] = {
        "target": triton_api.gpu_target(target),
        **parsed.__dict__,
        "triton_version": __version__,
        **(facts or {}),
    }
    made: dict[str, str | bytes] = {}
    current = start
    for name, make in stages.items():
        session.stage = name
        started = time.perf_counter()
        try:
            current = _overridden(name, make(current, metadata), metadata, start)
            seconds = time.perf_counter() - started
            made[name] = current if isinstance(current, str | bytes) else str(current)
            session.watcher.stage_made(name, made[name], seconds)
        except triton_api.PipelineStopped:
            made.setdefault(name, str(current))
            break
    return triton_api.CompiledKernel(made, _plain(metadata), session.assembler_log)


def _overridden(stage: str, content: Any, metadata: Mapping[str, Any], start: Any) -> Any:
    """What the stage made, or the file that the option `ir_override` has put in its place."""
    path = metadata.get("ir_override")
    if path and path.endswith(f".{stage}"):
        return parse(path, stage, getattr(start, "context", None))
    return content


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as it comes back from Triton's cache: through JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(metadata, default=vars))
    return plain
