"""Faults in asynchronous kernels: what `kernellab.check` finds, what Triton's concurrency sanitizer
(ConSan) finds on a GPU, whether a plain launch there shows them, and what late completion costs.

`python -m benchmarks.missing_waits` prints the recorded numbers beside those of the check, which
runs anew; with `--record FILE.json`, on a machine with a Hopper GPU, it records them, case by case,
until `--seconds` have passed; a second call goes on with the cases that the file does not have.
Each fault of `tests/kernels` is launched in processes of its own, because a failed assertion of
ConSan ends the use of the GPU in its process.

With `--times` it runs TTGIR with `completion="late"` and without, and checks it with the detector
of missing waits and without, in turns. Goal: at most 3 times for both.
"""

from __future__ import annotations

import os

from benchmarks.harness import ONE_THREAD

os.environ.update(ONE_THREAD)

import argparse
import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pandas
import torch
import triton
from triton.experimental.gluon.language.nvidia.hopper import mbarrier
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import kernellab
from benchmarks.harness import Sample, print_report, take_turns, timed
from kernellab.checker.detectors.asynchrony import MissingWait
from kernellab.triton_api import STORE_WAITS_FOR_WRITES
from tests.kernels import asynchronous, handed_on, patterns, reported
from tests.support.broken_kernels import broken, faults_of

RECORDED = Path(__file__).parent / "data/missing_waits_h200.json"
LAUNCHES = 200
"""Of a plain run: its results are compared after each."""
SECONDS = 30
"""What hangs is stopped after."""


_HAS_CLUSTERS = hasattr(mbarrier, "sync_cluster_init")  # from Triton 3.7 on


def _on_gpu(argument: Any) -> Any:
    if isinstance(argument, TensorDescriptor):
        moved = argument.base.cuda()
        return TensorDescriptor(
            moved, argument.shape, argument.strides, argument.block_shape, argument.layout
        )
    return argument.cuda() if isinstance(argument, torch.Tensor) else argument


def _modules() -> list[Any]:
    """The modules of kernels that this Triton runs."""
    modules = [asynchronous, handed_on, reported, patterns]
    if _HAS_CLUSTERS:
        from tests.kernels import clusters

        modules.append(clusters)
    return modules


def _module(name: str, fault: str, folder: str) -> tuple[Any, set[tuple[str, int]]]:
    (module,) = (each for each in _modules() if name in each.NAMES)
    return broken(module, name, fault, Path(folder)) if fault else (module, set())


def launch(name: str, fault: str, launches: int) -> None:
    """Launch a broken kernel on the GPU; exit with 1 where a result is wrong."""
    triton.set_allocator(
        lambda size, _align, _stream: torch.empty(size, dtype=torch.int8, device="cuda")
    )
    with tempfile.TemporaryDirectory() as folder:
        module, _ = _module(name, fault, folder)
        (kernel, grid, *arguments), keywords = asynchronous.launch_of(module, name)
        del keywords["target"]
        right = module.launched(name)[2]
        for _ in range(launches):
            moved = [_on_gpu(argument) for argument in arguments]
            kernel[grid](*moved, **keywords)
            out = getattr(moved[-1], "base", moved[-1]).cpu()
            if not torch.allclose(out.float(), right.float(), rtol=1e-2, atol=1e-2):
                sys.exit(1)


_ASSERTION = re.compile(r":(\d+): .*?Assertion `(.*?)` failed")


def outcome(name: str, fault: str, *, sanitized: bool) -> dict[str, Any]:
    """What a launch in a process of its own comes to: "right", "wrong", "reported", "hangs", "CUDA
    error" or another error's last line, and what ConSan says.
    """
    count = 1 if sanitized else LAUNCHES
    command = [sys.executable, "-m", __spec__.name, "--case", name, fault, str(count)]
    mode = {"TRITON_INSTRUMENTATION_MODE": "consan"} if sanitized else {}
    try:
        done = subprocess.run(
            command, env=os.environ | mode, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "hangs"}
    said = {(int(line), text) for line, text in _ASSERTION.findall(done.stdout + done.stderr)}
    if said:
        return {"outcome": "reported", "assertions": sorted(said)}
    if done.returncode in (0, 1) and "Traceback" not in done.stderr:
        return {"outcome": ("right", "wrong")[done.returncode]}
    if "CUDA error" in done.stderr:
        return {"outcome": "CUDA error"}
    return {"outcome": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}


def cases() -> list[tuple[str, str]]:
    """The kernels that a Hopper GPU runs, each right ("") and with each of its faults.

    `read_back` is left out before Triton 3.8: there, `store_wait` waits only until a TMA store has
    read its source, so even the right kernel gives wrong results on an H200.
    """
    chosen: list[tuple[str, str]] = []
    for module in _modules():
        names = [
            name
            for name in module.NAMES
            if asynchronous.target_of(name) in ("sm_80", "sm_90")
            and (STORE_WAITS_FOR_WRITES or name != "read_back")
        ]
        chosen += [(name, "") for name in names] + faults_of(module, names)
    return chosen


def record(file: Path, seconds: float) -> None:
    """Launch the cases that a file does not have on the GPU, and write what came of each."""
    started = time.monotonic()
    rows: list[dict[str, Any]] = json.loads(file.read_text())["cases"] if file.exists() else []
    machine = {
        "gpu": torch.cuda.get_device_name(),
        "triton": importlib.metadata.version("triton"),
        "torch": torch.__version__,
    }

    def both(case: tuple[str, str]) -> dict[str, Any] | None:
        if time.monotonic() - started > seconds:
            return None
        name, fault = case
        plain = outcome(name, fault, sanitized=False)
        consan = outcome(name, fault, sanitized=True)
        return {"kernel": name, "fault": fault, "plain": plain, "consan": consan}

    there = {(row["kernel"], row["fault"]) for row in rows}
    left = [case for case in cases() if case not in there]
    with ThreadPoolExecutor(min(12, os.cpu_count() or 1)) as pool:
        for row in pool.map(both, left):
            rows += [] if row is None else [row]
            file.write_text(json.dumps({"machine": machine, "cases": rows}, indent=1) + "\n")
    missing = len(left) + len(there) - len(rows)
    without = "" if _HAS_CLUSTERS else " Clusters need Triton 3.7: their kernels are left out."
    print(f"{len(rows)} cases, {missing} left.{without}")


def checked(name: str, fault: str) -> str:
    """What the lab's check of a case says: "right line", "another line", "" for nothing."""
    with tempfile.TemporaryDirectory() as folder:
        module, expected = _module(name, fault, folder)
        launch, keywords = asynchronous.launch_of(module, name)
        found = kernellab.check(*launch, **keywords)
    if not found:
        return ""
    return "right line" if {(one.kind, one.line) for one in found} == expected else "another line"


def table(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    """One row for each kernel: its faults, and how many each way finds."""
    faulty = pandas.DataFrame(
        {
            "kernel": row["kernel"],
            "faults": bool(row["fault"]),
            "found by check": bool(row["fault"]) and checked(row["kernel"], row["fault"]) != "",
            "found by ConSan": bool(row["fault"]) and row["consan"]["outcome"] == "reported",
            "shown by a launch": bool(row["fault"]) and row["plain"]["outcome"] != "right",
        }
        for row in rows
    )
    return faulty.groupby("kernel", sort=False).sum().reset_index()


COMPILED = {
    "sm_80": ("matmul", "attention_forward"),
    "sm_90": ("matmul", "matmul_descriptors", "attention_forward"),
    "sm_100": ("matmul", "matmul_warp_specialized"),
    "gfx950": ("matmul",),
}
"""Kernels of Triton whose TTGIR has asynchronous operations, for each target."""
GOAL = 3


def _timed_launches() -> Iterator[tuple[str, str, tuple[Any, ...], dict[str, Any]]]:
    """Name, target, positional arguments of `kernellab.run`, and keywords."""
    from tests.corpus.entries import ENTRIES
    from tests.corpus.launches import LAUNCHES as CORPUS

    for name in asynchronous.NAMES:
        launch, keywords = asynchronous.launch_of(asynchronous, name)
        yield name, keywords.pop("target"), launch, keywords
    entries = {one.name: one for one in ENTRIES}
    for target, names in COMPILED.items():
        for name in names:
            one, launch = entries[name], CORPUS[name]
            keywords = {**one.constants, "options": {**one.options, "stage": "ttgir"}}
            yield name, target, (one.kernel, launch.grid, *launch.make()), keywords


def times(rounds: int) -> pandas.DataFrame:
    """One row for each kernel: CPU time, medians, with late completion over without it."""

    def run(completion: str, launch: tuple[Any, ...], keywords: dict[str, Any]) -> Sample:
        options = {**keywords.get("options", {}), "completion": completion}
        run = lambda: kernellab.run(*launch, **{**keywords, "options": options})  # noqa: E731
        return timed(run, time.process_time)

    def check(launch: tuple[Any, ...], keywords: dict[str, Any]) -> Sample:
        return timed(lambda: kernellab.check(*launch, **keywords), time.process_time)

    def without(measured: Callable[[], Sample]) -> Sample:
        with mock.patch.object(MissingWait, "concerns", return_value=False):
            return measured()

    rows = []
    for name, target, launch, keywords in _timed_launches():
        keywords = {**keywords, "target": target}
        late, early = (partial(run, mode, launch, keywords) for mode in ("late", "early"))
        checked = partial(check, launch, keywords)
        runs = take_turns(late, early, rounds=rounds)
        checks = take_turns(checked, partial(without, checked), rounds=rounds)
        rows.append(
            {
                "kernel": name,
                "target": target,
                "run, ms": round(runs.their_median * 1e3, 1),
                "late, ms": round(runs.our_median * 1e3, 1),
                "late over early": round(runs.overhead, 2),
                "check without, ms": round(checks.their_median * 1e3, 1),
                "with, ms": round(checks.our_median * 1e3, 1),
                "with over without": round(checks.overhead, 2),
            }
        )
    return pandas.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", metavar="FILE", type=Path)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.times:
        asynchronous.TILES = 40
        measured = times(options.rounds)
        worst = measured[["late over early", "with over without"]].max().max()
        note = f"CPU time, medians of {options.rounds}, in turns. Goal: at most {GOAL} times; "
        return print_report("Late completion", measured, f"{note}the worst is {worst}.")
    if options.case:
        name, fault, launches = options.case
        return launch(name, fault, int(launches))
    if options.record:
        return record(options.record, options.seconds)
    recorded = json.loads(RECORDED.read_text())
    rows = recorded["cases"]
    alarms = [row["kernel"] for row in rows if not row["fault"] and checked(row["kernel"], "")]
    print_report(
        "Faults in asynchronous kernels",
        table(rows),
        f"ConSan and the launches: {recorded['machine']}. "
        f"Findings in right kernels: check {len(alarms)}, ConSan "
        f"{sum(not row['fault'] and row['consan']['outcome'] == 'reported' for row in rows)}.",
    )
    return None


if __name__ == "__main__":
    main()
