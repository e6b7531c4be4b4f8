"""MLIR's generic form, as MLIR prints it, into xDSL."""

from __future__ import annotations

import re
from functools import cache

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.ir import Attribute

from kernellab.ir import amdg, arith, cf, gpu, llvm, math, rocdl, scf, tt, ttg, ttng, ub
from kernellab.ir.parser import ModuleParser

_ALIAS_LINE = re.compile(r"^([#!][\w.$-]+) = (.*)\n?", re.MULTILINE)
_ALIAS_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[#!][A-Za-z_][\w.$-]*')


def read_module(text: str) -> builtin.ModuleOp:
    """The module that `text`, MLIR's generic form, describes.

    Ops of Triton's own dialects, arith, math, scf, cf and ub become typed classes, every other op
    stays generic; so do types and attributes. Nothing is refused for being unknown. Raises
    xdsl.utils.exceptions.ParseError where the text is not MLIR's generic form.
    """
    return ModuleParser(context(), in_order_of_use(text)).parse_module()


def read_attribute(text: str) -> Attribute:
    """The attribute or type that `text` spells out:
    "#ttg.slice<{dim = 1, parent = #ttg.blocked<...>}>", "!tt.ptr<f16>".

    Raises xdsl.utils.exceptions.ParseError where the text is neither.
    """
    parser = ModuleParser(context(), text)
    return parser.parse_type() if text.startswith("!") else parser.parse_attribute()


@cache
def context() -> Context:
    """The dialects that have typed classes here; what else comes along stays generic."""
    known = Context(allow_unregistered=True)
    known.load_dialect(builtin.Builtin)
    for dialect in (
        amdg.AMDG,
        arith.ARITH,
        cf.CF,
        gpu.GPU,
        llvm.LLVM,
        math.MATH,
        rocdl.ROCDL,
        scf.SCF,
        tt.TT,
        ttg.TTG,
        ttng.TTNG,
        ub.UB,
    ):
        known.load_dialect(dialect)
    return known


def in_order_of_use(text: str) -> str:
    """The text with the lines that define aliases (`#loc3 = ...`) at the top,
    each after those it uses.

    MLIR prints location aliases after the module and out of order; xDSL refuses forward references.
    """
    definitions = dict(_ALIAS_LINE.findall(text))
    used = {
        alias: [name for name in _ALIAS_OR_STRING.findall(value) if name in definitions]
        for alias, value in definitions.items()
    }
    ordered: dict[str, str] = {}
    waiting = list(reversed(definitions))
    while waiting:
        alias = waiting[-1]
        missing = [name for name in used[alias] if name not in ordered]
        if missing and alias not in ordered:
            waiting += missing
            continue
        ordered[alias] = definitions[alias]
        waiting.pop()
    body = _ALIAS_LINE.sub("", text)
    return "\n".join([*(f"{alias} = {value}" for alias, value in ordered.items()), body])
