"""Read a folder that torch wrote: logs of `TORCH_TRACE`, or output of `TORCH_COMPILE_DEBUG`."""

from __future__ import annotations

import os
from pathlib import Path

from kernellab.common.saved_files import file_bytes
from kernellab.common.saved_json import why_unreadable
from kernellab.errors import ArchiveError
from kernellab.graphs.logs.debug_folders import capture_in_graphs, graph_folders
from kernellab.graphs.logs.traces import capture_in_log
from kernellab.records.graphs import GraphCapture

_PREFIX, _SUFFIX = "dedicated_log_torch_trace_", ".log"

_SAYS = b'"dynamo_start"'
"""Occurs in the log of each process that compiled something."""


def capture_in_folder(folder: Path) -> GraphCapture | None:
    """Return the capture in a folder's log or graphs, or None if the folder has neither.

    Raises:
        ArchiveError: the folder cannot be read, or has logs of several processes or runs.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ArchiveError(why_unreadable(folder, error)) from error
    logs = [name for name in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    if logs:
        return _capture_of_log(folder, logs)
    graphs = graph_folders(folder)
    return capture_in_graphs(folder, graphs) if graphs else None


def _capture_of_log(folder: Path, names: list[str]) -> GraphCapture:
    """Return the capture of the only process that compiled; each process writes its own log."""
    compiling: list[str] = []
    for name in names[:_MOST_LOGS]:
        content = file_bytes(folder / name, ArchiveError)
        if _SAYS in content:
            compiling.append(name)
            latest = content
    if len(compiling) == 1:
        return capture_in_log(latest, folder / compiling[0])
    if not compiling:
        raise ArchiveError(
            f"None of the {len(names)} logs of TORCH_TRACE in {str(folder)!r} has an entry of "
            "torch.compile.",
        )
    raise ArchiveError(
        f"{str(folder)!r} has logs of {len(compiling)} processes that compiled.",
        advice="Pass the path of one of them: "
        f"{', '.join(compiling[:5])}{', ...' if len(compiling) > 5 else ''}.",
    )


_MOST_LOGS = 100
