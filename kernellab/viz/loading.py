"""`kernellab.load`: saved compilations, traces, sweeps, profiles, graph reports."""

from __future__ import annotations

import os
from typing import Any

_ZIP_BEGINNING = b"PK\x03\x04"
"""The signature of a zip file's first entry."""

_BEGINNING = 200
"""Bytes of a file of sweeps, from its first, in which it says what it is."""


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Any:
    """Read a compilation, a trace, sweeps, a report or a profile from a file, or a compilation that
    Triton left on disk.

    Files are data: nothing in them is executed. docs/files.md lists the limits, and what runs a
    saved kernel later.

    Args:
        path: a file that `compilation.save`, `trace.save`, `tuning.save` or the `save` of a report
            wrote; a folder of Triton's cache (~/.triton/cache/<hash>), or its .json file; the text
            that `MLIR_ENABLE_DUMP=1` prints; a profile of Proton (.hatchet), or a Chrome trace.
            Files from other programs contain less: a cache folder has no passes, a dump has no
            machine code, and neither has remarks.
        trust: whether code in the file may later run without a question, such as the modules of a
            report's kernels. Loading executes nothing in either case.

    Returns:
        A `Compilation`, a `Trace`, a `Tuning` (or `Tunings` if the file has several sweeps), a
        `GraphReport` or a `Profile`.

    Raises:
        ArchiveError: the file does not exist, is of another kind or version, is damaged, or is
            larger than the limit.
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

        return read_cache_folder(file)
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
        from kernellab.graphs.report import FORMAT, GraphReport, capture_in_file

        if FORMAT.begins(content):
            return GraphReport(capture_in_file(content, file))
    from kernellab.profiling.profiles.files import profile_in

    if (profile := profile_in(content, file)) is not None:
        return profile
    from kernellab.compiler.files import compilation_in

    return compilation_in(content, file)


def _is_of_sweeps(content: bytes) -> bool:
    """Whether a file says that it holds sweeps, complete or not."""
    start = content[:_BEGINNING]
    return start.lstrip().startswith(b"{") and b'"kernellab.tuning"' in start
