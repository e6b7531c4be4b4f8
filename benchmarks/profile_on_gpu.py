"""What Nsight Compute samples of two kernels on this machine's GPU, line by line,
with the compilations that ran.

`python -m benchmarks.profile_on_gpu --out FOLDER` writes for each kernel
profile_h200_NAME.kernellab (the compilation, as `kernellab.load` reads it) and
profile_h200_NAME.csv (ncu's source page: samples, stall reasons and executions of every
instruction, without the columns in which nothing is), and profile_h200.json: machine, versions,
launches, whether the compilation is the code that ran, and the counters of the whole launch. A part
that fails is recorded with its error, and the next goes on. `--small` takes small sizes, to see
that everything works.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton

import kernellab
from benchmarks.fidelity_outputs import machine
from benchmarks.harness import ROOT
from benchmarks.tuning_cases import FULL, SMALL, Sizes, TuningCase, matmul_case, softmax_case
from kernellab.compiler.binding import bind
from kernellab.compiler.machine_code.cubin import sections
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import local_target

FACTS = "profile_h200.json"
MOST_BYTES = 200_000
"""A file of the recording has at most so many."""


@dataclass(frozen=True)
class ProfiledCase:
    """A kernel, and the one config of it that is profiled."""

    make: Callable[[Sizes, str], TuningCase]
    config: Mapping[str, Any]


CASES = {
    "matmul": ProfiledCase(
        lambda sizes, device: matmul_case(sizes.matrix, device),
        {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    ),
    "softmax": ProfiledCase(
        lambda sizes, device: softmax_case(sizes.rows, sizes.columns, device),
        {"ROWS": 4, "num_warps": 4, "num_stages": 2},
    ),
}


def file_name(name: str, suffix: str) -> str:
    """Of a kernel's recording."""
    return f"profile_h200_{name}.{suffix}"


# What a process of its own does: the one that compiles, and the one that the profiler watches


def compile_case(name: str, sizes: Sizes, folder: Path) -> None:
    """Compile a kernel for this machine's GPU, and save that."""
    case, config = CASES[name].make(sizes, "cuda"), CASES[name].config
    target = local_target()
    assert target is not None  # `main` has seen a GPU
    call = bind(case.kernel, (), {**case.arguments, **case.fixed, **config}, target)
    # With lines of TTGIR in it the machine code stays as it is,
    # and leads back through tl.max and the like.
    compilation = compile_bound(case.kernel, call, target, record="stages", ttgir_lines=True)
    compilation.save(folder / file_name(name, "kernellab"))


def launch_case(name: str, sizes: Sizes, folder: Path) -> None:
    """Launch a kernel twice, through Triton alone, and say what ran."""
    case, config = CASES[name].make(sizes, "cuda"), CASES[name].config
    for _ in range(2):
        ran = case.kernel[case.grid](**case.arguments, **case.fixed, **config)
    torch.cuda.synchronize()
    saved = kernellab.load(folder / file_name(name, "kernellab"))
    grid = case.grid({**case.fixed, **config}) if callable(case.grid) else case.grid
    facts = {
        "kernel": saved.kernel,
        "target": str(saved.target),
        "grid": [*grid, 1, 1][:3],
        "config": dict(config),
        "compilation is what ran": code_of(saved.stages["cubin"].content)
        == code_of(ran.asm["cubin"]),
    }
    (folder / f"{name}.json").write_text(json.dumps(facts))


def code_of(cubin: bytes) -> dict[str, bytes]:
    """The machine code in a binary, without what says where it comes from."""
    return {name: one.content for name, one in sections(cubin).items() if name.startswith(".text.")}


# The profiler

NCU = ("ncu", "--clock-control", "none", "--force-overwrite", "--import-source", "no")
SECTIONS = ("SourceCounters", "WarpStateStats", "SpeedOfLight", "LaunchStats", "Occupancy")
SOURCE_PAGES: Sequence[Sequence[str]] = (
    ("--page", "source", "--print-source", "sass", "--csv"),
    ("--page", "source", "--csv"),
)
"""How the source page is asked for; the second is of versions that do not know the first."""


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What a command prints; RuntimeError with its last words where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        words = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}".strip()
        raise RuntimeError(f"{' '.join(command)} gave {done.returncode}: {words}")
    return done.stdout


def copy_without_places(saved: Path, copy: Path, places: Mapping[str, str]) -> None:
    """Copy a saved compilation, with other names for the folders of this machine."""
    text = gzip.decompress(saved.read_bytes()).decode()
    for place, name in places.items():
        text = text.replace(place + "/", name + "/").replace(f'{place}"', f'{name}"')
    copy.write_bytes(gzip.compress(text.encode(), mtime=0))


def profile_case(name: str, folder: Path, out: Path, small: bool, home: Path) -> dict[str, Any]:
    """Compile a kernel, launch it under the profiler, and write what was sampled."""
    child = [
        sys.executable,
        "-P",
        "-m",
        "benchmarks.profile_on_gpu",
        "--out",
        str(folder),
        *(["--small"] if small else []),
    ]
    paths = [str(home), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    run([*child, "--compile", name], environment)
    saved = folder / file_name(name, "kernellab")
    places = {str(home): "/lab", str(Path(triton.__file__).parents[1]): "/site-packages"}
    copy_without_places(saved, out / saved.name, places)
    report = folder / f"{name}.ncu-rep"
    kernel = kernellab.load(saved).kernel
    wanted = [part for section in SECTIONS for part in ("--section", section)]
    chosen = (
        "--kernel-name-base",
        "function",
        "--kernel-name",
        f"regex:^{kernel}$",
        "--launch-skip",
        "1",
        "--launch-count",
        "1",
    )
    printed = run(
        [*NCU, *wanted, *chosen, "--export", str(report), *child, "--launch", name], environment
    )
    facts: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    if not report.exists():
        raise RuntimeError(f"ncu wrote no report: {printed[-2000:]}")
    page = source_page(report)
    try:
        lines = compact(page)
    except Exception:
        (out / file_name(name, "raw.csv")).write_text(page[:MOST_BYTES])
        raise
    (out / file_name(name, "csv")).write_text(lines)
    facts["instructions"] = lines.count("\n") - 2
    raw = run(["ncu", "--import", str(report), "--page", "raw", "--print-units", "base", "--csv"])
    facts["counters"] = counters(raw)
    return facts


def source_page(report: Path) -> str:
    """ncu's source page of a report, as CSV."""
    problem = RuntimeError("ncu prints no source page")
    for page in SOURCE_PAGES:
        try:
            printed = run(["ncu", "--import", str(report), *page])
        except RuntimeError as error:
            problem = error
            continue
        if '"Source"' in printed:
            return printed
    raise problem


def compact(page: str) -> str:
    """A source page without the columns in which nothing is;
    of one that is too long, without those of warps that could have issued nothing.
    """
    rows = [row for row in csv.reader(io.StringIO(page)) if row]
    start = next(at for at, row in enumerate(rows) if "Source" in row and "Address" in row)
    kernel = next((row for row in rows[:start] if row[0] == "Kernel Name"), ["Kernel Name", ""])
    head = rows[start]
    body = [row for row in rows[start + 1 :] if len(row) == len(head)]
    kept = [
        column
        for column, name in enumerate(head)
        if name in ("#", "Address", "Source", "# Samples", "Instructions Executed")
        or any(row[column] not in ("", "0", "-", "0.00", "0.0") for row in body)
    ]
    text = written([kernel, *([row[column] for column in kept] for row in (head, *body))])
    if len(text) > MOST_BYTES:
        kept = [column for column in kept if "(Not Issued)" not in head[column]]
        text = written([kernel, *([row[column] for column in kept] for row in (head, *body))])
    return text


def written(rows: Sequence[Sequence[str]]) -> str:
    """Rows as ncu writes them."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


def counters(page: str) -> dict[str, str]:
    """The raw page of one launch: each metric that is not 0, with its unit;
    what the GPU is like as such is left out.
    """
    lines = [line for line in page.splitlines() if line.startswith('"')]
    head, units, values = list(csv.reader(lines))[:3]
    others = ("Process ID", "Process Name", "Host Name", "device__attribute", "derived_")
    return {
        name: f"{value} {unit}".strip()
        for name, unit, value in zip(head, units, values, strict=True)
        if value not in ("", "0") and not name.startswith(others)
    }


def record(out: Path, small: bool) -> None:
    """Profile each kernel; the file of facts is written again after each."""
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="kernellab-profile-") as folder:
        # Code that names files has them under this name, wherever it is compiled.
        home = Path(folder, "lab")
        home.symlink_to(ROOT, target_is_directory=True)
        for name in ("ncu", *CASES):
            try:
                if name == "ncu":
                    found[name] = run(["ncu", "--version"]).strip().splitlines()[-1]
                else:
                    found[name] = profile_case(name, Path(folder), out, small, home)
            except Exception as error:
                traceback.print_exc()
                found[name] = {"error": f"{type(error).__name__}: {error}"}
            (out / FACTS).write_text(json.dumps(found, indent=1) + "\n")
            print(f"{name}: {json.dumps(found[name])[:3000]}", flush=True)


def main() -> None:
    """Parse the command line, and record; the processes that compile
    and launch are started by this one.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    parser.add_argument("--small", action="store_true", help="small sizes, to try everything")
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--compile", choices=CASES, help="only compile this kernel, and save that")
    does.add_argument(
        "--launch", choices=CASES, help="only launch this kernel, for a profiler to watch"
    )
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("This profiles kernels on a GPU, and torch sees none.")
    sizes = SMALL if given.small else FULL
    if given.compile is not None:
        compile_case(given.compile, sizes, given.out)
    elif given.launch is not None:
        launch_case(given.launch, sizes, given.out)
    else:
        record(given.out, given.small)


if __name__ == "__main__":
    main()
