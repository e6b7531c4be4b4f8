"""Which variables of a loop that waits decide nothing, in code as it is generated."""

from __future__ import annotations

import textwrap

import pytest

from kernellab.interpreter.execution.scheduler import idle_variables

WAITS = """
tries = c0
while True:
    seen = memory.load(flag, {address}, 0, None, None, active)
    tries_1 = tiles.merge(active, tries, tries_1, 0)
    active = tiles.narrowed(active, {condition}, 1)
    if ~active.any():
        break
    tries_2 = tries_1 + c1
    {more}
    tries = tiles.merge(active, tries_2, tries, 0)
    yield
"""
COUNTED = {"tries", "tries_1", "tries_2"}


def code(address: str = "at", condition: str = "seen == c0", more: str = "pass") -> str:
    return WAITS.format(address=address, condition=condition, more=more)


def test_a_number_of_tries_decides_nothing() -> None:
    assert idle_variables(code()) == COUNTED


def test_it_may_be_stored_after_the_loop() -> None:
    assert idle_variables(code() + "memory.store(out, at, tries_1, 0)") == COUNTED


def test_who_listens_to_it_changes_nothing() -> None:
    heard = "observer.computed(operation, (tries_1, c1), (tries_2,), active)"
    assert idle_variables(code(more=heard)) == COUNTED


@pytest.mark.parametrize(
    "used",
    [
        {"condition": "(seen == c0) & (tries_1 < n)"},
        {"address": "at + tries_1"},
        {"more": "memory.store(out, at, tries_2, 0)"},
        {"more": "debugging.check(tries_2)"},
        {"more": "checked = debugging.look(tries_2)"},
        {"more": "if tries_2 > n: at = c1"},
        {"more": "for turn in range(tries_2): pass"},
        {"more": "picked = table[tries_2]"},
    ],
    ids=lambda used: next(iter(used.values())),
)
def test_what_has_an_effect_or_says_where_to_go_on_decides(used: dict[str, str]) -> None:
    assert not idle_variables(code(**used)) & COUNTED


def test_in_a_loop_that_is_come_to_again_what_is_read_outside_decides() -> None:
    around = "while phase < n:\n" + textwrap.indent(code(), "    ")
    assert idle_variables(around) == COUNTED
    assert not idle_variables(around + "    phase = phase + tries_1") & COUNTED


def test_a_variable_that_decides_in_another_loop_is_not_idle() -> None:
    assert idle_variables(code() + code(condition="tries_1 < n")) == set()


def test_a_loop_that_does_not_wait_has_none() -> None:
    assert idle_variables(code().replace("yield", "pass")) == set()
