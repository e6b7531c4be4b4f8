"""A kernel's source with its tree, and copies of it with expressions replaced."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from kernellab.common.text import called


class NotReadable(Exception):
    """The source is not that of the expected function."""


@dataclass(frozen=True)
class Source:
    """The source of a kernel and the arguments of a launch.

    Attributes:
        text: from `def` on, without indentation.
    """

    text: str
    values: Mapping[str, Any]
    grid: Sequence[int] | None = None

    @cached_property
    def kernel(self) -> ast.FunctionDef:
        """The tree.

        Raises:
            NotReadable: the text is not one function.
        """
        try:
            body = ast.parse(self.text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NotReadable(str(error)) from error
        if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
            raise NotReadable("The source is not one function.")
        return body[0]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node that each node is a part of."""
        return {
            child: node for node in ast.walk(self.kernel) for child in ast.iter_child_nodes(node)
        }

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes of the body in the order of the text, outer nodes first."""
        nodes = [node for part in self.kernel.body for node in ast.walk(part)]
        placed = [node for node in nodes if hasattr(node, "lineno")]
        return sorted(placed, key=_place)

    @cached_property
    def _lines(self) -> list[bytes]:
        return self.text.encode().splitlines(keepends=True)

    @cached_property
    def _starts(self) -> list[int]:
        starts, total = [], 0
        for line in self._lines:
            starts.append(total)
            total += len(line)
        return starts

    def span(self, node: Any) -> tuple[int, int]:
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def of(self, node: ast.AST) -> str:
        """Return a node's text."""
        start, end = self.span(node)
        return self.text.encode()[start:end].decode()

    def replaced(self, *changes: tuple[ast.AST, str]) -> str:
        """Return the text with nodes replaced, none of which is a part of another."""
        content = self.text.encode()
        spans = [(*self.span(node), self._fitted(node, text)) for node, text in changes]
        for start, end, text in sorted(spans, reverse=True):
            content = content[:start] + text.encode() + content[end:]
        return content.decode()

    def _fitted(self, node: ast.AST, text: str) -> str:
        try:
            new = ast.parse(text, mode="eval").body
        except SyntaxError:
            return text
        parent, (start, end) = self.parents.get(node), self.span(node)
        content = self.text.encode()
        is_enclosed = content[start - 1 : start] == b"(" and content[end : end + 1] == b")"
        is_operand = isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Attribute)
        bare = text
        if isinstance(new, ast.BinOp) and text.startswith("(") and text.endswith(")"):
            with contextlib.suppress(SyntaxError):  # "(a) + (b)" has no parentheses around it
                if ast.dump(ast.parse(text[1:-1], mode="eval").body) == ast.dump(new):
                    bare = text[1:-1]
        is_tight = isinstance(getattr(new, "op", None), ast.Mult | ast.Div | ast.Mod)
        is_in_sum = isinstance(getattr(parent, "op", None), ast.Add | ast.Sub)
        if not isinstance(new, ast.BinOp) or is_enclosed or not is_operand:
            return bare
        return bare if is_tight and is_in_sum else f"({bare})"

    def without(self, statement: ast.stmt) -> str:
        """Return the text with `pass` in place of a statement."""
        return self.replaced((statement, "pass"))

    def with_line(self, statement: ast.stmt, line: str, *, after: bool = False) -> str:
        """Return the text with a line before a statement, or after it."""
        lines = [f"{each}\n" for each in self.text.splitlines()]
        place = (statement.end_lineno or 0) if after else statement.lineno - 1
        lines.insert(place, f"{' ' * statement.col_offset}{line}\n")
        return "".join(lines)

    def with_argument(self, call: ast.Call, argument: str) -> str:
        """Return the text of a call with one more argument."""
        return f"{self.of(call)[:-1].rstrip(', ')}, {argument})"

    # What the launch gives

    def named(self, *kinds: type) -> list[str]:
        """Return the parameters whose arguments are of these types."""
        return [
            name
            for name, value in self.values.items()
            if isinstance(value, kinds) and not isinstance(value, bool)
        ]

    @cached_property
    def tensors(self) -> list[str]:
        """The parameters that are tensors."""
        return self.named(torch.Tensor)

    @cached_property
    def numbers(self) -> list[str]:
        """The parameters that are integers, those of the launch before the constexprs."""
        names = self.named(int)
        return sorted(names, key=lambda name: name in self.constants)

    @cached_property
    def floats(self) -> list[str]:
        return self.named(float)

    @cached_property
    def constants(self) -> list[str]:
        """The parameters that are constexprs."""
        parameters = self.kernel.args
        return [
            each.arg
            for each in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
            if each.annotation is not None and "constexpr" in ast.unparse(each.annotation)
        ]

    # What the kernel has

    def calls(self, *names: str) -> list[ast.Call]:
        """Return the calls of functions with these last names: "load" for `tl.load`."""
        return [node for node in self.nodes if isinstance(node, ast.Call) and called(node) in names]

    def names(self, *, of: Sequence[str] | None = None) -> list[ast.Name]:
        """Return the names that are read, or those of them in a list."""
        return [
            node
            for node in self.nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            if of is None or node.id in of
        ]

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """The first value that is assigned to each variable."""
        first: dict[str, ast.expr] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                first.setdefault(node.targets[0].id, node.value)
        return first

    def assigned_by(self, *functions: str) -> Iterator[tuple[str, ast.Call]]:
        """Yield the variables that are assigned what calls of functions return, with the calls."""
        for node in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, ast.Call) and called(node.value) in functions:
                    yield node.targets[0].id, node.value

    @cached_property
    def conditions(self) -> list[str]:
        """The masks that the kernel has: variables that are comparisons, then comparisons."""
        named = [name for name, value in self.assigned.items() if is_condition(value)]
        masks = [self.of(keyword.value) for call in self.calls("load", "store", "atomic_add")
                 for keyword in call.keywords if keyword.arg == "mask"]  # fmt: skip
        plain = [self.of(node) for node in self.nodes if isinstance(node, ast.Compare)]
        return list(dict.fromkeys((*named, *masks, *plain)))

    def loops(self) -> Iterator[ast.For | ast.While]:
        for node in self.nodes:
            if isinstance(node, ast.For | ast.While):
                yield node

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """Return the statement that a node is a part of, without a loop's or a branch's body."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def is_inside(self, node: ast.AST, outer: ast.AST) -> bool:
        current: ast.AST | None = node
        while current is not None and current is not outer:
            current = self.parents.get(current)
        return current is outer


def _place(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, -node.end_lineno, -node.end_col_offset


def keyword_of(call: ast.Call, name: str) -> ast.keyword | None:
    """Return a keyword argument of a call; None if it has none of that name."""
    return next((each for each in call.keywords if each.arg == name), None)


_MASKS = {"load": 1, "store": 2, "atomic_add": 2}
"""The position of the mask among the arguments of a call."""


def mask_argument(call: ast.Call) -> ast.expr | None:
    """Return the mask of an access, by keyword or by position; None if it has none."""
    given = keyword_of(call, "mask")
    if given is not None:
        return given.value
    position = _MASKS.get(called(call), len(call.args))
    return call.args[position] if position < len(call.args) else None


def is_condition(node: ast.expr) -> bool:
    """Return whether an expression is a comparison, or several joined by & and |."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitAnd | ast.BitOr) and is_condition(node.left)
    if isinstance(node, ast.Subscript):
        return is_condition(node.value)
    return isinstance(node, ast.Compare)


def in_brackets(text: str) -> str:
    """Return an expression in parentheses, if it may need them as an operand."""
    plain = text.replace("_", "").replace(".", "")
    return text if plain.isalnum() else f"({text})"
