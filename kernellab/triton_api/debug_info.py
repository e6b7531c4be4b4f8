"""What Triton's front end notes for interpreters: which statement of the source each operation
belongs to, and what every name then stands for; statements for debugging.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from triton._C import libtriton
from triton.compiler import code_generator
from triton.compiler.code_generator import CodeGenerator
from triton.language import core
from triton.runtime.jit import JITCallable

from kernellab.common.patches import WhileAnyThread, replaced, variable_is
from kernellab.common.saved_files import SavedValue
from kernellab.triton_api.functions import definition_of


@dataclass(frozen=True)
class Operand:
    """A value of the IR: the operand of that number.

    Attributes:
        is_unsigned: the kernel's type is an unsigned integer, which the IR does not say.
        is_barrier: it is memory of mbarriers, by its layout in a Gluon kernel.
    """

    number: int
    is_unsigned: bool = False
    is_barrier: bool = False


@dataclass(frozen=True)
class Group:
    """Several values under one name: a tuple, or an object with fields.

    Attributes:
        type_name: "tuple", "namedtuple", or the name of the object's class.
        parts: by position ("0", "1", ...) or field.
    """

    type_name: str
    parts: Mapping[str, Held]


@dataclass(frozen=True)
class Constant:
    """A Python object that is known while the kernel is compiled."""

    value: Any


Held = Operand | Group | Constant
"""The value of a name."""


class Handles:
    """Values of the IR, as operands of one operation.

    Attributes:
        can_be_printed: whether `tt.print` takes all of them.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.can_be_printed = True

    def add(self, handle: Any) -> int:
        """The number of one more operand."""
        self.values.append(handle)
        return len(self.values) - 1


def held(value: Any, handles: Handles) -> Held:
    """What an entry of the front end's table of names is; `handles` gets its values of the IR."""
    if isinstance(value, core.constexpr):
        return Constant(value.value)
    if isinstance(value, core.tensor):
        if value.type.is_ptr() and value.type.element_ty.is_block():
            return Constant(SavedValue("<a block pointer>"))
        kind = value.type.scalar
        is_unsigned = kind.is_int_unsigned() and kind.primitive_bitwidth > 1
        return Operand(handles.add(value.handle), is_unsigned)
    if isinstance(value, core.tuple):
        fields = list(filter(None, getattr(value.type, "fields", None) or ()))  # 3.6: "" for none
        names = fields or [str(number) for number in range(len(value.values))]
        parts = {name: held(part, handles) for name, part in zip(names, value.values, strict=True)}
        return Group("namedtuple" if fields else "tuple", parts)
    if isinstance(getattr(value, "handle", None), libtriton.ir.value):
        handles.can_be_printed = False  # descriptors, memory on the chip, products
        layout = getattr(value.type, "layout", None)
        is_barrier = type(layout).__name__ == "MBarrierLayout"
        return Operand(handles.add(value.handle), is_barrier=is_barrier)
    if isinstance(value, core.base_value):
        members = {n: v for n, v in vars(value).items() if isinstance(v, core.base_value)}
        return Group(type(value).__name__, {n: held(v, handles) for n, v in members.items()})
    return Constant(value)


# `breakpoint()` and `print(x)` in kernels, which Triton's front end refuses, as what it takes.

_IS_BREAKPOINT = "kernellab_breakpoint"


def rewrite_debugging_statements(tree: ast.Module) -> ast.Module:
    """A kernel's source, in place, as Triton's front end takes it; every statement keeps its line.

    `breakpoint()` becomes `pass`, which generates no code on a GPU; `is_breakpoint` still knows it.
    `print(x)` becomes `print("x", x)`, which is `tl.device_print`: what is printed follows the text
    before it, or its own expression if there is none. Several texts make several prints.
    """
    rewritten: ast.Module = _Rewriter().visit(tree)
    return rewritten


def is_breakpoint(node: ast.AST) -> bool:
    """Whether a statement was a `breakpoint()`."""
    return getattr(node, _IS_BREAKPOINT, False) is True


@contextmanager
def debugging_statements_are_read() -> Iterator[None]:
    """While active, what this thread's front end reads is rewritten, in any function."""
    with variable_is(_is_reading, True), _reader_in_place:
        yield


_is_reading: ContextVar[bool] = ContextVar("kernellab_debugging_statements", default=False)


def _reading(parse: Callable[[Any], ast.Module]) -> Callable[[Any], ast.Module]:
    def read(function: Any) -> ast.Module:
        tree = parse(function)
        return rewrite_debugging_statements(tree) if _is_reading.get() else tree

    return read


_reader_in_place = WhileAnyThread(lambda: replaced(JITCallable, parse=_reading(JITCallable.parse)))


class _Rewriter(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> Any:
        if not (isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)):
            return node
        if node.value.func.id == "breakpoint" and not node.value.args and not node.value.keywords:
            instead = ast.copy_location(ast.Pass(), node)
            setattr(instead, _IS_BREAKPOINT, True)
            return instead
        if node.value.func.id == "print":
            return [_print(node, node.value, text, values) for text, values in _parts(node.value)]
        return node


def _print(statement: ast.Expr, call: ast.Call, text: str, values: list[ast.expr]) -> ast.Expr:
    prefix = ast.copy_location(ast.Constant(text), call)
    printed = ast.copy_location(ast.Call(call.func, [prefix, *values], call.keywords), call)
    return ast.copy_location(ast.Expr(printed), statement)


def _parts(call: ast.Call) -> Iterator[tuple[str, list[ast.expr]]]:
    """The output of a print: texts, each with the values that follow it."""
    text: str | None = None
    values: list[ast.expr] = []
    for said in _said(call.args):
        if isinstance(said, str):
            if values:
                yield _label(text, values), values
                text, values = None, []
            text = said if text is None else f"{text} {said}"
        else:
            values.append(said)
    if values or text is not None or not call.args:
        yield _label(text, values), values


def _said(arguments: list[ast.expr]) -> Iterator[str | ast.expr]:
    """Texts and values in their order; an f-string is taken apart."""
    for argument in arguments:
        match argument:
            case ast.Constant(value=str() as text):
                yield text
            case ast.JoinedStr():
                for part in argument.values:
                    if isinstance(part, ast.FormattedValue):
                        yield part.value
                    elif text := str(getattr(part, "value", "")).strip(" ,;=:"):
                        yield text
            case _:
                yield argument


def _label(text: str | None, values: list[ast.expr]) -> str:
    if text is not None:
        return text
    return ", ".join(ast.unparse(value) for value in values)


# TTIR that says which statement of the source each operation belongs to, and what every name
# then stands for.
#
# Triton's front end reads a kernel statement by statement and keeps a table of its names. Before
# each statement, and after each that gives names to values, a debug record is put into the
# module: a `tt.print` whose text is a number, and whose operands are the values, or where those
# cannot be printed a call of an undefined function. The names of the operands are in
# the `DebugRecord` of that number. Aliases, constants, tuples and parameters are then known by
# name, although no operation makes them. Debug records are for interpreters; a GPU's compiler must
# never see one.

DEBUG_RECORD = "kernellab.mark "
"""How the text of a debug record, or the function's name, begins; its number follows."""


@dataclass(frozen=True)
class SourceFunction:
    """A function of the source, as the front end specialized it.

    Attributes:
        reference: gives the JIT function. Of a kernel it is a weak one: code that is kept as long
            as its kernel lives must not keep it alive.
        text: its source, as Triton compiles it.
        name, file, line: its own, the line that of its `def`.
    """

    reference: Callable[[], Any]
    text: str
    name: str
    file: str
    line: int

    @property
    def function(self) -> Any:
        """The JIT function; None of a kernel that is gone."""
        return self.reference()


@dataclass(frozen=True)
class DebugRecord:
    """The contents of one debug record.

    Attributes:
        kind: "enter": a function begins, its parameters have values. "line": a statement begins.
            "bound": names have new values. "back": a loop's body has ended, and the loop's own line
            has its turn again.
        line: of the file; of the statement, or of the loop.
        names: the names that have values now, and what they are.
        is_static: of "back", whether the loop was unrolled by the front end, so that no operation
            stands for its line.
        is_breakpoint: the statement is a `breakpoint()`.
        function: of "enter", the function.
    """

    kind: Literal["enter", "line", "bound", "back"]
    line: int
    names: Mapping[str, Held] = field(default_factory=dict)
    is_static: bool = False
    is_breakpoint: bool = False
    function: SourceFunction | None = None


DebugRecords: TypeAlias = Sequence[DebugRecord]

_current: ContextVar[list[DebugRecord] | None] = ContextVar("kernellab_marks", default=None)


@contextmanager
def recording_debug_info() -> Iterator[list[DebugRecord]]:
    """While active, this thread's front end adds debug records to modules; yields their list."""
    records: list[DebugRecord] = []
    with variable_is(_current, records), _generator_in_place:
        yield records


def current_records() -> list[DebugRecord] | None:
    """Return the list that this thread's debug records go to; None if none are recorded."""
    return _current.get()


class _DebugInfoGenerator(CodeGenerator):  # type: ignore[misc]  # Triton has no types
    """Triton's front end, with debug records if this thread wants them."""

    _entered = False

    def visit(self, node: Any) -> Any:
        if _current.get() is None or not self._is_statement(node):
            return super().visit(node)
        if not self._entered:
            self._entered = True
            self._enter()
        self._record(DebugRecord("line", self._line(node), is_breakpoint=is_breakpoint(node)), node)
        before = dict(self.lscope)
        result = super().visit(node)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr):
            self._bound(before, node)
        return result

    def visit_compound_statement(self, stmts: Any) -> Any:
        loop = self.cur_node
        is_body = isinstance(loop, ast.For | ast.While) and stmts is loop.body
        if _current.get() is None or not is_body:
            return super().visit_compound_statement(stmts)
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name):
            name = loop.target.id
            self._record(DebugRecord("bound", self._line(loop), {name: self.lscope[name]}), loop)
        result = super().visit_compound_statement(stmts)
        self._record(DebugRecord("back", self._line(loop), is_static=self._is_unrolled(loop)), loop)
        return result

    def _is_unrolled(self, loop: ast.For | ast.While) -> bool:
        """Whether the front end runs the loop itself: its variable is a constant."""
        name = getattr(loop.target, "id", "") if isinstance(loop, ast.For) else ""
        return isinstance(self.lscope.get(name), code_generator.constexpr)

    def _is_statement(self, node: Any) -> bool:
        """False for the function itself, defaults, a docstring, and what `x += 1` becomes."""
        return (
            isinstance(node, ast.stmt)
            and self.fn is not None
            and not isinstance(node, ast.FunctionDef)
            and not isinstance(self.cur_node, ast.AugAssign)
            and not self._is_docstring(node)
        )

    def _is_docstring(self, node: ast.stmt) -> bool:
        """Whether it is words beside statements; where nothing else is, they are the statement."""
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            return False
        return isinstance(node.value.value, str) and len(self.jit_fn.parse().body[0].body) > 1

    def _line(self, node: Any) -> int:
        return int(self.begin_line + node.lineno)

    def _enter(self) -> None:
        function = self.jit_fn
        definition = definition_of(function)
        reference = weakref.ref(function) if self.is_kernel else lambda: function
        name = function.fn.__name__
        about = SourceFunction(reference, function.src, name, str(self.file_name), definition.line)
        names = {name: self.lscope[name] for name in function.arg_names if name in self.lscope}
        self._record(DebugRecord("enter", definition.line, names, function=about), None)

    def _bound(self, before: Mapping[str, Any], node: ast.stmt) -> None:
        names = {n: v for n, v in self.lscope.items() if v is not before.get(n)}
        if names:
            self._record(DebugRecord("bound", self._line(node), names), node)

    def _record(self, record: DebugRecord, node: ast.stmt | None) -> None:
        """Insert a debug record here, whose operands are the values of its names."""
        records = _current.get()
        assert records is not None
        handles = Handles()
        names = {name: held(value, handles) for name, value in record.names.items()}
        records.append(replace(record, names=names))
        location = self.builder.get_loc()
        column = 0 if node is None else node.col_offset
        self.builder.set_loc(self.builder.create_loc(self.file_name, record.line, column))
        text = f"{DEBUG_RECORD}{len(records) - 1}"
        if handles.can_be_printed:
            self.builder.create_print(text, False, handles.values, [True] * len(handles.values))
        else:
            self.builder.call(self._declared(text, handles.values), handles.values)
        self.builder.set_loc(location)

    def _declared(self, name: str, handles: Sequence[Any]) -> Any:
        builder = libtriton.ir.builder(self.context)
        builder.set_loc(self.file_name, 1, 0)
        type_of_it = builder.get_function_ty([handle.get_type() for handle in handles], [])
        function = builder.get_or_insert_function(self.module, name, type_of_it, "private", False)
        self.module.push_back(function)
        return function


_generator_in_place = WhileAnyThread(
    lambda: replaced(code_generator, CodeGenerator=_DebugInfoGenerator)
)
