"""The compiler's messages about a kernel while it compiles it, on the kernel's lines."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab import triton_api
from kernellab.common.data_files import Prose, read_data_file
from kernellab.compiler.machine_code.resources import SPILLS
from kernellab.compiler.modules import users_line
from kernellab.compiler.records import Remark, RemarkOrigin
from kernellab.errors import CompileError, Severity, SourcePosition
from kernellab.triton_api.analyses import Diagnosis, PythonWarning, assembler_log
from kernellab.triton_api.diagnostics import diagnostic_file

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation

_DIAGNOSTIC = re.compile(
    r'^(?:loc\("(?P<written>(?:[^"\\]|\\.)*)"|(?P<path>.+?))'
    r":(?P<line>\d+)(?::(?P<column>\d+))?\)?: "
    r"(?P<severity>remark|warning|note|error): (?P<words>.*)$",
    re.M,
)
"""MLIR's form of a diagnostic."""

_CALLED_FROM = "called from"
_SHOUTED = re.compile(r"^warning:\s*", re.I)
"""Triton writes some warnings as remarks that begin with this word."""


def collect_remarks(
    compilation: Compilation, diagnosis: Diagnosis, log: str | None
) -> tuple[Remark, ...]:
    """The messages of MLIR, Triton and the PTX assembler about a kernel.

    Args:
        log: what `ptxas -v` said; None if ptxas has to run again.

    Raises:
        CompileError: the assembler refuses the PTX.
    """
    return (*compiler_remarks(diagnosis), *_compilation_assembler_remarks(compilation, log))


def compiler_remarks(diagnosis: Diagnosis) -> tuple[Remark, ...]:
    """Everything that MLIR and Triton's Python code said, each once,
    in the order in which it was said.

    A note that belongs to a remark follows it, on the same line of the kernel.
    """
    remarks = [*_from_mlir(diagnosis.printed), *map(_from_python, diagnosis.warnings)]
    return tuple(explained(fromkey) for fromkey in dict.fromkeys(remarks))


def _from_mlir(printed: str) -> Iterator[Remark]:
    """A diagnostic, then the notes that say from where its line was called, then other notes."""
    matches = list(_DIAGNOSTIC.finditer(printed))
    place: tuple[SourcePosition | None, tuple[SourcePosition, ...]] = (None, ())
    for number, match in enumerate(matches):
        if match["severity"] == "error" or match["words"] == _CALLED_FROM:
            continue
        if match["severity"] != "note":
            chain = [_position(match)]
            for later in matches[number + 1 :]:
                if later["words"] != _CALLED_FROM:
                    break
                chain.append(_position(later))
            place = _place([position for position in chain if position is not None])
        words = match["words"].strip()
        severity: Severity = match["severity"]  # type: ignore[assignment]
        if _SHOUTED.match(words):
            words, severity = _SHOUTED.sub("", words), "warning"
        yield Remark(severity, "mlir", words, *place)


def _position(match: re.Match[str]) -> SourcePosition | None:
    file = diagnostic_file(match)
    if file in ("<unknown>", "-") or not int(match["line"]):
        return None
    column = triton_api.column_from_one(int(match["column"])) if match["column"] else 0
    return SourcePosition(file, int(match["line"]), column)


def _place(
    chain: list[SourcePosition],
) -> tuple[SourcePosition | None, tuple[SourcePosition, ...]]:
    span = users_line(chain)
    return span, tuple(chain[chain.index(span) + 1 :]) if span is not None else ()


def _from_python(warning: PythonWarning) -> Remark:
    """A warning that names Triton's files is about the line that the front end reads, if any."""
    position = SourcePosition(warning.file, warning.line)
    if "triton" not in position.file.split("/"):
        return Remark("warning", "triton", warning.words, position)
    return Remark("warning", "triton", warning.words, *_place(list(warning.read)))


_PTXAS = re.compile(
    r"^ptxas[\w-]*\s*(?:.+?, line (?P<line>\d+); )?\s*(?P<severity>info|warning)\s*:\s*"
    r"(?P<words>.*)$"
)
_SAYS_NOTHING = re.compile(
    r"^(?:\d+ bytes gmem|Compiling entry function|Function properties for|Compile time)"
)

KernelLine = Callable[[int], SourcePosition | None]
"""The line of the kernel that a line of PTX comes from."""


def assembler_remarks(log: str, kernel_line: KernelLine) -> tuple[Remark, ...]:
    """The output of `ptxas -v`: warnings (spilling is one), stack, spills, registers, barriers."""
    remarks = dict.fromkeys(_from_ptxas(log.splitlines(), kernel_line))
    return tuple(explained(remark) for remark in remarks)


def _from_ptxas(lines: Iterable[str], kernel_line: KernelLine) -> Iterator[Remark]:
    for line in lines:
        match = _PTXAS.match(line)
        if match is None:
            if spills := SPILLS.search(line):
                spilt = int(spills["stores"]) or int(spills["loads"])
                yield Remark("warning" if spilt else "note", "ptxas", line.strip())
            continue
        words = match["words"].strip()
        if match["severity"] == "info" and (not words or _SAYS_NOTHING.match(words)):
            continue
        span = kernel_line(int(match["line"])) if match["line"] else None
        severity: Severity = "note" if match["severity"] == "info" else "warning"
        yield Remark(severity, "ptxas", words, span)


def _compilation_assembler_remarks(compilation: Compilation, log: str | None) -> tuple[Remark, ...]:
    if "ptx" not in compilation.stages or "cubin" not in compilation.stages:
        return ()
    ptx = compilation.stages["ptx"].text
    try:
        if log is None:
            log = assembler_log(ptx, compilation.target, compilation.options)
    except triton_api.PTXASError as error:
        raise CompileError(f"ptxas refuses the PTX of {compilation.kernel!r}: {error}") from error

    def kernel_line(ptx_line: int) -> SourcePosition | None:
        chains = compilation.source_map.chain("ptx", ptx_line)
        return users_line(chains[0]) if chains else None

    return assembler_remarks(log, kernel_line)


@dataclass(frozen=True)
class Wording:
    """A phrase of the compiler, and what it means.

    Attributes:
        phrase: a regular expression for all of its words, with named groups for values.
        meaning: the same in plain words; `{name}` stands for the value of a group.
        advice: what to try; "" if there is nothing to do.
    """

    origin: RemarkOrigin
    phrase: str
    meaning: Prose
    advice: Prose = ""


@functools.cache
def wordings() -> tuple[Wording, ...]:
    """Return the known phrases, in the order in which they are tried."""
    file = Path(__file__).with_name("remarks.toml")
    tables: Mapping[str, tuple[Wording, ...]] = read_data_file(
        file, Mapping[str, tuple[Wording, ...]]
    )
    return tables["remark"]


def explained(remark: Remark) -> Remark:
    """Return the remark with its meaning and advice, if its phrase is known."""
    for wording in wordings():
        if wording.origin == remark.kind and (
            match := _compiled(wording.phrase).fullmatch(remark.what)
        ):
            values = match.groupdict()
            return replace(
                remark,
                why=wording.meaning.format_map(values),
                advice=wording.advice.format_map(values),
            )
    return remark


_compiled = functools.cache(re.compile)
