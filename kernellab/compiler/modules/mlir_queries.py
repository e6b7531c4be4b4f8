"""Where MLIR reads a text: in this process, or in the worker process, where it may crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernellab.common import processes
from kernellab.errors import WorkerError, WorkerLost

Query = Callable[..., Any]
"""Runs a function of MLIR: `query(function, text, target, ...)` is what the function
returns for the text."""


def query_here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run it in this process: for texts that this compiler made."""
    return function(*arguments)


def query_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run it in the worker process: for texts from files, which may have been edited
    into something that crashes MLIR.
    """
    try:
        return processes.call(f"{function.__module__}:{function.__name__}", *arguments)
    except WorkerLost:
        raise
    except WorkerError as death:
        raise WorkerError(
            f"MLIR crashed on a text of this record while it ran {function.__name__}. {death}",
            advice=(
                "The text may have been edited, or come from another version of Triton: compare it "
                "with what the compiler prints now."
            ),
            last_words=death.last_words,
        ) from death
