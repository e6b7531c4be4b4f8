"""`kernellab.read_ncu`: a profile from a file of Nsight Compute's, by the source page that it
prints as CSV: `ncu --import FILE --page source --print-source sass --csv`.

One table for each launch: a row with the kernel's name, a row with the columns, then one row for
each instruction. Columns differ with the version, the GPU and the sections that were collected;
stall reasons have short names ("stall_long_sb") or those of the metrics
("smsp__pcsamp_warps_issue_stalled_long_scoreboard").
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernellab.common.formatting import shown
from kernellab.common.saved_files import file_bytes
from kernellab.common.saved_json import saved_path, why_unreadable
from kernellab.errors import ArgumentError, ProfileError, suggestion
from kernellab.profiling.nsight.records import SampledCode, SampledInstruction

_REASON = re.compile(r"(?:stall_|smsp__pcsamp_warps_issue_stalled_)(?P<name>\w+)$")
"""A column of samples with a stall reason; those that end in "not issued" count a part
of the same samples again."""

_SHORT = {
    "branch_resolve": "branch_resolving",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instruction",
    "no_instructions": "no_instruction",
    "short_sb": "short_scoreboard",
    "sleep": "sleeping",
    "tex": "tex_throttle",
}
"""Short name of a reason -> the name that the metric has."""

_SAMPLES = ("# Samples", "Warp Stall Sampling (All Samples)", "smsp__pcsamp_sample_count")
_EXECUTED = ("Instructions Executed", "inst_executed", "smsp__inst_executed")
_COUNTED = (
    "L2 Theoretical Sectors Global",
    "L2 Theoretical Sectors Global Ideal",
    "L1 Wavefronts Shared",
    "L1 Wavefronts Shared Ideal",
)


@dataclass(frozen=True)
class LaunchPage:
    """One table of the page."""

    kernel: str
    instructions: tuple[SampledInstruction, ...]


def launch_pages(text: str) -> Iterator[LaunchPage]:
    """The launches of a source page, in order; none where the text has no table of instructions.

    Raises:
        csv.Error: the text is not CSV.
        ValueError: a count in it is not a number.
    """
    kernel = ""
    columns: _Columns | None = None
    instructions: list[SampledInstruction] = []
    for row in csv.reader(io.StringIO(text)):
        if len(row) > 1 and row[0] == "Kernel Name":
            if columns is not None:
                yield LaunchPage(kernel, tuple(instructions))
            # Some versions add to it: "matmul (1024, 1, 1)x(256, 1, 1), Context 1, ...".
            kernel, columns, instructions = row[1].partition("(")[0].strip(), None, []
        elif columns is None and "Source" in row and "Address" in row:
            columns = _Columns.of(row)
        elif columns is not None and (sample := columns.read(row)) is not None:
            instructions.append(sample)
    if columns is not None:
        yield LaunchPage(kernel, tuple(instructions))


@dataclass(frozen=True)
class _Columns:
    """The index of each column in a row."""

    width: int
    address: int
    text: int
    samples: int | None
    executed: int | None
    reasons: Mapping[int, str]
    counted: Mapping[int, str]

    @classmethod
    def of(cls, head: Sequence[str]) -> _Columns:
        """Read the names of the columns."""
        address = head.index("Address")
        reasons = {}
        for at, name in enumerate(head):
            match = _REASON.match(name)
            if match is not None and not match["name"].endswith("_not_issued"):
                reasons[at] = _SHORT.get(match["name"], match["name"])
        return cls(
            width=len(head),
            address=address,
            # Beside Python or CUDA, an instruction's text is the second "Source",
            # after its address.
            text=next(
                at
                for at, name in enumerate(head)
                if name == "Source" and (at > address or head.count("Source") == 1)
            ),
            samples=_first(head, _SAMPLES),
            executed=_first(head, _EXECUTED),
            reasons=reasons,
            counted={at: name for at, name in enumerate(head) if name in _COUNTED},
        )

    def read(self, row: Sequence[str]) -> SampledInstruction | None:
        """The instruction of a row; None for a row of something else."""
        if len(row) != self.width or (address := _address(row[self.address])) is None:
            return None
        reasons = _summed((name, _number(row[at])) for at, name in self.reasons.items())
        sampled = sum(reasons.values()) if self.samples is None else _number(row[self.samples])
        return SampledInstruction(
            address=address,
            text=row[self.text].strip(),
            samples=sampled,
            reasons=reasons,
            executed=None if self.executed is None else _number(row[self.executed]),
            counts=_summed((name, _number(row[at])) for at, name in self.counted.items()),
        )


def _first(head: Sequence[str], names: Sequence[str]) -> int | None:
    return next((head.index(name) for name in names if name in head), None)


def _summed(numbers: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Name -> sum, without what is 0."""
    total: dict[str, int] = {}
    for name, number in numbers:
        if number:
            total[name] = total.get(name, 0) + number
    return total


def _address(cell: str) -> int | None:
    """An address of 64 bits, in hexadecimal with or without 0x; a running number does as well."""
    if len(cell) > _LONGEST_NUMBER:
        return None
    try:
        number = int(cell.strip(), 16)
    except ValueError:
        return None
    return number if 0 <= number < 2**64 else None


_LONGEST_NUMBER = 40

_MOST = 2**53
"""Of a count: views draw no larger ones exactly."""


def _number(cell: str) -> int:
    """A count: "1,234", "12.00"; 0 for "-", for nothing, and for what is not a finite number.

    Raises:
        ValueError: it is negative, or larger than any count.
    """
    try:
        number = round(float(cell.replace(",", "")))
    except (ValueError, OverflowError):
        return 0
    if not 0 <= number <= _MOST:
        raise ValueError(f"{cell[:_LONGEST_NUMBER]} is not a count")
    return number


_EXPORT = "ncu --import {file} --page source --print-source sass --csv > profile.csv"
_RECORD = "ncu --section SourceCounters --section WarpStateStats -o profile python your_script.py"
_TOOL = "Nsight Compute"


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
        ArgumentError: an argument is not a path, a name or a number.
        ProfileError: the file cannot be read, holds no such kernel or launch, or has
            no instructions.
    """
    file = saved_path(path, ArgumentError)
    for argument, given in (("kernel", kernel), ("gpu", gpu)):
        if not isinstance(given, str):
            raise ArgumentError(f"{argument} must be a string, got {shown(given)}.")
    if isinstance(launch, bool) or not isinstance(launch, int):
        raise ArgumentError(
            f"launch must be an integer, got {shown(launch)}.",
            advice="Launches are counted from 1.",
        )
    is_report = file.suffix in (".ncu-rep", ".ncu-repz")
    if is_report:
        text = _printed(file, "source", "--print-source", "sass")
    else:
        text = file_bytes(file, ProfileError).decode("utf-8-sig", errors="replace")
    page = _chosen(_pages(text, file), file, kernel, launch)
    name = gpu or (_gpu(_printed(file, "raw")) if is_report else "")
    return SampledCode(page.kernel, name, _TOOL, page.instructions)


def _pages(text: str, file: Path) -> list[LaunchPage]:
    try:
        return list(launch_pages(text))
    except (csv.Error, ValueError) as error:
        raise ProfileError(
            f"{file.name} is not a CSV file of Nsight Compute: {error}.",
            advice=f"Export it with: {_EXPORT.format(file='profile.ncu-rep')}",
        ) from error


def _printed(file: Path, page: str, *options: str) -> str:
    """A page of a report, as CSV."""
    if not os.path.exists(file):
        raise ProfileError(why_unreadable(file, FileNotFoundError()))
    if shutil.which("ncu") is None:
        raise ProfileError(
            f"{file.name} is a report of Nsight Compute's, which only ncu reads, and "
            "ncu is not installed here.",
            advice=f"On the machine where it was recorded, run: {_EXPORT.format(file=file.name)}",
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
