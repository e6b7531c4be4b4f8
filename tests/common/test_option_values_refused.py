"""Values of options that mean nothing are refused, each by the option's name."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError, OptionError, TargetError
from tests.kernels.tuned import double

TYPES = ("*fp32:16", "*fp32:16", "i32")


@pytest.mark.parametrize(
    ("option", "error", "words"),
    [
        ({"target": 90}, TargetError, "90 is not a target"),
        ({"target": 9.0}, TargetError, "9.0 is not a target"),
        ({"target": b"sm_90"}, TargetError, "is not a target"),
        ({"num_ctas": -4}, OptionError, "num_ctas=-4 is out of range"),
        ({"num_ctas": 0}, OptionError, "num_ctas=0 is out of range"),
        ({"num_ctas": 10**50}, OptionError, r"num_ctas=10+ is out of range"),
        ({"num_stages": -1}, OptionError, "num_stages=-1 is out of range"),
        ({"maxnreg": -1}, OptionError, "maxnreg=-1 is out of range"),
        ({"skip": 5}, OptionError, "skip must name passes, got 5"),
        ({"skip": [5]}, OptionError, r"skip must name passes, got \[5\]"),
        ({"stop_after": 5}, OptionError, r"stop_after must name passes, got \[5\]"),
        ({"pipeline": 5}, OptionError, r"pipeline must name passes, got 5"),
        ({"pipeline": [()]}, OptionError, r"pipeline must name passes, got \[\(\)\]"),
    ],
)
def test_a_compilation_refuses_what_means_nothing(
    option: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        kernellab.compile(double, *TYPES, BLOCK=64, **{"target": "sm_90", **option})
    assert getattr(caught.value, "advice", "")


@pytest.mark.parametrize("outputs", [5, 1.5, None, [5], b"z_ptr", torch.ones(2)])
def test_a_check_refuses_outputs_that_are_no_names(outputs: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^outputs must be a name"):
        kernellab.check(double, (1,), torch.ones(64), torch.ones(64), 64, BLOCK=64, outputs=outputs)


@pytest.mark.parametrize("tolerance", ["x", -1, math.nan, math.inf, True, [1]])
def test_what_is_no_tolerance_is_refused(tolerance: Any) -> None:
    x = torch.ones(64)
    with pytest.raises(OptionError, match=r"^rtol must be a finite number"):
        kernellab.bisect(double, (1,), x, x.clone(), 64, BLOCK=64, rtol=tolerance)
    with pytest.raises(OptionError, match=r"^atol must be a finite number"):
        kernellab.tune(double, (1,), x, x.clone(), 64, space={"BLOCK": [64]}, atol=tolerance)
