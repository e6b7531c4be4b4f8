"""Another num_stages of a loop, tried: the compiler shows whether it changes the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.compiler.passes import without_locations
from kernellab.compiler.source_map import module_frames
from kernellab.errors import KernelLabError
from kernellab.profiling.diagnosis.evidence import Evidence, Loop
from kernellab.triton_api.pipeline import allocated

_OWN = re.compile(r"tt\.num_stages = ")
_END = re.compile(r"\s*\}(?: \{(.*)\})?(?= loc\()")
"""The last line of a loop in TTIR, which has its attributes."""


@dataclass(frozen=True)
class Staged:
    """A kernel that was compiled with another num_stages of a loop, up to its shared memory.

    Attributes:
        advice: where to write it, as a sentence.
        shared_bytes: what a program then takes.
    """

    advice: str
    shared_bytes: int


def with_stages(evidence: Evidence, loop: Loop, stages: int) -> Staged | None:
    """Return the kernel with another num_stages of a loop; None if no way to write it changes the
    TTGIR, or if it cannot be tried: the record is from a file, or the kernel has no TTIR.
    """
    compilation = evidence.compilation
    if not compilation.sources.was_compiled or "ttir" not in compilation.stages:
        return None
    ttir = compilation.stages["ttir"].text
    try:
        before, _ = allocated(ttir, compilation.target, compilation.options)
        for advice, text, options in _ways(evidence, loop, ttir, stages):
            after, shared = allocated(text, compilation.target, options)
            if without_locations(after) != without_locations(before):
                return Staged(advice.format(f"num_stages={stages}"), shared)
    except KernelLabError:
        pass  # it does not compile with so many stages
    return None


def _ways(
    evidence: Evidence, loop: Loop, ttir: str, stages: int
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the advice, the TTIR and the options of each way to write a num_stages: the launch's
    option, which does not change a loop that has its own, and the loop's `tl.range`.
    """
    options = evidence.compilation.options
    if evidence.own_stages(loop) is None:
        yield "Compile with {}.", ttir, {**options, "num_stages": stages}
        yield "Write for i in tl.range(..., {}).", _with_own(ttir, loop, stages), options
    else:
        yield "Write {} in the tl.range of this loop.", _with_own(ttir, loop, stages), options


def _with_own(ttir: str, loop: Loop, stages: int) -> str:
    """Return the TTIR with a num_stages of a loop."""
    line = 0 if loop.position is None else loop.position.line
    own = f"tt.num_stages = {stages} : i32"
    lines = ttir.splitlines()
    for at, chains in enumerate(module_frames(ttir)):
        end = _END.match(lines[at])
        if end is not None and any(line == place for chain in chains for _, place, _ in chain):
            others = [each for each in (end[1] or "").split(", ") if each and not _OWN.match(each)]
            lines[at] = f"}} {{{', '.join([*others, own])}}}{lines[at][end.end() :]}"
    return "\n".join(lines)
