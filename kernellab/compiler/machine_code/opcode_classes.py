"""The class of each machine opcode: one table for NVIDIA, one for AMD.

NVIDIA's opcodes: "CUDA Binary Utilities", chapter "Instruction Set Reference" (Turing to
Blackwell), which names and groups them; what that document leaves out was met in code that ptxas
made of known PTX. AMD's: the ISA manuals of CDNA 2 to 4 and RDNA 3 and 4, whose mnemonics say the
unit (s_, v_, ds_, global_) and the size.
"""

from __future__ import annotations

import re

CATEGORIES = (
    "global load",
    "global store",
    "global atomic",
    "shared load",
    "shared store",
    "shared atomic",
    "local load",
    "local store",
    "constant load",
    "tensor memory load",
    "tensor memory store",
    "tensor memory allocation",
    "async copy",
    "tma",
    "matrix",
    "barrier",
    "fence",
    "wait",
    "branch",
    "lanes",
    "integer",
    "float",
    "conversion",
    "special function",
    "predicate",
    "move",
    "uniform",
    "cache control",
    "system",
    "other",
)
"""Every class. "local" is a thread's own memory (spills, arrays); "lanes" exchanges values between
the lanes of a warp; "uniform" computes once for the whole warp (NVIDIA's uniform datapath, AMD's
scalar unit); "wait" is for a scoreboard or a counter; "other" is an opcode that no table has."""

_NVIDIA = {
    "global load": "LDG LD",
    "global store": "STG ST",
    "global atomic": "ATOMG ATOM RED REDG UBLKRED",
    "shared load": "LDS LDSM",
    "shared store": "STS STSM",
    "shared atomic": "ATOMS REDS REDAS",
    "local load": "LDL",
    "local store": "STL",
    "constant load": "LDC LDCU ULDC",
    "tensor memory load": "LDTM",
    "tensor memory store": "STTM UTCCP",
    "tensor memory allocation": "UTCATOMSWS UTCSHIFT UVIRTCOUNT",
    "async copy": "LDGSTS LDGDEPBAR ARRIVES STAS",
    "tma": "UTMALDG UTMASTG UTMAREDG UTMAPF UTMACMDFLUSH UTMACCTL UBLKCP UBLKPF",
    "matrix": (
        "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA BGMMA QGMMA UTCHMMA UTCIMMA UTCQMMA "
        "UTCOMMA UTCBMMA MOVM"
    ),
    "barrier": (
        "BAR SYNCS UTCBAR UCGABAR_ARV UCGABAR_WAIT CGAERRBAR WARPSYNC WARPGROUP WARPGROUPSET B2R "
        "ACQBULK"
    ),
    "fence": "MEMBAR FENCE ERRBAR ACQSHMINIT",
    "wait": "DEPBAR",
    "branch": (
        "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSSY BSYNC BREAK BMOV BPT KILL LEPC RPCMOV "
        "WARPCALL YIELD RTT"
    ),
    "lanes": "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "integer": (
        "IADD IADD3 IADD32I IMAD IMUL IDP IDP4A IABS IMNMX ISCADD LEA LOP LOP3 LOP32I POPC FLO "
        "BREV BMSK SHF SHL SHR SGXT PRMT VABSDIFF VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 "
        "VHMNMX SCATTER"
    ),
    "float": (
        "FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSWZADD HADD2 "
        "HFMA2 HMUL2 HMNMX2 HADD2_32I HFMA2_32I HMUL2_32I DADD DFMA DMUL FHADD FHFMA"
    ),
    "conversion": "F2F F2I I2F F2FP I2FP F2IP I2IP FRND I2I",
    "special function": "MUFU",
    "predicate": "ISETP FSETP DSETP HSETP2 FSET HSET2 PLOP3 PSETP P2R R2P",
    "move": "MOV MOV32I SEL FSEL S2R CS2R GETLMEMBASE R2UR SETLMEMBASE UR2R PMTRIG",
    "uniform": (
        "UBREV UBMSK UFLO UIADD3 UIMAD UIMNMX UISETP ULEA ULOP ULOP3 ULOP32I UMOV UMOV32I UP2UR "
        "UPLOP3 UPOPC UPRMT UPSETP UR2UP USEL USGXT USHF USHL USHR S2UR UF2I UI2F UF2F UF2FP UFADD "
        "UFFMA UFMUL UFMNMX UFSEL UFSET UFSETP UFRND UI2FP UI2I UF2IP UIABS UVIMNMX UVIADD UI2IP "
        "UCLEA UGETNEXTWORKID"
    ),
    "cache control": "CCTL CCTLL CCTLT",
    "system": "NOP NANOSLEEP USETMAXREG SETCTAID",
}

_NVIDIA_CATEGORY = {root: category for category, roots in _NVIDIA.items() for root in roots.split()}

_AMD: tuple[tuple[str, str], ...] = (
    (r"(global|flat|buffer)_atomic", "global atomic"),
    (r"buffer_load\w*_lds|global_load_lds|global_load_async|buffer_load\w*_async", "async copy"),
    (r"(global|flat|buffer)_load", "global load"),
    (r"(global|flat|buffer)_store", "global store"),
    (r"scratch_load", "local load"),
    (r"scratch_store", "local store"),
    (r"ds_(b?permute|swizzle)", "lanes"),
    (r"ds_(read|load)", "shared load"),
    (r"ds_(write|store)", "shared store"),
    (r"ds_", "shared atomic"),
    (r"tensor_(load|store)", "tma"),
    (r"s_(buffer_)?load", "constant load"),
    (r"v_s?w?(mfma|mfmac|smfmac|mmac|wmma)|v_(swmmac|smfmac)", "matrix"),
    (r"s_barrier", "barrier"),
    (r"(buffer|global)_(gl\d_inv|inv|wb|wbinv|wbl2|invl2|wbinvl1)", "fence"),
    (r"s_wait|s_delay_alu|s_waitcnt", "wait"),
    (r"s_(c?branch|setpc|swappc|getpc|call|endpgm|trap|sethalt)", "branch"),
    (r"v_(readfirstlane|readlane|writelane|permlane|mbcnt)|\w+_dpp\b", "lanes"),
    (
        (
            r"s_(nop|clause|sleep|setprio|sendmsg|setreg|getreg|set_gpr|icache|dcache|ttrace|"
            r"code_end|version|inst_prefetch)"
        ),
        "system",
    ),
    (r"s_", "uniform"),
    (r"v_cmpx?_", "predicate"),
    (r"v_(dual_)?(mov|cndmask|swap|accvgpr|pk_mov)", "move"),
    (r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_", "special function"),
    (r"v_(cvt|pack|pk_cvt|scalef32)", "conversion"),
    (
        (
            r"v_(dual_)?(pk_)?(add|sub|subrev|mul|fma|fmac|fmamk|fmaak|mac|mad|max|min|max3|min3|"
            r"med3|maximum|minimum|maximum3|minimum3|ldexp|div_\w+|fract|floor|ceil|rndne|trunc|"
            r"frexp\w*|dot\d+c?|fma_mix\w*|mad_mix\w*|mul_legacy|fma_dx9_zero|mul_dx9_zero|"
            r"dot2)(_num)?(_legacy)?_(b?f16|f32|f64|bf16)"
        ),
        "float",
    ),
    (r"v_fma_mix", "float"),
    (r"v_dot\d+c?_\w*f(16|32)", "float"),
    (r"v_", "integer"),
)
"""The first pattern that fits the beginning of the mnemonic."""

_AMD_PATTERNS = tuple((re.compile(pattern), category) for pattern, category in _AMD)


def category_of(opcode: str) -> str:
    """The class of an opcode of either vendor, with or without its modifiers;
    "other" for an unknown one.
    """
    root = opcode.split(".")[0]
    if root.islower() or (root[:2] in ("v_", "s_") and not root.isupper()):
        for pattern, category in _AMD_PATTERNS:
            if pattern.match(root):
                return category
        return "other"
    return _NVIDIA_CATEGORY.get(root, "other")


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
    "byte": 1,
    "ubyte": 1,
    "sbyte": 1,
    "short": 2,
    "ushort": 2,
    "sshort": 2,
    "dword": 4,
}


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
        return 4 * _repeats(modifiers)
    if root in ("LDTM", "STTM"):
        return 4 * _tensor_memory_registers(modifiers)
    if root == "UTCCP":
        return None  # The whole copy is one instruction's, not a thread's.
    for modifier in modifiers:
        if modifier in _NVIDIA_SIZES:
            return _NVIDIA_SIZES[modifier]
    return 4


def _repeats(modifiers: list[str]) -> int:
    """The 8 by 8 matrices that one LDSM moves: "M88.4" is four, "M88" one."""
    return int(modifiers[-1]) if modifiers[-1].isdigit() else 1


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
