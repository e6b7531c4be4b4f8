"""Which function lowers which operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.ir import Operation

from kernellab.ir.traits import stays_where_it_is

if TYPE_CHECKING:
    from kernellab.interpreter.codegen.emitter import Emitter

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Rule:
    """How one class of operations is lowered."""

    lower: Callable[[Any, Emitter], Any]
    """(operation, emitter) -> one expression a result, or None where there are no results."""
    pure: bool
    """True where it has no effects, see `ir/traits.py`, and may move out of the programs' loop."""
    rounds: bool
    """True for floating-point arithmetic: operands of fewer than 32 bits arrive as float32,
    and the result is rounded to its own type, once."""


RULES: dict[type[Operation], Rule] = {}

RuleOf = Callable[[Operation], Rule | None]
"""The rule for an operation, None where nothing lowers it."""


def rule_of(op: Operation) -> Rule | None:
    """The rule for floats as they are."""
    return RULES.get(type(op))


def lowers(
    *operations: type[Operation], pure: bool = True, rounds: bool = False
) -> Callable[[Function], Function]:
    """Register the decorated function as the lowering of `operations`.

    Args:
        pure: False for operations that must not move though their classes have no effects:
            they may fault, or end a block.
        rounds: see `Rule`.
    """

    def register(function: Function) -> Function:
        for operation in operations:
            assert operation not in RULES, f"{operation.name} is lowered twice"
            RULES[operation] = Rule(function, pure and not stays_where_it_is(operation), rounds)
        return function

    return register
