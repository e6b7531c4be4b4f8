"""How near the estimate of time is to sweeps that were recorded on an H200.

`python -m benchmarks.estimates` prints the table of docs/estimates.md from what is recorded:
times (`estimate_h200.json`, `notebooks/recorded/tuning_h200_*.json`), and the counts of each
config (`estimate_counts.json.gz`). `--fit` fits the calibration anew, to these configs and to the
launches of the diagnosis' pairs (`diagnosed_h200.json`, `diagnosed_counts.json.gz`) that are not
held out; the errors of all launches are printed, too. `--count FILE` counts all configs anew, with
no GPU, and with `--pairs` the launches.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from benchmarks.diagnosed.corpus import PAIRS
from benchmarks.diagnosed.held_out import HELD_OUT
from benchmarks.diagnosed.pairs import Variant, compiled_with_values
from benchmarks.estimate_cases import CASES, Launch
from benchmarks.estimate_fit import BEGIN, Recorded, Verdict, left_out, verdicts
from benchmarks.fidelity_outputs import DATA
from benchmarks.harness import ROOT
from benchmarks.tuning_cases import FULL, TuningCase, all_cases
from kernellab.compiler.binding import bind
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import parse_target
from kernellab.interpreter.execution.grid import check_grid
from kernellab.profiling.estimates.counts import Asked, LaunchCounts, count, with_memory
from kernellab.profiling.estimates.model import CALIBRATION, Calibration

SWEEPS = ROOT / "notebooks/recorded"
TIMES = "estimate_h200.json"
COUNTS = "estimate_counts.json.gz"
PAIR_TIMES = "diagnosed_h200.json"
PAIR_COUNTS = "diagnosed_counts.json.gz"
TUNED = ("vector_add", "softmax", "matmul", "layer_norm", "attention")


@dataclass(frozen=True)
class Timed:
    """A config of a case, and its measured time in microseconds."""

    case: str
    values: dict[str, Any]
    microseconds: float

    @property
    def key(self) -> str:
        """What names it in the file of counts."""
        return f"{self.case} {json.dumps(self.values, sort_keys=True)}"


def timed() -> Iterator[Timed]:
    """Every config that was timed."""
    recorded = json.loads((DATA / TIMES).read_text())["cases"]
    for name, sweep in recorded.items():
        columns = sweep["columns"]
        for row in sweep["configs"]:
            found = dict(zip(columns, row))
            if isinstance(found["us"], int | float):
                values = {key: found[key] for key in columns[: columns.index("us")]}
                yield Timed(name, values, found["us"])
    for name in TUNED:
        for tuning in json.loads((SWEEPS / f"tuning_h200_{name}.json").read_text())["tunings"]:
            for trial in tuning["trials"]:
                timing = trial.get("timing")
                if timing and not trial.get("dropped"):
                    values = {**trial["constants"], **trial["options"]}
                    yield Timed(name, values, timing["median"] * 1e3)


def timed_launches() -> Iterator[Timed]:
    """Every launch of the diagnosis' pairs."""
    for pair in json.loads((SWEEPS / PAIR_TIMES).read_text())["pairs"]:
        for word in ("slow", "good"):
            yield Timed(f"{pair['name']} {word}", {}, pair[f"{word}_us"])


@functools.cache
def variants() -> Mapping[str, Variant]:
    """The launches of pairs by name."""
    return {
        f"{pair.name} {word}": getattr(pair, word)
        for pair in (*PAIRS, *HELD_OUT)
        for word in ("slow", "good")
    }


@functools.cache
def case_of(name: str) -> TuningCase:
    """The launch, its tensors without values but for indices."""
    if name in CASES:
        case = CASES[name](Launch(device="meta"))
    else:
        case = all_cases(FULL, "meta")[name]()
    return case


def counts_of(name: str, values: dict[str, Any], target: str = "sm_90") -> LaunchCounts:
    """What a config, or a launch of a pair, asks of the GPU, counted here."""
    if name in variants():
        variant = variants()[name]
        compilation, known = compiled_with_values(variant)
        counted: LaunchCounts = compilation.estimate(variant.grid, **known).counts
        return counted
    case, chosen = case_of(name), parse_target(target)
    arguments = with_memory({**case.arguments, **case.fixed})
    call = bind(case.kernel, (), {**arguments, **values}, chosen)
    compilation = compile_bound(case.kernel, call, chosen, ttgir_lines=True)
    return count(compilation, case.kernel, check_grid(case.grid, call.values), call)[0]


def counts_in(one: Mapping[str, Any]) -> LaunchCounts:
    """Counts as a file has them."""
    asked = tuple(Asked(**ask) for ask in one["arguments"])
    return LaunchCounts(**{**one, "path": tuple(one["path"]), "arguments": asked})


@functools.cache
def recorded(held_out: bool = False) -> Recorded:
    """All configs that were timed and counted, and the launches of pairs, held out or not."""
    known = {
        **json.loads(gzip.decompress((DATA / COUNTS).read_bytes())),
        **json.loads(gzip.decompress((DATA / PAIR_COUNTS).read_bytes())),
    }
    jobs = [one for one in timed() if one.key in known]
    left_out = {pair.name for pair in HELD_OUT}
    launches = [one for one in timed_launches() if (one.case.split()[0] in left_out) == held_out]
    return Recorded(
        [one.case for one in jobs],
        [counts_in(known[one.key]) for one in jobs],
        numpy.array([one.microseconds for one in jobs]),
        [counts_in(known[one.key]) for one in launches],
        numpy.array([one.microseconds for one in launches]),
    )


# The tables


def launch_errors(by: Calibration) -> dict[str, numpy.ndarray]:
    """|estimate / time - 1| of the launches of pairs by whether a fit left them out: slow, good,
    slow, good.
    """
    errors = {}
    for word, held_out in (("fitted", False), ("held out", True)):
        found = recorded(held_out)
        estimated = found.launch_model.microseconds(by)
        errors[word] = numpy.abs(estimated / found.launch_microseconds - 1)
    return {**errors, "all": numpy.concatenate(list(errors.values()))}


def printed(found: Sequence[Verdict]) -> str:
    """The verdicts as Markdown."""
    lines = [
        "| kernel left out | configs | rank correlation | median error | best of the first five | "
        "of the first |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {one.kernel} | {one.configs} | {one.rank:.2f} | {one.error:.0%} | "
        f"{one.best_of_five:.3f} | {one.best_of_one:.3f} |"
        for one in found
    ]
    ranked = sum(one.rank >= GOOD_RANK for one in found)
    held = sum(one.best_of_five <= GOOD_BEST for one in found)
    median = numpy.median([one.error for one in found])
    lines += [
        "",
        f"{ranked} of {len(found)} kernels have a rank correlation of {GOOD_RANK} or more; for "
        f"{held} of them the first five hold one within 3 % of the best; the median of the median "
        f"errors is {median:.1%}.",
    ]
    return "\n".join(lines)


GOOD_RANK, GOOD_BEST = 0.85, 1.03
"""What is aimed at."""


# Counting


def _counted(one: Timed) -> tuple[str, dict[str, Any] | str, float]:
    torch.set_num_threads(1)
    started = time.process_time()
    try:
        found: dict[str, Any] | str = asdict(counts_of(one.case, one.values))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return one.key, found, time.process_time() - started


def count_all(file: Path, workers: int, seconds: float, jobs: Iterable[Timed]) -> None:
    """Count every job, and write what was found by then."""
    found: dict[str, Any] = {}
    took = 0.0
    jobs = sorted(jobs, key=lambda one: hashlib.sha256(one.key.encode()).digest())
    until = time.monotonic() + seconds
    with ProcessPoolExecutor(workers) as pool:
        for number, (key, counts, own) in enumerate(pool.map(_counted, jobs, chunksize=2)):
            found[key] = counts
            took += own
            if number % 50 == 49 or number == len(jobs) - 1 or time.monotonic() > until:
                file.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
                print(number + 1, round(took, 1), "s of processors", flush=True)
            if time.monotonic() > until:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    bad = {key: one for key, one in found.items() if isinstance(one, str)}
    print(len(found), "counted;", len(bad), "failed", list(bad.items())[:10])


def main() -> None:
    """Parse the command line; count, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=Path, help="count all configs anew, into this file")
    parser.add_argument("--pairs", action="store_true", help="count the launches of pairs instead")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--fit", action="store_true", help="fit the calibration anew, print it")
    parser.add_argument("--steps", type=int, default=600, help="of a fit without one kernel")
    options = parser.parse_args()
    if options.count:
        jobs = timed_launches() if options.pairs else timed()
        count_all(options.count, options.workers, options.seconds, jobs)
        return
    found = recorded()
    by = found.fitted(BEGIN, 3000) if options.fit else CALIBRATION
    if options.fit:
        print({name: round(value, 4) for name, value in asdict(by).items()})
    for word, errors in launch_errors(by).items():
        medians = ", ".join(
            f"{numpy.median(part):.1%}" for part in (errors, errors[::2], errors[1::2])
        )
        print(f"{word}: median error {medians} (all, slow, good), ", end="")
        print(f"{(errors <= 0.25).sum()} of {len(errors)} within 25 %")
    print(printed(verdicts(found, left_out(found, by, options.steps))))


if __name__ == "__main__":
    main()
