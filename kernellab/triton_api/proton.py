"""Proton, the profiler that comes with Triton: its sessions, its scopes, what it receives about
launches; and kernels in which its operations read the clock.

Its names differ between versions; no other module uses them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from triton import knobs
from triton._C import libtriton
from triton.compiler import CompiledKernel
from triton.runtime import _allocation

from kernellab.common.patches import WhileAnyThread, replaced
from kernellab.common.system import temporary_folder
from kernellab.errors import UnsupportedOperation
from kernellab.records import Specialization, Target
from kernellab.triton_api.compilation import compile_natively
from kernellab.triton_api.targets import backend_for


class ScopeListener(Protocol):
    """Hears of Proton's scopes."""

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        """A scope begins."""

    def measured(self, metrics: Mapping[str, float]) -> None:
        """Take more of the user's metrics for the innermost scope."""

    def leave(self) -> None:
        """It ends."""


class ProtonRefused(Exception):
    """Proton refused a call; the text is its message."""


def _proton() -> Any:
    try:
        import triton.profiler
    except ImportError as error:  # a Triton that was built without it
        raise ProtonRefused(f"this Triton has no Proton: {error}") from error
    return triton.profiler


def start(path: Path, *, context: str, data: str, backend: str | None, mode: Any, hook: Any) -> int:
    """Begin a session that writes to `path`, whose end Proton adds; its number. Raises
    ProtonRefused: it cannot: there is no CUPTI, no permission, another profiler. Nothing is left
    switched on.
    """
    proton = _proton()
    from triton.profiler.flags import flags

    was_on = flags.profiling_on
    try:
        session = proton.start(
            str(path), context=context, data=data, backend=backend, mode=mode, hook=hook
        )
    except Exception as error:  # what its C++ throws, and what its Python does
        if not was_on:
            with contextlib.suppress(Exception):
                proton.finalize()
            flags.profiling_on = False
        raise ProtonRefused(str(error)) from error
    if session is None:
        raise ProtonRefused(
            "it is switched off: TRITON_PROTON_DISABLE is set, or `proton` runs this script"
        )
    return int(session)


def activate(session: int) -> None:
    """Let a session continue. Raises ProtonRefused: it cannot."""
    _asked(lambda proton: proton.activate(session))


def deactivate(session: int) -> None:
    """Let a session pause. Raises ProtonRefused: it cannot."""
    _asked(lambda proton: proton.deactivate(session))


def finalize(session: int, is_last: bool) -> None:
    """End a session, which writes its file.

    Args:
        is_last: whether no other session is left that was begun here.

    Raises:
        ProtonRefused: it cannot: the user has ended it already, or the GPU's context is lost.
            The session is over all the same.
    """
    from triton.profiler.flags import flags
    from triton.profiler.hooks import HookManager

    try:
        _asked(lambda proton: proton.finalize(session))
    finally:
        with contextlib.suppress(Exception):
            HookManager.unregister(session)
        if is_last and not HookManager.session_hooks:
            flags.profiling_on = False


def _asked(ask: Callable[[Any], Any]) -> None:
    try:
        ask(_proton())
    except ProtonRefused:
        raise
    except Exception as error:  # what its C++ throws
        raise ProtonRefused(str(error)) from error


@contextmanager
def scope(name: str, metrics: Mapping[str, Any]) -> Iterator[None]:
    """A scope in all of Proton's sessions."""
    with _proton().scope(name, dict(metrics) or None):
        yield


@contextmanager
def scopes_reported(listener: ScopeListener) -> Iterator[None]:
    """Inside, Proton's scopes notify a listener, and Proton too while it has a session."""
    try:
        # By its name: the package has a class of the same.
        module = importlib.import_module("triton.profiler.scope")
    except ImportError:  # a Triton that was built without Proton
        yield
        return
    properties = {
        "libproton": _Told(listener, module.libproton, module.flags),
        "flags": SimpleNamespace(profiling_on=True, command_line=False),
        "set_metric_kernels": lambda: None,  # from Triton 3.7 on
        "transform_tensor_metrics": lambda metrics: (metrics, {}),
    }
    with replaced(module, **properties):
        yield


class _Told:
    """Stands in for Proton's C++ in its Python module; calls it while a session is active."""

    def __init__(self, listener: ScopeListener, libproton: Any, flags: Any) -> None:
        self._listener = listener
        self._libproton = libproton
        self._flags = flags
        self._number = 0
        self._proton_numbers: dict[int, int] = {}
        """Scope -> its number in Proton, for scopes that began while a session was active."""

    def record_scope(self) -> int:
        self._number += 1
        if self._flags.profiling_on:
            self._proton_numbers[self._number] = self._libproton.record_scope()
        return self._number

    def enter_scope(self, number: int, name: str) -> None:
        self._listener.enter(name, {})
        if number in self._proton_numbers:
            self._libproton.enter_scope(self._proton_numbers[number], name)

    def exit_scope(self, number: int, name: str) -> None:
        self._listener.leave()
        if number in self._proton_numbers:
            self._libproton.exit_scope(self._proton_numbers.pop(number), name)

    def add_metrics(self, number: int, metrics: Mapping[str, Any], *rest: Any) -> None:
        numbers = plain_metrics(metrics)
        self._listener.measured(numbers)
        if number in self._proton_numbers:
            self._libproton.add_metrics(self._proton_numbers[number], numbers, *rest)


def plain_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Metrics as numbers: of a tensor its sum; other values are left out."""
    sums: dict[str, float] = {}
    for name, value in metrics.items():
        number = value.sum().item() if hasattr(value, "data_ptr") else value
        if isinstance(number, Real):
            sums[str(name).removesuffix("(exc)").strip()] = float(number)
    return sums


@dataclass(frozen=True, eq=False)
class LaunchListener:
    """Hears of Triton's launches on a GPU.

    Attributes:
        seen: is given Triton's compiled kernel at each launch, the grid, and the arguments by name.
        describe: takes grid, metadata and arguments by name, and gives "name" and metrics;
            called for a kernel without `launch_metadata`.
    """

    seen: Callable[[Any, Sequence[int], Mapping[str, Any]], None]
    describe: Callable[[Any, Any, dict[str, Any]], Any] | None = None


_listeners: list[LaunchListener] = []


@contextmanager
def launches_heard(listener: LaunchListener) -> Iterator[None]:
    """Inside, a listener is notified of each launch. Contexts may end in any order."""
    _listeners.append(listener)
    try:
        with _listeners_told:
            yield
    finally:
        _listeners.remove(listener)


def _telling(launch_metadata: Any) -> Any:
    def told(self: Any, grid: Any, stream: Any, *args: Any) -> Any:
        """What Triton gets from a compiled kernel before it launches it."""
        describe, function = None, getattr(self.src, "fn", None)
        values = dict(zip(getattr(function, "arg_names", ()), args))
        for listener in _listeners:
            listener.seen(self, grid, values)
            describe = listener.describe or describe
        metadata = launch_metadata(self, grid, stream, *args)
        if describe is None or metadata is None or function is None or function.launch_metadata:
            return metadata
        metadata.add(describe, (grid, self.metadata, values))
        return metadata

    return told


_listeners_told = WhileAnyThread(
    lambda: replaced(CompiledKernel, launch_metadata=_telling(CompiledKernel.launch_metadata))
)


def peak_per_second(kind: str, arch: str, width: int | None, **facts: int) -> float | None:
    """Return the peak of a GPU in Proton's tables: operations a second of a width in bits, or bytes
    a second for None; None if Proton does not know the GPU.

    Args:
        kind, arch: "CUDA" and "90", "HIP" and "gfx942".
        facts: multiprocessors, clock_khz, memory_clock_khz, bus_bits.
    """
    try:
        from triton.profiler import specs
    except ImportError:  # a Triton that was built without Proton
        return None
    try:
        if width is None:
            return float(specs.max_bps(kind, arch, facts["bus_bits"], facts["memory_clock_khz"]))
        clocks = facts["multiprocessors"], facts["clock_khz"]
        return float(specs.max_flops(kind, arch, width, *clocks))
    except (ValueError, KeyError, AssertionError):
        return None


# Kernels in which Proton's operations read the clock: compiled through Proton's passes, and
# launched with memory for what they note.
#
# Proton's passes are in the backend's pipeline where the backend puts them, as with a session of
# Proton; the session, its reader and its files are not used: what a launch recorded is a tensor
# in the format of `ReadingMemory`.

ALIGNMENT = 128
BYTES = 8
"""Of one reading: a word that says which mark it was, and the low word of the clock."""
HEADER_WORDS = 10
"""Of a program, before a count for each warp: a magic number, the program's number, that of its
multiprocessor, the readings' bytes, and three times of 64 bits, in ns: when it began, before and
after it wrote the header."""
MAGIC = 0xDEADBEEF
_NAME_BIT = 23
"""Where the number of a pair of marks begins in a reading's first word; an end has bit 31."""


@dataclass(frozen=True)
class ReadingMemory:
    """Where a program's warps note the clock.

    The newest readings are kept: a warp that has more continues at the beginning of its part.
    """

    readings: int
    """How many fit for each warp, a power of two."""
    warps: int
    """Of a program, those of its partitions too."""
    noting: tuple[int, ...] = ()
    """The warps that note it, ascending; none stands for all."""

    @property
    def noted(self) -> tuple[int, ...]:
        """The warps of which there are readings."""
        return self.noting or tuple(range(self.warps))

    @property
    def bytes(self) -> int:
        """Of all warps of one program."""
        return self.readings * BYTES * len(self.noted)


def compile_marked(
    kernel: Any,
    specialization: Specialization,
    target: Target,
    options: Mapping[str, Any],
    ttgir: str,
    memory: ReadingMemory,
) -> Any:
    """Triton's own CompiledKernel of a kernel whose TTGIR is another: one with marks. Nothing of it
    stays in Triton's cache.

    Raises:
        CompileError: the compiler refused it.
        UnsupportedOperation: this Triton, or the target, has no passes of Proton.
    """
    _check_supported(target)
    key = hashlib.sha256(f"{ttgir}\n{memory}".encode()).hexdigest()
    with temporary_folder() as folder, knobs.cache.scope(), _passes_of_proton(target, memory):
        file = Path(folder, f"{key}.ttgir")
        file.write_text(ttgir, encoding="utf-8")
        knobs.cache.dir = folder
        all_options = {**options, "ir_override": str(file)}
        return compile_natively(kernel, specialization, target, all_options)


def _check_supported(target: Target) -> None:
    if target.backend != "cuda":
        raise UnsupportedOperation(
            f"Cycles by line are measured on NVIDIA GPUs only, not on {target}."
        )
    if not hasattr(libtriton, "proton"):
        raise UnsupportedOperation(
            "This build of Triton has no Proton, whose passes read the clock in kernels.",
            advice="Install Triton from its wheel.",
        )


_one_at_a_time = threading.Lock()
"""The passes are put into the backend's class."""


@contextmanager
def _passes_of_proton(target: Target, memory: ReadingMemory) -> Iterator[None]:
    backend, passes = type(backend_for(target)), _Passes(memory)
    with _one_at_a_time:
        if hasattr(backend, "instrumentation"):  # up to Triton 3.8
            with replaced(backend, instrumentation=passes):
                yield
        else:
            from triton import _instrumentation

            callbacks = {**_instrumentation._callbacks, **passes.callbacks()}
            with replaced(_instrumentation, _callbacks=callbacks):
                yield


@dataclass(frozen=True)
class _Passes:
    """The hook by which a backend lets others add to its pipeline."""

    memory: ReadingMemory

    def load_dialects(self, context: Any) -> None:
        libtriton.proton.load_dialects(context)

    def callbacks(self) -> Mapping[tuple[str, str], Callable[..., None]]:
        """The passes as Triton 3.9 has them: (point in the pipeline, backend) -> function."""
        points = {
            "load-dialects": self.load_dialects,
            "ttgpuir-to-llvmir": lambda passes: self._add("ttgpuir_to_llvmir", passes),
            "llvmir-to-llvm": lambda passes: self._add("llvmir_to_llvm", passes),
        }
        return {(point, "nvidia"): callback for point, callback in points.items()}

    def patch(self, stage: str, passes: Any, context: Any) -> None:
        self.load_dialects(context)
        self._add(stage, passes)

    def _add(self, stage: str, passes: Any) -> None:
        proton, noting = libtriton.proton, self.memory.noting
        if stage == "ttgpuir_to_llvmir":
            proton.add_convert_proton_to_protongpu(
                passes,
                proton.METRIC_TYPE.CYCLE,
                getattr(proton.SAMPLING_STRATEGY, "SELECTIVE" if noting else "NONE"),
                ",".join(map(str, noting)),
                proton.GRANULARITY.WARP,
                proton.BUFFER_STRATEGY.CIRCULAR,
                proton.BUFFER_TYPE.GLOBAL,
                self.memory.bytes,
                _MOST_SHARED,
                1,
                ALIGNMENT,
                False,  # 32 bits of the clock: a program of 2 seconds goes round once
            )
            libtriton.passes.common.add_cse(passes)
            proton.add_allocate_proton_shared_memory(passes)
        elif stage == "llvmir_to_llvm":
            if hasattr(proton, "add_allocate_proton_global_scratch_buffer"):  # up to Triton 3.7
                proton.add_allocate_proton_global_scratch_buffer(passes)
            proton.add_convert_proton_nvidia_gpu_to_llvm(passes)


_MOST_SHARED = 227 * 1024
"""The most shared memory of a program on sm_90, of which Proton takes a part."""


def scratch_bytes(compiled: Any) -> int:
    """The record of one program of a marked kernel, including its header."""
    return int(compiled.metadata.profile_scratch_size)


def launch_marked(
    compiled: Any, grid: Sequence[int], values: Sequence[Any], allocate: Callable[[int], Any]
) -> None:
    """Launch a marked kernel on the current device and stream.

    Args:
        compiled: Triton's CompiledKernel.
        grid: three sizes.
        values: the kernel's arguments, all of them, in order.
        allocate: gives memory on the device, of so many bytes.
    """
    given = _allocation._profile_allocator.get()
    _allocation.set_profile_allocator(lambda size, _alignment, _stream: allocate(size))
    try:
        launch_compiled(compiled, grid, values)
    finally:
        _allocation.set_profile_allocator(given)


def launch_compiled(compiled: Any, grid: Sequence[int], values: Sequence[Any]) -> None:
    """Launch a CompiledKernel of Triton's on the current device and stream."""
    compiled[tuple(grid)](*values)


def mark_of(words: Any) -> Any:
    """The numbers of the marks in readings' first words, an array of unsigned 32 bits."""
    return ((words >> _NAME_BIT) & 0xFF) * 2 + (words >> 31)
