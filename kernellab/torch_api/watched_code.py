"""Inductor's generated code, with a note after each statement that computed a value to its end."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

SEEN = "kernellab_seen"
"""What the code calls after each such statement: number, {name: value}."""

_MAKES_NOTHING = ("empty_strided", "reinterpret_tensor", "assert_size_stride", "assert_alignment")
_WRITTEN = ("out_ptr", "in_out_ptr")
"""How Inductor calls parameters that a kernel writes through."""


def watched(
    wrapper: str, kernels: Mapping[str, str], parameters: Mapping[str, Sequence[str]]
) -> tuple[str, dict[int, ast.stmt], frozenset[str]]:
    """The code with its notes, the statements by number, and the names that are noted: each once,
    after the last statement that writes to its value.

    Args:
        wrapper: as Inductor writes it.
        kernels: name -> the source that stands in for Inductor's.
        parameters: kernel -> names of its parameters, in order.
    """
    tree = ast.parse(wrapper)
    _Sources(kernels).visit(tree)
    notes = _Notes(parameters)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            notes.add_to(node.body)
    names = notes.keep_last()
    return ast.unparse(ast.fix_missing_locations(tree)), notes.statements, names


def launched(statement: ast.stmt) -> tuple[str, tuple[str, ...]] | None:
    """Kernel and names of its arguments, of a statement that launches one ("" for a number)."""
    match statement:
        case ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Name(kernel), attr="run"), args=arguments)
        ):
            return kernel, tuple(
                argument.id if isinstance(argument, ast.Name) else "" for argument in arguments
            )
    return None


class _Sources(ast.NodeTransformer):
    """Puts other sources of kernels in."""

    def __init__(self, kernels: Mapping[str, str]) -> None:
        self._kernels = kernels

    def visit_Call(self, node: ast.Call) -> ast.Call:
        if ast.unparse(node.func) == "async_compile.triton":
            match node.args:
                case [ast.Constant(str(name)), ast.Constant(), *_] if name in self._kernels:
                    node.args[1] = ast.Constant(self._kernels[name])
        return node


class _Notes:
    """The notes of one module."""

    def __init__(self, parameters: Mapping[str, Sequence[str]]) -> None:
        self.statements: dict[int, ast.stmt] = {}
        self._parameters = parameters
        self._names: dict[int, ast.Dict] = {}

    def add_to(self, body: list[ast.stmt]) -> None:
        """A note after each statement that computes."""
        made: list[ast.stmt] = []
        for statement in body:
            for inner in ("body", "orelse"):
                if isinstance(getattr(statement, inner, None), list):
                    self.add_to(getattr(statement, inner))
            made.append(statement)
            names = tuple(dict.fromkeys(self._written(statement)))
            if names:
                made.append(self._note(statement, names))
        body[:] = made

    def keep_last(self) -> frozenset[str]:
        """Leave each name in the last note that has it; gives all names."""
        last: dict[str, int] = {}
        for number, names in self._names.items():
            last.update({ast.literal_eval(key): number for key in names.keys if key is not None})
        for number, names in self._names.items():
            kept = [
                (key, value)
                for key, value in zip(names.keys, names.values, strict=True)
                if key is not None and last[ast.literal_eval(key)] == number
            ]
            names.keys = [key for key, _ in kept]
            names.values = [value for _, value in kept]
        return frozenset(last)

    def _note(self, statement: ast.stmt, names: tuple[str, ...]) -> ast.stmt:
        """`kernellab_seen(3, {'buf0': buf0})`."""
        number = len(self.statements)
        self.statements[number] = statement
        keys: list[ast.expr | None] = [ast.Constant(name) for name in names]
        values: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
        self._names[number] = ast.Dict(keys, values)
        called = ast.Name(SEEN, ast.Load())
        return ast.Expr(ast.Call(called, [ast.Constant(number), self._names[number]], []))

    def _written(self, statement: ast.stmt) -> Iterator[str]:
        """Names of what a statement writes to."""
        launch = launched(statement)
        if launch is not None:
            kernel, names = launch
            for name, parameter in zip(names, self._parameters.get(kernel, ()), strict=False):
                if name and parameter.startswith(_WRITTEN):
                    yield name
            return
        match statement:
            case ast.Expr(ast.Call() as call) if not _is_of_no_value(call):
                out = [keyword.value for keyword in call.keywords if keyword.arg == "out"]
                for argument in out or call.args:
                    yield from (
                        name_node.id
                        for name_node in ast.walk(argument)
                        if isinstance(name_node, ast.Name)
                    )
            case ast.Assign([ast.Name(name)], ast.Call() as call) if not _is_of_no_value(call):
                yield name
            case ast.Assign([ast.Name(name)], ast.Subscript()):
                yield name


def _is_of_no_value(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith(_MAKES_NOTHING)
