"""A folder that torch left: logs of `TORCH_TRACE`, or what `TORCH_COMPILE_DEBUG` writes."""

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
"""What stands in the log of a process that compiled something."""


def capture_in_folder(folder: Path) -> GraphCapture | None:
    """What the folder's log, or its graphs, say was captured; None of a folder of something else.

    Raises:
        ArchiveError: it cannot be read, or has logs of several processes, or several runs.
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
    """That of the one process that compiled; each process of a run has a log of its own."""
    found: list[str] = []
    for name in names[:_MOST_LOGS]:
        content = file_bytes(folder / name, ArchiveError)
        if _SAYS in content:
            found.append(name)
            latest = content
    if len(found) == 1:
        return capture_in_log(latest, folder / found[0])
    if not found:
        raise ArchiveError(
            f"{str(folder)!r} has {len(names)} logs of TORCH_TRACE, and in none torch.compile says "
            "anything.",
        )
    raise ArchiveError(
        f"{str(folder)!r} has logs of {len(found)} processes that compiled.",
        advice=f"Give one of them: {', '.join(found[:5])}{', ...' if len(found) > 5 else ''}.",
    )


_MOST_LOGS = 100
