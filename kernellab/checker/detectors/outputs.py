"""Find outputs that a launch does not write, as a whole or in part."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy
import torch
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.checker.checked_run import CheckedAccess, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.records import STORES
from kernellab.checker.shadow_memory import PIECE, ListedPart, ShadowArray, Storage, Storages
from kernellab.common.text import called, element_text
from kernellab.errors import SourcePosition
from kernellab.interpreter.execution import program
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.memory.buffers import Buffer, extent_of
from kernellab.interpreter.tiles import Value
from kernellab.ir import tt
from kernellab.ir.operations import GlobalWrite, has, locate

_STORES = re.compile(r"(.*_)?(store|scatter|atomic|shared_to_global)(_.*)?")
"""Functions and methods that write: tl.store, tl.atomic_add, descriptor.store, buffer_store."""

_LOADS = re.compile(r"(.*_)?(load|gather)(_.*)?")
"""Functions whose result is not a pointer to what they are given."""


def conditional_stores(kernel: Any) -> dict[str, SourcePosition]:
    """Return the parameters that the source stores to under a condition, with the first store."""
    functions = {
        function.__name__: function
        for function in triton_api.reachable_functions(kernel)
        if isinstance(function, triton_api.JITFunction)
        and not triton_api.is_in_library(triton_api.definition_of(function).file)
    }
    stores = _Stores(functions).of(kernel)
    return {name: place for name, (place, guarded) in stores.items() if guarded}


def removed_note(name: str, place: SourcePosition) -> str:
    """Return, as text, that the compiled code does not store to a parameter."""
    return (
        f"{name} is not an output of this launch: the store on line {place.line} is in code that "
        "the compiler removed, because the launch's constants decide the condition."
    )


class _Stores:
    """The stores of functions that call each other."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._known: dict[str, dict[str, tuple[SourcePosition, bool]]] = {}

    def of(self, function: Any) -> dict[str, tuple[SourcePosition, bool]]:
        """Return the parameters that a function stores to, where, and whether under a condition."""
        name = function.__name__
        if name not in self._known:
            self._known[name] = {}  # for a function that calls itself
            body = function.parse().body[0]
            for parameter in function.arg_names:
                aliases = _aliases(body, parameter)
                for call, guarded in _calls(body.body, False):
                    for place, within in self._stored_by(function, call, aliases):
                        known = self._known[name].get(parameter)
                        if known is None or (not known[1] and (guarded or within)):
                            self._known[name][parameter] = place, guarded or within
        return self._known[name]

    def _stored_by(
        self, function: Any, call: ast.Call, aliases: Set[str]
    ) -> Iterator[tuple[SourcePosition, bool]]:
        name = called(call)
        if name in self._functions:
            callee = self._functions[name]
            stores = self.of(callee)
            given = {
                **dict(zip(callee.arg_names, call.args)),
                **{keyword.arg: keyword.value for keyword in call.keywords},
            }
            for parameter, value in given.items():
                if parameter in stores and _points(value, aliases):
                    yield stores[parameter]
        elif _STORES.fullmatch(name):
            receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            if any(_points(target, aliases) for target in (*receiver, *call.args[:2])):
                yield triton_api.position_in(function, call), False


def _aliases(body: ast.AST, parameter: str) -> Set[str]:
    """Return the names of pointers and descriptors that are made of a parameter."""
    aliases, size = {parameter}, 0
    while size < len(aliases):
        size = len(aliases)
        for node in ast.walk(body):
            match node:
                case ast.Assign(targets=targets, value=value) if _points(value, aliases):
                    named = [name for target in targets for name in ast.walk(target)]
                case ast.AugAssign(target=target, value=value) if _points(value, aliases):
                    named = [target]
                case _:
                    continue
            aliases |= {name.id for name in named if isinstance(name, ast.Name)}
    return aliases


def _points(value: ast.AST, aliases: Set[str]) -> bool:
    """Return whether an expression is made of one of the pointers, other than by a load."""
    match value:
        case ast.Name(id=name):
            return name in aliases
        case ast.Call() if _LOADS.fullmatch(called(value)):
            return False
    return any(_points(part, aliases) for part in ast.iter_child_nodes(value))


def _calls(body: list[ast.stmt], guarded: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls of a block, and whether a condition decides if they are reached."""
    for statement in body:
        blocks = [
            getattr(statement, field) for field in ("body", "orelse") if hasattr(statement, field)
        ]
        inner = {id(part) for block in blocks for child in block for part in ast.walk(child)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and id(node) not in inner:
                yield node, guarded
        for block in blocks:
            yield from _calls(block, True)
        if isinstance(statement, ast.Return):
            return
        guarded = guarded or any(isinstance(node, ast.Return) for node in ast.walk(statement))


# Which elements of a storage were written: rows of neighbors as long as they are that, a note
# for each element from then on.


_MOST_ROWS = 1 << 20
"""The most rows that are kept, 16 bytes each."""


class WrittenElements:
    """The elements of one storage that were written."""

    def __init__(self, buffer: Buffer) -> None:
        self.storage = Storage(buffer)
        self._rows: list[tuple[numpy.ndarray, numpy.ndarray]] = []
        """First byte, and the one beyond the last."""
        self._count = 0
        self._notes: ShadowArray | None = None

    def add(self, access: CheckedAccess) -> None:
        """An access has written its elements."""
        for part in self.storage.parts(access):
            rows = None
            if self._notes is None and not isinstance(part, ListedPart):
                rows = part.stretches().together()
            if rows is None or not rows.is_exact:
                part.write(self._noted().elements, True)
                continue
            size, first = self.storage.unit, self.storage.phase
            self._rows.append((rows.starts * size + first, rows.stops * size + first))
            self._count += len(rows.starts)
            if self._count > _MOST_ROWS:
                self._join()

    def unwritten(self, tensor: torch.Tensor) -> tuple[int, tuple[int, ...]] | None:
        """How many elements of a tensor were not written, and the first one; or None."""
        if not tensor.numel() or self._covers(tensor):
            return None
        return first_unset(self.storage.view(tensor, self._noted().elements), tensor.ndim)

    def _covers(self, tensor: torch.Tensor) -> bool:
        """Whether one row of bytes that were all written holds a tensor."""
        if self._notes is not None or not self._rows:
            return False
        self._join()
        starts, stops = self._rows[0]
        size = tensor.element_size()
        first = int(tensor.storage_offset()) * size
        row = int(numpy.searchsorted(starts, first, side="right")) - 1
        return row >= 0 and first + extent_of(tensor.shape, tensor.stride()) * size <= int(
            stops[row]
        )

    def _join(self) -> None:
        """Make one row of those that overlap, or follow one on another."""
        if self._count == 1:
            return
        starts = numpy.concatenate([start for start, _ in self._rows])
        stops = numpy.concatenate([stop for _, stop in self._rows])
        order = numpy.argsort(starts, kind="stable")
        starts, reached = starts[order], numpy.maximum.accumulate(stops[order])
        begins = numpy.concatenate(([True], starts[1:] > reached[:-1]))
        ends = numpy.concatenate((numpy.flatnonzero(begins)[1:] - 1, [len(starts) - 1]))
        self._rows = [(starts[begins], reached[ends])]
        self._count = len(ends)
        if self._count > _MOST_ROWS // 2:
            self._noted()

    def _noted(self) -> ShadowArray:
        if self._notes is None:
            self._notes = self.storage.shadow(False, numpy.bool_)
            size, phase = self.storage.unit, self.storage.phase
            for starts, stops in self._rows:
                firsts, lasts = (starts - phase) // size, (stops - phase) // size
                for first, last in zip(firsts.tolist(), lasts.tolist()):
                    self._notes.elements[first:last] = True
            self._rows, self._count = [], 0
        return self._notes


def first_unset(noted: numpy.ndarray, rank: int) -> tuple[int, tuple[int, ...]] | None:
    """How many elements have no note, and the first of them; None if all have. Of elements with
    several notes, along a further dimension, each must be set.
    """
    count, first = 0, None
    rows = max(1, PIECE // max(1, noted[:1].size)) if noted.ndim else 1
    for start in range(0, len(noted), rows) if rank else (0,):
        piece = noted[start : start + rows] if rank else noted
        unset = ~(piece if noted.ndim == rank else piece.all(axis=-1))
        here = int(numpy.count_nonzero(unset))
        if here and first is None:
            place = [int(i) for i in numpy.unravel_index(int(unset.argmax()), unset.shape)]
            first = (start + place[0], *place[1:]) if rank else ()
        count += here
    return None if first is None else (count, first)


# Find launches whose results are lost: the kernel has no store, every store is masked off, or
# the kernel writes to an input instead of a parameter with the name of an output.
#
# A kernel whose stores were removed by a constexpr is not at fault: a note says so.


_OUTPUT = re.compile(r"(.*_)?(o|y|z|c|out|output|dst|dest|res|result)s?(_?ptr|_?pointer)?", re.I)
"""The usual names of outputs: out, y_ptr, ZPtr, grad_out_ptr."""


class UnusedOutput(Detector):
    """Look for any element that is written; `UnwrittenOutput` checks launches with `outputs`."""

    kinds = ("unwritten-output",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._wrote = False

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        sizes = [tensor.numel() for tensor in run.tensors.values()]
        return not run.outputs and not run.expected and any(sizes) and _is_known(run.code)

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        if not self._wrote and access.action != "load":
            self._wrote = access.on is None or bool(access.on.any())

    def end(self) -> None:
        stores = [
            op for op in program.entry_of(self.run.code.module).body.walk() if has(op, GlobalWrite)
        ]
        unused, written = _unused_output(self.run)
        if unused:
            self._report(unused, _UNUSED.format(unused, " and ".join(written)))
        elif not stores:
            removed = conditional_stores(self.run.kernel)
            outputs = removed.keys() & self.run.tensors.keys()
            if outputs:
                self.notes = tuple(removed_note(name, removed[name]) for name in sorted(outputs))
            else:
                self._report([*self.run.tensors][-1], _NO_STORE)
        elif not self._wrote:
            place = locate(stores[0].location).frames
            where = f" (the first is on line {place[-1].line})" if place else ""
            self.notes = (_ALL_OFF.format(where),)

    def _report(self, argument: str, message: str) -> None:
        facts: dict[str, Any] = {
            "argument": argument,
            "position": triton_api.definition_of(self.run.kernel),
            "message": message,
            "advice": _UNUSED_ADVICE.format(argument),
            "severity": "warning",
        }
        self.collector.add(argument, facts)


_UNUSED = (
    "the kernel never uses {0}: it stores its results to {1}, which it also reads, and {0} does "
    "not change"
)
_NO_STORE = "the kernel never stores anything: no tensor changes, and its results are lost"
_UNUSED_ADVICE = (
    "Store the result: tl.store({0} + offsets, value, mask=...). The value that a kernel returns "
    "is discarded."
)
_ALL_OFF = (
    "The launch stores nothing: no program reaches a store with an element that is not masked "
    "off{0}. Check the masks, the values that they compare, and any if or return before the stores."
)


@program.per_code
def _is_known(code: program.ProgramCode) -> bool:
    """Return whether the effects of the code on memory are known, and are its only effects."""
    effects = program.memory_effects(code)
    if program.EVERYTHING in (effects.stored, effects.updated, effects.loaded):
        return False
    return not any(isinstance(op, _OTHER_EFFECTS) for op in code.module.walk())


_OTHER_EFFECTS = (tt.PrintOp, tt.AssertOp, tt.ElementwiseInlineAsmOp)


def _unused_output(run: CheckedRun) -> tuple[str, list[str]]:
    """Return an output by name that the source never uses, and the inputs stored to; or "", []."""
    effects = program.memory_effects(run.code)
    stored, updated = effects.stored or frozenset(), effects.updated or frozenset()
    if updated or not stored or not stored <= (effects.loaded or frozenset()):
        return "", []
    names = argument_names(run.call, run.code)
    body = run.kernel.parse().body[0].body
    used = {node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name)}
    unused = (name for name in run.tensors if name in run.kernel.arg_names and name not in used)
    output = next((name for name in unused if _OUTPUT.fullmatch(name)), "")
    return output, [names[number] for number in sorted(stored)]


class UnwrittenOutput(Detector):
    """Record which elements of the `outputs` are written, and report the others at the end."""

    kinds = ("unwritten-output",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._outputs = {name: run.tensors[name] for name in run.outputs}
        starts = {tensor.untyped_storage().data_ptr() for tensor in self._outputs.values()}
        self._starts = starts
        self._storages = Storages(self._begin)
        self._writers: dict[str, Operation] = {}

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(run.outputs)

    def _begin(self, buffer: Buffer) -> WrittenElements | None:
        is_output = buffer.tensor.untyped_storage().data_ptr() in self._starts
        return WrittenElements(buffer) if is_output else None

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        if access.action == "load":
            return
        written: WrittenElements | None = self._storages[access.buffer]
        if written is not None:
            self._writers.setdefault(access.buffer.name, access.operation)
            written.add(access)

    def end(self) -> None:
        removed = _removed_stores(self.run)
        notes = []
        for name, tensor in self._outputs.items():
            if name in removed:
                notes.append(removed_note(name, removed[name]))
                continue
            written = self._storages.by_start.get(tensor.untyped_storage().data_ptr())
            missing = (
                (tensor.numel(), (0,) * tensor.ndim)
                if written is None
                else written.unwritten(tensor)
            )
            if missing is not None and tensor.numel():
                self._report(name, tensor, *missing)
        self.notes = tuple(notes)

    def _report(self, name: str, tensor: torch.Tensor, count: int, first: tuple[int, ...]) -> None:
        which = element_text(name, first)
        message = f"no program writes {which}"
        if count > 1:
            size = math.prod(tensor.shape)
            message = (
                f"no program writes {count:,} of the {size:,} elements of {name}, the first of "
                f"which is {which}"
            )
        facts: dict[str, Any] = {
            "argument": name,
            "index": first,
            "places": self._position(name)[::-1],
            "message": message,
            "advice": _unwritten_advice(
                self.run, count == math.prod(tensor.shape), name in self._writers
            ),
        }
        self.collector.add(name, facts, count=count)

    def _position(self, name: str) -> tuple[SourcePosition, ...]:
        """Return the first store to the argument; the kernel's definition if there is none."""
        writer = self._writers.get(name)
        frames = () if writer is None else locate(writer.location).frames
        return frames or (triton_api.definition_of(self.run.kernel),)


def _removed_stores(run: CheckedRun) -> dict[str, SourcePosition]:
    """Return the outputs that the kernel's source stores to and its compiled code does not."""
    effects = program.memory_effects(run.code)
    if effects.stored is program.EVERYTHING or effects.updated is program.EVERYTHING:
        return {}
    names = argument_names(run.call, run.code)
    written = {names[number] for number in effects.stored | effects.updated}
    in_source = conditional_stores(run.kernel) if set(run.outputs) - written else {}
    return {name: place for name, place in in_source.items() if name not in written}


def _unwritten_advice(run: CheckedRun, all_of_it: bool, stored: bool) -> str:
    x, y, z = run.grid
    if not stored:
        return (
            "The launch never stores to it. Check the argument, and whether the store is reached."
        )
    if all_of_it:
        return "Every store to it is masked off for all elements: check the mask."
    return (
        f"Check the grid, which has {x} x {y} x {z} programs (triton.cdiv(n, BLOCK) rounds up), "
        f"{STORES}"
    )
