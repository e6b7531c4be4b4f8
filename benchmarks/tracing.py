"""What a trace costs: the time over a run with one program a batch, and the size of the file.

One side is `kernellab.trace`, the other the same launch with its programs one at a time, as tracing
has to run them. Goals: one program of a 512x512x512 product in at most 4 times and at most 5 MB;
all programs of adding a million in at most 10 s and 60 MB. What a trace puts off (comparing values,
compressing them) is in the time of saving it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pandas
import torch
import triton

import kernellab
from benchmarks.harness import print_report, take_turns, timed
from kernellab.cli.demo import Case, matmul_case, vector_add_case
from kernellab.interpreter.execution import program
from kernellab.tracing.records import Trace

ROUNDS = 15


class Row(NamedTuple):
    """One launch, the programs that are traced, and the goals."""

    name: str
    case: Case
    grid: tuple[int, ...]
    programs: Any
    times: float | None
    """The goal: so many times a run with one program a batch."""
    seconds: float | None
    """The goal: seconds, saving included."""
    megabytes: float


def rows_of_the_table() -> list[Row]:
    """The launches that are measured."""
    product, total = matmul_case(torch.float16), vector_add_case(1 << 20)
    return [
        Row("matmul 512x512x512, its first program alone", product, (1,), 0, 4, None, 5),
        Row("matmul 512x512x512, one program of 64", product, (64,), 0, 4, None, 5),
        Row("vector add 1M, all programs", total, (1024,), "all", None, 10, 60),
    ]


@contextmanager
def one_program_a_batch() -> Iterator[None]:
    """While active, code that is made runs one program at a time."""
    before, program.BATCH_BYTES = program.BATCH_BYTES, 1
    try:
        yield
    finally:
        program.BATCH_BYTES = before


def measured(row: Row, file: Path) -> tuple[bool, dict[str, Any]]:
    """Whether the goals are reached, and the row of the table."""
    case, arguments = row.case, row.case.make_arguments()
    words = {**arguments, **case.constants, **case.options}
    alone = triton.jit(case.kernel.fn)  # code of its own, which stays that of one program

    latest: list[Trace] = []  # one at a time: the harness would keep all of them, and their memory

    def trace() -> None:
        latest[:] = [kernellab.trace(case.kernel, row.grid, programs=row.programs, **words)]

    def run() -> None:
        kernellab.run(alone, row.grid, **words)

    with one_program_a_batch():
        run()
    rounds = ROUNDS if row.times else 3
    turns = take_turns(
        lambda: timed(trace, time.process_time),
        lambda: timed(run, time.process_time),
        rounds=rounds,
    )
    saving = timed(lambda: latest[0].save(file))
    size = file.stat().st_size / 1e6
    seconds = turns.our_median + saving.seconds
    reached = size <= row.megabytes
    reached &= row.times is None or turns.overhead <= row.times
    reached &= row.seconds is None or seconds <= row.seconds
    return reached, {
        "launch": row.name,
        "steps": f"{len(latest[0]):,}",
        "run, ms": f"{turns.their_median * 1e3:.1f}",
        "trace, ms": f"{turns.our_median * 1e3:.1f}",
        "times": f"{turns.overhead:.2f}",
        "saving, ms": f"{saving.seconds * 1e3:.0f}",
        "file, MB": f"{size:.2f}",
        "goals": "reached" if reached else "MISSED",
    }


def main() -> None:
    """Print the table; exit with 1 where a goal is missed."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(row, Path(folder) / "trace") for row in rows_of_the_table()]
    print_report(
        "Traces",
        pandas.DataFrame([columns for _, columns in rows]),
        f"CPU time; medians of {ROUNDS} in turns, of 3 for all programs. Run: one program a batch. "
        "Goals: the product in at most 4 times and 5 MB, the sums in at most 10 s with "
        "saving and 60 MB.",
    )
    raise SystemExit(not all(reached for reached, _ in rows))


if __name__ == "__main__":
    main()
