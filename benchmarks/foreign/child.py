"""The samples of one library, each in a process of its own:
what `benchmarks.foreign_code` starts, with the library on its path.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

import torch
import triton

import kernellab
from benchmarks.foreign.outcomes import Outcome
from benchmarks.foreign.samples import NotRunnable, Run, Samples
from benchmarks.foreign.timing import Timer
from benchmarks.harness import Server

CHECKS_OF_A_KERNEL = 2


def run(sample: str, function: Run, checked: bool, timer: Timer | None = None) -> Outcome:
    """Run one sample in this process."""
    outcome = Outcome(sample)
    started = time.perf_counter()
    with _launches_watched(outcome, checked, timer):
        try:
            torch.set_default_device("cuda")
            torch.manual_seed(0)
            faults = [pair.fault() for pair in function()]
            outcome.why = "; ".join(filter(None, faults))
            outcome.verdict = "wrong" if outcome.why else "right"
        except NotRunnable as error:
            outcome.verdict, outcome.why = "not run", str(error)
        except Exception as error:
            outcome.verdict, outcome.why = "error", _described(error)
    outcome.seconds = time.perf_counter() - started
    return outcome


def _described(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" ({frame.filename}:{frame.lineno})" for frame in frames)
    notes = "\n".join(getattr(error, "__notes__", ()))
    return f"{type(error).__module__}.{type(error).__qualname__}: {error}{place}\n{notes}".strip()


@contextmanager
def _launches_watched(outcome: Outcome, checked: bool, timer: Timer | None) -> Iterator[None]:
    """Count launches, and check or time the first ones of each kernel."""
    kernels = triton.runtime.JITFunction
    launch, seen = kernels.run, Counter[str]()

    def counting(kernel: Any, *args: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
        if checked and not warmup:
            seen[kernel.__name__] += 1
            if seen[kernel.__name__] <= CHECKS_OF_A_KERNEL:
                outcome.findings += _findings(kernel, grid, args, keywords)
        if timer is not None and not warmup:
            compiled, times = timer.launch(launch, kernel, grid, args, keywords)
            outcome.times += [] if times is None else [asdict(times)]
        else:
            compiled = launch(kernel, *args, grid=grid, warmup=warmup, **keywords)
        outcome.launches += not warmup  # not counted where an autotuner's trial ended in between
        return compiled

    kernels.run = counting
    try:
        yield
    finally:
        kernels.run = launch


def _findings(kernel: Any, grid: Any, args: Any, keywords: Any) -> list[str]:
    try:
        found = kernellab.check(kernel, grid, *args, **keywords)
    except Exception as error:
        return [f"check of {kernel.__name__} failed: {_described(error)}"]
    return [f"{kernel.__name__}: {finding}" for finding in found]


def in_a_process_of_its_own(sample: str, work: Callable[[], Outcome], seconds: float) -> Outcome:
    """Run a sample in a fork of this process, which has the library imported."""
    processes = multiprocessing.get_context("fork")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=_answer, args=(sender, work))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return Outcome(sample, "too slow", seconds=seconds, why=f"no end within {seconds:g} s")
        outcome = Outcome(**receiver.recv())
    except EOFError:
        process.join()
        return Outcome(sample, "died", why=f"exit status {process.exitcode}")
    else:
        return outcome
    finally:
        process.kill()
        process.join()


def _answer(sender: Connection, work: Callable[[], Outcome]) -> None:
    sender.send(asdict(work()))


def main() -> None:
    """Print a line for each sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", help="of the samples: benchmarks.foreign.liger")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("-k", default="", help="samples with this in their name")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with ExitStack() as stack:
        timer = None
        if arguments.times:
            variables = {"TRITON_INTERPRET": "1"}
            server = Server("benchmarks.foreign.timing:triton_launch", variables)
            timer = Timer(stack.enter_context(server))
        stack.enter_context(kernellab.interpreted(answers="gpu"))
        if timer is not None:
            timer.warm_up()
        module = importlib.import_module(arguments.module)
        samples: Samples = module.SAMPLES
        for name, function in samples.items():
            if arguments.k in name:
                outcome = in_a_process_of_its_own(
                    name,
                    functools.partial(run, name, function, arguments.check, timer),
                    arguments.seconds,
                )
                print(outcome.line(), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
