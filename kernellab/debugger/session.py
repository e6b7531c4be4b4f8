"""One session of a debugger: what happens while the chosen programs of a launch run."""

from __future__ import annotations

import bdb
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kernellab.debugger import front_end
from kernellab.debugger.kernel_pdb import debugger_class
from kernellab.debugger.places import Breakpoint, Places
from kernellab.errors import KernelFault
from kernellab.interpreter.execution.grid import Grid, Programs


class Session:
    """A debugger around the chosen programs of one launch; `around` is for `Stepping`."""

    def __init__(
        self, name: str, grid: Grid, places: Places, breakpoints: Sequence[Breakpoint]
    ) -> None:
        self._name = name
        self._grid = grid
        # Without its handler of SIGINT, which would stay installed: Ctrl-C ends this launch as it
        # ends any other.
        self._pdb: Any = debugger_class(front_end.current_debugger())(nosigint=True)
        self._pdb.places = places
        self._stops_at_once = not breakpoints
        self._known = {id(known) for known in bdb.Breakpoint.bpbynumber if known is not None}
        self._begun: set[int] = set()
        for breakpoint in breakpoints:
            self._set(breakpoint)

    def _set(self, new: Breakpoint) -> None:
        if new.moved_from is not None:
            self._pdb.message(
                f"Line {new.moved_from} has no code; the breakpoint moves to line {new.line}."
            )
        problem = self._pdb.set_break(new.file, new.line, cond=new.condition or None)
        if problem:
            self._pdb.error(problem)

    def show(self, sentences: Iterable[str]) -> None:
        """Print sentences before the first prompt."""
        for sentence in sentences:
            self._pdb.message(sentence)

    def close(self) -> None:
        """Clear the breakpoints of this session: Python keeps those of all debuggers together."""
        for current in list(bdb.Breakpoint.bpbynumber):
            if current is not None and id(current) not in self._known:
                self._pdb.clear_bpbynumber(current.number)

    @contextmanager
    def around(self, programs: Programs) -> Iterator[None]:
        """While active, the debugger watches the program, and prompts where a fault happens.

        Raises:
            bdb.BdbQuit: the user quit.
        """
        before = sys.gettrace()
        self._arm(programs)
        sys.settrace(self._pdb.trace_dispatch)
        try:
            yield
        except KernelFault as fault:
            sys.settrace(before)
            self._look_at(fault)
            raise
        finally:
            sys.settrace(before)

    def _arm(self, programs: Programs) -> None:
        """Have the debugger stop at the program's first line, unless it is to run on to a
        breakpoint: from the start where there are breakpoints, later after the user's `c`.
        """
        number = int(programs.linear[0])
        if number in self._begun:
            return
        self._pdb.heading = f"> {self._name}: program {programs.id(0)} of grid {self._grid}"
        goes_on = self._begun and self._pdb.stoplineno == -1 and self._has_breakpoints()
        if not self._begun:
            self._pdb.reset()
            goes_on = not self._stops_at_once
        self._begun.add(number)
        self._pdb.botframe = None
        if goes_on:
            self._pdb.go_on()
        else:
            self._pdb.stop_at_once()

    def _has_breakpoints(self) -> bool:
        return any(self._pdb.places.knows(file) for file in self._pdb.get_all_breaks())

    def _look_at(self, fault: KernelFault) -> None:
        """Prompt in the frame of the fault, before the faulty access has changed anything."""
        self._pdb.message(f"*** {type(fault).__name__}: {fault}")
        self._pdb.heading = ""
        self._pdb.reset()
        self._pdb.interaction(None, fault.__traceback__)
        if self._pdb.quitting:
            raise bdb.BdbQuit from None
