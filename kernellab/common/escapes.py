"""Strings as compilers write them: bytes that are not ASCII as escapes, of which a path or
a name in Greek has many.
"""

from __future__ import annotations

import re

_IN_IR = re.compile(rb"\\([0-9A-Fa-f]{2}|[\\\"nt])")
_IN_ASSEMBLY = re.compile(rb"\\([0-7]{3}|[\\\"nrtbf])")
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def string_of_ir(written: str) -> str:
    """Read a string literal of MLIR or LLVM IR without its quotes: `caf\\C3\\A9` is "café".

    Bytes that are not UTF-8 become U+FFFD.
    """
    return _read(written, _IN_IR, 16)


def string_of_assembly(written: str) -> str:
    """Read a string literal of PTX, AMD assembly or nvdisasm's listing without its quotes:
    `caf\\303\\251` is "café".

    Bytes that are not UTF-8 become U+FFFD.
    """
    return _read(written, _IN_ASSEMBLY, 8)


def _read(written: str, escape: re.Pattern[bytes], base: int) -> str:
    if "\\" not in written:
        return written

    def byte(match: re.Match[bytes]) -> bytes:
        text = match[1]
        if len(text) > 1:
            return bytes([int(text, base) & 0xFF])
        return _LETTERS.get(text, text)

    raw = written.encode("utf-8", "surrogatepass")
    return escape.sub(byte, raw).decode("utf-8", "replace")


def value_name(name: str) -> str:
    """How MLIR spells a name in front of a value's number: of "α" it is "_CEB1", for `%_CEB1_4`."""
    kept = "".join(
        c if c.isascii() and (c.isalnum() or c in "_$.-") else c.encode().hex().upper()
        for c in name
    )
    return kept if re.match("[A-Za-z_]", name) else f"_{kept}"
