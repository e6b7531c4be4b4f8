"""What `kernellab.compile(record="stages")` costs over a bare `triton.compile`,
and SASS over the disassembler itself.

Both sides compile the same specialization through the same stages, with Triton's cache off,
in turns. Goals: at most 1.3 times a bare compile; SASS at most 20 ms over `nvdisasm`'s own time.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.harness import Comparison, print_report, take_turns, timed
from kernellab.cli.demo import kernels
from kernellab.compiler.binding import bind
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile
from kernellab.compiler.targets import parse_target
from kernellab.records import Target

ROUNDS = 9
GOAL_RATIO = 1.3
GOAL_SASS_SECONDS = 0.020

MATMUL_TYPES = (*["*fp16:16"] * 3, *["i32:16"] * 4, "i32:1", "i32:16", "i32:1", "i32:16", "i32:1")


@dataclass(frozen=True)
class Job:
    """One kernel to compile."""

    name: str
    kernel: Any
    types: Sequence[str]
    constants: Mapping[str, Any]


JOBS = (
    Job("vector add", kernels.vector_add, ["*fp32:16"] * 3 + ["i32"], {"BLOCK": 1024}),
    Job(
        "matmul",
        kernels.matmul,
        MATMUL_TYPES,
        {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "PRECISION": "ieee"},
    ),
)
TARGETS = ("sm_80", "sm_90", "gfx942")


def bare_compile(job: Job, target: Target) -> dict[str, Any]:
    """Triton alone: the stages, by name."""
    specialization = bind(job.kernel, job.types, job.constants, target).specialization
    warp_size = 64 if target.backend == "hip" else 32
    arch = target.arch if target.backend == "hip" else int(target.arch)
    source = ASTSource(
        job.kernel,
        dict(specialization.signature),
        dict(specialization.constants),
        dict(specialization.attributes),
    )
    compiled = triton.compile(source, target=GPUTarget(target.backend, arch, warp_size))
    return {name: content for name, content in compiled.asm.items() if name != "source"}


def our_compile(job: Job, target: Target) -> Compilation:
    """KernelLab's compile, recording stages only:
    `benchmarks.recording` measures what recording passes costs.
    """
    compilation = compile(job.kernel, *job.types, **job.constants, target=target, record="stages")
    assert isinstance(compilation, Compilation)
    return compilation


def same_stages(ours: Compilation, theirs: Mapping[str, Any]) -> bool:
    """Whether every stage that Triton made is in ours, equal."""
    return all(ours.stages[name].content == content for name, content in theirs.items())


def compile_row(job: Job, target: Target) -> tuple[float, dict[str, Any]]:
    """The ratio, and the row of the table."""
    turns: Comparison = take_turns(
        lambda: timed(lambda: our_compile(job, target)),
        lambda: timed(lambda: bare_compile(job, target)),
        rounds=ROUNDS,
    )
    return turns.overhead, {
        "kernel": job.name,
        "target": target.name,
        "triton.compile, ms": f"{turns.their_median * 1e3:.0f}",
        "kernellab.compile, ms": f"{turns.our_median * 1e3:.0f}",
        "ratio": f"{turns.overhead:.2f}",
        "stages equal": "yes" if same_stages(turns.last_ours, turns.last_theirs) else "NO",
    }


def sass_row(job: Job, target: Target) -> tuple[float, dict[str, Any]]:
    """Seconds over the disassembler's own time, and the row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        cubin = our_compile(job, target).stages["cubin"].content
        assert isinstance(cubin, bytes)
        file.write_bytes(cubin)
        command = [knobs.nvidia.nvdisasm.path, "-g", "-c", str(file)]
        # Each of our calls needs a compilation whose SASS no one has asked for yet.
        fresh = iter([our_compile(job, target) for _ in range(ROUNDS + 1)])
        turns: Comparison = take_turns(
            lambda: timed_sass(next(fresh)),
            lambda: timed(
                lambda: subprocess.run(command, capture_output=True, text=True, check=True).stdout
            ),
            rounds=ROUNDS,
        )
    extra = turns.our_median - turns.their_median
    return extra, {
        "kernel": job.name,
        "target": target.name,
        "nvdisasm, ms": f"{turns.their_median * 1e3:.0f}",
        'stages["sass"], ms': f"{turns.our_median * 1e3:.0f}",
        "extra, ms": f"{extra * 1e3:.1f}",
        "text equal": "yes" if turns.last_ours == turns.last_theirs else "NO",
    }


def timed_sass(compilation: Compilation) -> Any:
    """One reading of SASS, timed."""
    return timed(lambda: compilation.stages["sass"].text)


def main() -> None:
    """Print both tables; exit with 1 where a goal is missed or an output differs."""
    knobs.compilation.always_compile = True
    targets = [parse_target(name) for name in TARGETS]
    compiles = [compile_row(job, target) for job in JOBS for target in targets]
    sass = [sass_row(job, target) for job in JOBS for target in targets if target.backend == "cuda"]
    print_report(
        "Compiling with and without KernelLab",
        pandas.DataFrame([row for _, row in compiles]),
        f"Triton's cache off; medians of {ROUNDS} compiles of each side, in turns. Goal: a ratio "
        f"of at most {GOAL_RATIO}.",
    )
    print_report(
        "Disassembling",
        pandas.DataFrame([row for _, row in sass]),
        f"Medians of {ROUNDS}, in turns. Goal: at most {GOAL_SASS_SECONDS * 1e3:.0f} ms extra.",
    )
    rows = [row for _, row in (*compiles, *sass)]
    different = any("NO" in row.values() for row in rows)
    slow = any(ratio > GOAL_RATIO for ratio, _ in compiles)
    slow = slow or any(extra > GOAL_SASS_SECONDS for extra, _ in sass)
    raise SystemExit(1 if different or slow else 0)


if __name__ == "__main__":
    main()
