"""`kernellab.debug`: a launch in Python's debugger."""

from __future__ import annotations

import bdb
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kernellab.argument_copies import copied, copied_back
from kernellab.compiler.pipeline import unwrap_kernel
from kernellab.debugger.places import Breakpoint, Places
from kernellab.debugger.session import Session
from kernellab.errors import OptionError
from kernellab.interpreter.grid import check_grid, linear_ids
from kernellab.interpreter.launcher import Stepping, launch_stepped
from kernellab.interpreter.stepping.code import stepping_code
from kernellab.interpreting import emulated_for
from kernellab.launching import Grid
from kernellab.run_options import DEFAULT, split_keywords
from kernellab.specialize import bind

Program = tuple[int, int, int]


def debug(
    kernel: Any,
    grid: Grid,
    *args: Any,
    program: int | Sequence[int] | Sequence[Sequence[int]] = (0, 0, 0),
    breakpoints: Iterable[Any] = (),
    in_place: bool = False,
    **keywords: Any,
) -> None:
    """Run a launch in pdb, on the kernel's own lines.

    The whole grid runs, in its order; the debugger stops in the named program: at its first line, or where there are breakpoints, at those. `n`, `s`, `u`, `d`, `b`, `p`, `display` and all else are pdb's. Names are the kernel's: tiles are NumPy arrays of their shape, a pointer argument shows its tensor. `s` enters helper functions and Triton's own (`tl.sum`), never the interpreter. Where the extension is loaded in IPython, its debugger takes the place of Python's.

    A fault of the program is looked at where it happened: nothing is written yet, and `u` and `d` walk the kernel's frames. Going on from there (`c`) raises it, `q` does not. `q` anywhere, and Ctrl-C while the kernel runs, end the launch, and every tensor is as it was.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`; of an autotuned kernel, the first config counts.
        program: the id of the program to stop in: `96`, `(2, 1)`, `(0, 0, 0)`; or a list of ids.
        breakpoints: lines of the kernel's file; with a condition over its names, `"14, x.max() > 10"`; in another file,
            `"helpers.py:7"`; at a function's beginning, `"helper"`. Each `breakpoint()` in the kernel is one too. One on a line
            without code moves to the next line that has some.
        in_place: let the launch change the arguments' own tensors, once it has come to its end; by default it runs on copies.

    Raises:
        OptionError: the program is not in the grid, a breakpoint is nowhere, or a stage other than TTIR is asked for.
        ArgumentError, GridError, CompileError, UnsupportedOperation, KernelFault: as `kernellab.run`.
    """
    __tracebackhide__ = True
    target = emulated_for(kernel)
    plain, keywords = unwrap_kernel(kernel, args, keywords, {})
    keywords, options, run_options = split_keywords(keywords, plain.arg_names)
    if run_options.stage != DEFAULT.stage:
        raise OptionError(
            f"stage={run_options.stage!r}: a debugger walks the kernel's source, which only its TTIR follows line by line",
            advice="Leave the stage out.",
        )
    call = bind(plain, args, keywords, target, options=options)
    programs = named_programs(program)
    sizes = check_grid(grid, call.values)
    linear_ids(programs, sizes)
    code = stepping_code(plain, call, target)
    places = Places(code)
    own = (Breakpoint(file, line) for file, line in code.breakpoints)
    session = Session(plain.__name__, sizes, places, [*places.breakpoints(breakpoints), *own])
    values = copied(call.values)
    try:
        stepping = Stepping(code, programs, around=session.around)
        launch_stepped(plain, sizes, replace(call, values=values), stepping, run_options)
    except bdb.BdbQuit:
        return
    finally:
        session.close()
    if in_place:
        copied_back(values, call.values)


def named_programs(program: Any) -> list[Program]:
    """The ids that a caller names: one as a number or a tuple, or a list of such.

    Raises:
        OptionError: it is none of these.
    """
    several = program if isinstance(program, list) else [program]
    return [_id(one, program) for one in several]


def _id(one: Any, program: Any) -> Program:
    numbers = (
        (one,) if isinstance(one, int) else tuple(one) if isinstance(one, tuple | list) else ()
    )
    if not 1 <= len(numbers) <= 3 or not all(isinstance(number, int) for number in numbers):
        raise OptionError(
            f"program={program!r} names no program",
            advice="Give its id, program=(2, 0, 0), or a list of ids: program=[(0, 0, 0), (2, 0, 0)].",
        )
    x, y, z = (*numbers, 0, 0)[:3]
    return x, y, z
