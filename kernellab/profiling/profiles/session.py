"""`kernellab.profile`: one launch, or all in a `with` block, profiled; and sessions of Proton."""

from __future__ import annotations

import functools
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, TypeVar, cast

import torch

from kernellab.common import arguments
from kernellab.common.saved_files import BadFile, SchemaError
from kernellab.common.text import shown
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.kernels import as_triton_kernel, parameter_names
from kernellab.compiler.targets import local_target
from kernellab.errors import ArgumentError, OptionError, ProfileError
from kernellab.launch.argument_copies import integers_of
from kernellab.launch.interception import interpreted
from kernellab.launch.preparation import Grid, bound_launch, goes_to_gpu, innermost
from kernellab.launch.tile_kernel import run
from kernellab.profiling.profiles.files import chrome_in, hatchet_in
from kernellab.profiling.profiles.interpreter_session import (
    SHOWN_OPTIONS,
    InterpreterSession,
    LaunchMetadata,
    kernel_facts,
    versions,
)
from kernellab.profiling.profiles.line_marks import DETAILS, Detail
from kernellab.profiling.profiles.line_profile import LineOptions, profile_on_gpu
from kernellab.profiling.profiles.profile import Profile, ProfileDifference
from kernellab.profiling.profiles.records import PROTON, ProfiledKernel, code_hash
from kernellab.records import Specialization, Target
from kernellab.triton_api import option_names
from kernellab.triton_api import proton as proton_api
from kernellab.triton_api.emulation import current_emulation, current_gpu

_P = ParamSpec("_P")
_R = TypeVar("_R")


class ProfileSession:
    """A profile that is being measured: a context, or `start()` and `stop()`. When it is over, it
    answers as its profile does: `p.table()`, `p.tree()`, `p.lines`.

    Attributes:
        interpreted: the profile of the interpreter's launches beside the GPU's; else None.
    """

    interpreted: Profile | None = None

    def __init__(self, measuring: Callable[[], Measuring], name: str = "") -> None:
        self.name = name
        self._make = measuring
        self._measuring: Measuring | None = None
        self._profile: Profile | None = None
        self._state: Literal["new", "active", "paused", "over"] = "new"

    # From start to stop

    def start(self) -> ProfileSession:
        """Begin to measure. Raises ProfileError: nothing can be measured; it was started before."""
        if self._state != "new":
            raise ProfileError(
                f"This session was started before: it is {self._state}.",
                advice="Use activate() after deactivate(). Call kernellab.profile() again for "
                "another profile.",
            )
        measuring = self._make()
        measuring.activate()
        self._measuring, self._state = measuring, "active"
        return self

    def activate(self) -> None:
        """Go on after `deactivate`. Raises ProfileError: the session is not started, or is over."""
        measuring = self._running("activate")
        if self._state == "paused":
            measuring.activate()
            self._state = "active"

    def deactivate(self) -> None:
        """Leave out what is launched from now on. Raises ProfileError: as `activate`."""
        measuring = self._running("deactivate")
        if self._state == "active":
            self._state = "paused"
            measuring.deactivate()

    def stop(self) -> Profile:
        """End the session; the profile. Stopped again, it is the same. Raises ProfileError: the
        session was not started, or nothing could be read.
        """
        if self._profile is None:
            measuring = self._running("stop")
            self._state = "over"
            self._profile = measuring.finish(self.name)
            self.interpreted = measuring.interpreted
        return self._profile

    def __enter__(self) -> ProfileSession:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._state == "over":
            return
        if error is None:
            self.stop()
        else:  # which continues; a profile that cannot be read shall not hide it
            with suppress(ProfileError):
                self.stop()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """As a decorator: calls of the function are profiled, all in this session."""

        @functools.wraps(function)
        def called(*args: _P.args, **keywords: _P.kwargs) -> _R:
            if self._state == "new":
                self.start()
            else:
                self.activate()
            try:
                return function(*args, **keywords)
            finally:
                self.deactivate()

        return called

    # Scopes

    @contextmanager
    def scope(self, name: str, **metrics: float) -> Iterator[None]:
        """A scope with a name and metrics of the user's choice: `with p.scope("step", loss=0.3)`.

        Raises:
            ArgumentError: the name is not a string, or a metric is not a number.
            ProfileError: the session is not running.
        """
        if not isinstance(name, str):
            raise ArgumentError(
                f"The name of a scope must be a string, got {shown(name)}.",
                advice='Write profile.scope("forward"), for example.',
            )
        for key, value in metrics.items():
            if not arguments.is_real(value) and not hasattr(value, "data_ptr"):
                raise ArgumentError(
                    f"The metric {key!r} of scope {name!r} must be a number, got {shown(value)}."
                )
        measuring = self._running("scope")
        measuring.enter(name, metrics)
        try:
            yield
        finally:
            if self._state != "over":
                measuring.leave()

    # Afterwards

    @property
    def profile(self) -> Profile:
        """The profile. Raises ProfileError: the session is not over yet."""
        if self._profile is None:
            raise ProfileError(
                "The profile is not there yet: the session is not over."
                if self._state in ("active", "paused")
                else "There is no profile: the session was not started."
                if self._state == "new"
                else "There is no profile: what was measured could not be read.",
                advice="Leave the block `with kernellab.profile() as p:`, or call p.stop().",
            )
        return self._profile

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not hasattr(Profile, name) and name not in Profile.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.profile, name)

    def _ipython_display_(self) -> None:
        if self._profile is None:
            raise NotImplementedError  # IPython then calls `_repr_mimebundle_`
        self._profile._ipython_display_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        if self._profile is None:
            return {"text/plain": repr(self)}
        return self._profile._repr_mimebundle_(include, exclude)

    def __sub__(self, other: Any) -> ProfileDifference:
        return self.profile.diff(other)

    def __str__(self) -> str:
        return repr(self) if self._profile is None else str(self._profile)

    def __repr__(self) -> str:
        return f"<profile session, {self._state}>"

    def _running(self, what: str) -> Measuring:
        if self._measuring is None or self._state == "over":
            raise ProfileError(
                f"{what}: the session {'is over' if self._state == 'over' else 'is not started'}.",
                advice="Start a session: use `with kernellab.profile() as p:`, or call p.start().",
            )
        return self._measuring


_CUPTI = re.compile(r"error (?P<number>\d+)")
_CUPTI_WORDS = {
    "15": "CUPTI is not initialized: there is no GPU driver, or this process cannot access it",
    "35": "only administrators may profile on this machine",
    "38": "the driver is too old for this CUPTI",
    "39": "another profiler (Nsight, torch.profiler, a session) already profiles this process",
}
"""CUptiResult -> what it means (cupti_result.h)."""

_PERMISSION = (
    "Have an administrator load the nvidia module with the option "
    "NVreg_RestrictProfilingToAdminUsers=0 (developer.nvidia.com/ERR_NVGPUCTRPERM)."
)

_open: list[GpuSession] = []
"""The sessions that are not over."""


@dataclass(frozen=True)
class ProtonOptions:
    """How Proton is to profile; see `kernellab.profile`."""

    context: str = "shadow"
    data: str = "tree"
    backend: str | None = None
    mode: Any = None
    hook: Any = "triton"

    @property
    def is_plain(self) -> bool:
        """Whether nothing of it is requested that only Proton has."""
        return self.backend is None and self.mode is None and self.data == "tree"


class GpuSession:
    """Profiles launches on a GPU while it is active; see `ProfileSession`."""

    interpreted: Profile | None = None

    def __init__(self, options: ProtonOptions, metadata_of: LaunchMetadata | None) -> None:
        self._options = options
        self._metadata_of = metadata_of
        self._number: int | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="kernellab-proton-"))
        self._watching = ExitStack()
        self._launches: dict[int, list[Any]] = {}
        """By compiled kernel's id: it, its launches, the first one's grid and integers."""
        self._scopes: list[AbstractContextManager[None]] = []

    def activate(self) -> None:
        """Begin, or continue. Raises ProfileError: Proton cannot."""
        try:
            if self._number is None:
                self._number = proton_api.start(self._folder / "profile", **vars(self._options))
                _open.append(self)
            else:
                proton_api.activate(self._number)
        except proton_api.ProtonRefused as error:
            if self._number is None:
                shutil.rmtree(self._folder, ignore_errors=True)
            raise _refused(error) from error
        heard = proton_api.LaunchListener(self._saw, self._metadata_of)
        self._watching.enter_context(proton_api.launches_heard(heard))

    def deactivate(self) -> None:
        """Pause. Raises ProfileError: Proton cannot."""
        self._watching.close()
        assert self._number is not None
        try:
            proton_api.deactivate(self._number)
        except proton_api.ProtonRefused as error:
            raise _refused(error) from error

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        """A scope begins, in all of Proton's sessions."""
        scope = proton_api.scope(name, metrics)
        scope.__enter__()
        self._scopes.append(scope)

    def leave(self) -> None:
        if self._scopes:
            self._scopes.pop().__exit__(None, None, None)

    def finish(self, name: str) -> Profile:
        """Everything that was measured; whatever goes wrong, nothing is left on. Raises
        ProfileError: Proton wrote nothing that can be read.
        """
        assert self._number is not None
        self._watching.close()
        notes: list[str] = []
        try:
            if (trouble := _finished_work()) is not None:
                notes.append(trouble)
            if self in _open:
                _open.remove(self)
            proton_api.finalize(self._number, is_last=not _open)
        except proton_api.ProtonRefused as error:
            notes.append(f"Proton ended the session with: {error}")
        try:
            return self._read(name, notes)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self, name: str, notes: list[str]) -> Profile:
        files = sorted(file for file in self._folder.iterdir() if file.is_file())
        if not files:
            said = " ".join(notes)
            raise ProfileError(
                f"Proton wrote no profile of this session. {said}".rstrip(),
                advice="After a launch that faulted, nothing of this process runs on the GPU: "
                "start another, and try kernellab.check(kernel, grid, *args) on CPU copies.",
            )
        read = chrome_in if self._options.data == "trace" else hatchet_in
        try:
            read_profile = read(files[0].read_bytes(), PROTON)
        except (BadFile, SchemaError) as error:
            raise ProfileError(f"Proton's file cannot be read: {error}.") from error
        if not any(scope.kind == "kernel" for scope in read_profile.root.walk()):
            notes.append(
                "No kernel was measured: none was launched on the GPU, or its records were lost."
            )
        if "pcsampling" in str(self._options.mode) and not read_profile.line_records:
            notes.append(
                "No samples of lines: a kernel that was loaded before the session has none, nor "
                "one that runs for some microseconds only."
            )
        toolkit = str(torch.version.cuda or torch.version.hip or "")
        return replace(
            read_profile,
            name=name,
            machine=replace(
                read_profile.machine, target=str(local_target() or ""), device=_device(),
                versions=versions(torch=str(torch.__version__), cuda=toolkit),
            ),
            kernels=tuple(kernel_of(*seen) for seen in self._launches.values()),
            notes=(*notes, *read_profile.notes),
        )  # fmt: skip

    def _saw(self, compiled: Any, grid: Sequence[int], values: Mapping[str, Any]) -> None:
        if id(compiled) not in self._launches:
            sizes = (*grid, 1, 1)[:3]
            self._launches[id(compiled)] = [compiled, 0, sizes, integers_of(values)]
        self._launches[id(compiled)][1] += 1


def kernel_of(
    compiled: Any,
    launches: int = 1,
    grid: tuple[int, int, int] | None = None,
    integers: Mapping[str, int] | None = None,
) -> ProfiledKernel:
    """A kernel that Triton has compiled and launched; its Compilation is made when asked for."""
    metadata, source = compiled.metadata, compiled.src
    function = getattr(source, "fn", None)
    options = {name: getattr(metadata, name) for name in SHOWN_OPTIONS if hasattr(metadata, name)}
    code = code_hash(compiled.asm)
    if function is None:
        return ProfiledKernel(str(compiled.name), launches, options, code)
    target = Target(metadata.target.backend, str(metadata.target.arch))
    signature, attributes = dict(source.signature), dict(source.attrs)
    specialization = Specialization(
        signature, dict(source.constants), attributes, dict.fromkeys(signature, "launch")
    )
    compile_options = {
        name: _as_tuple(getattr(metadata, name))
        for name in option_names(target)
        if hasattr(metadata, name)
    }
    return kernel_facts(
        function,
        BoundCall(specialization, {}, compile_options),
        target,
        options,
        name=str(compiled.name),
        launches=launches,
        code=code,
        grid=grid,
        integers=integers or {},
    )


def _as_tuple(value: Any) -> Any:
    """A tuple as it was before Triton kept it as JSON."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _finished_work() -> str | None:
    """Wait for what was launched; what went wrong in it, or None."""
    try:
        torch.cuda.synchronize()
    except Exception as error:  # whatever class torch has for a fault on the GPU
        words = str(error).strip().split("\n")[0]
        return f"A launch faulted while it was profiled: {words}. Measurements may be missing."
    return None


def _refused(error: proton_api.ProtonRefused) -> ProfileError:
    words = str(error)
    match = _CUPTI.search(words)
    number = match["number"] if match and "upti" in words else ""
    meaning = _CUPTI_WORDS.get(number, "")
    said = f"Proton cannot profile here: {words.rstrip('.')}{f' ({meaning})' if meaning else ''}."
    return ProfileError(
        said,
        advice=_PERMISSION
        if number == "35"
        else "Run `kernellab doctor` to see which GPU is available. Without a GPU, use "
        'kernellab.profile(backend="interpreter").',
    )


def _device() -> str:
    try:
        return str(torch.cuda.get_device_name())
    except Exception:  # a lost context
        return ""


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
        proton, lines = self.proton, self.lines
        if lines.detail is not None:
            arguments.check_choice("detail", lines.detail, DETAILS)
        arguments.check_flags(allow_occupancy_change=lines.allow_occupancy_change)
        arguments.check_whole("programs", lines.programs, 1)
        if not isinstance(self.name, str):
            raise OptionError(
                f"name must be a string, got {shown(self.name)}.",
                advice='Write name="forward", for example.',
            )
        if proton.backend is not None:
            arguments.check_choice("backend", proton.backend, BACKENDS)
        arguments.check_choice("context", proton.context, CONTEXTS)
        arguments.check_choice("data", proton.data, DATA)
        hook = proton.hook
        if not (callable(hook) or hook is None or arguments.is_one_of(hook, ("triton",))):
            raise OptionError(
                f'hook must be a function, "triton" or None, got {shown(hook)}.',
                advice='Pass "triton", None, or a function of grid, metadata and arguments that '
                'gives {"name": ..., "flops16": ..., "bytes": ...}.',
            )
        mode = "" if proton.mode is None else str(proton.mode)
        arguments.check_choice("mode", mode, MODES, mode.partition(":")[0])

    def session(self) -> ProfileSession:
        return ProfileSession(self._measuring, self.name)

    def _measuring(self) -> Measuring:
        proton = self.proton
        describe = proton.hook if callable(proton.hook) else None
        if proton.backend == "interpreter" or (proton.backend is None and local_target() is None):
            if proton.mode or proton.data != "tree":
                raise ProfileError(
                    f"mode={shown(proton.mode)} and data={shown(proton.data)} are options of "
                    "Proton, which needs a GPU, and there is none here.",
                    advice="Remove them to profile runs on the interpreter.",
                )
            return _SessionWithoutGpu(proton.context, describe)
        hook = "triton" if proton.hook is not None else None
        on_gpu = GpuSession(replace(proton, hook=hook), describe)
        if proton.is_plain:
            return SessionOnBoth(on_gpu, InterpreterSession(proton.context, describe))
        return on_gpu


MODES = ("", "pcsampling", "periodic_flushing")


@arguments.parameters_first(parameter_names)
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
    """Profile one launch, which runs in place; or, without a kernel, all launches in a `with`
    block.

        kernellab.profile(add, grid, x, y, z, n, BLOCK=1024).lines

        with kernellab.profile() as p:
            with p.scope("step", loss=0.3):
                add[grid](x, y, z, n, BLOCK=1024)
        p.table(["time/ms", "gbyte/s"])

    On a GPU, one launch gets the cycles of each line, from marks between the operations of its
    final TTGIR, and a `with` block is a session of Proton. On the CPU, the launches run on the
    interpreter, which measures the time on this CPU, and the executions, bytes and floating-point
    operations of each line. Such a profile says "interpreter: not a GPU's time" wherever it is
    shown. If a `with` block has launches on both, the profile has those on the GPU, and
    `p.interpreted` has the others.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`, or a bound launch; or nothing.
        name: the name of the profile.
        backend: "interpreter", or Proton's "cupti" (NVIDIA) or "roctracer" (AMD). None selects it
            as described above. With a Proton backend, one launch has no cycles by line.
        context: what launches are grouped by: the user's scopes, "shadow", or also Python frames,
            "python".
        data: of Proton: "tree", or "trace" for each launch with its time.
        mode: of Proton: "pcsampling" samples the stall reasons of each line.
        hook: "triton" takes names and metrics of launches from the kernel's `launch_metadata`. For
            a kernel without it, a function of grid, metadata and arguments returns them:
            {"name": "add_<num_warps:4>", "flops32": n, "bytes": 12 * n}. None for neither.
        detail: how fine cycles by line are: "operations", "lines", "loops" or "program". None
            selects the finest one that makes the launch at most 1.3 times as long.
        allow_occupancy_change: whether the marks may change how many programs run on a
            multiprocessor.
        programs: the number of programs, spread over the grid, that cycles by line are read from.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Returns:
        The Profile of a launch. Without a kernel a `ProfileSession`: a context manager with
        `start`, `stop`, `activate` and `deactivate`, which is the profile when it has ended.

    Raises:
        ProfileError: nothing can be measured on this machine: CUPTI or a permission is missing.
        OptionError: an option does not exist.
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
                "A launch was given without its kernel.",
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


class _SessionWithoutGpu(InterpreterSession):
    """Profiles launches on the interpreter, to which ordinary kernels go as well while it is
    active: `kernellab.interpreted()`, unless an emulation is active already.
    """

    _interpreted: interpreted | None = None

    def activate(self) -> None:
        if current_gpu() is None and current_emulation() is None:
            self._interpreted = interpreted()
            self._interpreted.__enter__()
        super().activate()

    def deactivate(self) -> None:
        super().deactivate()
        if self._interpreted is not None:
            self._interpreted.__exit__(None, None, None)
            self._interpreted = None


class SessionOnBoth:
    """Profiles launches on the GPU, or if there are none, on the interpreter."""

    def __init__(self, on_gpu: GpuSession, on_cpu: InterpreterSession) -> None:
        self.interpreted: Profile | None = None
        self._on_gpu = on_gpu
        self._on_cpu = on_cpu

    def activate(self) -> None:
        """Begin, or continue. Raises ProfileError: Proton cannot."""
        self._on_gpu.activate()
        self._on_cpu.activate()

    def deactivate(self) -> None:
        """Pause. Raises ProfileError: Proton cannot."""
        self._on_cpu.deactivate()
        self._on_gpu.deactivate()

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        """A scope begins; sessions on the interpreter are notified of Proton's scopes."""
        self._on_gpu.enter(name, metrics)

    def leave(self) -> None:
        self._on_gpu.leave()

    def finish(self, name: str) -> Profile:
        """Everything that was measured. Raises ProfileError: Proton wrote nothing that can be read,
        and nothing ran on the interpreter.
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


Measuring = GpuSession | InterpreterSession | SessionOnBoth
"""Who measures: Proton, the interpreter, or both."""
