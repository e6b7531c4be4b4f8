"""Launches whose results go nowhere: nothing is stored, no lane of a store is ever on, or an input
is written in place of a parameter that is called as outputs are.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, memory_effects
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.program import entry_of
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import tt
from kernellab.ir.locations import locate
from kernellab.ir.traits import GlobalWrite, has
from kernellab.triton_api import definition_of

_OUTPUT = re.compile(r"(.*_)?(o|y|z|c|out|output|dst|dest|res|result)s?(_?ptr|_?pointer)?", re.I)
"""What outputs are called: out, y_ptr, ZPtr, grad_out_ptr."""


class UnusedOutput(Detector):
    """Waits for the first lane that writes. Launches that name their `outputs` are looked at
    closer, element by element, by another.
    """

    kinds = ("unwritten-output",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._wrote = False

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        sizes = [one.numel() for one in run.tensors.values()]
        return not run.outputs and not run.expected and any(sizes) and _is_known(run)

    def after(self, access: Access, found: Value | None) -> None:
        del found
        if not self._wrote and access.action != "load":
            self._wrote = access.on is None or bool(access.on.any())

    def end(self) -> None:
        stores = [op for op in entry_of(self.run.code.module).body.walk() if has(op, GlobalWrite)]
        forgotten, instead = _forgotten(self.run)
        if forgotten:
            self._report(forgotten, _FORGOTTEN.format(forgotten, " and ".join(instead)))
        elif not stores:
            self._report([*self.run.tensors][-1], _NO_STORE)
        elif not self._wrote:
            place = locate(stores[0].location).frames
            where = f" (line {place[-1].line})" if place else ""
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


_FORGOTTEN = (
    "no line of the kernel uses {0}: what it stores goes to {1}, which it also reads, and the "
    "launch leaves {0} as it is"
)
_NO_STORE = (
    "no line of the kernel stores anything: the launch leaves every tensor as it is, and what is "
    "computed goes nowhere"
)
_ADVICE = (
    "Store the result: tl.store({0} + offsets, value, mask=...). What a kernel returns is lost."
)
_ALL_OFF = (
    "The launch stores nothing: in no program is a lane of its first store{0}, or of another, on. "
    "Look at the mask, at what it compares with, and at an if or a return in front of it."
)


def _is_known(run: CheckedRun) -> bool:
    """Whether what the code writes is known, and writing is what it is for."""
    effects = memory_effects(run.code)
    if EVERYTHING in (effects.stored, effects.updated, effects.loaded):
        return False
    return not any(isinstance(op, _SPEAKS) for op in run.code.module.walk())


_SPEAKS = (tt.PrintOp, tt.AssertOp, tt.ElementwiseInlineAsmOp)


def _forgotten(run: CheckedRun) -> tuple[str, list[str]]:
    """A parameter that is called as outputs are and stands nowhere in the kernel's source, "" where
    there is none; and the inputs that the kernel stores to, which is all that it writes.
    """
    effects = memory_effects(run.code)
    stored, updated = effects.stored or frozenset(), effects.updated or frozenset()
    if updated or not stored or not stored <= (effects.loaded or frozenset()):
        return "", []
    names = argument_names(run.call, run.code)
    body = run.kernel.parse().body[0].body
    said = {one.id for part in body for one in ast.walk(part) if isinstance(one, ast.Name)}
    unused = (one for one in run.tensors if one in run.kernel.arg_names and one not in said)
    found = next((one for one in unused if _OUTPUT.fullmatch(one)), "")
    return found, [names[one] for one in sorted(stored)]
