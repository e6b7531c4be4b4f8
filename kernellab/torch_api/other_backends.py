"""Backends of torch.compile other than Inductor: the installed ones; and any function, watched
while it compiles: the graphs that it is given, and those that it has AOTAutograd make of them.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

import torch
import torch._dynamo.backends.registry
import torch._functorch.aot_autograd
import torch._guards

from kernellab.common.patches import replaced
from kernellab.records.graphs import CapturedFrame, Level
from kernellab.torch_api.capturing import Captured, graph_without_code, saved_by
from kernellab.torch_api.events import bytecode_heard, events_heard
from kernellab.torch_api.fx_graphs import level_of
from kernellab.torch_api.primitives import primitives

_registry: Any = torch._dynamo.backends.registry
_aot: Any = torch._functorch.aot_autograd

GROUP = "torch_dynamo_backends"
"""Of entry points, in which packages name their backends."""

_COMPILERS = {
    "bw_compiler": "backward",
    "inference_compiler": "inference",
    "fw_compiler": "forward",
}
"""AOTAutograd's name of a compiler -> direction of what it compiles. Where it is given none, the
last one compiles that too.
"""


def installed() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Name of each backend -> the package that it is from, and torch's tags of it."""
    packages = {
        point.name: point.dist.name if point.dist is not None else ""
        for point in entry_points(group=GROUP)
    }
    backends = {}
    for name in sorted(_registry.list_backends(())):
        tags = getattr(_registry._COMPILER_FNS.get(name), "_tags", ())
        backends[name] = packages.get(name, "torch"), tuple(map(str, tags))
    return backends


def looked_up(backend: Any) -> Callable[..., Any]:
    """The function behind a backend's name; a function is itself."""
    backend_function: Callable[..., Any] = _registry.lookup_backend(backend)
    return backend_function


class WatchedBackend:
    """A backend that compiles as another does, and notes what that is given."""

    def __init__(
        self, backend: Callable[..., Any], options: Mapping[str, Any], *, levels: bool
    ) -> None:
        """Nothing is captured yet.

        Args:
            backend: as torch.compile calls one.
            options: for it, as torch.compile hands them on; none where empty.
            levels: whether primitive operations are recorded.
        """
        self.captured = Captured()
        self.__name__ = str(getattr(backend, "__name__", type(backend).__name__))  # as torch has it
        self._backend, self._levels = backend, levels
        self._options = {"options": dict(options)} if options else {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While active, what Dynamo says is kept, and AOTAutograd's graphs are noted."""
        with (
            events_heard(self.captured.events),
            bytecode_heard(self.captured.bytecode),
            replaced(_aot, aot_stage2_compile=self._compiling_graphs(_aot.aot_stage2_compile)),
        ):
            yield

    def __call__(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], **_options: Any
    ) -> Callable[..., Any]:
        """As torch.compile calls it with a Dynamo graph."""
        number = len(self.captured.frames)
        self.captured.frames.append(CapturedFrame(number, level_of(module, "fx"), None))
        start = time.perf_counter()
        before, error = len(self.captured.lowered), ""
        try:
            compiled: Callable[..., Any] = self._backend(module, inputs, **self._options)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
            raise
        finally:
            if len(self.captured.lowered) == before:
                asks = "the backend did not ask for it: it takes the FX graph as it is"
                nothing = Level("aten", "", (), asks)
                seconds = time.perf_counter() - start
                self._note(number, _direction(inputs), nothing, nothing, (), error, seconds)
        return compiled

    def _compiling_graphs(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def compile_graphs(*args: Any, **keywords: Any) -> Any:
            given = signature.bind(*args, **keywords).arguments
            number = len(self.captured.frames) - 1
            for name, direction in _COMPILERS.items():
                compiler = given.get(name) or given["fw_compiler"]
                given[name] = self._compiling(number, direction, compiler)
            return original(**given)

        return compile_graphs

    def _compiling(
        self, number: int, direction: str, compiler: Callable[..., Any]
    ) -> Callable[..., Any]:
        def watched(module: torch.fx.GraphModule, inputs: Sequence[Any], *more: Any) -> Any:
            start, error = time.perf_counter(), ""
            aten = level_of(module, "aten")
            prims = primitives(module, inputs) if self._levels else Level("prims", "", (), "")
            saved = saved_by(module) if direction == "forward" else ()
            try:
                return compiler(module, inputs, *more)
            except Exception as problem:
                error = f"{type(problem).__name__}: {problem}"
                raise
            finally:
                seconds = time.perf_counter() - start
                self._note(number, direction, aten, prims, saved, error, seconds)

        return watched

    def _note(
        self,
        number: int,
        direction: str,
        aten: Level,
        prims: Level,
        saved: tuple[Any, ...],
        error: str,
        seconds: float,
    ) -> None:
        self.captured.lowered.append(
            graph_without_code(
                direction,
                number,
                aten,
                error,
                prims=replace(prims, name="prims"),
                post_grad="the backend is not Inductor",
                saved=saved,
                seconds=seconds,
            )
        )


def _direction(inputs: Sequence[Any]) -> str:
    tensors = [tensor for tensor in inputs if isinstance(tensor, torch.Tensor)]
    is_trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return "forward" if is_trained else "inference"


def compiled_by(frames: Iterator[Any]) -> Any:
    """What `torch.compile` made that a backend is called for, from the frames that called it; None
    where something else calls it.
    """
    wrapper: Any = torch._TorchCompileWrapper
    for frame in frames:
        mine = frame.f_locals.get("self")
        if isinstance(mine, wrapper):
            return mine
    return None


def compilation_id() -> str:
    """Dynamo's number of what is compiled: "0/1"; "" where nothing is."""
    return str(torch._guards.CompileContext.current_compile_id() or "").strip("[]")
