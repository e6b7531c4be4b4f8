"""The GPUs of this machine: their names, and whose turn it is."""

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
    """The numbers of the GPUs to time on: None is the arguments' own, "all" every one;
    they must be of one kind.

    Raises:
        ArgumentError: no such GPU, or GPUs of several kinds.
    """
    count = torch.cuda.device_count()
    if gpus is None:
        return (own,)
    if gpus == "all":
        numbers: tuple[int, ...] = tuple(range(count))
    else:
        given = (gpus,) if isinstance(gpus, int) else listed("gpus", gpus, 1000)
        numbers = tuple(dict.fromkeys(int(one) for one in given))
    if not numbers or any(not 0 <= one < count for one in numbers):
        raise ArgumentError(
            f"gpus={gpus!r} names a GPU that is not there: this machine has {count}",
            advice='Give numbers from 0, or "all".',
        )
    names = {torch.cuda.get_device_name(one) for one in numbers}
    if len(names) > 1:
        raise ArgumentError(
            f"the GPUs {', '.join(map(str, numbers))} are of several kinds: "
            f"{', '.join(sorted(names))}",
            advice="Times of different GPUs are never mixed: sweep on each kind by itself.",
        )
    return numbers


def this_machine(gpu: int | None) -> Machine:
    """What a sweep's times depend on; without a GPU, what its compilations do."""
    return Machine(
        gpu="" if gpu is None else torch.cuda.get_device_name(gpu),
        driver="" if gpu is None else _driver(),
        python=platform.python_version(),
        torch=torch.__version__,
        triton=installed_triton(),
        kernellab=kernellab_version(),
    )


def installed_triton() -> str:
    """The version of Triton in this process."""
    return str(triton.__version__)


def _driver() -> str:
    """The version of NVIDIA's driver, as its kernel module says; "" where it does not."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().splitlines()[0].split()
    except (OSError, IndexError):
        return ""
    return next((word for word in words if word[:1].isdigit() and "." in word), "")


@contextmanager
def one_gpu_for_me() -> Iterator[int]:
    """A GPU that no other process times on meanwhile, among those that this process sees;
    waits for one where all are taken.

    The lock is a file in the folder for temporary files, so that several processes
    of one machine share its GPUs fairly.
    """
    files = [open(_lock_file(number), "w") for number in range(torch.cuda.device_count())]  # noqa: SIM115
    try:
        yield _first_free(files)
    finally:
        for file in files:
            file.close()  # which lets go of the lock


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
