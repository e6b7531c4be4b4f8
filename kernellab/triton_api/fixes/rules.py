"""The registry of rules: which of them answers a message of the front end's."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from kernellab.triton_api.fixes.refusal import Fix, Refusal

Rule = Callable[[Refusal, "re.Match[str]"], "Fix | None"]

_RULES: list[tuple[re.Pattern[str], Rule]] = []


def rule(pattern: str) -> Callable[[Rule], Rule]:
    """Register a rule for messages that match a pattern; it may decline by None."""

    def register(function: Rule) -> Rule:
        _RULES.append((re.compile(pattern, re.S), function))
        return function

    return register


def patterns() -> list[str]:
    """Return the patterns of all rules, in the order in which they are tried."""
    return [pattern.pattern for pattern, _ in _RULES]


def fix_of(refusal: Refusal) -> Fix | None:
    """The first rule's answer, or None where no rule knows the message."""
    for pattern, function in _RULES:
        if match := pattern.search(refusal.words):
            with suppress(Exception):  # of a rule: Triton's own message is still to be reported
                if fix := function(refusal, match):
                    return fix
    return None
