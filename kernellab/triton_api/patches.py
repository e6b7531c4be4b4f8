"""What is replaced in Triton for a time: the names that a backend's stages use, so that someone
sees each pass; how kernels are made; autotuners; launches of compiled kernels.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from triton._C import libtriton
from triton.compiler import CompiledKernel
from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import AutotunerError
from triton.runtime.jit import JITFunction

from kernellab.common.patches import WhileAnyThread, all_replaced, replaced

FRONT_END_STAGE = "source"
"""The stage of the module that the front end makes, before any pass."""


@dataclass(frozen=True)
class PassCall:
    """One pass that a stage adds to its pipeline, or one of LLVM's own steps."""

    stage: str
    name: str
    """As in Triton's `add_*`: "coalesce"."""
    occurrence: int
    """Its number among the passes of that name in the stage, from 1, including those left out."""
    arguments: tuple[Any, ...] = ()
    adder: str = ""
    """Where Triton's bindings have the function that adds it: "passes.ttgpuir.add_coalesce".
    Both backends have passes of the same name as others'."""

    @property
    def label(self) -> str:
        """ "ttgir.canonicalizer#2"; the first of a name goes without a number."""
        number = f"#{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.stage}.{self.name}{number}"


FRONT_END = PassCall(FRONT_END_STAGE, "front_end", 1)


class Watcher:
    """Sees a compilation go by; what it raises ends it. Here every pass runs, unseen."""

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        """There is a module, before any pass: the front end has made it, or an IR text was read."""

    def wants(self, _call: PassCall) -> bool:
        """Whether this pass is to run."""
        return True

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        """A pass ran on the module of MLIR."""

    def step_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        """A step of LLVM ran, on LLVM's own module."""

    def relocated(self, module: Any, folder: str) -> None:
        """Between passes, the ops were given new locations, in a file in that passing folder."""

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        """A stage is finished; `content` is its text, or the bytes of the binary."""


# Patches for the names of Triton's bindings that a backend's stages use, so that someone sees
# each pass.
#
# A backend's stage functions build their pass managers from a few names of their module: `ir`,
# `passes`, `llvm`, and `nvidia` or `amd`. While a watched compilation runs, patches take the
# place of these names. They remember the passes that a stage adds, and run each in a separate
# pass manager, so that the watcher sees the module after each one, and may leave some out. In
# every other thread, and once the compilation is over, the patches behave like the originals.
# Another patch, of Python's `subprocess`, captures the assembler's output.


@dataclass
class WatchedCompilation:
    """One watched compilation: what is being made, and who watches."""

    watcher: Watcher
    replacements: Mapping[str, Sequence[PassCall]] = field(default_factory=dict)
    """Stage -> the passes to run there instead."""
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
    assembler_log: str | None = None
    """The output of ptxas, once it ran."""

    def running_label(self) -> str | None:
        """The label of what runs now, or failed."""
        return self.running.label if self.running is not None else None

    def call(self, name: str, arguments: tuple[Any, ...], adder: str = "") -> PassCall:
        """The next call of that name in this stage."""
        self.counts[self.stage, name] += 1
        return PassCall(self.stage, name, self.counts[self.stage, name], arguments, adder)


class _CurrentSession(threading.local):
    session: WatchedCompilation | None = None


_current = _CurrentSession()


class _WatchedPassManager(libtriton.ir.pass_manager):  # type: ignore[misc]
    """A pass manager that keeps what is added to it, and runs it pass by pass.

    It is a real pass manager too: what someone adds who does not go through the patches (Proton's
    instrumentation does not) lands in it directly, and runs at its place, together with everything
    added after it, as one.
    """

    def __init__(self, context: Any, session: WatchedCompilation) -> None:
        super().__init__(context)
        self._context = context
        self._session = session
        self._added: list[tuple[PassCall, Callable[[Any], None]]] = []
        self._debugging = False
        self._empty_pipeline = self.get_pipeline_str()

    def enable_debug(self) -> bool:
        self._debugging = True
        return bool(super().enable_debug())

    def add(
        self,
        path: str,
        adder: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> None:
        """Remember a pass; `adder`, which is at `path`, adds it to a pass manager."""
        name = path.rpartition(".")[2].removeprefix("add_")  # which a few adders do not have
        call = self._session.call(name, (*arguments, *keywords.values()), path)
        if self._has_plugin_passes():
            adder(self, *arguments, **keywords)
        else:
            self._added.append((call, lambda manager: adder(manager, *arguments, **keywords)))

    def _has_plugin_passes(self) -> bool:
        return bool(self.get_pipeline_str() != self._empty_pipeline)

    def run(self, module: Any, tag: str = "") -> None:
        session = self._session
        if session.listing:
            session.listed += [call for call, _ in self._added]
            return
        for call, add_to in self._planned():
            if session.watcher.wants(call):
                self._run_one(call, add_to, module, tag)
        if self._has_plugin_passes():
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
    adder: Any = functools.reduce(getattr, call.adder.split("."), libtriton)
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


class _Ir:
    """Stands in for `libtriton.ir`."""

    def __getattr__(self, name: str) -> Any:
        if name == "pass_manager" and _current.session is not None:
            return functools.partial(_WatchedPassManager, session=_current.session)
        return getattr(libtriton.ir, name)


_LLVM_STEPS = frozenset({"to_module", "link_extern_libs", "optimize_module"})
"""The steps of the backends on a module of LLVM, in their order."""


class LlvmReached(Exception):
    """Ends a stage of which only MLIR's part is wanted."""


class _Llvm:
    """Stands in for `libtriton.llvm`: its steps are watched, or not taken for MLIR alone."""

    def __getattr__(self, name: str) -> Any:
        real = getattr(libtriton.llvm, name)
        session = _current.session
        if session is not None and (session.listing or session.mlir_only):
            raise LlvmReached
        if session is None or name not in _LLVM_STEPS:
            return real
        return functools.partial(_watched_step, session, name, real)


def _watched_step(
    session: WatchedCompilation,
    name: str,
    real: Callable[..., Any],
    *arguments: Any,
    **keywords: Any,
) -> Any:
    session.running = session.call(name, ())
    started = time.perf_counter()
    result = real(*arguments, **keywords)
    seconds = time.perf_counter() - started
    module = result if name == "to_module" else arguments[0]
    session.watcher.step_ran(session.running, seconds, module)
    session.running = None
    return result


class _Subprocess:
    """Stands in for `subprocess`, to keep what ptxas -v says, which the backend drops."""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def run(self, *arguments: Any, **keywords: Any) -> Any:
        finished = subprocess.run(*arguments, **keywords)
        log = getattr(keywords.get("stderr"), "name", None)
        if _current.session is not None and isinstance(log, str):
            _current.session.assembler_log = Path(log).read_text()
        return finished


_PATCHED = ("ir", "passes", "llvm", "nvidia", "amd", "subprocess")


@contextmanager
def patched(backend: Any, session: WatchedCompilation) -> Iterator[None]:
    """Put the patches into the backend's module, for this thread's compilation to see."""
    with (
        _patches_in(sys.modules[type(backend).__module__]),
        replaced(_current, session=session),
    ):
        yield


@functools.cache
def _patches_in(module: ModuleType) -> WhileAnyThread:
    """A backend's module with patches in place of the names that it has."""

    def begin() -> AbstractContextManager[None]:
        originals = {name: getattr(module, name) for name in _PATCHED if hasattr(module, name)}
        own = {"ir": _Ir, "llvm": _Llvm, "subprocess": _Subprocess}
        patches = {
            name: own[name]() if name in own else _Namespace(original, name)
            for name, original in originals.items()
        }
        return replaced(module, **patches)

    return WhileAnyThread(begin)


def kernels_become(adopt: Callable[[Any], None], file: str) -> AbstractContextManager[None]:
    """While active, each kernel that `@triton.jit` or `@gluon.jit` makes of a function
    in `file` is handed to `adopt`.

    `adopt` may change the finished kernel's class to a subclass of it. The decorators themselves
    stay what they are, however they were imported; so does every `isinstance` check, and every
    kernel of another file.
    """
    initialize = JITFunction.__init__

    @functools.wraps(initialize)
    def initialize_and_adopt(kernel: Any, fn: Any, *args: Any, **keywords: Any) -> None:
        initialize(kernel, fn, *args, **keywords)
        code = getattr(fn, "__code__", None)
        if code is not None and code.co_filename == file:
            if type(kernel) in (JITFunction, GluonJITFunction):
                adopt(kernel)

    return replaced(JITFunction, __init__=initialize_and_adopt)


@dataclass(frozen=True)
class AutotunedLaunches:
    """Who takes autotuned launches.

    Attributes:
        launch: given Triton's own `Autotuner.run`, an autotuner and a launch's arguments: launches.
        benchmarker: gives for an autotuner what is called as `do_bench(kernel_call, quantiles)` in
            its benchmarker's place, also that of a class derived from Autotuner with another `run`;
            None keeps its benchmarker.
    """

    launch: Callable[[Callable[..., Any], Any, Sequence[Any], Mapping[str, Any]], Any]
    benchmarker: Callable[[Any], Callable[..., Any] | None]


@functools.cache
def autotuned_launches_offered(taker: AutotunedLaunches) -> WhileAnyThread:
    """While active, in any thread, each autotuned launch is given to `taker`."""

    def begin() -> AbstractContextManager[None]:
        run, do_bench = Autotuner.run, vars(Autotuner)["do_bench"]
        return replaced(
            Autotuner, run=_run_by_taker(run, taker), do_bench=_Benchmarker(do_bench, taker)
        )

    return WhileAnyThread(begin)


@functools.cache
def offer_autotuned_launches(taker: AutotunedLaunches) -> None:
    """Give each autotuned launch to `taker`, from now on.

    Triton's Autotuner gets a benchmarker from the GPU's driver before anything else,
    so it cannot launch without a GPU.
    """
    autotuned_launches_offered(taker).__enter__()


class _Benchmarker:
    """The descriptor that replaces `autotuner.do_bench` while autotuned launches are taken. What is
    kept for each autotuner stays where Triton keeps it, among the autotuner's attributes.
    """

    def __init__(self, original: Any, taker: AutotunedLaunches) -> None:
        self._original = original
        self._taker = taker

    def __get__(self, autotuner: Any, owner: type) -> Any:
        if autotuner is None:
            return self._original
        taken = self._taker.benchmarker(autotuner)
        if taken is not None:
            return taken
        kept = vars(autotuner)
        return kept["do_bench"] if "do_bench" in kept else self._original.__get__(autotuner, owner)

    def __set__(self, autotuner: Any, benchmarker: Any) -> None:
        vars(autotuner)["do_bench"] = benchmarker

    def __delete__(self, autotuner: Any) -> None:
        del vars(autotuner)["do_bench"]


def _run_by_taker(run_timed: Callable[..., Any], taker: AutotunedLaunches) -> Callable[..., Any]:
    @functools.wraps(run_timed)
    def run(autotuner: Any, *args: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True
        return taker.launch(run_timed, autotuner, args, keywords)

    return run


def pruned_configs(
    autotuner: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Sequence[Any]:
    """The configs that an autotuner's own pruning leaves for a launch, which may be none."""
    nargs = dict(zip(autotuner.arg_names, args))
    with all_replaced([(autotuner, "nargs", nargs)]):  # which a new autotuner does not have
        try:
            pruned: Sequence[Any] = autotuner.prune_configs(dict(keywords))
        except AutotunerError:
            return ()
    return pruned


# Launch hooks: each launch of a compiled kernel on a GPU, seen from outside while somebody wants to
# see it.

Around = Callable[[Any, tuple[int, int, int], Sequence[Any]], AbstractContextManager[Any]]
"""Given a kernel, the sizes of its grid and all its arguments in order: what is entered before the
launch, and left after it."""

_OTHERS = 6
"""Stream, function, two packs of metadata and two hooks, before the arguments."""


def gpu_launches_watched(around: Around) -> WhileAnyThread:
    """While active, in any thread, launches go through `around`."""
    return WhileAnyThread(
        lambda: replaced(CompiledKernel, run=_watched(vars(CompiledKernel)["run"], around))
    )


def _watched(original: Any, around: Around) -> property:
    def run(compiled: Any) -> Callable[..., Any]:
        launch = original.__get__(compiled)
        kernel = getattr(compiled.src, "fn", compiled.name)

        def launched(x: int, y: int, z: int, *others: Any) -> Any:
            with around(kernel, (x, y, z), others[_OTHERS:]):
                return launch(x, y, z, *others)

        return launched

    return property(run)
