"""Type strings: "*fp16:16" for a pointer to fp16 that is divisible by 16,
"i32" for an integer, and so on.

They stand in for values where there are none yet:
in `kernellab.compile`, in "--sig", in a kernel's annotations.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from kernellab import triton_api
from kernellab.common.text import shown
from kernellab.errors import ArgumentError, nearest
from kernellab.records import Origin


@dataclass(frozen=True)
class StatedType:
    """A type that stands in for an argument's value."""

    text: str
    """A Triton type string, with an optional promise: "*fp16:16", "i32", "i32:1"."""
    origin: Origin = "signature"

    def __str__(self) -> str:
        return self.text


_TYPE = re.compile(r"(?P<pointer>\*k?|)(?P<name>\w+)(?::(?P<promise>\w+))?")
_DESCRIPTOR = re.compile(r"tensordesc<.+>")


def parse_type(text: str) -> tuple[Any, Any]:
    """A type string as Triton's binder would give it:
    (type, hint), so "*fp16:16" is ("*fp16", "D").

    The promise after the colon: 16 says that the pointer or integer is divisible by 16, 1 that the
    integer is 1 (and is compiled in). Long names ("float16", "*tl.float32") are accepted too.

    Raises:
        ArgumentError: the string is not a Triton type; the message has the nearest type.
    """
    stripped = "".join(text.split()).replace("tl.", "")
    if _DESCRIPTOR.fullmatch(stripped):
        return _descriptor(stripped)
    match = _TYPE.fullmatch(stripped.replace("const*", "*k"))
    name = triton_api.type_spellings().get(match["name"]) if match else None
    if match is None or name is None:
        raise ArgumentError(f"{shown(text)} is not a Triton type.", advice=_type_advice(stripped))
    return _promised(text, match["pointer"] + name, match["promise"])


def _promised(text: str, type_name: str, promise: str | None) -> tuple[Any, Any]:
    """Add what the colon promises, where such a promise can be made."""
    is_pointer = type_name.startswith("*")
    is_integer = type_name[0] in "iu" and type_name != "u1"
    if promise is None:
        # As Triton writes it: "" for an argument that might have had a hint,
        # None for one that cannot.
        return type_name, "" if is_pointer or is_integer else None
    if promise == "16" and (is_pointer or is_integer):
        return type_name, "D"
    if promise == "1" and is_integer:
        return "constexpr", 1
    raise ArgumentError(
        f"{shown(text)} promises {shown(promise)}, which does not apply to {type_name!r}.",
        advice=(
            '":16" says that a pointer or an integer is divisible by 16, ":1" that an integer is 1.'
        ),
    )


def _descriptor(text: str) -> tuple[Any, Any]:
    try:
        triton_api.triton_type(text)
    except Exception as error:
        raise ArgumentError(
            f"{shown(text)} is not a tensor descriptor that Triton can read: {shown(error)}.",
            advice='Write the element type and the block shape: "tensordesc<fp16[128,64]>".',
        ) from error
    return text, None


def _type_advice(text: str) -> str:
    spellings = {**triton_api.type_spellings(), "f16": "fp16", "f32": "fp32", "f64": "fp64"}
    pointer = "*" if text.startswith("*") else ""
    name = text.lstrip("*").partition(":")[0]
    suggestion = nearest(name, spellings)
    for long, short in spellings.items():
        suggestion = suggestion.replace(repr(long), repr(pointer + short))
    names = ", ".join(sorted(set(spellings.values())))
    return (
        f'{suggestion} Types are {names}; "*" before one makes a pointer, ":16" after it promises '
        'that the pointer or integer is divisible by 16, as in "*fp16:16".'
    ).strip()


def parse_signature(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that a "--sig" string states, for `bind`: by position, and by name.

    Entries are separated by commas: a type ("*fp32:16"), the value of a constexpr ("1024"),
    or either with the parameter's name before it ("n=i32", "BLOCK=1024").

    Raises:
        ArgumentError: an entry that is neither a type nor a value, or a positional entry
            after a named one.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for entry in _split(text):
        name, equals, stated = entry.rpartition("=")
        if equals:
            named[name.strip()] = _stated(stated.strip())
        elif named:
            raise ArgumentError(
                f"{entry!r} comes after named entries in the signature {text!r}.",
                advice="Entries without a name come first.",
            )
        else:
            positional.append(_stated(entry))
    return positional, named


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    entries = [""]
    depth = 0
    for character in text:
        depth += (character in "<[(") - (character in ">])")
        if character == "," and depth == 0:
            entries.append("")
        else:
            entries[-1] += character
    entries = [entry.strip() for entry in entries]
    if entries and not entries[-1]:
        entries.pop()
    if "" in entries:
        raise ArgumentError(f"The signature {text!r} has an empty entry.")
    return entries


def _stated(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        parse_type(text)
        return StatedType(text)


def annotated_type(parameter: Any) -> str | None:
    """The type string that a parameter's annotation states, or None."""
    if parameter.is_constexpr or not parameter.annotation:
        return None
    try:
        parse_type(parameter.annotation)
    except ArgumentError:
        return None
    return str(parameter.annotation)
