"""What `kernellab.accesses` counted: notes on the kernel's lines,
and numbers on those of the TTGIR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kernellab.common.formatting import joined_sizes
from kernellab.compiler.modules.structure import lines_of_operations
from kernellab.compiler.subjects import differences
from kernellab.errors import ArgumentError
from kernellab.profiling.accesses.records import Accesses, GlobalAccess
from kernellab.profiling.accesses.shared_records import SharedAccess
from kernellab.records import Compilation
from kernellab.viz.explorer.annotation_records import (
    Annotations,
    annotations_of,
    check_subject,
    file_of,
    metric_of,
)
from kernellab.viz.explorer.data import MarginNote, MetricData
from kernellab.viz.explorer.sides import line_in, margin_note


@annotations_of.register
def annotations_of_accesses(accesses: Accesses, compilation: Compilation) -> Annotations:
    """What costs too much on its line, and numbers for each operation of the TTGIR."""
    check_subject("The accesses", accesses.kernel, accesses.subject, compilation)
    if accesses.subject is not None:
        unequal = list(differences(accesses.subject, compilation))
        if unequal:
            raise ArgumentError(
                f"The accesses were counted for another compilation of {accesses.kernel!r}: "
                f"{'; '.join(unequal)}.",
                advice=(
                    "Compile with the arguments, options and target of the launch that was counted."
                ),
            )
    origin = f"run of the interpreter for {accesses.target}, grid {joined_sizes(accesses.grid)}"
    file = file_of(compilation)
    notes = [margin_note(one, origin, file) for one in accesses.findings]
    read, written = accesses.dram_bytes_read, accesses.dram_bytes_written
    together = f"{read:,} bytes from DRAM with cold caches, {written:,} to it"
    notes.append(MarginNote("note", together, origin, 0))
    return Annotations(tuple(notes), tuple(_access_metrics(compilation, accesses, file, origin)))


_GLOBAL: Mapping[str, tuple[str, Callable[[GlobalAccess], int]]] = {
    "sectors": ("sectors of 32 bytes that requests ask for", lambda one: one.sectors),
    "requests": ("requests to global memory", lambda one: one.requests),
    "DRAM bytes": (
        "bytes of different sectors of each access: what cold caches move",
        lambda one: one.footprint_bytes,
    ),
}
_SHARED: Mapping[str, tuple[str, Callable[[SharedAccess], int]]] = {
    "shared wavefronts": ("wavefronts of shared memory", lambda one: one.wavefronts),
    "bank conflicts": ("wavefronts that bank conflicts add", lambda one: one.conflicts),
}


def _access_metrics(
    compilation: Compilation, accesses: Accesses, file: str, origin: str
) -> Iterator[MetricData]:
    """Numbers on the lines of the TTGIR where every operation is found there,
    else on the kernel's.
    """
    everything: list[GlobalAccess | SharedAccess] = [*accesses, *accesses.shared]
    lines = _ttgir_lines(compilation, everything)
    stage = "source" if lines is None else "ttgir"
    places = lines or [line_in(file, (one.position,)) for one in everything]
    of_global = list(zip(places, accesses))
    of_shared = list(zip(places[len(accesses) :], accesses.shared))
    for name, (unit, number) in _GLOBAL.items():
        yield from metric_of(
            name, unit, stage, ((at, number(one)) for at, one in of_global), origin
        )
    for name, (unit, count) in _SHARED.items():
        yield from metric_of(name, unit, stage, ((at, count(one)) for at, one in of_shared), origin)


def _ttgir_lines(
    compilation: Compilation, found: Sequence[GlobalAccess | SharedAccess]
) -> list[int] | None:
    """The line of each operation in the TTGIR; None where one is not there."""
    if "ttgir" not in compilation.stages:
        return None
    known = lines_of_operations(compilation.stages["ttgir"].text)
    lines = []
    for one in found:
        of_its_name = known.get(one.operation, [])
        if not 0 < one.occurrence <= len(of_its_name):
            return None
        lines.append(of_its_name[one.occurrence - 1])
    return lines
