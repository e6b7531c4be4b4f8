"""Before the source that a saved sweep holds is run: it is shown, and whoever is there is asked."""

from __future__ import annotations

import hashlib
import sys
import textwrap

from kernellab.common.formatting import visible
from kernellab.errors import ArgumentError
from kernellab.tuning.files.kernel_source import KernelSource, how_to_open

_MOST_PRINTED = 20_000
"""Characters of a source that stand before the question."""

_agreed: set[str] = set()
"""Digests of the sources that were agreed to in this process, or announced."""


def agree_to_run(source: KernelSource) -> None:
    """Ask whether the source may run, once for each source: in a notebook and at a prompt.

    A script has nobody to ask, and its call stands in it: there a line on stderr says what runs.

    Raises:
        ArgumentError: the answer was no, or this notebook's front end cannot be asked.
    """
    digest = hashlib.sha256(
        repr((source.text, sorted(source.modules.items()))).encode()
    ).hexdigest()
    if digest in _agreed:
        return
    # What Python's own prompt, IPython and notebooks set.
    if not hasattr(sys, "ps1"):
        print(_announcement(source), file=sys.stderr)
    elif not _is_agreed(source):
        raise ArgumentError(
            f"the source of {source.kernel!r} that the file holds was not run, as the answer was "
            "no",
            advice=how_to_open(source.kernel, source),
        )
    _agreed.add(digest)


def _announcement(source: KernelSource) -> str:
    return (
        f"kernellab: with_kernel() runs the source of {visible(source.kernel)!r} that the sweep "
        "was saved with (tuning.source.text). with_kernel(run_source=True) says that you trust it, "
        "and prints no such line."
    )


def _is_agreed(source: KernelSource) -> bool:
    print(
        f"tuning.with_kernel() runs the source of {visible(source.kernel)!r} that the file holds:",
        textwrap.indent(source.excerpt(_MOST_PRINTED), "    "),
        sep="\n\n",
    )
    try:
        return input("Run it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
    except NotImplementedError as error:  # A notebook that nobody looks at: nbconvert's.
        raise ArgumentError(
            f"with_kernel() runs the source of {source.kernel!r} that the file holds, and asks "
            "before; this notebook's front end takes no answers",
            advice="with_kernel(run_source=True) runs it without a question: trust the file first.",
        ) from error
