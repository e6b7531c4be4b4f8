"""The cost of a program's instructions, its work, and what less work would save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from kernellab.compiler.modules import attribute, kind, pointers_of
from kernellab.compiler.targets import Gpu
from kernellab.ir import mlir, tt, ttng
from kernellab.ir.operations import global_effect
from kernellab.ir.types import (
    AmdMfmaEncoding,
    AmdWmmaEncoding,
    NvidiaMmaEncoding,
    bit_width,
    element_type,
)
from kernellab.profiling.accesses.requests import SECTOR
from kernellab.profiling.diagnosis.traffic import Scalars, is_loaded, maker
from kernellab.profiling.estimates.counts import (
    LATENCIES,
    LaunchCounts,
    multiply_adds,
    partial_lines,
)
from kernellab.profiling.estimates.model import CALIBRATION, Model

if TYPE_CHECKING:
    from kernellab.profiling.diagnosis.evidence import Evidence
    from kernellab.profiling.diagnosis.traffic import Traffic

# How many issue slots an operation takes for each element, and what a matrix unit does a cycle.
#
# Round numbers, after the throughput table of NVIDIA's CUDA C++ Programming Guide ("Arithmetic
# Instructions") and after the SASS that Triton's operations become: they weigh findings.


SCALAR = 0.25
"""Of a warp's slot, for what is computed once for all its lanes."""
BARRIER = 60
"""Cycles of an exchange through shared memory: writing, waiting for the others, reading."""

_SPECIAL = 4.0
_WEIGHTS: Mapping[str, float] = {
    **dict.fromkeys(
        ("math.exp", "math.exp2", "math.log", "math.log2", "math.rsqrt", "math.sqrt"), _SPECIAL
    ),
    **dict.fromkeys(("math.tanh", "math.erf", "tt.precise_sqrt", "math.log1p"), 16.0),
    **dict.fromkeys(("math.sin", "math.cos"), 40.0),
    "math.powf": 30.0,
    "arith.divf": 8.0,
    "tt.precise_divf": 12.0,
    "arith.remf": 30.0,
    "tt.addptr": 0.5,
}
POWER = 80.0
"""Instructions of libdevice's pow in fp32, as ptxas compiles it for sm_90."""
DIVISIONS = (mlir.DivSIOp, mlir.DivUIOp, mlir.RemSIOp, mlir.RemUIOp, mlir.CeilDivSIOp)
_DIVISION = {32: 14.0, 64: 90.0}
"""Instructions of a division of integers by a number that is not known."""
_BY_CONSTANT = 5.0
"""Of one by a constant: a multiplication by its reciprocal, and a shift."""
DOUBLE_STEPS = {"arith.divf": 10.0, "math.exp": 15.0, "math.log": 15.0, "math.sqrt": 10.0}
"""How many times more steps an operation of fp64 takes than one of fp32."""
LONG_STEPS = {"arith.muli": 4.0, "arith.addi": 2.0, "arith.subi": 2.0, "arith.cmpi": 2.0}
"""Instructions of 64-bit integers."""


def division_weight(op: Operation, scalars: Scalars) -> float:
    """Of a division of integers, by what it divides by."""
    by = scalars.number(op.operands[1])
    made = maker(op.operands[1], tt.SplatOp, tt.BroadcastOp)
    constant = isinstance(made, mlir.ConstantOp)
    if constant and by and by & (by - 1) == 0:
        return 1.0
    wide = bit_width(element_type(op.results[0].type)) > 32
    return (3 if wide else 1) * _BY_CONSTANT if constant else _DIVISION[64 if wide else 32]


def weight(op: Operation, scalars: Scalars, gpu: Gpu) -> float:
    """Issue slots for one element."""
    name = kind(op)
    if isinstance(op, DIVISIONS):
        return division_weight(op, scalars)
    if isinstance(op, tt.ExternElementwiseOp) and op.symbol.data.startswith("__nv_pow"):
        return POWER
    weight_of_name = _WEIGHTS.get(name, 1.0)
    if is_double(op):
        return weight_of_name * double_factor(gpu) * DOUBLE_STEPS.get(name, 1.0)
    element = element_type(op.results[0].type)
    if name in LONG_STEPS and bit_width(element_type(op.operands[0].type)) > 32:
        return LONG_STEPS[name]
    if name in ("arith.extf", "arith.truncf") and bit_width(element) < 16:
        return 2.0
    return weight_of_name


def is_double(op: Operation) -> bool:
    """Whether an operation computes in fp64."""
    types = [value.type for value in (*op.results, *op.operands)]
    return any(str(element_type(type)) == "f64" for type in types)


def double_factor(gpu: Gpu) -> float:
    """How many times longer fp64 takes than fp32."""
    return gpu.fp32 / gpu.double


def flops(op: Operation) -> float:
    """Return the operations of a matmul, where a multiply-add counts as two."""
    return 2.0 * multiply_adds(op)


def generation(op: Operation) -> str:
    """The instruction of a product: "wgmma", "mma", "tcgen05", "mfma", "wmma"; else ""."""
    if isinstance(op, ttng.WarpGroupDotOp):
        return "wgmma"
    if isinstance(op, ttng.Tcgen5MmaOp | ttng.Tcgen5MmaScaledOp):
        return "tcgen05"
    encoding = getattr(op.results[0].type, "encoding", None) if op.results else None
    if isinstance(encoding, NvidiaMmaEncoding):
        return "wgmma" if encoding.version_major == 3 else "mma"
    if isinstance(encoding, AmdMfmaEncoding):
        return "mfma"
    return "wmma" if isinstance(encoding, AmdWmmaEncoding) else ""


_NEWEST = ("wgmma", "tcgen05", "mfma", "wmma")


def matrix_rate(op: Operation, gpu: Gpu) -> float:
    """Operations a cycle and SM of a product's matrix instruction; 0 for one without."""
    used = generation(op)
    if not used:
        return 0.0
    element = element_type(op.operands[0].type)
    if str(element) == "f64":
        return 4.0 * gpu.double
    factor = {8: 2.0, 32: 0.5}.get(bit_width(element), 1.0)
    precision = attribute(op, "inputPrecision")
    if str(element) == "f32" and precision is not None and "1 :" in str(precision):
        factor /= 3  # tf32x3: three products
    return 2.0 * factor * gpu.tensor * (1.0 if used in _NEWEST else gpu.by_warps)


# The work of one program, by resource, from its TTGIR; how a launch's counts change if a program
# does less, and how much of the launch's time that saves. Times come from the estimate's model
# alone (`estimates/model.py`).


LOAD_LATENCY = 700.0
"""Cycles that a load from DRAM takes, by which waits in the TTGIR are compared."""


@dataclass(frozen=True)
class Work:
    """The work of one program by resource. Findings compare it with the work after their advice,
    and the ratios are applied to the counts of the launch.
    """

    dram: float = 0.0
    """Bytes of DRAM that are its share."""
    cache: float = 0.0
    """Bytes that come from L2."""
    requests: float = 0.0
    """Cycles of the load and store units: cache lines of requests."""
    sectors: float = 0.0
    """Sectors of these requests."""
    partial: float = 0.0
    """Lines of which stores write parts of sectors."""
    shared: float = 0.0
    """Wavefronts of shared memory."""
    moves: float = 0.0
    """Instructions that move values through shared memory or between the lanes of a warp."""
    issue: float = 0.0
    """Issue slots of warps outside of the tensor cores."""
    matrix: float = 0.0
    """Cycles of the tensor cores of a multiprocessor."""
    latency: float = 0.0
    """Cycles of waiting for loads and barriers, one after the other."""
    atomics: float = 0.0
    """Atomic updates of one cache line that take turns, of the whole launch."""


RESOURCES = tuple(each.name for each in fields(Work))


def work_of(evidence: Evidence) -> Work:
    """Return the work of a program, from its accesses, its arithmetic and its loops."""
    accesses = evidence.accesses
    return Work(
        dram=sum(_dram_bytes(access) for access in accesses),
        cache=SECTOR
        * sum(access.fetched * access.times * evidence.missed(access) for access in accesses),
        # A load and store unit takes a cycle for each line of a request, and at least two.
        requests=sum(max(access.lines, 2 * access.requests) * access.times for access in accesses),
        sectors=sum(access.sectors * access.times for access in accesses),
        partial=sum(
            partial_lines(access.sectors, access.lines, access.best_sectors) * access.times
            for access in accesses
            if global_effect(access.op) == "store" and not access.by_engine
        ),
        shared=evidence.shared_wavefronts,
        moves=evidence.moves,
        issue=evidence.issue_slots,
        matrix=sum(evidence.dot_cycles(op) * evidence.times(op) for op in evidence.dots),
        latency=evidence.waiting_cycles,
        atomics=sum(
            evidence.updates(access) / evidence.different_lines(access)
            for access in accesses
            if access.is_atomic
        ),
    )


def _dram_bytes(access: Traffic) -> float:
    """Return the bytes of DRAM that are one program's share of an access.

    Atomics at loaded addresses go to elements that others update too, whose sectors L2 keeps.
    """
    meet = access.is_atomic and is_loaded(pointers_of(access.op))
    whole_sectors = access.repeats < 2 and not access.is_dense and not meet
    each = access.fetched * SECTOR if whole_sectors else access.bytes
    return each * access.times / access.repeats


def waves_of(programs: int, slots: int) -> int:
    """Return how many times the GPU is filled."""
    return max(ceil(programs / max(slots, 1)), 1)


def counts_from_ttgir(evidence: Evidence) -> LaunchCounts:
    """Return counts of a launch that cannot be sampled, for the estimate's model."""
    work, accesses, programs = evidence.work, evidence.accesses, evidence.programs
    resident_warps = evidence.warps * min(evidence.blocks, evidence.per_sm)
    crowded = max(1.0, 8 / max(resident_warps, 1))
    atomics = [access for access in accesses if access.is_atomic]
    moved = {
        reads: sum(_dram_bytes(access) for access in accesses if access.reads is reads)
        for reads in (True, False)
    }
    waits = evidence.waiting_cycles / LOAD_LATENCY
    resources = evidence.resources
    return LaunchCounts(
        programs=programs,
        warps=evidence.warps,
        resident=evidence.blocks,
        instructions={"other": work.issue * crowded + evidence.spill_slots},
        macs={"16 group": work.matrix * evidence.gpu.tensor},
        flops=0.0,
        requests=sum(access.requests * access.times for access in accesses),
        sectors=sum(access.sectors * access.times for access in accesses),
        lines=sum(access.lines * access.times for access in accesses),
        own_sectors=work.cache / SECTOR,
        atomic_sectors=sum(access.sectors * access.times for access in atomics),
        partial_stores=work.partial,
        atomic_turns=max((evidence.turns_of(access) for access in atomics), default=0.0),
        read_bytes=moved[True] * programs,
        written_bytes=moved[False] * programs,
        wavefronts=work.shared,
        path=tuple(waits * latency for latency in LATENCIES),
        spilled=sum(evidence.spilled_bytes.values()) * evidence.warps,
        registers=0 if resources is None else resources.registers,
        shared_bytes=0 if resources is None else resources.shared_bytes,
        arguments=(),
        sampled=0,
        locked=sum(map(evidence.sections, accesses)),
    )


_OUTSIDE_OF_TENSOR_CORES = ("fma", "alu", "special", "double", "other")


def with_less(
    counts: LaunchCounts, ratios: Mapping[str, float], least_bytes: float
) -> LaunchCounts:
    """Return the counts of a launch whose programs have these ratios of their work.

    Args:
        ratios: resource of `Work` -> work after over work before.
    """
    ratio = {**dict.fromkeys(RESOURCES, 1.0), **ratios}
    # By default, requests that touch fewer lines also touch fewer sectors, and an access that takes
    # fewer wavefronts also takes fewer instructions.
    ratio["sectors"] = ratios.get("sectors", ratio["requests"])
    ratio["moves"] = ratios.get("moves", ratio["shared"])
    dram = ratio["dram"]
    if dram < 1:
        all_bytes = counts.read_bytes + counts.written_bytes
        dram = max(dram, min(least_bytes / all_bytes, 1.0)) if all_bytes else dram
    pipes = {**dict.fromkeys(_OUTSIDE_OF_TENSOR_CORES, ratio["issue"]), "shared": ratio["moves"]}
    lines = counts.lines * ratio["requests"]
    # Lines must not seem to be used less than before: that slows memory down.
    filled = min(4.0, counts.sectors / counts.lines) if counts.lines else 4.0
    sectors = max(counts.sectors * ratio["sectors"], min(counts.sectors, filled * lines))
    return replace(
        counts,
        instructions={
            pipe: often * pipes.get(pipe, 1.0) for pipe, often in counts.instructions.items()
        },
        macs={name: macs * ratio["matrix"] for name, macs in counts.macs.items()},
        requests=counts.requests * ratio["requests"],
        sectors=sectors,
        lines=lines,
        own_sectors=counts.own_sectors * ratio["cache"],
        atomic_sectors=counts.atomic_sectors * ratio["atomics"],
        atomic_turns=counts.atomic_turns * ratio["atomics"],
        partial_stores=counts.partial_stores * ratio["partial"],
        read_bytes=counts.read_bytes * dram,
        written_bytes=counts.written_bytes * dram,
        wavefronts=counts.wavefronts * ratio["shared"],
        conflicts=max(0.0, counts.conflicts - counts.wavefronts * (1 - ratio["shared"])),
        path=_shorter(counts.path, ratio["issue"], ratio["latency"]),
        arguments=tuple(
            replace(each, read=each.read * ratio["cache"], again=each.again * ratio["cache"])
            for each in counts.arguments
        ),
    )


def _shorter(path: tuple[float, ...], issue: float, latency: float) -> tuple[float, ...]:
    """Return a warp's path with instructions and waits, which grow with latency, scaled so."""
    slope = (path[-1] - path[0]) / (LATENCIES[-1] - LATENCIES[0])
    waits = [min(slope * cycles, whole) for cycles, whole in zip(LATENCIES, path)]
    return tuple(
        ((whole - waited) * issue + waited) * latency for whole, waited in zip(path, waits)
    )


def divided(counts: LaunchCounts, factor: float, *, path: bool = True) -> LaunchCounts:
    """Return the counts of a launch with `factor` times as many programs that share its work."""
    programs = max(round(counts.programs * factor), 1)
    each = counts.programs / programs
    names = (
        "flops", "requests", "sectors", "lines", "own_sectors", "atomic_sectors", "partial_stores",
        "wavefronts", "conflicts", "spilled",
    )  # fmt: skip
    less = {name: getattr(counts, name) * each for name in names}
    return replace(
        counts,
        programs=programs,
        instructions={name: often * each for name, often in counts.instructions.items()},
        macs={name: macs * each for name, macs in counts.macs.items()},
        path=tuple(cycles * each for cycles in counts.path) if path else counts.path,
        arguments=tuple(
            replace(
                demand,
                read=demand.read * each,
                written=demand.written * each,
                again=demand.again * each,
            )
            for demand in counts.arguments
        ),
        **less,
    )


class Costs:
    """The time of a launch by the estimate's model, and its time with less work.

    Args:
        least_bytes: what DRAM has to move whatever the accesses look like.
    """

    launch = CALIBRATION.launch
    """Microseconds of a launch that does nothing."""

    def __init__(self, counts: LaunchCounts, gpu: Gpu, work: Work, least_bytes: float) -> None:
        self.counts = counts
        self.work = work
        self._gpu = gpu
        self._least_bytes = least_bytes
        self.parts: Mapping[str, float] = {
            name: float(column[0])
            for name, column in Model([counts], gpu).parts(CALIBRATION).items()
        }
        """Part of the GPU -> microseconds that it is busy."""
        self.microseconds = self._time(counts)
        """The time of the launch: that of `compilation.estimate`, if the launch was sampled."""

    def _time(self, counts: LaunchCounts) -> float:
        return float(Model([counts], self._gpu).microseconds(CALIBRATION)[0])

    @property
    def bound(self) -> str:
        """The part that is busy the longest."""
        return max(self.parts, key=lambda name: self.parts[name])

    def saved_by(
        self, *, warps: int | None = None, resident: int | None = None, **after: float
    ) -> float:
        """Return the share saved, 0 to 1, if resources have this work: `saved_by(issue=slots / 2)`.

        Args:
            warps: of a program then; None means as many as now.
            resident: programs that fit on a multiprocessor then; None means as many as now.
            after: resource of `Work` -> its work then.
        """
        counts = self.with_work(**after)
        counts = replace(counts, warps=warps or counts.warps, resident=resident or counts.resident)
        return self.saved_with(counts)

    def with_work(self, **after: float) -> LaunchCounts:
        """Return the counts of the launch if a program's work on some resources is this."""
        ratios, matrix = {}, 0.0
        for name, value in after.items():
            before = float(getattr(self.work, name))
            if before > 0:
                ratios[name] = max(value, 0.0) / before
            elif name == "matrix":
                matrix = value
        counts = with_less(self.counts, ratios, self._least_bytes)
        macs = counts.macs.get("16 group", 0.0) + matrix * self._gpu.tensor
        return replace(counts, macs={**counts.macs, "16 group": macs}) if matrix else counts

    def saved_leaving(
        self, left: float, *resources: str, waits: float | None = None, **after: float
    ) -> float:
        """Return the same if a program executed this share of its instructions, with this share of
        its work on some resources, and its work on others were as in `saved_by`. Of the waits for
        loads, `waits` are left; None means the same share.
        """
        less = {name: getattr(self.work, name) * left for name in resources}
        counts = self.with_work(**less, **after)
        instructions = {pipe: often * left for pipe, often in self.counts.instructions.items()}
        waits = left if waits is None else waits
        path = _shorter(self.counts.path, left / waits, waits)
        return self.saved_with(replace(counts, instructions=instructions, path=path))

    def saved_with(self, counts: LaunchCounts) -> float:
        """Return the share of the time that is saved if the launch had these counts."""
        return max(1.0 - self._time(counts) / self.microseconds, 0.0)

    def saved_ahead(self, waits: float, ahead: int) -> float:
        """Return the same if a warp made these `waits` for loads so many iterations later."""
        counts = self.counts
        path = tuple(
            max(cycles - waits * latency, waits * latency / ahead)
            for cycles, latency in zip(counts.path, LATENCIES)
        )
        return self.saved_with(replace(counts, path=path))

    def saved_without_spills(self, slots: float) -> float:
        """Return the same if no register were spilled.

        Args:
            slots: issue slots of a program that go to local memory, waits included.
        """
        kept = self.work.issue / (self.work.issue + slots)
        counts = replace(self.counts, spilled=0.0)
        return self.saved_with(with_less(counts, {"issue": kept, "latency": kept}, 0.0))
