"""Python's debugger, extended for kernels: it stops in the kernel's own frames only."""

from __future__ import annotations

import pdb  # noqa: T100 - no one debugs this file
import re
import sys
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy

from kernellab import triton_api
from kernellab.debugger.places import Places
from kernellab.interpreter.execution.faults import FAULTS

if TYPE_CHECKING:
    _Pdb = pdb.Pdb
else:
    _Pdb = object


_NO_METHOD = re.compile(r"'numpy\.\w+' object has no attribute '(\w+)'")


class KernelStops(_Pdb):
    """The extension of a debugger class that derives from `pdb.Pdb`; see `debugger_class`.

    Attributes:
        places: where it can stop.
        heading: printed once before the next prompt: the program in which it stopped.
    """

    places: Places
    heading: str = ""

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Trace the kernel's functions alone, so that no step leads into the interpreter."""
        if not self.places.has(frame):
            return None
        return super().trace_dispatch(frame, event, arg)

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the kernel's frames alone."""
        stack, index = super().get_stack(f, t)
        own = [entry for entry in stack if self.places.has(entry[0])]
        return (own, len(own) - 1) if own else (stack, index)

    def interaction(self, *where: Any) -> None:
        """Print the heading, then prompt."""
        if self.heading:
            self.message(self.heading)
            self.heading = ""
        super().interaction(*where)

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        """Do not stop for a fault in each frame that it passes: the session prompts once, when the
        fault has been explained.
        """
        if issubclass(exc_info[0], FAULTS):
            self.go_on()
        else:
            super().user_exception(frame, exc_info)

    def go_on(self) -> None:
        """From here on, stop at breakpoints only."""
        nowhere = sys._getframe()  # not a frame of the kernel
        self._set_stopinfo(nowhere, None, -1)  # type: ignore[attr-defined]

    def stop_at_once(self) -> None:
        """Stop at the next line."""
        self._set_stopinfo(None, None)  # type: ignore[attr-defined]

    def error(self, msg: str) -> None:
        """Print an error; for a method that tiles have in kernels only, also what to write here."""
        missing = _NO_METHOD.search(msg)
        if missing and triton_api.is_tile_method(missing[1]):
            function = {"to": "cast"}.get(missing[1], missing[1])
            msg += (
                "\n"
                f"Tiles are NumPy arrays here. Triton's functions take them: tl.{function}(x, ...)."
            )
        super().error(msg)

    # Breakpoints

    def checkline(self, filename: str, lineno: int, *more: Any) -> int:
        """Return the line for a breakpoint: the next line with code of the function; 0 if there is
        none.
        """
        if not self.places.knows(filename):
            return int(super().checkline(filename, lineno, *more))
        line = self.places.line_with_code(filename, lineno)
        if line is None:
            self.error(
                f"Line {lineno} has no code, and neither has any later line of its function."
            )
            return 0
        if line != lineno and not self.places.is_definition(filename, lineno):
            self.message(f"Line {lineno} has no code; the breakpoint moves to line {line}.")
        return line

    def lineinfo(self, identifier: str) -> Any:
        """Return name, file and line of a function of the kernel, for `b helper`."""
        function = self.places.function(identifier.strip("'"))
        if function is None:
            return super().lineinfo(identifier)
        return function.source.name, function.source.file, function.source.line

    # Commands that show tiles

    def preloop(self) -> None:
        """Print the displayed expressions that changed; pdb's own comparison fails for arrays."""
        shown = self.displaying.get(self.curframe, {})  # type: ignore[attr-defined]
        for expression, old in shown.items():
            new = self._getval_except(expression)
            if not _is_same(new, old):
                shown[expression] = new
                self.message(f"display {expression}: {new!r}  [old: {old!r}]")

    def do_args(self, arg: str) -> None:  # noqa: ARG002 - pdb's own signature
        """a(rgs)
        Print the arguments of the current function.
        """
        assert self.curframe is not None
        code = self.curframe.f_code
        for name in code.co_varnames[: code.co_argcount]:
            if name in self.curframe.f_locals:
                self.message(f"{name} = {self.curframe.f_locals[name]!r}")

    do_a = do_args

    def do_restart(self, arg: str) -> None:  # noqa: ARG002 - pdb's own signature
        """run, restart
        Not for a launch: q ends it, and kernellab.debug starts another.
        """
        self.error("A launch cannot be restarted here. Quit (q) and call debug again.")

    do_run = do_restart


def debugger_class(base: type[pdb.Pdb]) -> type[Any]:
    """Return a debugger class like `base` that is extended for kernels."""
    return type(f"Kernel{base.__name__}", (KernelStops, base), {})


def _is_same(new: Any, old: Any) -> bool:
    if new is old:
        return True
    if isinstance(new, numpy.ndarray) and isinstance(old, numpy.ndarray):
        return new.dtype == old.dtype and numpy.array_equal(new, old)
    try:
        return bool(new == old)
    except Exception:  # values that cannot be compared are shown again
        return False
