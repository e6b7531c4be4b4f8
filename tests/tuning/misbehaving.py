"""What stands for `kernellab.tuning.worker` where a process is to hang or die."""

import os
import time
from pathlib import Path
from typing import Any

from kernellab.tuning.records import Dropped, Outcome


def release() -> None:
    """Nothing is held."""


def prepare(setup: Any) -> None:
    """Nothing is needed."""


def compile_config(job: bytes, task: bytes) -> Outcome:
    """Do what the task's text says."""
    if task == b"hang":
        time.sleep(1000)
    if task == b"abort":
        os.abort()
    if task == b"abort once":
        mark = Path(job.decode())
        if not mark.exists():
            mark.touch()
            os.abort()
    if task == b"spoil":
        return Outcome(
            dropped=Dropped("crash", "CUDA error: an illegal memory access was encountered")
        )
    return Outcome(checked=f"process {os.getpid()}")


def run_config(setup: Any, task: bytes, trial_options: Any) -> Outcome:
    return compile_config(b"", task)
