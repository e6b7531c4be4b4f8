"""What Dynamo says while it works: the events of torch's structured trace, and its bytecode."""

from __future__ import annotations

import dis
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch._dynamo.convert_frame
import torch._guards

from kernellab.errors.positions import SourcePosition
from kernellab.records.graphs import Bytecode

_frames: Any = torch._dynamo.convert_frame
_guards: Any = torch._guards

Event = tuple[dict[str, Any], Any]
"""Metadata and payload, as torch logs them."""


class _Sink(logging.Handler):
    def __init__(self, take: Callable[[Event], None]) -> None:
        super().__init__(logging.DEBUG)
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        self._take((dict(fields.get("metadata") or {}), fields.get("payload")))


def hear_from_now_on(take: Callable[[Event], None]) -> None:
    """Call a function with each event of torch's structured trace until the process ends."""
    log = logging.getLogger("torch.__trace")
    log.addHandler(_Sink(take))
    log.setLevel(logging.DEBUG)


@contextmanager
def events_heard(events: list[Event]) -> Iterator[None]:
    """While active, torch's structured trace is added to `events`."""
    log = logging.getLogger("torch.__trace")
    sink, level = _Sink(events.append), log.level
    log.addHandler(sink)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeHandler(sink)
        log.setLevel(level)


@contextmanager
def bytecode_heard(bytecode: list[Bytecode]) -> Iterator[None]:
    """While active, each function that Dynamo rewrites is added to `found`."""

    def hook(original: CodeType, rewritten: CodeType) -> None:
        frame = _guards.CompileContext.current_compile_id()
        bytecode.append(
            Bytecode(
                frame=str(frame or ""),
                function=original.co_name,
                original=_disassembled(original),
                rewritten=_disassembled(rewritten),
                position=SourcePosition(original.co_filename, original.co_firstlineno),
            )
        )

    handle = _frames.register_bytecode_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _disassembled(code: CodeType) -> str:
    text = io.StringIO()
    dis.dis(code, file=text, depth=0)
    return text.getvalue()
