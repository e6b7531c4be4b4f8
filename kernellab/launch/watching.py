"""`on_launch`: the user's functions that are called around every launch.

Without them a launch costs nothing more: on a GPU, Triton's own launcher is in place; on the
interpreter, an empty list is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError
from kernellab.triton_api.launch_watching import GpuLaunches


@dataclass(frozen=True)
class WatchedLaunch:
    """One launch, as the functions of `on_launch` get it."""

    kernel: Any
    """The kernel inside autotuners and heuristics."""
    grid: tuple[int, int, int]
    arguments: Mapping[str, Any]
    """All parameters by name, constants and defaults too. Keeping it keeps the tensors' memory."""
    device: Literal["gpu", "cpu"]
    """ "cpu" if the interpreter runs it."""


Callback = Callable[[WatchedLaunch], Any]


class LaunchWatch:
    """The result of `on_launch`; `remove()` or the end of a `with` ends it."""

    def __init__(self, enter: Callback | None, exit: Callback | None) -> None:
        self.enter = enter
        self.exit = exit
        watches.append(self)
        _gpu_launches.begin(_around_on_gpu)

    def remove(self) -> None:
        """Stop the calls; a second time does nothing."""
        if self in watches:
            watches.remove(self)
        if not watches:
            _gpu_launches.end()

    def __enter__(self) -> LaunchWatch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


watches: list[LaunchWatch] = []
"""The active watches, in the order in which they began."""

_gpu_launches = GpuLaunches()


def on_launch(enter: Callback | None = None, exit: Callback | None = None) -> LaunchWatch:
    """Call functions around every launch of a Triton kernel, on a GPU or on the interpreter.

        with kernellab.on_launch(lambda launch: print(launch.kernel.__name__, launch.grid)):
            train_step()

    Each function gets the launch: `.kernel`, `.grid`, `.arguments` by name, `.device`. Several
    watches nest: the first to begin is called first before a launch, and last after it. On a GPU,
    `exit` is called when the launch is in the stream. Kernels that torch.compile launches by itself
    are not seen. Without a watch, Triton is unchanged.

    Args:
        enter: called before the launch; an exception from it stops the launch.
        exit: called after the launch, also if it failed.

    Returns:
        The watch; `.remove()` or the end of a `with` ends it.

    Raises:
        ArgumentError: neither is given, or one is not a function.
    """
    for name, callback in (("enter", enter), ("exit", exit)):
        if callback is not None and not callable(callback):
            raise ArgumentError(
                f"{name} must be a function, got {shown(callback)}.",
                advice="It is called with the launch.",
            )
    if enter is None and exit is None:
        raise ArgumentError(
            "on_launch needs enter, exit or both, got neither.",
            advice="Pass a function: on_launch(enter=lambda launch: print(launch.grid)).",
        )
    return LaunchWatch(enter, exit)


@contextmanager
def announced(launch: WatchedLaunch) -> Iterator[None]:
    """Call the functions of all watches before and after a launch."""
    entered: list[LaunchWatch] = []
    try:
        for watch in tuple(watches):
            entered.append(watch)
            if watch.enter is not None:
                watch.enter(launch)
        yield
    finally:
        for watch in reversed(entered):
            if watch.exit is not None:
                watch.exit(launch)


def _around_on_gpu(kernel: Any, grid: tuple[int, int, int], values: Sequence[Any]) -> Any:
    names = getattr(kernel, "arg_names", [f"argument {number}" for number in range(len(values))])
    return announced(WatchedLaunch(kernel, grid, dict(zip(names, values, strict=False)), "gpu"))
