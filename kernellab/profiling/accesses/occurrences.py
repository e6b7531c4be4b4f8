"""Which operation of a module is which of its text: the n-th of a name is the n-th of that name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from xdsl.dialects import builtin
from xdsl.ir import Operation

from kernellab.compiler.modules.structure import kind, parents
from kernellab.interpreter.codegen.calls import InlinedCallOp


def occurrences(module: builtin.ModuleOp) -> Mapping[Operation, int]:
    """Operation -> the how manieth of its name it is in the module's text, from 1;
    not those that were put in place of a call.
    """
    seen: Counter[str] = Counter()
    found = {}
    for op in module.walk():
        if any(isinstance(parent, InlinedCallOp) for parent in parents(op)):
            continue  # A copy of what stands in a function of its own.
        seen[kind(op)] += 1
        found[op] = seen[kind(op)]
    return found
