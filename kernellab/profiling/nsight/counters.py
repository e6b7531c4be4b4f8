"""`kernellab.counters`: what Nsight Compute counts of a launch, beside what is predicted with no
GPU.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernellab.common.argument_checks import check_duration, listed
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.errors import OptionError, ProfileError
from kernellab.launch.preparation import EntryPoint, Grid, apart_from_parameters, prepare
from kernellab.profiling.nsight.counter_records import Counter, Counters
from kernellab.profiling.nsight.pages import launch_pages
from kernellab.profiling.nsight.predicting import METRICS, predicted
from kernellab.profiling.nsight.records import SampledCode
from kernellab.records import Target
from kernellab.triton_api.shipping import pack

_COUNTERS = EntryPoint("counters", on_gpu="bound", runs_hooks=False)
_NCU = ("ncu", "--clock-control", "none", "--cache-control", "all", "--force-overwrite")


@dataclass(frozen=True)
class _CountersOptions:
    """What `counters` itself is told; see there."""

    metrics: Any = None
    target: Any = None
    seconds: Any = 300.0


@names_bad_arguments
def counters(
    kernel: Any,
    grid: Grid,
    *args: Any,
    metrics: Sequence[str] | None = None,
    target: str | Target | None = None,
    seconds: float = 300.0,
    **keywords: Any,
) -> Counters:
    """What Nsight Compute counts of a launch on this machine's GPU, for the whole kernel and for
    each instruction, beside what the lab predicts with no GPU; where there is no ncu, the
    prediction alone, and why.

    The launch is made in a process of its own, twice, on copies of the arguments.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`, tensors on any device.
        metrics: names as `ncu --query-metrics` lists them, "smsp__inst_executed.sum"; None takes
            those that can be predicted.
        target: the GPU that the prediction is for; None means the one that a launch would emulate.
        seconds: how long ncu may take.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Raises:
        ArgumentError, GridError, CompileError, KernelFault: as `kernellab.run`.
        OptionError: metrics that are no names.
        ProfileError: ncu is there and counts nothing: no permission, an unknown metric, a launch
            that fails.
    """
    own, keywords = apart_from_parameters(
        _CountersOptions(metrics, target, seconds), kernel, args, keywords
    )
    asked = tuple(METRICS) if own.metrics is None else _names(own.metrics)
    check_duration("seconds", own.seconds)
    launch = prepare(kernel, grid, args, keywords, own.target, _COUNTERS)
    call, sizes = launch.call, launch.sizes()
    known = predicted(launch.kernel, call, launch.target, sizes)
    found = Counters(
        launch.kernel.__name__,
        "",
        sizes,
        tuple(Counter(name, None, "", known.get(name)) for name in asked),
    )
    if shutil.which("ncu") is None:
        return replace(found, notes=(_NO_NCU,))
    values = {name: _on_cpu(value) for name, value in call.values.items()}
    packed = pack((launch.kernel, sizes, {**values, **call.options}))
    raw, source = _measured(launch.kernel.__name__, packed, asked, own.seconds)
    measured = joined(found, raw, source)
    if own.metrics is not None:
        _check_known(measured)
    return measured


_NO_NCU = (
    "Nothing was counted: there is no ncu on this machine. It comes with the CUDA toolkit, or as "
    "NVIDIA Nsight Compute by itself, and needs a GPU of NVIDIA's."
)


def _check_known(found: Counters) -> None:
    """Raise ProfileError for a metric that was asked for, and that ncu left out of its report."""
    unknown = [one.name for one in found if one.measured is None and not one.unit]
    if unknown:
        raise ProfileError(
            f"ncu counted no {', '.join(unknown)}.",
            advice="ncu --query-metrics lists the names, which end as in .sum or "
            ".avg.pct_of_peak_sustained_active.",
        )


def _names(given: Any) -> tuple[str, ...]:
    names: list[Any] = []
    if isinstance(given, str):
        names = [given]
    elif isinstance(given, list | tuple):
        names = listed("metrics", given)
    if not names or not all(isinstance(one, str) and one and "," not in one for one in names):
        raise OptionError(
            "metrics are names of Nsight Compute's",
            advice='As in metrics=["smsp__inst_executed.sum"]; ncu --query-metrics lists them.',
        )
    return tuple(names)


def _on_cpu(value: Any) -> Any:
    return value.cpu() if hasattr(value, "cpu") else value


def joined(predictions: Counters, raw: str, source: str) -> Counters:
    """Predictions with what ncu printed of the launch: its raw page and its source page, as CSV."""
    rows = list(csv.reader(line for line in raw.splitlines() if line.startswith('"')))
    if len(rows) < _HEADED:
        raise ProfileError(f"ncu counted no launch of {predictions.kernel!r}: {raw.strip()[-500:]}")
    head, units, values = rows[:_HEADED]
    measured = {name: (value, unit) for name, unit, value in zip(head, units, values)}
    gpu = measured.get("device__attribute_display_name", ("", ""))[0]
    page = next((one for one in launch_pages(source) if one.kernel == predictions.kernel), None)
    lines = None
    if page is not None and page.instructions:
        lines = SampledCode(page.kernel, gpu, "Nsight Compute", page.instructions)
    return replace(
        predictions,
        gpu=gpu,
        counters=tuple(_with(one, measured) for one in predictions.counters),
        lines=lines,
    )


_HEADED = 3
"""Rows of the raw page of one launch: names, units, values."""


def _with(one: Counter, measured: Mapping[str, tuple[str, str]]) -> Counter:
    value, unit = measured.get(one.name, ("", ""))
    try:
        return replace(one, measured=float(value.replace(",", "")), unit=unit)
    except ValueError:
        return one


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
                sys.executable, "-m", "kernellab.profiling.nsight.in_child", str(launch),
            ],
            seconds,
        )  # fmt: skip
        if not report.exists():
            raise ProfileError(f"ncu wrote no report: it saw no launch of {kernel!r}")
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
        raise ProfileError(f"ncu did not finish within {seconds:g} s") from None
    words = f"{done.stdout}\n{done.stderr}"
    if "ERR_NVGPUCTRPERM" in words:
        raise ProfileError(
            "this user may not read the GPU's counters (ERR_NVGPUCTRPERM)",
            advice=(
                "An administrator allows it: options nvidia NVreg_RestrictProfilingToAdminUsers=0 "
                "for the nvidia module; in a container, --cap-add=SYS_ADMIN."
            ),
        )
    if done.returncode:
        raise ProfileError(f"ncu gave {done.returncode}: {words.strip()[-1500:]}")
    return done.stdout
