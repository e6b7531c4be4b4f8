"""Inductor's generated code on the CPU, its Triton kernels on the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernellab.torch_api.capturing import Made, Run


def run_code(made: Made) -> Run:
    """What runs the generated code of a graph, on CPU tensors."""
    from kernellab.torch_api.generated_modules import callable_in

    return callable_in(made.lowering.wrapper, launch)


def launch(kernel: Any, args: Sequence[Any]) -> None:
    """One launch of one of Inductor's kernels, with what the generated code gives."""
    from kernellab.launch.tile_kernel import run
    from kernellab.torch_api.inductor import parted

    grid, values = parted(kernel, args)
    run(kernel, grid, *values)
