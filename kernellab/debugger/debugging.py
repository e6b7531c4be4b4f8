"""`kernellab.debug`: a launch in Python's debugger."""

from __future__ import annotations

import bdb
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kernellab import triton_api
from kernellab.common.argument_checks import check_flags
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.debugger.places import Breakpoint, Places
from kernellab.debugger.session import Session
from kernellab.debugger.tile_functions import for_prompts
from kernellab.interpreter.execution.grid import chosen_programs
from kernellab.interpreter.execution.launcher import Stepping, launch_stepped
from kernellab.interpreter.stepping.code import stepping_code
from kernellab.launch.argument_copies import copied, copied_back
from kernellab.launch.preparation import EntryPoint, Grid, apart_from_parameters, prepare

_FIRST = (0, 0, 0)


@names_bad_arguments
def debug(
    kernel: Any,
    grid: Grid,
    *args: Any,
    program: int | str | Sequence[Any] = _FIRST,
    breakpoints: int | str | Iterable[Any] = (),
    in_place: bool = False,
    **keywords: Any,
) -> None:
    """Run a launch in pdb, on the kernel's own lines.

    The whole grid runs, in its order; the debugger stops in the named program: at its first line,
    or where there are breakpoints, at those. `n`, `s`, `u`, `d`, `b`, `p`, `display` and all else
    are pdb's. Names are the kernel's: tiles are NumPy arrays of their shape, a pointer argument
    shows its tensor. `s` enters helper functions and Triton's own (`tl.sum`), never the
    interpreter. Where the extension is loaded in IPython, its debugger takes the place of Python's.

    A fault of the program is looked at where it happened: nothing is written yet, and `u` and `d`
    walk the kernel's frames. Going on from there (`c`) raises it, `q` does not. `q` anywhere, and
    Ctrl-C while the kernel runs, end the launch, and every tensor is as it was.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`; of an autotuned kernel, the
            first config counts.
        program: the id of the program to stop in: `96`, `(2, 1)`, `(0, 0, 0)`; a list
            of ids; or "all"; no more than 100,000.
        breakpoints: lines of the kernel's file, one or several; with a condition over its names,
            `"14, x.max() > 10"`; in another file, `"helpers.py:7"`; at a function's beginning,
            `"helper"`. Each `breakpoint()` in the kernel is one too. One on a line without code
            moves to the next line that has some.
        in_place: let the launch change the arguments' own tensors, once it has come to its end; by
            default it runs on copies.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Raises:
        OptionError: the program is not in the grid, a breakpoint is nowhere, or a stage other than
            TTIR is asked for.
        ArgumentError: arguments that do not fit, or tensors on a GPU.
        GridError, CompileError, UnsupportedOperation, KernelFault: as `kernellab.run`.
    """
    __tracebackhide__ = True
    given = _DebugOptions(program, breakpoints, in_place)
    own, keywords = apart_from_parameters(given, kernel, args, keywords)
    check_flags(in_place=own.in_place)
    launch = prepare(kernel, grid, args, keywords, None, _DEBUG)
    plain, call, target = launch.kernel, launch.call, launch.target
    sizes = launch.sizes()
    programs = chosen_programs(own.program, sizes, "program")
    code = stepping_code(plain, call, target)
    places = Places(code)
    in_source = (Breakpoint(file, line) for file, line in code.breakpoints)
    session = Session(
        plain.__name__, sizes, places, [*places.breakpoints(own.breakpoints), *in_source]
    )
    values = copied(call.values)
    edited = triton_api.edited_functions(plain)
    session.say(map(triton_api.format_edited, edited))
    try:
        stepping = Stepping(
            code, programs, around=session.around, seen_as=partial(for_prompts, target=target)
        )
        with triton_api.shown_as_compiled([*edited, *triton_api.unreadable_functions(plain)]):
            launch_stepped(plain, sizes, replace(call, values=values), stepping, launch.options)
    except bdb.BdbQuit:
        return
    finally:
        session.close()
    if own.in_place:
        copied_back(values, call.values)


_DEBUG = EntryPoint(
    "debug",
    {"stage": "a debugger walks the kernel's source, which only its TTIR follows line by line"},
    keeps_assertions=True,
)


@dataclass(frozen=True)
class _DebugOptions:
    """What `debug` itself is told; see there."""

    program: Any = _FIRST
    breakpoints: Any = ()
    in_place: Any = False
