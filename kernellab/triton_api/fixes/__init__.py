"""Reasons and fixes for what Triton's front end refuses, with the kernel's own names.

`foreign_functions.py` has the replacements of functions of torch, NumPy and math. The rules are in
`values.py`, `shapes.py`, `types.py` and `syntax.py`, one per message, and in `wordings.py` for
messages that say all that a fix needs. To support another message, add a row there, or a function
with `@rule(PATTERN)` above it, and a row in `tests/compiler/test_fixes.py`.
"""

from __future__ import annotations

from kernellab.triton_api.fixes import shapes, syntax, types, values, wordings
from kernellab.triton_api.fixes.foreign_functions import foreign_call
from kernellab.triton_api.fixes.refusal import Fix, Refusal
from kernellab.triton_api.fixes.rules import fix_of

__all__ = [
    "Fix",
    "Refusal",
    "fix_of",
    "foreign_call",
    "shapes",
    "syntax",
    "types",
    "values",
    "wordings",
]
