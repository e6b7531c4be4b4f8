"""The errors that KernelLab raises on purpose; faults of kernels are in `faults.py`.

Each says what went wrong, on which line of whose code, with the values, and what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from kernellab.errors.diagnostics import Change, Diagnostic, indented
from kernellab.errors.positions import SourcePosition


class KernelLabError(Exception):
    """Base of every error that KernelLab raises on purpose.

    Attributes:
        what: what went wrong, with the values.
        why: how it came about, line by line; "" where there is nothing to say.
        problem: both, as the error says them.
        advice: what to do about it, "" where there is nothing to say.
        position: the line of the user's code that is at fault, or None.
        changes, verified: as of its diagnostic.
    """

    changes: tuple[Change, ...] = ()
    verified: bool = False

    fact_names: ClassVar[tuple[str, ...]] = ()
    """Its attributes that are facts of its diagnostic."""

    def __init__(
        self,
        what: str,
        *,
        advice: str = "",
        position: SourcePosition | None = None,
        why: str = "",
    ) -> None:
        self.what = what = clipped(what)
        self.why = why = clipped(why)
        self.problem = what + indented(why)
        self.advice = clipped(advice)
        self.position = position
        super().__init__(self.problem)

    @property
    def diagnostic(self) -> Diagnostic:
        """The same as data; its kind is the class's name: "out-of-bounds", "compile-error"."""
        return Diagnostic(
            severity="error",
            kind=re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower(),
            what=self.what,
            position=self.position,
            why=self.why,
            advice=self.advice,
            facts={name: getattr(self, name) for name in self.fact_names},
            changes=self.changes,
            verified=self.verified,
        )

    def __str__(self) -> str:
        return str(self.diagnostic)

    def __reduce__(self) -> tuple[Any, ...]:
        # As data: an error whose words are made of its facts is not made again from its words.
        return _without_init, (type(self), self.args), self.__dict__


def _without_init(kind: type[KernelLabError], args: tuple[Any, ...]) -> KernelLabError:
    """An error as `pickle` and `copy` make it, before its attributes are set."""
    return kind.__new__(kind, *args)


_LONGEST = 20_000
"""Characters of a message; longer ones stop browsers and terminals."""


def clipped(words: str) -> str:
    """Words for people, without the middle of what no one would read to its end."""
    if len(words) <= _LONGEST:
        return words
    half = _LONGEST // 2
    left_out = len(words) - 2 * half
    return f"{words[:half]}\n... {left_out:,} characters are left out here ...\n{words[-half:]}"


class TargetError(KernelLabError, ValueError):
    """A GPU target that does not exist or that this Triton cannot compile for."""


class OptionError(KernelLabError, TypeError):
    """An option or keyword that no one takes, or a value that it does not accept."""


class ArgumentError(KernelLabError, TypeError):
    """Kernel arguments that do not fit the kernel: too few, too many, or of a wrong type."""


class MissingArguments(ArgumentError):
    """A kernel was not given all of its arguments.

    Attributes:
        constexprs: the names of those that are tl.constexpr.
        others: the names of the others.
    """

    fact_names = ("constexprs", "others")

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


class NotRecorded(ArgumentError, ValueError, LookupError):
    """A record, of a compilation or a trace, does not hold what an answer needs.

    `Compilation.can_answer` reports it beforehand.
    """


class LayoutError(KernelLabError, ValueError):
    """A layout that cannot be: an encoding that does not parse, a shape that does not fit it,
    another target's, or no value has it.
    """


class GridError(KernelLabError, ValueError, TypeError):
    """A launch grid that no GPU would accept; Triton raises a TypeError if it is not a tuple."""


class NoGrid(GridError, RuntimeError):
    """A kernel that was called like a function; Triton's own kernels raise a RuntimeError there."""


class CompileError(KernelLabError):
    """The compiler refused the kernel; `position` is the kernel's own line.

    Attributes:
        failed_pass: label of the pass that failed, "ttgir.coalesce", or None if it was not a pass
            or the passes were not watched.
        kernel: the name of the kernel, "" where it is an IR text.
        target: the target's name, "" where none had a part in it.
        reason: what the compiler itself says, "" where it says nothing.
        passes: the record of the passes that ran before, a tuple of `records.PassRun`.
    """

    fact_names = ("kernel", "target", "failed_pass", "reason")

    def __init__(
        self,
        problem: str,
        *,
        advice: str = "",
        position: SourcePosition | None = None,
        failed_pass: str | None = None,
        kernel: str = "",
        target: str = "",
        reason: str = "",
    ) -> None:
        super().__init__(problem, advice=advice, position=position)
        self.failed_pass = failed_pass
        self.reason = reason
        self.kernel = kernel
        self.target = target
        self.passes: tuple[Any, ...] = ()


class CompilationStopped(NotRecorded, CompileError):
    """A compilation was stopped before it made what an answer needs."""


class ArchiveError(KernelLabError, ValueError):
    """A saved compilation that is not there, is none, is damaged, or is of another version."""


class ProfileError(KernelLabError, ValueError):
    """A profile cannot be read, or belongs to other code than the compilation."""


class GpuFault(KernelLabError, RuntimeError):
    """A launch died on the GPU, which this process cannot use any more.

    Attributes:
        kernel: its name.
        findings: what the same launch, checked on the CPU, gave: a `Findings`, or None where it
            could not be.
    """

    fact_names = ("kernel",)

    def __init__(
        self,
        problem: str,
        *,
        advice: str = "",
        position: SourcePosition | None = None,
        kernel: str = "",
        findings: Any = None,
    ) -> None:
        super().__init__(problem, advice=advice, position=position)
        self.kernel = kernel
        self.findings = findings


class MachineError(KernelLabError):
    """This machine, and not the kernel, is at fault: a folder that cannot be written, a full disk,
    a tool that is missing, memory that is not there. The same call works once that is fixed.
    """


class NoGpu(MachineError, RuntimeError):
    """Triton was to launch on a GPU, and this machine has none; it raises a RuntimeError there."""


class WorkerError(KernelLabError):
    """The worker process died in a call, or took too long.

    Attributes:
        died: whether the process ended of itself in the call.
        timed_out: whether it took too long, and was ended.
        last_words: what it printed, the end of it; "" where it took too long.
        ending: how the process ended, "signal SIGSEGV" or "exit status 3"; "" where
            it took too long.
    """

    fact_names = ("died", "timed_out", "last_words", "ending")

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


class WorkerLost(WorkerError, MachineError):
    """The worker process could not start, or was killed from outside: no call of it is at fault."""


class UnsupportedOperation(KernelLabError, NotImplementedError):
    """The interpreter does not know an operation of the kernel's IR."""


class NoSuchStep(KernelLabError, IndexError):
    """A trace has no step of that number."""


class NoSuchStage(KernelLabError, KeyError):
    """A compilation has no stage of that name."""

    __str__ = KernelLabError.__str__
