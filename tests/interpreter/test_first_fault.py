"""Whoever runs a launch, the first program in order that is at fault is told, and on its line."""

from __future__ import annotations

import pytest
import torch

import kernellab
from kernellab.errors import OutOfBounds
from tests.kernels.interp import first_faults as kernels
from tests.support.source_lines import marked_line

ENTRY_POINTS = ("run", "accesses", "ttgir", "trace", "check")
N, BLOCK = 160, 16


def told(entry_point: str, kernel: object, *tensors: torch.Tensor) -> tuple[object, int, int]:
    """The first program at fault, its line, and how many more are."""
    if entry_point == "check":
        first = min(kernellab.check(kernel, (10,), *tensors, BLOCK=BLOCK), key=lambda f: f.programs)
        assert first.position is not None
        return first.programs[0], first.position.line, 0
    if entry_point == "trace":
        trace = kernellab.trace(kernel, (10,), *tensors, BLOCK=BLOCK)
        assert trace.fault is not None
        assert trace.fault.position is not None
        return trace.steps[-1].frame.program, trace.fault.position.line, 0
    options = {"stage": "ttgir"} if entry_point == "ttgir" else {}
    launch = kernellab.accesses if entry_point == "accesses" else kernellab.run
    with pytest.raises(OutOfBounds) as caught:
        launch(kernel, (10,), *tensors, BLOCK=BLOCK, **options)
    fault = caught.value
    assert fault.position is not None
    return fault.program, fault.position.line, fault.more


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_an_earlier_program_that_is_at_fault_on_a_later_line_is_told(entry_point: str) -> None:
    # Programs 8 and 9 leave x on the first line, 6 to 9 leave y on the second.
    program, line, more = told(entry_point, kernels.copied, torch.ones(N - 30), torch.zeros(N - 60))
    assert program == (6, 0, 0)
    assert line == marked_line(kernels, "FAULT: copied")
    assert more == (3 if entry_point in ("run", "accesses", "ttgir") else 0)


def test_what_would_not_do_the_same_twice_does_not_run_again() -> None:
    x = torch.ones(N)
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernels.counted, (10,), x, torch.zeros(N - 60), BLOCK=BLOCK)
    assert caught.value.program == (6, 0, 0)
    assert x[0] == 11
