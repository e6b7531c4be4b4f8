"""Profiles that other tools wrote: Proton's, speedscope's, traces in Chrome's form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kernellab.common.saved_files import BadFile
from kernellab.common.saved_json import Misfit
from kernellab.errors import ArchiveError
from kernellab.profiling.profiles.files.chrome import chrome_in, is_chrome
from kernellab.profiling.profiles.files.hatchet import hatchet_in, is_hatchet
from kernellab.profiling.profiles.files.speedscope import is_speedscope, speedscope_in
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import PROTON


def reader_of(content: bytes) -> Callable[[bytes], Profile] | None:
    """What reads the bytes of a file; None where they are no other tool's profile."""
    if is_hatchet(content):
        return lambda given: hatchet_in(given, PROTON)
    if is_speedscope(content):
        return speedscope_in
    if is_chrome(content):
        return lambda given: chrome_in(given, "a trace in Chrome's form")
    return None


def read(reader: Callable[[bytes], Profile], content: bytes, file: Path) -> Profile:
    """The profile that the bytes of a file hold.

    Raises:
        ArchiveError: they are damaged.
    """
    try:
        found = reader(content)
    except BadFile as error:
        raise ArchiveError(f"{str(file)!r} {error}.") from error
    except Misfit as error:
        raise ArchiveError(f"{str(file)!r} is no whole profile: {error}.") from error
    return replace(found, name=found.name or file.name)
