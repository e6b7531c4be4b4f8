"""`kernellab.profile`: one launch, or all in a `with` block, profiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from kernellab.common.argument_checks import (
    check_choice,
    check_flags,
    check_whole,
    is_one_of,
)
from kernellab.common.formatting import shown
from kernellab.common.own_options import parameters_first
from kernellab.compiler.specialization.inductor_kernels import as_triton_kernel
from kernellab.compiler.specialization.unwrapping import parameter_names
from kernellab.compiler.targets import local_target
from kernellab.errors import ArgumentError, OptionError, ProfileError
from kernellab.launch.bound_launches import bound_launch
from kernellab.launch.preparation import Grid, goes_to_gpu, innermost
from kernellab.launch.tile_kernel import run
from kernellab.profiling.line_scopes.placing import DETAILS, Detail
from kernellab.profiling.line_scopes.profiling import LineOptions, profile_on_gpu
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.sessions.interpreted import InterpreterSession
from kernellab.profiling.sessions.on_gpu import GpuSession, ProtonOptions
from kernellab.profiling.sessions.session import Measuring, ProfileSession

BACKENDS = ("interpreter", "cupti", "roctracer")
CONTEXTS = ("shadow", "python")
DATA = ("tree", "trace")


@dataclass(frozen=True)
class _Options:
    """The options of `profile`; see there."""

    name: str
    proton: ProtonOptions
    lines: LineOptions

    def check(self) -> None:
        """Raise OptionError for an option that is not valid."""
        proton, lines = self.proton, self.lines
        if lines.detail is not None:
            check_choice("detail", lines.detail, DETAILS)
        check_flags(allow_occupancy_change=lines.allow_occupancy_change)
        check_whole("programs", lines.programs, 1)
        if not isinstance(self.name, str):
            raise OptionError(f"name must be a string, got {shown(self.name)}.")
        if proton.backend is not None:
            check_choice("backend", proton.backend, BACKENDS)
        check_choice("context", proton.context, CONTEXTS)
        check_choice("data", proton.data, DATA)
        hook = proton.hook
        if not (callable(hook) or hook is None or is_one_of(hook, ("triton",))):
            raise OptionError(
                f'hook must be a function, "triton" or None, got {shown(hook)}.',
                advice='Pass "triton", None, or a function of grid, metadata and arguments that '
                'gives {"name": ..., "flops16": ..., "bytes": ...}.',
            )
        mode = "" if proton.mode is None else str(proton.mode)
        check_choice("mode", mode, MODES, mode.partition(":")[0])

    def session(self) -> ProfileSession:
        """The requested session."""
        return ProfileSession(self._measuring, self.name)

    def _measuring(self) -> Measuring:
        proton = self.proton
        describe = proton.hook if callable(proton.hook) else None
        if proton.backend == "interpreter" or (proton.backend is None and local_target() is None):
            if proton.mode or proton.data != "tree":
                raise ProfileError(
                    f"mode={shown(proton.mode)} and data={shown(proton.data)} are Proton's, and "
                    "there is no GPU here for it to measure.",
                    advice="Without them, runs on the interpreter are profiled.",
                )
            return InterpreterSession(proton.context, describe)
        hook = "triton" if proton.hook is not None else None
        on_gpu = GpuSession(replace(proton, hook=hook), describe)
        if proton.is_plain:
            return SessionOnBoth(on_gpu, InterpreterSession(proton.context, describe))
        return on_gpu


MODES = ("", "pcsampling", "periodic_flushing")


@parameters_first(parameter_names)
def profile(
    kernel: Any = None,
    grid: Grid = None,
    args: tuple[Any, ...] = (),
    keywords: Any = None,
    *,
    name: str = "",
    backend: str | None = None,
    context: str = "shadow",
    data: str = "tree",
    mode: Any = None,
    hook: Any = "triton",
    detail: str | None = None,
    allow_occupancy_change: bool = False,
    programs: int = 64,
) -> Any:
    """Profile one launch, which is carried out in place; without a kernel, all launches in a
    `with` block.

        kernellab.profile(add, grid, x, y, z, n, BLOCK=1024).lines

        with kernellab.profile() as p:
            with p.scope("step", loss=0.3):
                add[grid](x, y, z, n, BLOCK=1024)
        p.table(["time/ms", "gbyte/s"])

    One launch on a GPU gets cycles for each line, by marks between the operations of its final
    TTGIR; a `with` block on a GPU is a session of Proton's. With no GPU, and for tensors on the
    CPU, the launches run on the interpreter, and it measures: time on this CPU, executions, bytes
    and floating-point operations of each line. Such a profile says "interpreter: not a GPU's time"
    wherever it is shown. A `with` block that has launches on both is the profile of those on the
    GPU, and `p.interpreted` is that of the others.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`, or a bound launch; or none of them.
        name: of the profile.
        backend: who measures: "interpreter", or Proton's "cupti" (NVIDIA), "roctracer" (AMD). None
            chooses as above; a launch that is given a backend of Proton's has no cycles by line.
        context: what a launch is below: the user's scopes, "shadow", or also frames, "python".
        data: of Proton: "tree", or "trace" for every launch with its time.
        mode: of Proton: "pcsampling" for samples with their stall reasons on each line.
        hook: "triton" names launches, and gives their metrics, by the kernel's `launch_metadata`. A
            function of grid, metadata and arguments by name does it for kernels that have none:
            {"name": "add_<num_warps:4>", "flops32": n, "bytes": 12 * n}. None for neither.
        detail: of cycles by line: how finely: "operations", "lines", "loops" or "program". None
            takes the finest that takes at most 1.3 times as long as the plain launch.
        allow_occupancy_change: of cycles by line: whether a multiprocessor may hold another number
            of programs than without marks.
        programs: of cycles by line: of how many programs, spread over the grid.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Returns:
        The Profile of a launch; without a kernel a `ProfileSession`, which is a context, has
        `start`, `stop`, `activate`, `deactivate`, and when it is over is its profile.

    Raises:
        ProfileError: nothing can be measured here: no CUPTI, no permission. When a session starts.
        OptionError: an option that no one takes.
        ArgumentError, GridError, CompileError, UnsupportedOperation, KernelFault: as
            `kernellab.run`.
    """
    __tracebackhide__ = True
    proton = ProtonOptions(context, data, backend, mode, hook)
    own = _Options(
        name, proton, LineOptions(cast("Detail | None", detail), allow_occupancy_change, programs)
    )
    if kernel is None:
        own.check()
        if grid is not None or args or keywords:
            raise ArgumentError(
                "a launch was given without its kernel",
                advice="Write kernellab.profile(kernel, grid, *args), or kernellab.profile() alone "
                "for a with block.",
            )
        return own.session()
    launch = bound_launch("profile", kernel, grid, args, keywords)
    grid, args, keywords = launch.grid, launch.args, dict(launch.keywords)
    kernel = as_triton_kernel(launch.kernel)
    inside = innermost(kernel)
    own.check()
    if backend is None and not goes_to_gpu(inside, args, keywords):
        own = replace(own, proton=replace(proton, backend="interpreter"))
    elif proton.is_plain:
        record = profile_on_gpu(kernel, grid, args, keywords, own.lines)
        return replace(record, name=name or record.name)
    with own.session() as session:
        run(kernel, grid, *args, **keywords)
    return session.profile


class SessionOnBoth:
    """Profiles launches on the GPU and on the interpreter while it is active; see `ProfileSession`.

    Its profile is of the launches on the GPU; where there were none, of those on the interpreter.
    """

    def __init__(self, on_gpu: GpuSession, on_cpu: InterpreterSession) -> None:
        self.interpreted: Profile | None = None
        self._on_gpu = on_gpu
        self._on_cpu = on_cpu

    def activate(self) -> None:
        """Begin, or go on.

        Raises:
            ProfileError: Proton cannot.
        """
        self._on_gpu.activate()
        self._on_cpu.activate()

    def deactivate(self) -> None:
        """Pause.

        Raises:
            ProfileError: Proton cannot.
        """
        self._on_cpu.deactivate()
        self._on_gpu.deactivate()

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        """A scope begins; sessions on the interpreter hear of Proton's scopes."""
        self._on_gpu.enter(name, metrics)

    def leave(self) -> None:
        """The innermost scope ends."""
        self._on_gpu.leave()

    def finish(self, name: str) -> Profile:
        """Everything that was measured.

        Raises:
            ProfileError: Proton wrote nothing that can be read, and nothing ran on the interpreter.
        """
        on_cpu = self._on_cpu.finish(name)
        launches = self._on_cpu.launches
        try:
            on_gpu = self._on_gpu.finish(name)
        except ProfileError:
            if launches:
                return on_cpu
            raise
        if not launches:
            return on_gpu
        if not any(scope.kind == "kernel" for scope in on_gpu.root.walk()):
            return on_cpu
        self.interpreted = on_cpu
        note = (
            f"Launches with CPU tensors, {launches:,} in all, ran on the interpreter: the "
            "session's `interpreted` is their profile."
        )
        return replace(on_gpu, notes=(note, *on_gpu.notes))
