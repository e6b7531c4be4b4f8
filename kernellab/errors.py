"""The errors that KernelLab raises on purpose.

Each says what went wrong, on which line of whose code, with the values, and what to do about it.
"""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn


def no_label(file: str) -> str | None:
    """Files are named by their paths: the rule where no notebook runs."""
    del file
    return None


label_file: Callable[[str], str | None] = no_label
"""A file's name for people, where it has one: the notebook extension names the files
of cells ("Cell In[3]")."""


@dataclass(frozen=True)
class SourcePosition:
    """A place in a file of the user's: line from 1, column from 1 (0 where no column is known)."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        label = label_file(self.file)
        if label is not None:
            return f"{label}, line {self.line}"
        column = f":{self.column}" if self.column else ""
        return f"{self.file}:{self.line}{column}"

    def excerpt(self) -> str:
        """The line of source with a caret under the column, or "" where the
        source cannot be read.
        """
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        number = f"{self.line:>5} | "
        if not self.column:
            return number + text
        return f"{number}{text}\n{' ' * (len(number) + self.column - 1)}^"


class KernelLabError(Exception):
    """Base of every error that KernelLab raises on purpose.

    Attributes:
        problem: what went wrong, with the values.
        advice: what to do about it, "" where there is nothing to say.
        position: the line of the user's code that is at fault, or None.
    """

    def __init__(
        self, problem: str, *, advice: str = "", position: SourcePosition | None = None
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice
        self.position = position

    def __str__(self) -> str:
        lines = [self.problem]
        if self.position is not None:
            lines.append(f"  at {self.position}")
            lines.append(self.position.excerpt())
        if self.advice:
            lines.append(self.advice)
        return "\n".join(line for line in lines if line)


class TargetError(KernelLabError, ValueError):
    """A GPU target that does not exist or that this Triton cannot compile for."""


class OptionError(KernelLabError, TypeError):
    """An option or keyword that nobody takes, or a value that it does not accept."""


class ArgumentError(KernelLabError, TypeError):
    """Kernel arguments that do not fit the kernel: too few, too many, or of a wrong type."""


class MissingArguments(ArgumentError):
    """A kernel was not given all of its arguments.

    Attributes:
        constexprs: the names of those that are tl.constexpr.
        others: the names of the others.
    """

    def __init__(
        self,
        problem: str,
        *,
        advice: str = "",
        position: SourcePosition | None = None,
        constexprs: Iterable[str] = (),
        others: Iterable[str] = (),
    ) -> None:
        super().__init__(problem, advice=advice, position=position)
        self.constexprs = tuple(constexprs)
        self.others = tuple(others)


class LayoutError(KernelLabError, ValueError):
    """A layout that cannot be: an encoding that does not parse, a shape that does not fit it,
    another target's, or no value has it.
    """


class GridError(KernelLabError, ValueError):
    """A launch grid that no GPU would accept."""


class CompileError(KernelLabError):
    """The compiler refused the kernel; `position` is the kernel's own line.

    Attributes:
        failed_pass: label of the pass that failed, "ttgir.coalesce", or None where it was no pass,
            or nobody watched.
        kernel: the name of the kernel, "" where it is an IR text.
        target: the target's name, "" where none had a part in it.
        passes: the record of the passes that ran before, a tuple of `records.PassRun`.
    """

    def __init__(
        self,
        problem: str,
        *,
        advice: str = "",
        position: SourcePosition | None = None,
        failed_pass: str | None = None,
        kernel: str = "",
        target: str = "",
    ) -> None:
        super().__init__(problem, advice=advice, position=position)
        self.failed_pass = failed_pass
        self.kernel = kernel
        self.target = target
        self.passes: tuple[Any, ...] = ()


class ArchiveError(KernelLabError, ValueError):
    """A saved compilation that is not there, is none, is damaged, or is of another version."""


class ProfileError(KernelLabError, ValueError):
    """A profile cannot be read, or is of other code than what it is laid beside."""


class WorkerError(KernelLabError):
    """The worker process died in a call, or took too long.

    Attributes:
        died: whether the process ended of itself in the call.
        timed_out: whether it took too long, and was ended.
        last_words: what it printed, the end of it; "" where it took too long.
        ending: how the process ended, "signal SIGSEGV" or "exit status 3"; "" where
            it took too long.
    """

    def __init__(
        self,
        problem: str,
        *,
        advice: str = "",
        position: SourcePosition | None = None,
        last_words: str = "",
        died: bool = False,
        timed_out: bool = False,
        ending: str = "",
    ) -> None:
        super().__init__(problem, advice=advice, position=position)
        self.last_words = last_words
        self.ending = ending
        self.died = died
        self.timed_out = timed_out


class UnsupportedOperation(KernelLabError, NotImplementedError):
    """The interpreter does not know an operation of the kernel's IR."""


class KernelFault(KernelLabError):
    """The kernel did something that its launch does not allow;
    nothing was written outside its tensors.

    Attributes:
        programs: the ids of those that it is told of, along x, y, z; none where nobody knows.
    """

    programs: tuple[tuple[int, int, int], ...] = ()


class Deadlock(KernelFault):
    """Programs that wait for each other, or for what no program does, and so never end:
    `programs` are those that wait.
    """


class OutOfBounds(KernelFault, IndexError):
    """A load, store or atomic whose address lies outside the tensor's storage."""


class NoSuchStep(KernelLabError, IndexError):
    """A trace has no step of that number."""


def nearest(word: str, known: Iterable[str]) -> str:
    """The words "Did you mean X?" for the known word that `word` is probably a slip of,
    or "" where none is: no guess is better than a wrong one.
    """
    bare = word.lstrip("-*").casefold()
    close = []
    for candidate in known:
        other = candidate.lstrip("-*").casefold()
        alike = difflib.SequenceMatcher(None, bare, other).ratio()
        # Few slips are in the first letter: words that begin differently have to be very alike.
        if alike >= (_ALIKE if bare[:1] == other[:1] else _VERY_ALIKE):
            close.append((alike, candidate))
    return f"Did you mean {max(close)[1]!r}?" if close else ""


_ALIKE = 0.6
"""The part of two words' letters that agrees in order, as difflib counts,
from which one may be a slip of the other."""
_VERY_ALIKE = 0.8


def suggestion(word: str, known: Iterable[str], lead: str) -> str:
    """Advice on a name that nobody knows: the one that was probably meant, and what there is;
    of very many, the one alone.

    Args:
        lead: what the list begins with, such as "Its tensors are".
    """
    names = list(dict.fromkeys(known))
    guess = nearest(word, names)
    if guess and len(names) > _MANY:
        return guess
    return f"{guess} {lead} {', '.join(names) or 'none'}.".lstrip()


_MANY = 24


def raise_at(error: BaseException, position: SourcePosition) -> NoReturn:
    """Raise `error` from a frame that stands at `position`, so that a traceback
    points at that line.

    The frame is made by compiling a `raise` statement that carries the file's name
    and the line's number; Jinja2 points tracebacks at template lines in the same way.
    """
    __tracebackhide__ = True
    code = compile("\n" * (position.line - 1) + "raise __error__", position.file, "exec")
    exec(code, {"__error__": error})  # noqa: S102
    raise AssertionError("unreachable")


def frame_at(position: SourcePosition) -> TracebackType:
    """A traceback entry that stands at `position`, for code that was inlined
    and has no frame of its own.
    """
    error = _Here()
    with suppress(_Here):
        raise_at(error, position)
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    assert entry is not None
    return entry


class _Here(Exception):
    """Raised only to have a frame."""
