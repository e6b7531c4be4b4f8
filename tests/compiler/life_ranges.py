"""The registers that each instruction reads and writes, by nvdisasm's life ranges of PTX."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from triton import knobs

_FILES = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
_CODE = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(@!?U?P\w+)?\s*([A-Z][\w.]*)\s*([^;]*?)\s*;")


@dataclass(frozen=True)
class LifeRange:
    """One instruction, and what nvdisasm says of it."""

    predicate: str
    opcode: str
    operands: str
    reads: frozenset[str]
    writes: frozenset[str]


def life_ranges(ptx: str, folder: Path) -> list[LifeRange]:
    """Every instruction of a PTX text, assembled for its own target."""
    source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx)
    target = re.search(r"^\.target (sm_\w+)", ptx, re.M)
    assert target is not None
    assembler = knobs.nvidia.ptxas_blackwell.path
    subprocess.run(
        [assembler, f"--gpu-name={target[1]}", str(source), "-o", str(cubin)], check=True
    )
    command = [knobs.nvidia.nvdisasm.path, "-c", "-plr", "-lrm", "narrow", str(cubin)]
    return _read(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _read(listing: str) -> list[LifeRange]:
    found: list[LifeRange] = []
    columns: dict[int, str] = {}
    lines = listing.splitlines()
    for at, line in enumerate(lines):
        if "// |" in line and "GPR" in line:
            columns = _columns(lines, at)
        elif (code := _CODE.match(line)) and "// |" in line:
            marks = {name: line[column : column + 1] for column, name in columns.items()}
            found.append(
                LifeRange(
                    code[1] or "",
                    code[2],
                    code[3],
                    reads=frozenset(name for name, mark in marks.items() if mark in ("v", "x")),
                    writes=frozenset(name for name, mark in marks.items() if mark in ("^", "x")),
                )
            )
    return found


def _columns(lines: list[str], title: int) -> dict[int, str]:
    """Column of the listing -> register: its number's digits stand below one another."""
    last = next(at for at in range(title, len(lines)) if re.search(r"\|\s*#", lines[at]))
    digits = lines[title + 1 : last + 1]
    start = lines[title].index("// |") + 3
    borders = [at for at, character in enumerate(lines[last]) if character == "|" and at >= start]
    names = [name.strip() for name in lines[title][start:].split("|")[1:-1]]
    columns: dict[int, str] = {}
    for name, left, right in zip(names, borders, borders[1:], strict=False):
        first = lines[last].index("#", left) + 2
        for column in range(first, right):
            number = "".join(row[column : column + 1] for row in digits).strip()
            if number.isdigit():
                columns[column] = f"{_FILES[name]}{int(number)}"
    return columns
