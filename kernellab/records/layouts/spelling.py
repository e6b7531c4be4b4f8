"""How encodings are spelled: the keys of each family and what each holds,
to say which one is wrong where Triton refuses an encoding.

Triton alone decides what it takes. Nothing here refuses anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernellab.errors import LayoutError, nearest


@dataclass(frozen=True)
class Kind:
    """What a key holds."""

    words: str
    pattern: str
    """Of the whole text of a value of the kind."""


_NUMBERS = r"\[\s*(\d+\s*(,\s*\d+\s*)*)?\]"
_NUMBER = Kind("a whole number from 0", r"\d+(\s*:\s*\w+)?")
_LIST = Kind("a list of whole numbers, as in [1, 0]", _NUMBERS)
_VECTORS = Kind(
    "a list of basis vectors, as in [[0, 1], [0, 2]]",
    rf"\[\s*({_NUMBERS}\s*(,\s*{_NUMBERS}\s*)*)?\]",
)
_WORD = Kind("true or false", "true|false")
_LAYOUT = Kind("an encoding, as in #ttg.blocked<{...}>", r"#[\w.]+\s*<.*>")
_BASES = Kind("lists of basis vectors by name, as in {warp = [[0, 1]]}", r"\{.*\}")


@dataclass(frozen=True)
class _Key:
    name: str
    kind: Kind
    instead: str = ""
    """The key that another version of Triton has in its place."""


_SWIZZLED = (
    _Key("vec", _NUMBER),
    _Key("perPhase", _NUMBER),
    _Key("maxPhase", _NUMBER),
    _Key("order", _LIST),
)
_NEEDED: dict[str, tuple[_Key, ...]] = {
    "#ttg.blocked": tuple(
        _Key(name, _LIST) for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
    ),
    "#ttg.slice": (_Key("dim", _NUMBER), _Key("parent", _LAYOUT)),
    "#ttg.dot_op": (_Key("opIdx", _NUMBER), _Key("parent", _LAYOUT)),
    "#ttg.nvidia_mma": (
        _Key("versionMajor", _NUMBER),
        _Key("warpsPerCTA", _LIST),
        _Key("instrShape", _LIST),
    ),
    "#ttg.amd_mfma": (
        _Key("version", _NUMBER, "versionMajor"),
        _Key("warpsPerCTA", _LIST),
        _Key("instrShape", _LIST),
    ),
    "#ttg.amd_wmma": (_Key("version", _NUMBER), _Key("ctaLayout", _BASES, "warpsPerCTA")),
    "#ttg.linear": tuple(_Key(name, _VECTORS) for name in ("register", "lane", "warp", "block")),
    "#ttg.swizzled_shared": _SWIZZLED,
    "#ttg.amd_rotating_shared": _SWIZZLED,
    "#ttg.nvmma_shared": (
        _Key("swizzlingByteWidth", _NUMBER),
        _Key("transposed", _WORD),
        _Key("elementBitWidth", _NUMBER),
    ),
    "#ttg.padded_shared": (_Key("order", _LIST, "offset"), _Key("shape", _LIST, "offset")),
    "#ttg.shared_linear": (_Key("offset", _VECTORS), _Key("alignment", _NUMBER)),
    "#ttng.tensor_memory_encoding": (
        _Key("blockM", _NUMBER),
        _Key("blockN", _NUMBER),
        _Key("colStride", _NUMBER, "unpacked"),
    ),
}
"""Keys that a layout is not made without."""
_OPTIONAL = {
    "kWidth": _NUMBER,
    "versionMinor": _NUMBER,
    "isTransposed": _WORD,
    "isTranspose": _WORD,
    "fp4Padded": _WORD,
    "block": _VECTORS,
}
"""Keys that some families may do without, which hold the same in each of them."""


def misspelling(encoding: str, diagnostic: str) -> str:
    """Which part of a refused encoding is misspelled, as a sentence; "" where none is known to be.

    Args:
        encoding: as TTGIR writes it, with no aliases; its parents are looked at too.
        diagnostic: what Triton says, which decides whether a key unknown here is unknown there.
    """
    if not _is_balanced(encoding):
        return ""  # brackets that do not match: Triton says so, and what is a key is a guess
    diagnostic = diagnostic.replace(encoding, "")
    for family, body in _parts(encoding):
        if family not in _NEEDED:
            if "unknown attribute" not in diagnostic:
                continue
            close = nearest(family, _NEEDED)
            return f"{family} is not a layout. {close or 'There are ' + ', '.join(_NEEDED) + '.'}"
        problem = _misread(family, body) or _misspelled_key(
            family, dict(_entries(body)), diagnostic
        )
        if problem:
            return problem
    return ""


def misspelled_error(encoding: str, problem: str, detail: str) -> LayoutError:
    """The error for an encoding of which a part is misspelled;
    the detail is a sentence about what Triton made of it.
    """
    return LayoutError(problem, advice=f"In {encoding}\n{detail}")


_PADDINGS = r"\[\s*\d+\s*:\s*\+\s*\d+\s*(,\s*\d+\s*:\s*\+\s*\d+\s*)*\]"


def _misread(family: str, body: str) -> str:
    """What in a body is neither key and value nor, where that belongs there, a list of paddings."""
    if family == "#ttg.padded_shared" and not re.match(_PADDINGS, body.strip()):
        return f"{family} begins with its paddings, interval and size, as in [32:+4] {{...}}."
    for entry in _unread(body):
        return f"{entry!r} in {family} is not a key with its value; write NAME = VALUE."
    return ""


def _misspelled_key(family: str, entries: dict[str, str], diagnostic: str) -> str:
    needed = {key.name: key for key in _NEEDED[family]}
    kinds = _OPTIONAL | {name: key.kind for name, key in needed.items()}
    missing = [k for k in needed.values() if k.name not in entries and k.instead not in entries]
    strange = [name for name in entries if name not in kinds]
    for key in missing:
        other = next((name for name in strange if nearest(name, [key.name])), "")
        if other:
            return (
                f"{family} has no key {other!r}; {key.name!r} is one, and holds {key.kind.words}."
            )
    for name in strange:
        if re.search(rf"\b{re.escape(name)}\b", diagnostic):
            return f"{family} has no key {name!r}. Its keys are {', '.join(needed)}."
    for name, value in entries.items():
        if name in kinds and not re.fullmatch(kinds[name].pattern, value, re.DOTALL):
            return f"{name!r} of {family} is {value or 'empty'}, and has to be {kinds[name].words}."
    if missing:
        return f"The key {missing[0].name!r} is missing in {family}: {missing[0].kind.words}."
    return ""


# Taking a text apart


def _parts(encoding: str) -> Iterator[tuple[str, str]]:
    """Family and body of an encoding, then of each one in it:
    ("#ttg.slice", "{dim = 1, parent = ...}").
    """
    for match in re.finditer(r"(#\w+\.\w+)\s*<", encoding):
        yield match[1], encoding[match.end() : _end(encoding, match.end())]


def _is_balanced(text: str) -> bool:
    """Return whether every bracket is closed by one of the same kind."""
    opened = []
    for letter in text:
        if letter in "<[{(":
            opened.append("<[{(".index(letter))
        elif letter in ">]})" and (not opened or opened.pop() != ">]})".index(letter)):
            return False
    return not opened


def _end(text: str, start: int) -> int:
    """Where what opened before `start` is closed; the text's end where it is not."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] in "<[{(") - (text[place] in ">]})")
        if depth == 0:
            return place
    return len(text)


_NAMED = re.compile(r"(\w+)\s*=\s*(.*)", re.DOTALL)


def _entries(body: str) -> Iterator[tuple[str, str]]:
    """Keys and values of a body."""
    for entry in _flat(body):
        if named := _NAMED.fullmatch(entry):
            yield named[1], named[2].strip()


def _unread(body: str) -> Iterator[str]:
    """What a body has beside keys and values."""
    return (entry for entry in _flat(body) if not _NAMED.fullmatch(entry))


def _flat(body: str) -> Iterator[str]:
    """Yield the entries in a body's braces, and beside them."""
    for entry in _split(body.strip()):
        braced = re.fullmatch(r"(?:\[.*\]\s*)?\{(.*)\}", entry, re.DOTALL)
        if braced:
            yield from _flat(braced[1])
        else:
            yield entry


def _split(body: str) -> list[str]:
    """Split at the commas that are not in brackets."""
    parts, start, place = [], 0, 0
    while place < len(body):
        if body[place] in "<[{(":
            place = _end(body, place + 1)
        elif body[place] == ",":
            parts.append(body[start:place].strip())
            start = place + 1
        place += 1
    return [part for part in [*parts, body[start:].strip()] if part]
