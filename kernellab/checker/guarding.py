"""`guarded_launches`: a launch that dies on the GPU is made again on the CPU, under the checker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kernellab.checker.checking import check
from kernellab.checker.records import Finding
from kernellab.common.formatting import joined_sizes
from kernellab.common.gpu_faults import gpu_fault
from kernellab.errors import GpuFault, KernelLabError
from kernellab.launch.argument_copies import copied
from kernellab.launch.watching import WatchedLaunch, on_launch

_RESTART = "This process cannot use the GPU any more: restart it."


@contextmanager
def guarded_launches() -> Iterator[None]:
    """While active, a Triton launch that dies on the GPU says on which line, and in which lane.

        with kernellab.guarded_launches():
            train_step()

    Memory on the GPU is gone after an illegal address, so each launch's arguments are copied to the
    CPU beforehand, and each launch is waited for: it is for finding a fault, not for running fast.
    The launch that died is then checked on the CPU with its copies (`kernellab.check`), and its
    findings say what the kernel did; they are those of the interpreter, on the same arguments.

    Raises:
        GpuFault: a launch died; `.findings` has what the check found.
    """
    pending = _Pending()
    with on_launch(pending.keep, pending.wait):
        yield


class _Pending(threading.local):
    """The arguments of the launch that goes on, on each thread."""

    def __init__(self) -> None:
        self._copies: dict[str, object] = {}

    def keep(self, launch: WatchedLaunch) -> None:
        """Copy the arguments of a launch on the GPU.

        Raises:
            GpuFault: something died there before.
        """
        if launch.device != "gpu":
            return
        try:
            torch.cuda.synchronize()
            self._copies = copied(launch.arguments)
        except RuntimeError as error:
            if (died := gpu_fault(error)) is None:
                raise
            raise GpuFault(
                f"something died on the GPU before this launch of {_name(launch)!r}, of {died}",
                advice=f"It was launched outside of guarded_launches. {_RESTART}",
                kernel=_name(launch),
            ) from error

    def wait(self, launch: WatchedLaunch) -> None:
        """Wait for a launch on the GPU.

        Raises:
            GpuFault: it died.
        """
        copies, self._copies = self._copies, {}
        if launch.device != "gpu" or not copies:
            return
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            if (died := gpu_fault(error)) is None:
                raise
            raise _checked(launch, copies, died) from error


def _checked(launch: WatchedLaunch, copies: dict[str, object], died: str) -> GpuFault:
    """The error of a launch that died: what a check of it on the CPU finds."""
    name = _name(launch)
    what = f"the launch of {name!r} on grid {joined_sizes(launch.grid)} died on the GPU ({died})"
    try:
        findings = check(launch.kernel, launch.grid, *copies.values())
    except KernelLabError as error:
        return GpuFault(
            f"{what}. Made again on the CPU, on copies of its arguments, it stops: {error.problem}",
            advice=f"{error.advice} {_RESTART}".strip(),
            position=error.position,
            kernel=name,
        )
    errors = [one for one in findings if one.severity == "error"]
    if not errors:
        return GpuFault(
            f"{what}. Checked on the CPU, on copies of its arguments, nothing is at fault",
            advice=(
                "What it died of may be in the code that the compiler made: kernellab.bisect "
                f"compares that pass by pass. {_RESTART}"
            ),
            position=None,
            kernel=name,
            findings=findings,
        )
    first = errors[0]
    return GpuFault(
        f"{what}. The same launch, checked on the CPU on copies of its arguments, "
        f"{_place(first)}: {first.what}",
        advice=f"{first.advice} {_RESTART}".strip(),
        position=first.position,
        kernel=name,
        findings=findings,
    )


def _place(finding: Finding) -> str:
    """ "in program (1, 0, 0), lane (3,)"."""
    program = f"in program {finding.programs[0]}" if finding.programs else "in the program"
    return f"{program}, lane {finding.lane}" if finding.lane else program


def _name(launch: WatchedLaunch) -> str:
    return str(getattr(launch.kernel, "__name__", launch.kernel))
