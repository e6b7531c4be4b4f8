"""Machine code as instructions: SASS with its control codes, and AMD's assembly."""

from __future__ import annotations

import functools
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab import triton_api
from kernellab.common.data_files import read_data_file
from kernellab.common.system import temporary_folder
from kernellab.common.text import split_at_commas
from kernellab.compiler.machine_code.cubin import Section, sections
from kernellab.compiler.records import ControlCodes, Instruction
from kernellab.errors import CompileError, MachineError, NotRecorded
from kernellab.records import SourceMap

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation


# The stage and the record of the assembler's step both need it.
@functools.lru_cache(maxsize=4)
def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin, with each instruction's file and line, by Triton's `nvdisasm`. Raises
    CompileError: nvdisasm refused the cubin; the message has its words.
    """
    # Its analysis of the data flow takes a third of the time, and names only the targets of jumps
    # by way of the branch stack, which no GPU since sm_70 has.
    return run_on_cubin("nvdisasm", ["-g", "-c", "-ndf"], cubin)


def run_on_cubin(tool: str, arguments: list[str], cubin: bytes) -> str:
    """The output of one of NVIDIA's tools for a cubin.

    Raises:
        CompileError: the tool refuses the cubin; the message has its words.
        MachineError: the tool is missing, could not run, or did not end in time.
    """
    with triton_api.translated_machine_errors(f"{tool} cannot run"), temporary_folder() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        command = [triton_api.nvidia_tool(tool), *arguments, str(file)]
        try:
            finished = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_TOOL_SECONDS,
            )
        except subprocess.TimeoutExpired as error:  # the cubin may be anyone's
            raise MachineError(
                f"{tool} did not end within {_TOOL_SECONDS:g} seconds.", advice=_TOOL_ADVICE
            ) from error
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
            raise CompileError(
                f"{tool} cannot read the cubin: {words}", advice="Compile the kernel again."
            )
        raise MachineError(
            f"{tool} cannot run: {words}",
            advice=f"Check TRITON_{tool.upper()}_PATH, if it is set. {_TOOL_ADVICE}",
        )
    return finished.stdout


_TOOL_SECONDS = 120.0
"""A cubin of 10 MB takes a few seconds."""

_TOOL_ADVICE = "Check this machine's memory and its limits (ulimit -a)."

_NVIDIA_MATRIX = re.compile(r"^[ \t]*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z]*MMA[\w.]*)", re.M)
"""SASS opcodes that end in MMA: HMMA, IMMA, DMMA, QMMA, HGMMA, QGMMA, UTCHMMA."""

_AMD_MATRIX = re.compile(r"^[ \t]*(v_mfma\w*|v_smfmac\w*|v_wmma\w*|v_swmmac\w*)", re.M)
"""AMD's: v_mfma and v_smfmac (CDNA), v_wmma and v_swmmac (RDNA); the s forms are sparse."""


def matrix_instructions(machine_code: str) -> Counter[str]:
    """The matrix instructions in SASS or in AMD assembly:
    opcode with its modifiers -> how often it occurs.

    The count is of instructions in the program's text, not of executions.
    """
    return Counter(_NVIDIA_MATRIX.findall(machine_code) + _AMD_MATRIX.findall(machine_code))


INSTRUCTION_LINE = re.compile(r"^[ \t]*/\*(?P<address>[0-9a-f]+)\*/\s+\S", re.M)
"""A line of nvdisasm that starts with an offset: "/*0010*/ S2R R0, SR_TID.X ;"."""

SASS_LOCATION = re.compile(r'^\s*//## File "(?P<file>(?:[^"\\]|\\.)*)", line (?P<line>\d+)')
"""A line of nvdisasm that names where the instructions after it come from."""


_NO_OPERATION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+NOP\s*;")
_BRANCH = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+BRA `\((?P<label>[^)]+)\)\s*;")
_TEXT_SECTION = re.compile(r"^\.text\.\S+:\s*$")


def instruction_count(sass: str) -> int:
    """The instructions in SASS text, without padding."""
    return len(INSTRUCTION_LINE.findall(sass)) - len(padding_lines(sass))


def padding_lines(sass: str) -> frozenset[int]:
    """Lines of SASS, from 1, that no warp executes: ptxas's final branch to itself, and NOPs."""
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
    at = number - 2
    while at >= 0 and lines[at].lstrip().startswith("//"):
        at -= 1
    return lines[at].strip().removesuffix(":") if at >= 0 else ""


@dataclass(frozen=True)
class _Registers:
    no_result: tuple[str, ...]
    two_predicates: tuple[str, ...]
    predicate_then_register: tuple[str, ...]
    with_carries: tuple[str, ...]
    matrix: Mapping[str, Mapping[str, tuple[int, int, int]]]


@dataclass(frozen=True)
class Opcodes:
    """The tables in opcodes.toml.

    Attributes:
        nvidia: by class, the opcodes without their modifiers.
        amd: patterns for the beginning of a mnemonic and their classes; the first match counts.
        registers: which operands of NVIDIA's are results, and how many registers they span.
    """

    classes: tuple[str, ...]
    nvidia: Mapping[str, tuple[str, ...]]
    amd: tuple[tuple[str, str], ...]
    registers: _Registers


OPCODES: Opcodes = read_data_file(Path(__file__).with_name("opcodes.toml"), Opcodes)
_REGISTERS = OPCODES.registers
_NO_RESULT = frozenset(_REGISTERS.no_result)


# Which registers and predicates a SASS instruction reads and writes, from its text.
#
# The text names the first register of each operand; how many it spans follows from the opcode
# and its modifiers. The tests hold this against nvdisasm's own register life ranges (`nvdisasm
# -plr`).

_REGISTER = re.compile(r"(?<![\w.])(?P<file>UR|UP|R|P)(?P<number>\d+)(?P<suffix>(?:\.\w+)*)")


def registers_of(
    opcode: str, operands: Sequence[str], predicate: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The registers and predicates that an instruction reads, and those that it writes,
    in the order of its operands.

    Registers that are always zero (RZ, URZ) and predicates that are always true (PT, UPT) do not
    count. Where the encoding alone knows how many registers are meant (the coordinates of a TMA
    copy), the named one stands for all.
    """
    root, *modifiers = opcode.split(".")
    results = _result_count(root, operands)
    reads: list[str] = [
        match["file"] + match["number"] for match in _REGISTER.finditer(predicate.lstrip("@!"))
    ]
    writes: list[str] = []
    for position in range(len(operands)):
        names = writes if position < results else reads
        names += _registers_in(root, modifiers, operands, position)
    if root in ("P2R", "R2P") and "PR" in operands:
        names = reads if root == "P2R" else writes
        names += _masked_predicates(operands[-1])
    return tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))


def _masked_predicates(mask: str) -> list[str]:
    """The predicates that P2R and R2P copy: a bit of the mask each, or all without a number."""
    try:
        bits = int(mask, 16)
    except ValueError:
        bits = 0x7F
    return [f"P{number}" for number in range(7) if bits >> number & 1]


def _result_count(root: str, operands: Sequence[str]) -> int:
    if root in _NO_RESULT or not operands or operands[0].startswith("["):
        return 0
    if root == "USETMAXREG":
        return 1 if operands[0].startswith("UP") else 0
    if root in _REGISTERS.two_predicates:
        return 2
    if root in ("VOTE", "VOTEU"):
        return 1 if _is_predicate(operands[0]) else 2
    if _is_predicate(operands[0]):
        return 2 if root in _REGISTERS.predicate_then_register and len(operands) > 1 else 1
    carries = 0
    if root in _REGISTERS.with_carries:
        while 1 + carries < len(operands) and _is_predicate(operands[1 + carries]):
            carries += 1
    return 1 + carries


def _is_predicate(operand: str) -> bool:
    return re.fullmatch(r"U?P(\d|T)", operand) is not None


def _registers_in(
    root: str, modifiers: list[str], operands: Sequence[str], position: int
) -> Iterator[str]:
    for match in _REGISTER.finditer(operands[position]):
        file, first = match["file"], int(match["number"])
        count = 1 if file in ("P", "UP") else _span(root, modifiers, operands, position, match)
        for number in range(first, first + count):
            yield f"{file}{number}"


def _span(
    root: str, modifiers: list[str], operands: Sequence[str], position: int, match: re.Match[str]
) -> int:
    before = operands[position][: match.start()]
    if ".64" in match["suffix"]:
        return 2
    if before.endswith("gdesc["):
        return _descriptor_span(root, operands)
    if before.endswith("idesc["):
        return 1
    if before.endswith("desc["):
        return 2
    if "[" in before:
        return _address_span(root, modifiers, operands, position, match)
    if root in ("RET", "CALL", "LEPC") or (root == "SYNCS" and "64" in modifiers):
        return 2
    if root in _REGISTERS.matrix or root.endswith("GMMA"):
        return _matrix_span(root, modifiers, operands, position)
    width = access_width(".".join([root, *modifiers]))
    if width is not None and root != "LDGSTS":
        return max(1, width // 4)
    return _arithmetic_span(root, modifiers, position, match["suffix"])


_GENERIC = ("LDG", "STG", "LD", "ST", "ATOMG", "ATOM", "RED", "REDG")


def _address_span(
    root: str, modifiers: list[str], operands: Sequence[str], position: int, match: re.Match[str]
) -> int:
    """E is a 64-bit address; before sm_80 and in some atomics nothing else says so."""
    if root in _GENERIC:
        operand = operands[position]
        # A register of [R4.U32+UR6] is a 32-bit offset to a 64-bit uniform base.
        has_base = match["file"] == "UR" and ".64" in operand and "desc" in operand
        return 2 if "E" in modifiers and not match["suffix"] and not has_base else 1
    if root.startswith("UTMA") or root == "CCTL":
        return _tma_span(root, modifiers, position) if match["file"] == "UR" else 1
    # The scales of a block-scaled product in tensor memory are the sixth operand.
    return 2 if re.fullmatch(r"UTC\w+MMA", root) and position == 5 else 1


def _tma_span(root: str, modifiers: list[str], position: int) -> int:
    """A TMA copy names the tile (address in shared memory, a load's barrier, coordinates),
    then the descriptor's address.

    PTX ISA, `cp.async.bulk.tensor`.
    """
    dimensions = next((int(m[0]) for m in modifiers if re.fullmatch(r"[1-5]D", m)), 0)
    if position > 0 or not dimensions:
        return 2
    return dimensions + (2 if root == "UTMALDG" else 1)


def _arithmetic_span(root: str, modifiers: list[str], position: int, suffix: str) -> int:
    if "WIDE" in modifiers:
        return 2 if position in (0, 3) else 1
    if root in ("DADD", "DMUL", "DFMA", "DSETP"):
        return 2
    if root in ("FADD2", "FMUL2", "FFMA2"):
        # A source marked F32 alone is one number for both halves.
        return 1 if "F32" in suffix.split(".") else 2
    if root == "CS2R":
        return 1 if "32" in modifiers else 2
    if root in ("IADD", "MOV", "UMOV", "UIADD3", "IADD3", "SEL", "USEL") and "64" in modifiers:
        return 2
    if root in ("ISETP", "UISETP") and {"S64", "U64"}.intersection(modifiers):
        return 2
    if root in ("F2F", "I2F", "F2I"):
        return _conversion_span(root, modifiers, position)
    return 1


def _conversion_span(root: str, modifiers: list[str], position: int) -> int:
    """F2F names both types (F2F.F64.F32); I2F and F2I the one that is not 32 bits."""
    types = [modifier for modifier in modifiers if re.fullmatch(r"[FUSB]*\d+", modifier)]
    if root == "F2F":
        return 2 if len(types) > position and types[position] == "F64" else 1
    wide = [modifier for modifier in types if modifier.endswith("64")]
    float_side = 0 if root == "I2F" else 1
    side = float_side if "F64" in wide else 1 - float_side
    return 2 if wide and position == side else 1


def _matrix_span(root: str, modifiers: list[str], operands: Sequence[str], position: int) -> int:
    halves = modifiers[1:2] == ["F16"]
    if root.endswith("GMMA"):
        is_accumulator = position == 0 or operands[position] == operands[0]
        columns = int(modifiers[0].split("x")[1])
        return (columns // 4 if halves else columns // 2) if is_accumulator else 4
    shape = next((modifier for modifier in modifiers if modifier in _REGISTERS.matrix[root]), "")
    result, a, b = _REGISTERS.matrix[root].get(shape, (4, 4, 2))
    if root == "HMMA" and halves:
        result //= 2
    return {0: result, 1: a, 2: b, 3: result}.get(position, 1)


def _descriptor_span(root: str, operands: Sequence[str]) -> int:
    """A shared-memory descriptor is 64 bits; a warp group's operand names those of A and B."""
    is_warp_group = root.endswith("GMMA") and not root.startswith("UTC")
    return 4 if is_warp_group and operands[1].startswith("gdesc") else 2


# Machine code, decoded: SASS with its control codes and registers, and AMD's assembly.
#
# An instruction of every NVIDIA GPU from Volta (sm_70) on is 128 bits. The upper bits give the
# scheduler what the hardware does not find out by itself; their places are in no document of
# NVIDIA's, and were found by experiment: Jia, Maggioni, Staiger and Scarpazza, "Dissecting the
# NVIDIA Volta GPU Architecture via Microbenchmarking" (2018, arXiv:1804.06826), section 2.1; the
# same fields in CuAssembler's documentation for Turing and Ampere; maxas's wiki for what each
# means.
#
# ======= ============================================================================
# bits    meaning
# ======= ============================================================================
# 105-108 stall: cycles before the warp's next instruction
# 109     yield, stored inverted: 0 asks for another warp
# 110-112 write barrier: the scoreboard set until the result is there; 7: none
# 113-115 read barrier: the scoreboard set until the operands were read; 7: none
# 116-121 wait mask: one bit for each scoreboard that must be clear
# 122-125 reuse: operand slots kept in the operand cache
# ======= ============================================================================
#
# The tests hold them against facts that do not depend on the table: nvdisasm's own `.reuse`
# marks, and that whoever reads the result of a load waits for the scoreboard that the load set,
# on every target.

_CODE = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]+)\*/\s++(?P<predicate>@!?U?P\w+)?\s*+(?P<opcode>[A-Z][\w.]*)\s*+"
    r"(?P<operands>[^;]*+);"
)
_SECTION = re.compile(r"^\.text\.(?P<name>\S+):\s*$")
_FUNCTION = re.compile(r"^(?P<name>[$\w.]+):\s*$")


def decode(compilation: Compilation) -> tuple[Instruction, ...]:
    """The machine code of a compilation that has some, in the order of its text.

    Raises:
        NotRecorded: the compilation has no source map.
        CompileError: the disassembler refused the cubin, or the text is not of this cubin.
        MachineError: the disassembler is missing, or could not run.
    """
    stages = compilation.stages
    if "sass" in stages:
        cubin = stages["cubin"].content
        assert isinstance(cubin, bytes)
        source_map = compilation.map_of_code
        if "sass" not in source_map.stages:
            raise NotRecorded(f"The source map of {compilation.kernel!r} has no lines of SASS.")
        return tuple(_sass_instructions(stages["sass"].text, cubin, source_map))
    if "amdgcn" not in stages and (why := stages.failed.get("sass")) is not None:
        raise why
    return tuple(_amd_instructions(stages["amdgcn"].text, compilation.map_of_code))


def padding_of(compilation: Compilation) -> frozenset[int]:
    """The lines of machine code that no warp executes; AMD's assembly has none."""
    stages = compilation.stages
    return padding_lines(stages["sass"].text) if "sass" in stages else frozenset()


# NVIDIA: text and encoding


def _sass_instructions(text: str, cubin: bytes, source_map: SourceMap) -> Iterator[Instruction]:
    known = sections(cubin)
    code, function = b"", ""
    for number, line in enumerate(text.splitlines(), start=1):
        if section := _SECTION.match(line):
            code = _code_of(known, section["name"])
        elif label := _FUNCTION.match(line):
            function = _function_name(label["name"]) or function
        elif match := _CODE.match(line):
            address = int(match["address"], 16)
            operands = split_operands(match["operands"])
            reads, writes = registers_of(match["opcode"], operands, match["predicate"] or "")
            yield Instruction(
                address=address,
                line=number,
                function=function,
                predicate=match["predicate"] or "",
                opcode=match["opcode"],
                operands=operands,
                category=category_of(match["opcode"]),
                width=access_width(match["opcode"]),
                control=control_codes(int.from_bytes(code[address + 8 : address + 16], "little")),
                reads=reads,
                writes=writes,
                chains=source_map.chain("sass", number),
                ttgir_line=_ttgir_line(source_map, "sass", number),
            )


def _code_of(known: Mapping[str, Section], name: str) -> bytes:
    section = known.get(f".text.{name}")
    if section is None:
        raise CompileError(f"The SASS has code of {name[:60]!r}, which this cubin does not have.")
    return section.content


def _function_name(label: str) -> str | None:
    """The function that a label begins, or None for a label inside one.

    A function that the kernel calls is named "$kernel$its_name";
    what ptxas adds, "$__internal_0_$its_name".
    """
    return None if label.startswith(".") else label.rpartition("$")[2]


def control_codes(high: int) -> ControlCodes:
    """The control codes in an encoding's upper 64 bits; the module's docstring has their places."""

    def bits(first: int, count: int) -> int:
        return high >> (first - 64) & (1 << count) - 1

    write_barrier, read_barrier = bits(110, 3), bits(113, 3)
    return ControlCodes(
        stall_cycles=bits(105, 4),
        yields=bits(109, 1) == 0,
        write_barrier=None if write_barrier == 7 else write_barrier,
        read_barrier=None if read_barrier == 7 else read_barrier,
        waits_for=tuple(number for number in range(6) if bits(116, 6) >> number & 1),
        reuse=tuple(slot for slot in range(4) if bits(122, 4) >> slot & 1),
    )


def split_operands(text: str) -> tuple[str, ...]:
    """Operands, split at the commas outside of brackets."""
    # nvdisasm remarks on an indirect branch, "(*...*)";
    # in Triton 3.6 also on scheduling, "?trans1" in a separate column.
    text = re.sub(r" ?\(\*.*| \?\w+$", "", " ".join(text.split())).strip()
    return tuple(filter(None, split_at_commas(text)))


def _ttgir_line(source_map: SourceMap, stage: str, line: int) -> int | None:
    if ("ttgir", stage) not in source_map.links:
        return None
    lines = source_map.lines(stage, "ttgir", line)
    return lines[0] if lines else None


# AMD

_AMD_CODE = re.compile(r"^\t(?P<opcode>[a-z]\w*)(?:\s++(?P<operands>[^;]*+))?(?:;.*)?$")
_AMD_FUNCTION = re.compile(r"^(?P<name>[A-Za-z_$][\w$.]*):")


def _amd_instructions(text: str, source_map: SourceMap) -> Iterator[Instruction]:
    function = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if name := _AMD_FUNCTION.match(line):
            function = name["name"]
        elif line.startswith(".Lfunc_end"):
            function = ""
        elif function and (code := _AMD_CODE.match(line)):
            opcode = code["opcode"]
            yield Instruction(
                address=-1,
                line=number,
                function=function,
                predicate="",
                opcode=opcode,
                operands=split_operands(code["operands"] or ""),
                category=category_of(opcode),
                width=access_width(opcode),
                control=None,
                reads=(),
                writes=(),
                chains=source_map.chain("amdgcn", number),
                ttgir_line=_ttgir_line(source_map, "amdgcn", number),
            )


# The class of each machine opcode, in opcodes.toml, and the bytes that it moves.


_NVIDIA_CLASSES = {root: name for name, roots in OPCODES.nvidia.items() for root in roots}
_AMD_CLASSES = tuple((re.compile(pattern), name) for pattern, name in OPCODES.amd)


def category_of(opcode: str) -> str:
    """The class of either vendor's opcode, with or without modifiers; "other" if unknown."""
    root = opcode.split(".")[0]
    if root.islower() or (root[:2] in ("v_", "s_") and not root.isupper()):
        for pattern, category in _AMD_CLASSES:
            if pattern.match(root):
                return category
        return "other"
    return _NVIDIA_CLASSES.get(root, "other")


_MEMORY = tuple(
    f"{space} {kind}"
    for space in ("global", "shared", "local", "constant", "tensor memory")
    for kind in ("load", "store", "atomic")
)

_NVIDIA_SIZES = {
    "U8": 1, "S8": 1, "U16": 2, "S16": 2, "F16": 2, "BF16": 2,
    "64": 8, "128": 16, "256": 32, "F64": 8, "S64": 8, "U64": 8, "F16x2": 4, "BF16x2": 4,
}  # fmt: skip

_AMD_SIZES = (
    (re.compile(r"_dwordx(\d+)"), 4),
    (re.compile(r"_b(\d+)(?:_|$)"), 1 / 8),
    (re.compile(r"_[uif](\d+)(?:_|$)"), 1 / 8),
    (re.compile(r"_x(2)(?:_|$)"), 4),
)
"""A size in the mnemonic, and the bytes of its unit."""

_AMD_SIZE_WORDS = {
    "byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2, "dword": 4,
}  # fmt: skip


def access_width(opcode: str) -> int | None:
    """Bytes that each thread moves with an access to memory; None for every other opcode.

    A matrix load (LDSM, STSM) and an access to tensor memory count what arrives
    in the thread's own registers, or leaves them.
    """
    category = category_of(opcode)
    if category not in _MEMORY and opcode.split(".")[0] != "LDGSTS":
        return None
    return _amd_width(opcode) if opcode.islower() else _nvidia_width(opcode)


def _nvidia_width(opcode: str) -> int | None:
    root, *modifiers = opcode.split(".")
    if root in ("LDSM", "STSM"):
        # the 8 by 8 matrices that one LDSM moves: "M88.4" is four, "M88" one
        return 4 * (int(modifiers[-1]) if modifiers[-1].isdigit() else 1)
    if root in ("LDTM", "STTM"):
        return 4 * _tensor_memory_registers(modifiers)
    if root == "UTCCP":
        return None  # The whole copy is one instruction's, not a thread's.
    for modifier in modifiers:
        if modifier in _NVIDIA_SIZES:
            return _NVIDIA_SIZES[modifier]
    return 4


def _tensor_memory_registers(modifiers: list[str]) -> int:
    """Registers per thread: "x32" repeats a shape of 32 bits per lane,
    or of two or four times that.

    PTX ISA 8.7, `tcgen05.ld`: shapes 32x32b, 16x64b and 16x32bx2 take one register
    for each repetition, 16x128b two, 16x256b four.
    """
    shape = next((modifier for modifier in modifiers if "dp" in modifier), "32dp32bit")
    factor = {"128bit": 2, "256bit": 4}.get(shape.partition("dp")[2].split("_")[0], 1)
    times = next((int(m[1:]) for m in modifiers if re.fullmatch(r"x\d+", m)), 1)
    return factor * times


def _amd_width(opcode: str) -> int | None:
    times = 2 if re.search(r"_2addr|(read|write)2", opcode) else 1
    for word in opcode.split("_"):
        if word in _AMD_SIZE_WORDS:
            return times * _AMD_SIZE_WORDS[word]
    for pattern, unit in _AMD_SIZES:
        if match := pattern.search(opcode):
            return int(times * unit * int(match[1]))
    return 4 if "atomic" in opcode else None
