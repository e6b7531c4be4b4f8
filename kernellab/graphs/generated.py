"""The kernels of a report: as Inductor writes them, and as kernels of KernelLab."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernellab.errors import OptionError
from kernellab.records.graphs import KernelCode

if TYPE_CHECKING:
    from kernellab.records import Compilation


@dataclass(frozen=True, eq=False)
class GeneratedKernel:
    """A kernel that Inductor wrote: in Triton, or in C++ in the log of a run on a CPU.

    Attributes:
        code: the record of the kernel.
        target: the GPU that it was written for: "sm_90".
    """

    code: KernelCode
    target: str

    @property
    def name(self) -> str:
        """The function's name."""
        return self.code.name

    @property
    def source(self) -> str:
        """The module as Inductor writes it, decorators included."""
        return self.code.source

    @property
    def origins(self) -> tuple[str, ...]:
        """The nodes of the post-grad graph that it computes."""
        return self.code.origins

    @functools.cached_property
    def tuner(self) -> Any:
        """Inductor's own object, a `CachingAutotuner`, which every function of KernelLab accepts as
        a kernel. The first access executes its module.

        Raises:
            OptionError: it is not a Triton kernel; a log also has a CPU's kernels.
        """
        if not self.code.is_triton:
            raise OptionError(
                f"{self.name} is C++ for a CPU, not a Triton kernel",
                advice="Read its text in kernel.source. The log of a GPU's run has Triton kernels.",
            )
        from kernellab.torch_api.generated_modules import kernel_in

        return kernel_in(self.source, self.name)

    @functools.cached_property
    def kernel(self) -> Any:
        """The kernel as a `TileKernel`: compile, run, trace, check, tune it."""
        from kernellab.launch.tile_kernel import TileKernel

        return TileKernel(self.tuner.fn.fn)

    @functools.cached_property
    def compilation(self) -> Compilation:
        """The kernel, compiled for its GPU with the first config that Inductor would try."""
        from kernellab.compiler.pipeline import compile as compile_kernel

        compilation = compile_kernel(self.tuner, target=self.target)
        assert not isinstance(compilation, dict)
        return compilation

    def __repr__(self) -> str:
        return f"GeneratedKernel({self.name})"
