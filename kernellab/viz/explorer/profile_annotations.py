"""What a profile measured of a kernel's lines, as numbers on them: cycles of marks, times and bytes
of the interpreter, samples of Proton.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.errors import ProfileError
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import ProfiledLine
from kernellab.records import Compilation
from kernellab.viz.explorer.annotation_records import Annotations, annotations_of, metric_of
from kernellab.viz.explorer.data import MarginNote, MetricData

_MOST_METRICS = 6
"""Besides cycles and executions; those with a name of their own first."""


@annotations_of.register
def annotations_of_lines(profile: Profile, compilation: Compilation) -> Annotations:
    """Cycles, executions and what else was measured, on the kernel's lines."""
    found = [one for one in profile.line_records if one.kernel == compilation.kernel]
    if not found:
        names = ", ".join(sorted({one.kernel for one in profile.line_records})) or "no kernel"
        raise ProfileError(
            f"The profile has lines of {names}, and the compilation is of {compilation.kernel!r}."
        )
    _check_lines(profile, found, compilation)
    notes = [MarginNote("note", words, profile.origin, 0) for words in profile.notes]
    if profile.perturbation is not None:
        words = f"What measuring changed: {profile.perturbation}"
        notes.append(MarginNote("note", words, profile.origin, 0))
    return Annotations(tuple(notes), tuple(_metrics(profile, found)))


def _check_lines(profile: Profile, found: list[ProfiledLine], compilation: Compilation) -> None:
    """Refuse lines that this compilation has no code of: the kernel is another by now.

    Raises:
        ProfileError: there is one.
    """
    if not compilation.can_answer("source_map"):
        return
    stage = next((one for one in ("ttgir", "ttir") if one in compilation.stages), None)
    kernel = profile.kernel(compilation.kernel)
    if stage is None or kernel is None:
        return
    for one in found:
        is_code = one.line and one.line != kernel.line and not one.operation.startswith("end")
        if is_code and not compilation.source_map.lines("source", stage, one.line):
            raise ProfileError(
                f"The profile has {one.operation or 'work'} on line {one.line} of "
                f"{compilation.kernel!r}, and the compilation has no code of that line: the kernel "
                "is another by now.",
                advice="Profile it again, or compile what was profiled.",
            )


def _metrics(profile: Profile, found: list[ProfiledLine]) -> Iterator[MetricData]:
    origin = profile.origin
    cycles = [(one.line, one.cycles or 0) for one in found]
    yield from metric_of(
        "cycles", "cycles of the warps that were measured", "source", cycles, origin
    )
    executions = [(one.line, one.executions or 0) for one in found]
    yield from metric_of(
        "times executed", "executions by warps, or programs", "source", executions, origin
    )
    others = list(dict.fromkeys(name for one in found for name in one.metrics))[:_MOST_METRICS]
    for name in others:
        numbers = [(one.line, one.metrics.get(name, 0)) for one in found]
        yield from metric_of(name, f"{name}, measured", "source", numbers, origin)
