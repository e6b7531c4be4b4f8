"""Each launch of a compiled kernel on a GPU, seen from outside while somebody wants to see it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from triton.compiler import CompiledKernel

Around = Callable[[Any, tuple[int, int, int], Sequence[Any]], AbstractContextManager[Any]]
"""Given a kernel, the sizes of its grid and all its arguments in order: what is entered before the
launch, and left after it."""

_OTHERS = 6
"""What a launcher takes between the grid and the arguments: stream, function, two packs of
metadata, two hooks."""


class GpuLaunches:
    """The one attribute of Triton's class that changes while somebody watches: until then, and
    afterwards, it is Triton's own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._original: Any = None

    def begin(self, around: Around) -> None:
        """From now on launches go through `around`."""
        with self._lock:
            if self._original is None:
                self._original = vars(CompiledKernel)["run"]
                CompiledKernel.run = _watched(self._original, around)

    def end(self) -> None:
        """Launches are Triton's own again."""
        with self._lock:
            if self._original is not None:
                CompiledKernel.run = self._original
                self._original = None


def _watched(original: Any, around: Around) -> property:
    def run(compiled: Any) -> Callable[..., Any]:
        launch = original.__get__(compiled)
        kernel = getattr(compiled.src, "fn", compiled.name)

        def launched(x: int, y: int, z: int, *others: Any) -> Any:
            with around(kernel, (x, y, z), others[_OTHERS:]):
                return launch(x, y, z, *others)

        return launched

    return property(run)
