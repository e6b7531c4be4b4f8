"""The clean process, of which confined processes are copies. Nothing here imports torch, so that it
can start first.
"""

from __future__ import annotations

import contextlib
import threading

from kernellab.common.processes import Worker
from kernellab.errors import KernelLabError

CLEAN = Worker("The judge")
"""It has torch and Triton imported, and never runs other people's Python itself."""


def start_worker() -> None:
    """Start the clean process in the background, which takes some seconds, as does the import of
    torch and Triton here meanwhile.
    """

    def start() -> None:
        with contextlib.suppress(KernelLabError):  # the first answer says what is wrong
            wait_for_worker()

    threading.Thread(target=start, daemon=True).start()


def wait_for_worker() -> None:
    """Return when the clean process is ready."""
    CLEAN.call("kernellab.judging.code:ready")
