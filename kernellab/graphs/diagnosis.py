"""Diagnose a report of torch.compile for `kernellab.diagnose`: why Inductor's kernels are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernellab.errors import KernelLabError
from kernellab.profiling.diagnosis.diagnose import Asked, diagnosis_of
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import Diagnoses, Diagnosis

if TYPE_CHECKING:
    from kernellab.graphs.kernels import GeneratedKernel
    from kernellab.graphs.report import GraphReport


def diagnosed_kernel(kernel: GeneratedKernel, request: Asked) -> Diagnosis:
    """Diagnose a kernel that Inductor wrote, compiled for its GPU."""
    request.takes_nothing_of_a_launch("one of Inductor's kernels")
    return diagnosis_of(Evidence(kernel.compilation))


def diagnosed_report(report: GraphReport, request: Asked) -> Diagnoses:
    """Diagnose each Triton kernel of a report; the most expensive findings come first."""
    request.takes_nothing_of_a_launch("a report")
    diagnoses, notes = [], []
    for kernel in report.kernels:
        if not kernel.code.is_triton:
            continue
        try:
            diagnoses.append(diagnosed_kernel(kernel, Asked()))
        except KernelLabError as error:
            notes.append(f"{kernel.name}: {error.problem}")
    diagnoses.sort(key=lambda diagnosis: -max((each.cost for each in diagnosis), default=0.0))
    return Diagnoses(tuple(diagnoses), notes=tuple(notes))
