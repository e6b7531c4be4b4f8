"""Values of options that mean nothing are refused, each by the option's name."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.errors import ArgumentError, OptionError, TargetError
from tests.kernels.tuned import double

TYPES = ("*fp32:16", "*fp32:16", "i32")


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"target": 90}, TargetError),
        ({"target": 9.0}, TargetError),
        ({"target": b"sm_90"}, TargetError),
        ({"num_ctas": -4}, OptionError),
        ({"num_ctas": 0}, OptionError),
        ({"num_ctas": 10**50}, OptionError),
        ({"num_stages": -1}, OptionError),
        ({"maxnreg": -1}, OptionError),
        ({"skip": 5}, OptionError),
        ({"skip": [5]}, OptionError),
        ({"stop_after": 5}, OptionError),
        ({"pipeline": 5}, OptionError),
        ({"pipeline": [()]}, OptionError),
    ],
)
def test_a_compilation_refuses_what_means_nothing(
    option: dict[str, Any], error: type[Exception], messages: SnapshotAssertion
) -> None:
    with pytest.raises(error) as caught:
        kernellab.compile(double, *TYPES, BLOCK=64, **{"target": "sm_90", **option})
    assert caught.value == messages
    assert getattr(caught.value, "advice", "")


@pytest.mark.parametrize("outputs", [5, 1.5, None, [5], b"z_ptr", torch.ones(2)])
def test_a_check_refuses_outputs_that_are_no_names(
    outputs: Any, messages: SnapshotAssertion
) -> None:
    with pytest.raises(ArgumentError) as refused:
        kernellab.check(double, (1,), torch.ones(64), torch.ones(64), 64, BLOCK=64, outputs=outputs)
    assert refused.value == messages


@pytest.mark.parametrize("tolerance", ["x", -1, math.nan, math.inf, True, [1]])
def test_what_is_no_tolerance_is_refused(tolerance: Any, messages: SnapshotAssertion) -> None:
    x = torch.ones(64)
    with pytest.raises(OptionError) as refused:
        kernellab.bisect(double, (1,), x, x.clone(), 64, BLOCK=64, rtol=tolerance)
    assert refused.value == messages
    with pytest.raises(OptionError) as refused:
        kernellab.tune(double, (1,), x, x.clone(), 64, space={"BLOCK": [64]}, atol=tolerance)
    assert refused.value == messages
