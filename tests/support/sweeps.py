"""Sweeps of made-up times."""

from dataclasses import replace

import kernellab
from kernellab.compiler.records import Resources
from kernellab.records import Target
from kernellab.tuning import records

MACHINE = records.SweepMachine("NVIDIA H200", "580", "3.12", "2.11", "3.6.0", "0.1.0")


def timing(us: float, spread: float = 0.01) -> records.Timing:
    return records.Timing.of(
        [us / 1e3 * (1 + spread * part / 10) for part in range(-10, 11)], "events"
    )


def trial(
    number: int,
    us: float | None,
    dropped: records.Dropped | None = None,
    estimate: float | None = None,
    **values,
) -> records.Trial:
    options = {"num_warps": values.pop("num_warps", 4)}
    compiled = records.Compiled(
        Resources(32 + number, 0, 1024, 0), 0.5, "registers", "", 0.3, estimate
    )
    time = None if us is None else timing(us)
    return records.Trial(
        number, records.Candidate(values, options), records.Outcome(compiled, dropped, "", time)
    )


def sweep(**changes) -> kernellab.Tuning:
    """Four configs timed, two of them in a tie, and one dropped."""
    trials = (
        trial(0, 20.0, estimate=19.0, BLOCK=64),
        trial(1, 10.0, estimate=11.0, BLOCK=128),
        trial(2, 10.05, estimate=10.0, BLOCK=64, num_warps=8),
        trial(3, 16.0, estimate=17.0, BLOCK=128, num_warps=8),
        trial(4, None, records.Dropped("compile error", "it <b>will</b> not\nfor ever"), BLOCK=96),
    )
    whole = kernellab.Tuning(
        kernel="add", target=Target("cuda", "90"), key={"n": 1000},
        arguments={"x_ptr": "float32[1000]"}, types={"x_ptr": "*fp32:16"}, constants={},
        trials=trials, machine=MACHINE, known_work=records.Work(12000.0, 1000.0, "given", "given"),
        baselines={"torch": timing(12.0)},
    )  # fmt: skip
    return replace(whole, **changes)


def sweep_of(*trials: records.Trial, **changes) -> kernellab.Tuning:
    return sweep(trials=trials, **changes)
