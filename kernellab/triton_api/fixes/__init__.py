"""Reasons and fixes for what Triton's front end refuses, with the kernel's own names.

The rules are in `constants.py`, `values.py`, `shapes.py`, `types.py` and `syntax.py`, one per
message, and here for messages that say all that a fix needs. `values.py` has the replacements of
functions of torch, NumPy and math too. To support another message, add a row here, or a function
with `@rule(PATTERN)` above it, and a row in `tests/compiler/test_fixes.py`.
"""

from __future__ import annotations

import re

from kernellab.triton_api.fixes import constants, shapes, syntax, types, values
from kernellab.triton_api.fixes.rules import Fix, Refusal, fix_of, rule
from kernellab.triton_api.fixes.values import foreign_call

# Rules for messages that say all that a fix needs.


_FIXES = {
    r"tl\.trans invoked with a 0- or 1-dimensional tensor": (
        "tl.trans turns a tile of two axes, and this one has fewer.",
        "x[:, None] makes a column of it, x[None, :] a row.",
    ),
    r"'scf\.condition' op operand #0 must be 1-bit signless integer, but got 'tensor": (
        "a while goes on or ends for the whole program, and its condition is a tile.",
        "Make one value of it: while tl.max(condition.to(tl.int32), axis=0) != 0, and "
        "change only lanes that are not done, by tl.where.",
    ),
    r"Cannot have `return` statements inside `while` or `for`": (
        "a kernel cannot return from inside a loop.",
        "End the loop by its condition (while), or let further turns change nothing (an "
        "if, a mask), and return after it.",
    ),
    r"Attribute assignment is not supported in triton": (
        "attributes cannot be assigned in a kernel.",
        "Assign to a variable.",
    ),
    r"only tuple comprehensions are supported|nested comprehensions are not supported": (
        "a kernel has no lists.",
        "Write a loop, for k in range(n) or tl.static_range(n); a few values can be in a tuple.",
    ),
    r"`if` conditionals can only accept values of type": (
        "the condition of this if is not a truth value.",
        "Compare: if x is not None, if n > 0, if FLAG == 1.",
    ),
    r"Loop carried variable (\w+) changed type|Loop carried variable (\w+) is not a triton value": (
        "{0} has another type before the loop than after an iteration.",
        "Assign a number or a tile to {0} before the loop.",
    ),
    r"Cannot evaluate f-string containing non-constexpr": (
        "an f-string in a kernel holds constants only.",
        'Write print("text", value) or tl.device_print("text", value).',
    ),
    r"`other` cannot be provided without `mask`": (
        "other= is what lanes get that the mask leaves out, and there is no mask.",
        "Add mask=offsets < n (what is true of the lanes to load), or leave other= out.",
    ),
    r"different signedness": (
        "it divides a signed and an unsigned integer.",
        "Convert one, such as x.to(tl.int32) or x.to(tl.int64).",
    ),
    r"Cannot bitcast data-type of size (\d+) to data-type of size (\d+)": (
        "bitcast=True keeps the bits, and {0} bits are not {1}.",
        "Convert the value without bitcast=True, or take a type of the same size.",
    ),
    r"For loop bounds and step must all be ints, are \((.+)\)": (
        "a loop counts in integers, and its bounds and step are {0}.",
        "Divide by //, or tl.cdiv(n, BLOCK) to round up; .to(tl.int32) converts.",
    ),
    r"For (lower bound|upper bound|step) must be a scalar, got (.+)": (
        "the {0} of a loop is one number, and here a tile.",
        "Reduce it first (tl.max), or load one value of it by a pointer without a tile.",
    ),
    r"atomic_(\w+) does not support (\S+)|atomic_(max|min) not supported for dtype (\S+)": (
        "tl.atomic_{0} does not take {1}.",
        "Keep what programs combine in a float32 or int32 tensor, and convert it afterwards.",
    ),
    r"(program_id|num_programs) axis must be 0, 1, or 2 but got (.+)": (
        "a grid has the axes 0, 1 and 2, and tl.{0} was asked for {1}.",
        "Put several indices on one axis, and take them apart by // and %.",
    ),
}
"""Message: its reason and its fix, with the parts of the message that the pattern groups."""


def _worded(pattern: str, reason: str, advice: str) -> None:
    @rule(pattern)
    def _(_: Refusal, match: re.Match[str]) -> Fix:
        parts = [part for part in match.groups() if part is not None]
        return Fix(reason.format(*parts), advice.format(*parts))


for _pattern, (_reason, _advice) in _FIXES.items():
    _worded(_pattern, _reason, _advice)

__all__ = [
    "Fix",
    "Refusal",
    "constants",
    "fix_of",
    "foreign_call",
    "shapes",
    "syntax",
    "types",
    "values",
]
