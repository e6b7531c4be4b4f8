"""Read the entries of a log that torch wrote with `TORCH_TRACE`.

Each entry is a line of JSON, followed by its payload in lines that start with a tab.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kernellab.common.saved_files import BadFile, json_in

MOST_KEPT = 128 * 1024 * 1024
"""Limit for the bytes of all kept entries."""

MOST_ENTRIES = 100_000
"""Limit for the number of kept entries."""

_HEADER = re.compile(
    rb"(?:\[rank\d+\]:)?[VIWEC]\d{4} (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d\.\d{6}) +\d+ "
    rb"[^\s:]{1,4096}:\d+\] (?P<json>\{.*)"
)
_KEY = re.compile(rb'\{"(?P<key>[^"\\]{1,100})"')

_NEWLINE = b"\n"

_BEGINNING = 1 << 16
"""Bytes at the start of a file that are searched for its first entry."""


@dataclass(frozen=True)
class Entry:
    """One entry of a log.

    Attributes:
        line: its line number in the log, from 1.
        seconds: its time, in seconds since midnight.
        metadata: its JSON.
        payload: its text, or None if it has none.
    """

    line: int
    seconds: float
    metadata: dict[str, Any]
    payload: str | None

    def of(self, kind: str) -> dict[str, Any]:
        """Return the object under a key of the metadata, or {} if the value is not an object."""
        value = self.metadata.get(kind)
        return value if isinstance(value, dict) else {}


@dataclass
class Entries:
    """The requested entries of a log, and the places that could not be read.

    Attributes:
        kept: the requested entries, in order.
        strings: number -> string, for strings that the log writes once and refers to by number.
        count: the number of all entries.
        damages: line number and problem, for the first three problems.
        damaged: the number of all problems.
        stopped: why the log was not read to its end, or "".
    """

    kept: list[Entry] = field(default_factory=list)
    strings: dict[int, str] = field(default_factory=dict)
    count: int = 0
    damages: list[tuple[int, str]] = field(default_factory=list)
    damaged: int = 0
    stopped: str = ""

    def note(self, line: int, what: str) -> None:
        """Record a problem with the entry on a line."""
        self.damaged += 1
        if len(self.damages) < 3:
            self.damages.append((line, what))

    @property
    def fault(self) -> str:
        """Why the log could not be read completely, or ""."""
        parts = [self.stopped] if self.stopped else []
        if self.damages:
            line, what = self.damages[0]
            parts.append(
                f"{self.damaged:,} of its {self.count:,} entries cannot be read completely; the "
                f"first is on line {line:,}: {what}"
            )
        return "; ".join(parts)


def is_trace_log(content: bytes) -> bool:
    """Return whether a file begins like a log of `TORCH_TRACE`."""
    lines = content[:_BEGINNING].splitlines()
    return any(_HEADER.match(line) is not None for line in lines[:50])


def entries_in(content: bytes, wanted: Callable[[str, dict[str, Any]], bool]) -> Entries:
    """Return the requested entries of a log.

    Args:
        content: the bytes of the file.
        wanted: takes the kind of an entry and its object, and returns whether to keep the entry.
    """
    entries = Entries()
    kept = 0
    for line, header, payload in _parts(content):
        entries.count += 1
        key = _KEY.match(header["json"])
        kind = key["key"].decode("utf-8", "replace") if key else ""
        if kind != "str" and kind != "artifact" and not wanted(kind, {}):
            continue
        try:
            metadata = json_in(header["json"].decode("utf-8", "replace"))
        except BadFile as error:
            entries.note(line, f"it {error}")
            continue
        if not isinstance(metadata, dict):
            continue
        if kind == "str":
            _intern(entries, metadata["str"])
            continue
        said = metadata.get(kind)
        if not wanted(kind, said if isinstance(said, dict) else {}):
            continue
        kept += len(payload or b"") + len(header["json"])
        if kept > MOST_KEPT or len(entries.kept) == MOST_ENTRIES:
            entries.stopped = (
                f"it was read up to line {line:,}, the limit of {MOST_KEPT:,} bytes or "
                f"{MOST_ENTRIES:,} entries"
            )
            break
        text = _text(entries, line, metadata, payload)
        entries.kept.append(Entry(line, _seconds(header), metadata, text))
    else:
        if not content.endswith(b"\n"):
            entries.stopped = f"it ends in the middle of line {content.count(_NEWLINE) + 1:,}"
    return entries


def _parts(content: bytes) -> Iterator[tuple[int, re.Match[bytes], bytes | None]]:
    """Yield the line number, the header and the payload of each entry."""
    header: re.Match[bytes] | None = None
    place, texts = 0, list[bytes]()
    for number, line in enumerate(io.BytesIO(content), 1):
        if line.startswith(b"\t"):
            texts.append(line[1:])
            continue
        following = _HEADER.match(line.rstrip(b"\r\n"))
        if following is None:
            continue  # another program wrote to the same file
        if header is not None:
            yield place, header, _joined(texts)
        header, place, texts = following, number, []
    if header is not None:
        yield place, header, _joined(texts)


def _joined(texts: list[bytes]) -> bytes | None:
    return b"".join(texts).removesuffix(b"\n") if texts else None


def _seconds(header: re.Match[bytes]) -> float:
    hour, minute = int(header["hour"]), int(header["minute"])
    return 3600.0 * hour + 60.0 * minute + float(header["second"])


def _intern(entries: Entries, pair: Any) -> None:
    match pair:
        case [str(text), int(number)] if len(entries.strings) < MOST_ENTRIES:
            entries.strings[number] = text


def _text(
    entries: Entries, line: int, metadata: dict[str, Any], payload: bytes | None
) -> str | None:
    """Return an entry's payload as text, after comparing it with the entry's checksum."""
    checksum = metadata.get("has_payload")
    if checksum is None:
        return None
    content = payload or b""
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != checksum:
        entries.note(line, "its text does not match its checksum")
    return content.decode("utf-8", "replace")
