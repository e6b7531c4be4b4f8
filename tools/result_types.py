"""Write `js/test/result_types.json`: operations as the explorer shows them,
and the types that MLIR itself says their results have.

python tools/result_types.py [KERNEL:TARGET ...]

The pretty form of MLIR leaves most types out; its generic form writes them all, operation by
operation in the same order. Every text of every pass of some kernels of the corpus is read in both,
and of each kind of operation two that differ in shape are kept.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernellab import triton_api
from kernellab.compiler.compilations import Compilation
from kernellab.errors import KernelLabError
from tests.support.compiled import of_corpus

FILE = Path(__file__).resolve().parent.parent / "js/test/result_types.json"
CASES = (
    "histogram:gfx942",
    "matmul:sm_80",
    "matmul:sm_90",
    "matmul_tma:sm_100",
    "matmul_descriptors:sm_90",
    "attention_forward:sm_90",
)
STAGES = ("source", "ttir", "ttgir", "llir")
KEPT = 2
LONGEST = 400
"""Characters of a line that is kept: one of a struct with 128 members says no more
than one of four."""

_DEFINES = re.compile(r"^\s*%[\w$.-]+(?::\d+)?(?:, %[\w$.-]+(?::\d+)?)* = \"?([\w.]+)")
_LOCATION = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")


@dataclass(frozen=True)
class Seen:
    """An operation in a text: the lines that it begins and, with regions, ends on,
    and the types of its results.
    """

    operation: str
    lines: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def shape(self) -> tuple[str, tuple[str, ...]]:
        """What two kept operations must not share."""
        return self.operation, tuple(re.split(r"[<\d]", one)[0] for one in self.types)


def listed(types: str) -> tuple[str, ...]:
    """The types between commas that stand outside brackets."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(types):
        if letter in "<([{":
            depth += 1
        elif letter in ")]}" or (letter == ">" and types[at - 1] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(types[start:at].strip())
            start = at + 1
    return tuple(one for one in (*found, types[start:].strip()) if one)


def types_of_results(generic: str) -> list[tuple[str, ...]]:
    """Of each operation with results, in the order of their definitions:
    what stands after the arrow of its type.
    """
    types: list[tuple[str, ...]] = []
    open_regions: list[int | None] = []
    for line in _LOCATION.sub("", generic).splitlines():
        owner = None
        if _DEFINES.match(line):
            owner = len(types)
            types.append(())
        if line.endswith("({"):
            open_regions.append(owner)
            continue
        if line.lstrip().startswith("})"):
            owner = open_regions.pop()
        if owner is not None:
            results = _after_arrow(line)
            types[owner] = listed(results[1:-1] if results.startswith("(") else results)
    return types


def _after_arrow(line: str) -> str:
    """Of "... : (A, B) -> C" the C: the last such type that is a function's,
    whatever brackets it holds.
    """
    for colon in reversed([found.start() for found in re.finditer(r" : \(", line)]):
        depth = 0
        for at in range(colon + 3, len(line)):
            letter = line[at]
            if letter in "<([{":
                depth += 1
            elif letter in ")]}" or (letter == ">" and line[at - 1] != "-"):
                depth -= 1
            if depth == 0:
                break
        if line.startswith(" -> ", at + 1):
            return line[at + 5 :]
    raise ValueError(f"No operation of the generic form: {line}")


def seen_in(compilation: Compilation) -> Iterator[Seen]:
    """The operations with results of every text of a compilation that MLIR reads."""
    for run in compilation.passes:
        if not run.changed or run.stage not in STAGES:
            continue
        text = run.text.read()
        try:
            generic = triton_api.generic_form(text, compilation.target)
        except KernelLabError:  # LLVM's own IR, and what MLIR writes but does not read
            continue
        lines = _LOCATION.sub("", text).splitlines()
        defining = [number for number, line in enumerate(lines) if _DEFINES.match(line)]
        for number, types in zip(defining, types_of_results(generic), strict=True):
            yield Seen(_operation(lines[number]), _around(lines, number), types)


def _operation(line: str) -> str:
    found = _DEFINES.match(line)
    assert found is not None
    return found[1]


def _around(lines: list[str], number: int) -> tuple[str, ...]:
    line = lines[number]
    if not line.endswith("({"):
        return (line.strip(),)
    indentation = line[: len(line) - len(line.lstrip())]
    end = next(one for one in lines[number:] if one.startswith(f"{indentation}}})"))
    return line.strip(), end.strip()


def main() -> None:
    """Write the file."""
    kept: dict[tuple[str, tuple[str, ...]], Seen] = {}
    for case in sys.argv[1:] or CASES:
        name, target = case.split(":")
        for seen in seen_in(of_corpus(name, target)):
            alike = sum(operation == seen.operation for operation, _ in kept)
            if alike < KEPT and len(seen.lines[0]) <= LONGEST:
                kept.setdefault(seen.shape, seen)
    rows = [[kept[shape].lines, kept[shape].types] for shape in sorted(kept)]
    FILE.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    print(f"{len(rows)} operations in {FILE.name}")


if __name__ == "__main__":
    main()
