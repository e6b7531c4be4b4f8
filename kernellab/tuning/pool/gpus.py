"""The GPUs of this machine: their names, and locks to use one at a time."""

from __future__ import annotations

import fcntl
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import torch
import triton

from kernellab.common.argument_checks import listed
from kernellab.common.saved_json import kernellab_version
from kernellab.errors import ArgumentError
from kernellab.tuning.results.records import Machine


def chosen_gpus(gpus: str | int | Sequence[int] | None, own: int) -> tuple[int, ...]:
    """Return the numbers of the GPUs to time on, which must be of one kind.

    Args:
        gpus: numbers, "all", or None for the GPU of the arguments.
        own: the number of the GPU of the arguments.

    Raises:
        ArgumentError: there is no such GPU, or the GPUs are of several kinds.
    """
    count = torch.cuda.device_count()
    if gpus is None:
        return (own,)
    if gpus == "all":
        numbers: tuple[int, ...] = tuple(range(count))
    else:
        given = (gpus,) if isinstance(gpus, int) else listed("gpus", gpus, 1000)
        numbers = tuple(dict.fromkeys(int(number) for number in given))
    if not numbers or any(not 0 <= number < count for number in numbers):
        raise ArgumentError(
            f"gpus must name GPUs from 0 to {count - 1}, got {gpus!r}",
            advice='Give numbers of this machine\'s GPUs, or "all".',
        )
    names = {torch.cuda.get_device_name(number) for number in numbers}
    if len(names) > 1:
        raise ArgumentError(
            f"the GPUs {', '.join(map(str, numbers))} are of several kinds: "
            f"{', '.join(sorted(names))}",
            advice="Times of different GPUs are never mixed: run one sweep per kind.",
        )
    return numbers


def this_machine(gpu: int | None) -> Machine:
    """Return what a sweep's times depend on, or without a GPU, what its compilations depend on."""
    return Machine(
        gpu="" if gpu is None else torch.cuda.get_device_name(gpu),
        driver="" if gpu is None else _driver(),
        python=platform.python_version(),
        torch=torch.__version__,
        triton=installed_triton(),
        kernellab=kernellab_version(),
    )


def installed_triton() -> str:
    """Return the version of Triton in this process."""
    return str(triton.__version__)


def _driver() -> str:
    """Return the version of NVIDIA's driver from its kernel module; "" if that is not available."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().splitlines()[0].split()
    except (OSError, IndexError):
        return ""
    return next((word for word in words if word[:1].isdigit() and "." in word), "")


@contextmanager
def one_gpu_for_me() -> Iterator[int]:
    """Yield the number of a GPU that no other process times on; wait if all are in use.

    The lock is a file in the folder for temporary files, so that the processes of one machine share
    its GPUs.
    """
    files = [open(_lock_file(number), "w") for number in range(torch.cuda.device_count())]  # noqa: SIM115
    try:
        yield _first_free(files)
    finally:
        for file in files:
            file.close()  # which releases the lock


def _first_free(files: Sequence[TextIO]) -> int:
    for number, file in enumerate(files):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        return number
    waits_for = os.getpid() % len(files)
    fcntl.flock(files[waits_for], fcntl.LOCK_EX)
    return waits_for


def _lock_file(number: int) -> Path:
    uuid = torch.cuda.get_device_properties(number).uuid
    return Path(tempfile.gettempdir(), f"kernellab-gpu-{uuid}-{os.getuid()}.lock")
