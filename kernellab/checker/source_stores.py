"""Find the parameters that a kernel's source stores to under a condition: a constexpr may remove
such a store from the compiled code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from kernellab.errors import SourcePosition
from kernellab.triton_api import (
    JITFunction,
    definition_of,
    is_in_library,
    position_in,
    reachable_functions,
)

_STORES = re.compile(r"(.*_)?(store|scatter|atomic|shared_to_global)(_.*)?")
"""Functions and methods that write: tl.store, tl.atomic_add, descriptor.store, buffer_store."""

_LOADS = re.compile(r"(.*_)?(load|gather)(_.*)?")
"""Functions whose result is not a pointer to what they are given."""


def conditional_stores(kernel: Any) -> dict[str, SourcePosition]:
    """Return the parameters that the source stores to if a condition is true, in the kernel or in a
    function that it calls, each with the first such store. Stores that no condition guards, such
    as those behind a `return` at the end of a kernel, are left out.
    """
    functions = {
        function.__name__: function
        for function in reachable_functions(kernel)
        if isinstance(function, JITFunction) and not is_in_library(definition_of(function).file)
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
        """Return the parameters that a function stores to: where, and whether a condition guards
        the store.
        """
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
        name = _called(call)
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
                yield position_in(function, call), False


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


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
        case ast.Call() if _LOADS.fullmatch(_called(value)):
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
