"""The values of a kernel that is stepped through, and the debugger that shows them."""

from __future__ import annotations

import bdb
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy
from numpy.lib.stride_tricks import as_strided

from kernellab.common.patches import replaced, variable_is
from kernellab.interpreter.affine import SymbolicTile
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.shared_memory import SharedTile, barrier_states
from kernellab.interpreter.tiles import Value, full

# What a person sees of a kernel's values: arrays of the tile's shape, numbers, and pointers that
# say where they point.


def shown(value: Value, shape: tuple[int, ...]) -> Any:
    """A tile as an array of `shape`, a scalar as a NumPy scalar."""
    if shape and isinstance(value, SymbolicTile):
        # Other launches have the same tile: what is typed over at a prompt must not reach them.
        return full(value, shape).copy()
    if isinstance(value, numpy.ndarray) and value.shape == shape and shape:
        return value
    if not shape:
        return _number(numpy.asarray(value).reshape(())[()])
    tile = full(value, shape)
    return tile.reshape(shape) if tile.ndim > len(shape) else tile  # of one program


def unsigned(value: Value, shape: tuple[int, ...]) -> Any:
    """The same for integers that the kernel treats as unsigned."""
    array = numpy.asarray(shown(value, shape))
    numbers = array.view(f"u{array.itemsize}")[()] if array.dtype.kind == "i" else array[()]
    return numbers if shape else _number(numbers)


# Numbers in a list of variables

_IN_ROWS: ContextVar[bool] = ContextVar("kernellab_values_in_rows", default=False)


def values_in_rows() -> AbstractContextManager[object]:
    """While active, a number's class is called "int32 = 128": JupyterLab's table of variables
    shows the class alone of a value that is not a Python number.
    """
    return variable_is(_IN_ROWS, True)


def _number(number: Any) -> Any:
    if not _IN_ROWS.get() or isinstance(number, numpy.bool_):  # whose rows have the value
        return number
    base: Any = type(number)
    return _called(base, f"{number.dtype} = {number}")(number)


@lru_cache(maxsize=1024)
def _called(base: type, name: str) -> Any:
    members = {"__slots__": (), "__repr__": lambda number: repr(base(number))}
    return type(name, (base,), members)


_SHOWN = 64
"""Tensors of more elements are shown in part."""


class Pointer:
    """A pointer of a kernel, or a tile of pointers.

    A parameter is a pointer to the first element of its tensor. Indexing reads the elements that it
    points to, as `pointer[0]` does in C: `x_ptr[:8]` are the first eight elements of a tensor that
    is contiguous, `(x_ptr + offsets)[...]` those at the offsets.

    Attributes:
        argument: the name of the parameter that it points into; "" if only its address is known.
        tensor: the tensor behind that parameter; None if only the address is known.
        offsets: how many elements beyond the tensor's first one, a NumPy integer or an array; where
            only the address is known, the address in bytes.
        dtype: of the elements that it points to.
    """

    def __init__(self, buffer: Buffer | Elements, offsets: Value, shape: tuple[int, ...]) -> None:
        self._buffer = buffer
        self.offsets = shown(offsets, shape)
        self.argument = buffer.name if isinstance(buffer, Buffer) else ""
        self.tensor = buffer.tensor if isinstance(buffer, Buffer) else None

    @property
    def dtype(self) -> numpy.dtype:
        elements = self._buffer.elements if isinstance(self._buffer, Buffer) else self._buffer
        return elements.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tile of pointers; () for a single one."""
        return tuple(numpy.shape(self.offsets))

    @property
    def array(self) -> numpy.ndarray:
        """The tensor behind the parameter as an array of the pointer's dtype, sharing its memory.
        Raises IndexError: only the address of the pointer is known.
        """
        if not isinstance(self._buffer, Buffer):
            raise IndexError(f"{self!r} does not point into a known argument")
        tensor, elements = self._buffer.tensor, self._buffer.elements
        strides = tuple(step * tensor.element_size() for step in tensor.stride())
        return as_strided(elements[self._buffer.origin :], tuple(tensor.shape), strides)

    @property
    def addresses(self) -> Any:
        """The addresses of the elements, in bytes."""
        return self._buffer.addresses(self.offsets)

    def __add__(self, offset: Any) -> Pointer:
        step = 1 if isinstance(self._buffer, Buffer) else self._buffer.itemsize
        moved = numpy.asarray(self.offsets + numpy.asarray(offset) * step)
        return Pointer(self._buffer, moved, moved.shape)

    def __getitem__(self, index: Any) -> Any:
        """The elements that are pointed to: of a tile, those of the pointers at `index`;
        of a single pointer, those `index` elements further.

        Raises:
            IndexError: an element outside the storage, or of a pointer of which only the
                address is known.
        """
        if not isinstance(self._buffer, Buffer):
            raise IndexError(
                "only the address of this pointer is known: load from it in the kernel"
            )
        if self.shape:
            offsets = numpy.asarray(self.offsets)[index]
        else:
            reachable = numpy.arange(self._buffer.first, self._buffer.stop) - self._buffer.origin
            offsets = reachable[reachable >= self.offsets][index]
        places = numpy.asarray(offsets) + self._buffer.origin
        if numpy.any(self._buffer.is_outside(places)):
            raise IndexError(f"{self!r} points outside the storage of {self.argument}")
        return self._buffer.elements[places]

    def __repr__(self) -> str:
        if self.tensor is None:
            if self.shape:
                return f"<pointers to {self.dtype} at {self.offsets}>"
            return f"<pointer to {self.dtype} at {int(self.offsets):#x}>"
        if self.shape:
            return f"<{self.argument} + {self.offsets}>"
        kind = str(self.tensor.dtype).removeprefix("torch.")
        whole = f"{self.argument}: {kind}{list(self.tensor.shape)}"
        if int(self.offsets):
            return f"<{self.argument} + {self.offsets} of {whole}>"
        return f"<{whole}\n{numpy.array2string(self.array, threshold=_SHOWN)}>"


class OnChip:
    """Shared or tensor memory of a kernel: `memory[0]` reads its elements as they are now.

    Attributes:
        tile: the memory.
        is_barrier: whether it holds mbarriers.
    """

    def __init__(self, tile: SharedTile, is_barrier: bool) -> None:
        self.tile = tile
        self.is_barrier = is_barrier

    @property
    def array(self) -> numpy.ndarray:
        elements: numpy.ndarray = self.tile.read()[0]
        return elements

    @property
    def dtype(self) -> numpy.dtype:
        return self.tile.memory.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tile.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        return numpy.array(self.array, dtype)

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]

    def __repr__(self) -> str:
        if self.is_barrier:
            states = barrier_states(self.tile)
            return f"<{', '.join(map(repr, states))}>"
        elements = numpy.array2string(self.array, threshold=_SHOWN)
        return f"<memory on the chip: {self.dtype}{list(self.shape)}\n{elements}>"


class Fields:
    """A value of a kernel that has fields."""

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        vars(self).update(fields)
        self._type_name = type_name

    def __repr__(self) -> str:
        fields = {n: v for n, v in vars(self).items() if n != "_type_name"}
        return f"{self._type_name}({', '.join(f'{n}={v!r}' for n, v in fields.items())})"


# A debugger that watches this process: an editor's (JupyterLab's and VS Code's are debugpy), or
# Python's own with breakpoints in a kernel's file.


_MOST_PROGRAMS = 4096
"""The most programs for which a condition is evaluated."""

_FOREIGN = ("kernellab", "numpy", "torch", "xdsl")
"""Packages that a step from a kernel's line could enter, and that are skipped."""


@dataclass(frozen=True)
class AttachedDebugger:
    """The facts about a debugger that a launch needs.

    Attributes:
        stop: stops at its call, as `breakpoint()` does.
        conditional: the files with breakpoints that have a condition.
        stepping_over: makes a context in which the user's steps do not enter code of the
            interpreter or of its dependencies.
    """

    stop: Callable[[], None]
    conditional: frozenset[str]
    stepping_over: Callable[[], AbstractContextManager[None]]

    def programs(
        self, files: Iterable[str], grid: tuple[int, int, int]
    ) -> list[tuple[int, int, int]]:
        """The programs that it sees: the first, or, if a breakpoint has a condition, the first
        4,096, for each of which the condition is evaluated.
        """
        if self.conditional.isdisjoint(map(_canonical, files)):
            return [(0, 0, 0)]
        x, y, z = grid
        count = min(x * y * z, _MOST_PROGRAMS)
        return [(n % x, n // x % y, n // (x * y)) for n in range(count)]


def attached_debugger(files: Callable[[], Iterable[str]]) -> AttachedDebugger | None:
    """The debugger that watches what happens in a kernel's files; None if there is none."""
    debugpy: Any = sys.modules.get("debugpy")
    if debugpy is not None and debugpy.is_client_connected():
        conditional = frozenset(_conditional_files())
        return AttachedDebugger(debugpy.breakpoint, conditional, _debugpy_stepping_over)
    tracer = getattr(sys.gettrace(), "__self__", None)
    return _python_debugger(tracer, files()) if isinstance(tracer, bdb.Bdb) else None


def _canonical(file: str) -> str:
    return os.path.normcase(os.path.realpath(file))


# Python's own


def _python_debugger(tracer: bdb.Bdb, files: Iterable[str]) -> AttachedDebugger | None:
    """A `pdb`, if it has breakpoints in these files; otherwise it need not see their code."""
    watched = [file for file in files if tracer.canonic(file) in tracer.breaks]
    if not watched:
        return None
    conditional = (
        _canonical(file)
        for file in watched
        for line in tracer.breaks[tracer.canonic(file)]
        if any(line_break.cond for line_break in tracer.get_breaks(file, line))
    )

    def stepping_over() -> AbstractContextManager[None]:
        foreign = {*_FOREIGN, *(f"{name}.*" for name in _FOREIGN)}
        return replaced(tracer, skip={*(tracer.skip or ()), *foreign})

    def stop() -> None:
        tracer.set_trace(sys._getframe(1))

    return AttachedDebugger(stop, frozenset(conditional), stepping_over)


# debugpy


def _conditional_files() -> Iterator[str]:
    # Without this attribute, conditions are evaluated for the first program only.
    for file, lines in getattr(_pydevd(), "breakpoints", {}).items():
        if any(
            getattr(line, "condition", None) or getattr(line, "hit_condition", None)
            for line in lines.values()
        ):
            yield _canonical(file)


@contextmanager
def _debugpy_stepping_over() -> Iterator[None]:
    debugger: Any = _pydevd()
    filters = getattr(getattr(debugger, "_files_filtering", None), "_exclude_filters", None)
    made: Any = getattr(sys.modules.get("_pydevd_bundle.pydevd_filtering"), "ExcludeFilter", None)
    if filters is None or made is None:  # another pydevd: steps then enter what they meet
        yield
        return
    before = list(filters)
    debugger.set_exclude_filters([*(made(path, True, True) for path in _foreign_files()), *before])
    try:
        with values_in_rows(), _own_names_folded(debugger):
            yield
    finally:
        debugger.set_exclude_filters(before)


@contextmanager
def _own_names_folded(debugger: Any) -> Iterator[None]:
    """Put the names of the generated code, which begin with an underscore, into a group."""
    presented = getattr(getattr(debugger, "variable_presentation", None), "_presentation", {})
    before = presented.get(_PROTECTED)
    if before == "inline":
        presented[_PROTECTED] = "group"
    try:
        yield
    finally:
        if before == "inline":
            presented[_PROTECTED] = before


_PROTECTED = "protected variables"


def _pydevd() -> Any:
    """Return the debugger that debugpy builds on; only private parts of it are used."""
    find: Any = getattr(sys.modules.get("pydevd"), "get_global_debugger", None)
    return None if find is None else find()


def _foreign_files() -> Iterator[str]:
    """Patterns of the files that steps shall not enter."""
    for name in _FOREIGN:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            yield os.path.join(os.path.dirname(file), "**")
    yield os.path.join(os.path.dirname(os.__file__), "*.py")
