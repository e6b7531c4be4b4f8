"""xDSL's parser, taught what MLIR prints and xDSL 0.74 does not read,
and what a long module repeats.

The only file that touches private names of xDSL's parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ComplexType,
    FunctionType,
    FusedLoc,
    IndexType,
    IntegerType,
    LocationAttr,
    MemRefType,
    NoneAttr,
    RankedStructure,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind

from kernellab.common.escapes import string_of_ir

_TYPE_TEXT = re.compile(r"[!a-z][\w.$]*(?:<(?:[^<>\"]|<(?:[^<>\"]|<[^<>\"]*>)*>)*>)?")
"""A type as it stands in the text, brackets nested up to three deep;
it only proposes a key for a look-up."""
_SIGNATURE_TEXT = re.compile(r"\([^\n]*?(?= loc\(|\n)")
"""An op's operand and result types, which MLIR prints on one line before the location."""
_ALIAS_LOCATION = re.compile(r"loc\((#[\w$]+)\)")
_ALIAS_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[#!][A-Za-z_][\w$]*(?![\w$]*[.<])')


@dataclass
class _FloatBits(AttrParser._TensorLiteralElement):
    """A hexadecimal element of a dense literal: of a float it gives the bits, not the value."""

    def to_type(
        self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType
    ) -> int | float | tuple[int, int] | tuple[float, float]:
        if isinstance(type, AnyFloat):
            bits = int(cast(int, self.value)).to_bytes(type.compile_time_size, "little")
            return type.unpack(bits, 1)[0]
        return cast(int | float, super().to_type(parser, type))


class _Lexer(MLIRLexer):
    """MLIR writes what is not ASCII as escaped bytes. xDSL takes them for binary data: here they
    are text where they are UTF-8.
    """

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
    literals, fused locations with metadata, and aliases inside attributes that nobody registered;
    types and locations that were read once are looked up by their text.
    """

    def __init__(self, context: Context, text: str) -> None:
        super().__init__(context, text)
        self._parser_state = ParserState(_Lexer(Input(text, "<unknown>")))
        self._text = text
        self._known_types: dict[str, TypeAttribute] = {}
        self._known_signatures: dict[str, FunctionType] = {}

    def parse_optional_type(self) -> TypeAttribute | None:
        """As xDSL's, with a look-up of types that were read before."""
        start = self._current_token.span.start
        match = _TYPE_TEXT.match(self._text, start)
        if match is None:
            return super().parse_optional_type()
        text = match.group()
        known = self._known_types.get(text)
        if known is not None:
            self._resume_from(match.end())
            return known
        read = super().parse_optional_type()
        if read is not None and self._stands_at(match.end()):
            self._known_types[text] = read
        return read

    def parse_function_type(self) -> FunctionType:
        """As xDSL's, with a look-up of signatures that were read before;
        one ends where the op's location begins.
        """
        start = self._current_token.span.start
        match = _SIGNATURE_TEXT.match(self._text, start)
        if match is None:
            return super().parse_function_type()
        known = self._known_signatures.get(match.group())
        if known is not None:
            self._resume_from(match.end())
            return known
        read = super().parse_function_type()
        if self._stands_at(match.end()):
            self._known_signatures[match.group()] = read
        return read

    def _stands_at(self, position: int) -> bool:
        """Whether the next token is the first one from that position on:
        all before it was read, and no more.
        """
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
        """As xDSL's, and of bytes that are no UTF-8 U+FFFD."""
        token = self._parse_optional_token(MLIRTokenKind.STRING_LIT)
        return None if token is None else string_of_ir(token.text[1:-1])

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        token = self._current_token
        if token.kind == MLIRTokenKind.INTEGER_LIT and token.text[:2] in ("0x", "0X"):
            self._consume_token()
            return _FloatBits(False, int(token.text, 16), token.span)
        return super()._parse_tensor_literal_element()

    def _parse_dialect_symbol_body(self) -> str:
        """The text of an attribute that nobody registered, its aliases spelt out:
        they end with the text that is read.
        """
        body = super()._parse_dialect_symbol_body()
        return _ALIAS_OR_STRING.sub(self._spelt_out, body)

    def _spelt_out(self, match: re.Match[str]) -> str:
        known = self.attribute_aliases.get(match.group())
        return match.group() if known is None else str(known)
