"""Kernels with one fault each, made from right ones by what their comments say.

A line with the comment "A removed" or "B old -> new" changes for the fault A or B; a line with
"missing-wait with A, B" is where a check finds them. A function `kernel__part` belongs to `kernel`.
"""

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from kernellab.errors import Change
from tests.support.imported import imported

_CHANGE = re.compile(r"\b([A-Z]) (?:(removed)|([^;#]+?) -> ([^;]+))")
_FOUND = re.compile(r"([a-z-]+) with ([A-Z](?:, [A-Z])*)")


def faults_of(module: Any, kernels: Collection[str]) -> list[tuple[str, str]]:
    """(kernel, fault) for each fault that the comments of these kernels of a module state."""
    found, kernel = [], ""
    for line in Path(inspect.getfile(module)).read_text().splitlines():
        kernel = _kernel_at(line) or kernel
        found += [(kernel, fault) for fault, _old, _new in _changes(line) if kernel in kernels]
    return list(dict.fromkeys(found))


def broken(module: Any, kernel: str, fault: str, folder: Path) -> tuple[Any, set[tuple[str, int]]]:
    """The module with one fault in a kernel, and the kinds and lines that a check finds."""
    lines, found, here = [], set(), ""
    for number, line in enumerate(Path(inspect.getfile(module)).read_text().splitlines(), 1):
        here = _kernel_at(line) or here
        if here == kernel:
            for kind, faults in _FOUND.findall(line):
                found |= {(kind, number)} if fault in faults else set()
            for name, old, new in _changes(line):
                if name == fault:
                    line = _changed(line, old, new)
        lines.append(line)
    return imported(folder / f"{kernel}_{fault}.py", "\n".join(lines) + "\n"), found


_WAIT = re.compile(r"^ *(\w+ = \w+_wait\(|mbarrier\.wait\(|tma\.store_wait\(|\w+\.wait_group\()")


def waits_of(module: Any, kernels: Collection[str]) -> list[tuple[str, int]]:
    """(kernel, line) for each wait in these kernels of a module."""
    found, kernel = [], ""
    for number, line in enumerate(Path(inspect.getfile(module)).read_text().splitlines(), 1):
        kernel = _kernel_at(line) or kernel
        found += [(kernel, number)] if kernel in kernels and _WAIT.match(line) else []
    return found


def without_wait(module: Any, number: int, folder: Path) -> Any:
    """The module without the wait of one line, or with one for products that lets one more run."""
    lines = Path(inspect.getfile(module)).read_text().splitlines()
    line = lines[number - 1]
    more = re.sub(r"(num_outstanding=)(\d+)", lambda each: each[1] + str(int(each[2]) + 1), line)
    lines[number - 1] = _changed(line, "") if more == line else more
    return imported(folder / f"without_{number}.py", "\n".join(lines) + "\n")


def with_changes(module: Any, changes: Sequence[Change], file: Path) -> Any:
    """The module with the lines that a check's changes put in place of others, or add."""
    lines = Path(inspect.getfile(module)).read_text().splitlines()
    for change in changes:
        at = change.line - 1
        end = at + len(change.old.splitlines())
        new = change.new if change.new[:1] == " " else _indentation(lines[at]) + change.new
        lines[at:end] = [new]
    return imported(file, "\n".join(lines) + "\n")


def _kernel_at(line: str) -> str:
    """The kernel whose function begins at a line, or ""."""
    return line[4:].partition("(")[0].partition("__")[0] if line.startswith("def ") else ""


def _changes(line: str) -> Iterator[tuple[str, str, str]]:
    """Fault, old and new text for each change that a line's comment states."""
    for fault, removed, old, new in _CHANGE.findall(line.partition("  # ")[2]):
        yield fault, "" if removed else old.strip(), new.strip()


def _changed(line: str, old: str, new: str = "") -> str:
    code, _, comment = line.partition("  # ")
    if not old:
        return f"{_indentation(code)}pass"
    assert code.count(old) == 1, line
    return f"{code.replace(old, new)}  # {comment}"


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
