"""Machine code, decoded: SASS with its control codes and registers, and AMD's assembly.

An instruction of every NVIDIA GPU from Volta (sm_70) on is 128 bits. The upper bits give the
scheduler what the hardware does not find out by itself; their places are in no document of
NVIDIA's, and were found by experiment: Jia, Maggioni, Staiger and Scarpazza, "Dissecting the NVIDIA
Volta GPU Architecture via Microbenchmarking" (2018, arXiv:1804.06826), section 2.1; the same fields
in CuAssembler's documentation for Turing and Ampere; maxas's wiki for what each means.

======= ============================================================================
bits    meaning
======= ============================================================================
105-108 stall: cycles before the warp's next instruction
109     yield, stored inverted: 0 asks for another warp
110-112 write barrier: the scoreboard set until the result is there; 7: none
113-115 read barrier: the scoreboard set until the operands were read; 7: none
116-121 wait mask: one bit for each scoreboard that must be clear
122-125 reuse: operand slots kept in the operand cache
======= ============================================================================

The tests hold them against facts that do not depend on the table: nvdisasm's own `.reuse`
marks, and that whoever reads the result of a load waits for the scoreboard that the load set,
on every target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kernellab.compiler.machine_code.cubin import Section, sections
from kernellab.compiler.machine_code.opcode_classes import access_width, category_of
from kernellab.compiler.machine_code.registers import registers_of
from kernellab.compiler.machine_code.sass import padding_lines
from kernellab.errors import CompileError
from kernellab.records import Compilation, ControlCodes, Instruction, SourceMap

_CODE = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]+)\*/\s+(?P<predicate>@!?U?P\w+)?\s*(?P<opcode>[A-Z][\w.]*)\s*"
    r"(?P<operands>[^;]*?)\s*;"
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
        return tuple(_sass_instructions(stages["sass"].text, cubin, compilation.source_map))
    if "amdgcn" not in stages and (why := stages.failed.get("sass")) is not None:
        raise why
    return tuple(_amd_instructions(stages["amdgcn"].text, compilation.source_map))


def padding_of(compilation: Compilation) -> frozenset[int]:
    """The lines of the machine code with instructions that no warp executes;
    AMD's assembly has none.
    """
    stages = compilation.stages
    return padding_lines(stages["sass"].text) if "sass" in stages else frozenset()


# --------------------------------------------------------------------------------------------------
# NVIDIA: text and encoding
# --------------------------------------------------------------------------------------------------


def _sass_instructions(text: str, cubin: bytes, source_map: SourceMap) -> Iterator[Instruction]:
    """The instructions of nvdisasm's text; their control codes are read
    from the cubin's own bytes.
    """
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
        raise CompileError(f"the SASS is not this cubin's, which has no code of {name[:60]!r}")
    return section.content


def _function_name(label: str) -> str | None:
    """The function that a label begins, or None for a label inside one.

    A function that the kernel calls is named "$kernel$its_name";
    what ptxas adds, "$__internal_0_$its_name".
    """
    if label.startswith("."):
        return None
    if label.startswith("$"):
        return label.rpartition("$")[2]
    return label


def control_codes(high: int) -> ControlCodes:
    """The control codes in the upper 64 bits of an encoding;
    the module's docstring has their places.
    """

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
    text = re.sub(r"\s*\(\*.*|\s+\?\w+\s*$", "", text).strip()
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return tuple(part for part in parts if part)


def _ttgir_line(source_map: SourceMap, stage: str, line: int) -> int | None:
    if ("ttgir", stage) not in source_map.links:
        return None
    lines = source_map.lines(stage, "ttgir", line)
    return lines[0] if lines else None


# --------------------------------------------------------------------------------------------------
# AMD
# --------------------------------------------------------------------------------------------------

_AMD_CODE = re.compile(r"^\t(?P<opcode>[a-z]\w*)(?:\s+(?P<operands>[^;]*?))?\s*(?:;.*)?$")
_AMD_FUNCTION = re.compile(r"^(?P<name>[A-Za-z_$][\w$.]*):")


def _amd_instructions(text: str, source_map: SourceMap) -> Iterator[Instruction]:
    """The instructions of AMD assembly: mnemonic and operands as written, with class,
    width and lines.
    """
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
