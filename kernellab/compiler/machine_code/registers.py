"""Which registers and predicates a SASS instruction reads and writes, from its text.

The text names the first register of each operand; how many it spans follows from the opcode and its
modifiers. The tests hold this against nvdisasm's own register life ranges (`nvdisasm -plr`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kernellab.compiler.machine_code.opcode_classes import access_width

_REGISTER = re.compile(r"(?<![\w.])(?P<file>UR|UP|R|P)(?P<number>\d+)(?P<suffix>(?:\.\w+)*)")

_NO_RESULT = frozenset(
    """
        STG ST STS STL STSM STTM RED REDG REDS BAR BRA BRX BRXU CALL RET EXIT BSSY BSYNC BREAK NOP
        NANOSLEEP MEMBAR FENCE ERRBAR CCTL DEPBAR LDGDEPBAR LDGSTS WARPSYNC WARPGROUP UTMALDG
        UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UTCBAR UTCCP UTCHMMA UTCIMMA UTCQMMA UTCOMMA
        UTCBMMA UVIRTCOUNT CGAERRBAR BPT KILL UBLKCP UBLKPF UBLKRED UTCSHIFT ARRIVES ACQBULK
    """.split()  # noqa: SIM905
)
"""Opcodes that write no register: all their operands are read."""

_TWO_PREDICATES = (
    "ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3", "PSETP", "UISETP", "UFSETP", "UPLOP3", "UPSETP",
)  # fmt: skip
"""Their first two operands are results: a predicate and its complement."""

_PREDICATE_THEN_REGISTER = (
    "SHFL",
    "ATOMG",
    "ATOM",
    "ATOMS",
    "MATCH",
    "ELECT",
    "LOP3",
    "ULOP3",
    "R2UR",
    "UTCATOMSWS",
)

_WITH_CARRIES = (
    "IADD", "IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD", "VIADDMNMX", "VIMNMX",
    "VIMNMX3", "UVIMNMX",
)  # fmt: skip
"""Predicates right after the result are results too: IADD3 R4, P0, P1, R2, R6, RZ."""


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
    """The predicates that P2R and R2P copy: a bit of the mask for each,
    or all where no number says it.
    """
    try:
        bits = int(mask, 16)
    except ValueError:
        bits = 0x7F
    return [f"P{number}" for number in range(7) if bits >> number & 1]


def _result_count(root: str, operands: Sequence[str]) -> int:
    """How many of the first operands are results."""
    if root in _NO_RESULT or not operands or operands[0].startswith("["):
        return 0
    if root == "USETMAXREG":
        return 1 if operands[0].startswith("UP") else 0
    if root in _TWO_PREDICATES:
        return 2
    if root in ("VOTE", "VOTEU"):
        return 1 if _is_predicate(operands[0]) else 2
    if _is_predicate(operands[0]):
        return 2 if root in _PREDICATE_THEN_REGISTER and len(operands) > 1 else 1
    carries = 0
    if root in _WITH_CARRIES:
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
    """How many consecutive registers an operand's register stands for."""
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
    if root in _MMA_SPANS or root.endswith("GMMA"):
        return _matrix_span(root, modifiers, operands, position)
    width = access_width(".".join([root, *modifiers]))
    if width is not None and root != "LDGSTS":
        return max(1, width // 4)
    return _arithmetic_span(root, modifiers, position, match["suffix"])


_GENERIC = ("LDG", "STG", "LD", "ST", "ATOMG", "ATOM", "RED", "REDG")


def _address_span(
    root: str, modifiers: list[str], operands: Sequence[str], position: int, match: re.Match[str]
) -> int:
    """E stands for a 64-bit address; before sm_80 and in some atomics nothing else
    in the text says so.
    """
    if root in _GENERIC:
        return (
            2
            if "E" in modifiers and not match["suffix"] and not _has_base(operands, position, match)
            else 1
        )
    if root.startswith("UTMA") or root == "CCTL":
        return _tma_span(root, modifiers, position) if match["file"] == "UR" else 1
    # The scales of a block-scaled product in tensor memory are the sixth operand.
    return 2 if re.fullmatch(r"UTC\w+MMA", root) and position == 5 else 1


def _has_base(operands: Sequence[str], position: int, match: re.Match[str]) -> bool:
    """Whether a register is the 32-bit offset to a uniform base,
    which is the 64-bit part then: [R4.U32+UR6].
    """
    return match["file"] == "UR" and ".64" in operands[position] and "desc" in operands[position]


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
    """F2F names the types of result and source (F2F.F64.F32);
    I2F and F2I the one that is not 32 bits.
    """
    types = [modifier for modifier in modifiers if re.fullmatch(r"[FUSB]*\d+", modifier)]
    if root == "F2F":
        return 2 if len(types) > position and types[position] == "F64" else 1
    wide = [modifier for modifier in types if modifier.endswith("64")]
    float_side = 0 if root == "I2F" else 1
    side = float_side if "F64" in wide else 1 - float_side
    return 2 if wide and position == side else 1


_MMA_SPANS = {
    "HMMA": {"16816": (4, 4, 2), "1688": (4, 2, 1), "1684": (4, 2, 1)},
    "IMMA": {"16816": (4, 2, 1), "16832": (4, 4, 2), "8816": (2, 1, 1), "16864": (4, 4, 2)},
    "QMMA": {"16832": (4, 4, 2), "16816": (4, 2, 1)},
    "OMMA": {"16864": (4, 4, 2)},
    "DMMA": {
        "884": (4, 2, 2),
        "8x8x4": (4, 2, 2),
        "1684": (8, 4, 2),
        "1688": (8, 8, 4),
        "16816": (8, 16, 8),
    },
}
"""Opcode -> shape -> registers of the result, of A and of B:
PTX ISA, "Matrix Fragments for mma"."""


def _matrix_span(root: str, modifiers: list[str], operands: Sequence[str], position: int) -> int:
    halves = modifiers[1:2] == ["F16"]
    if root.endswith("GMMA"):
        is_accumulator = position == 0 or operands[position] == operands[0]
        columns = int(modifiers[0].split("x")[1])
        return (columns // 4 if halves else columns // 2) if is_accumulator else 4
    shape = next((modifier for modifier in modifiers if modifier in _MMA_SPANS[root]), "")
    result, a, b = _MMA_SPANS[root].get(shape, (4, 4, 2))
    if root == "HMMA" and halves:
        result //= 2
    return {0: result, 1: a, 2: b, 3: result}.get(position, 1)


def _descriptor_span(root: str, operands: Sequence[str]) -> int:
    """A shared-memory descriptor is 64 bits; a warp-group product names those of A
    and B by one operand.
    """
    is_warp_group = root.endswith("GMMA") and not root.startswith("UTC")
    return 4 if is_warp_group and operands[1].startswith("gdesc") else 2
