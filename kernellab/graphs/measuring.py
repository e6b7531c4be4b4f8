"""What is measured of a report's call: `report.speedup()`."""

from __future__ import annotations

from kernellab.common.argument_checks import check_whole
from kernellab.errors import NoGpu
from kernellab.graphs.calls import CapturedCall, call_of, gpu_process
from kernellab.records.graph_measures import Speedups


def speedup(call: CapturedCall | None, rounds: int) -> Speedups:
    """See `GraphReport.speedup`."""
    import torch

    call = call_of(call, "speedup")
    check_whole("rounds", rounds, 1, meaning="number of turns")
    if not torch.cuda.is_available():
        raise NoGpu(
            "speedup times the call on a GPU, and torch sees none on this machine",
            advice=(
                "report.ablation() counts kernels, launches and bytes without one; on a machine "
                "with a GPU the same call gives times."
            ),
        )
    found = call.ask("kernellab.graphs.speedups:speedups_of_call", rounds, process=gpu_process())
    assert isinstance(found, Speedups)
    return found
