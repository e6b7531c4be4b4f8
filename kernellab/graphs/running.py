"""Inductor's generated code on the CPU, its Triton kernels on the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def runner(wrapper: str) -> Callable[[list[Any]], Any]:
    """What runs the generated code of a graph, on CPU tensors."""
    from kernellab.torch_api.generated_modules import callable_in

    return callable_in(wrapper, _launch)


def _launch(kernel: Any, args: Sequence[Any]) -> None:
    """One launch of one of Inductor's kernels, with what the generated code gives."""
    from kernellab.launch.tile_kernel import run

    run(kernel, None, *args)
