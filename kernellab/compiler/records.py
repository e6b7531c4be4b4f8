"""Facts from a kernel's machine code, and the compiler's messages about the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kernellab.common.saved_files import Size
from kernellab.errors import Diagnostic, SourcePosition
from kernellab.records.display import HasCard
from kernellab.records.stages import Chain


@dataclass(frozen=True)
class Resources(HasCard):
    """The resources of one program of the compiled kernel, read from the binary."""

    registers: Size
    """Registers per thread (AMD: vector registers)."""
    spills: Size
    """Bytes that a thread stores to local memory because its registers do not suffice, each store
    counted once, as `ptxas -v` says. If that is not known (AMD if anything is spilled, records of
    earlier versions), the whole stack."""
    shared_bytes: Size
    """Shared memory per program, in bytes (AMD: LDS), including what a launch requests."""
    stack_bytes: Size
    """Stack bytes per thread in local memory: spills, local arrays, arguments of calls."""
    static_shared_bytes: Size = 0
    """The shared memory that is fixed in the binary; launches request the rest."""
    barriers: Size = 0
    """Named barriers of the SM that one program takes (NVIDIA)."""
    tensor_memory_columns: Size = 0
    """Columns of tensor memory that one program takes (Blackwell)."""
    scalar_registers: Size = 0
    """Scalar registers per wave (AMD)."""
    spill_loads: Size = 0
    """Bytes that a thread loads back of what it spilled, each load counted once (NVIDIA)."""


@dataclass(frozen=True)
class Occupancy:
    """How many programs are on one multiprocessor (AMD: compute unit, RDNA's WGP) at once."""

    blocks: int
    """Programs at once."""
    warps: int
    """Their warps (AMD: waves)."""
    most_warps: int
    """The most warps that the multiprocessor holds."""
    limits: Mapping[str, int]
    """Resource -> how many programs it alone would allow."""
    limited_by: tuple[str, ...]
    """The resources that allow the fewest."""

    @property
    def fraction(self) -> float:
        """Warps over the most possible: 0 to 1."""
        return self.warps / self.most_warps


@dataclass(frozen=True)
class ControlCodes:
    """An NVIDIA instruction's bits for the warp scheduler; see machine_code/instructions.py."""

    stall_cycles: int
    """Cycles until the warp's next instruction may issue: 0 to 15."""
    yields: bool
    """A hint to take another warp next."""
    write_barrier: int | None
    """The scoreboard (0 to 5) that is set until the result is available; None without one."""
    read_barrier: int | None
    """The scoreboard that is set until the operands have been read; None without one."""
    waits_for: tuple[int, ...]
    """The scoreboards that must be clear before this instruction issues."""
    reuse: tuple[int, ...]
    """The register operands (0 to 3, by slot) kept for the next instruction's same slot."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of the machine code."""

    address: int
    """Bytes from the beginning of the function's section; -1 for AMD."""
    line: int
    """Its line in the text of the stage: "sass", or "amdgcn"."""
    function: str
    """The function that it belongs to: the kernel, or one that it calls."""
    predicate: str
    """ "@P0", "@!P0", "@UP0", or "" if it always runs."""
    opcode: str
    """With its modifiers: "LDG.E.128", "v_mfma_f32_32x32x8_f16"."""
    operands: tuple[str, ...]
    category: str
    """The opcode's class in machine_code/opcodes.toml: "global load", "matrix", "barrier", ..."""
    width: int | None
    """Bytes that each thread moves, for an access to memory whose opcode says it."""
    control: ControlCodes | None
    """None for AMD."""
    reads: tuple[str, ...]
    """Registers and predicates that it reads, in order: "R4", "UR5", "P0" (NVIDIA)."""
    writes: tuple[str, ...]
    """Registers and predicates that it writes (NVIDIA)."""
    chains: tuple[Chain, ...]
    """Where it comes from, with inlined calls; () for instructions that the compiler added."""
    ttgir_line: int | None
    """The line of the TTGIR text that it was made from, if the compilation kept it."""

    @property
    def source(self) -> SourcePosition | None:
        """The innermost line that it comes from."""
        return self.chains[0][0] if self.chains else None

    def __str__(self) -> str:
        words = [self.predicate, self.opcode, ", ".join(self.operands)]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class SpillSite:
    """An instruction that moves a spilled register or a local array's element."""

    line: int
    """In the text of the machine code."""
    kind: Literal["store", "load"]
    bytes: int
    """Per thread, each time it runs."""
    chain: Chain
    """Where it comes from, innermost line first; () if the compiler does not say."""


def spill_sites_of(instructions: Iterable[Instruction]) -> tuple[SpillSite, ...]:
    """The instructions that access local memory: spills, and arrays too large for registers."""
    kinds: Mapping[str, Literal["store", "load"]] = {"local store": "store", "local load": "load"}
    return tuple(
        SpillSite(each.line, kinds[each.category], each.width, next(iter(each.chains), ()))
        for each in instructions
        if each.category in kinds and each.width is not None
    )


RemarkOrigin = Literal["mlir", "ptxas", "triton"]
"""The source of a remark: a pass of MLIR, the PTX assembler, or Triton's Python code."""


@dataclass(frozen=True)
class Remark(HasCard, Diagnostic):
    """A remark of the compiler about a kernel that it compiles.

    `kind` is its source, a `RemarkOrigin`; `what` the compiler's words; `why` the same in plain
    words, "" if the compiler's are not known; `position` the kernel's line, None if it speaks of
    the whole kernel.
    """

    @property
    def headline(self) -> str:
        """The plain words if there are some."""
        return self.why or self.what

    @property
    def source(self) -> str:
        """The source and its words, if `why` rewords them: "mlir: vectorization fails ..."."""
        return f"{self.kind}: {self.what}" if self.why else self.kind

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        advice = f" Try: {self.advice}" if self.advice else ""
        return f"{where}{self.severity}: {self.headline}{advice} [{self.source}]"
