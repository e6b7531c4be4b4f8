"""`compilation.estimate` and `compilation.roofline`: a launch, counted with no GPU, and what that
takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernellab.common.argument_checks import check_duration
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.binding import BoundCall, bind
from kernellab.errors import ArgumentError, MissingArguments, NotRecorded
from kernellab.interpreter.execution.grid import check_grid
from kernellab.launch.argument_copies import tensors_in
from kernellab.profiling.estimates.calibration import CALIBRATION, MEDIAN_ERROR
from kernellab.profiling.estimates.counting import SECTOR, LaunchCounts, count
from kernellab.profiling.estimates.hardware import Gpu, gpu_of
from kernellab.profiling.estimates.model import Model
from kernellab.profiling.estimates.records import Estimate, Part, Roof, Roofline
from kernellab.profiling.estimates.sampling import with_memory
from kernellab.records import Compilation


@dataclass(frozen=True)
class _Counted:
    """A launch of a compilation, counted."""

    kernel: str
    gpu: Gpu
    grid: tuple[int, int, int]
    counts: LaunchCounts
    notes: tuple[str, ...]


SECONDS = 0.2
"""How long programs of a sample run, where the first few have not taken longer."""


def estimate(
    compilation: Compilation,
    grid: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    gpu: str | None = None,
) -> Estimate:
    """See `Compilation.estimate`."""
    found = _counted(compilation, grid, args, keywords, gpu)
    return estimate_of(found.counts, found.gpu, found.kernel, found.grid, found.notes)


def estimate_of(
    counts: LaunchCounts,
    gpu: Gpu,
    kernel: str,
    grid: tuple[int, int, int],
    notes: tuple[str, ...] = (),
) -> Estimate:
    """The estimate of a launch that was counted."""
    model = Model([counts], gpu)
    times = {name: float(found[0]) for name, found in model.parts(CALIBRATION).items()}
    least, words = _at_least(counts, gpu), _in_words(counts)
    parts = [
        Part(name, max(took, least.get(name, 0.0)), least.get(name, 0.0), words.get(name, ""))
        for name, took in times.items()
    ]
    return Estimate(
        kernel,
        gpu,
        grid,
        float(model.microseconds(CALIBRATION)[0]),
        tuple(sorted(parts, key=lambda one: -one.microseconds)),
        counts,
        MEDIAN_ERROR,
        notes,
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
        check_duration("microseconds", microseconds, 52.6, "time in microseconds")
    found = _counted(compilation, grid, args, keywords, gpu)
    return roofline_of(found, microseconds)


def roofline_of(found: _Counted, microseconds: float | None) -> Roofline:
    """The roofline of a launch that was counted."""
    counts, of = found.counts, found.gpu
    took = microseconds
    if took is None:
        took = estimate_of(counts, of, found.kernel, found.grid).microseconds
    return Roofline(
        found.kernel,
        of,
        found.grid,
        tuple(_operations(counts, of)),
        tuple(
            Roof(name, rate, amount)
            for name, rate, amount in (
                ("L1", of.clocks * of.multiprocessors * 128, counts.sectors * _all(counts)),
                ("L2", of.cache_peak, counts.own_sectors * _all(counts)),
                ("DRAM", of.dram, counts.read_bytes + counts.written_bytes),
            )
        ),
        {name: often * counts.programs for name, often in counts.instructions.items()},
        float(took),
        "estimated" if microseconds is None else "given",
        found.notes,
    )


def _all(counts: LaunchCounts) -> float:
    """Bytes of a sector that each program asks for."""
    return float(SECTOR * counts.programs)


_OPERANDS = {"16": "16 bits", "8": "8 bits", "32": "tf32", "4": "4 bits", "1": "1 bit"}


def _operations(counts: LaunchCounts, gpu: Gpu) -> list[Roof]:
    """By the unit that does them; those that a launch has none of are left out."""
    found: dict[str, Roof] = {}
    for name, macs in counts.macs.items():
        bits = name.partition(" ")[0]
        if bits == "64":
            title, peak = "tensor cores, fp64", 2 * gpu.peak("fp64")
        else:
            title, peak = f"tensor cores, {_OPERANDS.get(bits, bits)}", gpu.peak(bits)
        before = found[title].amount if title in found else 0.0
        found[title] = Roof(title, peak, before + 2 * macs * counts.programs)
    if counts.flops:
        name = "fp64" if counts.instructions.get("double") else "fp32"
        found[name] = Roof(f"{name} units", gpu.peak(name), counts.flops * counts.programs)
    return list(found.values())


def _at_least(counts: LaunchCounts, gpu: Gpu) -> Mapping[str, float]:
    """The bound by each part that a data sheet has a rate of."""
    found = {"DRAM": (counts.read_bytes + counts.written_bytes) / gpu.dram}
    for one in _operations(counts, gpu):
        part = "tensor cores" if one.name.startswith("tensor") else "floating-point units"
        found[part] = max(found.get(part, 0.0), one.microseconds)
    slots = sum(counts.instructions.values()) / 4 * counts.programs
    found["instruction issue"] = slots / gpu.multiprocessors / gpu.clocks
    return found


def _in_words(counts: LaunchCounts) -> Mapping[str, str]:
    many = counts.programs
    pipes = {name: f"{often * many:,.0f}" for name, often in counts.instructions.items()}
    total = sum(counts.instructions.values()) * many
    macs = ", ".join(
        f"{found * many:,.0f} multiply-adds of {name.partition(' ')[0]} bits"
        for name, found in counts.macs.items()
    )
    return {
        "DRAM": f"{counts.read_bytes:,.0f} bytes read, {counts.written_bytes:,.0f} written",
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
    }


# The launch


def _counted(
    compilation: Compilation,
    grid: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    gpu: str | None,
) -> _Counted:
    chosen = gpu_of(compilation.target, gpu)
    kernel = compilation.provider.kernel
    if kernel is None:
        raise NotRecorded(
            f"The record of {compilation.kernel!r} has no kernel to run a few programs of.",
            advice="Compile the kernel here: kernellab.compile(kernel, ...).estimate(grid, ...).",
        )
    given = _values(compilation, kernel, args, keywords)
    call = BoundCall(compilation.specialization, with_memory(given), {})
    sizes = check_grid(grid, call.values)
    whole = _with_lines(compilation, kernel)
    counts = count(whole, kernel, sizes, call, SECONDS)
    return _Counted(compilation.kernel, chosen, sizes, counts, _notes(given))


def _with_lines(compilation: Compilation, kernel: Any) -> Compilation:
    """A compilation whose machine code names lines of its TTGIR: this one, or the same again."""
    if ("ttgir", "sass") in compilation.source_map.links:
        return compilation
    call = BoundCall(compilation.specialization, {}, compilation.provider.options)
    return compile_bound(kernel, call, compilation.target, ttgir_lines=True)


def _values(
    compilation: Compilation, kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The launch's arguments by name, with what was compiled in.

    Raises:
        MissingArguments: some are not there.
        ArgumentError: one too many, of a name that the kernel does not have, of another type than
            the kernel was compiled for, or of which only the type is known.
    """
    names = list(kernel.arg_names)
    if len(args) > len(names):
        raise ArgumentError(f"{kernel.__name__!r} takes {len(names)} arguments, not {len(args)}")
    given = {**dict(zip(names, args)), **keywords}
    if unknown := [name for name in given if name not in names]:
        raise ArgumentError(
            f"{kernel.__name__!r} has no parameter {unknown[0]!r}",
            advice="Options such as num_warps are the compilation's: compile it with them.",
        )
    signature = compilation.specialization.signature
    constants = {
        names[path[0]]: value
        for path, value in compilation.specialization.constants.items()
        if len(path) == 1
    }
    found: dict[str, Any] = {}
    for name in names:
        if signature.get(name) == "constexpr" or (name not in given and name in constants):
            found[name] = constants.get(name, given.get(name))
        elif name in given:
            found[name] = given[name]
    missing = [name for name in names if name not in found]
    if missing:
        raise MissingArguments(
            f"{kernel.__name__!r} also takes {', '.join(missing)}", others=missing
        )
    for name, value in found.items():
        if isinstance(value, str) and signature.get(name) != "constexpr":
            raise ArgumentError(
                f"of {name!r} only the type is known, {value!r}: how much memory there is, and how "
                "often loops run, depend on the value",
                advice=(
                    'Give sizes as numbers, and tensors without values: torch.empty(shape, device="'
                    'meta").'
                ),
            )
    for name, value in found.items():
        _check_has_elements(kernel, name, value, signature.get(name, "constexpr"))
    _check_types(compilation, kernel, found)
    return found


def _check_has_elements(kernel: Any, name: str, value: Any, type: str) -> None:
    """Refuse what stands for no number and for no tensor of elements side by side."""
    if value is None and type != "constexpr":
        raise ArgumentError(
            f"{name!r} is None, and {kernel.__name__!r} was compiled for {type}",
            advice="Give the value of the launch.",
        )
    if isinstance(value, torch.Tensor) and (value.is_nested or value.layout is not torch.strided):
        kind = "a nested tensor" if value.is_nested else f"a tensor in the layout {value.layout}"
        raise ArgumentError(
            f"{name!r} is {kind}, whose elements do not lie side by side",
            advice="Pass the tensors that it is made of, such as x.values().",
        )


def _check_types(compilation: Compilation, kernel: Any, values: Mapping[str, Any]) -> None:
    signature = compilation.specialization.signature
    tried = bind(kernel, (), with_memory(values), compilation.target).specialization.signature
    for name, type in signature.items():
        other = tried.get(name, type)
        if "constexpr" not in (type, other) and other != type:
            raise ArgumentError(
                f"{name!r} is {other}, and {kernel.__name__!r} was compiled for {type}",
                advice="Compile it for these arguments.",
            )


def _notes(values: Mapping[str, Any]) -> tuple[str, ...]:
    """What is not known of the launch."""
    unseen = [name for name, tensor in tensors_in(values) if tensor.device.type != "cpu"]
    if not unseen:
        return ()
    return (
        f"Values of {', '.join(unseen)} are not looked at: where addresses, masks or loops depend "
        "on them, they stand as zeros.",
    )
