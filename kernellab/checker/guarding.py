"""`guarded_launches`: check a launch that failed on the GPU again on the CPU."""

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

_RESTART = "This process can no longer use the GPU: restart it."


@contextmanager
def guarded_launches() -> Iterator[None]:
    """Report the line and the element at which a Triton launch fails on the GPU.

        with kernellab.guarded_launches():
            train_step()

    An illegal address makes the memory of the GPU inaccessible. Therefore each launch's arguments
    are copied to the CPU beforehand, and each launch is waited for, which is slow. A launch that
    fails is checked on the CPU with these copies (`kernellab.check`); the findings are those of the
    interpreter, for the same arguments.

    Raises:
        GpuFault: a launch failed; `.findings` has the findings of the check.
    """
    pending = _Pending()
    with on_launch(pending.keep, pending.wait):
        yield


class _Pending(threading.local):
    """The arguments of the current launch, on each thread."""

    def __init__(self) -> None:
        self._copies: dict[str, object] = {}

    def keep(self, launch: WatchedLaunch) -> None:
        """Copy the arguments of a launch on the GPU.

        Raises:
            GpuFault: an earlier launch failed there.
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
                f"an earlier launch failed on the GPU ({died}), before this launch of "
                f"{_name(launch)!r}",
                advice=f"The earlier launch was outside of guarded_launches. {_RESTART}",
                kernel=_name(launch),
            ) from error

    def wait(self, launch: WatchedLaunch) -> None:
        """Wait for a launch on the GPU.

        Raises:
            GpuFault: it failed.
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
    """Return the error of a launch that failed, with the findings of a check on the CPU."""
    name = _name(launch)
    what = f"the launch of {name!r} on grid {joined_sizes(launch.grid)} failed on the GPU ({died})"
    try:
        findings = check(launch.kernel, launch.grid, *copies.values())
    except KernelLabError as error:
        return GpuFault(
            f"{what}. On the CPU, with copies of its arguments, it stops: {error.problem}",
            advice=f"{error.advice} {_RESTART}".strip(),
            position=error.position,
            kernel=name,
        )
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return GpuFault(
            f"{what}. A check on the CPU, with copies of its arguments, finds no fault",
            advice=(
                "The cause may be in the code that the compiler generated: kernellab.bisect "
                f"compares it pass by pass. {_RESTART}"
            ),
            position=None,
            kernel=name,
            findings=findings,
        )
    first = errors[0]
    return GpuFault(
        f"{what}. A check on the CPU, with copies of its arguments, finds the fault "
        f"{_place(first)}: {first.what}",
        advice=f"{first.advice} {_RESTART}".strip(),
        position=first.position,
        kernel=name,
        findings=findings,
    )


def _place(finding: Finding) -> str:
    """Return "in program (1, 0, 0), element 3 of the tile"."""
    program = f"in program {finding.programs[0]}" if finding.programs else "in the program"
    return f"{program}{finding.element_text}"


def _name(launch: WatchedLaunch) -> str:
    return str(getattr(launch.kernel, "__name__", launch.kernel))
