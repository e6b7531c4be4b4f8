"""Find launches whose results are lost: the kernel has no store, every store is masked off, or the
kernel writes to an input instead of a parameter with the name of an output.

A kernel whose stores were removed by a constexpr is not at fault: a note says so.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.source_stores import conditional_stores, removed_note
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, memory_effects
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.per_code import per_code
from kernellab.interpreter.execution.program import ProgramCode, entry_of
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import tt
from kernellab.ir.locations import locate
from kernellab.ir.traits import GlobalWrite, has
from kernellab.triton_api import definition_of

_OUTPUT = re.compile(r"(.*_)?(o|y|z|c|out|output|dst|dest|res|result)s?(_?ptr|_?pointer)?", re.I)
"""The usual names of outputs: out, y_ptr, ZPtr, grad_out_ptr."""


class UnusedOutput(Detector):
    """Look for an element that is written. `UnwrittenOutput` checks launches that name their
    `outputs`, element by element.
    """

    kinds = ("unwritten-output",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._wrote = False

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        sizes = [tensor.numel() for tensor in run.tensors.values()]
        return not run.outputs and not run.expected and any(sizes) and _is_known(run.code)

    def after(self, access: Access, result: Value | None) -> None:
        if not self._wrote and access.action != "load":
            self._wrote = access.on is None or bool(access.on.any())

    def end(self) -> None:
        stores = [op for op in entry_of(self.run.code.module).body.walk() if has(op, GlobalWrite)]
        unused, written = _unused_output(self.run)
        if unused:
            self._report(unused, _UNUSED.format(unused, " and ".join(written)))
        elif not stores:
            removed = conditional_stores(self.run.kernel)
            outputs = removed.keys() & self.run.tensors.keys()
            if outputs:
                self.notes = tuple(removed_note(name, removed[name]) for name in sorted(outputs))
            else:
                self._report([*self.run.tensors][-1], _NO_STORE)
        elif not self._wrote:
            place = locate(stores[0].location).frames
            where = f" (the first is on line {place[-1].line})" if place else ""
            self.notes = (_ALL_OFF.format(where),)

    def _report(self, argument: str, message: str) -> None:
        facts: dict[str, Any] = {
            "kind": self.kinds[0],
            "argument": argument,
            "position": definition_of(self.run.kernel),
            "message": message,
            "advice": _ADVICE.format(argument),
            "severity": "warning",
        }
        self.collector.add(argument, facts)


_UNUSED = (
    "the kernel never uses {0}: it stores its results to {1}, which it also reads, and {0} does "
    "not change"
)
_NO_STORE = "the kernel never stores anything: no tensor changes, and its results are lost"
_ADVICE = (
    "Store the result: tl.store({0} + offsets, value, mask=...). The value that a kernel returns "
    "is discarded."
)
_ALL_OFF = (
    "The launch stores nothing: no program reaches a store with an element that is not masked "
    "off{0}. Check the masks, the values that they compare, and any if or return before the stores."
)


@per_code
def _is_known(code: ProgramCode) -> bool:
    """Return whether the effects of the code on memory are known, and are its only effects."""
    effects = memory_effects(code)
    if EVERYTHING in (effects.stored, effects.updated, effects.loaded):
        return False
    return not any(isinstance(op, _OTHER_EFFECTS) for op in code.module.walk())


_OTHER_EFFECTS = (tt.PrintOp, tt.AssertOp, tt.ElementwiseInlineAsmOp)


def _unused_output(run: CheckedRun) -> tuple[str, list[str]]:
    """Return a parameter with the name of an output that the kernel's source never uses, and the
    inputs that the kernel stores to; "" and [] if the kernel also writes something else.
    """
    effects = memory_effects(run.code)
    stored, updated = effects.stored or frozenset(), effects.updated or frozenset()
    if updated or not stored or not stored <= (effects.loaded or frozenset()):
        return "", []
    names = argument_names(run.call, run.code)
    body = run.kernel.parse().body[0].body
    used = {node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name)}
    unused = (name for name in run.tensors if name in run.kernel.arg_names and name not in used)
    output = next((name for name in unused if _OUTPUT.fullmatch(name)), "")
    return output, [names[number] for number in sorted(stored)]
