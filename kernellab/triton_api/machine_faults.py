"""What fails while the compiler runs and is this machine's fault: disks, folders, memory, tools."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from triton.compiler.errors import CompilationError
from triton.runtime.errors import PTXASError

from kernellab.common.system import DISK_ADVICE, LIMITS_ADVICE, MEMORY_ADVICE, system_fault
from kernellab.errors import MachineError


def machine_error(error: Exception, lead: str, printed: str = "") -> MachineError | None:
    """What an error says of this machine; None where it is the kernel's, or the compiler's.

    Args:
        lead: what cannot be done: "The compiler cannot run".
        printed: what the compiler printed meanwhile.
    """
    cause: BaseException | None = error
    while isinstance(cause, CompilationError) and cause.__cause__ is not None:
        cause = cause.__cause__
    fault = system_fault(cause if isinstance(cause, MemoryError) else error, lead)
    if fault is not None:
        fault.advice = _advice_on_program(error) or fault.advice
        return fault
    words = f"{cause}"
    if missing := re.search(r"Cannot find (\S+)$", words):
        tool = missing[1]
        return MachineError(
            f"{lead}: {tool} is missing, or does not run here.",
            advice=f"It comes with Triton: reinstall Triton, or set {_variable(tool)} to another.",
        )
    if isinstance(error, PTXASError) and (ended := _ENDED.search(words)):
        advice = DISK_ADVICE if int(ended[1]) == _NO_ROOM else MEMORY_ADVICE
        return MachineError(f"{lead}: ptxas {ended[0]}.", advice=advice)
    if isinstance(error, PTXASError) and (failed := _FAILED.search(words)):
        if not _PTXAS_WORDS.search(words):
            return MachineError(
                f"{lead}: the ptxas program {failed[0].strip()}",
                advice=f"It reports nothing about the PTX. {OWN_ASSEMBLER}",
            )
    for sign, advice in _SIGNS:
        if match := sign.search(words) or sign.search(printed):
            return MachineError(f"{lead}: {match[0].strip()}.", advice=advice)
    return None


def is_machines_fault(error: BaseException) -> bool:
    """Whether an error, or one that caused it, says nothing of a kernel: a full disk, a folder that
    cannot be written, a tool that is not there or was ended, memory that others hold.
    """
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, MachineError | OSError | MemoryError | ImportError):
            return True
        if isinstance(current, Exception) and machine_error(current, "") is not None:
            return True
        current = current.__cause__
    return False


@contextmanager
def translated_machine_errors(lead: str) -> Iterator[None]:
    """Turn what is this machine's fault into a MachineError; everything else goes on as it is."""
    try:
        yield
    except (OSError, RuntimeError, MemoryError) as error:
        if isinstance(error, NotImplementedError | RecursionError):
            raise
        fault = machine_error(error, lead)
        if fault is None:
            raise
        raise fault from error


_ENDED = re.compile(r"failed with error code (-\d+|12[67])\b")
"""Triton's words for an assembler that a signal ended, or that could not be started."""
_NO_ROOM = -signal.SIGXFSZ
"""How it ends where a file would outgrow the limit of the process."""
_FAILED = re.compile(r"failed with error code \d+(?:\n[^\n]+){0,4}")
OWN_ASSEMBLER = (
    "If TRITON_PTXAS_PATH or TRITON_PTXAS_BLACKWELL_PATH is set, unset it: Triton then uses the "
    "ptxas that it was installed with."
)
"""Triton chooses between the two programs by the target: the second one is for sm_100 and later,
and from Triton 3.9 on for sm_90 too."""

_PTXAS_WORDS = re.compile(r"^ptxas\b", re.M)
"""How each of ptxas's own messages begins."""
_SIGNS = (
    (
        re.compile(r"Could not create or locate cache dir"),
        "Let TRITON_CACHE_DIR name a folder, or unset it.",
    ),
    (re.compile(r"No space left on device", re.I), DISK_ADVICE),
    (re.compile(r"Disk quota exceeded", re.I), DISK_ADVICE),
    (re.compile(r"File too large", re.I), DISK_ADVICE),
    (re.compile(r"Too many open files", re.I), LIMITS_ADVICE),
    (re.compile(r"ptxas fatal\s*: (?:Could not|Cannot) (?:open|write)[^\n]*"), DISK_ADVICE),
    (
        re.compile(r"LLVM ERROR: out of memory|std::bad_alloc|Cannot allocate memory", re.I),
        MEMORY_ADVICE,
    ),
)
"""Words of the compiler's own."""


def _advice_on_program(error: Exception) -> str:
    """What to do about a program that the environment names and the system does not start."""
    named = getattr(error, "filename", None)
    for name, value in os.environ.items():
        if value and value == named and re.fullmatch(r"TRITON_\w+_PATH", name):
            return f"{name} names it: let it name a program that runs here, or unset it."
    return ""


def _variable(tool: str) -> str:
    """The environment variable in which Triton looks for a tool."""
    return f"TRITON_{tool.upper().replace('-', '_')}_PATH"
