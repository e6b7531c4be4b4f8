"""Sweeps of many kinds of kernels on this machine's GPU, recorded for the estimate of time.

`python -m benchmarks.estimates_on_gpu --out FOLDER` sweeps every case of `estimate_cases` and
writes FOLDER/estimate.json again after each: of every config its values, its times in microseconds,
and what the binary takes. A case that fails is recorded with its error. `--part 8` takes sizes an
eighth as large, to see that everything works.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.estimate_cases import CASES, Launch, Make
from benchmarks.fidelity_outputs import machine
from benchmarks.tuning_on_gpu import sweep
from kernellab.tuning.records import Trial
from kernellab.tuning.worker import this_machine

FILE = "estimate.json"


def recorded(make: Make, launch: Launch) -> dict[str, Any]:
    """The sweep of a case, compactly."""
    case = make(launch)
    tuning = sweep(case, progress=False)
    timed = next((one.timing for one in tuning.trials if one.timing is not None), None)
    return {
        "method": timed and timed.method,
        "seconds": round(tuning.seconds, 1),
        "columns": [*case.space, "us", "lower", "upper", "registers", "spills", "shared"],
        "configs": [_row(one, list(case.space)) for one in tuning.trials],
    }


def _row(trial: Trial, names: list[str]) -> list[Any]:
    """A config's row; the reason in place of its time where it was dropped."""
    values = [trial.candidate.values[name] for name in names]
    outcome = trial.outcome
    took = outcome.compiled and outcome.compiled.resources
    taken = [took.registers, took.spills, took.shared_bytes] if took else [None] * 3
    if outcome.dropped is not None:
        return [
            *values,
            f"{outcome.dropped.reason}: {outcome.dropped.line[:160]}",
            None,
            None,
            *taken,
        ]
    if outcome.timing is None:
        return [*values, None, None, None, *taken]
    times = (outcome.timing.median, outcome.timing.lower, outcome.timing.upper)
    return [*values, *(round(one * 1e3, 2) for one in times), *taken]


def record(out: Path, part: int, names: list[str]) -> None:
    """Sweep each case; the file is written again after each."""
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {
        "machine": {**machine(), **asdict(this_machine(0))},
        "cases": {},
    }
    for name in names or CASES:
        started = time.monotonic()
        try:
            found["cases"][name] = recorded(CASES[name], Launch(part))
        except Exception as error:
            traceback.print_exc()
            found["cases"][name] = {"error": f"{type(error).__name__}: {error}"}
        torch.cuda.empty_cache()
        (out / FILE).write_text(json.dumps(found) + "\n")
        summary = {key: one for key, one in found["cases"][name].items() if key != "configs"}
        print(name, round(time.monotonic() - started, 1), "s", summary, flush=True)


def main() -> None:
    """Parse the command line, and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--part", type=int, default=1, help="divide sizes by this")
    parser.add_argument("names", nargs="*", help="only these cases")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("This times kernels on a GPU, and torch sees none.")
    record(options.out, options.part, options.names)


if __name__ == "__main__":
    main()
