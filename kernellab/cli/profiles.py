"""`kernellab profile` and `kernellab view`: a script profiled, a profile in the terminal."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.common.saved_files import check_place
from kernellab.common.text import counted, percent, visible
from kernellab.errors import KernelLabError, source_line
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import COUNT, TIME, ProfiledLine
from kernellab.profiling.profiles.trees import totals_of

_LONGEST_NAME = 60
_MOST_PARTS = 12
"""Lines of one kernel that are shown."""


def profile_script(options: argparse.Namespace) -> int:
    """Run a script, profiled, and print what its kernels took; the exit status is the script's.

    Raises:
        KernelLabError: there is no such file, or nothing can be measured here.
    """
    from kernellab.compiler.targets import local_target
    from kernellab.launch.interception import interpreted
    from kernellab.profiling.profiles.session import profile

    script = options.script
    if not os.path.isfile(script):
        raise KernelLabError(f"There is no file {script!r}.", advice="Give a Python script.")
    if options.output is not None:
        check_place(options.output)
    is_emulated = local_target() is None
    around: AbstractContextManager[object] = (
        interpreted(answers="gpu") if is_emulated else nullcontext()
    )
    session = profile(name=Path(script).name, context=options.context, mode=options.mode)
    with around, session:
        status = _run(script, options.arguments)
    print(text_of(session.profile, options))
    if options.output is not None:
        print(f"Profile: {session.profile.save(options.output)}")
    return status


def _run(script: str, arguments: list[str]) -> int:
    """Run a script as `python` does."""
    before, folder = sys.argv, str(Path(script).resolve().parent)
    sys.argv = [script, *arguments]
    sys.path.insert(0, folder)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception:  # the script's own, printed as Python prints it
        traceback.print_exc()
        return 1
    finally:
        sys.argv = before
        if folder in sys.path:
            sys.path.remove(folder)
    return 0


def view_file(options: argparse.Namespace) -> int:
    """Print a saved profile, or another record.

    Raises:
        KernelLabError: the file opens as nothing.
    """
    from kernellab.loading import load

    profile = load(options.file)
    if not isinstance(profile, Profile):
        print(profile)
        return 0
    if options.list:
        print("\n".join(map(visible, profile.metrics)))
    elif options.diff is not None:
        other = load(options.diff)
        print((profile.diff(other)).tree(options.metrics))
    else:
        print(text_of(profile, options))
    return 0


# Text


def text_of(profile: Profile, options: argparse.Namespace) -> str:
    """A profile for a terminal: its kernels with their shares, or the tree of some metrics."""
    chosen = {name: getattr(options, name) for name in ("include", "exclude", "threshold", "depth")}
    if options.metrics is not None or any(value is not None for value in chosen.values()):
        return str(profile.tree(options.metrics, **chosen))
    return "\n".join(_summary(profile))


@dataclass
class _Total:
    """What all launches of a kernel took."""

    name: str
    nanoseconds: float = 0
    launches: float = 0
    lines: dict[tuple[str, int], float] = field(default_factory=dict)


def _summary(profile: Profile) -> Iterator[str]:
    kernels = _totals(profile)
    whole = sum(kernel.nanoseconds for kernel in kernels)
    yield f"{visible(profile.name) or 'Profile'}  {visible(profile.origin)}"
    yield f"  {_time(whole)} in {counted(len(kernels), 'kernel')}"
    yield from (f"  {visible(note)}" for note in profile.notes)
    width = max((len(_name(kernel)) for kernel in kernels), default=0)
    for kernel in kernels:
        share = percent(kernel.nanoseconds / whole) if whole else ""
        launches = counted(round(kernel.launches), "launch").replace("launchs", "launches")
        yield ""
        yield (
            f"  {_name(kernel).ljust(width)}  {share:>7}  {_time(kernel.nanoseconds):>10}"
            f"  {launches}"
        )
        yield from _parts(kernel)


def _name(kernel: _Total) -> str:
    """A kernel's name: templates of C++ may have some hundred letters."""
    text = visible(kernel.name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _parts(kernel: _Total) -> Iterator[str]:
    """The lines of a kernel, the largest first."""
    ordered = sorted(kernel.lines.items(), key=lambda line: -line[1])
    for (file, line), share in ordered[:_MOST_PARTS]:
        text = source_line(file, line).strip()
        place = f"line {line}"
        yield f"      {percent(share):>7}  {place:<10} {visible(text)}".rstrip()
    if len(ordered) > _MOST_PARTS:
        rest = sum(share for _, share in ordered[_MOST_PARTS:])
        yield f"      {percent(rest):>7}  {counted(len(ordered) - _MOST_PARTS, 'other line')}"


def _totals(profile: Profile) -> list[_Total]:
    sums: dict[str, _Total] = {}
    totals = totals_of(profile.root)
    for scope in profile.root.walk():
        if scope.kind == "kernel":
            total, metrics = sums.setdefault(scope.name, _Total(scope.name)), totals[id(scope)]
            total.nanoseconds += metrics.get(TIME, 0)
            total.launches += metrics.get(COUNT, 0)
    for line in profile.line_records:
        if line.kernel in sums:
            _add(sums[line.kernel], line)
    return sorted(sums.values(), key=lambda total: -total.nanoseconds)


def _add(total: _Total, line: ProfiledLine) -> None:
    place = line.file, line.line
    total.lines[place] = total.lines.get(place, 0) + line.share


def _time(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:,.3g} {unit}"
    return f"{nanoseconds:,.0f} ns"
