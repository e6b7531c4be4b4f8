"""`kernellab.load`: whatever was saved, compilations, traces, sweeps, profiles, reports of
torch.compile.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernellab.graphs.report import GraphReport
    from kernellab.records.graphs import GraphCapture

_ZIP_BEGINNING = b"PK\x03\x04"
"""The signature of a zip file's first entry."""

_BEGINNING = 200
"""Bytes of a file of sweeps, from its first, in which it says what it is."""


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Any:
    """Read a compilation, a trace or sweeps from a file, or a compilation
    from what others left on disk.

    A file is data: nothing in it is executed (docs/files.md has the limits, and what runs a saved
    kernel later).

    Args:
        path: a file that `compilation.save`, `trace.save`, `tuning.save` or a report's `save`
            wrote; a folder of Triton's cache (~/.triton/cache/<hash>), or the .json in it; the
            text that `MLIR_ENABLE_DUMP=1` prints; a log of torch.compile, that of `TORCH_TRACE` or
            a folder of `TORCH_COMPILE_DEBUG`; a profile of Proton's (.hatchet), a trace
            in Chrome's form. A record from elsewhere has what is there: a cache folder
            holds no passes, a dump no machine code, neither holds remarks.
        trust: whether code in the file may run later without a question: the modules of a report's
            kernels. Loading itself executes nothing.

    Returns:
        A `Compilation`, a `Trace`, a `Tuning`, or `Tunings` where a file holds several sweeps; a
        `GraphReport`; a `Profile`.

    Raises:
        ArchiveError: there is no such file, it is none of these, it is damaged, of another
            version, or larger than any that is saved.
        OptionError: `trust` is not True or False.
    """
    from kernellab.common.arguments import check_flags

    check_flags(trust=trust)
    loaded = _load(path)
    if trust and hasattr(loaded, "trust"):  # a report of torch.compile
        loaded.trust()
    return loaded


def _load(path: str | os.PathLike[str]) -> Any:
    from kernellab.common.saved_files import GZIP, file_bytes
    from kernellab.common.system import saved_path
    from kernellab.errors import ArchiveError

    file = saved_path(path, ArchiveError)
    if os.path.isdir(file):  # which raises nothing, as Path.is_dir may
        from kernellab.compiler.files import read_cache_folder
        from kernellab.graphs.torch_logs import capture_in_folder

        capture = capture_in_folder(file)
        return read_cache_folder(file) if capture is None else _report(capture)
    if str(file).endswith((".ncu-rep", ".ncu-repz")):
        from kernellab.profiling.profiles.nsight import read_ncu

        return read_ncu(file)
    content = file_bytes(file, ArchiveError)
    if content.startswith(_ZIP_BEGINNING):
        from kernellab.tracing.files import trace_in

        return trace_in(content, file)
    if _is_of_sweeps(content):
        from kernellab.tuning.files import sweeps_in
        from kernellab.tuning.tuning import Tuning
        from kernellab.tuning.tunings import Tunings

        tunings = Tunings(sweeps_in(content, file, Tuning))
        return tunings[0] if len(tunings) == 1 else tunings
    if content.startswith(GZIP):
        from kernellab.graphs.report import FORMAT, capture_in_file

        if FORMAT.begins(content):
            return _report(capture_in_file(content, file))
    from kernellab.profiling.profiles.files import profile_in

    if (profile := profile_in(content, file)) is not None:
        return profile
    from kernellab.graphs.torch_texts import is_trace_log

    if is_trace_log(content):
        from kernellab.graphs.torch_logs import capture_in_log

        return _report(capture_in_log(content, file))
    from kernellab.compiler.files import compilation_in

    return compilation_in(content, file)


def _report(capture: GraphCapture) -> GraphReport:
    from kernellab.graphs.report import GraphReport

    return GraphReport(capture)


def _is_of_sweeps(content: bytes) -> bool:
    """Whether a file says that it holds sweeps, complete or not."""
    start = content[:_BEGINNING]
    return start.lstrip().startswith(b"{") and b'"kernellab.tuning"' in start
