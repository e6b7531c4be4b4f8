"""Requests of live views to the notebook's kernel, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.errors import KernelLabError


@dataclass(frozen=True)
class Answer:
    """What goes back: plain data, and bytes beside it."""

    content: Mapping[str, Any]
    buffers: Sequence[bytes] = ()


Handler = Callable[[Mapping[str, Any]], Answer]
"""Answers one kind of request, whose options it is given by name."""


def answer(handlers: Mapping[str, Handler], request: Any) -> Answer | None:
    """Return the answer to a message, with the reason under "problem" if it has no result; None for
    a message that is not a known request.
    """
    handler = handlers.get(str(request.get("kind"))) if isinstance(request, dict) else None
    if handler is None:
        return None
    try:
        return handler(request)
    except KernelLabError as error:
        return Answer({"problem": str(error)})
    except KeyboardInterrupt:
        return Answer({"problem": "the kernel was interrupted, and opened nothing"})
    except Exception as error:  # the reader of a view sees no traceback of the kernel's
        return Answer({"problem": f"{type(error).__name__}: {error}"})
