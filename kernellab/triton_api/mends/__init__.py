"""What to do about what Triton's front end refuses: a reason in plain words, and a mend that
names what stands in the kernel.

`foreign_functions.py` knows what stands for functions of torch, NumPy and math; the rules stand
in `values.py`, `shapes.py`, `types.py` and `syntax.py`, one a message. A further message is a
function with `@rule(PATTERN)` above it, and a row in `tests/compiler/test_mends.py`.
"""

from __future__ import annotations

from kernellab.triton_api.mends import shapes, syntax, types, values
from kernellab.triton_api.mends.foreign_functions import foreign_call
from kernellab.triton_api.mends.refusal import Mend, Refusal
from kernellab.triton_api.mends.rules import mend_of

__all__ = ["Mend", "Refusal", "foreign_call", "mend_of", "shapes", "syntax", "types", "values"]
