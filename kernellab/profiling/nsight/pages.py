"""The source page that Nsight Compute prints as CSV:
`ncu --import FILE --page source --print-source sass --csv`.

One table for each launch: a row with the kernel's name, a row with the columns, then one row for
each instruction. Columns differ with the version, the GPU and the sections that were collected;
stall reasons have short names ("stall_long_sb") or those of the metrics
("smsp__pcsamp_warps_issue_stalled_long_scoreboard").
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernellab.profiling.nsight.records import SampledInstruction

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
        csv.Error: the text is no CSV.
        ValueError: a count in it is none.
    """
    kernel = ""
    columns: _Columns | None = None
    found: list[SampledInstruction] = []
    for row in csv.reader(io.StringIO(text)):
        if len(row) > 1 and row[0] == "Kernel Name":
            if columns is not None:
                yield LaunchPage(kernel, tuple(found))
            kernel, columns, found = _name(row[1]), None, []
        elif columns is None and "Source" in row and "Address" in row:
            columns = _Columns.of(row)
        elif columns is not None and (one := columns.read(row)) is not None:
            found.append(one)
    if columns is not None:
        yield LaunchPage(kernel, tuple(found))


def _name(words: str) -> str:
    """A kernel's name without what some versions add:
    "matmul (1024, 1, 1)x(256, 1, 1), Context 1, ...".
    """
    return words.partition("(")[0].strip()


@dataclass(frozen=True)
class _Columns:
    """Where in a row each thing stands."""

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
        found = int(cell.strip(), 16)
    except ValueError:
        return None
    return found if 0 <= found < 2**64 else None


_LONGEST_NUMBER = 40

_MOST = 2**53
"""Of a count: views draw no larger ones exactly."""


def _number(cell: str) -> int:
    """A count: "1,234", "12.00"; 0 for "-", for nothing, and for what is no finite number.

    Raises:
        ValueError: it is negative, or larger than any count.
    """
    try:
        found = round(float(cell.replace(",", "")))
    except (ValueError, OverflowError):
        return 0
    if not 0 <= found <= _MOST:
        raise ValueError(f"{cell[:_LONGEST_NUMBER]} is no count")
    return found
