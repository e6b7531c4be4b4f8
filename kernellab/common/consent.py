"""Consent to run code of a file: each text is shown once; without an answer, nothing runs."""

from __future__ import annotations

import hashlib
import sys
import textwrap

from kernellab.errors import ArgumentError, visible

_MOST_PRINTED = 20_000
"""Characters of a source that are printed before the question."""

_trusted: set[str] = set()
"""Digests of the texts that may run in this process."""


def _digest(texts: tuple[str, ...]) -> str:
    return hashlib.sha256(repr(texts).encode("utf-8", "surrogatepass")).hexdigest()


def trust(*texts: str) -> None:
    """Let these texts run in this process, without a question."""
    _trusted.add(_digest(texts))


def is_trusted(*texts: str) -> bool:
    """Whether someone agreed that these texts run."""
    return _digest(texts) in _trusted


def cannot_request(name: str, call: str, advice: str) -> ArgumentError:
    """Return the error for a place where no question can be put, such as a view."""
    return ArgumentError(
        f"{call} needs your consent to run the source of {visible(name)!r} in the file, which "
        "cannot be given here.",
        advice=advice,
    )


def request_consent(
    texts: tuple[str, ...], shown: str, *, name: str, call: str, trusting: str
) -> None:
    """Request consent to run texts of a file, once for each. Raises ArgumentError: the answer was
    no, or no one can answer here.
    """
    if is_trusted(*texts):
        return
    # Python's own prompt, IPython and notebooks set `ps1`. Everything else counts as a process
    # without a reader: a script, but also the kernels of other notebooks.
    if not hasattr(sys, "ps1"):
        raise cannot_request(name, call, trusting)
    excerpt = visible(shown[:_MOST_PRINTED])
    if len(shown) > _MOST_PRINTED:
        excerpt += f"\n... and {len(shown) - _MOST_PRINTED:,} more characters"
    print(
        f"{call} runs the source of {visible(name)!r} in the file:",
        textwrap.indent(excerpt, "    "),
        sep="\n\n",
    )
    try:
        agreed = input("Run it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        agreed = False
    # A notebook that runs unattended, such as nbconvert's, or a process whose stdin is closed.
    except (RuntimeError, OSError) as error:
        raise cannot_request(name, call, trusting) from error
    if not agreed:
        raise ArgumentError(
            f"The source of {visible(name)!r} in the file was not run, because the answer was no.",
            advice=trusting,
        )
    trust(*texts)
