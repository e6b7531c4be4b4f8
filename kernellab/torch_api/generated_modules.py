"""Modules that Inductor writes, loaded and run where no GPU is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch._inductor.async_compile
import torch._inductor.codecache
import torch._inductor.runtime.triton_helpers
import torch.library

from kernellab.common.patches import replaced
from kernellab.torch_api.gpu_attention import ON_CPU

_async_compile: Any = torch._inductor.async_compile
_codecache: Any = torch._inductor.codecache
_helpers: Any = torch._inductor.runtime.triton_helpers
_bindings: Any = torch._C
_library: Any = torch.library

Launch = Callable[[Any, Sequence[Any]], None]
"""Launches a kernel, a `CachingAutotuner`, with what its generated call gives, on the CPU."""


def kernel_in(source: str, name: str) -> Any:
    """The kernel of a generated module, a `CachingAutotuner`: the module is executed."""
    with replaced(_helpers, set_driver_to_gpu=lambda: None):
        return getattr(_codecache.PyCodeCache.load(source), name)


def callable_in(
    wrapper: str, launch: Launch, names: Mapping[str, Any] | None = None
) -> Callable[[list[Any]], Any]:
    """The generated code of a graph as a function of its inputs, on CPU tensors.

    Args:
        wrapper: the code; it is executed.
        launch: what runs its kernels.
        names: what the code may call besides.
    """

    class Kernel:
        """Replaces a compiled kernel in the code."""

        def __init__(self, name: str, source: str) -> None:
            self._kernel = kernel_in(source, name)
            # Nothing is timed here, so that there is nothing to choose from.
            self._kernel.configs = list(self._kernel.configs)[:1]

        def run(self, *args: Any, stream: Any = None, **keywords: Any) -> None:
            """One launch."""
            del stream
            launch(self._kernel, (*args, *keywords.values()))

    def compiled(_compiler: Any, name: str, source: str, **_options: Any) -> Kernel:
        return Kernel(name, source)

    with _gpu_is_cpu(), replaced(_async_compile.AsyncCompile, triton=compiled):
        module = _codecache.PyCodeCache.load(wrapper)
    vars(module).update(names or {})
    module.empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(
        size, stride, dtype=dtype
    )
    module.device = lambda *_args, **_keywords: torch.device("cpu")
    call = module.call if hasattr(module, "call") else module.runner.call

    def run(args: list[Any]) -> Any:
        with _gpu_is_cpu():
            return call(args)

    return run


class _NoGuard:
    """A context that switches to no device."""

    def __init__(self, *_args: Any) -> None:
        """Any device."""

    def __enter__(self) -> _NoGuard:
        return self

    def __exit__(self, *_error: Any) -> None:
        """Nothing to switch back."""


@contextmanager
def _gpu_is_cpu() -> Iterator[None]:
    """While active, queries of generated code to its GPU are answered, and fused attention runs."""
    with ExitStack() as stack:
        stack.enter_context(
            replaced(
                torch.cuda,
                _DeviceGuard=_NoGuard,
                device=_NoGuard,
                set_device=lambda _device: None,
                synchronize=lambda _device=None: None,
            )
        )
        stack.enter_context(_added(_bindings, _cuda_getCurrentRawStream=lambda _device: 0))
        stack.enter_context(replaced(_helpers, set_driver_to_gpu=lambda: None))
        library = _library.Library("aten", "IMPL")
        try:
            for operation, written_out in ON_CPU.items():
                library.impl(operation, written_out, "CPU")
            yield
        finally:
            library._destroy()


@contextmanager
def _added(owner: Any, **attributes: Any) -> Iterator[None]:
    """While active, a module has these attributes, some of which it may not have."""
    missing = [name for name in attributes if not hasattr(owner, name)]
    for name in missing:
        setattr(owner, name, attributes[name])
    try:
        with replaced(owner, **attributes):
            yield
    finally:
        for name in missing:
            delattr(owner, name)
