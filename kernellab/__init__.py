"""A lab for tile kernels: Triton kernels compiled to SASS and run on the CPU, inside a notebook.

    %load_ext kernellab

    %%tilekernel --target h100
    @triton.jit
    def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
        ...

    add[(4,)](x, y, z, n, BLOCK=256)

The launch runs on the CPU, or on the GPU if the tensors are there (without a GPU, also without
%%tilekernel). The same launch line also gives:

    check(add, (4,), x, y, z, n, BLOCK=256)      its faults, each on its line      %tilecheck
    trace(add, (4,), x, y, z, n, BLOCK=256)      every step, forwards and back     %tilestep
    debug(add, (4,), x, y, z, n, BLOCK=256)      Python's debugger in the kernel   %tiledebug
    compile(add, x, y, z, n, BLOCK=256)          all stages down to machine code   %tileir
    compile(...).layouts()                       where a tile's elements are       %tilelayout
    accesses(add, (4,), x, y, z, n, BLOCK=256)   what its memory accesses cost
    profile(add, (4,), x, y, z, n, BLOCK=256)    what each of its lines takes      %tileprofile
    diagnose(add, x, y, z, n, BLOCK=256, grid=(4,))   why it is slow               %tilediagnose
    tune(add, (4,), x, y, z, n, space={...})     which config is best              %%tiletune
    bisect(add, (4,), x, y, z, n, BLOCK=256)     the pass that changes its result
    validate(add, (4,), x, y, z, n, BLOCK=256)   whether every pass keeps its results
    minimize(add, (4,), x, y, z, n, BLOCK=256)   the smallest launch that fails so
    register_pass(rewrite, after="ttgir.coalesce")   a compiler pass of yours      %%tilepass
    bind(add, (4,), x, y, z, n, BLOCK=256)       the launch, for any of these: check(launch)
    equal(add, other_add, (4,), x, y, z, n, BLOCK=256)   the same for all inputs, or not
    compare(one, other)                          two compilations side by side
    graph(model, x, gpu="h200", backward=True)   torch.compile opened, down to its kernels
    exercise("softmax", softmax)                 a student's kernel, answered       %%tileexercise
    judge("file.py::f", reference, cases)        one verdict on other people's kernels
    load(path)                                   what was saved: compilations, traces, sweeps

`with interpreted():` runs other people's kernels on the CPU. Each function's help has the details
(`kernellab.check?`); `show(record)` displays whatever they give.

Importing this package imports nothing heavy: each public name is imported when first asked for.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # as `typing` has it, whose import takes longer than all of this

if sys.platform != "linux":
    raise ImportError(
        f"KernelLab needs Linux, and this is {sys.platform!r}: Triton, whose compiler it drives, "
        "has wheels for Linux only. No GPU is needed. On Windows use WSL 2; on a Mac a Linux "
        "container (amd64 or arm64); anywhere, Google Colab. The README has the commands."
    )

if TYPE_CHECKING:
    from types import TracebackType

    from IPython.core.interactiveshell import InteractiveShell

    from kernellab.checker.arguments import uninitialized as uninitialized
    from kernellab.checker.check import (
        check as check,
        guarded_launches as guarded_launches,
    )
    from kernellab.checker.minimize import minimize as minimize
    from kernellab.compiler.compare import compare as compare
    from kernellab.compiler.compilations import Compilation as Compilation
    from kernellab.compiler.pipeline import compile as compile
    from kernellab.compiler.records import Resources as Resources
    from kernellab.compiler.registered_passes import register_pass as register_pass
    from kernellab.debugger import debug as debug
    from kernellab.equality.equal import equal as equal
    from kernellab.equality.validation import validate as validate
    from kernellab.errors import (
        ArchiveError as ArchiveError,
        ArgumentError as ArgumentError,
        CompileError as CompileError,
        Deadlock as Deadlock,
        Diagnostic as Diagnostic,
        GpuFault as GpuFault,
        GridError as GridError,
        KernelFault as KernelFault,
        KernelLabError as KernelLabError,
        LayoutError as LayoutError,
        MachineError as MachineError,
        NoSuchStep as NoSuchStep,
        OptionError as OptionError,
        OutOfBounds as OutOfBounds,
        ProfileError as ProfileError,
        TargetError as TargetError,
        UnsupportedOperation as UnsupportedOperation,
    )
    from kernellab.graphs.backend import last_report as last_report
    from kernellab.graphs.captures import backends as backends
    from kernellab.graphs.graph import graph as graph
    from kernellab.graphs.report import GraphReport as GraphReport
    from kernellab.graphs.graph import tracers as tracers
    from kernellab.interpreter.foreign_code import (
        device_function as device_function,
        inline_assembly as inline_assembly,
    )
    from kernellab.judging.judge import judge as judge
    from kernellab.judging.records import Verdict as Verdict
    from kernellab.launch.bisection import bisect as bisect
    from kernellab.launch.preparation import bind as bind
    from kernellab.launch.interception import interpreted as interpreted
    from kernellab.launch.tile_kernel import TileKernel as TileKernel, run as run
    from kernellab.launch.dispatch import WatchedLaunch as WatchedLaunch, on_launch as on_launch
    from kernellab.viz.loading import load as load
    from kernellab.profiling.accesses.counts import accesses as accesses
    from kernellab.profiling.diagnosis.diagnose import diagnose as diagnose
    from kernellab.profiling.profiles.nsight_counters import counters as counters
    from kernellab.profiling.profiles.nsight import read_ncu as read_ncu
    from kernellab.profiling.profiles.nsight import SampledCode as SampledCode
    from kernellab.profiling.profiles.profile import Profile as Profile
    from kernellab.profiling.profiles.session import profile as profile
    from kernellab.records import (
        Launch as Launch,
        Run as Run,
        Specialization as Specialization,
        Stage as Stage,
        Stages as Stages,
        Target as Target,
    )
    from kernellab.records.layouts import Layout as Layout
    from kernellab.records.display import show as show
    from kernellab.tracing.records import Trace as Trace
    from kernellab.tracing.launches import trace as trace
    from kernellab.tuning.tunings import tunings as tunings
    from kernellab.tuning.tuning import Tuning as Tuning
    from kernellab.tuning.tunings import Tunings as Tunings
    from kernellab.tuning.tune import tune as tune
    from kernellab.workshop.grader import exercise as exercise
    from kernellab.workshop.exercise import Answer as Answer
    from kernellab.workshop.course import exercises as exercises

__version__ = "0.1.0"

_PUBLIC = {
    "checker.arguments": "uninitialized",
    "checker.check": "check guarded_launches",
    "checker.minimize": "minimize",
    "compiler.compare": "compare",
    "compiler.compilations": "Compilation",
    "compiler.pipeline": "compile",
    "compiler.records": "Resources",
    "debugger": "debug",
    "equality.equal": "equal",
    "equality.validation": "validate",
    "errors": (
        "ArchiveError ArgumentError CompileError Deadlock Diagnostic GpuFault GridError "
        "KernelFault KernelLabError LayoutError MachineError NoSuchStep OptionError "
        "OutOfBounds ProfileError TargetError UnsupportedOperation"
    ),
    "compiler.registered_passes": "register_pass",
    "graphs.backend": "last_report",
    "graphs.captures": "backends",
    "graphs.graph": "graph tracers",
    "graphs.report": "GraphReport",
    "interpreter.foreign_code": "device_function inline_assembly",
    "judging.judge": "judge",
    "judging.records": "Verdict",
    "launch.bisection": "bisect",
    "launch.dispatch": "WatchedLaunch on_launch",
    "launch.interception": "interpreted",
    "launch.preparation": "bind",
    "launch.tile_kernel": "TileKernel run",
    "viz.loading": "load",
    "profiling.accesses.counts": "accesses",
    "profiling.diagnosis.diagnose": "diagnose",
    "profiling.profiles.nsight": "SampledCode read_ncu",
    "profiling.profiles.nsight_counters": "counters",
    "profiling.profiles.profile": "Profile",
    "profiling.profiles.session": "profile",
    "records": "Launch Run Specialization Stage Stages Target",
    "records.layouts": "Layout",
    "records.display": "show",
    "tracing.records": "Trace",
    "tracing.launches": "trace",
    "tuning.tune": "tune",
    "tuning.tuning": "Tuning",
    "tuning.tunings": "Tunings tunings",
    "workshop.course": "exercises",
    "workshop.exercise": "Answer",
    "workshop.grader": "exercise",
}
"""Module -> the public names that are imported from it when first asked for."""

_HOMES = {name: f"kernellab.{home}" for home, names in _PUBLIC.items() for name in names.split()}

__all__ = [*_HOMES, "__version__", "load_ipython_extension", "unload_ipython_extension"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        from kernellab.errors.exceptions import nearest

        meant = nearest(name, __all__) if not name.startswith("_") else ""
        raise AttributeError(f"module 'kernellab' has no attribute {name!r}. {meant}".rstrip())
    from kernellab.common.system import without_collections

    with without_collections():  # of a first import they would take a quarter
        value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # Leave out the subpackages, so that Tab offers the public API alone.
    return sorted(__all__)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics and their completion; `%load_ext kernellab` calls it."""
    from kernellab.magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove what loading registered; `%unload_ext kernellab` calls it."""
    from kernellab.magics import unload

    unload(shell)


def _advise_on_uncaught() -> None:
    """Print advice below the traceback of a script that ends because a kernel has no source.

    `@triton.jit` raises that error before KernelLab sees the kernel. Notebooks, which do not call
    `sys.excepthook`, advise on it and on others in `magics/first_errors.py`.
    """
    report = sys.excepthook

    def report_with_advice(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        report(kind, error, traceback)
        if kind is ValueError and "should be defined in a Python file" in str(error):
            from kernellab.errors import WITHOUT_SOURCE

            sys.stderr.write(f"{WITHOUT_SOURCE}\n")

    sys.excepthook = report_with_advice


_advise_on_uncaught()
