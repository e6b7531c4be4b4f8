"""Reasons and fixes for what Triton's front end refuses, with the kernel's own names.

The rules for messages that contain all that a fix needs are in fixes.toml, which also lists what
replaces functions of torch, NumPy and math. The other rules are in `values.py`,
`types.py` and `syntax.py`, one per message. To support another message, add a `[[rule]]` to the
file or a function with `@rule(PATTERN)`, and a row in `tests/compiler/test_fixes.py`.
"""

from __future__ import annotations

import re

from kernellab.triton_api.fixes import syntax, types, values
from kernellab.triton_api.fixes.rules import TABLES, Fix, Refusal, WordedRule, fix_of, rule
from kernellab.triton_api.fixes.values import foreign_call


def _register(worded: WordedRule) -> None:
    @rule(worded.pattern)
    def _(_: Refusal, match: re.Match[str]) -> Fix:
        parts = [part for part in match.groups() if part is not None]
        return Fix(worded.reason.format(*parts), worded.advice.format(*parts))


for _worded in TABLES.rule:
    _register(_worded)

__all__ = [
    "Fix", "Refusal", "fix_of", "foreign_call", "syntax", "types", "values",
]  # fmt: skip
