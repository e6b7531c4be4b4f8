"""Python expressions as values: operators on them build the expression
that generated code will evaluate.

A lowering reads like the NumPy code it generates:
`value[op.lhs] + value[op.rhs]` is an `ast.BinOp`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeAlias

Operand = Any
"""The operands that an expression can be combined with: an expression, a literal,
or a tuple or list of these."""

Combined: TypeAlias = "Callable[[Expression, Operand], Expression]"


def _binary(operator: type[ast.operator]) -> Combined:
    return lambda self, other: Expression(ast.BinOp(self.node, operator(), as_node(other)))


def _comparison(operator: type[ast.cmpop]) -> Combined:
    return lambda self, other: Expression(ast.Compare(self.node, [operator()], [as_node(other)]))


class Expression:
    """One Python expression, as syntax."""

    def __init__(self, node: ast.expr) -> None:
        self.node = node

    @property
    def name(self) -> str | None:
        """The variable that the expression is, or None if it is more than a name."""
        return self.node.id if isinstance(self.node, ast.Name) else None

    def member(self, attribute: str) -> Expression:
        """`self.attribute`, as syntax; plain attribute access does the same for known names."""
        return Expression(ast.Attribute(self.node, attribute, ast.Load()))

    def __getattr__(self, attribute: str) -> Expression:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return self.member(attribute)

    def __call__(self, *arguments: Operand, **keywords: Operand) -> Expression:
        given = [ast.keyword(name, as_node(value)) for name, value in keywords.items()]
        return Expression(ast.Call(self.node, [as_node(a) for a in arguments], given))

    def item(self, index: int) -> Expression:
        return Expression(ast.Subscript(self.node, ast.Constant(index), ast.Load()))

    def later(self) -> Expression:
        """A function without arguments that evaluates this, with the variables as they are now."""
        nodes = ast.walk(self.node)
        names = dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name))
        parameters = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(name) for name in names],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[ast.Name(name, ast.Load()) for name in names],
        )
        return Expression(ast.Lambda(parameters, self.node))

    __add__ = _binary(ast.Add)
    __sub__ = _binary(ast.Sub)
    __mul__ = _binary(ast.Mult)
    __truediv__ = _binary(ast.Div)
    __floordiv__ = _binary(ast.FloorDiv)
    __mod__ = _binary(ast.Mod)
    __and__ = _binary(ast.BitAnd)
    __or__ = _binary(ast.BitOr)
    __xor__ = _binary(ast.BitXor)
    __lshift__ = _binary(ast.LShift)
    __rshift__ = _binary(ast.RShift)
    __lt__ = _comparison(ast.Lt)
    __le__ = _comparison(ast.LtE)
    __gt__ = _comparison(ast.Gt)
    __ge__ = _comparison(ast.GtE)
    # `==` and `!=` themselves stay Python's.
    equals = _comparison(ast.Eq)
    differs = _comparison(ast.NotEq)

    def __rtruediv__(self, other: Operand) -> Expression:
        return Expression(ast.BinOp(as_node(other), ast.Div(), self.node))

    def __neg__(self) -> Expression:
        return Expression(ast.UnaryOp(ast.USub(), self.node))

    def __invert__(self) -> Expression:
        return Expression(ast.UnaryOp(ast.Invert(), self.node))

    def __repr__(self) -> str:
        return ast.unparse(self.node)


def as_node(value: Any) -> ast.expr:
    """The syntax of an expression or of a literal; tuples and lists may hold either."""
    if isinstance(value, Expression):
        return value.node
    if isinstance(value, tuple):
        return ast.Tuple([as_node(item) for item in value], ast.Load())
    if isinstance(value, list):
        return ast.List([as_node(item) for item in value], ast.Load())
    return ast.Constant(value)


def literal(value: int | bool) -> Expression:
    """A number, written out."""
    return Expression(ast.Constant(value))


def variable(name: str) -> Expression:
    return Expression(ast.Name(name, ast.Load()))


def given(**keywords: Operand) -> dict[str, Operand]:
    """The keywords that have a value: generated calls name no others."""
    return {name: value for name, value in keywords.items() if value is not None}


# The modules that generated code refers to, under their own names.
numpy = variable("numpy")
tiles = variable("tiles")
numerics = variable("numerics")
products = variable("products")
memory = variable("memory")
descriptors = variable("descriptors")
foreign_code = variable("foreign_code")
address_space = variable("address_space")
debugging = variable("debugging")
shared_memory = variable("shared_memory")
mbarriers = variable("mbarriers")
tensormaps = variable("tensormaps")
warp_groups = variable("warp_groups")
transfers = variable("transfers")
"""Asynchronous operations in flight; only code whose operations complete late names it."""
observer = variable("observer")
"""Who is notified of values: no module, but what a run's observer puts there;
only code that was added to names it."""

MODULES = (
    "numpy", "tiles", "numerics", "products", "memory", "address_space", "descriptors",
    "foreign_code", "debugging", "shared_memory", "mbarriers", "tensormaps", "warp_groups",
    "transfers", "observer",
)  # fmt: skip

BUILTINS = ("range",)
"""Python's own functions that generated code calls."""
