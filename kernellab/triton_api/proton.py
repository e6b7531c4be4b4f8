"""Proton, the profiler that comes with Triton: its sessions, its scopes, what it is told of
launches. Its names have changed from version to version; nobody else asks for them.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from triton.compiler import CompiledKernel


class ScopeListener(Protocol):
    """Hears of Proton's scopes."""

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        """A scope begins."""

    def measured(self, metrics: Mapping[str, float]) -> None:
        """The user gives more metrics of the innermost scope."""

    def leave(self) -> None:
        """It ends."""


METADATA_SCOPE = "__proton_launch_metadata"
"""What Proton calls the scope of a kernel's `launch_metadata`: kernels in it are not the user's."""


# Sessions


class ProtonRefused(Exception):
    """Proton did not do as it was told; the text is what it said."""


def _proton() -> Any:
    try:
        import triton.profiler
    except ImportError as error:  # a Triton that was built without it
        raise ProtonRefused(f"this Triton has no Proton: {error}") from error
    return triton.profiler


def start(path: Path, *, context: str, data: str, backend: str | None, mode: Any, hook: Any) -> int:
    """Begin a session that writes to `path`, whose end Proton adds; its number.

    Raises:
        ProtonRefused: it cannot: there is no CUPTI, no permission, another profiler. Nothing is
            left switched on.
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
    """Let a session go on.

    Raises:
        ProtonRefused: it cannot.
    """
    _asked(lambda proton: proton.activate(session))


def deactivate(session: int) -> None:
    """Let a session pause.

    Raises:
        ProtonRefused: it cannot.
    """
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


# Scopes


@contextmanager
def scope(name: str, metrics: Mapping[str, Any]) -> Iterator[None]:
    """A scope in all of Proton's sessions."""
    with _proton().scope(name, dict(metrics) or None):
        yield


@contextmanager
def scopes_told(listener: ScopeListener) -> Iterator[None]:
    """Inside, `proton.scope`, `proton.enter_scope` and their likes tell a listener, and not
    Proton, which hears of nothing where no GPU is.
    """
    try:
        # By its name: the package has a class of the same.
        module = importlib.import_module("triton.profiler.scope")
    except ImportError:  # a Triton that was built without Proton
        yield
        return
    told = {
        "libproton": _Told(listener),
        "flags": SimpleNamespace(profiling_on=True, command_line=False),
        "set_metric_kernels": lambda: None,  # from Triton 3.7 on
        "transform_tensor_metrics": lambda metrics: (metrics, {}),
    }
    before = {name: getattr(module, name) for name in told if hasattr(module, name)}
    for name in before:
        setattr(module, name, told[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


class _Told:
    """Stands where Proton's Python expects its C++."""

    def __init__(self, listener: ScopeListener) -> None:
        self._listener = listener
        self._number = 0

    def record_scope(self) -> int:
        self._number += 1
        return self._number

    def enter_scope(self, _number: int, name: str) -> None:
        self._listener.enter(name, {})

    def exit_scope(self, _number: int, _name: str) -> None:
        self._listener.leave()

    def add_metrics(self, _number: int, metrics: Mapping[str, Any], *_: Any) -> None:
        self._listener.measured(plain_metrics(metrics))


def plain_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Metrics as numbers: of a tensor its sum; what is no number is left out."""
    found: dict[str, float] = {}
    for name, value in metrics.items():
        number = value.sum().item() if hasattr(value, "data_ptr") else value
        if isinstance(number, Real):
            found[str(name).removesuffix("(exc)").strip()] = float(number)
    return found


# Launches on a GPU


@dataclass(frozen=True, eq=False)
class LaunchListener:
    """Hears of Triton's launches on a GPU.

    Attributes:
        seen: is given Triton's compiled kernel at each launch.
        describe: takes grid, metadata and arguments by name, and gives "name" and metrics; asked
            where a kernel has no `launch_metadata` of its own.
    """

    seen: Callable[[Any], None]
    describe: Callable[[Any, Any, dict[str, Any]], Any] | None = None


_listeners: list[LaunchListener] = []
_own_metadata: Any = None
"""Triton's own, while something stands in its place."""


@contextmanager
def launches_heard(listener: LaunchListener) -> Iterator[None]:
    """Inside, a listener hears of each launch. Contexts may end in any order."""
    global _own_metadata
    if not _listeners:
        _own_metadata = CompiledKernel.launch_metadata
        CompiledKernel.launch_metadata = _launch_metadata
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        if not _listeners:
            CompiledKernel.launch_metadata = _own_metadata


def _launch_metadata(self: Any, grid: Any, stream: Any, *args: Any) -> Any:
    """What Triton asks a compiled kernel for before it launches it."""
    describe = None
    for one in _listeners:
        one.seen(self)
        describe = one.describe or describe
    found = _own_metadata(self, grid, stream, *args)
    function = getattr(self.src, "fn", None)
    if describe is None or found is None or function is None or function.launch_metadata:
        return found
    found.add(describe, (grid, self.metadata, dict(zip(function.arg_names, args))))
    return found


# Peaks


def peak_per_second(kind: str, arch: str, width: int | None, **facts: int) -> float | None:
    """What Proton takes for a GPU's peak: operations of so many bits a second, or with None bytes;
    None where it knows no such GPU.

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
