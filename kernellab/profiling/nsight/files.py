"""`kernellab.read_ncu`: a profile from a file of Nsight Compute's."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.formatting import shown
from kernellab.common.saved_files import file_bytes
from kernellab.common.saved_json import saved_path, why_unreadable
from kernellab.errors import ArgumentError, ProfileError, suggestion
from kernellab.profiling.nsight.pages import LaunchPage, launch_pages
from kernellab.profiling.nsight.records import SampledCode

_EXPORT = "ncu --import {file} --page source --print-source sass --csv > profile.csv"
_RECORD = "ncu --section SourceCounters --section WarpStateStats -o profile python your_script.py"
_TOOL = "Nsight Compute"


@names_bad_arguments
def read_ncu(
    path: str | os.PathLike[str], kernel: str = "", *, launch: int = 1, gpu: str = ""
) -> SampledCode:
    """Read what Nsight Compute measured of a kernel, instruction by instruction.

    Args:
        path: a report (.ncu-rep), which this machine's `ncu` prints; or its source page as
            CSV, which `ncu --import FILE --page source --print-source sass --csv` prints where
            it was recorded.
        kernel: the kernel's name; may be left out where the file has one kernel.
        launch: which of its launches, from 1.
        gpu: the GPU's name, for a CSV, which does not have it.

    Raises:
        ArgumentError: what was given is no path, no name or no number.
        ProfileError: the file cannot be read, holds no such kernel or launch, or has
            no instructions.
    """
    file = _path(path)
    for argument, given in (("kernel", kernel), ("gpu", gpu)):
        if not isinstance(given, str):
            raise ArgumentError(f"{argument}={shown(given)} is no name", advice="Give a string.")
    if isinstance(launch, bool) or not isinstance(launch, int):
        raise ArgumentError(
            f"launch={shown(launch)} is no number", advice="Launches are counted from 1."
        )
    is_report = file.suffix in (".ncu-rep", ".ncu-repz")
    text = _printed(file, "source", "--print-source", "sass") if is_report else _text(file)
    page = _chosen(_pages(text, file), file, kernel, launch)
    name = gpu or (_gpu(_printed(file, "raw")) if is_report else "")
    return SampledCode(page.kernel, name, _TOOL, page.instructions)


def _path(given: Any) -> Path:
    try:
        return saved_path(given, ArgumentError)
    except ArgumentError as error:
        raise ArgumentError(
            f"path={error.problem}",
            advice='Give a string or a pathlib.Path: kernellab.read_ncu("profile.ncu-rep").',
        ) from error


def _text(file: Path) -> str:
    return file_bytes(file, ProfileError).decode("utf-8-sig", errors="replace")


def _pages(text: str, file: Path) -> list[LaunchPage]:
    try:
        return list(launch_pages(text))
    except (csv.Error, ValueError) as error:
        raise ProfileError(
            f"{file.name} is no CSV that Nsight Compute prints: {error}.",
            advice=f"It comes from: {_EXPORT.format(file='profile.ncu-rep')}",
        ) from error


def _printed(file: Path, page: str, *options: str) -> str:
    """A page of a report, as CSV."""
    if not os.path.exists(file):
        raise ProfileError(why_unreadable(file, FileNotFoundError()))
    if shutil.which("ncu") is None:
        raise ProfileError(
            f"{file.name} is a report of Nsight Compute's, which only its own program reads, and "
            "there is no ncu here.",
            advice=f"Where it was recorded: {_EXPORT.format(file=file.name)}",
        )
    command = ["ncu", "--import", str(file), "--page", page, *options, "--csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise ProfileError(f"ncu cannot print the {page} page of {file.name}: {words}")
    return done.stdout


def _chosen(pages: list[LaunchPage], file: Path, kernel: str, launch: int) -> LaunchPage:
    """The launch that was asked for."""
    kernels = list(dict.fromkeys(page.kernel for page in pages if page.instructions))
    if not kernels:
        raise ProfileError(
            f"{file.name} has no table of instructions with the columns Address and Source.",
            advice=(
                f"Record with samples of each instruction: {_RECORD}\n"
                f"Then: {_EXPORT.format(file='profile.ncu-rep')}"
            ),
        )
    if not kernel and len(kernels) > 1:
        raise ProfileError(
            f"{file.name} has several kernels: {', '.join(kernels)}.",
            advice=f"Name one: kernellab.read_ncu({file.name!r}, {kernels[0]!r})",
        )
    wanted = kernel or kernels[0]
    launches = [page for page in pages if page.kernel == wanted and page.instructions]
    if not launches:
        raise ProfileError(
            f"{file.name} has no kernel {wanted!r}.",
            advice=suggestion(wanted, kernels, "It has"),
        )
    if not 1 <= launch <= len(launches):
        raise ProfileError(f"launch={launch}: {file.name} has {len(launches)} of {wanted}.")
    return launches[launch - 1]


def _gpu(raw: str) -> str:
    """The GPU's name in a report's raw page; "" where it is not there."""
    rows = list(csv.DictReader(line for line in raw.splitlines() if line.startswith('"')))
    names = (row.get("device__attribute_display_name") or "" for row in rows)
    return next((name for name in names if name), "")
