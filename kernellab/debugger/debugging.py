"""`kernellab.debug`: a launch in Python's debugger."""

from __future__ import annotations

import bdb
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kernellab import triton_api
from kernellab.common.argument_checks import check_flags
from kernellab.debugger.places import Breakpoint, Places
from kernellab.debugger.session import Session
from kernellab.debugger.tile_functions import for_prompts
from kernellab.interpreter.execution.grid import chosen_programs
from kernellab.interpreter.execution.launcher import Stepping, launch_stepped
from kernellab.interpreter.stepping.code import stepping_code
from kernellab.launch.argument_copies import copied, copied_back
from kernellab.launch.bound_launches import takes_launch
from kernellab.launch.preparation import EntryPoint, prepare_bound
from kernellab.records import BoundLaunch

_FIRST = (0, 0, 0)


@takes_launch
def debug(
    launch: BoundLaunch,
    *,
    program: int | str | Sequence[Any] = _FIRST,
    breakpoints: int | str | Iterable[Any] = (),
    in_place: bool = False,
) -> None:
    """Run a launch in pdb, on the kernel's own lines.

    The whole grid runs, in the usual order. The debugger stops in the given program, at its first
    line or, if there are breakpoints, at those. All commands are pdb's: `n`, `s`, `u`, `d`, `b`,
    `p`, `display`, ... Variables have the kernel's names: a tile is a NumPy array of its shape, and
    a pointer argument shows its tensor. `s` enters helper functions and Triton's own (`tl.sum`),
    but not the interpreter. In IPython with the extension loaded, IPython's debugger is used.

    At a fault of the program the debugger prompts before anything is written; `u` and `d` walk the
    kernel's frames. `c` then raises the fault, and `q` does not. `q` at any prompt, and Ctrl-C
    while the kernel runs, end the launch and leave all tensors unchanged.

    Tensors on a GPU, up to 1 GiB, are copied to the CPU; a line before the first prompt says so.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch; of an
            autotuned kernel, the first config counts.
        program: the id of the program to stop in: `96`, `(2, 1)`, `(0, 0, 0)`; a list of ids; or
            "all". At most 100,000 programs.
        breakpoints: one line of the kernel's file or several; with a condition over the kernel's
            names, `"14, x.max() > 10"`; in another file, `"helpers.py:7"`; at the start of a
            function, `"helper"`. Each `breakpoint()` in the kernel counts too. A breakpoint on a
            line without code moves to the next line with code.
        in_place: write the results to the arguments' own tensors when the launch has ended. By
            default the launch runs on copies.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Raises:
        OptionError: the program is not in the grid, a breakpoint is at no code of the kernel, or
            `stage` is given.
        ArgumentError: the arguments do not fit, or more than 1 GiB of them are on a GPU.
        GridError, CompileError, UnsupportedOperation, KernelFault: as `kernellab.run`.
    """
    __tracebackhide__ = True
    check_flags(in_place=in_place)
    prepared = prepare_bound(launch, launch.target, _DEBUG)
    plain, call, target = prepared.kernel, prepared.call, prepared.target
    sizes = prepared.sizes()
    programs = chosen_programs(program, sizes, "program")
    code = stepping_code(plain, call, target)
    places = Places(code)
    in_source = (Breakpoint(file, line) for file, line in code.breakpoints)
    session = Session(plain.__name__, sizes, places, [*places.breakpoints(breakpoints), *in_source])
    values = copied(call.values)
    edited = triton_api.edited_functions(plain)
    session.show([*prepared.notes, *map(triton_api.format_edited, edited)])
    try:
        stepping = Stepping(
            code, programs, around=session.around, seen_as=partial(for_prompts, target=target)
        )
        with triton_api.shown_as_compiled([*edited, *triton_api.unreadable_functions(plain)]):
            launch_stepped(plain, sizes, replace(call, values=values), stepping, prepared.options)
    except bdb.BdbQuit:
        return
    finally:
        session.close()
    if in_place:
        copied_back(values, call.values)
        prepared.copy_to_originals()


_DEBUG = EntryPoint(
    "debug",
    {"stage": "the debugger follows the lines of the source, which only TTIR still has"},
    keeps_assertions=True,
)
