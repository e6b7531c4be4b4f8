"""`kernellab.profile`: one launch, or all in a `with` block, profiled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kernellab.common.argument_checks import check_choice, check_flags, check_whole, is_text
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.formatting import shown
from kernellab.compiler.specialization.inductor_kernels import as_triton_kernel
from kernellab.compiler.targets import local_target
from kernellab.errors import ArgumentError, OptionError, ProfileError
from kernellab.launch.preparation import Grid, apart_from_parameters, goes_to_gpu, innermost
from kernellab.launch.tile_kernel import run
from kernellab.profiling.line_scopes.placing import DETAILS
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
    """What `profile` itself is told; see there."""

    name: Any = ""
    backend: Any = None
    context: Any = "shadow"
    data: Any = "tree"
    mode: Any = None
    hook: Any = "triton"
    detail: Any = None
    allow_occupancy_change: Any = False
    programs: Any = 64

    @property
    def lines(self) -> LineOptions:
        """Those of cycles by line."""
        return LineOptions(self.detail, bool(self.allow_occupancy_change), int(self.programs))

    def check(self) -> None:
        """Refuse what is no option.

        Raises:
            OptionError: an option is none.
        """
        if self.detail is not None:
            check_choice("detail", self.detail, DETAILS)
        check_flags(allow_occupancy_change=self.allow_occupancy_change)
        check_whole("programs", self.programs, 1)
        if not is_text(self.name):
            raise OptionError(f"name={shown(self.name)} is no text.")
        if self.backend is not None:
            check_choice("backend", self.backend, BACKENDS)
        check_choice("context", self.context, CONTEXTS)
        check_choice("data", self.data, DATA)
        if not callable(self.hook) and self.hook not in (None, "triton"):
            raise OptionError(
                f"hook={shown(self.hook)} is no hook.",
                advice='Give "triton", None, or a function of grid, metadata and arguments that '
                'gives {"name": ..., "flops16": ..., "bytes": ...}.',
            )
        mode = "" if self.mode is None else self.mode if is_text(self.mode) else str(self.mode)
        check_choice("mode", mode, MODES, mode.partition(":")[0])

    def session(self) -> ProfileSession:
        """The session that was asked for."""
        return ProfileSession(self._measuring, self.name)

    def _measuring(self) -> Measuring:
        describe = self.hook if callable(self.hook) else None
        if self.backend == "interpreter" or (self.backend is None and local_target() is None):
            if self.mode or self.data != "tree":
                raise ProfileError(
                    f"mode={shown(self.mode)} and data={shown(self.data)} are Proton's, and "
                    "there is no GPU here for it to measure.",
                    advice="Without them, runs on the interpreter are profiled.",
                )
            return InterpreterSession(self.context, describe)
        hook = "triton" if self.hook is not None else None
        asked = ProtonOptions(self.context, self.data, self.backend, self.mode, hook)
        return GpuSession(asked, describe)


MODES = ("", "pcsampling", "periodic_flushing")


@names_bad_arguments
def profile(
    kernel: Any = None,
    grid: Grid = None,
    *args: Any,
    name: str = "",
    backend: str | None = None,
    context: str = "shadow",
    data: str = "tree",
    mode: Any = None,
    hook: Any = "triton",
    detail: str | None = None,
    allow_occupancy_change: bool = False,
    programs: int = 64,
    **keywords: Any,
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
    wherever it is shown.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`; or none of them.
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
        OptionError: an option that nobody takes.
        ArgumentError, GridError, CompileError, UnsupportedOperation, KernelFault: as
            `kernellab.run`.
    """
    __tracebackhide__ = True
    own = _Options(
        name, backend, context, data, mode, hook, detail, allow_occupancy_change, programs
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
    kernel = as_triton_kernel(kernel)
    inside = innermost(kernel)
    own, keywords = apart_from_parameters(own, inside, args, keywords)
    own.check()
    if own.backend is None:
        if not goes_to_gpu(inside, args, keywords):
            own = replace(own, backend="interpreter")
        elif own.mode is None and own.data == "tree":
            found = profile_on_gpu(kernel, grid, args, keywords, own.lines)
            return replace(found, name=own.name or found.name)
    return _launched(own, kernel, grid, args, keywords)


def _launched(
    own: _Options, kernel: Any, grid: Grid, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Profile:
    """The profile of one launch."""
    __tracebackhide__ = True
    with own.session() as session:
        run(kernel, grid, *args, **keywords)
    return session.profile
