"""Facts about a kernel in a cubin besides its code; the ELF file is read without its tools."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kernellab.errors import CompileError

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
"""ELF64 file header after its 16 identifying bytes (System V ABI, chapter 4)."""
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8
"""SHT_NOBITS: a section that takes memory, and nothing of the file."""
_LONGEST_NAME = 1 << 16
"""Bytes of a section's name: that of a function, with a prefix."""


@dataclass(frozen=True)
class Section:
    """One section of an ELF file."""

    name: str
    flags: int
    content: bytes


def sections(cubin: bytes) -> dict[str, Section]:
    """The sections of a cubin by name. Raises CompileError: it is not a valid 64-bit ELF file."""
    if cubin[:5] != b"\x7fELF\x02":
        raise CompileError(
            "The bytes are not a cubin: they do not begin as a 64-bit ELF file does.",
            advice="Compile the kernel again.",
        )
    try:
        return _sections(cubin)
    except (struct.error, ValueError, IndexError) as error:
        raise CompileError(
            f"The cubin is damaged: {error}", advice="Compile the kernel again."
        ) from error


def _sections(cubin: bytes) -> dict[str, Section]:
    header = _HEADER.unpack_from(cubin)
    table, count, names_index = header[5], header[11], header[12]
    entries = [
        _SECTION.unpack_from(cubin, table + _SECTION.size * number) for number in range(count)
    ]
    # From sm_100 on, two sections may be one stretch of the file.
    stretches = {(entry[4], entry[5]) for entry in entries if entry[1] != _NO_BITS}
    if sum(size for _, size in stretches) > len(cubin):
        raise ValueError("its sections are larger than the file")
    contents = {(start, size): cubin[start : start + size] for start, size in stretches}
    names, named = entries[names_index][4], 0
    by_name = {}
    for name_offset, kind, flags, _address, offset, size, *_rest in entries:
        start = names + name_offset
        name = cubin[start : cubin.index(b"\0", start, start + _LONGEST_NAME)].decode()
        named += len(name)
        if named > len(cubin):
            raise ValueError("the names of its sections are larger than the file")
        content = b"" if kind == _NO_BITS else contents[offset, size]
        by_name[name] = Section(name, flags, content)
    return by_name


def size_without_debug(binary: bytes) -> int:
    """The bytes of a cubin or AMD's ELF without debug information; of others all bytes."""
    try:
        by_name = sections(binary)
    except CompileError:
        return len(binary)
    return sum(len(section.content) for name, section in by_name.items() if "debug" not in name)


_NO_BITS_ATTRIBUTE, _BYTE_ATTRIBUTE, _HALF_ATTRIBUTE = 1, 2, 3
_NUM_BARRIERS = 0x4C
"""Formats of `.nv.info` attributes and the number of EIATTR_NUM_BARRIERS (`cuobjdump -elf`)."""


def barrier_count(cubin: bytes, kernel: str) -> int:
    """How many of an SM's named barriers a block of the kernel takes (what `bar.sync` works on).

    Older cubins have it in the flags of the code's section (nvdisasm prints SHF_BARRIERS), newer
    ones (from the ptxas that Triton uses for Blackwell) as an attribute in the kernel's `.nv.info`.
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


_LINE_HEADER = struct.Struct("<IHIBBbBB")
"""DWARF 2, 6.2.4: lengths, version, smallest instruction, default_is_stmt, line_base, ..."""

_COPY, _ADVANCE_ADDRESS, _ADVANCE_LINE, _CONSTANT_ADVANCE, _FIXED_ADVANCE = 1, 2, 3, 8, 9
_END_OF_SEQUENCE = 1
_MOST_BITS = 140
"""Of a number: 64 that mean something, and as many that fill up."""


def ptx_lines(cubin: bytes) -> list[tuple[int, int]] | None:
    """(address, PTX line) by address: the code up to the next one came from that line.

    ptxas writes them as a separate DWARF line table, `.nv_debug_line_sass`. None if the cubin
    has several code sections, whose tables only a linker can separate, or no such table.

    Raises:
        CompileError: the bytes are not a cubin, or are damaged.
    """
    known = sections(cubin)
    table = known.get(".nv_debug_line_sass")
    if table is None or sum(name.startswith(".text.") for name in known) != 1:
        return None
    try:
        return sorted(_line_rows(table.content), key=lambda row: row[0])
    except (struct.error, ValueError, IndexError, ZeroDivisionError) as error:
        raise CompileError(
            f"The cubin's line table is damaged: {error}", advice="Compile the kernel again."
        ) from error


def _line_rows(table: bytes) -> Iterator[tuple[int, int]]:
    """The rows of the line-number program of the table's one unit (DWARF 2, section 6.2.5)."""
    header = _LINE_HEADER.unpack_from(table)
    _length, _version, rest, smallest, _statement, line_base, line_range, opcode_base = header
    end = min(header[0] + 4, len(table))
    lengths = table[_LINE_HEADER.size : _LINE_HEADER.size + opcode_base - 1]
    at = 10 + rest
    address, line = 0, 1
    while at < end:
        opcode = table[at]
        at += 1
        if opcode >= opcode_base:
            advance, extra = divmod(opcode - opcode_base, line_range)
            address += advance * smallest
            line += line_base + extra
            yield address, line
        elif opcode == 0:
            size, at = _unsigned(table, at)
            if table[at] == _END_OF_SEQUENCE:
                return
            at += size
        elif opcode == _COPY:
            yield address, line
        elif opcode == _ADVANCE_ADDRESS:
            advance, at = _unsigned(table, at)
            address += advance * smallest
        elif opcode == _ADVANCE_LINE:
            step, at = _signed(table, at)
            line += step
        elif opcode == _CONSTANT_ADVANCE:
            address += (255 - opcode_base) // line_range * smallest
        elif opcode == _FIXED_ADVANCE:
            address += struct.unpack_from("<H", table, at)[0]
            at += 2
        else:
            for _ in range(lengths[opcode - 1]):
                _, at = _unsigned(table, at)


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError(f"a number of more than {_MOST_BITS} bits")
        if byte < 0x80:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, end = _unsigned(data, at)
    bits = 7 * (end - at)
    return (value - (1 << bits) if value >> (bits - 1) & 1 else value), end
