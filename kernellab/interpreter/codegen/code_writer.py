"""Python code under construction: unused names, statements and their positions."""

from __future__ import annotations

import ast
import keyword
import re
import weakref
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, TypeVar

import numpy
from xdsl.ir import Operation

from kernellab.errors import SourcePosition
from kernellab.interpreter.codegen.expressions import (
    BUILTINS,
    MODULES,
    Expression,
    Operand,
    as_node,
    variable,
)
from kernellab.ir.operations import Location, locate

# How generated code keeps which location, and which operation, each of its instructions is of.
#
# Python stores positions, but not chains of calls: a statement has the kernel's line, and its
# end column is the number of its location.


Located = TypeVar("Located")

_FIRST_COLUMN = 10_000
"""Beyond the end of a line, where Python clips the column when it prints a traceback."""

LAST_COLUMN = _FIRST_COLUMN - 1
"""The last column that a statement can begin at: on a longer line, later ones begin there too."""


def column_of_location(number: int) -> int:
    """The end column that stands for a location, by its number."""
    return _FIRST_COLUMN + number


def located_at(code: CodeType, instruction: int, located: Sequence[Located]) -> Located | None:
    """What an instruction of generated code belongs to:
    one of the locations, or of their operations; None for none of them.
    """
    number = _end_columns(code)[instruction // 2] - _FIRST_COLUMN
    return located[number] if 0 <= number < len(located) else None


def is_among(code: CodeType, codes: Iterable[CodeType]) -> bool:
    """Whether it is one of these, few ones. Hashing a code object, as a set does, or comparing two
    takes as long as they are large.
    """
    return any(code is known for known in codes)


_known: dict[int, tuple[weakref.ref[CodeType], array[int]]] = {}
"""By the ids of code objects; Python gives the position of one instruction by way of all before."""


def _end_columns(code: CodeType) -> array[int]:
    key = id(code)
    known = _known.get(key)
    if known is None or known[0]() is not code:
        columns = array("i", [end or 0 for *_, end in code.co_positions()])
        known = _known[key] = weakref.ref(code, lambda _: _known.pop(key, None)), columns
    return known[1]


# `del` after the last use: tiles are let go as soon as nothing reads them, so that a batch stays
# in the cache.


def release_dead(statements: list[ast.stmt], candidates: set[str]) -> list[ast.stmt]:
    """`statements`, with a `del` after the last use of each candidate that they assign, once,
    at their own level.

    A variable whose last use is the last statement is left to the end of the block.
    """
    names = [_names(statement) for statement in statements] if candidates else []
    assigned = _assigned_once(statements, names) & candidates
    last_use = {
        node.id: position
        for position, own in enumerate(names)
        for node in own
        if node.id in assigned
    }
    last_at: dict[int, list[str]] = {}
    for name, last in last_use.items():
        last_at.setdefault(last, []).append(name)
    result: list[ast.stmt] = []
    for position, statement in enumerate(statements):
        result.append(statement)
        dead = last_at.get(position, ())
        if dead and position + 1 < len(statements):
            deletion = ast.Delete([ast.Name(name, ast.Del()) for name in dead])
            result.append(_positioned_like(deletion, statement))
    return result


def _assigned_once(statements: list[ast.stmt], names: list[list[ast.Name]]) -> set[str]:
    """Names that one statement of this level alone assigns, by the names in each statement."""
    own = {
        node.id
        for statement in statements
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        for node in _names(target)
    }
    counts = Counter(node.id for each in names for node in each if type(node.ctx) is ast.Store)
    return {name for name in own if counts[name] == 1}


def _names(tree: ast.AST) -> list[ast.Name]:
    names: list[ast.Name] = []
    nodes = [tree]
    for node in nodes:
        if type(node) is ast.Name:
            names.append(node)
        else:
            nodes += _parts(node)
    return names


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    for part in vars(node).values():
        if isinstance(part, ast.AST):
            yield part
        elif type(part) is list:
            yield from (each for each in part if isinstance(each, ast.AST))


def _positioned_like(new: ast.stmt, old: ast.stmt) -> ast.stmt:
    for node in ast.walk(new):
        if isinstance(node, ast.stmt | ast.expr):
            ast.copy_location(node, old)
    return new


# The code under construction.


class CodeWriter:
    """Statements of one function of the kernel's source, each at its line.

    Attributes:
        file: the file of the function.
        constants: the objects that the code refers to by name.
        locations: where its statements come from, callers included; see `column_of_location`.
        located: the operation that each location is of.
    """

    def __init__(self, home: Operation, file: str) -> None:
        """`home` is the operation that the first statements are of: the function."""
        self.file = file
        self.constants: dict[str, Any] = {}
        self.locations: list[Location] = []
        self.located: list[Operation] = []
        self._home = locate(home.location)
        self._location = self._home
        self._operation = home
        self._taken = {*MODULES, *BUILTINS, "programs", "grid", *keyword.kwlist}
        self._next_numbers: dict[str, int] = {}
        self._scopes: list[list[ast.stmt]] = []
        self._tile_names: set[str] = set()
        """Variables that are let go after their last use."""
        self._beginning: list[ast.stmt] = []
        """The statements that run before all others of a batch."""
        self._of_the_batch: dict[str, str] = {}

    # Names

    def constant(self, value: Any, hint: str = "constant") -> Expression:
        """Return a global of the code for an object; equal dtypes share one."""
        if isinstance(value, numpy.dtype):
            name = hint if hint not in MODULES else f"{hint}_"
            if self.constants.get(name) is value:
                return variable(name)
        name = self.fresh(hint)
        self.constants[name] = value
        return variable(name)

    def fresh(self, hint: str) -> str:
        """A variable name like `hint` that nothing uses yet."""
        base = re.sub(r"\W", "_", hint) or "value"
        if base[0].isdigit():
            base = f"_{base}"
        # Names are only ever added: all numbers below the last are taken.
        name, number = base, self._next_numbers.get(base, 1)
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._next_numbers[base] = number
        self._taken.add(name)
        return name

    # Statements

    def assign(self, target: str | Sequence[str], value: Operand) -> None:
        if not isinstance(target, str) and len(target) == 1:
            target, value = target[0], value[0]
        if isinstance(target, str):
            node: ast.expr = ast.Name(target, ast.Store())
        else:
            node = ast.Tuple([ast.Name(name, ast.Store()) for name in target], ast.Store())
        self.statement(ast.Assign([node], as_node(value)))

    def evaluate(self, hint: str | None, value: Expression) -> Expression:
        """Evaluate `value` here: for its effect (hint None), or into a variable like `hint`."""
        if hint is None:
            self.statement(ast.Expr(value.node))
            return value
        name = self.fresh(hint)
        self.assign(name, value)
        return variable(name)

    def once_per_batch(self, name: str, value: Expression) -> Expression:
        """The variable of that name, set to `value` once, before all else of a batch."""
        if name not in self._of_the_batch:
            self._of_the_batch[name] = self.fresh(name)
            self._scopes.append(self._beginning)
            self.assign(self._of_the_batch[name], value)
            self._scopes.pop()
        return variable(self._of_the_batch[name])

    def statement(self, statement: ast.stmt) -> None:
        """Append a statement at the kernel's line of the current operation.

        Where the operation was inlined, that is the line of the call;
        the end column says which location it is.
        """
        position = self._kernel_position()
        line, end = position.line, self._location_column()
        column = min(max(position.column - 1, 0), LAST_COLUMN)
        place = {"lineno": line, "end_lineno": line, "col_offset": column, "end_col_offset": end}
        if "lineno" not in vars(statement):
            vars(statement).update(place)
        nodes = [*_parts(statement)]
        for node in nodes:
            is_placed = "lineno" in vars(node)
            if not is_placed or isinstance(node, ast.stmt):  # else its parts have their places
                nodes += _parts(node)
            if not is_placed and "lineno" in node._attributes:
                vars(node).update(place)
        self._scopes[-1].append(statement)

    def leave_loop(self, condition: Expression) -> None:
        self.statement(ast.If(condition.node, [ast.Break()], []))

    def pause(self, waiting: Expression) -> None:
        """`yield waiting`: the group of warps continues when what it waits for has come."""
        self.statement(ast.Expr(ast.Yield(waiting.node)))

    # Blocks of statements

    @contextmanager
    def loop(self, target: str, iterable: Expression) -> Iterator[None]:
        with self._collected() as body:
            yield
        self.statement(ast.For(ast.Name(target, ast.Store()), iterable.node, body, []))

    @contextmanager
    def forever(self) -> Iterator[None]:
        with self._collected() as body:
            yield
        self.statement(ast.While(ast.Constant(True), body, []))

    @contextmanager
    def when(self, condition: Expression) -> Iterator[None]:
        """`if condition:` around what is emitted inside."""
        with self._collected() as body:
            yield
        self.statement(ast.If(condition.node, body, []))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The `else:` of the `if` just emitted."""
        with self._collected() as body:
            yield
        branch = self._scopes[-1][-1]
        assert isinstance(branch, ast.If)
        branch.orelse = body

    @contextmanager
    def _collected(self) -> Iterator[list[ast.stmt]]:
        """Collects the statements that are emitted inside; complete when the context ends."""
        place = self._location, self._operation
        collected: list[ast.stmt] = []
        self._scopes.append(collected)
        yield collected
        self._scopes.pop()
        self._location, self._operation = place
        collected[:] = release_dead(collected, self._tile_names) or [ast.Pass()]

    # Positions

    def _kernel_position(self) -> SourcePosition:
        for location in (self._location, self._home):
            if location.frames and location.frames[-1].file == self.file:
                return location.frames[-1]
        return SourcePosition(self.file, 1)

    def _location_column(self) -> int:
        if not self.locations or self.locations[-1] is not self._location:
            self.locations.append(self._location)
            self.located.append(self._operation)
        return column_of_location(len(self.locations) - 1)


def function_definition(
    name: str, parameters: Iterable[str], body: list[ast.stmt], keywords: Sequence[str] = ()
) -> ast.FunctionDef:
    """`def name(parameters, *, keywords): body`."""
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(p) for p in parameters],
        kwonlyargs=[ast.arg(k) for k in keywords],
        kw_defaults=[None] * len(keywords),
        defaults=[],
    )
    function = ast.FunctionDef(name, arguments, body, decorator_list=[])
    vars(function)["type_params"] = []  # Python 3.12 and later require it
    return function
