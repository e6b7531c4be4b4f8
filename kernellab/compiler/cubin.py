"""What a cubin says of a kernel besides its code: an ELF file, read without its tools."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kernellab.errors import CompileError

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
"""ELF64 file header after its 16 identifying bytes (System V ABI, chapter 4)."""
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True)
class Section:
    """One section of an ELF file."""

    name: str
    flags: int
    content: bytes


def sections(cubin: bytes) -> dict[str, Section]:
    """The sections of a cubin by name.

    Raises:
        CompileError: the bytes are no 64-bit ELF file.
    """
    if cubin[:5] != b"\x7fELF\x02":
        raise CompileError("these bytes are no cubin: they do not begin as a 64-bit ELF file does")
    header = _HEADER.unpack_from(cubin)
    table, count, names_index = header[5], header[11], header[12]
    entries = [
        _SECTION.unpack_from(cubin, table + _SECTION.size * number) for number in range(count)
    ]
    names = entries[names_index][4]
    found = {}
    for name_offset, _kind, flags, _address, offset, size, *_rest in entries:
        start = names + name_offset
        name = cubin[start : cubin.index(b"\0", start)].decode()
        found[name] = Section(name, flags, cubin[offset : offset + size])
    return found


_NO_BITS_ATTRIBUTE, _BYTE_ATTRIBUTE, _HALF_ATTRIBUTE = 1, 2, 3
_NUM_BARRIERS = 0x4C
"""Formats of an attribute in `.nv.info`, and the number of EIATTR_NUM_BARRIERS, as `cuobjdump -elf` names both."""


def barrier_count(cubin: bytes, kernel: str) -> int:
    """How many of an SM's named barriers a block of the kernel takes (what `bar.sync` works on).

    Older cubins have it in the flags of the code's section (nvdisasm prints SHF_BARRIERS), newer ones (from the ptxas that
    Triton uses for Blackwell) as an attribute in the kernel's `.nv.info`.
    """
    known = sections(cubin)
    info = known.get(f".nv.info.{kernel}")
    for number, value in _attributes(info.content if info else b""):
        if number == _NUM_BARRIERS:
            return value
    code = known.get(f".text.{kernel}")
    is_old = cubin[7] == 0x33  # The ELF's OS/ABI: 0x33 for the older kind, 0x41 for the newer.
    return (code.flags >> 20) & 0x7F if code is not None and is_old else 0


def _attributes(info: bytes) -> Iterator[tuple[int, int]]:
    """(number, value) of each attribute of `.nv.info` that is a single number."""
    at = 0
    while at + 4 <= len(info):
        kind, number, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if kind == _BYTE_ATTRIBUTE:
            yield number, value & 0xFF
        elif kind == _HALF_ATTRIBUTE:
            yield number, value
        elif kind != _NO_BITS_ATTRIBUTE:
            at += value  # The number is the size of what follows.
