"""`kernellab.counters`: what Nsight Compute counts of a launch, and what is predicted with no GPU.

`python -m kernellab.profiling.profiles.nsight_counters FILE` is the process that Nsight Compute
watches.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton

from kernellab.common.arguments import check_duration, listed
from kernellab.common.text import shown
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.pipeline import compile_bound
from kernellab.errors import OptionError, ProfileError, TargetError
from kernellab.launch.argument_copies import map_tensors
from kernellab.launch.preparation import EntryPoint, prepare_bound, takes_launch
from kernellab.profiling.estimates.counts import LaunchCounts, count, with_memory
from kernellab.profiling.estimates.model import CALIBRATION, Model, estimated_gpu
from kernellab.profiling.profiles.nsight import Counter, Counters, SampledCode, launch_pages
from kernellab.records import BoundLaunch, Target
from kernellab.triton_api.kernel_contents import pack, unpack

_COUNTERS = EntryPoint("counters", on_gpu="bound", runs_hooks=False)
_NCU = ("ncu", "--clock-control", "none", "--cache-control", "all", "--force-overwrite")


@takes_launch
def counters(
    launch: BoundLaunch,
    *,
    metrics: Sequence[str] | None = None,
    target: str | Target | None = None,
    seconds: float = 300.0,
) -> Counters:
    """Count a launch with Nsight Compute on this machine's GPU, for the whole kernel and for each
    instruction, beside what KernelLab predicts without a GPU. If `ncu` is not installed, the result
    has the prediction and the reason.

    The launch runs twice in a separate process, on copies of the arguments.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, tensors on any device; or a
            bound launch.
        metrics: names that `ncu --query-metrics` lists, such as "smsp__inst_executed.sum"; None for
            all that KernelLab predicts.
        target: the GPU of the prediction; None for the one that a launch would emulate.
        seconds: the time limit for ncu.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Raises:
        ArgumentError, GridError, CompileError, KernelFault: as `kernellab.run`.
        OptionError: a metric is not a name.
        ProfileError: ncu failed: it has no permission, a metric does not exist, or the launch
            fails.
    """
    names = tuple(METRICS) if metrics is None else _names(metrics)
    check_duration("seconds", seconds)
    prepared = prepare_bound(launch, target, _COUNTERS)
    kernel, call, sizes = prepared.kernel, prepared.call, prepared.sizes()
    known = predicted(kernel, call, prepared.target, sizes)
    predictions = Counters(
        kernel.__name__,
        "",
        sizes,
        tuple(Counter(name, None, "", known.get(name)) for name in names),
    )
    if shutil.which("ncu") is None:
        return replace(predictions, notes=(_NO_NCU,))
    values = {
        name: value.cpu() if hasattr(value, "cpu") else value for name, value in call.values.items()
    }
    packed = pack((kernel, sizes, {**values, **call.options}))
    raw, source = _measured(kernel.__name__, packed, names, seconds)
    measured = joined(predictions, raw, source)
    if metrics is not None:
        _check_known(measured)
    return measured


_NO_NCU = (
    "Nothing was counted: ncu is not installed on this machine. Install the CUDA toolkit or "
    "Nsight Compute, on a machine with an NVIDIA GPU."
)


def _check_known(counters: Counters) -> None:
    """Raise ProfileError for a metric that was asked for, and that ncu left out of its report."""
    unknown = [
        counter.name for counter in counters if counter.measured is None and not counter.unit
    ]
    if unknown:
        raise ProfileError(
            f"ncu has no metric {', '.join(unknown)}.",
            advice="Run ncu --query-metrics to list the names, which end as in .sum or "
            ".avg.pct_of_peak_sustained_active.",
        )


def _names(given: Any) -> tuple[str, ...]:
    names: list[Any] = []
    if isinstance(given, str):
        names = [given]
    elif isinstance(given, list | tuple):
        names = listed("metrics", given)
    if not names or not all(isinstance(name, str) and name and "," not in name for name in names):
        raise OptionError(
            f"metrics must be names of Nsight Compute's metrics, got {shown(given)}.",
            advice='Pass metrics=["smsp__inst_executed.sum"]; ncu --query-metrics lists them.',
        )
    return tuple(names)


def joined(predictions: Counters, raw: str, source: str) -> Counters:
    """Predictions with what ncu printed of the launch: its raw page and its source page, as CSV."""
    rows = list(csv.reader(line for line in raw.splitlines() if line.startswith('"')))
    if len(rows) < _HEADED:
        raise ProfileError(f"ncu counted no launch of {predictions.kernel!r}: {raw.strip()[-500:]}")
    head, units, values = rows[:_HEADED]
    measured = {name: (value, unit) for name, unit, value in zip(head, units, values)}
    gpu = measured.get("device__attribute_display_name", ("", ""))[0]
    page = next(
        (page_read for page_read in launch_pages(source) if page_read.kernel == predictions.kernel),
        None,
    )
    lines = None
    if page is not None and page.instructions:
        lines = SampledCode(page.kernel, gpu, "Nsight Compute", page.instructions)
    return replace(
        predictions,
        gpu=gpu,
        counters=tuple(_with(counter, measured) for counter in predictions.counters),
        lines=lines,
    )


_HEADED = 3
"""Rows of the raw page of one launch: names, units, values."""


def _with(counter: Counter, measured: Mapping[str, tuple[str, str]]) -> Counter:
    value, unit = measured.get(counter.name, ("", ""))
    try:
        return replace(counter, measured=float(value.replace(",", "")), unit=unit)
    except ValueError:
        return counter


def _measured(
    kernel: str, packed: bytes, metrics: Sequence[str], seconds: float
) -> tuple[str, str]:
    """The raw page and the source page of the second launch."""
    with tempfile.TemporaryDirectory(prefix="kernellab-counters-") as folder:
        launch, report = Path(folder, "launch"), Path(folder, "counters.ncu-rep")
        launch.write_bytes(packed)
        _run(
            [
                *_NCU, "--kernel-name-base", "function", "--kernel-name", f"regex:^{kernel}$",
                "--launch-skip", "1", "--launch-count", "1", "--section", "SourceCounters",
                "--metrics", ",".join(metrics), "--export", str(report),
                sys.executable, "-m", "kernellab.profiling.profiles.nsight_counters", str(launch),
            ],
            seconds,
        )  # fmt: skip
        if not report.exists():
            raise ProfileError(f"ncu wrote no report: it saw no launch of {kernel!r}.")
        page = ["ncu", "--import", str(report), "--csv", "--page"]
        raw = _run([*page, "raw", "--print-units", "base"], seconds)
        return raw, _run([*page, "source", "--print-source", "sass"], seconds)


def _run(command: Sequence[str], seconds: float) -> str:
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        raise ProfileError(
            f"ncu did not finish within {seconds:g} s.", advice="Pass a larger seconds=."
        ) from None
    words = f"{done.stdout}\n{done.stderr}"
    if "ERR_NVGPUCTRPERM" in words:
        raise ProfileError(
            "This user may not read the GPU's counters (ERR_NVGPUCTRPERM).",
            advice=(
                "Have an administrator load the nvidia module with the option "
                "NVreg_RestrictProfilingToAdminUsers=0; start a container with --cap-add=SYS_ADMIN."
            ),
        )
    if done.returncode:
        raise ProfileError(f"ncu exited with {done.returncode}: {words.strip()[-1500:]}")
    return done.stdout


_OF_COUNTS: Mapping[str, Callable[[LaunchCounts], float]] = {
    "smsp__inst_executed.sum": lambda of: sum(of.instructions.values()) * of.programs,
    "sm__inst_executed_pipe_tensor.sum": lambda of: (
        of.instructions.get("tensor", 0.0) * of.programs
    ),
    "sm__inst_executed_pipe_xu.sum": lambda of: of.instructions.get("special", 0.0) * of.programs,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": lambda of: of.wavefronts * of.programs,
    "dram__bytes_read.sum": lambda of: of.read_bytes,
    "launch__grid_size": lambda of: float(of.programs),
    "launch__registers_per_thread": lambda of: float(of.registers),
}
"""Metric -> its number, from what is counted of a launch."""
_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
}
METRICS = (*_OF_COUNTS, *_LIMITS.values(), "gpu__time_duration.sum")
"""What can be predicted."""


def predicted(
    kernel: Any, call: BoundCall, target: Target, grid: tuple[int, int, int]
) -> Mapping[str, float]:
    """Metric -> what it will be, as far as KernelLab knows."""
    bare = replace(call, values=with_memory(call.values))
    compilation = compile_bound(kernel, call, target, ttgir_lines=True)
    counts, _ = count(compilation, kernel, grid, bare)
    limits = compilation.occupancy().limits
    metrics = {name: count_of(counts) for name, count_of in _OF_COUNTS.items()}
    metrics |= {name: float(limits[own]) for own, name in _LIMITS.items() if own in limits}
    try:
        took = Model([counts], estimated_gpu(target)).microseconds(CALIBRATION)[0]
    except TargetError:
        return metrics
    return {**metrics, "gpu__time_duration.sum": float(took) * 1e3}


# What Nsight Compute watches: a launch that another process packed, made twice.
#
# The first launch compiles the kernel and loads it, the second is the one that is counted.


def main(file: str) -> None:
    """Launch what the file holds: kernel, grid, arguments by name."""
    kernel, grid, values = unpack(Path(file).read_bytes())
    triton.set_allocator(
        lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda")
    )
    for _ in range(2):
        kernel[grid](
            **{name: map_tensors(value, torch.Tensor.cuda) for name, value in values.items()}
        )
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
