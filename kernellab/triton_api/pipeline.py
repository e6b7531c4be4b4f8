"""Triton's pipeline run stage by stage and pass by pass, with someone watching: the second file of private names.

A backend's stage functions build their pass managers from a few names of their module: `ir`, `passes`, `llvm`, and `nvidia` or
`amd`. While a watched compilation runs, stand-ins take the place of these names. They remember the passes that a stage adds,
and run each in a pass manager of its own, so that the watcher sees the module after each one, and may leave some out. In
every other thread, and once the compilation is over, the stand-ins behave as what they stand in for.

The stages are run one after another as `triton.compile` runs them, without its cache: a cache hit runs no pass.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from triton import __version__
from triton._C import libtriton
from triton.backends.compiler import Language
from triton.compiler.compiler import parse

from kernellab import triton_api
from kernellab.errors import CompileError
from kernellab.records import Specialization, Target
from kernellab.triton_api import IrText

FRONT_END_STAGE = "source"
"""The stage of the module that the front end makes, before any pass."""


@dataclass(frozen=True)
class PassCall:
    """One pass that a stage adds to its pipeline, or one of LLVM's own steps."""

    stage: str
    name: str
    """As in Triton's `add_*`: "coalesce"."""
    occurrence: int
    """The how manieth of that name in that stage, from 1, those left out included."""
    arguments: tuple[Any, ...] = ()
    adder: str = ""
    """Where Triton's bindings have the function that adds it: "passes.ttgpuir.add_coalesce". Both backends have passes of the
    same name as others'."""

    @property
    def label(self) -> str:
        """ "ttgir.canonicalizer#2"; the first of a name goes without a number."""
        number = f"#{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.stage}.{self.name}{number}"


FRONT_END = PassCall(FRONT_END_STAGE, "front_end", 1)


class Watcher(Protocol):
    """Sees a compilation go by. What it raises ends the compilation."""

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        """There is a module, before any pass: the front end has made it, or an IR text was read."""

    def wants(self, call: PassCall) -> bool:
        """Whether this pass is to run."""

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        """A pass ran on the module of MLIR."""

    def step_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        """A step of LLVM ran, on LLVM's own module."""

    def relocated(self, module: Any, folder: str) -> None:
        """Outside of any pass, the module's ops were given new locations, in a file in that passing folder."""

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        """A stage is finished; `content` is its text, or the bytes of the binary."""


# ---------------------------------------------------------------------------------------------------------------------
# The stand-ins
# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class _Session:
    """One watched compilation: what is being made, and who watches."""

    watcher: Watcher
    replacements: Mapping[str, Sequence[PassCall]] = field(default_factory=dict)
    """Stage -> the passes to run there instead of its own."""
    stage: str = FRONT_END_STAGE
    running: PassCall | None = None
    """The pass or step that runs now, or that failed."""
    listing: bool = False
    """Only say which passes a stage would run."""
    mlir_only: bool = False
    """End where LLVM's own work begins."""
    listed: list[PassCall] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def running_label(self) -> str | None:
        """The label of what runs now, or failed."""
        return self.running.label if self.running is not None else None

    def call(self, name: str, arguments: tuple[Any, ...], adder: str = "") -> PassCall:
        """The next call of that name in this stage."""
        self.counts[self.stage, name] += 1
        return PassCall(self.stage, name, self.counts[self.stage, name], arguments, adder)


class _CurrentSession(threading.local):
    session: _Session | None = None


_current = _CurrentSession()


class _WatchedPassManager(libtriton.ir.pass_manager):  # type: ignore[misc]
    """A pass manager that keeps what is added to it, and runs it pass by pass.

    It is a real pass manager too: what someone adds who does not go through the stand-ins (Proton's instrumentation does not)
    lands in it directly, and runs at its place, together with everything added after it, as one.
    """

    def __init__(self, context: Any, session: _Session) -> None:
        super().__init__(context)
        self._context = context
        self._session = session
        self._added: list[tuple[PassCall, Callable[[Any], None]]] = []
        self._debugging = False
        self._empty_pipeline = self.get_pipeline_str()

    def enable_debug(self) -> bool:
        self._debugging = True
        return bool(super().enable_debug())

    def add(self, path: str, adder: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:  # fmt: skip
        """Remember a pass; `adder`, which stands at `path`, adds it to a pass manager."""
        name = pass_name(path.rpartition(".")[2])
        call = self._session.call(name, (*arguments, *keywords.values()), path)
        if self._has_foreign_passes():
            adder(self, *arguments, **keywords)
        else:
            self._added.append((call, lambda manager: adder(manager, *arguments, **keywords)))

    def _has_foreign_passes(self) -> bool:
        return bool(self.get_pipeline_str() != self._empty_pipeline)

    def run(self, module: Any, tag: str = "") -> None:
        session = self._session
        if session.listing:
            session.listed += [call for call, _ in self._added]
            return
        for call, add_to in self._planned():
            if session.watcher.wants(call):
                self._run_one(call, add_to, module, tag)
        if self._has_foreign_passes():
            session.running = session.call("passes_of_a_plugin", (self.get_pipeline_str(),))
            started = time.perf_counter()
            super().run(module, tag)
            seconds = time.perf_counter() - started
            session.watcher.pass_ran(session.running, seconds, module)
        session.running = None

    def _planned(self) -> Iterator[tuple[PassCall, Callable[[Any], None]]]:
        """The stage's own passes, or once those that replace them."""
        stage = self._session.stage
        if stage not in self._session.replacements:
            yield from self._added
            return
        if stage in self._session.replaced:
            return
        self._session.replaced.add(stage)
        for call in self._session.replacements[stage]:
            yield call, functools.partial(_add, call)

    def _run_one(
        self, call: PassCall, add_to: Callable[[Any], None], module: Any, tag: str
    ) -> None:
        self._session.running = call
        manager = libtriton.ir.pass_manager(self._context)
        if self._debugging:
            manager.enable_debug()
        add_to(manager)
        started = time.perf_counter()
        manager.run(module, f"{tag}.{call.name}")
        self._session.watcher.pass_ran(call, time.perf_counter() - started, module)


def _add(call: PassCall, manager: Any) -> None:
    adder: Any = libtriton
    for name in call.adder.split("."):
        adder = getattr(adder, name)
    adder(manager, *call.arguments)


class _Namespace:
    """Stands in for a module of Triton's bindings: `passes`, `passes.ttir`, `nvidia`, ..."""

    def __init__(self, real: Any, path: str) -> None:
        self._real = real
        self._path = path

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        path = f"{self._path}.{name}"
        if isinstance(value, ModuleType):
            value = _Namespace(value, path)
        elif callable(value) and not isinstance(value, type):
            value = _passing_on(path, value)
        setattr(self, name, value)
        return value


def _passing_on(path: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, except that a pass added to a watched pass manager is kept there."""

    @functools.wraps(real)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if arguments and isinstance(arguments[0], _WatchedPassManager):
            return arguments[0].add(path, real, arguments[1:], keywords)
        return real(*arguments, **keywords)

    return call


def pass_name(adder: str) -> str:
    """ "add_coalesce" is the pass "coalesce"; a few adders have no such prefix."""
    return adder.removeprefix("add_")


class _Ir:
    """Stands in for `libtriton.ir`."""

    def __getattr__(self, name: str) -> Any:
        if name == "pass_manager":
            return _make_pass_manager
        return getattr(libtriton.ir, name)


def _make_pass_manager(context: Any) -> Any:
    session = _current.session
    if session is None:
        return libtriton.ir.pass_manager(context)
    return _WatchedPassManager(context, session)


_LLVM_STEPS = frozenset({"to_module", "link_extern_libs", "optimize_module"})
"""What the backends do to a module of LLVM's, in the order in which they do it."""


class _LlvmReached(Exception):
    """Ends a stage of which only MLIR's part is wanted."""


class _Llvm:
    """Stands in for `libtriton.llvm`: its steps are watched, and none is taken where only MLIR's passes are wanted."""

    def __getattr__(self, name: str) -> Any:
        real = getattr(libtriton.llvm, name)
        session = _current.session
        if session is not None and (session.listing or session.mlir_only):
            raise _LlvmReached
        if session is None or name not in _LLVM_STEPS:
            return real
        return functools.partial(_watched_step, session, name, real)


def _watched_step(
    session: _Session, name: str, real: Callable[..., Any], *arguments: Any, **keywords: Any
) -> Any:
    session.running = session.call(name, ())
    started = time.perf_counter()
    result = real(*arguments, **keywords)
    seconds = time.perf_counter() - started
    module = result if name == "to_module" else arguments[0]
    session.watcher.step_ran(session.running, seconds, module)
    session.running = None
    return result


_STOOD_IN = ("ir", "passes", "llvm", "nvidia", "amd")
_installing = threading.Lock()
_installed: Counter[str] = Counter()
_originals: dict[str, dict[str, Any]] = {}


@contextmanager
def _standing_in(backend: Any, session: _Session) -> Iterator[None]:
    """Put the stand-ins into the backend's module, for this thread's compilation to see."""
    module = sys.modules[type(backend).__module__]
    before = _current.session
    _install(module)
    _current.session = session
    try:
        yield
    finally:
        _current.session = before
        _uninstall(module)


def _install(module: ModuleType) -> None:
    with _installing:
        if _installed[module.__name__] == 0:
            names = [name for name in _STOOD_IN if hasattr(module, name)]
            originals = _originals[module.__name__] = {name: getattr(module, name) for name in names}  # fmt: skip
            for name, original in originals.items():
                setattr(module, name, _stand_in(name, original))
        _installed[module.__name__] += 1


def _uninstall(module: ModuleType) -> None:
    with _installing:
        _installed[module.__name__] -= 1
        if _installed[module.__name__] == 0:
            for name, original in _originals.pop(module.__name__).items():
                setattr(module, name, original)


def _stand_in(name: str, original: Any) -> Any:
    if name == "ir":
        return _Ir()
    return _Llvm() if name == "llvm" else _Namespace(original, name)


# ---------------------------------------------------------------------------------------------------------------------
# What there is to run
# ---------------------------------------------------------------------------------------------------------------------


@functools.cache
def pass_adders(backend: str) -> Mapping[str, str]:
    """Every pass that this Triton's bindings offer for a backend, "cuda" or "hip": its name -> where the function is that adds it."""
    found: dict[str, str] = {}
    waiting = [("amd.passes" if backend == "hip" else "nvidia.passes"), "passes"]
    while waiting:
        path = waiting.pop(0)
        namespace = functools.reduce(getattr, path.split("."), libtriton)
        for name in dir(namespace):
            if isinstance(getattr(namespace, name), ModuleType):
                waiting.append(f"{path}.{name}")
            elif name.startswith("add_"):
                found.setdefault(pass_name(name), f"{path}.{name}")
    return found


def list_passes(target: Target, options: Mapping[str, Any], gluon: bool = False) -> list[PassCall]:
    """The passes that each stage would run for a target, in order, without running any.

    Raises:
        OptionError: an option value that the target's backend refuses.
    """
    triton_api.check_options(options, target)
    backend = triton_api.backend_for(target)
    parsed = backend.parse_options(dict(options))
    stages = _stages_of(backend, parsed, gluon)
    session = _Session(watcher=IdleWatcher(), listing=True)
    _run_mlir_stages(backend, stages, parsed, session, lambda _: _smallest_module(backend), None)
    return session.listed


def run_up_to_llvm(backend: Any, parsed: Any, gluon: bool, module: Any) -> None:
    """Run every stage's passes of MLIR on a module of the front end's, and nothing of LLVM's, whose result nobody wants.

    Args:
        backend, parsed: Triton's backend, and the options that it parsed.
        gluon: whether the kernel is one of Gluon's.
        module: it is changed.
    """
    session = _Session(watcher=IdleWatcher(), mlir_only=True)
    stages = _stages_of(backend, parsed, gluon)
    _run_mlir_stages(backend, stages, parsed, session, lambda before: before, module)


def _run_mlir_stages(
    backend: Any,
    stages: Mapping[str, Callable[[Any, Any], Any]],
    parsed: Any,
    session: _Session,
    module_for: Callable[[Any], Any],
    module: Any,
) -> None:
    """Run the stages as far as they are MLIR's, each on `module_for` what the one before made."""
    metadata = {**parsed.__dict__}
    with _standing_in(backend, session):
        for name, make in stages.items():
            session.stage = name
            if name not in _MLIR_STAGES:
                return
            try:
                module = make(module_for(module), metadata)
            except _LlvmReached:
                return


def stage_names(target: Target, gluon: bool = False) -> list[str]:
    """The names of a target's stages, in order."""
    backend = triton_api.backend_for(target)
    return list(_stages_of(backend, backend.parse_options({}), gluon))


_MLIR_STAGES = ("ttir", "glir", "ttgir", "llir")
"""The stages that run passes of MLIR, in the order of the pipeline."""


class IdleWatcher:
    """Watches without looking, and lets every pass run: a base for watchers that look at little."""

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        del call, seconds, module

    def wants(self, call: PassCall) -> bool:
        del call
        return True

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        del call, seconds, module

    def step_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        del call, seconds, module

    def relocated(self, module: Any, folder: str) -> None:
        del module, folder

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        del name, content, seconds


def _stages_of(backend: Any, parsed: Any, gluon: bool) -> dict[str, Callable[[Any, Any], Any]]:
    stages: dict[str, Callable[[Any, Any], Any]] = {}
    backend.add_stages(stages, parsed, Language.GLUON if gluon else Language.TRITON)
    return stages


def _new_context(backend: Any) -> Any:
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    backend.load_dialects(context)
    return context


_SMALLEST_KERNEL = (
    "module { tt.func public @nothing() attributes {noinline = false} { tt.return } }"
)


def _smallest_module(backend: Any) -> Any:
    return _read(IrText(_SMALLEST_KERNEL, "ttir"), backend)


# ---------------------------------------------------------------------------------------------------------------------
# Running it
# ---------------------------------------------------------------------------------------------------------------------


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
    asked = triton_api.options_of_launch(kernel, options)
    triton_api.check_options(asked, target)
    backend = triton_api.backend_for(target)
    parsed = backend.parse_options(asked)
    session = _Session(watcher)
    with (
        triton_api.translated_errors(kernel, target, session.running_label),
        _standing_in(backend, session),
    ):
        started = time.perf_counter()
        module = _front_end(kernel, specialization, target, parsed)
        watcher.module_made(FRONT_END, time.perf_counter() - started, module)
        stages = _stages_of(backend, parsed, bool(kernel.is_gluon()))
        if ttgir_lines:
            stages["llir"] = triton_api.after_location_snapshot(
                stages["llir"], kernel.__name__, watcher.relocated
            )
        return _run_stages(stages, module, target, parsed, session)


def _front_end(kernel: Any, specialization: Specialization, target: Target, parsed: Any) -> Any:
    """The module that Triton's front end makes of a kernel, before any pass."""
    backend = triton_api.backend_for(target)
    source = triton_api.make_source(kernel, specialization)
    source.hash()  # Finds globals that a kernel must not read, as it does for Triton's cache.
    return source.make_ir(
        triton_api.gpu_target(target),
        parsed,
        backend.get_codegen_implementation(parsed),
        backend.get_module_map(),
        _new_context(backend),
    )


def front_end_text(
    kernel: Any, specialization: Specialization, target: Target, options: Mapping[str, Any]
) -> IrText:
    """The text of the front end's module, for `compile_text` to go on from.

    Raises:
        CompileError, OptionError: as for `compile_watched`.
    """
    asked = triton_api.options_of_launch(kernel, options)
    triton_api.check_options(asked, target)
    parsed = triton_api.backend_for(target).parse_options(asked)
    with triton_api.translated_errors(kernel, target):
        text = str(_front_end(kernel, specialization, target, parsed))
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
        watcher: may leave out passes, and raise `triton_api.PipelineStopped`: what was made until then is returned.
        replacements: stage -> the passes to run in it instead of its own.

    Raises:
        CompileError: the compiler refused it; the position is in the text (file `given.file`), or in the kernel's file where
            the text's own locations lead there.
        OptionError: an option value that the target's backend refuses.
    """
    triton_api.check_options(options, target)
    backend = triton_api.backend_for(target)
    session = _Session(watcher, replacements)
    with (
        triton_api.translated_text_errors(given, target, session.running_label),
        _standing_in(backend, session),
    ):
        started = time.perf_counter()
        start = _read(given, backend)
        parsed = backend.parse_options({**dict(options), **_options_in(given, start)})
        if not isinstance(start, str):
            watcher.module_made(_start_of(given), time.perf_counter() - started, start)
        stages = _stages_of(backend, parsed, given.gluon)
        if given.language != FRONT_END_STAGE:
            names = list(stages)
            if given.language not in names:
                raise CompileError(
                    f"A {given.language!r} text cannot be compiled for {target}: its stages are {', '.join(names)}."
                )
            stages = {name: stages[name] for name in names[names.index(given.language) + 1 :]}
        return _run_stages(stages, start, target, parsed, session, _facts(given))


def _read(given: IrText, backend: Any) -> Any:
    """The module of an MLIR text; any other text as it is."""
    if given.language not in (FRONT_END_STAGE, *_MLIR_LANGUAGES):
        return given.text
    context = _new_context(backend)
    with tempfile.TemporaryDirectory(prefix="kernellab-") as folder:
        file = Path(folder, given.file_name)
        file.write_text(given.text)
        module = libtriton.ir.parse_mlir_module(str(file), context)
    module.context = context
    return module


_MLIR_LANGUAGES = ("ttir", "glir", "ttgir")


def _start_of(given: IrText) -> PassCall:
    """The first entry of the record: a kernel's own module, or a text that somebody gave."""
    if given.language == FRONT_END_STAGE:
        return FRONT_END
    return PassCall(given.language, "given_text", 1)


def _options_in(given: IrText, module: Any) -> dict[str, Any]:
    """The options that a TTGIR module was made with, which its own attributes tell."""
    if given.language != "ttgir":
        return {}
    found = {"num_warps": "ttg.num-warps", "num_ctas": "ttg.num-ctas"}
    values = {option: module.get_int_attr(name) for option, name in found.items()}
    return {option: value for option, value in values.items() if value is not None}


_ENTRY = {
    "ptx": re.compile(r"^\s*\.(?:visible|extern)\s+\.entry\s+([\w$]+)", re.M),
    "amdgcn": re.compile(r"^\s*\.amdhsa_kernel\s+([\w$]+)", re.M),
}


def _facts(given: IrText) -> dict[str, Any]:
    """What earlier stages would have found out: of a later text only the entry's name is known, and no shared memory."""
    facts: dict[str, Any] = {}
    if given.language not in (FRONT_END_STAGE, *_MLIR_LANGUAGES):
        facts["shared"] = 0
    if given.language in _ENTRY and (entry := _ENTRY[given.language].search(given.text)):
        facts["name"] = entry[1]
    return facts


def _run_stages(
    stages: Mapping[str, Callable[[Any, Any], Any]],
    start: Any,
    target: Target,
    parsed: Any,
    session: _Session,
    facts: Mapping[str, Any] | None = None,
) -> triton_api.CompiledKernel:
    """Each stage on what the one before it made, as `triton.compile` runs them, until the watcher has seen enough."""
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
    return triton_api.CompiledKernel(stages=made, metadata=_plain(metadata))


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
