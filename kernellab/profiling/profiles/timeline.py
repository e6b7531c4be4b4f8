"""The events of a profile over time: of warps of programs, or of launches."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from kernellab.common.argument_checks import check_whole
from kernellab.common.saved_json import save_whole, saved_path
from kernellab.errors import ArchiveError, OptionError, ProfileError
from kernellab.profiling.profiles.records import Events, ProfileRecord
from kernellab.records.showing import plot
from kernellab.records.tables import frame_of


@dataclass(frozen=True, eq=False)
class Timeline:
    """Events in the order of their starts."""

    title: str
    events: Events

    @classmethod
    def of(cls, record: ProfileRecord, program: int | None = None) -> Timeline:
        """The events of a profile, or those of one program.

        Raises:
            ProfileError: the profile has no events.
            OptionError: no event is of that program.
        """
        events = record.events
        if events is None or not len(events):
            raise ProfileError(
                f"The profile, measured by {record.measured_by}, has no events with times.",
                advice=(
                    "Events are kept by kernellab.profile(kernel, grid, *args) on a GPU, by "
                    'data="trace" of a session, and by runs on the interpreter.'
                ),
            )
        chosen = numpy.ones(len(events), bool)
        if program is not None:
            check_whole("program", program)
            chosen = events.program == program
            if not chosen.any():
                known = numpy.unique(events.program)
                raise OptionError(
                    f"program={program}: no event is of that program.",
                    advice=f"There are {len(known):,}: {', '.join(map(str, known[:8]))}"
                    f"{', ...' if len(known) > 8 else ''}.",
                )
        order = numpy.flatnonzero(chosen)
        order = order[numpy.argsort(events.start[order], kind="stable")]
        return cls(record.name or record.measured_by, events.at(order))

    @property
    def records(self) -> Any:
        """One row per event, as a pandas DataFrame: program, warp, scope, start, end, duration."""
        events = self.events
        names = numpy.array(events.names, dtype=object)
        frame = frame_of([], [])
        frame["program"], frame["warp"] = events.program, events.warp
        frame["scope"] = names[events.scope]
        frame["start"], frame["end"] = events.start, events.end
        frame["duration"] = events.end - events.start
        return frame

    def plot(self) -> Any:
        """The figure: warps downwards, time to the right."""
        return plot(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the events as a Chrome trace, which chrome://tracing and Perfetto open: a process
        for each program, a thread for each warp; of cycles, one is shown as a nanosecond.

        Raises:
            ArchiveError: the file cannot be written.
        """
        file = saved_path(path, ArchiveError)
        return save_whole(file, chrome_trace(self.events).encode(), ArchiveError)

    def _repr_png_(self) -> bytes:
        picture: bytes = self.plot().png()
        return picture

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"<Timeline of {self.title}: {len(self):,} events, in {self.events.unit}>"


def chrome_trace(events: Events) -> str:
    """Events as a Chrome trace: times in microseconds."""
    unit = f"1 {events.unit.rstrip('s')} = 1 ns"
    data = {
        "displayTimeUnit": "ns",
        "otherData": {"unit": events.unit if events.unit == "ns" else unit},
        "traceEvents": [*_names(events), *_complete(events)],
    }
    return json.dumps(data, separators=(",", ":"))


def _names(events: Events) -> Iterator[dict[str, Any]]:
    for program in numpy.unique(events.program).tolist():
        name = "launches" if program < 0 else f"program {program}"
        yield {"ph": "M", "name": "process_name", "pid": program + 1, "args": {"name": name}}


def _complete(events: Events) -> Iterator[dict[str, Any]]:
    first = int(events.start.min()) if len(events) else 0
    columns = (events.program, events.warp, events.scope, events.start, events.end)
    for program, warp, scope, start, end in zip(*(column.tolist() for column in columns)):
        yield {
            "ph": "X",
            "name": events.names[scope],
            "pid": program + 1,
            "tid": warp + 1,
            "ts": (start - first) / 1000,
            "dur": (end - start) / 1000,
        }
