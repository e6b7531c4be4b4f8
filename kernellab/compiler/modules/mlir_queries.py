"""Where MLIR is asked about a text: in this process, or in the worker process, where it may die."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernellab.common import worker
from kernellab.errors import WorkerError, WorkerLost

Ask = Callable[..., Any]
"""Puts a question to MLIR: `ask(function, text, target, ...)` is what the function
says of the text."""


def ask_here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Ask in this process: for texts that this compiler made."""
    return function(*arguments)


def ask_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    """Ask in the worker process: for texts from files, which somebody may have edited
    into something that MLIR dies of.
    """
    try:
        return worker.call(f"{function.__module__}:{function.__name__}", *arguments)
    except WorkerLost:
        raise
    except WorkerError as death:
        raise WorkerError(
            f"MLIR died of a text in this record, while it ran {function.__name__}. {death}",
            advice=(
                "The text may have been edited, or come from another version of Triton: compare it "
                "with what the compiler prints now."
            ),
            last_words=death.last_words,
        ) from death
