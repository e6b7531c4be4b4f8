"""NVIDIA's machine code as text, and the matrix instructions in machine code of both vendors."""

from __future__ import annotations

import functools
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kernellab import triton_api
from kernellab.common.system import temporary_folder
from kernellab.errors import CompileError, MachineError


# The stage and the record of the assembler's step both need it.
@functools.lru_cache(maxsize=4)
def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin, with the source file and line of each instruction,
    by the `nvdisasm` bundled with Triton.

    Raises:
        CompileError: nvdisasm refused the cubin; the message has its words.
    """
    return run_on_cubin("nvdisasm", ["-g", "-c"], cubin)


def run_on_cubin(tool: str, arguments: list[str], cubin: bytes) -> str:
    """What one of NVIDIA's tools prints for a cubin.

    Raises:
        CompileError: the tool refuses the cubin; the message has its words.
        MachineError: the tool is missing, or could not run.
    """
    with triton_api.translated_machine_errors(f"{tool} cannot run"), temporary_folder() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        command = [triton_api.nvidia_tool(tool), *arguments, str(file)]
        finished = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
    if finished.returncode < 0:
        raise MachineError(
            f"{tool} was ended by signal {-finished.returncode}.", advice=_TOOL_ADVICE
        )
    if finished.returncode != 0:
        words = (
            finished.stderr.strip().replace(str(file), file.name)
            or f"exit status {finished.returncode}"
        )
        if re.match(tool, words):
            raise CompileError(f"{tool} cannot read the cubin: {words}")
        raise MachineError(
            f"{tool} cannot run: {words}",
            advice=f"Does TRITON_{tool.upper()}_PATH name another program? {_TOOL_ADVICE}",
        )
    return finished.stdout


_TOOL_ADVICE = "Look at this machine's memory and at its limits (ulimit -a)."

_NVIDIA_MATRIX = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z]*MMA[\w.]*)", re.M)
"""An instruction of SASS whose opcode ends in MMA: HMMA, IMMA, DMMA, QMMA; warp groups:
HGMMA, QGMMA; Blackwell: UTCHMMA."""

_AMD_MATRIX = re.compile(r"^\s*(v_mfma\w*|v_smfmac\w*|v_wmma\w*|v_swmmac\w*)", re.M)
"""AMD's: v_mfma and v_smfmac (CDNA), v_wmma and v_swmmac (RDNA); the s forms are sparse."""


def matrix_instructions(machine_code: str) -> Counter[str]:
    """The matrix instructions in SASS or in AMD assembly:
    opcode with its modifiers -> how often it occurs.

    The count is of instructions in the program's text, not of executions.
    """
    return Counter(_NVIDIA_MATRIX.findall(machine_code) + _AMD_MATRIX.findall(machine_code))


INSTRUCTION_LINE = re.compile(r"^\s*/\*(?P<address>[0-9a-f]+)\*/\s+\S", re.M)
"""A line of nvdisasm's that starts with the instruction's offset:
"/*0010*/ S2R R0, SR_TID.X ;"."""

SASS_LOCATION = re.compile(r'^\s*//## File "(?P<file>(?:[^"\\]|\\.)*)", line (?P<line>\d+)')
"""A line of nvdisasm's that names where the instructions after it come from."""


_NO_OPERATION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+NOP\s*;")
_BRANCH = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+BRA `\((?P<label>[^)]+)\)\s*;")
_TEXT_SECTION = re.compile(r"^\.text\.\S+:\s*$")


def instruction_count(sass: str) -> int:
    """The instructions in SASS text, without padding."""
    return len(INSTRUCTION_LINE.findall(sass)) - len(padding_lines(sass))


def padding_lines(sass: str) -> frozenset[int]:
    """The lines of SASS text, from 1, with instructions that no warp executes: behind the end
    of a section's code ptxas puts a branch to itself, then NOPs up to a round address.
    """
    lines = sass.splitlines()
    padding = []
    at_end = True
    for number in range(len(lines), 0, -1):
        line = lines[number - 1]
        if _TEXT_SECTION.match(line):
            at_end = True
        elif at_end and INSTRUCTION_LINE.match(line):
            branch = _BRANCH.match(line)
            to_itself = branch is not None and _label_before(lines, number) == branch["label"]
            if to_itself or _NO_OPERATION.match(line):
                padding.append(number)
            at_end = branch is None and number in padding[-1:]
    return frozenset(padding)


def _label_before(lines: Sequence[str], number: int) -> str:
    """The label of the instruction on a line, "" where it has none."""
    at = number - 2
    while at >= 0 and lines[at].lstrip().startswith("//"):
        at -= 1
    return lines[at].strip().removesuffix(":") if at >= 0 else ""
