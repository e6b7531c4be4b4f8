"""Cycles of every line of twelve kernels on this machine's GPU, beside what two samplers see.

`python -m benchmarks.line_cycles --out FOLDER` writes, and writes again after each kernel,
line_cycles.json: machine and versions, and of each kernel the lines with their cycles, how much
longer the launch took for its marks, whether it gave the same results, and the cycles of a program
by the sum of its scopes and by two marks alone; the same lines by Nsight Compute's samples of
stalled warps (`ncu`), and by Proton's PC sampling. matmul.klprofile is one profile with its
timeline. `--only NAME` takes one kernel; what fails is recorded with its error.

Committed as benchmarks/data/line_cycles_h200.json, which tests read; `--table` prints it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import torch

import kernellab
from benchmarks import kernels, memory_kernels
from benchmarks.eleven_kernels import (
    atomic_histogram_case,
    attention_case,
    cleared,
    cumulative_sum_case,
    descriptor_attention_case,
    half_matmul_case,
    on_device,
    persistent_softmax_case,
)
from benchmarks.fidelity_outputs import machine
from benchmarks.harness import ROOT, print_report
from kernellab.cli.demo import (
    Case,
    dropout_case,
    layer_norm_case,
    softmax_case,
    vector_add_case,
)
from kernellab.compiler.binding import bind
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import local_target, parse_target
from kernellab.profiling.profiles.nsight import lines_of

DATA = ROOT / "benchmarks/data/line_cycles_h200.json"
MOST, WITHIN, OF = 1.3, 0.1, 8
"""The goals: at most so many times the plain launch, and a sum of scopes so near to a program's
cycles, for so many of the kernels."""


@dataclass(frozen=True)
class ProfiledLaunch:
    """One launch on the GPU."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    constants: Mapping[str, Any]

    def __call__(self) -> Any:
        """Launch, by Triton alone."""
        return self.kernel[self.grid](**self.arguments, **self.constants)


def _of_case(case: Case, device: str) -> ProfiledLaunch:
    arguments = on_device(cleared(case, case.make_arguments()), device)
    return ProfiledLaunch(case.kernel, case.grid, arguments, {**case.constants, **case.options})


def _matmul(device: str) -> ProfiledLaunch:
    size, block = 2048, 128
    case = half_matmul_case(size)
    constants = {**case.constants, "BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": 64}
    grid = ((size // block) ** 2,)
    options = {"num_warps": 8}
    case = dataclasses.replace(case, constants=constants, grid=grid, options=options)
    return _of_case(case, device)


def _rms_norm(device: str) -> ProfiledLaunch:
    rows, columns = 8192, 4096
    x = torch.randn(rows, columns, device=device, dtype=torch.float16)
    tensors = {"x_ptr": x, "w_ptr": x[0].clone(), "out_ptr": torch.zeros_like(x)}
    numbers = {"stride": columns, "columns": columns, "eps": 1e-5}
    return ProfiledLaunch(
        kernels.rms_norm, (rows,), {**tensors, **numbers}, {"BLOCK": columns, "num_warps": 8}
    )


def _transpose(device: str) -> ProfiledLaunch:
    size = 4096
    x = torch.randn(size, size, device=device)
    constants = {"M": 64, "N": 64, "ROWS": size, "COLUMNS": size}
    grid = (size // 64, size // 64)
    tensors = {"x": x, "out": torch.zeros_like(x)}
    return ProfiledLaunch(memory_kernels.transpose, grid, tensors, constants)


GPU = "cuda"

CASES: Mapping[str, Callable[[str], ProfiledLaunch]] = {
    "vector add": lambda device: _of_case(vector_add_case(1 << 24), device),
    "softmax": lambda device: _of_case(softmax_case(8192, 1024), device),
    "softmax, persistent": lambda device: _of_case(
        persistent_softmax_case(8192, 1024, programs=528), device
    ),
    "matmul": _matmul,
    "layer norm": lambda device: _of_case(layer_norm_case(4096, 8192), device),
    "rms_norm": _rms_norm,
    "dropout": lambda device: _of_case(dropout_case(1 << 24, 0.5), device),
    "histogram by atomics": lambda device: _of_case(atomic_histogram_case(1 << 20), device),
    "cumsum": lambda device: _of_case(cumulative_sum_case(8192, 1024), device),
    "attention": lambda device: _of_case(attention_case(heads=32, length=1024, head=64), device),
    "attention by descriptors": lambda device: _of_case(
        descriptor_attention_case(heads=32, length=1024, head=64), device
    ),
    "transpose": _transpose,
}


# Cycles by line


def by_scopes(launch: ProfiledLaunch, saved: Path | None) -> dict[str, Any]:
    """One launch, profiled by marks."""
    started = time.perf_counter()
    asked = (launch.kernel, launch.grid)
    named = {**launch.arguments, **launch.constants}
    profile = kernellab.profile(*asked, **named)
    seconds = time.perf_counter() - started
    if saved is not None:
        kernellab.profile(*asked, **named, programs=3).save(saved)
    whole = kernellab.profile(*asked, **named, detail="program", allow_occupancy_change=True)
    assert profile.perturbation is not None
    return {
        "lines": [
            [one.line, one.operation, round(one.cycles), one.executions]
            for one in profile.line_records
        ],
        "perturbation": {
            **dataclasses.asdict(profile.perturbation),
            "ratio": profile.perturbation.ratio,
        },
        "notes": list(profile.notes),
        "cycles of a program": {
            "sum of its scopes": _median_of_programs(profile),
            "by two marks": _median_of_programs(whole),
        },
        "seconds": round(seconds, 2),
    }


def _median_of_programs(profile: Any) -> float:
    """Cycles of a warp of a program, all its scopes together: the median."""
    records = profile.timeline().records
    first = records[records["warp"] == records["warp"].min()]
    return float(first.groupby("program")["duration"].sum().median())


# Samples by line


def by_ncu(page: Path, launch: ProfiledLaunch) -> dict[str, int]:
    """Samples of stalled warps by line of the kernel's file, of its launch in a source page."""
    target = local_target() or parse_target("sm_90")
    call = bind(launch.kernel, (), {**launch.arguments, **launch.constants}, target)
    # With lines of TTGIR in it the machine code stays as it is, and leads back through tl.max.
    compilation = compile_bound(launch.kernel, call, target, ttgir_lines=True)
    sampled = kernellab.read_ncu(page, compilation.kernel)
    found: Counter[int] = Counter()
    for at, one in lines_of(sampled, compilation).items():
        found[_own_line(compilation, at)] += one.samples
    return {str(line): count for line, count in found.most_common() if count}


def _own_line(compilation: Compilation, sass_line: int) -> int:
    """The innermost line of an instruction that is not in Triton's own files; 0 without one."""
    chains = compilation.source_map.chain("sass", sass_line)
    places = (one for chain in chains for one in chain)
    return next((one.line for one in places if "/triton/" not in one.file), 0)


def sample_with_ncu(folder: Path) -> Path:
    """Run all kernels once under ncu; gives its source page."""
    report, page = folder / "all.ncu-rep", folder / "ncu.csv"
    names = "|".join(sorted({make("cpu").kernel.__name__ for make in CASES.values()}))
    ncu = ("ncu", "--clock-control", "none", "--force-overwrite", "--import-source", "no")
    chosen = ("--kernel-name-base", "function", "--kernel-name", f"regex:^({names})$")
    sections = ("--section", "SourceCounters", "--section", "WarpStateStats")
    run([*ncu, *sections, *chosen, "--export", str(report), *_child("--launch")])
    page.write_text(
        run(["ncu", "--import", str(report), "--page", "source", "--print-source", "sass", "--csv"])
    )
    return page


def sample_with_proton(folder: Path) -> dict[str, Any]:
    """Run all kernels under Proton's PC sampling; gives its tree."""
    run([*_child("--sample"), str(folder / "proton")])
    tree: dict[str, Any] = json.loads((folder / "proton.hatchet").read_text())[0]
    return tree


def by_proton(tree: Mapping[str, Any], launch: ProfiledLaunch) -> dict[str, int]:
    """Samples by line of the kernel's file, of one kernel in Proton's tree."""
    found: Counter[int] = Counter()
    for node in _below(tree, launch.kernel.__name__):
        place, _, _function = str(node["frame"]["name"]).partition("@")
        file, _, line = place.rpartition(":")
        samples = int(node["metrics"].get("num_samples", 0))
        if samples:
            is_own = "/triton/" not in file and line.isdigit()
            found[int(line) if is_own else 0] += samples
    return {str(line): count for line, count in found.most_common()}


def _below(tree: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The nodes below those of a name."""
    found = []
    for node in tree.get("children", []):
        is_it = node["frame"]["name"] == name
        found += _all_of(node) if is_it else _below(node, name)
    return found


def _all_of(tree: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    children = tree.get("children", [])
    return [*children, *(one for child in children for one in _all_of(child))]


def run(command: list[str]) -> str:
    """What a command prints; RuntimeError with its last words where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)[:200]} gave {done.returncode}: "
            f"{done.stdout[-800:]}\n{done.stderr[-800:]}"
        )
    return done.stdout


def _child(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "benchmarks.line_cycles", *arguments]


def launch_all() -> None:
    """Each kernel once, for ncu to watch."""
    for make in CASES.values():
        make(GPU)()
    torch.cuda.synchronize()


def launch_sampled(path: str) -> None:
    """Each kernel some times under Proton, which has lines of what it saw loaded alone."""
    from triton import profiler

    profiler.start(path, backend="cupti", mode="pcsampling")
    for make in CASES.values():
        launch = make(GPU)
        for _ in range(50):
            launch()
        torch.cuda.synchronize()
    profiler.finalize()


# The recording


def record(out: Path, only: str | None) -> dict[str, Any]:
    """Measure each kernel in each way; the file is written again after each."""
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"machine": machine(), "kernels": {}}
    names = [name for name in CASES if only in (None, name)]

    def note(name: str, way: str, measure: Callable[[], Any]) -> None:
        try:
            result = measure()
        except Exception as error:
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"[:2000]}
        found["kernels"].setdefault(name, {})[way] = result
        (out / "line_cycles.json").write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}, {way}: {json.dumps(result)[:600]}", flush=True)

    for name in names:
        saved = out / "matmul.klprofile" if name == "matmul" else None
        note(name, "scopes", lambda name=name, saved=saved: by_scopes(CASES[name](GPU), saved))  # type: ignore[misc]
    with tempfile.TemporaryDirectory(prefix="kernellab-lines-") as folder:
        ways: dict[str, Callable[[ProfiledLaunch], Any]] = {}
        for way, sample in (("ncu", sample_with_ncu), ("proton", sample_with_proton)):
            try:
                sampled: Any = sample(Path(folder))
            except Exception as error:
                traceback.print_exc()
                found[way] = f"{type(error).__name__}: {error}"[:2000]
                continue
            read: Any = by_ncu if way == "ncu" else by_proton
            ways[way] = lambda launch, read=read, sampled=sampled: read(sampled, launch)  # type: ignore[misc]
            if way == "proton":
                (out / "proton_tree.json").write_text(json.dumps(sampled)[:2_000_000])
            else:
                (out / "ncu.csv").write_text(sampled.read_text()[:8_000_000])
        for way, measure in ways.items():
            for name in names:
                note(name, way, lambda name=name, measure=measure: measure(CASES[name](GPU)))  # type: ignore[misc]
    return found


def table(found: Mapping[str, Any]) -> pandas.DataFrame:
    """One row per kernel: times, sums, and the three lines that lead in each way."""
    rows = []
    for name, one in found["kernels"].items():
        scopes = one.get("scopes", {})
        if "error" in scopes:
            rows.append({"kernel": name, "scopes": scopes["error"]})
            continue
        sums = scopes["cycles of a program"]
        rows.append(
            {
                "kernel": name,
                "times plain": scopes["perturbation"]["ratio"],
                "sum / program": sums["sum of its scopes"] / sums["by two marks"],
                **{
                    way: " ".join(map(str, leading(one, way)))
                    for way in ("scopes", "ncu", "proton")
                },
            }
        )
    return pandas.DataFrame(rows).round(3)


def leading(one: Mapping[str, Any], way: str, most: int = 3) -> list[int]:
    """The lines that take most, by one way of measuring."""
    found: Counter[int] = Counter()
    if way == "scopes":
        for line, _, cycles, _ in one["scopes"]["lines"]:
            found[line] += cycles
    elif way in one and "error" not in one[way]:
        found.update({int(line): count for line, count in one[way].items()})
    del found[0]
    return [line for line, _ in found.most_common(most)]


def report(found: Mapping[str, Any]) -> int:
    """Print the table; 0 where the goals are met."""
    rows = table(found)
    fast = int((rows["times plain"] <= MOST).sum())
    near = int(((rows["sum / program"] - 1).abs() <= WITHIN).sum())
    print_report(
        "Cycles by line",
        rows,
        f"{found['machine']}. At most {MOST} times the plain launch: {fast} of {len(rows)}; the "
        f"scopes of a program add up to its cycles, within {WITHIN:.0%}: {near} of {len(rows)}. "
        f"Goal: {OF} each.",
    )
    return int(min(fast, near) < OF)


def main() -> None:
    """Parse the command line, and record or print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="the folder to write to")
    parser.add_argument("--only", choices=CASES, help="one kernel alone")
    parser.add_argument("--table", action="store_true", help="print what was recorded")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--sample", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.table:
        raise SystemExit(report(json.loads(DATA.read_text())))
    if not torch.cuda.is_available():
        raise SystemExit("This profiles kernels on a GPU, and torch sees none.")
    if given.launch:
        launch_all()
    elif given.sample:
        launch_sampled(given.sample)
    elif given.out is None:
        parser.error("--out says where to write to")
    else:
        raise SystemExit(report(record(given.out, given.only)))


if __name__ == "__main__":
    main()
