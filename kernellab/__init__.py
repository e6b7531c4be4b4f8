"""A lab for tile kernels: Triton kernels compiled to SASS and run on the CPU, inside a notebook.

    %load_ext kernellab

    %%tilekernel --target sm_90
    @triton.jit
    def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
        ...

Importing this package imports nothing heavy: each public name is imported when first asked for.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if sys.platform != "linux":
    raise ImportError(
        f"KernelLab needs Linux, and this is {sys.platform!r}: Triton, whose compiler it drives, "
        "has wheels for Linux only. No GPU is needed. On Windows use WSL 2; on a Mac a Linux "
        "container (amd64 or arm64); anywhere, Google Colab. The README has the commands."
    )

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kernellab.checker.checking import check
    from kernellab.checker.uninitialized import uninitialized
    from kernellab.compiler.comparison import compare
    from kernellab.compiler.pipeline import compile
    from kernellab.debugger.debugging import debug
    from kernellab.errors import (
        ArchiveError,
        ArgumentError,
        CompileError,
        Deadlock,
        Diagnostic,
        GridError,
        KernelFault,
        KernelLabError,
        LayoutError,
        NoSuchStep,
        OptionError,
        OutOfBounds,
        ProfileError,
        TargetError,
        UnsupportedOperation,
    )
    from kernellab.interpreter.foreign_code import device_function, inline_assembly
    from kernellab.launch.bisection import bisect
    from kernellab.launch.interception import interpreted
    from kernellab.launch.tile_kernel import TileKernel, run
    from kernellab.loading import load
    from kernellab.profiling.accesses.counting import accesses
    from kernellab.profiling.nsight.files import read_ncu
    from kernellab.profiling.nsight.records import Profile
    from kernellab.records import (
        Compilation,
        Launch,
        Resources,
        Run,
        Specialization,
        Stage,
        Stages,
        Target,
    )
    from kernellab.records.layouts import Layout
    from kernellab.records.showing import show
    from kernellab.tracing.records import Trace
    from kernellab.tracing.tracing_run import trace
    from kernellab.tuning.results.registry import tunings
    from kernellab.tuning.results.tuning import Tuning
    from kernellab.tuning.results.tunings import Tunings
    from kernellab.tuning.sweep.sweeping import tune

__version__ = "0.1.0"

_HOMES = {
    "ArchiveError": "kernellab.errors",
    "ArgumentError": "kernellab.errors",
    "Compilation": "kernellab.records",
    "CompileError": "kernellab.errors",
    "Deadlock": "kernellab.errors",
    "Diagnostic": "kernellab.errors",
    "GridError": "kernellab.errors",
    "KernelFault": "kernellab.errors",
    "KernelLabError": "kernellab.errors",
    "Launch": "kernellab.records",
    "Layout": "kernellab.records.layouts",
    "LayoutError": "kernellab.errors",
    "NoSuchStep": "kernellab.errors",
    "OptionError": "kernellab.errors",
    "OutOfBounds": "kernellab.errors",
    "Profile": "kernellab.profiling.nsight.records",
    "ProfileError": "kernellab.errors",
    "Resources": "kernellab.records",
    "Run": "kernellab.records",
    "Specialization": "kernellab.records",
    "Stage": "kernellab.records",
    "Stages": "kernellab.records",
    "Target": "kernellab.records",
    "TargetError": "kernellab.errors",
    "TileKernel": "kernellab.launch.tile_kernel",
    "Trace": "kernellab.tracing.records",
    "Tuning": "kernellab.tuning.results.tuning",
    "Tunings": "kernellab.tuning.results.tunings",
    "UnsupportedOperation": "kernellab.errors",
    "accesses": "kernellab.profiling.accesses.counting",
    "bisect": "kernellab.launch.bisection",
    "check": "kernellab.checker.checking",
    "compare": "kernellab.compiler.comparison",
    "compile": "kernellab.compiler.pipeline",
    "debug": "kernellab.debugger.debugging",
    "device_function": "kernellab.interpreter.foreign_code",
    "inline_assembly": "kernellab.interpreter.foreign_code",
    "interpreted": "kernellab.launch.interception",
    "load": "kernellab.loading",
    "read_ncu": "kernellab.profiling.nsight.files",
    "run": "kernellab.launch.tile_kernel",
    "show": "kernellab.records.showing",
    "trace": "kernellab.tracing.tracing_run",
    "tune": "kernellab.tuning.sweep.sweeping",
    "tunings": "kernellab.tuning.results.registry",
    "uninitialized": "kernellab.checker.uninitialized",
}
"""Public name -> the module that it is imported from when first asked for."""

__all__ = [
    "ArchiveError",
    "ArgumentError",
    "Compilation",
    "CompileError",
    "Deadlock",
    "Diagnostic",
    "GridError",
    "KernelFault",
    "KernelLabError",
    "Launch",
    "Layout",
    "LayoutError",
    "NoSuchStep",
    "OptionError",
    "OutOfBounds",
    "Profile",
    "ProfileError",
    "Resources",
    "Run",
    "Specialization",
    "Stage",
    "Stages",
    "Target",
    "TargetError",
    "TileKernel",
    "Trace",
    "Tuning",
    "Tunings",
    "UnsupportedOperation",
    "__version__",
    "accesses",
    "bisect",
    "check",
    "compare",
    "compile",
    "debug",
    "device_function",
    "inline_assembly",
    "interpreted",
    "load",
    "load_ipython_extension",
    "read_ncu",
    "run",
    "show",
    "trace",
    "tune",
    "tunings",
    "uninitialized",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kernellab' has no attribute {name!r}", name=name, obj=None)
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """What `%load_ext kernellab` calls: registers the magics and their completion."""
    from kernellab.magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """What `%unload_ext kernellab` calls: takes back all that loading did."""
    from kernellab.magics import unload

    unload(shell)
