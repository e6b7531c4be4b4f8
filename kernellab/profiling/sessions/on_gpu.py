"""A session of Proton's over launches on a GPU."""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import triton

from kernellab.common.saved_files import BadFile
from kernellab.common.saved_json import Misfit, kernellab_version
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.compiler.targets import local_target
from kernellab.errors import ProfileError
from kernellab.profiling.profiles.files.chrome import chrome_in
from kernellab.profiling.profiles.files.hatchet import hatchet_in
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import PROTON, ProfiledKernel, code_hash
from kernellab.profiling.sessions.interpreted import LaunchMetadata
from kernellab.records import Specialization, Target
from kernellab.triton_api import definition_of, option_names, proton

_CUPTI = re.compile(r"error (?P<number>\d+)")
_CUPTI_WORDS = {
    "15": "CUPTI is not initialized: there is no driver, or it is not this process's",
    "35": "only administrators may profile on this machine",
    "38": "the driver is too old for this CUPTI",
    "39": "another profiler has this process already (Nsight, torch.profiler, a session elsewhere)",
}
"""CUptiResult -> what it means (cupti_result.h)."""

_PERMISSION = (
    "Request from the administrator NVreg_RestrictProfilingToAdminUsers=0 "
    "(developer.nvidia.com/ERR_NVGPUCTRPERM)."
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
        """By the id of Triton's compiled kernel: it, and how often it was launched."""
        self._scopes: list[AbstractContextManager[None]] = []

    def activate(self) -> None:
        """Begin, or go on.

        Raises:
            ProfileError: Proton cannot.
        """
        try:
            if self._number is None:
                self._number = proton.start(
                    self._folder / "profile",
                    context=self._options.context,
                    data=self._options.data,
                    backend=self._options.backend,
                    mode=self._options.mode,
                    hook=self._options.hook,
                )
                _open.append(self)
            else:
                proton.activate(self._number)
        except proton.ProtonRefused as error:
            if self._number is None:
                shutil.rmtree(self._folder, ignore_errors=True)
            raise _refused(error) from error
        heard = proton.LaunchListener(self._saw, self._metadata_of)
        self._watching.enter_context(proton.launches_heard(heard))

    def deactivate(self) -> None:
        """Pause.

        Raises:
            ProfileError: Proton cannot.
        """
        self._watching.close()
        assert self._number is not None
        try:
            proton.deactivate(self._number)
        except proton.ProtonRefused as error:
            raise _refused(error) from error

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        """A scope begins, in all of Proton's sessions."""
        scope = proton.scope(name, metrics)
        scope.__enter__()
        self._scopes.append(scope)

    def leave(self) -> None:
        """The innermost scope ends."""
        if self._scopes:
            self._scopes.pop().__exit__(None, None, None)

    def finish(self, name: str) -> Profile:
        """Everything that was measured; whatever goes wrong, nothing is left on.

        Raises:
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
            proton.finalize(self._number, is_last=not _open)
        except proton.ProtonRefused as error:
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
        except (BadFile, Misfit) as error:
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
        return replace(
            read_profile,
            name=name,
            machine=replace(
                read_profile.machine, target=str(local_target() or ""), device=_device(),
                versions=_versions(),
            ),
            kernels=tuple(kernel_of(*seen) for seen in self._launches.values()),
            notes=(*notes, *read_profile.notes),
        )  # fmt: skip

    def _saw(self, compiled: Any) -> None:
        self._launches.setdefault(id(compiled), [compiled, 0])[1] += 1


def kernel_of(compiled: Any, launches: int = 1) -> ProfiledKernel:
    """A kernel that Triton has compiled and launched; its Compilation is made when asked for."""
    metadata, source = compiled.metadata, compiled.src
    function = getattr(source, "fn", None)
    options = {
        name: getattr(metadata, name)
        for name in ("num_warps", "num_stages", "num_ctas")
        if hasattr(metadata, name)
    }
    code = code_hash(compiled.asm)
    if function is None:
        return ProfiledKernel(str(compiled.name), launches, options, code)
    place = definition_of(function)
    constants = {
        function.arg_names[path[0]]: value
        for path, value in source.constants.items()
        if len(path) == 1
    }
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
    call = BoundCall(specialization, {}, compile_options)
    return ProfiledKernel(
        name=str(compiled.name),
        launches=launches,
        options={**constants, **options},
        code=code,
        file=place.file,
        line=place.line,
        compile=lambda: compile_bound(function, call, target, record="passes"),
    )


def _as_tuple(value: Any) -> Any:
    """What a tuple was before Triton kept it as JSON."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _finished_work() -> str | None:
    """Wait for what was launched; what went wrong in it, or None."""
    try:
        torch.cuda.synchronize()
    except Exception as error:  # whatever class torch has for a fault on the GPU
        words = str(error).strip().split("\n")[0]
        return f"A launch faulted while it was profiled: {words}. Measurements may be missing."
    return None


def _refused(error: proton.ProtonRefused) -> ProfileError:
    words = str(error)
    match = _CUPTI.search(words)
    number = match["number"] if match and "upti" in words else ""
    meaning = _CUPTI_WORDS.get(number, "")
    said = f"Proton cannot profile here: {words.rstrip('.')}{f' ({meaning})' if meaning else ''}."
    return ProfileError(
        said,
        advice=_PERMISSION
        if number == "35"
        else 'On the CPU, kernellab.profile(backend="interpreter") profiles runs of the '
        "interpreter; kernellab doctor says which GPU is here.",
    )


def _device() -> str:
    try:
        return str(torch.cuda.get_device_name())
    except Exception:  # a lost context
        return ""


def _versions() -> dict[str, str]:
    return {
        "kernellab": kernellab_version(),
        "triton": triton.__version__,
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda or torch.version.hip or ""),
        "python": platform.python_version(),
    }
