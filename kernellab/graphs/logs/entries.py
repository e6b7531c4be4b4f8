"""The entries of a log that torch wrote with `TORCH_TRACE`: a line of JSON each, and below it,
behind tabs, the text that it is about.
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
"""Bytes of all texts that are kept."""

MOST_ENTRIES = 100_000
"""That are kept."""

_HEADER = re.compile(
    rb"(?:\[rank\d+\]:)?[VIWEC]\d{4} (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d\.\d{6}) +\d+ "
    rb"[^\s:]{1,4096}:\d+\] (?P<json>\{.*)"
)
_KEY = re.compile(rb'\{"(?P<key>[^"\\]{1,100})"')

_NEWLINE = b"\n"

_BEGINNING = 1 << 16
"""Bytes of a file in which its first entry stands."""


@dataclass(frozen=True)
class Entry:
    """One entry.

    Attributes:
        line: where it stands, from 1.
        seconds: since midnight.
        metadata: its JSON.
        payload: its text; None without.
    """

    line: int
    seconds: float
    metadata: dict[str, Any]
    payload: str | None

    def of(self, kind: str) -> dict[str, Any]:
        """What it says under a name; {} where that is something else."""
        found = self.metadata.get(kind)
        return found if isinstance(found, dict) else {}


@dataclass
class Entries:
    """The entries of a log that somebody wanted, and what could not be read.

    Attributes:
        kept: in order.
        strings: long texts, which a log says once and then by number.
        count: of all entries.
        stopped: where the log ends, or reading it did, before its end; "".
        damages: line and what is wrong there, of the first; `damaged` is how many there are.
    """

    kept: list[Entry] = field(default_factory=list)
    strings: dict[int, str] = field(default_factory=dict)
    count: int = 0
    damages: list[tuple[int, str]] = field(default_factory=list)
    damaged: int = 0
    stopped: str = ""

    def note(self, line: int, what: str) -> None:
        """Something cannot be read."""
        self.damaged += 1
        if len(self.damages) < 3:
            self.damages.append((line, what))

    @property
    def fault(self) -> str:
        """What kept the log from being read whole; "" where nothing did."""
        parts = [self.stopped] if self.stopped else []
        if self.damages:
            line, what = self.damages[0]
            parts.append(
                f"{self.damaged:,} of its {self.count:,} entries cannot be read, or not whole; the "
                f"first stands on line {line:,}: {what}"
            )
        return "; ".join(parts)


def is_trace_log(content: bytes) -> bool:
    """Whether the first entry of such a log stands where a file begins."""
    lines = content[:_BEGINNING].splitlines()
    return any(_HEADER.match(line) is not None for line in lines[:50])


def entries_in(content: bytes, wanted: Callable[[str, dict[str, Any]], bool]) -> Entries:
    """The wanted entries of a log.

    Args:
        content: of the file.
        wanted: from the kind of an entry, and what it says of itself, to whether it is kept.
    """
    found = Entries()
    kept = 0
    for line, header, payload in _parts(content):
        found.count += 1
        key = _KEY.match(header["json"])
        kind = key["key"].decode("utf-8", "replace") if key else ""
        if kind != "str" and kind != "artifact" and not wanted(kind, {}):
            continue
        try:
            metadata = json_in(header["json"].decode("utf-8", "replace"))
        except BadFile as error:
            found.note(line, f"it {error}")
            continue
        if not isinstance(metadata, dict):
            continue
        if kind == "str":
            _intern(found, metadata["str"])
            continue
        said = metadata.get(kind)
        if not wanted(kind, said if isinstance(said, dict) else {}):
            continue
        kept += len(payload or b"") + len(header["json"])
        if kept > MOST_KEPT or len(found.kept) == MOST_ENTRIES:
            found.stopped = (
                f"it was read up to line {line:,}: no more than {MOST_KEPT:,} bytes and "
                f"{MOST_ENTRIES:,} entries are"
            )
            break
        text = _text(found, line, metadata, payload)
        found.kept.append(Entry(line, _seconds(header), metadata, text))
    else:
        if not content.endswith(b"\n"):
            found.stopped = f"it breaks off on line {content.count(_NEWLINE) + 1:,}"
    return found


def _parts(content: bytes) -> Iterator[tuple[int, re.Match[bytes], bytes | None]]:
    """Each entry: its line, its header and its text."""
    header: re.Match[bytes] | None = None
    place, texts = 0, list[bytes]()
    for number, line in enumerate(io.BytesIO(content), 1):
        if line.startswith(b"\t"):
            texts.append(line[1:])
            continue
        following = _HEADER.match(line.rstrip(b"\r\n"))
        if following is None:
            continue  # of something else that wrote to the same file
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


def _intern(found: Entries, pair: Any) -> None:
    match pair:
        case [str(text), int(number)] if len(found.strings) < MOST_ENTRIES:
            found.strings[number] = text


def _text(found: Entries, line: int, metadata: dict[str, Any], payload: bytes | None) -> str | None:
    """An entry's text, whose checksum the entry has."""
    checksum = metadata.get("has_payload")
    if checksum is None:
        return None
    content = payload or b""
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != checksum:
        found.note(line, "its text is cut off or another one than its checksum says")
    return content.decode("utf-8", "replace")
