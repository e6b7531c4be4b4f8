"""`compilation.estimate` and `.roofline`: a launch's time, and its roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from kernellab.common.arguments import check_duration
from kernellab.common.text import joined_sizes, time_text
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import GPUS, Gpu
from kernellab.errors import ArgumentError, MissingArguments, NotRecorded
from kernellab.interpreter.execution.grid import check_grid
from kernellab.launch.argument_copies import tensors_in
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.accesses.requests import SECTOR
from kernellab.profiling.estimates.counts import LaunchCounts, count, with_memory
from kernellab.profiling.estimates.model import (
    CALIBRATED,
    CALIBRATION,
    MEDIAN_ERROR,
    Model,
    estimated_gpu,
    notes_on,
    refetched,
)
from kernellab.records.display import HasCard, data_frame, plot
from kernellab.triton_api import TTGIR_FILE_SUFFIX


@dataclass(frozen=True)
class BusyPart:
    """One part of the GPU: how long it is busy with the launch."""

    name: str
    """ "DRAM", "tensor cores", "latency", ..."""
    microseconds: float
    """The time if it were the only part: the count over the rate that kernels reach."""
    at_least: float
    """The same at the data sheet's rate: no launch is faster. 0 if no data sheet has a rate."""
    counted: str
    """The counts, in words: "16,777,216 bytes read, 8,388,608 written"."""


@dataclass(frozen=True)
class Estimate(HasCard):
    """A launch's estimated time, counted with no GPU; see `docs/estimates.md`."""

    kernel: str
    gpu: Gpu
    grid: tuple[int, int, int]
    microseconds: float
    parts: tuple[BusyPart, ...]
    """The longest first."""
    counts: LaunchCounts = field(repr=False)
    error: float
    """The median of |estimate / time - 1| on kernels outside the calibration: 0.1 is 10 percent."""
    notes: tuple[str, ...] = ()
    """Unknown facts, and the assumptions in their place."""
    accesses: Accesses | None = field(default=None, repr=False, compare=False)
    """Of the programs that ran, as those of a launch of so many programs."""

    @property
    def limiting(self) -> BusyPart:
        """The part that is busy the longest."""
        return self.parts[0]

    @property
    def lower_bound(self) -> float:
        """Microseconds that no launch is faster than, by the data sheet's rates."""
        return max(part.at_least for part in self.parts)

    @property
    def bound(self) -> str:
        """Which part bounds the launch, and the bound, in words."""
        most = max(self.parts, key=lambda part: part.at_least)
        words = f"{self.limiting.name}, busy for about {time_text(self.limiting.microseconds)}"
        if not most.at_least:
            return words
        return f"{words}; no launch is faster than {time_text(most.at_least)} ({most.name})"

    @property
    def accuracy(self) -> str:
        """How far to trust it, in words."""
        words = (
            f"an estimate, not measured: its median error is {self.error:.0%} on held-out kernels "
            f"on an {GPUS[CALIBRATED].name}"
        )
        if self.gpu.name.lower() != CALIBRATED:
            words += f"; scaled to {self.gpu.name} by its data sheet, and not tested there"
        return words

    def __str__(self) -> str:
        lines = [
            f"{self.kernel} on {self.gpu}, grid {joined_sizes(self.grid)}: about "
            f"{time_text(self.microseconds)}",
            f"  {self.accuracy}",
            f"  bound by {self.bound}",
            *(
                f"  {part.name}: {time_text(part.microseconds)} ({part.counted})"
                for part in self.parts
                if part.microseconds >= 0.05 * self.limiting.microseconds
            ),
            *(f"  {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def table(self) -> Any:
        """One row per part, as a pandas DataFrame."""
        return data_frame(self.parts, ("name", "microseconds", "at_least", "counted"))

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON has."""
        plain = asdict(replace(self, accesses=None))
        return {**plain, "bound": self.bound, "lower_bound": self.lower_bound}


@dataclass(frozen=True)
class Roof:
    """A limit of a GPU: operations, or bytes of one level of memory, a microsecond."""

    name: str
    peak: float
    amount: float
    """The operations or bytes of the launch."""

    @property
    def microseconds(self) -> float:
        """The least time of the launch, because of it."""
        return self.amount / self.peak


@dataclass(frozen=True)
class Roofline(HasCard):
    """A launch under the roofs of a GPU: operations, bytes by level, and its place if timed."""

    kernel: str
    gpu: Gpu
    grid: tuple[int, int, int]
    operations: tuple[Roof, ...]
    """Floating-point and matrix operations by the unit that does them."""
    memory: tuple[Roof, ...]
    """Bytes by level: L1, L2, DRAM."""
    instructions: Mapping[str, float]
    """Instructions of warps by unit."""
    microseconds: float
    """Measured, or estimated."""
    time_from: str
    """ "estimated", or "given"."""
    notes: tuple[str, ...] = ()

    @property
    def total_operations(self) -> float:
        return sum(operation.amount for operation in self.operations)

    @property
    def intensity(self) -> Mapping[str, float]:
        """Level -> operations for each byte there."""
        return {
            level.name: self.total_operations / level.amount
            for level in self.memory
            if level.amount
        }

    @property
    def rate(self) -> float:
        """TFLOP/s that the time means."""
        return self.total_operations / self.microseconds / 1e6

    @property
    def highest(self) -> Roof:
        """The roof that the launch meets first: the one that takes the longest."""
        return max((*self.operations, *self.memory), key=lambda roof: roof.microseconds)

    @property
    def reached(self) -> float:
        """The share of that roof that the time reaches: 1.0 is the GPU's peak."""
        return self.highest.microseconds / self.microseconds

    def __str__(self) -> str:
        lines = [
            f"{self.kernel} on {self.gpu}, grid {joined_sizes(self.grid)}",
            *(
                f"  {operation.name}: {operation.amount:,.0f} operations, "
                f"at least {time_text(operation.microseconds)}"
                for operation in self.operations
            ),
            *(
                f"  {level.name}: {level.amount:,.0f} bytes, at least "
                f"{time_text(level.microseconds)}, "
                f"{self.intensity[level.name]:.3g} operations a byte"
                for level in self.memory
                if level.amount
            ),
            (
                f"  {time_text(self.microseconds)} ({self.time_from}): {self.rate:.3g} TFLOP/s, "
                f"{self.reached:.0%} of what {self.highest.name} allows"
            ),
            *(f"  {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def table(self) -> Any:
        """One row per roof, as a pandas DataFrame."""
        return data_frame(
            (*self.operations, *self.memory), ("name", "amount", "peak", "microseconds")
        )

    def plot(self) -> Any:
        """The roofs and the launch under them: as the last expression of a cell it is displayed."""
        return plot(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON has."""
        return {**asdict(self), "intensity": dict(self.intensity), "reached": self.reached}


def estimate(
    compilation: Compilation,
    grid: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    gpu: str | None = None,
) -> Estimate:
    """See `Compilation.estimate`."""
    chosen = estimated_gpu(compilation.target, gpu)
    kernel = compilation.sources.kernel
    if kernel is None:
        raise NotRecorded(
            "An estimate runs a few programs of the kernel, but the saved compilation of "
            f"{compilation.kernel!r} does not contain it.",
            advice="Compile the kernel here: kernellab.compile(kernel, ...).estimate(grid, ...).",
        )
    given = _values(compilation, kernel, args, keywords)
    call = BoundCall(compilation.specialization, with_memory(given), {})
    sizes = check_grid(grid, call.values)
    whole = _with_lines(compilation, kernel)
    counts, accesses = count(whole, kernel, sizes, call)
    model = Model([counts], chosen)
    least, words = bounds_of(counts, chosen), _in_words(counts, chosen)
    parts = [
        BusyPart(
            name, max(float(took[0]), bound := least.get(name, 0.0)), bound, words.get(name, "")
        )
        for name, took in model.parts(CALIBRATION).items()
    ]
    return Estimate(
        compilation.kernel,
        chosen,
        sizes,
        float(model.microseconds(CALIBRATION)[0]),
        tuple(sorted(parts, key=lambda part: -part.microseconds)),
        counts,
        MEDIAN_ERROR,
        (*notes_on(chosen), *_notes(given)),
        accesses,
    )


def roofline(
    compilation: Compilation,
    grid: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    gpu: str | None = None,
    microseconds: float | None = None,
) -> Roofline:
    """See `Compilation.roofline`."""
    if microseconds is not None:
        check_duration("microseconds", microseconds, 52.6, "microseconds")
    estimated = estimate(compilation, grid, args, keywords, gpu)
    counts, of = estimated.counts, estimated.gpu
    every_sector = float(SECTOR * counts.programs)
    return Roofline(
        estimated.kernel,
        of,
        estimated.grid,
        tuple(_operations(counts, of)),
        tuple(
            Roof(name, rate, amount)
            for name, rate, amount in (
                ("L1", of.clocks * of.multiprocessors * 128, counts.sectors * every_sector),
                ("L2", of.cache_peak, counts.own_sectors * every_sector),
                ("DRAM", of.dram, counts.read_bytes + counts.written_bytes),
            )
            if rate is not None
        ),
        {name: often * counts.programs for name, often in counts.instructions.items()},
        float(estimated.microseconds if microseconds is None else microseconds),
        "estimated" if microseconds is None else "given",
        estimated.notes,
    )


_OPERANDS = {"16": "16 bits", "8": "8 bits", "32": "tf32", "4": "4 bits", "1": "1 bit"}


def _operations(counts: LaunchCounts, gpu: Gpu) -> list[Roof]:
    """The roofs by unit; units without operations are left out."""
    roofs: dict[str, Roof] = {}
    for name, macs in counts.macs.items():
        bits = name.partition(" ")[0]
        if bits == "64":
            title, peak = "tensor cores, fp64", 2 * gpu.peak("fp64")
        else:
            title, peak = f"tensor cores, {_OPERANDS.get(bits, bits)}", gpu.peak(bits)
        before = roofs[title].amount if title in roofs else 0.0
        roofs[title] = Roof(title, peak, before + 2 * macs * counts.programs)
    if counts.flops:
        name = "fp64" if counts.instructions.get("double") else "fp32"
        roofs[name] = Roof(f"{name} units", gpu.peak(name), counts.flops * counts.programs)
    return list(roofs.values())


def bounds_of(counts: LaunchCounts, gpu: Gpu) -> Mapping[str, float]:
    """The bound of each part with a known rate; what L2 holds may be written back later."""
    kept = counts.written_bytes if gpu.cache_bytes is None else gpu.cache_bytes
    bounds = {"DRAM": (counts.read_bytes + max(counts.written_bytes - kept, 0)) / gpu.dram}
    faster = (gpu.highest_clock or gpu.clock) / gpu.clock
    for operation in _operations(counts, gpu):
        if operation.name.startswith("tensor"):
            took = operation.microseconds / faster
            bounds["tensor cores"] = max(bounds.get("tensor cores", 0.0), took)
    each = counts.programs / gpu.multiprocessors / gpu.clocks / faster
    pipes = counts.instructions
    lanes = (pipes.get("fma", 0.0) / gpu.fp32, pipes.get("double", 0.0) / gpu.double)
    bounds["floating-point units"] = each * 32 * max(lanes)
    bounds["instruction issue"] = each * sum(pipes.values()) / 4
    return bounds


def _in_words(counts: LaunchCounts, gpu: Gpu) -> Mapping[str, str]:
    many, again = counts.programs, refetched(counts, gpu)
    lost = f" and {again:,.0f} again that L2 lost" if again >= 1 else ""
    pipes = {name: f"{often * many:,.0f}" for name, often in counts.instructions.items()}
    total = sum(counts.instructions.values()) * many
    macs = ", ".join(
        f"{done * many:,.0f} multiply-adds of {name.partition(' ')[0]} bits"
        for name, done in counts.macs.items()
    )
    return {
        "DRAM": (f"{counts.read_bytes:,.0f} bytes read{lost}, {counts.written_bytes:,.0f} written"),
        "L2": f"{counts.own_sectors * many:,.0f} sectors of 32 bytes",
        "loads and stores (L1)": (
            f"{counts.requests * many:,.0f} requests for {counts.lines * many:,.0f} lines, "
            f"{counts.wavefronts * many:,.0f} wavefronts of shared memory"
        ),
        "tensor cores": macs or "nothing to do",
        "instruction issue": f"{total:,.0f} instructions of warps",
        "integer and logic units": f"{pipes.get('alu', '0')} instructions of warps",
        "floating-point units": f"{pipes.get('fma', '0')} instructions of warps",
        "special functions": f"{pipes.get('special', '0')} instructions of warps",
        "latency": (
            f"{many:,} programs, {counts.resident} at once on a multiprocessor, "
            f"{counts.path[0]:,.0f} cycles each where loads take 200"
        ),
        "starting programs": f"{many:,} programs of {counts.warps} warps",
        "atomics": f"{counts.atomic_sectors * many:,.0f} sectors",
        "stores of parts of sectors": f"{counts.partial_stores * many:,.0f} lines",
    }


def _with_lines(compilation: Compilation, kernel: Any) -> Compilation:
    """A compilation whose machine code names lines of its TTGIR: this one, or the same again."""
    stages = compilation.stages
    if "ptx" in stages and TTGIR_FILE_SUFFIX in stages["ptx"].text:
        return compilation  # SASS has the lines of the PTX, and takes long to disassemble
    made_for = compilation.sources.call
    assert made_for is not None, "the kernel is at hand"
    call = BoundCall(compilation.specialization, {}, made_for.options)
    return compile_bound(kernel, call, compilation.target, ttgir_lines=True)


def named(
    kernel: str, names: Sequence[str], args: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return arguments by name. Raises ArgumentError: there is one too many, or an unknown one."""
    if len(args) > len(names):
        raise ArgumentError(
            f"{kernel!r} takes {len(names)} arguments, got {len(args)}.",
            advice="Remove the extra arguments.",
        )
    if unknown := [name for name in keywords if names and name not in names]:
        raise ArgumentError(
            f"{kernel!r} has no parameter {unknown[0]!r}.",
            advice=f"Its parameters are {', '.join(names)}. Pass options such as num_warps to "
            "kernellab.compile.",
        )
    return {**dict(zip(names, args)), **keywords}


def _values(
    compilation: Compilation, kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The launch's arguments by name, with what was compiled in. Raises ArgumentError: one is not
    there, or one too many, unknown, of another type, or of which only the type is known.
    """
    names = list(kernel.arg_names)
    given = named(kernel.__name__, names, args, keywords)
    signature = compilation.specialization.signature
    constants = compilation.specialization.constants_by_name
    values: dict[str, Any] = {}
    for name in names:
        if signature.get(name) == "constexpr" or (name not in given and name in constants):
            values[name] = constants.get(name, given.get(name))
        elif name in given:
            values[name] = given[name]
    missing = [name for name in names if name not in values]
    if missing:
        raise MissingArguments(
            f"{kernel.__name__!r} is missing {', '.join(missing)}.", others=missing
        )
    for name, value in values.items():
        if isinstance(value, str) and signature.get(name) != "constexpr":
            raise ArgumentError(
                f"Only the type of {name!r} is known, {value!r}: sizes of memory and iterations of "
                "loops depend on its value.",
                advice=(
                    'Pass sizes as numbers, and tensors without values: torch.empty(shape, device="'
                    'meta").'
                ),
            )
    for name, value in values.items():
        _check_has_elements(kernel, name, value, signature.get(name, "constexpr"))
    _check_types(compilation, kernel, values)
    return values


def _check_has_elements(kernel: Any, name: str, value: Any, type: str) -> None:
    """Raise ArgumentError for None, and for tensors that are not strided."""
    if value is None and type != "constexpr":
        raise ArgumentError(
            f"{name!r} is None, but {kernel.__name__!r} was compiled for {type}.",
            advice="Pass the value that the launch uses.",
        )
    if isinstance(value, torch.Tensor) and (value.is_nested or value.layout is not torch.strided):
        kind = "a nested tensor" if value.is_nested else f"a tensor in the layout {value.layout}"
        raise ArgumentError(
            f"{name!r} is {kind}, whose elements are not strided.",
            advice="Pass the tensors that it is made of, such as x.values().",
        )


def _check_types(compilation: Compilation, kernel: Any, values: Mapping[str, Any]) -> None:
    signature = compilation.specialization.signature
    tried = bind(kernel, (), with_memory(values), compilation.target).specialization.signature
    for name, type in signature.items():
        other = tried.get(name, type)
        if "constexpr" not in (type, other) and other != type:
            raise ArgumentError(
                f"{name!r} is {other}, but {kernel.__name__!r} was compiled for {type}.",
                advice="Compile it for these arguments.",
            )


def _notes(values: Mapping[str, Any]) -> tuple[str, ...]:
    unseen = [name for name, tensor in tensors_in(values) if tensor.device.type != "cpu"]
    if not unseen:
        return ()
    return (
        f"The values of {', '.join(unseen)} are not known: where addresses, masks or loops depend "
        "on them, they are taken as zeros.",
    )
