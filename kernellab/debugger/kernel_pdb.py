"""Python's debugger, made to know a kernel: it stops in the kernel's own frames,
and in no others.
"""

from __future__ import annotations

import pdb  # noqa: T100 - nobody debugs this file
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
    """What a debugger class that derives from `pdb.Pdb` is extended by; see `debugger_class`.

    Attributes:
        places: where it can stop.
        heading: what to print before the next prompt, once: which program it stopped in.
    """

    places: Places
    heading: str = ""

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Nothing outside the kernel's functions is traced:
        no frame of the interpreter is stepped into.
        """
        if not self.places.has(frame):
            return None
        return super().trace_dispatch(frame, event, arg)

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """The kernel's frames alone."""
        stack, index = super().get_stack(f, t)
        own = [entry for entry in stack if self.places.has(entry[0])]
        return (own, len(own) - 1) if own else (stack, index)

    def interaction(self, *where: Any) -> None:
        """Prompt, and say first what the heading says."""
        if self.heading:
            self.message(self.heading)
            self.heading = ""
        super().interaction(*where)

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        """A fault is looked at once it has been explained, and not in each frame that it passes."""
        if issubclass(exc_info[0], FAULTS):
            self.go_on()
        else:
            super().user_exception(frame, exc_info)

    def go_on(self) -> None:
        """From here on stop at breakpoints alone."""
        nowhere = sys._getframe()  # no frame of the kernel's
        self._set_stopinfo(nowhere, None, -1)  # type: ignore[attr-defined]

    def stop_at_once(self) -> None:
        """Stop at the next line."""
        self._set_stopinfo(None, None)  # type: ignore[attr-defined]

    def error(self, msg: str) -> None:
        """Say what went wrong; of a tile's method in kernels, what to write here."""
        missing = _NO_METHOD.search(msg)
        if missing and triton_api.is_tile_method(missing[1]):
            function = {"to": "cast"}.get(missing[1], missing[1])
            msg += (
                "\n"
                "Tiles are NumPy arrays here, and functions of kernels take them: "
                f"tl.{function}(x, ...)"
            )
        super().error(msg)

    # Breakpoints

    def checkline(self, filename: str, lineno: int, *more: Any) -> int:
        """The line at which a breakpoint goes: the next one of the function,
        where this one has no code; 0 for nowhere.
        """
        if not self.places.knows(filename):
            return int(super().checkline(filename, lineno, *more))
        found = self.places.line_with_code(filename, lineno)
        if found is None:
            self.error(f"Line {lineno} has no code, nor has any later line of its function")
            return 0
        if found != lineno and not self.places.is_definition(filename, lineno):
            self.message(f"Line {lineno} has no code: the breakpoint moves to line {found}")
        return found

    def lineinfo(self, identifier: str) -> Any:
        """Name, file and line of a function of the kernel's source, for `b helper`."""
        function = self.places.function(identifier.strip("'"))
        if function is None:
            return super().lineinfo(identifier)
        return function.source.name, function.source.file, function.source.line

    # Commands that have to know tiles

    def preloop(self) -> None:
        """What `display` asked for, where it has changed;
        arrays have no single truth to compare by.
        """
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
        Not for a launch: q ends it, and kernellab.debug begins another.
        """
        self.error("A launch cannot be restarted from within: q, then call debug again")

    do_run = do_restart


def debugger_class(base: type[pdb.Pdb]) -> type[Any]:
    """A debugger such as `base` that knows kernels."""
    return type(f"Kernel{base.__name__}", (KernelStops, base), {})


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, numpy.ndarray) and isinstance(other, numpy.ndarray):
        return one.dtype == other.dtype and numpy.array_equal(one, other)
    try:
        return bool(one == other)
    except Exception:  # whatever the values' own comparison raises, they are shown again
        return False
