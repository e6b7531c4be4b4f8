"""Sweeps on this machine's GPU, recorded, beside Triton's own autotuner on the same configs.

`python -m benchmarks.tuning_on_gpu --out FOLDER` sweeps the five cases of `tuning_cases`, lets
Triton's autotuner do the same, times the two winners against each other, compiles one case's
configs serially and in 2 and 8 processes, and sweeps vector add and matmul over sizes. `--gpus 2`
sweeps on one GPU and on two instead. FOLDER gets tuning_h200_CASE.json (`kernellab.Tuning.load`
reads them), the Tunings over sizes, and numbers.json, all written as they come: a part that fails
is recorded with its error, and the next goes on. `--winners numbers.json` only times recorded
winners against each other again. `--small` takes small sizes and few configs, to see that
everything works.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import triton

import kernellab
from benchmarks.tuning_cases import (
    FULL,
    SMALL,
    TuningCase,
    all_cases,
    matmul_case,
    vector_add_case,
)
from kernellab import triton_api
from kernellab.common.system import usable_cores
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import local_target
from kernellab.tuning.sweep import close_pools
from kernellab.tuning.tunings import type_strings
from kernellab.tuning.worker import this_machine, time_baseline

ROUNDS = 7


class Numbers:
    """What was measured, in a file that is written again after each part."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.data: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        """Keep a number, or a group of them, and say it."""
        self.data[name] = value
        self._file.write_text(json.dumps(self.data, indent=1) + "\n")
        print(f"{name}: {json.dumps(value)}", flush=True)

    def attempt(self, name: str, part: Callable[[], Any]) -> None:
        """Do a part; where it fails, its error is what is kept."""
        started = time.monotonic()
        try:
            value = part()
        except Exception as error:
            traceback.print_exc()
            value = {"error": f"{type(error).__name__}: {error}"}
        if isinstance(value, dict):
            value["part took"] = round(time.monotonic() - started, 2)
        self.put(name, value)


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """A folder of its own for Triton's cache, so that everything is compiled."""
    before = os.environ.get("TRITON_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="kernellab-triton-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("TRITON_CACHE_DIR")
            if before is not None:
                os.environ["TRITON_CACHE_DIR"] = before


def sweep(case: TuningCase, **options: Any) -> kernellab.Tuning:
    """The lab's sweep of a case, with nothing known from earlier."""
    launch: dict[str, Any] = {**case.arguments, **case.fixed, **options}
    with empty_cache():
        return kernellab.tune(
            case.kernel,
            case.grid,
            space=case.space,
            prune=case.prune,
            reference=case.reference,
            rtol=case.rtol,
            atol=None if case.rtol is None else case.rtol,
            flops=case.flops,
            cache=False,
            **launch,
        )


def first_words(tuning: kernellab.Tuning) -> dict[str, Any]:
    """What a sweep found, in a few numbers."""
    dropped: dict[str, int] = {}
    for one in tuning.trials:
        if one.outcome.dropped is not None:
            reason = one.outcome.dropped.reason
            dropped[reason] = dropped.get(reason, 0) + 1
    best = tuning.best
    return {
        "configs": len(tuning.trials),
        "dropped": dropped,
        "best": best.candidate.values,
        "best timing": best.timing and asdict(best.timing),
        "ties": [one.candidate.values for one in tuning.ties],
        "baselines": {name: asdict(one) for name, one in tuning.baselines.items()},
        "work": asdict(tuning.work),
        "seconds": round(tuning.seconds, 2),
    }


# Beside Triton's autotuner


def by_triton(case: TuningCase) -> tuple[dict[str, Any], Any]:
    """Triton's own sweep over the same configs, in this process;
    its winner, and how long it took.
    """
    autotuned = triton.autotune(configs=case.configs, key=[])(case.kernel)
    with empty_cache():
        torch.cuda.synchronize()
        started = time.monotonic()
        autotuned[case.grid](**case.arguments, **case.fixed)
        torch.cuda.synchronize()
        seconds = time.monotonic() - started
    found = autotuned.best_config
    return {
        "configs": len(case.configs),
        "best": found.all_kwargs(),
        "seconds": round(seconds, 2),
    }, found


def against_each_other(make: Callable[[], TuningCase], ours: Any, theirs: Any) -> dict[str, Any]:
    """Both winners timed in turns, by do_bench; the ratio of medians, ours over theirs.

    Where tensors lie changes times by some percent, and one config's more than another's:
    each round has tensors of its own, with something of another size between them and the last.
    """
    between: list[Any] = []
    ratios, times = [], {"lab": list[float](), "triton": list[float]()}
    for number in range(ROUNDS):
        case = make()
        device = next(
            one.device for one in case.arguments.values() if isinstance(one, torch.Tensor)
        )
        between += [case, torch.empty((number + 1) * 12_345_678, dtype=torch.uint8, device=device)]
        taken = {"lab": list[float](), "triton": list[float]()}
        for name in ("lab", "triton", "triton", "lab"):
            values = ours if name == "lab" else theirs

            def launch(case: TuningCase = case, values: Any = values) -> None:
                case.kernel[case.grid](**case.arguments, **case.fixed, **values)

            taken[name].append(triton.testing.do_bench(launch, return_mode="median"))
        means = {name: statistics.mean(two) for name, two in taken.items()}
        ratios.append(round(means["lab"] / means["triton"], 4))
        for name, mean in means.items():
            times[name].append(mean)
    medians = {name: statistics.median(found) for name, found in times.items()}
    return {
        "ms": medians,
        "lab over triton": round(statistics.median(ratios), 4),
        "in each round": ratios,
    }


def winners_again(
    numbers: dict[str, Any], make: Callable[[], TuningCase], name: str
) -> dict[str, Any]:
    """A case's winners, as they were recorded, timed against each other."""
    found = numbers[name]
    theirs = {name: value for name, value in found["triton"]["best"].items() if value is not None}
    return {**found, "winners": against_each_other(make, found["lab"]["best"], theirs)}


def one_case(make: Callable[[], TuningCase], folder: Path) -> dict[str, Any]:
    """A case's sweep, Triton's sweep, and their winners."""
    case = make()
    tuning = sweep(case)
    baselines = {"torch": time_baseline(case.torch_way)}
    replace(tuning, baselines=baselines).save(folder / f"tuning_h200_{case.name}.json")
    found: dict[str, Any] = {"lab": first_words(replace(tuning, baselines=baselines))}
    found["triton"], config = by_triton(case)
    found["sweep's time over triton's"] = round(tuning.seconds / found["triton"]["seconds"], 3)
    theirs = {name: value for name, value in config.all_kwargs().items() if value is not None}
    found["winners"] = against_each_other(make, tuning.best.candidate.values, theirs)
    return found


def first_of_a_session(case: TuningCase) -> dict[str, Any]:
    """What starting the processes adds to a session's first sweep: a sweep, then the same again."""
    first, again = sweep(case).seconds, sweep(case).seconds
    return {"first sweep": round(first, 2), "same again": round(again, 2)}


# Compiling in parallel


def compile_speed(case: TuningCase) -> dict[str, Any]:
    """A case's configs compiled one after the other in this process, as Triton does,
    and by 2 and 8 processes that run already.
    """
    target = local_target()
    assert target is not None
    call = bind(case.kernel, (), {**case.arguments, **case.fixed, **case.configs[0].kwargs}, target)
    types, constants = type_strings(call.specialization, [*case.arguments, *case.fixed])
    found: dict[str, Any] = {"cores": usable_cores(), "configs": len(case.configs)}
    found["serial"] = round(serially(case, target), 2)
    for workers in (2, 8):
        options: dict[str, Any] = {"workers": workers, "cache": False, **types, **constants}
        kernellab.tune(case.kernel, None, space=warm_up(case, workers), **options)
        with empty_cache():
            tuning = kernellab.tune(
                case.kernel, None, space=case.space, prune=case.prune, **options
            )
        found[f"{workers} processes"] = round(tuning.seconds, 2)
        found[f"times faster on {workers}"] = round(found["serial"] / tuning.seconds, 2)
    return found


def warm_up(case: TuningCase, workers: int) -> list[triton.Config]:
    """As many configs as there are processes: each has started when they are done."""
    return case.configs[: 2 * workers]


def serially(case: TuningCase, target: kernellab.Target) -> float:
    """Seconds for all configs in this process; the first of them is compiled once before."""
    calls = [
        bind(
            case.kernel,
            (),
            {**case.arguments, **case.fixed, **config.kwargs},
            target,
            options={"num_warps": config.num_warps, "num_stages": config.num_stages},
        )
        for config in case.configs
    ]
    for chosen in (calls[:1], calls):
        with empty_cache():
            started = time.monotonic()
            for call in chosen:
                with contextlib.suppress(kernellab.CompileError):
                    triton_api.compile_natively(
                        case.kernel, call.specialization, target, call.options, for_launch=True
                    )
            seconds = time.monotonic() - started
    return seconds


# Sizes, and several GPUs


def over_sizes(
    folder: Path, name: str, cases: list[TuningCase], space: dict[str, list[Any]], key: str
) -> dict[str, Any]:
    """A few configs for each of several sizes, with torch as the baseline."""
    found = []
    for case in cases:
        small = replace(case, space=space, prune=None)
        tuning = sweep(small, key=key, baselines={"torch": small.torch_way})
        found.append(tuning)
    kernellab.Tunings(found).save(folder / f"tuning_h200_{name}_sizes.json")
    return {
        "sizes": [one.key[key] for one in found],
        "us": [one.best.timing.median * 1e3 for one in found if one.best.timing],
    }


def on_two(make: dict[str, Callable[[], TuningCase]]) -> dict[str, Any]:
    """The same sweeps on one GPU and on two, all processes running already;
    of two times each, the shorter.
    """
    seconds: dict[str, dict[int, list[float]]] = {name: {1: [], 2: []} for name in make}
    for count in (1, 2):
        options: dict[str, Any] = {"gpus": list(range(count)), "workers": usable_cores() - 2}
        sweep(next(iter(make.values()))(), **options)  # starts the processes
        for _ in range(2):
            for name, make_one in make.items():
                seconds[name][count].append(round(sweep(make_one(), **options).seconds, 2))
    ratios = {name: round(min(found[2]) / min(found[1]), 3) for name, found in seconds.items()}
    return {"seconds": seconds, "two over one": ratios}


def record(out: Path, small: bool, gpus: int, device: str = "cuda") -> Numbers:
    """Do all parts, or those for two GPUs."""
    out.mkdir(parents=True, exist_ok=True)
    numbers = Numbers(out / ("numbers.json" if gpus == 1 else f"numbers_{gpus}_gpus.json"))
    started = time.monotonic()
    numbers.put(
        "machine",
        {**asdict(this_machine(0 if torch.cuda.is_available() else None)), "cores": usable_cores()},
    )
    cases = all_cases(SMALL if small else FULL, device)
    if gpus > 1:
        chosen = {name: cases[name] for name in ("matmul", "layer_norm", "attention")}
        numbers.attempt("two GPUs", lambda: on_two(chosen))
    else:
        numbers.attempt("starting the processes", lambda: first_of_a_session(cases["vector_add"]()))
        for name, make in cases.items():
            numbers.attempt(name, functools.partial(one_case, make, out))
        close_pools()
        numbers.attempt("compiling matmul", lambda: compile_speed(cases["matmul"]()))
        close_pools()
        numbers.attempt("vector add over sizes", lambda: vector_sizes(out, small, device))
        numbers.attempt("matmul over sizes", lambda: matmul_sizes(out, small, device))
    numbers.put("all of it", {"seconds": round(time.monotonic() - started, 1)})
    return numbers


def time_winners(recorded: Path, out: Path, small: bool) -> None:
    """Write the numbers again, with the winners timed anew."""
    out.mkdir(parents=True, exist_ok=True)
    numbers = Numbers(out / "numbers.json")
    numbers.data = json.loads(recorded.read_text())
    for name, make in all_cases(SMALL if small else FULL, "cuda").items():
        known = dict(numbers.data)
        numbers.put(name, winners_again(known, make, name))


def vector_sizes(out: Path, small: bool, device: str) -> dict[str, Any]:
    """Vector add of 4 Ki to 64 Mi elements."""
    powers = (8, 10) if small else (12, 14, 16, 18, 20, 22, 24, 26)
    cases = [vector_add_case(1 << power, device) for power in powers]
    space = {"BLOCK": [256, 1024, 4096], "num_warps": [4, 8]}
    return over_sizes(out, "vector_add", cases, space, "n")


def matmul_sizes(out: Path, small: bool, device: str) -> dict[str, Any]:
    """Square products of 256 to 8192."""
    cases = [
        matmul_case(size, device)
        for size in ((64, 128) if small else (256, 512, 1024, 2048, 4096, 8192))
    ]
    space = {
        "BLOCK_M": [64, 128],
        "BLOCK_N": [64, 256],
        "BLOCK_K": [64],
        "num_warps": [4, 8],
        "num_stages": [4],
    }
    return over_sizes(out, "matmul", cases, space, "M")


def main() -> None:
    """Parse the command line, and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--gpus", type=int, default=1, choices=(1, 2))
    parser.add_argument("--small", action="store_true", help="small sizes, to try everything")
    parser.add_argument(
        "--winners", type=Path, help="only time the winners of a numbers.json against each other"
    )
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("This times kernels on a GPU, and torch sees none.")
    if options.winners is None:
        record(options.out, options.small, options.gpus)
    else:
        time_winners(options.winners, options.out, options.small)


if __name__ == "__main__":
    main()
