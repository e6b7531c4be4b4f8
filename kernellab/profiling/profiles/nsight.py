"""Profiles of Nsight Compute, from its files and pages, by a compilation's instructions."""

from __future__ import annotations

import collections
import csv
import dataclasses
import io
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from kernellab.common.saved_files import file_bytes
from kernellab.common.system import saved_path, why_unreadable
from kernellab.common.text import counted, joined_sizes, shown
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.records import Instruction
from kernellab.errors import ArgumentError, NotRecorded, ProfileError, suggestion, visible
from kernellab.records.display import HasCard, HasRows, data_frame

ISSUED = "selected"
"""The reason of samples in which the warp issued the instruction: not a stall."""

REASONS: Mapping[str, str] = {
    "barrier": "at a barrier, for the program's other warps",
    "branch_resolving": "for the target of a branch",
    "dispatch": "for the dispatcher",
    "drain": "at the end, for its stores to leave",
    "gmma": "for the tensor cores (wgmma)",
    "imc_miss": "for constants that were in no cache",
    "lg_throttle": "for a slot in the queue of global and local memory",
    "long_scoreboard": "for data from global or local memory",
    "math_pipe_throttle": "for an arithmetic unit that was busy",
    "membar": "at a memory fence",
    "mio_throttle": "for a slot in the queue of shared memory and special functions",
    "misc": "for another reason",
    "no_instruction": "for the instruction itself: it was in no cache",
    "not_selected": "though it could have gone on: another warp was taken",
    "selected": "not at all: it issued the instruction",
    "short_scoreboard": "for data from shared memory, or a special function",
    "sleeping": "asleep",
    "tex_throttle": "for a slot in the queue of textures",
    "wait": "for the cycles that the compiler has set",
    "warpgroup_arrive": "for the other warps of its warp group",
}
"""Reason -> what the warp waited for, after NVIDIA's Kernel Profiling Guide."""


@dataclass(frozen=True)
class SampledInstruction:
    """One instruction of SASS, with what was measured of it."""

    address: int
    """As the profiler gives it: an address in GPU memory, or bytes from the code's beginning."""
    text: str
    """ "@P0 LDG.E.128 R4, desc[UR4][R2.64]"."""
    samples: int
    """How often a warp was found at this instruction: next to issue, whether it waited or not."""
    reasons: Mapping[str, int]
    """Reason -> how many of the samples; see `REASONS`. Reasons without a sample are left out."""
    executed: int | None
    """How often a warp executed it; None if that was not counted."""
    counts: Mapping[str, int]
    """Other counters that are not 0, by the profiler's names: "L2 Theoretical Sectors Global"."""

    @property
    def stalls(self) -> int:
        """The samples in which the warp was waiting."""
        return sum(number for reason, number in self.reasons.items() if reason != ISSUED)


@dataclass(frozen=True)
class SampledCode(HasRows[SampledInstruction]):
    """One launch under a profiler: a sequence of instructions, in the order of the code."""

    kernel: str
    gpu: str
    """ "NVIDIA H200"; "" if it is not known."""
    tool: str
    """Who measured: "Nsight Compute"."""
    instructions: tuple[SampledInstruction, ...]
    _rows = "instructions"

    @property
    def samples(self) -> int:
        """Of all instructions."""
        return sum(instruction.samples for instruction in self.instructions)

    @property
    def reasons(self) -> Mapping[str, int]:
        """Reason -> samples of all instructions, the most frequent first."""
        total: collections.Counter[str] = collections.Counter()
        for instruction in self.instructions:
            total.update(instruction.reasons)
        return dict(total.most_common())

    @property
    def origin(self) -> str:
        """ "measured on NVIDIA H200 by Nsight Compute"."""
        return f"measured on {self.gpu or 'a GPU that the file does not name'} by {self.tool}"

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return dataclasses.asdict(self)

    def table(self) -> Any:
        """One row per instruction, as a pandas DataFrame."""
        return data_frame(
            self.instructions, ("address", "text", "samples", "stalls", "executed", "reasons")
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """How much was sampled, and what warps waited for in a twentieth of samples or more."""
        waited = [
            f"{number / self.samples:.0%} waiting {REASONS.get(reason, reason)} ({reason})"
            for reason, number in self.reasons.items()
            if reason != ISSUED and number >= self.samples / 20
        ]
        return f"{counted(self.samples, 'sample')} of {counted(len(self), 'instruction')}", *waited

    def __str__(self) -> str:
        return visible("\n  ".join([f"{self.kernel}, {self.origin}:", *self.summary]))


@dataclass(frozen=True)
class Counter:
    """One metric of Nsight Compute's."""

    name: str
    measured: float | None
    """None if it was not counted."""
    unit: str
    predicted: float | None
    """KernelLab's prediction without a GPU; None if it has no such number."""

    @property
    def ratio(self) -> float | None:
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured

    def __str__(self) -> str:
        known = "not counted" if self.measured is None else f"{self.measured:,.10g} {self.unit}"
        said = "" if self.predicted is None else f", predicted {self.predicted:,.10g}"
        return f"{self.name}: {known.strip()}{said}"


@dataclass(frozen=True)
class Counters(HasCard, HasRows[Counter]):
    """The counters of one launch, by name."""

    kernel: str
    gpu: str
    """ "NVIDIA H200"; "" if nothing was counted."""
    grid: tuple[int, int, int]
    counters: tuple[Counter, ...]
    lines: SampledCode | None = field(default=None, repr=False)
    """Each instruction's counters, for `compilation.explore(result.lines)`; None without any."""
    notes: tuple[str, ...] = ()
    _rows = "counters"

    def __getitem__(self, name: str) -> Counter:
        """The counter of that name."""
        return next(counter for counter in self.counters if counter.name == name)

    def __str__(self) -> str:
        where = self.gpu or "predicted alone"
        title = f"{self.kernel}, grid {joined_sizes(self.grid)}, {where}"
        return "\n  ".join([title, *map(str, self.counters), *self.notes])

    def table(self) -> Any:
        """One row per counter, as a pandas DataFrame."""
        return data_frame(self.counters, ("name", "measured", "unit", "predicted", "ratio"))

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return dataclasses.asdict(self)


# `kernellab.read_ncu`: a profile from a file of Nsight Compute's, by the source page that it
# prints as CSV: `ncu --import FILE --page source --print-source sass --csv`.
#
# One table for each launch: a row with the kernel's name, a row with the columns, then one row
# for each instruction. Columns differ with the version, the GPU and the sections that were
# collected; stall reasons have short names ("stall_long_sb") or those of the metrics
# ("smsp__pcsamp_warps_issue_stalled_long_scoreboard").

_REASON = re.compile(r"(?:stall_|smsp__pcsamp_warps_issue_stalled_)(?P<name>\w+)$")
"""A column of samples with a stall reason; "not issued" columns repeat a part of them."""

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
    """The launches of a source page, in order. Raises ValueError: a count is not a number."""
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
    """A count: "1,234", "12.00"; 0 for "-" and the like. Raises ValueError: it is out of range."""
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
    """Read a measurement of Nsight Compute, instruction by instruction.

    Args:
        path: a report (.ncu-rep), which is printed with this machine's `ncu`; or its source page as
            CSV, which `ncu --import FILE --page source --print-source sass --csv` prints on the
            machine that recorded it.
        kernel: the kernel's name; optional if the file has one kernel.
        launch: which of the kernel's launches, counted from 1.
        gpu: the GPU's name, for a CSV file, which does not contain it.

    Raises:
        ArgumentError: an argument has the wrong type.
        ProfileError: the file cannot be read, or has no such kernel, launch or instructions.
    """
    file = saved_path(path, ArgumentError)
    for argument, given, example in (("kernel", kernel, "add"), ("gpu", gpu, "H100")):
        if not isinstance(given, str):
            raise ArgumentError(
                f"{argument} must be a name as a string, got {shown(given)}.",
                advice=f'Write {argument}="{example}", for example.',
            )
    if isinstance(launch, bool) or not isinstance(launch, int):
        raise ArgumentError(
            f"launch must be an integer, got {shown(launch)}.",
            advice="Write launch=1 for the first launch.",
        )
    is_report = file.suffix in (".ncu-rep", ".ncu-repz")
    if is_report:
        text = _printed(file, "source", "--print-source", "sass")
    else:
        text = file_bytes(file, ProfileError).decode("utf-8-sig", errors="replace")
    try:
        pages = list(launch_pages(text))
    except (csv.Error, ValueError) as error:
        raise ProfileError(
            f"{file.name} is not a CSV file of Nsight Compute: {error}.",
            advice=f"Export it with: {_EXPORT.format(file='profile.ncu-rep')}",
        ) from error
    page = _chosen(pages, file, kernel, launch)
    name = gpu or (_gpu(_printed(file, "raw")) if is_report else "")
    return SampledCode(page.kernel, name, _TOOL, page.instructions)


def _printed(file: Path, page: str, *options: str) -> str:
    if not os.path.exists(file):
        raise ProfileError(why_unreadable(file, FileNotFoundError()))
    if shutil.which("ncu") is None:
        raise ProfileError(
            f"{file.name} is a report of Nsight Compute, which only ncu can read, but ncu is not "
            "installed here.",
            advice=f"On the machine where it was recorded, run: {_EXPORT.format(file=file.name)}",
        )
    command = ["ncu", "--import", str(file), "--page", page, *options, "--csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise ProfileError(
            f"ncu cannot print the {page} page of {file.name}: {words}",
            advice="Use a version of ncu that can open this report.",
        )
    return done.stdout


def _chosen(pages: list[LaunchPage], file: Path, kernel: str, launch: int) -> LaunchPage:
    kernels = list(dict.fromkeys(page.kernel for page in pages if page.instructions))
    if not kernels:
        raise ProfileError(
            f"{file.name} has no table of instructions with the columns Address and Source.",
            advice=f"Record with samples of each instruction: {_RECORD}\n"
            f"Then: {_EXPORT.format(file='profile.ncu-rep')}",
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
            f"{file.name} has no kernel {wanted!r}.", advice=suggestion(wanted, kernels, "It has")
        )
    if not 1 <= launch <= len(launches):
        raise ProfileError(
            f"launch must be from 1 to {len(launches)}, got {launch}: {file.name} has "
            f"{len(launches)} launches of {wanted!r}."
        )
    return launches[launch - 1]


def _gpu(raw: str) -> str:
    """The GPU's name in a report's raw page; "" if it is not there."""
    rows = list(csv.DictReader(line for line in raw.splitlines() if line.startswith('"')))
    names = (row.get("device__attribute_display_name") or "" for row in rows)
    return next((name for name in names if name), "")


# Which line of a compilation's SASS each instruction of a profile is; refused where they are not
# the same code.

_TEXT = re.compile(r"\s*(?P<predicate>@!?U?P\w+)?\s*(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*)")

_JUMPS = (
    "BRA", "BRX", "BRXU", "BSSY", "BSYNC", "CALL", "JMP", "JMX", "JMXU", "RET", "WARPSYNC", "BREAK",
)  # fmt: skip
"""Instructions whose operands are places in code, which disassemblers name differently."""


Item = TypeVar("Item")


@dataclass(frozen=True)
class _Code:
    """An instruction without what disassemblers print in different ways."""

    predicate: str
    opcode: str
    operands: tuple[str, ...]

    def agrees(self, other: _Code) -> bool:
        """Whether both are the same, whatever order of operands and names of places are printed."""
        if (self.predicate, self.opcode) != (other.predicate, other.opcode):
            return False
        if self.opcode.partition(".")[0] in _JUMPS:
            return True
        if any("`(" in operand for operand in (*self.operands, *other.operands)):
            return len(self.operands) == len(other.operands)
        return sorted(self.operands) == sorted(other.operands)


def lines_of(profile: SampledCode, compilation: Compilation) -> Mapping[int, SampledInstruction]:
    """Line of the compilation's SASS -> what was measured of its instruction. Raises ProfileError:
    the profile is of another kernel, options, or version of Triton.
    """
    if profile.kernel != compilation.kernel:
        raise ProfileError(
            f"The profile is of {profile.kernel!r}, but the compilation is of "
            f"{compilation.kernel!r}.",
            advice="Compile the kernel that was profiled.",
        )
    try:
        whole = compilation.instructions
    except NotRecorded as error:
        raise ProfileError(
            f"The compilation has no machine code to line a profile up with: {error.problem}"
        ) from error
    measured = _without_padding(
        [(_of_text(instruction.text), instruction) for instruction in profile]
    )
    own = [instruction for instruction in whole if instruction.function == compilation.kernel]
    ours = next(
        (code for code in map(_ours, (whole, own)) if len(code) == len(measured)), _ours(whole)
    )
    for number, (here, there) in enumerate(zip_longest(ours, measured), 1):
        if here is None or there is None or not here[0].agrees(there[0]):
            raise _other_code(profile, compilation, number, here, there, (len(ours), len(measured)))
    return {here[1].line: there[1] for here, there in zip(ours, measured)}


def _ours(instructions: Sequence[Instruction]) -> list[tuple[_Code, Instruction]]:
    return _without_padding([(_of_text(str(each)), each) for each in instructions])


def _without_padding(code: list[tuple[_Code, Item]]) -> list[tuple[_Code, Item]]:
    """Without the NOPs that fill the section after the last instruction."""
    end = len(code)
    while end and code[end - 1][0].opcode == "NOP":
        end -= 1
    return code[:end]


def _of_text(text: str) -> _Code:
    match = _TEXT.match(text)
    if match is None:
        return _Code("", text.strip(), ())
    operands = match["operands"].split(",") if match["operands"].strip() else []
    return _Code(match["predicate"] or "", match["opcode"], tuple(map(_plain, operands)))


def _plain(operand: str) -> str:
    """An operand without spaces, and without the hint that its register is read again at once."""
    return "".join(operand.split()).replace(".reuse", "")


def _other_code(
    profile: SampledCode,
    compilation: Compilation,
    number: int,
    here: tuple[_Code, Instruction] | None,
    there: tuple[_Code, SampledInstruction] | None,
    counts: tuple[int, int],
) -> ProfileError:
    ours = str(here[1]) if here else "no more"
    theirs = there[1].text if there else "no more"
    return ProfileError(
        f"The profile of {profile.kernel!r} was recorded from different machine code than this "
        "compilation for "
        f"{compilation.target}: {counts[1]:,} instructions were profiled, and {counts[0]:,} are "
        f"here. Instruction {number} is {theirs!r} in the profile, and {ours!r} here.",
        advice="Compile for the launch that was profiled: the same types, constants, options and "
        "Triton version. Or save the compilation where the profile is recorded "
        "(compilation.save), and load it here.",
    )
