"""MLIR's generic form: reading it into xDSL, and writing it for MLIR to read.

The only file that touches private names of xDSL's parser.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    CallSiteLoc,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FunctionType,
    FusedLoc,
    IndexType,
    IntAttr,
    IntegerType,
    LocationAttr,
    MemRefType,
    NameLoc,
    NoneAttr,
    RankedStructure,
    StringAttr,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.printer import Printer
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind

from kernellab.common.text import string_of_ir
from kernellab.ir import amd, mlir, tt, ttg, ttng

# xDSL's parser, extended for output of MLIR that xDSL 0.74 does not read, and with a memory for
# texts that a long module repeats.

_TYPE_TEXT = re.compile(r"[!a-z][\w.$]*(?:<(?:[^<>\"]|<(?:[^<>\"]|<[^<>\"]*>)*>)*>)?")
"""A type as it is written in the text, brackets nested up to three deep;
it only proposes a key for a look-up."""
_SIGNATURE_TEXT = re.compile(r"\([^\n]*?(?= loc\(|\n)")
"""An op's operand and result types, which MLIR prints on one line before the location."""
_ALIAS_LOCATION = re.compile(r"loc\((#[\w$]+)\)")
_PROPERTIES_TEXT = re.compile(r"<\{[^\n{}\"]*\}>")
"""An op's properties, if no value among them has strings or braces."""
_OPERATION_TEXT = re.compile(
    rf"\(((?:%[\w$.-]+(?:, (?=%))?)*)\)(?: ({_PROPERTIES_TEXT.pattern}))?"
    rf" : ({_SIGNATURE_TEXT.pattern}) {_ALIAS_LOCATION.pattern}"
)
"""What follows the name of an op without successors, regions and attributes: most ops."""
_SPLAT = re.compile(r"<[\w.+-]+> *:")
_LOCATION_DEFINITION = re.compile(
    r'(#[\w$]+) = loc\((?:"([^"\\]*)"(?::(\d+):(\d+)|\((#[\w$]+)\))'
    r"|callsite\((#[\w$]+) at (#[\w$]+)\))\)"
)
"""The alias of a location: `"file":line:column`, `"name"(#loc1)` or `callsite(#loc1 at #loc2)`."""
_ALIAS_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[#!][A-Za-z_][\w$]*(?![\w$]*[.<])')

_ALIAS = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$]*[.<])")

_MOST_KNOWN = 10_000
_known_everywhere: dict[str, Any] = {}
"""The results of reading texts without aliases, which are the same in every module."""


@dataclass
class _FloatBits(AttrParser._TensorLiteralElement):
    """A hexadecimal element of a dense literal: for a float it is the bits, not the value."""

    def to_type(
        self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType
    ) -> int | float | tuple[int, int] | tuple[float, float]:
        if isinstance(type, AnyFloat):
            bits = int(cast(int, self.value)).to_bytes(type.compile_time_size, "little")
            return type.unpack(bits, 1)[0]
        return cast(int | float, super().to_type(parser, type))


class _Lexer(MLIRLexer):
    """Reads MLIR's escaped bytes as text if they are UTF-8; xDSL takes them for binary data."""

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind == MLIRTokenKind.BYTES_LIT and "\ufffd" not in string_of_ir(token.text):
            return _as_string(token)
        return token


def _as_string(token: MLIRToken) -> MLIRToken:
    return MLIRToken(MLIRTokenKind.STRING_LIT, token.span)


class ModuleParser(Parser):
    """Reads MLIR's generic form.

    Beyond xDSL's own parser it reads strings that are not ASCII, hexadecimal floats in dense
    literals, fused locations with metadata, and aliases inside unregistered attributes.
    Types, signatures and properties that were read once are looked up by their text, and an op on
    one line is matched as a whole: xDSL's lexer takes most of the time of reading a module.
    """

    def __init__(self, context: Context, text: str) -> None:
        super().__init__(context, text)
        self._parser_state = ParserState(_Lexer(Input(text, "<unknown>")))
        self._text = text
        self._known: dict[str, Any] = {}

    def _recall(self, text: str) -> Any:
        """The earlier result of reading a text; None if it was not read."""
        known = _known_everywhere.get(text)
        return self._known.get(text) if known is None else known

    def _remember(self, match: re.Match[str], read: Any) -> None:
        """Keep what was read, if it is all of the matched text."""
        if not self._is_at(match.end()):
            return
        if _ALIAS.search(match.group()):
            self._known[match.group()] = read
            return
        if len(_known_everywhere) >= _MOST_KNOWN:
            _known_everywhere.clear()
        _known_everywhere[match.group()] = read

    def _looked_up(self, pattern: re.Pattern[str], read: Callable[[], Any]) -> Any:
        """Read the next element, or return the earlier result for the same text."""
        match = pattern.match(self._text, self._current_token.span.start)
        known = None if match is None else self._recall(match.group())
        if match is not None and known is not None:
            self._resume_from(match.end())
            return known
        value = read()
        if match is not None and value is not None:
            self._remember(match, value)
        return value

    def parse_optional_type(self) -> TypeAttribute | None:
        """As xDSL's, with a look-up of types that were read before."""
        read = super().parse_optional_type
        return cast("TypeAttribute | None", self._looked_up(_TYPE_TEXT, read))

    def parse_function_type(self) -> FunctionType:
        """As xDSL's, with a look-up of signatures, each of which ends at the op's location."""
        return cast(FunctionType, self._looked_up(_SIGNATURE_TEXT, super().parse_function_type))

    def parse_optional_properties_dict(self) -> dict[str, Attribute]:
        """As xDSL's, with a look-up of properties that were read before."""
        return dict(self._looked_up(_PROPERTIES_TEXT, super().parse_optional_properties_dict))

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        """As xDSL's; an op whose text has the usual form is made without reading its tokens."""
        match = _OPERATION_TEXT.match(self._text, self._current_token.span.start)
        if match is None:
            return super()._parse_generic_operation(op_type)
        names, properties, signature, location = match.groups()
        known = {} if properties is None else self._recall(properties)
        types: FunctionType | None = self._recall(signature)
        operands = [self.ssa_values.get(name[1:]) for name in names.split(", ") if name]
        if (
            known is None
            or types is None
            or location not in self.attribute_aliases
            or [values and values[0].type for values in operands] != list(types.inputs)
        ):
            return super()._parse_generic_operation(op_type)
        self._resume_from(match.end())
        return op_type.create(
            operands=[values[0] for values in operands if values],
            result_types=types.outputs.data,
            properties=dict(known),
            location=cast(LocationAttr, self.attribute_aliases[location]),
        )

    def _parse_alias_def(self) -> None:
        """As xDSL's; a location of the usual form is made without reading its tokens."""
        match = _LOCATION_DEFINITION.match(self._text, self._current_token.span.start)
        location = match and self._location_of(match)
        if match is None or location is None:
            super()._parse_alias_def()  # type: ignore[no-untyped-call]
        else:
            self.attribute_aliases[match[1]] = location
            self._resume_from(match.end())

    def _location_of(self, match: re.Match[str]) -> LocationAttr | None:
        """The location that an alias is defined as; None if the definition is not valid."""
        alias, text, line, column, *names = match.groups()
        known = self.attribute_aliases
        if alias in known or not all(name in known for name in names if name):
            return None
        if line is not None:
            return FileLineColLoc(StringAttr(text), IntAttr(int(line)), IntAttr(int(column)))
        places = [cast(LocationAttr, known[name]) for name in names if name]
        return NameLoc(StringAttr(text), places[0]) if names[0] else CallSiteLoc(*places)

    def _is_at(self, position: int) -> bool:
        """Whether the next token is the first one from that position on."""
        next_token = self._current_token.span.start
        return next_token >= position and not self._text[position:next_token].strip()

    def _parse_dense_literal_type(
        self,
    ) -> RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]:
        """As xDSL's, which builds its check of the element type anew for each literal."""
        type = self.parse_type()
        if (
            not isinstance(type, TensorType | VectorType | MemRefType)
            or not type.has_static_shape()
        ):
            self.raise_error("a dense literal is a tensor, vector or memref of known shape")
        return cast("RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]", type)

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[Any] | None
    ) -> DenseIntOrFPElementsAttr[Any]:
        """As xDSL's, which checks the value of a splat once for each element of its type."""
        if type is not None or not _SPLAT.match(self._text, self._current_token.span.start):
            return super().parse_dense_int_or_fp_elements_attr(type)
        self.parse_punctuation("<")
        element = self._parse_tensor_literal_element()
        self.parse_punctuation(">")
        self.parse_punctuation(":")
        type = self._parse_dense_literal_type()
        value = element.to_type(self, type.element_type)
        return DenseIntOrFPElementsAttr[Any].from_list(type, [value])

    def parse_optional_location(self) -> LocationAttr | None:
        """As xDSL's, with a look-up of `loc(#loc12)`."""
        match = _ALIAS_LOCATION.match(self._text, self._current_token.span.start)
        known = match and self.attribute_aliases.get(match[1])
        if match is None or known is None:
            return super().parse_optional_location()
        self._resume_from(match.end())
        return cast(LocationAttr, known)

    def _parse_location(self) -> LocationAttr:
        """As xDSL's, and `fused<metadata>[...]`, and names that are not UTF-8."""
        if self._current_token.kind == MLIRTokenKind.BYTES_LIT:
            self._parser_state.current_token = _as_string(self._current_token)
        if self._current_token.text != "fused":
            return super()._parse_location()
        self.parse_identifier("fused")
        metadata: Attribute = NoneAttr()
        if self.parse_optional_punctuation("<"):
            metadata = self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(ArrayAttr[Attribute](parts), metadata)

    def parse_optional_str_literal(self) -> str | None:
        """As xDSL's; bytes that are not UTF-8 become U+FFFD."""
        token = self._parse_optional_token(MLIRTokenKind.STRING_LIT)
        return None if token is None else string_of_ir(token.text[1:-1])

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        token = self._current_token
        if token.kind == MLIRTokenKind.INTEGER_LIT and token.text[:2] in ("0x", "0X"):
            self._consume_token()
            return _FloatBits(False, int(token.text, 16), token.span)
        return super()._parse_tensor_literal_element()

    def _parse_dialect_symbol_body(self) -> str:
        """The text of an unregistered attribute, with its aliases replaced by their values."""
        body = super()._parse_dialect_symbol_body()
        return _ALIAS_OR_STRING.sub(self._spelled_out, body)

    def _spelled_out(self, match: re.Match[str]) -> str:
        known = self.attribute_aliases.get(match.group())
        return match.group() if known is None else str(known)


# MLIR's generic form, as MLIR prints it, into xDSL.

_ALIAS_LINE = re.compile(r"^([#!][\w.$-]+) = (.*)\n?", re.MULTILINE)
_NAME_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[#!][A-Za-z_][\w.$-]*')


def read_module(text: str) -> builtin.ModuleOp:
    """The module that `text`, MLIR's generic form, describes.

    Ops of Triton's own dialects, arith, math, scf, cf and ub become typed classes; every other op,
    and its types and attributes, stays generic. Unknown ones are not refused. Raises
    xdsl.utils.exceptions.ParseError if the text is not MLIR's generic form.
    """
    return ModuleParser(context(), in_order_of_use(text)).parse_module()


def read_attribute(text: str) -> Attribute:
    """The attribute or type that `text` spells out:
    "#ttg.slice<{dim = 1, parent = #ttg.blocked<...>}>", "!tt.ptr<f16>".

    Raises xdsl.utils.exceptions.ParseError if the text is neither.
    """
    parser = ModuleParser(context(), text)
    return parser.parse_type() if text.startswith("!") else parser.parse_attribute()


@cache
def context() -> Context:
    """A context of the dialects that have typed classes here; everything else stays generic."""
    known = Context(allow_unregistered=True)
    known.load_dialect(builtin.Builtin)
    for dialect in (
        amd.AMDG,
        mlir.ARITH,
        mlir.CF,
        mlir.GPU,
        mlir.LLVM,
        mlir.MATH,
        amd.ROCDL,
        mlir.SCF,
        tt.TT,
        ttg.TTG,
        ttng.TTNG,
        mlir.UB,
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
        alias: [name for name in _NAME_OR_STRING.findall(value) if name in definitions]
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


# xDSL's modules as text that MLIR reads.


def write_module(module: builtin.ModuleOp, *, locations: bool = True) -> str:
    """The module in MLIR's generic form, which `triton_api.parse_mlir` reads back."""
    stream = StringIO()
    printer = _Printer(stream=stream, print_generic_format=True, print_debuginfo=locations)
    printer.print_op(module)
    printer.print_metadata(context().loaded_dialects)
    return stream.getvalue() + "\n"


class _Printer(Printer):
    """Prints floats that xDSL 0.74 writes without a decimal point (1e-07) as 1.0e-07."""

    def print_float(self, value: float, type: builtin.AnyFloat) -> None:
        short = repr(value)
        if math.isfinite(value) and "e" in short and "." not in short:
            self.print_string(short.replace("e", ".0e"))
        else:
            super().print_float(value, type)
