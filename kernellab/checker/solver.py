"""Proofs by z3 for every size, where intervals do not suffice (the extra `proofs`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import z3

from kernellab.checker.sizes import All, Condition, Polynomial, Prover, Sizes, equal, negated

_WORK, _LITTLE = 4_000_000, 400_000
"""Work for a question, and for a fact that may help: about a second and a tenth, in z3's units,
which do not depend on the processor."""

_SIZES = (32, 128, 512, 2048)
"""Bounds for the sizes of a launch, tried in this order."""


class Solver(Prover):
    """Proves with z3, whose answers are `unsat` where conditions contradict each other."""

    knows_logic = True

    def __init__(self) -> None:
        self._context = z3.Context()  # without earlier expressions, whose number changes the search

    def holds(self, goal: Polynomial, facts: Iterable[Condition], *, hard: bool = False) -> bool:
        facts = list(facts)
        if not hard and super().holds(goal, facts):
            return True
        return self._solved([*facts, negated(goal)], _WORK if hard else _LITTLE) is False

    def is_never_zero(
        self, number: Polynomial, facts: Iterable[Condition], *, hard: bool = False
    ) -> bool:
        return self._solved([*facts, equal(number)], _WORK if hard else _LITTLE) is False

    def launch(self, sizes: Sizes, conditions: Iterable[Condition]) -> Mapping[str, int] | None:
        """Small sizes for which conditions may hold."""
        conditions = list(conditions)
        for most in _SIZES:
            ends = [-Polynomial.of(name) + most for name in sizes.ranges]
            model = self._solved([*conditions, *ends], _WORK)
            if model:
                rests = {name: z3.Int(name, self._context) for name in sizes.ranges}
                return {
                    name: sizes.ranges[name][0] + model.eval(rest, True).as_long()
                    for name, rest in rests.items()
                }
        return None

    def _solved(self, conditions: Iterable[Condition], work: int) -> Any:
        """A model; False if there is none, and None if the work is spent."""
        conditions = list(dict.fromkeys(conditions))
        solver = z3.Solver(ctx=self._context)
        solver.set("rlimit", work, "timeout", 120_000)
        symbols = set().union(*(each.symbols for each in conditions))
        naturals = (each for each in sorted(symbols) if f"{each}-" not in symbols)
        solver.add(*(z3.Int(name, self._context) >= 0 for name in naturals))
        solver.add(*map(self._formula, conditions))
        answer = solver.check()
        return solver.model() if answer == z3.sat else False if answer == z3.unsat else None

    def _formula(self, condition: Condition) -> Any:
        if isinstance(condition, Polynomial):
            return self._expression(condition) >= 0
        parts = condition.parts
        if isinstance(condition, All):
            first, *rest = parts or (None,)
            if len(rest) == 1 and isinstance(first, Polynomial) and rest[0] == -first:
                return self._expression(first) == 0
            return z3.And(z3.BoolVal(True, self._context), *map(self._formula, parts))
        return z3.Or(z3.BoolVal(False, self._context), *map(self._formula, parts))

    def _expression(self, polynomial: Polynomial) -> Any:
        """A sum, where the difference of "x" and "x-" is any integer x."""
        total = z3.IntVal(0, self._context)
        for monomial, factor in polynomial.items():
            if not any(symbol.endswith("-") for symbol in monomial):
                product = z3.IntVal(int(factor), self._context)
                for symbol in monomial:
                    product = product * z3.Int(symbol, self._context)
                total = total + product
        return z3.simplify(total)
