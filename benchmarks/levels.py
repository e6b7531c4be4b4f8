"""Whether one process levels off: memory, descriptors, threads, processes and files over many
launches, compilations, traces, checks, views and sweeps.

    python -m benchmarks.levels                   500 rounds of each
    python -m benchmarks.levels --rounds 100 check trace

Each job runs in a process of its own and drops what it made after every round, as a cell does that
is run again. The jobs with a new kernel each define it anew, as a cell that is edited and run.
Twenty times, evenly spread, everything is counted. A number is level where the line through the
second half of the counts rises by no more than `LEVEL` in 100 rounds: caches fill in the first.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import linecache
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import ONE_THREAD, ROOT, print_report

os.environ |= ONE_THREAD

import numpy
import pandas
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.compiler.compilations import Compilation

ROUNDS = 500

COUNTS = 20
"""How many times everything is counted."""


@dataclass(frozen=True)
class Counts:
    """What a process has, all told."""

    memory: float
    """Resident, in KiB, after a collection and with the allocator's free pages given back."""
    objects: float
    """That Python's collector follows."""
    lines: float
    """Files whose source `linecache` keeps."""
    descriptors: float
    threads: float
    processes: float
    """Below this one."""
    files: float
    """In the folders for temporary files and shared memory, and in Triton's cache."""


LEVEL = Counts(1024, 100, 0.5, 0.5, 0.5, 0.5, 0.5)
"""By how much a number that is level may rise in 100 rounds. A leak of one launch's arrays, one
kernel's module or one view's data is far above: 10 KiB, one object or the 200th of a file a round.
"""


def counted() -> Counts:
    """This process now."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines()
    )
    folders = [tempfile.gettempdir(), os.environ.get("TRITON_CACHE_DIR", ""), "/dev/shm"]
    return Counts(
        memory=float(status["VmRSS"].split()[0]),
        objects=len(gc.get_objects()),
        lines=len(linecache.cache),
        descriptors=len(os.listdir("/proc/self/fd")) - 1,  # the listing's own
        threads=float(status["Threads"]),
        processes=len(_descendants()),
        files=sum(_own_files(Path(folder)) for folder in folders if folder),
    )


def _own_files(folder: Path) -> int:
    """Files below a folder; in a shared one, this user's that our parts or torch's name."""
    if folder == Path("/dev/shm"):
        return sum(1 for one in folder.iterdir() if "kernellab" in one.name or "torch" in one.name)
    return sum(len(files) + len(folders) for _, folders, files in os.walk(folder))


def _descendants() -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields_of = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            except OSError:  # gone in the meantime
                continue
            parents[int(entry.name)] = int(fields_of[1])
    below = {os.getpid()}
    found: list[int] = []
    while True:
        new = [pid for pid, parent in parents.items() if parent in below and pid not in below]
        if not new:
            return found
        below.update(new)
        found += new


def slopes(counts: Sequence[Counts], rounds: Sequence[int]) -> Counts:
    """By how much each number rises in 100 rounds, over the second half: least squares."""
    half = len(counts) // 2
    steps = numpy.asarray(rounds[half:], float)
    table = numpy.asarray([astuple(one) for one in counts[half:]], float)
    rises = numpy.polyfit(steps, table, 1)[0] * 100
    return Counts(*map(float, rises))


def leaks(slope: Counts, level: Counts = LEVEL) -> dict[str, float]:
    """What is not level, and its rise in 100 rounds."""
    return {
        field.name: getattr(slope, field.name)
        for field in fields(Counts)
        if getattr(slope, field.name) > getattr(level, field.name)
    }


_SOURCE = """
def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0)
    tl.store(z_ptr + offsets, x + y * {number}, mask=mask)
"""

_FILE = "<the cell that is run again>"


def new_kernel(number: int = 1) -> Any:
    """A kernel that no one has seen, from a file of one name; `number` makes its text differ."""
    text = _SOURCE.format(number=number)
    linecache.cache[_FILE] = (len(text), None, text.splitlines(keepends=True), _FILE)
    scope = {"tl": tl, "__name__": "levels"}
    exec(compile(text, _FILE, "exec"), scope)  # noqa: S102 - the text is this module's own
    return triton.jit(scope["kernel"])


ELEMENTS = 4096
_ARGUMENTS = (torch.ones(ELEMENTS), torch.ones(ELEMENTS), torch.empty(ELEMENTS), ELEMENTS)
_SHIPPED = ("*fp32:16", "*fp32:16", "*fp32:16", "i32:16")
_KNOWN = new_kernel()


def launch(_: int) -> None:
    """A known kernel."""
    kernellab.run(_KNOWN, (4,), *_ARGUMENTS, BLOCK=1024)


def launch_new(number: int) -> None:
    """A new kernel each."""
    kernellab.run(new_kernel(number), (4,), *_ARGUMENTS, BLOCK=1024)


def launch_refused(_: int) -> None:
    """A launch that faults, and its error's text."""
    try:
        kernellab.run(_KNOWN, (5,), *_ARGUMENTS[:3], 2 * ELEMENTS, BLOCK=1024)
    except kernellab.KernelLabError as error:
        str(error)


def _compiled(kernel: Any, **steering: Any) -> Compilation:
    made = kernellab.compile(kernel, *_SHIPPED, BLOCK=1024, target="sm_90", **steering)
    assert isinstance(made, Compilation)
    return made


def compile_known(_: int) -> None:
    """One kernel, with every pass."""
    compilation = _compiled(_KNOWN)
    compilation.resources  # noqa: B018 - read for what it makes


def compile_new(_: int) -> None:
    """A new kernel each, of one text."""
    _compiled(new_kernel()).stages["ptx"]


def compile_queried(_: int) -> None:
    """Questions that open modules, and one that asks a worker process."""
    compilation = _compiled(_KNOWN, skip=["cse"])
    compilation.layouts()
    str(_compiled(_KNOWN).source_map)


def trace(number: int) -> None:
    """A new kernel each, its values looked at."""
    found = kernellab.trace(new_kernel(number), (4,), *_ARGUMENTS, BLOCK=1024)
    str(found)


def check(number: int) -> None:
    """A new kernel each, with a finding."""
    str(kernellab.check(new_kernel(number), (5,), *_ARGUMENTS[:3], 2 * ELEMENTS, BLOCK=1024))


def page(_: int) -> None:
    """An explorer as a page."""
    compilation = _compiled(_KNOWN)
    with tempfile.TemporaryDirectory() as folder:
        compilation.explore().to_html(Path(folder) / "page.html")


def widget(_: int) -> None:
    """An explorer as a widget, which is closed: ipywidgets keeps one that is open, for the page."""
    compilation = _compiled(_KNOWN)
    compilation.explore().widget.close()


def stepper(number: int) -> None:
    """A stepper as a widget, of a new kernel each."""
    kernellab.trace(new_kernel(number), (4,), *_ARGUMENTS, BLOCK=1024).show()


def sweep(_: int) -> None:
    """Two configs of a new kernel, in worker processes, without the outcomes of earlier sweeps: a
    kernel's sweeps are kept with it.
    """
    configs = [triton.Config({"BLOCK": block}) for block in (512, 1024)]
    grid = lambda meta: (triton.cdiv(ELEMENTS, meta["BLOCK"]),)  # noqa: E731 - as users write it
    tuned = kernellab.tune(
        new_kernel(), grid, *_ARGUMENTS, space=configs, target="sm_90", cache=False
    )
    str(tuned)


JOBS: dict[str, Callable[[int], None]] = {
    job.__name__: job
    for job in (
        launch,
        launch_new,
        launch_refused,
        compile_known,
        compile_new,
        compile_queried,
        trace,
        check,
        page,
        widget,
        stepper,
        sweep,
    )
}


def measured(job: Callable[[int], None], rounds: int) -> Counts:
    """Run a job so many times in this process; how its numbers rise in 100 rounds."""
    counts: list[Counts] = []
    at: list[int] = []
    every = max(1, rounds // COUNTS)
    for number in range(1, rounds + 1):
        job(number)
        if number % every == 0:
            found = counted()
            counts.append(replace(found, objects=found.objects - len(counts)))  # its own records
            at.append(number)
    return slopes(counts, at)


def in_a_process(name: str, rounds: int) -> tuple[Counts, float]:
    """The same in a process of its own, with its own folders; and its seconds."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="levels-") as folder:
        own = {"TMPDIR": f"{folder}/tmp", "TRITON_CACHE_DIR": f"{folder}/cache"}
        own |= {"KERNELLAB_CACHE_DIR": f"{folder}/kernellab", "PYTHONPATH": str(ROOT)}
        own |= {"KERNELLAB_PROGRESS": "0"}
        for made in ("tmp", "cache", "kernellab"):
            (Path(folder) / made).mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.levels", "--here", name, "--rounds", str(rounds)],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    numbers = done.stdout.splitlines()[-1].split()
    return Counts(*map(float, numbers)), time.perf_counter() - start


def main() -> None:
    """Print the table; exit with 1 where something is not level."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("jobs", nargs="*", help=f"which of {', '.join(JOBS)}")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}")
    parser.add_argument("--here", choices=JOBS, help="one job in this process, for the others")
    chosen = parser.parse_args()
    if chosen.here:
        print(*astuple(measured(JOBS[chosen.here], chosen.rounds or ROUNDS)))
        return
    rows, failed = [], False
    for name in chosen.jobs or JOBS:
        rounds = chosen.rounds or ROUNDS
        slope, seconds = in_a_process(name, rounds)
        found = leaks(slope)
        failed |= bool(found)
        rows.append(
            {
                "job": name.replace("_", " "),
                "rounds": rounds,
                "memory, KiB": f"{slope.memory:.0f}",
                **{field.name: f"{getattr(slope, field.name):.1f}" for field in fields(Counts)[1:]},
                "level": "yes" if not found else "no",
                "took, s": f"{seconds:.0f}",
            }
        )
        print(*rows[-1].values(), sep=", ", file=sys.stderr, flush=True)  # as it goes
    print_report(
        "Whether one process levels off",
        pandas.DataFrame(rows),
        "What 100 rounds add, by the line through the second half. Level: at most "
        f"{LEVEL.memory:.0f} KiB, {LEVEL.objects:.0f} objects of Python, and no half of a file, "
        "descriptor, thread or process.",
    )
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
