"""Why Inductor's kernels are slow: how `kernellab.diagnose` takes a report of torch.compile."""

from __future__ import annotations

from kernellab.errors import KernelLabError
from kernellab.graphs.generated import GeneratedKernel
from kernellab.graphs.report import GraphReport
from kernellab.profiling.diagnosis.diagnosing import Asked, diagnosed, diagnosis_of
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import Diagnoses, Diagnosis


@diagnosed.register
def diagnosed_kernel(kernel: GeneratedKernel, asked: Asked) -> Diagnosis:
    """Of one kernel that Inductor wrote, compiled for its GPU."""
    asked.takes_nothing_of_a_launch("one of Inductor's kernels")
    return diagnosis_of(Evidence(kernel.compilation))


@diagnosed.register
def diagnosed_report(report: GraphReport, asked: Asked) -> Diagnoses:
    """Of each Triton kernel of a report; those that cost most by their own findings first."""
    asked.takes_nothing_of_a_launch("a report")
    found, notes = [], []
    for kernel in report.kernels:
        if not kernel.code.is_triton:
            continue
        try:
            found.append(diagnosed_kernel(kernel, Asked()))
        except KernelLabError as error:
            notes.append(f"{kernel.name}: {error.problem}")
    found.sort(key=lambda one: -max((each.cost for each in one), default=0.0))
    return Diagnoses(tuple(found), notes=tuple(notes))
