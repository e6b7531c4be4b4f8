"""How `kernellab.diagnose` takes a `Profile`: each kernel that can be compiled here, in the order
of the time that it takes.
"""

from __future__ import annotations

from kernellab.errors import KernelLabError
from kernellab.profiling.diagnosis.diagnosing import Asked, diagnosed, diagnosis_of
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import Diagnoses, Diagnosis
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import TIME, ProfiledKernel
from kernellab.profiling.sessions.session import ProfileSession


@diagnosed.register
def diagnosed_session(session: ProfileSession, asked: Asked) -> Diagnoses:
    """Of what a `with kernellab.profile()` measured."""
    return diagnosed_profile(session.profile, asked)


@diagnosed.register
def diagnosed_profile(profile: Profile, asked: Asked) -> Diagnoses:
    """Of each kernel of a profile, with its share of the time of all."""
    asked.takes_nothing_of_a_launch("a profile")
    times = {
        one.name: sum(
            scope.metrics.get(TIME, 0.0)
            for scope in profile.root.walk()
            if scope.kind == "kernel" and profile.kernel(scope.name) is one
        )
        for one in profile.kernels
    }
    whole = sum(times.values())
    found: list[tuple[Diagnosis, float | None]] = []
    notes = []
    for kernel in sorted(profile.kernels, key=lambda one: -times[one.name]):
        share = times[kernel.name] / whole if whole else None
        made = _of_kernel(profile, kernel)
        if isinstance(made, str):
            notes.append(made)
        else:
            found.append((made, share))
    return Diagnoses(tuple(one for one, _ in found), tuple(share for _, share in found), (*notes,))


def _of_kernel(profile: Profile, kernel: ProfiledKernel) -> Diagnosis | str:
    """The diagnosis, or why there is none."""
    try:
        compilation = kernel.compilation
    except KernelLabError as error:
        return f"{kernel.name}: {error.problem}"
    if compilation is None:
        return f"{kernel.name}: its source is not at hand, so there is nothing to diagnose."
    lines = [one for one in profile.line_records if one.kernel == kernel.name]
    hottest = max(lines, key=lambda one: one.share, default=None)
    said = []
    if hottest is not None:
        said.append(f"Measured: line {hottest.line} has {hottest.share:.0%} of the kernel.")
    return diagnosis_of(Evidence(compilation), notes=said)
