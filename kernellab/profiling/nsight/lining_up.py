"""Which line of a compilation's SASS each instruction of a profile is;
refused where they are not the same code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from kernellab.errors import NotRecorded, ProfileError
from kernellab.profiling.nsight.records import SampledCode, SampledInstruction
from kernellab.records import Compilation, Instruction

_TEXT = re.compile(r"\s*(?P<predicate>@!?U?P\w+)?\s*(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*)")

_JUMPS = (
    "BRA", "BRX", "BRXU", "BSSY", "BSYNC", "CALL", "JMP", "JMX", "JMXU", "RET", "WARPSYNC", "BREAK",
)  # fmt: skip
"""Instructions whose operands are places in the code, which disassemblers name
in their own ways."""


Item = TypeVar("Item")


@dataclass(frozen=True)
class _Code:
    """An instruction without what disassemblers print in different ways."""

    predicate: str
    opcode: str
    operands: tuple[str, ...]

    def agrees(self, other: _Code) -> bool:
        """Whether both are the same instruction: the order of operands is the disassembler's affair
        (LDGSTS), and so is how it names places in the code.
        """
        if (self.predicate, self.opcode) != (other.predicate, other.opcode):
            return False
        if self.opcode.partition(".")[0] in _JUMPS:
            return True
        if any("`(" in operand for operand in (*self.operands, *other.operands)):
            return len(self.operands) == len(other.operands)
        return sorted(self.operands) == sorted(other.operands)


def lines_of(profile: SampledCode, compilation: Compilation) -> Mapping[int, SampledInstruction]:
    """Line of the compilation's SASS -> what was measured of its instruction.

    Raises:
        ProfileError: the profile is of another kernel, or of other code: other options, another
            version of Triton.
    """
    if profile.kernel != compilation.kernel:
        raise ProfileError(
            f"The profile is of {profile.kernel!r}, and the compilation of {compilation.kernel!r}."
        )
    try:
        whole = compilation.instructions
    except NotRecorded as error:
        raise ProfileError(
            f"The compilation has no machine code to line a profile up with: {error.problem}"
        ) from error
    measured = _without_padding(
        [(_of_text(instruction.text), instruction) for instruction in profile]
    )
    own = [instruction for instruction in whole if instruction.function == compilation.kernel]
    ours = next(
        (code for code in map(_ours, (whole, own)) if len(code) == len(measured)), _ours(whole)
    )
    for number, (here, there) in enumerate(zip_longest(ours, measured), 1):
        if here is None or there is None or not here[0].agrees(there[0]):
            raise _other_code(profile, compilation, number, here, there, (len(ours), len(measured)))
    return {here[1].line: there[1] for here, there in zip(ours, measured)}


def _ours(instructions: Sequence[Instruction]) -> list[tuple[_Code, Instruction]]:
    return _without_padding(
        [(_of_instruction(instruction), instruction) for instruction in instructions]
    )


def _without_padding(code: list[tuple[_Code, Item]]) -> list[tuple[_Code, Item]]:
    """Without the NOPs that fill the section after the last instruction."""
    end = len(code)
    while end and code[end - 1][0].opcode == "NOP":
        end -= 1
    return code[:end]


def _of_text(text: str) -> _Code:
    match = _TEXT.match(text)
    if match is None:
        return _Code("", text.strip(), ())
    operands = match["operands"].split(",") if match["operands"].strip() else []
    return _Code(match["predicate"] or "", match["opcode"], tuple(map(_plain, operands)))


def _of_instruction(instruction: Instruction) -> _Code:
    operands = ",".join(instruction.operands).split(",") if instruction.operands else []
    return _Code(instruction.predicate, instruction.opcode, tuple(map(_plain, operands)))


def _plain(operand: str) -> str:
    """An operand without spaces, and without the hint that its register is read again at once."""
    return "".join(operand.split()).replace(".reuse", "")


def _other_code(
    profile: SampledCode,
    compilation: Compilation,
    number: int,
    here: tuple[_Code, Instruction] | None,
    there: tuple[_Code, SampledInstruction] | None,
    counts: tuple[int, int],
) -> ProfileError:
    """The error that says where two codes part."""
    ours = str(here[1]) if here else "no more"
    theirs = there[1].text if there else "no more"
    return ProfileError(
        f"The profile of {profile.kernel!r} is of other machine code than this compilation for "
        f"{compilation.target}: {counts[1]:,} instructions were profiled, and {counts[0]:,} are "
        f"here. Instruction {number} is {theirs!r} in the profile, and {ours!r} here.",
        advice=(
            "Compile for the launch that was profiled: the same types, constants, options and "
            "Triton version. Or save the compilation where the profile is recorded "
            "(compilation.save), and load it here."
        ),
    )
