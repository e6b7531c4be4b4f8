"""A process's standard streams, which may be closed, full, cut off, or of a narrow encoding."""

from __future__ import annotations

import contextlib
import io
import os
import sys


def hold_standard_descriptors() -> None:
    """Lead the closed ones of the descriptors 0, 1 and 2 nowhere: the next file that is opened
    would take such a number, and get what compilers and other processes print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the one that opens.
            os.open(os.devnull, os.O_RDWR)


def flush_errors() -> None:
    """Have what was printed to stderr written, where it can be."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()


def print_as_far_as_possible(text: str) -> None:
    """Print a text as far as possible: without letters that the encoding does not have, and not at
    all if nothing can be written.
    """
    stream = sys.stdout
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def escape_unknown_letters() -> None:
    """Have letters that a stream's encoding does not have appear as escapes, not as an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_output() -> None:
    """Let Python end in peace though its output cannot be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
