"""`kernellab.backends()`: the installed backends of torch.compile, and what each shows."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kernellab.errors import OptionError, suggestion

if TYPE_CHECKING:
    import pandas

OURS = ("inductor", "kernellab")
"""Backends whose report goes down to kernels, which is Inductor's report for a GPU."""

_COLUMNS = ["backend", "package", "tags", "gives", "error"]


def backends() -> pandas.DataFrame:
    """Try each installed backend of torch.compile on a function of two operations.

    Returns:
        One row per backend: its name; the package that it is from; its tags in torch ("debug");
        `gives`, the levels that `kernellab.graph(..., backend=...)` shows; and the error if it does
        not run here, else "".

    Raises:
        WorkerError: a backend ended the process.
    """
    import pandas

    from kernellab.graphs.processes import compiler_process

    rows = compiler_process().call("kernellab.graphs.installed_backends:tried")
    return pandas.DataFrame(rows, columns=_COLUMNS)


def tried() -> list[tuple[str, str, str, str, str]]:
    """In the process that captures: return the rows of `backends`."""
    from kernellab.torch_api.other_backends import installed

    rows = []
    for name, (package, tags) in installed().items():
        gives, error = _INDUCTORS, ""
        if name not in OURS:
            gives, error = _tried(name)
        rows.append((name, package, " ".join(tags), gives, error))
    return rows


_MOST_WORDS = 200
"""Characters of an error."""

_INDUCTORS = "all levels, down to kernels"


def _tried(name: str) -> tuple[str, str]:
    import torch

    from kernellab.torch_api.capturing import call_once
    from kernellab.torch_api.other_backends import WatchedBackend, looked_up

    def twice(x: Any) -> Any:
        return x.sin() * 2

    try:
        watched = WatchedBackend(looked_up(name), {}, levels=False)
    except Exception as problem:  # a dependency of its package may be missing or broken
        return "", f"{type(problem).__name__}: {problem}"
    with watched.listening():
        x = torch.rand(8, requires_grad=True)
        error = call_once(twice, (x,), {}, watched, backward=False, dynamic=None, fullgraph=False)
    lowered = watched.captured.lowered
    has_aten = any(graph.aten.nodes for graph in lowered)
    gives = "FX, ATen" if has_aten else "FX" if watched.captured.frames else ""
    inner = next((graph.error for graph in lowered if graph.error), error)
    return gives, " ".join(inner.split())[:_MOST_WORDS]


@functools.cache
def _names() -> tuple[str, ...]:
    from kernellab.torch_api.other_backends import installed

    return tuple(installed())


def check_name(name: str) -> None:
    """Raise OptionError, with the nearest name, unless there is a backend of that name."""
    if name not in _names():
        raise OptionError(
            f"torch.compile has no backend {name!r}",
            advice=suggestion(name, list(_names()), "Installed are"),
        )
