"""`on_launch`: functions of the user's that are called around every launch.

Nobody watches, and a launch costs what it costs: on a GPU, Triton's own launcher is in its place;
on the interpreter, one look at an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError
from kernellab.triton_api.launch_watching import GpuLaunches


@dataclass(frozen=True)
class WatchedLaunch:
    """One launch, as `on_launch` tells it."""

    kernel: Any
    """The kernel itself, inside autotuners and heuristics."""
    grid: tuple[int, int, int]
    arguments: Mapping[str, Any]
    """Every parameter by name, constants and defaults too. Who keeps it keeps their memory."""
    device: Literal["gpu", "cpu"]
    """ "cpu": the interpreter runs it."""


Callback = Callable[[WatchedLaunch], Any]


class LaunchWatch:
    """What `on_launch` gives: `remove()` ends it, and so does the end of a `with`."""

    def __init__(self, enter: Callback | None, exit: Callback | None) -> None:
        self.enter = enter
        self.exit = exit
        watches.append(self)
        _gpu_launches.begin(_around_on_gpu)

    def remove(self) -> None:
        """From now on launches are not told any more; a second time does nothing."""
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
"""Those that last, in the order in which they began."""

_gpu_launches = GpuLaunches()


@names_bad_arguments
def on_launch(enter: Callback | None = None, exit: Callback | None = None) -> LaunchWatch:
    """Call functions around every launch of a Triton kernel, on a GPU or on the interpreter.

        with kernellab.on_launch(lambda launch: print(launch.kernel.__name__, launch.grid)):
            train_step()

    Each is given the launch: `.kernel`, `.grid`, `.arguments` by name, `.device`. Several watches
    nest: who began first is told first before a launch, and last after it. On a GPU a launch is
    over for the host when it is in the stream; kernels that torch.compile launches by itself are
    not seen. Without a watch nothing is called, and nothing is in Triton's way.

    Args:
        enter: called before; what it raises stops the launch.
        exit: called after, also where the launch failed.

    Returns:
        What ends it: `.remove()`, or the end of a `with`.

    Raises:
        ArgumentError: neither is given, or one is no function.
    """
    for name, one in (("enter", enter), ("exit", exit)):
        if one is not None and not callable(one):
            raise ArgumentError(
                f"{name}={shown(one)} is no function", advice="It is called with the launch."
            )
    if enter is None and exit is None:
        raise ArgumentError(
            "on_launch was given nothing to call",
            advice="Give a function: on_launch(enter=lambda launch: print(launch.grid)).",
        )
    return LaunchWatch(enter, exit)


@contextmanager
def told(launch: WatchedLaunch) -> Iterator[None]:
    """Tell everybody who watches of a launch, before and after."""
    entered: list[LaunchWatch] = []
    try:
        for one in tuple(watches):
            entered.append(one)
            if one.enter is not None:
                one.enter(launch)
        yield
    finally:
        for one in reversed(entered):
            if one.exit is not None:
                one.exit(launch)


def _around_on_gpu(kernel: Any, grid: tuple[int, int, int], values: Sequence[Any]) -> Any:
    names = getattr(kernel, "arg_names", [f"argument {number}" for number in range(len(values))])
    return told(WatchedLaunch(kernel, grid, dict(zip(names, values, strict=False)), "gpu"))
