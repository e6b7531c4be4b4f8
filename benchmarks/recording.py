"""What recording every pass costs over a bare `triton.compile`,
and how long one matmul takes for all 13 targets.

Both sides compile the same specialization with Triton's cache off, in turns. Goals:
at most 1.5 times a bare compile; the 13 targets, recorded, in at most 8 s on two cores.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pandas
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.harness import Comparison, print_report, take_turns, timed
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile, compile_bound
from kernellab.compiler.targets import SUPPORTED_TARGETS, parse_target
from kernellab.records import Target
from tests.corpus.entries import Entry
from tests.corpus.loader import entry

GOAL_RATIO = 1.5
GOAL_ALL_TARGETS_SECONDS = 8.0
KERNELS = ("matmul", "attention_forward", "attention_backward", "layer_norm_backward")
TARGETS = ("sm_90", "gfx942")


def bare_compile(one: Entry, call: BoundCall, target: Target) -> dict[str, Any]:
    """Triton alone: the stages, by name."""
    specialization = call.specialization
    source = ASTSource(
        one.kernel,
        dict(specialization.signature),
        dict(specialization.constants),
        dict(specialization.attributes),
    )
    arch: Any = target.arch if target.backend == "hip" else int(target.arch)
    warp_size = 64 if target.backend == "hip" else 32
    gpu = GPUTarget(target.backend, arch, warp_size)
    compiled = triton.compile(source, target=gpu, options=dict(call.options))
    return {name: content for name, content in compiled.asm.items() if name != "source"}


def row(one: Entry, target: Target, rounds: int) -> tuple[float, dict[str, Any]]:
    """The ratio, and the row of the table."""
    call = bind(one.kernel, one.types, {}, target, options=one.options, constants=one.constants)
    turns: Comparison = take_turns(
        lambda: timed(lambda: compile_bound(one.kernel, call, target, record="passes")),
        lambda: timed(lambda: bare_compile(one, call, target)),
        rounds=rounds,
    )
    ours: Compilation = turns.last_ours
    plain = compile_bound(one.kernel, call, target, record="passes", ttgir_lines=False)
    same = all(plain.stages[name].content == text for name, text in turns.last_theirs.items())
    return turns.overhead, {
        "kernel": one.name,
        "target": target.name,
        "passes": len(ours.passes),
        "triton.compile, ms": f"{turns.their_median * 1e3:.0f}",
        "recorded, ms": f"{turns.our_median * 1e3:.0f}",
        "ratio": f"{turns.overhead:.2f}",
        "stages equal": "yes" if same else "NO",
    }


def all_targets() -> float:
    """Seconds for one matmul, recorded, for every target: the best of three."""
    one = entry("matmul_small")
    took = []
    for _ in range(3):
        started = time.perf_counter()
        compile(
            one.kernel,
            *one.types,
            constants=one.constants,
            options=one.options,
            target=SUPPORTED_TARGETS,
        )
        took.append(time.perf_counter() - started)
    return min(took)


def main() -> None:
    """Print both tables; exit with 1 where a goal is missed or an output differs."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    knobs.compilation.always_compile = True
    rows = [
        row(entry(name), parse_target(target), rounds) for name in KERNELS for target in TARGETS
    ]
    print_report(
        "Recording every pass",
        pandas.DataFrame([cells for _, cells in rows]),
        f"Triton's cache off; medians of {rounds} compiles of each side, in turns. Goal: a ratio "
        f"of at most {GOAL_RATIO}. "
        '"Stages equal": without the locations that name TTGIR lines, every stage is the same, '
        "byte for byte.",
    )
    seconds = all_targets()
    print(
        f"One matmul for {len(SUPPORTED_TARGETS)} targets, recorded: {seconds:.1f} s "
        f"(goal: at most {GOAL_ALL_TARGETS_SECONDS:.0f} s; the best of three)."
    )
    missed = any(ratio > GOAL_RATIO for ratio, _ in rows) or seconds > GOAL_ALL_TARGETS_SECONDS
    raise SystemExit(1 if missed or any("NO" in cells.values() for _, cells in rows) else 0)


if __name__ == "__main__":
    main()
