"""The page of a package's messages, `tests/messages/PACKAGE.txt`, which its tests compare with.

A test asserts `text == messages`, or that a call raises an error of the page, with its class, kind
and text: `raised(OptionError, kernellab.debug, kernel, (3,), x)`. The page has both under the
test's name. tests/README.md says how the pages are updated.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from syrupy.extensions.amber import AmberSnapshotExtension
from syrupy.location import PyTestLocation

from kernellab.errors import CompileError, KernelLabError
from tests.support import pinned_versions
from tests.support.source_files import ROOT

PAGES = ROOT / "tests/messages"

E = TypeVar("E", bound=BaseException)


class Raised(Protocol):
    """The fixture `raised`: makes a call, and compares the error that it raises with the page."""

    def __call__(
        self,
        error: type[E],
        call: Callable[..., object],
        /,
        *args: Any,
        match: str | None = None,
        **keywords: Any,
    ) -> E: ...


VARYING = (
    (re.compile(re.escape(str(ROOT)) + "/"), ""),
    (re.compile(r"(?ms)^usage: .*?(?=^kernellab[ \w-]*: error: )"), ""),
    (re.compile(r"/tmp/[^\s'\"`:,;)]*/(?=[\w.-])"), "FOLDER/"),
    (re.compile(r"FOLDER/(edited_)?test_\w+"), "FOLDER/NAME"),
    (re.compile(r"(FOLDER/[a-z_]+)_\d+\.py"), r"\1_NUMBER.py"),
    (re.compile(r"(\.py|<[\w -]+>|In\[\d*\])(:|, line )\d+"), r"\1\2LINE"),
    (re.compile(r"\.py\(\d+\)"), ".py(LINE)"),
    (re.compile(r"column \d+ \(char \d+\)"), "column NUMBER"),
    (re.compile(r"\bIn\[\d+\]"), "In[NUMBER]"),
    (re.compile(r"\(\d+\.py\b"), "(CELL.py"),
    (re.compile(r"\b([Ll]ines?) [\d,]*\d( to [\d,]*\d)?"), r"\1 LINE"),
    (re.compile(r"(?m)^( *->)? *\d+ \|"), r"\1    LINE |"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"\baddress = \d{9,}"), "address = ADDRESS"),
    (re.compile(r"\bid='\d+'"), "id=NUMBER"),
    (re.compile(r"\b(process|Breakpoint) \d+"), r"\1 NUMBER"),
    (re.compile(r", [0-9a-f]{8}>"), ", DIGEST>"),
    (re.compile(r"(The notebook has these [a-z ]+:) [\w, ]+"), r"\1 NAMES"),
    (re.compile(r"(Triton(?: says| rejects .* for a tile of [\dx]+|'s error):).*"), r"\1 REASON"),
    (re.compile(r"(or the label of a pass:).*"), r"\1 LABELS"),
    (re.compile(r"(is cut off or damaged:) (Bad |Error -|Overlapped |File ).*"), r"\1 REASON"),
    (re.compile(r"(?m)^(.{200}).{100,}(.{100})$"), r"\1 ... \2"),
)
"""What differs between machines and moves with the files of tests, and what is put there; the last
one leaves out the middle of a long line."""


class MessagePage(AmberSnapshotExtension):
    """One text file per package, with the messages in the order of the tests."""

    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(PAGES)

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: Any) -> str:
        return package_of(Path(test_location.filepath))

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        return Path(snapshot_location).stem == package_of(Path(test_location.filepath))

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        """Return whether a message is the page's; of other versions, whether class and kind are."""
        if pinned_versions.are_installed():
            return bool(serialized_data == snapshot_data)
        both = serialized_data, snapshot_data
        first, expected = (str(data).partition("\n")[0] for data in both)
        return first == expected or "(" not in expected

    def serialize(self, data: Any, **kwargs: Any) -> str:
        return without_varying_parts(said(data))


def package_of(file: Path) -> str:
    """Return the package whose tests are in a file: "launch" of tests/launch/test_fitting.py."""
    return file.relative_to(ROOT / "tests").parts[0]


def said(data: object) -> str:
    """Return what people read of an error, a finding, a text, or several of them."""
    if isinstance(data, KernelLabError):
        text = str(data)
        if isinstance(data, CompileError) and data.reason and data.reason in str(data.__cause__):
            text = text.replace(data.reason, "REASON")  # in the words of this version of Triton
        return f"{type(data).__name__} ({data.diagnostic.kind})\n{text}"
    if isinstance(data, BaseException):
        return f"{type(data).__name__}\n{data}"
    if isinstance(data, Iterable) and not isinstance(data, str):
        return "\n\n".join(map(said, data))
    return str(data)


def without_varying_parts(text: str) -> str:
    """Return a text without paths, line numbers and addresses."""
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines())
