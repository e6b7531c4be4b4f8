"""MLIR's generic form, as MLIR prints it, into xDSL."""

from __future__ import annotations

import re

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.parser import Parser

from kernellab.ir import arith, cf, foreign, math, scf, tt, ub

_ALIAS_LINE = re.compile(r"^([#!][\w.$-]+) = (.*)$", re.MULTILINE)
_ALIAS_USE = re.compile(r"[#!][A-Za-z_][\w.$-]*")


def read_module(text: str) -> builtin.ModuleOp:
    """The module that `text`, MLIR's generic form, describes.

    Ops of Triton's own dialects, arith, math, scf, cf and ub become typed classes, every other op stays generic.
    Raises xdsl.utils.exceptions.ParseError where the text is not MLIR.
    """
    return Parser(_context(), _aliases_first(_hexadecimal_splats_as_bytes(text))).parse_module()


def _context() -> Context:
    context = Context(allow_unregistered=True)
    context.load_dialect(builtin.Builtin)
    for dialect in (
        arith.ARITH, cf.CF, math.MATH, scf.SCF, tt.TT, ub.UB, foreign.LLVM, foreign.TTG, foreign.GPU,
    ):  # fmt: skip
        context.load_dialect(dialect)
    return context


_HEXADECIMAL_SPLAT = re.compile(r"dense<0x([0-9A-F]+)>(?= : \w+<[^>]*x(?:f|bf)\d)")


def _hexadecimal_splats_as_bytes(text: str) -> str:
    """Write `dense<0xFF800000>` (how MLIR prints -inf and NaN) as MLIR's byte string, `dense<"0x000080FF">`.

    xDSL 0.74 takes the digits of the first form for the number itself, and reads the second one right.
    """

    def as_bytes(match: re.Match[str]) -> str:
        return f'dense<"0x{bytes.fromhex(match[1])[::-1].hex().upper()}">'

    return _HEXADECIMAL_SPLAT.sub(as_bytes, text)


def _aliases_first(text: str) -> str:
    """Move the lines that define aliases (`#loc3 = ...`) to the top, each after those it uses.

    MLIR prints location aliases after the module and out of order; xDSL refuses forward references.
    """
    definitions = dict(_ALIAS_LINE.findall(text))
    ordered: dict[str, str] = {}

    def place(alias: str) -> None:
        if alias in ordered:
            return
        for used in _ALIAS_USE.findall(_outside_strings(definitions[alias])):
            if used in definitions:
                place(used)
        ordered[alias] = definitions[alias]

    for alias in definitions:
        place(alias)
    body = _ALIAS_LINE.sub("", text)
    return "\n".join([*(f"{alias} = {value}" for alias, value in ordered.items()), body])


def _outside_strings(text: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
