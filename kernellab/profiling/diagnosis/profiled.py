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
from kernellab.profiling.profiles.trees import totals_of
from kernellab.profiling.sessions.session import ProfileSession


@diagnosed.register
def diagnosed_session(session: ProfileSession, request: Asked) -> Diagnoses:
    """Of what a `with kernellab.profile()` measured."""
    return diagnosed_profile(session.profile, request)


@diagnosed.register
def diagnosed_profile(profile: Profile, request: Asked) -> Diagnoses:
    """Of each kernel of a profile, with its share of the time of all."""
    request.takes_nothing_of_a_launch("a profile")
    totals = totals_of(profile.root)
    times = {
        kernel.name: sum(
            totals[id(scope)].get(TIME, 0.0)
            for scope in profile.root.walk()
            if scope.kind == "kernel" and profile.kernel(scope.name) is kernel
        )
        for kernel in profile.kernels
    }
    whole = sum(times.values())
    shared_diagnoses: list[tuple[Diagnosis, float | None]] = []
    notes = []
    for kernel in sorted(profile.kernels, key=lambda kernel: -times[kernel.name]):
        share = times[kernel.name] / whole if whole else None
        made = _of_kernel(profile, kernel)
        if isinstance(made, str):
            notes.append(made)
        else:
            shared_diagnoses.append((made, share))
    return Diagnoses(
        tuple(diagnosis for diagnosis, _ in shared_diagnoses),
        tuple(share for _, share in shared_diagnoses),
        (*notes,),
    )


def _of_kernel(profile: Profile, kernel: ProfiledKernel) -> Diagnosis | str:
    """The diagnosis, or why there is none."""
    try:
        compilation = kernel.compilation
    except KernelLabError as error:
        return f"{kernel.name}: {error.problem}"
    if compilation is None:
        return f"{kernel.name}: its source is not at hand, so there is nothing to diagnose."
    lines = [record for record in profile.line_records if record.kernel == kernel.name]
    hottest = max(lines, key=lambda line: line.share, default=None)
    said = []
    if hottest is not None:
        said.append(f"Measured: line {hottest.line} has {hottest.share:.0%} of the kernel.")
    return diagnosis_of(Evidence(compilation), notes=said)
