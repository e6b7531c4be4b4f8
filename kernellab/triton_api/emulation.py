"""Triton on a machine without a GPU: where launches go, and what its driver answers."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, Protocol

import torch
import triton
from triton.backends import backends
from triton.backends.driver import DriverBase
from triton.compiler.compiler import max_shared_mem
from triton.runtime.driver import DriverConfig
from triton.runtime.jit import JITFunction

from kernellab.common.patches import WhileAnyThread, all_replaced, variable_is
from kernellab.errors import NoGpu
from kernellab.records import Target
from kernellab.triton_api.targets import compute_capability, gpu_target


class Emulation(Protocol):
    """What is used in place of a GPU."""

    @property
    def target(self) -> Target | None:
        """The GPU that launches on the CPU emulate; None if launches go as always."""

    @property
    def driver(self) -> EmulatedDriver | None:
        """What `triton.runtime.driver.active` is meanwhile; None leaves Triton its own."""

    def take_launch(
        self,
        run_natively: Callable[..., Any],
        kernel: Any,
        args: Sequence[Any],
        grid: Any,
        warmup: bool,
        keywords: Mapping[str, Any],
    ) -> Any:
        """Carry out a launch of a plain `@triton.jit` or `@gluon.jit` kernel,
        and give what it gives.

        `run_natively(*args, grid=, warmup=, **keywords)` is Triton's own way.
        """


_current: ContextVar[Emulation | None] = ContextVar("kernellab_emulation", default=None)


def current_emulation() -> Emulation | None:
    """The emulation that this thread is inside of; of nested ones the innermost."""
    emulation = _current.get()
    return emulation if emulations.is_open(emulation) else None


def current_gpu() -> tuple[str, str] | None:
    """The GPU of this machine as (backend, architecture), or None; no emulated one counts."""
    try:
        with emulation_joined(None):
            target = emulations.tritons_own_driver().get_current_target()
    except Exception:  # No driver, no device, no permission: Triton has a different error for each.
        return None
    return str(target.backend), str(target.arch)


class StandIn:
    """An emulation for all threads on a machine that has no GPU: for kernels, and for code that
    gets Triton's driver, in the files that it concerns. For other code there is no GPU. Inside of
    another emulation, that one counts.
    """

    def __init__(self, emulation: Emulation, concerns: Callable[[str], bool]) -> None:
        self._emulation = emulation
        self._concerns = concerns

    def begin(self) -> None:
        """Begin the emulation, and end an earlier one."""
        global _stand_in
        if _stand_in is not None:
            _stand_in.end()
        emulations.enter(self._emulation)
        _stand_in = self

    def end(self) -> None:
        """End the emulation, unless another one replaced it."""
        global _stand_in
        if _stand_in is self:
            _stand_in = None
            emulations.leave(self._emulation)

    def for_file(self, file: str) -> Emulation | None:
        """The emulation, if it concerns a file."""
        return self._emulation if self._concerns(file) else None


_stand_in: StandIn | None = None


def emulation_of(kernel: Any) -> Emulation | None:
    """Who gets a launch of a plain kernel, here and now; None for Triton."""
    emulation = current_emulation()
    if emulation is None and _stand_in is not None:
        return _stand_in.for_file(kernel.fn.__code__.co_filename)
    return emulation


def _emulation_of_asker() -> Emulation | None:
    """Who answers for the driver: the stand-in if it concerns the nearest file of others."""
    emulation = current_emulation()
    if emulation is not None or _stand_in is None:
        return emulation
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_ASK_FOR_OTHERS):
        frame = frame.f_back
    return None if frame is None else _stand_in.for_file(frame.f_code.co_filename)


_ASK_FOR_OTHERS = (
    f"{Path(str(triton.__file__)).absolute().parent}{os.sep}",
    f"{Path(__file__).absolute().parents[1]}{os.sep}",
)


@contextmanager
def emulated(emulation: Emulation) -> Iterator[None]:
    """While active, what this thread (or asyncio task) launches goes to `emulation`;
    the innermost of nested ones counts.

    Triton's classes are changed while any thread is inside, and are what they were
    when the last one has left.
    """
    emulations.enter(emulation)
    try:
        with emulation_joined(emulation):
            yield
    finally:
        emulations.leave(emulation)


def emulation_joined(emulation: Emulation | None) -> AbstractContextManager[object]:
    """While active, this thread is inside of an emulation too that another one entered, no longer
    than that one is. With None it is inside of none, so that Triton does not make and keep a driver
    of a GPU that is only emulated.
    """
    return variable_is(_current, emulation)


def current_target_is(target: Any) -> AbstractContextManager[None]:
    """While active, Triton takes `target`, in its own description, for this machine's GPU."""
    return driver_is(_DriverFor(target))


def driver_is(driver: Any) -> AbstractContextManager[None]:
    """While active, `driver` answers in the place of Triton's own; launches go as always."""
    return emulated(_AnotherDriver(driver))


@dataclass(frozen=True)
class _AnotherDriver:
    """An emulation in which launches go the way that they always go."""

    driver: Any
    target: Target | None = None

    def take_launch(
        self,
        run_natively: Callable[..., Any],
        _kernel: Any,
        args: Sequence[Any],
        grid: Any,
        warmup: bool,
        keywords: Mapping[str, Any],
    ) -> Any:
        """Nothing is launched while a kernel is read, as a rule."""
        return run_natively(*args, grid=grid, warmup=warmup, **keywords)


class _DriverFor:
    """Triton's driver, except for its answer to the question which GPU is there."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def __getattr__(self, name: str) -> Any:
        with emulation_joined(None):
            return getattr(triton.runtime.driver.default, name)


class Emulations:
    """The two attributes of Triton's classes that change while some thread is inside.

    Attributes:
        are_active: whether any thread is. To be read, not asked for: every launch on a GPU does.
    """

    def __init__(self) -> None:
        self._entered: list[Emulation] = []
        self._in_place = WhileAnyThread(self._replaced)
        self._own_driver: Any = None
        self.are_active = False

    def is_open(self, emulation: Emulation | None) -> bool:
        """Whether whoever entered it is still inside."""
        return any(entry is emulation for entry in self._entered)

    def enter(self, emulation: Emulation) -> None:
        _forget_shared_memory()
        self._entered.append(emulation)
        self._in_place.__enter__()

    def tritons_own_driver(self) -> Any:
        """What `triton.runtime.driver.active` is outside of any emulation."""
        config, driver = triton.runtime.driver, self._own_driver
        return config.active if driver is None else driver.__get__(config)

    def leave(self, emulation: Emulation) -> None:
        _forget_shared_memory()
        self._entered.remove(emulation)
        self._in_place.__exit__()

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        run, self._own_driver = vars(JITFunction)["run"], vars(DriverConfig)["active"]
        run_or_offer, active = _run_or_offer(run), _active_or_emulated(self._own_driver)
        with all_replaced([(JITFunction, "run", run_or_offer), (DriverConfig, "active", active)]):
            self.are_active = True
            try:
                yield
            finally:
                self.are_active, self._own_driver = False, None


def _forget_shared_memory() -> None:
    """Clear what Triton has kept of device 0's shared memory, as another driver has another."""
    max_shared_mem.cache_clear()


emulations = Emulations()


@functools.cache
def _run_or_offer(run_natively: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run_natively)
    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
        __tracebackhide__ = True
        emulation = emulation_of(kernel)
        if emulation is None:
            return run_natively(kernel, *args, grid=grid, warmup=warmup, **keywords)
        native = functools.partial(run_natively, kernel)
        return emulation.take_launch(native, kernel, args, grid, warmup, keywords)

    return run


@functools.cache
def _active_or_emulated(active: property) -> property:
    def driver(config: Any) -> Any:
        emulation = _emulation_of_asker()
        if emulation is not None and emulation.driver is not None:
            return emulation.driver
        try:
            return active.__get__(config)
        except RuntimeError as error:
            if _stand_in is None or not str(error).startswith("0 active drivers"):
                raise
            raise NoGpu(
                "Triton found no GPU on this machine to launch on.",
                advice="Kernels of installed packages run on the CPU inside of "
                "`with kernellab.interpreted():`, those of a package that insists on a GPU "
                'inside of `with kernellab.interpreted(answers="gpu"):`.',
            ) from error

    return property(driver, active.fset, active.fdel, active.__doc__)


class EmulatedDriver(DriverBase):  # type: ignore[misc]
    """What Triton's driver reports without a GPU: it is device 0."""

    def __init__(
        self,
        target: Target,
        properties: Mapping[str, int],
        load_binary: Callable[..., tuple[Any, Any, int, int, int]],
        make_launcher: Callable[[Any, Any], Callable[..., None]],
        is_torchs: bool = False,
    ) -> None:
        """Answer for `target`.

        Args:
            target: the GPU.
            properties: what `utils.get_device_properties` gives: "multiprocessor_count",
                "max_shared_mem", ...
            load_binary: called as `load_binary(name, binary, shared, device)`; gives module,
                function, registers, spills and the most threads of a program.
            make_launcher: gives for the source and the metadata of a compiled kernel what launches
                it; that is called as `launcher(x, y, z, stream, function, packed_metadata,
                launch_metadata, enter_hook, exit_hook, *values)`.
            is_torchs: torch answers for the same GPU; else its tensors are on the CPU.
        """
        super().__init__()
        self._target = target
        self._is_torchs = is_torchs
        self.launcher_cls = make_launcher
        self.utils = SimpleNamespace(
            get_device_properties=lambda _device: dict(properties), load_binary=load_binary
        )

    @classmethod
    def is_active(cls) -> bool:
        """Called only for drivers that Triton finds by itself."""
        return True

    @property
    def _obj(self) -> Any:
        """An object of the target's driver class, for which code of Inductor's looks."""
        kind = backends["nvidia" if self._target.backend == "cuda" else "amd"].driver
        return object.__new__(kind)

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Called only by a launcher in C, which does not exist here."""
        return ty

    def get_current_target(self) -> Any:
        return gpu_target(self._target)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0) if self._is_torchs else torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cuda if self._is_torchs else _CpuInterface

    def get_benchmarker(self) -> Any:
        return triton.testing.do_bench

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, _device: int) -> int:
        """The default stream; a launch is over when it returns."""
        return 0

    def get_device_capability(self, _device: int = 0) -> tuple[int, int]:
        return compute_capability(self._target)

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """The buffer that is overwritten between measurements to empty L2: nothing here."""
        return torch.empty(0, dtype=torch.int8, device="cpu")

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Nothing to empty."""

    def __repr__(self) -> str:
        return f"EmulatedDriver({self._target})"


class _CpuInterface:
    """What `triton.testing.do_bench` takes from `torch.cuda`: work is over when a call returns."""

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Nothing is under way."""

    @staticmethod
    def current_device() -> int:
        return 0

    class Event:
        """A moment."""

        def __init__(self, **_options: bool) -> None:
            self._seconds = 0.0

        def record(self, _stream: Any = None) -> None:
            self._seconds = time.perf_counter()

        def synchronize(self) -> None:
            """It has passed."""

        def elapsed_time(self, later: Any) -> float:
            """Milliseconds until `later`."""
            return 1e3 * float(later._seconds - self._seconds)
