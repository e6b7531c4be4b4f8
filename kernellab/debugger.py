"""`kernellab.debug`: a launch in Python's debugger, which stops in the kernel's own frames."""

from __future__ import annotations

import bdb
import os
import pdb  # noqa: T100 - no one debugs this file
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy
import triton
import triton.language

from kernellab import triton_api
from kernellab.common import system
from kernellab.common.arguments import check_flags, listed
from kernellab.common.text import remember_source, shown
from kernellab.compiler.binding import bind
from kernellab.errors import ArgumentError, KernelFault, KernelLabError, OptionError, nearest
from kernellab.interpreter.execution import stepping_code
from kernellab.interpreter.execution.faults import FAULTS
from kernellab.interpreter.execution.grid import Grid, Programs, chosen_programs
from kernellab.interpreter.execution.inspection import Pointer
from kernellab.interpreter.execution.launcher import Stepping, launch_stepped
from kernellab.ir import tt
from kernellab.launch.argument_copies import copied, copied_back
from kernellab.launch.dispatch import check_fits
from kernellab.launch.preparation import EntryPoint, prepare_bound, takes_launch
from kernellab.records import BoundLaunch, Target

# Where a debugger can stop in a kernel, and the breakpoints that a caller requests.


_MOST_DIGITS = 10
"""The most digits of a line number that is read."""


@dataclass(frozen=True)
class Breakpoint:
    """A place to stop at.

    Attributes:
        condition: an expression over the kernel's names, "x.max() > 10"; "" for none.
        moved_from: the requested line, if it has no code; else None.
    """

    file: str
    line: int
    condition: str = ""
    moved_from: int | None = None


class Places:
    """The lines and functions of one kernel's source."""

    def __init__(self, code: stepping_code.SteppingCode) -> None:
        self._functions = list(code.functions.values())
        self._entry = code.entry
        self._lines = {
            f: code.lines_with_code(f)
            for f in {function.source.file for function in self._functions}
        }
        self._codes = frozenset(map(id, code.functions))

    def has(self, frame: FrameType) -> bool:
        """Return whether a frame runs one of the kernel's functions."""
        return id(frame.f_code) in self._codes  # to hash a code object takes time in its size

    def knows(self, file: str) -> bool:
        return file in self._lines

    def function(self, name: str) -> stepping_code.SteppingFunction | None:
        """Return the function with a name, such as "helper" or "tl.sum"; None if there is none."""
        last = name.rpartition(".")[2]
        return next(
            (function for function in self._functions if function.source.name == last), None
        )

    def line_with_code(self, file: str, line: int) -> int | None:
        """Return the line itself if it has code, else the next line with code in the same function,
        or in the file where the line is outside of functions; None if there is none.
        """
        ends = [last for first, last in self._extents(file) if first <= line <= last]
        later = [n for n in self._lines[file] if n >= line and (not ends or n <= ends[0])]
        return later[0] if later else None

    def is_definition(self, file: str, line: int) -> bool:
        return any((f.source.file, f.source.line) == (file, line) for f in self._functions)

    def breakpoints(self, requested: Any) -> Iterator[Breakpoint]:
        """Yield the breakpoints that a caller requests, for one place or several. Raises
        OptionError: a request cannot be read, or its place has no code of this kernel.
        """
        several = isinstance(requested, Iterable) and not isinstance(requested, str)
        for request in listed("breakpoints", requested) if several else [requested]:
            yield self._breakpoint(request)

    def _breakpoint(self, request: Any) -> Breakpoint:
        place, condition = _split(request)
        _check_condition(condition, request)
        file, line = self._place(place, request)
        line_with_code = self.line_with_code(file, line)
        if line_with_code is None:
            raise OptionError(
                f"Cannot set a breakpoint at {os.path.basename(file)}:{line}: the kernel has no "
                "code on that line or on any later line of the function.",
                advice=f"Choose one of these lines: {_as_ranges(self._lines[file])}.",
            )
        moved = line_with_code != line and not self.is_definition(file, line)
        return Breakpoint(file, line_with_code, condition, line if moved else None)

    def _place(self, place: str, request: Any) -> tuple[str, int]:
        """Return the file and the line of "14", "kernels.py:14" or "helper"."""
        file, colon, line = place.rpartition(":")
        number = line.strip()
        if number.isdecimal() and len(number) < _MOST_DIGITS and int(number) > 0:
            if not colon:
                return self._entry.source.file, int(number)
            matching = [
                known
                for known in self._lines
                if known == file or (bool(file) and known.replace(os.sep, "/").endswith(f"/{file}"))
            ]
            if matching:
                return matching[0], int(number)
        elif (function := self.function(place)) is not None:
            return function.source.file, function.source.line
        names = [function.source.name for function in self._functions]
        raise OptionError(
            f"breakpoints must name places in this kernel, got {shown(request)}.",
            advice=(
                f'{nearest(place, names)} Pass a line, "FILE:LINE" or the name of a function '
                f"that the kernel calls ({', '.join(dict.fromkeys(names))}). A condition may "
                'follow a comma: "14, x.max() > 10".'
            ).lstrip(),
        )

    def _extents(self, file: str) -> Iterator[tuple[int, int]]:
        """Yield the first and the last line of each function in the file, from its `def` on."""
        for function in self._functions:
            if function.source.file == file:
                source = function.source.text.rstrip("\n")
                yield function.source.line, function.source.line + source.count("\n")


def _split(request: Any) -> tuple[str, str]:
    """Return the place and the condition of 14, "14, x.max() > 10" or (14, "x.max() > 10")."""
    match request:
        case bool():
            pass
        case int():
            return str(request), ""
        case str():
            place, _, condition = request.partition(",")
            return place.strip(), condition.strip()
        case (int() | str() as place, str() as condition):
            return str(place).strip(), condition.strip()
    raise OptionError(
        f"breakpoints must be lines, places or pairs of a place and a condition, got {request!r}.",
        advice='For example: 14, "14, x.max() > 10" or (14, "x.max() > 10").',
    )


def _check_condition(condition: str, request: Any) -> None:
    if not condition:
        return
    try:
        compile(condition, "<condition>", "eval")
    except SyntaxError as error:
        raise OptionError(
            f"The condition of the breakpoint {request!r} is not an expression: {error.msg}.",
            advice="Write a Python expression, such as x.max() > 10.",
        ) from None


def _as_ranges(lines: Iterable[int]) -> str:
    """Return lines as text: "4 to 7, 9"."""
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in ranges)


# Python's debugger, extended for kernels: it stops in the kernel's own frames only.


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
        """Do not stop for a fault in each frame: the session prompts once, when it is explained."""
        if issubclass(exc_info[0], FAULTS):
            self.go_on()
        else:
            super().user_exception(frame, exc_info)

    def go_on(self) -> None:
        """From here on, stop at breakpoints only."""
        nowhere = sys._getframe()  # not a frame of the kernel
        self._set_stopinfo(nowhere, None, -1)  # type: ignore[attr-defined]

    def stop_at_once(self) -> None:
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
                f"Cannot set a breakpoint on line {lineno}: neither it nor any later line of its "
                "function has code."
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


# One session of a debugger: what happens while the chosen programs of a launch run.


class DebugSession:
    """A debugger around the chosen programs of one launch; `around` is for `Stepping`."""

    def __init__(
        self, name: str, grid: Grid, places: Places, breakpoints: Sequence[Breakpoint]
    ) -> None:
        self._name = name
        self._grid = grid
        # Without its handler of SIGINT, which would stay installed: Ctrl-C ends this launch as it
        # ends any other.
        self._pdb: Any = debugger_class(system.current_debugger())(nosigint=True)
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
        """Stop at the program's first line, unless there are breakpoints or the user gave `c`."""
        number = int(programs.linear[0])
        if number in self._begun:
            return
        self._pdb.heading = f"> {self._name}: program {programs.id(0)} of grid {self._grid}"
        goes_on = (
            self._begun
            and self._pdb.stoplineno == -1
            and any(self._pdb.places.knows(file) for file in self._pdb.get_all_breaks())
        )
        if not self._begun:
            self._pdb.reset()
            goes_on = not self._stops_at_once
        self._begun.add(number)
        self._pdb.botframe = None
        if goes_on:
            self._pdb.go_on()
        else:
            self._pdb.stop_at_once()

    def _look_at(self, fault: KernelFault) -> None:
        """Prompt in the frame of the fault, before the faulty access has changed anything."""
        self._pdb.message(f"*** {type(fault).__name__}: {fault}")
        self._pdb.heading = ""
        self._pdb.reset()
        self._pdb.interaction(None, fault.__traceback__)
        if self._pdb.quitting:
            raise bdb.BdbQuit from None


# `kernellab.debug`: a launch in Python's debugger.


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
    check_fits(plain, call, target)
    sizes = prepared.sizes()
    programs = chosen_programs(program, sizes, "program")
    code = stepping_code.stepping_code(plain, call, target, is_late=prepared.options.completes_late)
    places = Places(code)
    in_source = (Breakpoint(file, line) for file, line in code.breakpoints)
    session = DebugSession(
        plain.__name__, sizes, places, [*places.breakpoints(breakpoints), *in_source]
    )
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
    steps=True,
)


# Functions that only kernels can call, at a debugger's prompt, where tiles are NumPy arrays.


def for_prompts(scope: Mapping[str, Any], target: Target) -> dict[str, Any]:
    """Return a function's globals, with functions of arrays for Triton's modules and functions."""
    return {name: _for_arrays(name, value, target) for name, value in scope.items()}


def _for_arrays(words: str, value: Any, target: Target) -> Any:
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "triton":
        return TileModule(words, value, target)
    if triton_api.only_kernels_call(value):
        return TileFunction(words, value, target)
    return value


class TileModule(ModuleType):
    """A module of Triton whose functions take arrays."""

    def __init__(self, words: str, module: ModuleType, target: Target) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._words = words
        self._module = module
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return _for_arrays(f"{self._words}.{name}", getattr(self._module, name), self._target)

    def __dir__(self) -> list[str]:
        return dir(self._module)

    def __repr__(self) -> str:
        return repr(self._module)


class TileFunction:
    """A function that only kernels can call, which takes arrays; its attributes are unchanged."""

    def __init__(self, words: str, function: Any, target: Target) -> None:
        self._words = words
        self._function = function
        self._target = target

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Return what the function returns for tiles with these elements: an array, a NumPy scalar
        or a tuple of them.

        Raises:
            ArgumentError: it does not work at the prompt, or the compiler or the interpreter
                refuses the call.
        """
        try:
            return _called(self._function, args, keywords, self._target)
        except KernelLabError as error:
            problem = error.problem.removeprefix(
                f"Triton cannot compile {_NAME!r} for {self._target}: "
            )
            raise ArgumentError(f"{self._words}: {problem}", advice=error.advice) from None

    def __getitem__(self, grid: Any) -> Any:
        return self._function[grid]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return repr(self._function)


# One call as a kernel

_NAME = "call"
_RESULT = "kernellab_result"


def _called(function: Any, args: Sequence[Any], keywords: Mapping[str, Any], target: Target) -> Any:
    text = _KernelText()
    spelled = [text.spelled(value) for value in args]
    spelled += [f"{name}={text.spelled(value)}" for name, value in keywords.items()]
    source = text.source(f"{text.spelled(function)}({', '.join(spelled)})")
    kernel = _kernel(source, tuple(text.functions.items()))
    call = bind(kernel, (), text.values, target)
    code = stepping_code.stepping_code(kernel, call, target, traced=True)
    if any(
        isinstance(op, tt.GetProgramIdOp | tt.GetNumProgramsOp) for op in code.program.operations
    ):
        raise ArgumentError(
            "The program's id and the grid are not available at the prompt.",
            advice="`pid` is the id, unless the kernel has a variable of that name.",
        )
    observer = _ResultObserver()
    launch_stepped(kernel, (1,), call, Stepping(code, [(0, 0, 0)], hook=observer))
    return observer.result


@lru_cache(maxsize=256)
def _kernel(source: str, functions: tuple[tuple[str, Any], ...]) -> Any:
    """Return the kernel of a source; kept, because a condition makes its call at each stop."""
    file = f"<call at the prompt {hash(source):x}>"
    remember_source(file, source)
    scope = {"tl": triton.language, "__name__": __name__, **dict(functions)}
    exec(compile(source, file, "exec"), scope)  # noqa: S102 - the text is this module's own
    return triton.jit(scope[_NAME])


class _KernelText:
    """The source of one call's kernel, which loads its arrays; everything else is compiled in.

    Attributes:
        values: the arguments by parameter.
        functions: the functions that it calls or passes on, by name.
    """

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self._parameters: list[str] = []
        self._loads: list[str] = []

    def source(self, expression: str) -> str:
        """Return the source, in which `_RESULT` is the expression's value."""
        lines = [f"def {_NAME}({', '.join(self._parameters)}):", *self._loads]
        return "\n".join([*lines, f"    {_RESULT} = {expression}", ""])

    def spelled(self, value: Any) -> str:
        """Return the text for a value in the expression."""
        if isinstance(value, Pointer):
            raise ArgumentError(
                "Pointers cannot be passed at the prompt.",
                advice=(
                    "x_ptr[:8] reads elements of a tensor, and (x_ptr + offsets)[...] those at "
                    "offsets."
                ),
            )
        if isinstance(value, tuple | list) and any(map(_has_arrays, value)):
            return f"({', '.join(map(self.spelled, value))},)"
        if _has_arrays(value):
            return self._loaded(numpy.asarray(value))
        function = value._function if isinstance(value, TileFunction) else value
        if triton_api.only_kernels_call(function):
            name = f"function_{len(self.functions)}"
            self.functions[name] = function
            return name
        name = f"value_{len(self.values)}"
        self.values[name] = value
        self._parameters.append(f"{name}: tl.constexpr")
        return name

    def _loaded(self, array: numpy.ndarray) -> str:
        if any(size & (size - 1) or not size for size in array.shape):
            raise ArgumentError(
                f"The sizes of a tile must be powers of two, got the shape {array.shape}.",
                advice="NumPy's functions take any shape: np.sum(x[:3]).",
            )
        pointer = f"pointer_{len(self.values)}"
        self.values[pointer] = array.reshape(-1).copy()
        self._parameters.append(pointer)
        places = f"tl.reshape(tl.arange(0, {array.size}), {list(array.shape)})"
        name = pointer.replace("pointer", "tile")
        self._loads.append(
            f"    {name} = tl.load({pointer}{f' + {places}' if array.shape else ''})"
        )
        return name


def _has_arrays(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_arrays, value))
    return isinstance(value, numpy.ndarray | numpy.generic | Pointer)


class _ResultObserver:
    """The hook of the traced kernel, which keeps the value of the result's variable."""

    result: Any = None

    def line(self, number: int) -> None:
        """Do nothing before a line."""

    def bound(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Keep the result's value; variables of called functions come before the kernel's own."""
        self.result = dict(zip(names, values)).get(_RESULT, self.result)
