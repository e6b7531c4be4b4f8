"""In the clean process: confined processes are started, and what they made is verified.

The clean process has torch and Triton imported, so that a copy of it starts in milliseconds. It
never runs other people's Python itself.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from kernellab import triton_api
from kernellab.common.temporary import temporary_folder
from kernellab.errors import KernelLabError
from kernellab.judging import confined
from kernellab.judging.confinement import confine
from kernellab.records import Target

LARGEST_ANSWER = 64 << 20
"""The most bytes of an answer; a kernel with 10,000 operations has about 5 MB."""


@dataclass(frozen=True)
class Outcome:
    """How a confined process ended.

    Attributes:
        ending: "answered"; "out-of-time"; "refused-call" if it tried to start a process or to use
            the network while its kernel compiled; "ended" if it ended without an answer.
        answer: what it answered, JSON as Python's types.
        words: of "ended", how.
    """

    ending: Literal["answered", "out-of-time", "refused-call", "ended"]
    answer: dict[str, Any] | None = None
    words: str = ""


def ready() -> None:
    """Do nothing: the process has imported what it needs."""


def compile_confined(request: confined.Request, seconds: float) -> Outcome:
    """Run a request in a confined process, and verify the modules that it answers with.

    A module that MLIR refuses becomes an error. One that aborts MLIR ends this process, not the
    caller's.
    """
    with temporary_folder() as folder:
        outcome = _run(lambda: confined.answer(request), folder, seconds)
    if outcome.answer is not None:
        for part in _parts(outcome.answer):
            for module in part.get("modules", ()):
                _verify(module, request.target)
    return outcome


def _verify(module: dict[str, Any], target: Target) -> None:
    """Have MLIR read a module and print it again; replace one that it refuses by the error."""
    try:
        for name in ("text", "debug_text"):
            if name in module:
                module[name] = triton_api.generic_form(str(module[name]), target)
    except KernelLabError as error:
        module.clear()
        module["error"] = error.diagnostic.to_json()


def _run(function: Callable[[], bytes], folder: str, seconds: float) -> Outcome:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        _in_child(function, writing, folder, seconds)
    os.close(writing)
    try:
        content = _read(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        os.kill(process, signal.SIGKILL)  # it has answered, or must not go on
        _, status = os.waitpid(process, 0)
    if content is None:
        return Outcome("out-of-time")
    return _outcome(content, status)


def _outcome(content: bytes, status: int) -> Outcome:
    try:
        answer = json.loads(content)
        if isinstance(answer, dict) and all(map(_is_list_of_modules, _parts(answer))):
            return Outcome("answered", answer)
    except (TypeError, ValueError, RecursionError):
        pass
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGSYS:
        return Outcome("refused-call")
    if code == -signal.SIGXCPU:
        return Outcome("out-of-time")
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return Outcome("ended", words=how if code != -signal.SIGKILL else "it answered nothing")


def _parts(answer: dict[str, Any]) -> list[Any]:
    """Return the parts of an answer that have modules: itself and each of its variants."""
    variants = answer.get("variants", [])
    return [answer, *(part for part in variants if part is not None)]


def _is_list_of_modules(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("modules", []), list)


def _read(pipe: int, deadline: float) -> bytes | None:
    """Return what a process writes until it closes the pipe; None if that takes too long."""
    chunks: list[bytes] = []
    size = 0
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            return None
        chunk = os.read(pipe, 1 << 20)
        size += len(chunk)
        if not chunk or size > LARGEST_ANSWER:
            return b"".join(chunks)
        chunks.append(chunk)
    return None


def _in_child(function: Callable[[], bytes], writing: int, folder: str, seconds: float) -> NoReturn:
    """In the copy: give up what the clean process has, run, write the answer, end."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        channel = os.dup2(writing, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        gc.freeze()  # what is there is not looked through, which would copy it
        confine(folder, seconds)
        content = memoryview(function())
        while content:
            content = content[os.write(channel, content) :]
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


_PR_SET_PDEATHSIG = 1
