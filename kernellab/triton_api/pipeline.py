"""Triton's pipeline run stage by stage and pass by pass, with someone watching; or as far as it is
MLIR's.

The stages are run one after another as `triton.compile` runs them, without its cache: a cache hit
runs no pass. What makes passes watchable is in `patches.py`.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from triton import __version__
from triton._C import libtriton
from triton.backends.compiler import Language
from triton.compiler.compiler import parse

from kernellab import triton_api
from kernellab.errors import CompileError
from kernellab.records import Specialization, Target
from kernellab.triton_api import IrText
from kernellab.triton_api.compilation import (
    attempt_with,
    make_source,
    module_of_kernel,
    options_of_launch,
)
from kernellab.triton_api.diagnostics import (
    translated_errors,
    translated_machine_errors,
    translated_text_errors,
)
from kernellab.triton_api.patches import (
    FRONT_END,
    FRONT_END_STAGE,
    LlvmReached,
    PassCall,
    WatchedCompilation,
    Watcher,
    patched,
)
from kernellab.triton_api.stages import (
    StageFunction,
    freed_after,
    front_end_module,
    read_module,
    stage_functions,
)
from kernellab.triton_api.targets import backend_for, check_instructions, check_options

_MLIR_STAGES = ("ttir", "glir", "ttgir", "llir")
"""The stages that run passes of MLIR, in the order of the pipeline."""


@functools.cache
def pass_adders(backend: str) -> Mapping[str, str]:
    """Every pass of Triton's bindings for a backend: its name -> the path of what adds it."""
    texts: dict[str, str] = {}
    waiting = [("amd.passes" if backend == "hip" else "nvidia.passes"), "passes"]
    while waiting:
        path = waiting.pop(0)
        namespace = functools.reduce(getattr, path.split("."), libtriton)
        for name in dir(namespace):
            if isinstance(getattr(namespace, name), ModuleType):
                waiting.append(f"{path}.{name}")
            elif name.startswith("add_"):
                texts.setdefault(name.removeprefix("add_"), f"{path}.{name}")
    return texts


def list_passes(target: Target, options: Mapping[str, Any], gluon: bool = False) -> list[PassCall]:
    """The passes that each stage would run for a target, in order, without running any.

    Raises:
        OptionError: an option value that the target's backend refuses.
        MachineError: a tool or a folder that the backend needs is not there.
    """
    check_options(options, target)
    backend = backend_for(target)
    parsed = backend.parse_options(dict(options))
    session = WatchedCompilation(watcher=Watcher(), listing=True)
    with translated_machine_errors("The compiler cannot run"), ExitStack() as made:
        stages = stage_functions(backend, parsed, gluon)

        def smallest(_: Any) -> Any:
            return made.enter_context(freed_after(read_module(_SMALLEST_KERNEL, backend)))

        _run_mlir_stages(backend, stages, parsed, session, smallest, None)
    return session.listed


_SMALLEST_KERNEL = (
    "module { tt.func public @nothing() attributes {noinline = false} { tt.return } }"
)


def run_up_to_llvm(backend: Any, parsed: Any, gluon: bool, module: Any) -> None:
    """Run the stages on a module of the front end's until it is one of LLVM's dialect:
    what only cleans up after that, and LLVM itself, has nothing to say about the kernel.

    Args:
        backend, parsed: Triton's backend, and the options that it parsed.
        gluon: whether the kernel is one of Gluon's.
        module: it is changed.
    """
    session = WatchedCompilation(watcher=_UntilLowered(), mlir_only=True)
    stages = stage_functions(backend, parsed, gluon)
    _run_mlir_stages(backend, stages, parsed, session, lambda before: before, module)


def shared_bytes(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> int:
    """The shared memory that one program of a kernel takes, as the compiler allocates it: its
    passes up to the allocation, and nothing after. Raises CompileError, OptionError: as for
    `triton_api.compile_kernel`.
    """
    with _module_of_stage("llir", kernel, specialization, target, options) as module:
        return int(module.get_int_attr("ttg.shared") or 0)


def ttgir_text(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> str:
    """The text of a kernel's TTGIR: the compiler's passes up to it, and nothing after. Raises
    CompileError, OptionError: as for `triton_api.compile_kernel`.
    """
    with _module_of_stage("ttgir", kernel, specialization, target, options) as module:
        return str(module)


def allocated(ttir: str, target: Target, options: Mapping[str, Any]) -> tuple[str, int]:
    """The TTGIR that a TTIR text becomes, up to the allocation of shared memory; and the bytes of
    shared memory that one program takes. A text that Triton did not make may abort the process.
    Raises CompileError: the compiler refused it.
    """
    given, backend = IrText(ttir, "ttir"), backend_for(target)
    with translated_text_errors(given, target, lambda: None):
        parsed = backend.parse_options(dict(options))
        with freed_after(read_module(ttir, backend, given.file_name)) as module:
            stages = stage_functions(backend, parsed, False)
            del stages["ttir"]
            _run_until_lowered("llir", backend, parsed, stages, module)
            return str(module), int(module.get_int_attr("ttg.shared") or 0)


@contextmanager
def _module_of_stage(
    last: str,
    kernel: Any,
    specialization: Specialization,
    target: Target,
    options: Mapping[str, Any],
) -> Iterator[Any]:
    """A kernel's module after the stage `last`; of "llir", before it is lowered."""
    launch_options = options_of_launch(kernel, options)
    check_options(launch_options, target)
    backend, source = backend_for(target), make_source(kernel, specialization)
    with translated_errors(kernel, target):
        parsed = backend.parse_options(launch_options)
        stages = stage_functions(backend, parsed, source.language == Language.GLUON)
        with freed_after(front_end_module(source, target, parsed)) as module:
            _run_until_lowered(last, backend, parsed, stages, module)
            yield module


def _run_until_lowered(
    last: str, backend: Any, parsed: Any, stages: Mapping[str, StageFunction], module: Any
) -> None:
    """Run stages on a module up to `last`, of "llir" up to the lowering to LLVM's dialect."""
    session = WatchedCompilation(watcher=_UntilLowered(itself=False), mlir_only=True)
    names = list(stages)
    wanted = {name: stages[name] for name in names[: names.index(last) + 1]}
    _run_mlir_stages(backend, wanted, parsed, session, lambda before: before, module)


class _UntilLowered(Watcher):
    """Runs passes up to the lowering to LLVM's dialect, and that one only if `itself`."""

    def __init__(self, itself: bool = True) -> None:
        self._is_lowered = False
        self._itself = itself

    def wants(self, call: PassCall) -> bool:
        if self._is_lowered:
            return False
        self._is_lowered = call.name == "to_llvmir"
        return self._itself or not self._is_lowered


def _run_mlir_stages(
    backend: Any,
    stages: Mapping[str, StageFunction],
    parsed: Any,
    session: WatchedCompilation,
    module_for: Callable[[Any], Any],
    module: Any,
) -> None:
    """Run the stages as far as they are MLIR's, each on `module_for` what the one before made."""
    metadata = {**parsed.__dict__}
    with patched(backend, session):
        for name, make in stages.items():
            session.stage = name
            if name not in _MLIR_STAGES:
                return
            try:
                module = make(module_for(module), metadata)
            except LlvmReached:
                return


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
    session = WatchedCompilation(watcher)
    attempt = attempt_with(specialization, target, parsed)
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
    """The text of the front end's module, for `compile_text` to go on from. Raises CompileError,
    OptionError: as for `compile_watched`.
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
            in the kernel's file if the text's own locations lead there.
        OptionError: an option value that the target's backend refuses.
    """
    triton_api.check_options(options, target)
    backend = triton_api.backend_for(target)
    session = WatchedCompilation(watcher, replacements)
    with (
        translated_text_errors(given, target, session.running_label),
        patched(backend, session),
        ExitStack() as freed,
    ):
        started = time.perf_counter()
        start = _read(given, backend)
        parsed = backend.parse_options({**dict(options), **_options_in(given, start)})
        if not isinstance(start, str):
            freed.enter_context(freed_after(start))
            is_kernels = given.language == FRONT_END_STAGE  # or somebody gave the text
            call = FRONT_END if is_kernels else PassCall(given.language, "given_text", 1)
            watcher.module_made(call, time.perf_counter() - started, start)
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


def _options_in(given: IrText, module: Any) -> dict[str, Any]:
    """Return the options that a TTGIR module was made with, from its attributes."""
    if given.language != "ttgir":
        return {}
    module_attributes = {"num_warps": "ttg.num-warps", "num_ctas": "ttg.num-ctas"}
    values = {option: module.get_int_attr(name) for option, name in module_attributes.items()}
    return {option: value for option, value in values.items() if value is not None}


_ENTRY = {
    "ptx": re.compile(r"^[ \t]*\.(?:visible|extern)\s+\.entry\s+([\w$]+)", re.M),
    "amdgcn": re.compile(r"^[ \t]*\.amdhsa_kernel\s+([\w$]+)", re.M),
}


def _facts(given: IrText) -> dict[str, Any]:
    """What earlier stages would have found: of a later text, the entry's name."""
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
    session: WatchedCompilation,
    facts: Mapping[str, Any] | None = None,
) -> triton_api.CompiledKernel:
    """Run the stages one after the other, as `triton.compile` does, until the watcher stops."""
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
    plain = json.loads(json.dumps(metadata, default=vars))  # as it comes back from Triton's cache
    return triton_api.CompiledKernel(made, plain, session.assembler_log)


def _overridden(stage: str, content: Any, metadata: Mapping[str, Any], start: Any) -> Any:
    """The stage's result, or the file that the option `ir_override` names instead."""
    path = metadata.get("ir_override")
    if path and path.endswith(f".{stage}"):
        return parse(path, stage, getattr(start, "context", None))
    return content
