"""Launches of hundreds of millions of programs: memory stays bounded, Ctrl-C ends them, and
limits are said. Each is measured in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.checker.detector import ProgramSet
from kernellab.errors import GridError, OptionError
from tests.kernels.tuned import double
from tests.support.python_processes import python_path

PROGRAM = """
import os, resource, signal, sys, threading, time
import torch
import kernellab
from tests.kernels.huge_grids import {kernel} as kernel

x = torch.ones(64)
call = lambda grid: kernellab.{function}(kernel, (grid,), x, {keywords})
call(2)  # imports, and the compilation
signal.signal(signal.SIGINT, signal.default_int_handler)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def interrupt():
    time.sleep(3)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt, daemon=True).start()
try:
    call(2 * 10**8)
except KeyboardInterrupt as stopped:
    print(*stopped.__notes__)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print("grown by", grown // 1024)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("function", "kernel", "keywords"),
    [
        ("run", "touches_one", 'order="shuffled"'),
        ("check", "touches_one", ""),
        ("check", "leaves", ""),
        ("accesses", "touches_one", ""),
        ("trace", "touches_one", ""),
    ],
)
def test_hundreds_of_millions_of_programs_take_bounded_memory_and_can_be_stopped(
    function: str, kernel: str, keywords: str
) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(function=function, kernel=kernel, keywords=keywords)],
        # The GPU is hidden, because CUDA takes memory too.
        env={**os.environ, "PYTHONPATH": python_path(root), "CUDA_VISIBLE_DEVICES": ""}, cwd=root,
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    # A trace watches one program; all others take two seconds, and it may be done by then.
    assert "was interrupted" in done.stdout or function == "trace", done.stderr
    grown = int(done.stdout.rsplit(maxsplit=1)[1])
    assert grown < 800, done.stdout  # an int64 for each program would be 1,600


@pytest.mark.parametrize("function", ["run", "check", "trace", "accesses", "bisect"])
def test_more_programs_than_anybody_waits_for_are_refused(
    function: str, messages: SnapshotAssertion
) -> None:
    x, z = torch.ones(64), torch.zeros(64)
    for grid in ((10**9,), (65536, 4096, 2)):
        with pytest.raises(GridError, match="BLOCK") as refused:
            getattr(kernellab, function)(double, grid, x, z, 64, BLOCK=64)
        assert refused.value == messages
    assert not z.any()


def test_more_programs_than_can_be_stepped_through_are_refused(messages: SnapshotAssertion) -> None:
    x, z = torch.ones(64), torch.zeros(64)
    entry_points: list[tuple[Any, str]] = [
        (kernellab.trace, "programs"),
        (kernellab.debug, "program"),
    ]
    for function, option in entry_points:
        with pytest.raises(OptionError, match=option) as refused:
            function(double, (10**9,), x, z, 64, BLOCK=64, **{option: "all"})
        assert refused.value == messages
    with pytest.raises(OptionError) as refused:
        kernellab.trace(double, (10**9,), x, z, 64, BLOCK=64, programs=range(999_999))
    assert refused.value == messages


def test_a_set_of_programs_is_exact_and_small() -> None:
    kept = ProgramSet()
    expected: set[int] = set()
    for batch in ([5, 3, 5], range(60_000, 70_000, 3), range(70_000), [10**12]):
        kept.update(batch)
        expected.update(batch)
        assert len(kept) == len(expected)
        assert kept.first(8) == sorted(expected)[:8]
    joined = ProgramSet()
    joined.update(kept)
    assert joined.first(10**6) == sorted(expected)
