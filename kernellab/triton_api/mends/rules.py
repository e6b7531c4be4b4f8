"""The registry of rules: which of them answers a message of the front end's."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from kernellab.triton_api.mends.refusal import Mend, Refusal

Rule = Callable[[Refusal, "re.Match[str]"], "Mend | None"]

_RULES: list[tuple[re.Pattern[str], Rule]] = []


def rule(pattern: str) -> Callable[[Rule], Rule]:
    """Register a rule for messages that match a pattern; it may decline by None."""

    def register(function: Rule) -> Rule:
        _RULES.append((re.compile(pattern, re.S), function))
        return function

    return register


def patterns() -> list[str]:
    """The patterns of all rules, in the order in which they are asked."""
    return [pattern.pattern for pattern, _ in _RULES]


def mend_of(refusal: Refusal) -> Mend | None:
    """The first rule's answer, or None where no rule knows the message."""
    for pattern, function in _RULES:
        if found := pattern.search(refusal.words):
            with suppress(Exception):  # of a rule: what Triton says is still to be told
                if mend := function(refusal, found):
                    return mend
    return None
