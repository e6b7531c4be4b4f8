"""The budgets of kernels in a file such as kernels.lock: what each kernel costs, how each pass of
the compiler left it, and what its lines became.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kernellab.common.saved_files import Format, RecordReader, reading, regular_bytes
from kernellab.common.system import save_whole
from kernellab.common.text import number_text
from kernellab.compiler.compare import merged, operations_by_line, without_locations
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.resources import has_limits
from kernellab.compiler.pipeline import compile_bound
from kernellab.errors import ArgumentError, Diagnostic, SourcePosition, TargetError, source_lines
from kernellab.judging.records import JudgedKernel
from kernellab.judging.replay import RecordedLaunch
from kernellab.judging.submissions import name_of
from kernellab.profiling.accesses.counts import accesses
from kernellab.records import BoundLaunch, Target

FORMAT = Format("kernellab.lock", "lock", advice="kernellab judge --update FILE writes one.")

_READER = RecordReader()
_STAGES = ("ttir", "ttgir", "ptx", "amdgcn")
"""The stages whose operations are compared line by line."""
_SLACK = 1.02
"""How much longer the estimated time may be, since it is the sum of rounded parts."""


@dataclass(frozen=True)
class KernelCost(JudgedKernel):
    """The costs of a kernel's launch on a target; sizes are None if they are not known.

    Attributes:
        instructions: of the machine code.
        sectors: of 32 bytes that the launch moves between global memory and its warps.
        microseconds: the estimated time.
        passes: for each pass that changed the module, a digest of the module after it.
        lines: for each line of the kernel, a digest of its operations in each stage.
    """

    instructions: int | None = None
    sectors: int | None = None
    microseconds: float | None = None
    passes: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)


_MEASURES = {
    "registers": "registers", "spilled_bytes": "spilled bytes", "shared_bytes": "shared bytes",
    "instructions": "instructions", "sectors": "sectors", "microseconds": "us",
}  # fmt: skip


def cost_of(launch: RecordedLaunch, target: Target) -> KernelCost:
    """Return what a launch costs on a target, whose memory holds the inputs.

    Raises:
        KernelLabError: the kernel does not compile, or it has a fault.
    """
    made = compile_bound(launch.kernel, launch.call, target, record="passes")
    values = {**launch.call.values, **launch.call.options}
    sectors: int | None = None
    microseconds: float | None = None
    try:
        counted = accesses(BoundLaunch(launch.kernel, launch.grid, (), values), target=target)
        sectors = sum(access.sectors for access in counted.accesses)
        estimate = made.estimate(launch.grid, **launch.call.values)
        microseconds = float(f"{estimate.microseconds:.4g}")
    except TargetError:  # AMD's accesses are not counted
        pass
    return KernelCost(
        str(launch.kernel.__name__), str(target), instructions=len(made.instructions),
        sectors=sectors, microseconds=microseconds, passes=_passes(made), lines=_lines(made),
        **facts_of(made),
    )  # fmt: skip


def facts_of(made: Compilation) -> dict[str, Any]:
    """Return what a compiled kernel takes, by the fields of `JudgedKernel`."""
    used, stages = made.resources, made.stages
    occupancy = round(made.occupancy().fraction, 4) if has_limits(made.target) else None
    code = next((stages[name].text for name in ("ptx", "amdgcn") if name in stages), None)
    uses_tensor_cores = None if code is None else _MATRIX.search(code) is not None
    return {
        "registers": used.registers, "spilled_bytes": used.spills,
        "shared_bytes": used.shared_bytes, "occupancy": occupancy,
        "uses_tensor_cores": uses_tensor_cores,
    }  # fmt: skip


_MATRIX = re.compile(r"^\s*(?:@!?%\w+ )?(?:wgmma|mma|tcgen05\.mma)\.|^\s*v_s?w?(?:mfma|mma)", re.M)
"""A matrix instruction in PTX, whose disassembly would take longer, or in AMD's assembly."""


def _passes(made: Compilation) -> dict[str, str]:
    return {
        run.label: _digest(without_locations(run.text.read())) for run in made.passes if run.changed
    }


def _lines(made: Compilation) -> dict[str, str]:
    stages = [operations_by_line(made, name) for name in _STAGES if name in made.stages]
    lines = dict.fromkeys(line for stage in stages for line in stage)
    return {
        line: " ".join(_digest(repr(sorted(stage.get(line, {}).items()))) for stage in stages)
        for line in lines
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# The file


@dataclass(frozen=True)
class Lock:
    """The entry of a submission in a lock.

    Attributes:
        path: of the file.
        submission: "FILE::NAME", or an object.
        updates: whether to write the entry.
    """

    path: Path
    submission: Any
    updates: bool = False

    @property
    def name(self) -> str:
        """The name of the entry, the same wherever the folder of the lock is."""
        if not isinstance(self.submission, str):
            return name_of(self.submission)
        file, _, name = self.submission.partition("::")
        return f"{os.path.relpath(file, self.path.absolute().parent)}::{name}"

    def entries(self) -> dict[str, tuple[KernelCost, ...]]:
        """Return what the submissions in the file cost; nothing if it is to be written first.

        Raises:
            ArgumentError: there is no such file, or no folder for it.
            ArchiveError: it is not a lock.
        """
        name = str(self.path)
        if self.updates and not self.path.exists() and self.path.absolute().parent.is_dir():
            return {}
        try:
            content = regular_bytes(self.path)
        except OSError as error:
            raise ArgumentError(
                f"The lock {name!r} cannot be read: {error.strerror}.", advice=FORMAT.advice
            ) from error
        with reading(name, FORMAT.advice):
            data = FORMAT.unpacked(content, name)["submissions"]
            read: dict[str, tuple[KernelCost, ...]] = _READER.read(
                Mapping[str, tuple[KernelCost, ...]], data
            )
        return read

    def examined(
        self, costs: Sequence[KernelCost], places: Mapping[str, SourcePosition]
    ) -> Diagnostic | str | None:
        """Write what a submission costs, or compare it.

        Args:
            costs: of each launch, in their order.
            places: the definition of each kernel.

        Returns:
            The diagnostic of the first launch that costs more than the lock allows; a sentence if
            the lock does not have the submission.
        """
        known = self.entries()
        if self.updates:
            submissions = dict(sorted({**known, self.name: tuple(costs)}.items()))
            data = json.loads(FORMAT.text(triton=version("triton"), submissions=submissions))
            save_whole(self.path, json.dumps(data, indent=1).encode() + b"\n", ArgumentError)
            return None
        if self.name not in known:
            return f"the lock: {self.path} has no entry for {self.name}"
        return _regression(self.path, known[self.name], costs, places)


# What is worse than it was


def _regression(
    path: Path,
    before: Sequence[KernelCost],
    now: Sequence[KernelCost],
    places: Mapping[str, SourcePosition],
) -> Diagnostic | None:
    """Return the diagnostic of the first launch that costs more than it did, with the first pass
    and line that differ; None if there is none.
    """
    waiting: dict[tuple[str, str], list[KernelCost]] = {}
    for known in before:
        waiting.setdefault((known.name, known.target), []).append(known)
    for cost in now:
        for known in waiting.get((cost.name, cost.target), [])[:1]:
            waiting[cost.name, cost.target].remove(known)
            worse = [*filter(None, (_worse(name, known, cost) for name in _MEASURES))]
            if worse:
                return Diagnostic(
                    "error",
                    "regression",
                    f"{cost.name} takes {' and '.join(worse)} on {cost.target}",
                    _place(known, cost, places[cost.name]),
                    why=_first_pass(known, cost),
                    advice=f"Change the kernel; or accept it: kernellab judge --update {path}.",
                )
    return None


def _worse(name: str, known: KernelCost, cost: KernelCost) -> str:
    allowed, taken = getattr(known, name), getattr(cost, name)
    slack = _SLACK if name == "microseconds" else 1.0
    if allowed is None or taken is None or taken <= slack * allowed:
        return ""
    return f"{number_text(taken)} {_MEASURES[name]} (allowed: {number_text(allowed)})"


def _first_pass(known: KernelCost, cost: KernelCost) -> str:
    left = right = ""
    for label in merged(list(known.passes), list(cost.passes)):
        left, right = known.passes.get(label, left), cost.passes.get(label, right)
        if left != right:
            return f"The first pass after which the module differs is {label}."
    return "The module is the same after every pass."


def _place(known: KernelCost, cost: KernelCost, place: SourcePosition) -> SourcePosition:
    """Return the first line whose operations differ, else the place of the kernel."""
    lines = (line for line, digests in cost.lines.items() if known.lines.get(line) != digests)
    line = next(lines, None)
    texts = enumerate(source_lines(place.file), 1)
    numbers = (number for number, text in texts if number >= place.line and text.strip() == line)
    return SourcePosition(place.file, next(numbers, place.line))
