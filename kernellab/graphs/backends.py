"""`kernellab.backends()`: what torch.compile can be told to compile with, and what each gives."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kernellab.errors import OptionError, suggestion

if TYPE_CHECKING:
    import pandas

OURS = ("inductor", "kernellab")
"""Backends whose report goes down to kernels: that is Inductor's, for a named GPU."""

_COLUMNS = ["backend", "package", "tags", "gives", "error"]


def backends() -> pandas.DataFrame:
    """The backends of torch.compile that are installed, each tried on a function of two operations.

    Returns:
        One row each: backend; package, that it is from; tags, as torch has them ("debug");
        gives, the levels that `kernellab.graph(..., backend=...)` shows of it; error, why it does
        not run here, or "".

    Raises:
        WorkerError: a backend takes the whole process down.
    """
    import pandas

    from kernellab.graphs.calls import compiler_process

    rows = compiler_process().call("kernellab.graphs.backends:tried")
    return pandas.DataFrame(rows, columns=_COLUMNS)


def tried() -> list[tuple[str, str, str, str, str]]:
    """In the process that captures: the rows of `backends`."""
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
    except Exception as problem:  # the package behind it may lack anything
        return "", f"{type(problem).__name__}: {problem}"
    with watched.listening():
        x = torch.rand(8, requires_grad=True)
        error = call_once(twice, (x,), {}, watched, backward=False, dynamic=None, fullgraph=False)
    has_aten = any(one.aten.nodes for one in watched.captured.lowered)
    gives = "FX, ATen" if has_aten else "FX" if watched.captured.frames else ""
    inner = next((one.error for one in watched.captured.lowered if one.error), error)
    return gives, " ".join(inner.split())[:_MOST_WORDS]


@functools.cache
def _names() -> tuple[str, ...]:
    from kernellab.torch_api.other_backends import installed

    return tuple(installed())


def check_name(name: str) -> None:
    """Raise OptionError unless a backend is called so; the nearest name is said."""
    if name not in _names():
        raise OptionError(
            f"no backend of torch.compile is called {name!r}",
            advice=suggestion(name, list(_names()), "Installed:"),
        )
