"""What Triton's own autotuner timed, as a `Tuning`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from kernellab.compiler.targets import DEFAULT_TARGET, local_target
from kernellab.launch.autotuner_timings import AutotunerTimings
from kernellab.tuning.files.call_types import types_of_calls
from kernellab.tuning.files.kernel_source import source_of
from kernellab.tuning.pool.gpus import this_machine
from kernellab.tuning.results.records import (
    Dropped,
    Outcome,
    Timing,
    Trial,
    Work,
)
from kernellab.tuning.results.tuning import Tuning
from kernellab.tuning.sweep.describing import describe_value
from kernellab.tuning.sweep.spaces import of_config

NOTE = "timed by Triton's autotuner: the quartiles are its 20th and 80th percentiles"
_FAILED = Dropped(
    "fault", "Triton's autotuner could not run it, and does not say why: kernellab.tune does"
)
_UNKNOWN = "the autotuner does not count"


def tuning_of_autotuner(kernel: Any, noted: AutotunerTimings) -> Tuning:
    """What an autotuner found out in one launch of a kernel."""
    candidates = [of_config(kernel, config) for config, _ in noted.timings]
    tuned = {name for one in candidates for name in one.constants}
    fixed = [name for name in kernel.arg_names if name not in tuned]
    found = types_of_calls(dict(enumerate(noted.calls)), fixed)
    values = noted.calls[0].values
    return Tuning(
        kernel=kernel.__name__,
        target=local_target() or DEFAULT_TARGET,
        key=dict(noted.key),
        arguments={name: describe_value(values[name]) for name in fixed if name in values},
        types=found.types,
        constants=found.constants,
        trials=tuple(
            Trial(number, candidate, _outcome(times), *found.own[number])
            for number, (candidate, (_, times)) in enumerate(zip(candidates, noted.timings))
        ),
        machine=this_machine(torch.cuda.current_device() if torch.cuda.is_available() else None),
        known_work=Work(None, None, _UNKNOWN, _UNKNOWN),
        seconds=noted.seconds,
        source=source_of(kernel, (value for one in candidates for value in one.values.values())),
        notes=(NOTE,),
    )


def _outcome(times: Sequence[float]) -> Outcome:
    median, lower, upper = (*times, *times, *times)[:3]
    if math.isinf(median):
        return Outcome(dropped=_FAILED)
    return Outcome(timing=Timing(median, lower, upper, lower, 0, "events"))
