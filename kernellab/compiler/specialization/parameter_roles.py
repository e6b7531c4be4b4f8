"""What a kernel's parameters are for, as far as its source shows:
pointers, whole numbers, or other numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from kernellab import triton_api

Role = Literal["pointer", "integer", "float", "descriptor"]

_ACCESSES = {"load", "store", "make_block_ptr", "make_tensor_descriptor", "advance"}
"""Calls whose first argument is a pointer; so is that of everything named atomic_..."""

_PASSES_POINTER_ON = {
    "to",
    "cast",
    "multiple_of",
    "max_contiguous",
    "max_constancy",
    "advance",
    "make_block_ptr",
}
"""Calls that give their first argument back, or something that points into the same tensor."""

_WHOLE_NUMBERS_FIRST = {"rand", "randn", "randint", "rand4x", "randn4x", "randint4x", "philox"}
"""Calls whose first argument, the seed, is a whole number."""

_WHOLE_NUMBERS_ONLY = {"range", "static_range", "cdiv", "arange"}

_NOT_AN_INDEX = {"value", "val", "other", "cmp"}
"""Keywords of an access that take part in no address."""


def parameter_roles(kernel: Any) -> dict[str, Role]:
    """The role of each parameter of a kernel that is not a tl.constexpr.

    A parameter that some load, store or atomic uses as its base is a pointer, also inside helper
    functions. One that takes part in an address, a mask, a loop's bounds or a seed is a whole
    number. Whatever is left only takes part in arithmetic, and is a float. This is a reading of the
    source, not the compiler's knowledge: it can be wrong.
    """
    return _roles(kernel, set())


def _roles(kernel: Any, visiting: set[int]) -> dict[str, Role]:
    names = {parameter.name for parameter in kernel.params if not parameter.is_constexpr}
    if id(kernel) in visiting:
        return dict.fromkeys(names, "float")
    reader = _Reader(kernel, names, visiting | {id(kernel)})
    return {name: reader.role(name) for name in names}


class _Reader:
    """Reads one function: which names flow into pointers, and which into addresses,
    masks and loop bounds.
    """

    def __init__(self, kernel: Any, parameters: set[str], visiting: set[int]) -> None:
        self.parameters = parameters
        self.function = kernel.fn
        self.visiting = visiting
        self.assigned: dict[str, list[ast.expr]] = {}
        self.pointers: set[str] = set()
        self.integers: set[str] = set()
        self.descriptors: set[str] = set()
        tree = kernel.parse()
        for node in ast.walk(tree):
            self._note_assignment(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._read_call(node)

    def role(self, name: str) -> Role:
        if name in self.pointers:
            return "pointer"
        if name in self.descriptors:
            return "descriptor"
        if name in self.integers:
            return "integer"
        return "pointer" if name.lower().endswith("ptr") else "float"

    # -- what a local name may hold ----------------------------------------------------------------

    def _note_assignment(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._note(target, node.value)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
            self._note(node.target, node.value)
        elif isinstance(node, ast.For):
            self._note(node.target, node.iter)

    def _note(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            parts = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
            for element, part in zip(target.elts, parts, strict=False):
                self._note(element, part)

    # -- calls -------------------------------------------------------------------------------------

    def _read_call(self, call: ast.Call) -> None:
        name = _called_name(call)
        helper = self._helper(call.func)
        if helper is not None:
            self._read_helper_call(call, helper)
        elif self._is_method_of_parameter(call) and name in _ACCESSES:
            assert isinstance(call.func, ast.Attribute)
            assert isinstance(call.func.value, ast.Name)
            self.descriptors.add(call.func.value.id)
            self._count_as_integers(call.args[:1])
        elif name in _ACCESSES or name.startswith("atomic_"):
            self._read_access(call, name)
        elif name in _WHOLE_NUMBERS_ONLY:
            self._count_as_integers(call.args)
        elif name in _WHOLE_NUMBERS_FIRST:
            self._count_as_integers(call.args[:1])

    def _read_access(self, call: ast.Call, name: str) -> None:
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        pointer = call.args[0] if call.args else keywords.get("pointer", keywords.get("base"))
        if pointer is not None:
            if base := self._base(pointer, set()):
                self.pointers.add(base)
            self._count_as_integers([pointer])
        has_value = name == "store" or name.startswith("atomic_")
        self._count_as_integers(call.args[2 if has_value else 1 :])
        self._count_as_integers(
            [value for key, value in keywords.items() if key not in _NOT_AN_INDEX]
        )

    def _read_helper_call(self, call: ast.Call, helper: Any) -> None:
        roles = _roles(helper, self.visiting)
        names = [parameter.name for parameter in helper.params]
        given = dict(zip(names, call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        for name, value in given.items():
            role = roles.get(name)
            if role == "pointer" and (base := self._base(value, set())):
                self.pointers.add(base)
            if role in ("pointer", "integer"):
                self._count_as_integers([value])

    def _is_method_of_parameter(self, call: ast.Call) -> bool:
        function = call.func
        return (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id in self.parameters
        )

    def _helper(self, function: ast.expr) -> Any:
        """The user's JIT function that is called, or None (for Triton's own, too:
        their names say enough).
        """
        value: Any = None
        scope: Mapping[str, Any] = triton_api.scope_of(self.function)
        if isinstance(function, ast.Name):
            value = scope.get(function.id)
        elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            value = getattr(scope.get(function.value.id), function.attr, None)
        is_users = not str(getattr(value, "__module__", "")).startswith("triton.")
        return value if isinstance(value, triton_api.JITFunction) and is_users else None

    # -- expressions -------------------------------------------------------------------------------

    def _base(self, expression: ast.expr, seen: set[str]) -> str | None:
        """The parameter that a pointer expression starts from:
        the first one of the sum that it is.
        """
        for name in self._summands(expression):
            if name in self.parameters:
                return name
            if name in seen:
                continue
            for value in self.assigned.get(name, []):
                if base := self._base(value, seen | {name}):
                    return base
        return None

    def _summands(self, expression: ast.expr) -> Iterator[str]:
        """The names that a sum adds up, left to right;
        a product is an offset and never a pointer.
        """
        if isinstance(expression, ast.Name):
            yield expression.id
        elif isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add | ast.Sub):
            yield from self._summands(expression.left)
            yield from self._summands(expression.right)
        elif isinstance(expression, ast.Subscript):
            yield from self._summands(expression.value)
        elif isinstance(expression, ast.IfExp):
            yield from self._summands(expression.body)
            yield from self._summands(expression.orelse)
        elif isinstance(expression, ast.Call) and _called_name(expression) in _PASSES_POINTER_ON:
            function = expression.func
            if isinstance(function, ast.Attribute) and function.attr == "to":
                yield from self._summands(function.value)
            elif expression.args:
                yield from self._summands(expression.args[0])
            for keyword in expression.keywords:
                if keyword.arg == "base":
                    yield from self._summands(keyword.value)

    def _count_as_integers(self, expressions: list[ast.expr]) -> None:
        """Every name that such an expression is computed from, through local names,
        holds whole numbers.
        """
        waiting = list(expressions)
        seen: set[str] = set()
        while waiting:
            for node in _without_loads(waiting.pop()):
                if isinstance(node, ast.Name) and node.id not in seen:
                    seen.add(node.id)
                    waiting += self.assigned.get(node.id, [])
        self.integers |= seen & self.parameters


def _without_loads(expression: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression, except inside a load:
    what is loaded does not show what the address is made of.
    """
    waiting: list[ast.AST] = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        if not (isinstance(node, ast.Call) and _called_name(node) == "load"):
            waiting += ast.iter_child_nodes(node)


def _called_name(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
