"""The errors that KernelLab raises on purpose, and the diagnostics that they are made of.

A diagnostic is what is said about a kernel, a launch or this machine, as words and as data.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Literal, TypedDict, Unpack

from kernellab.errors.sources import SourcePosition, visible


def nearest(word: object, known: Iterable[str]) -> str:
    """Return "Did you mean X?" with the known word that `word` is probably a typo of, or "" if
    there is none or `word` is not a word: no guess is better than a wrong one.
    """
    if not isinstance(word, str) or len(word) > _LONGEST_WORD:
        return ""
    bare = word.lstrip("-*").casefold()
    close = []
    for candidate in known:
        other = candidate.lstrip("-*").casefold()
        alike = difflib.SequenceMatcher(None, bare, other).ratio()
        # Few slips are in the first letter: words that begin differently have to be very alike.
        if alike >= (_ALIKE if bare[:1] == other[:1] else _VERY_ALIKE):
            close.append((alike, candidate))
    return f"Did you mean {max(close)[1]!r}?" if close else ""


_LONGEST_WORD = 100
"""The most letters of a word: comparing two words takes the product of their lengths."""

_ALIKE = 0.6
"""The share of letters in the same order (difflib) from which a word may be a typo."""


_VERY_ALIKE = 0.8


def suggestion(word: object, known: Iterable[str], lead: str) -> str:
    """Advice on an unknown name: the likely one, and the known ones if they are few.

    Args:
        lead: what the list begins with, such as "Its tensors are".
    """
    names = list(dict.fromkeys(known))
    guess = nearest(word, names)
    if guess and len(names) > _MANY:
        return guess
    return f"{guess} {lead} {', '.join(names) or 'none'}.".lstrip()


_MANY = 24

Severity = Literal["error", "warning", "remark", "note"]
"""How bad it is: an "error" is a fault, or ends the work; a "warning" may be intended, or costs
time; a "remark" is worth knowing; a "note" states a fact, or belongs to another diagnostic."""


@dataclass(frozen=True)
class Change:
    """A change of one line of source, or of several that follow each other.

    Attributes:
        line: the number of the (first) line in its file.
        old, new: its text before and after, without indentation if it is one line whose
            indentation stays. What has no text before is inserted above that line.
    """

    line: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.new}"


def _are_indented_alike(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether there are as many lines, each as far to the right, except for empty ones."""
    return len(old) == len(new) and all(
        len(was) - len(was.lstrip()) == len(other) - len(other.lstrip())
        for was, other in zip(old, new, strict=True)
        if was.strip() and other.strip()
    )


def changes_between(before: str, after: str, first_line: int) -> tuple[Change, ...]:
    """Return the lines that differ between two sources of equally many lines with the same
    indentation; of others, one change of all lines between the first and the last that differ.

    Args:
        first_line: the number of the sources' first line in their file.
    """
    old, new = before.splitlines(), after.splitlines()
    if _are_indented_alike(old, new):
        return tuple(
            Change(first_line + number, was.strip(), other.strip())
            for number, (was, other) in enumerate(zip(old, new, strict=True))
            if was != other
        )
    pairs = enumerate(zip(old, new, strict=False))
    start = next((n for n, (was, other) in pairs if was != other), min(len(old), len(new)))
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if start and len(old) == len(new) == start + 1 + tail:
        start -= 1  # a line of another indentation, which only two lines keep
    parts = ("\n".join(lines[start : len(lines) - tail]) for lines in (old, new))
    return (Change(first_line + start, *parts),)


@dataclass(frozen=True)
class Diagnostic:
    """One statement about a kernel, a launch or this machine: a fault, a warning or a remark.

    A derived class may add fields; these are also in `facts`.

    Attributes:
        severity: how serious it is.
        kind: a word that programs can compare: "out-of-bounds", "race", "mlir".
        what: what happens, with the values.
        position: the line that the diagnostic is about; None if there is none.
        called_from: if that line is in a helper function, the calls that lead to it, innermost
            first.
        why: how it happens, or what it means; "" if there is nothing to add.
        advice: what to try; "" if there is no advice.
        facts: the values behind the sentences, as types that JSON has.
        changes: the lines to change, if the advice is a change of the source.
        verified: whether the change was applied, compiled and checked: the problem goes away and no
            new one appears.
    """

    severity: Severity
    kind: str
    what: str
    position: SourcePosition | None = None
    called_from: tuple[SourcePosition, ...] = ()
    why: str = ""
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    changes: tuple[Change, ...] = ()
    verified: bool = False

    def __post_init__(self) -> None:
        added = fields(self)[len(fields(Diagnostic)) :]
        own = {
            field_.name: getattr(self, field_.name)
            for field_ in added
            if field_.metadata.get("fact", True)
        }
        object.__setattr__(self, "facts", json_value({**self.facts, **own}))

    @property
    def line(self) -> int | None:
        """The line's number in its file."""
        return None if self.position is None else self.position.line

    @property
    def headline(self) -> str:
        """The first words, before the place."""
        return self.what

    @property
    def circumstances(self) -> Mapping[str, str]:
        """The facts between the place and the advice in a text or a card: "in", "with" -> words."""
        return {}

    def __str__(self) -> str:
        """The message: what happened and why; where, with the line's source; what to try."""
        lines = [self.headline + indented(self.why)]
        if self.position is not None:
            lines += [f"  at {self.position}", self.position.excerpt()]
        if self.called_from:
            lines.append(f"  called from {', '.join(map(str, self.called_from))}")
        lines += [f"  {lead} {words}" for lead, words in self.circumstances.items()]
        return visible("\n".join(line for line in (*lines, self.advice) if line))

    def to_json(self) -> dict[str, Any]:
        """Return types that JSON has, with the same keys for every kind (docs/analyses.md)."""
        return {
            field_.name: json_value(getattr(self, field_.name)) for field_ in fields(Diagnostic)
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Diagnostic:
        """The diagnostic that `to_json` wrote; of a derived class, only the common fields.

        Raises KeyError or TypeError if `data` is not a diagnostic.
        """
        place = data["position"]
        return Diagnostic(
            severity=data["severity"],
            kind=data["kind"],
            what=data["what"],
            position=None if place is None else SourcePosition(**place),
            called_from=tuple(SourcePosition(**call) for call in data["called_from"]),
            why=data["why"],
            advice=data["advice"],
            facts=data["facts"],
            changes=tuple(Change(**change) for change in data.get("changes", ())),
            verified=bool(data.get("verified", False)),
        )


def json_value(value: Any) -> Any:
    """Return a value in types that JSON has: the fields of a data class, the first and the last
    number of a range; NaN, infinities and other values that JSON does not know in words.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, range):
        return [value[0], value[-1]] if value else []
    if isinstance(value, tuple | list):
        return [json_value(item) for item in value]
    if is_dataclass(value):
        return {item.name: json_value(getattr(value, item.name)) for item in fields(value)}
    item = getattr(value, "item", None)  # a scalar of NumPy
    return json_value(item()) if item is not None and getattr(value, "size", 0) == 1 else str(value)


def indented(why: str) -> str:
    """Further lines of a text."""
    return "".join(f"\n  {line}" for line in why.splitlines())


# The errors that KernelLab raises on purpose; faults of kernels come after them.
#
# Each says what went wrong, on which line of whose code, with the values, and what to do about
# it.


class KernelLabError(Exception):
    """Base class of every error that KernelLab raises.

    Attributes:
        what: what went wrong, with the values.
        why: how it happened, one cause per line; "" if there is nothing to add.
        problem: `what` and `why` together, as the error prints them.
        advice: how to fix it; "" if there is no advice.
        position: the line of the user's code that causes the error, or None.
        changes, verified: as in `Diagnostic`.
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
        **attributes: Any,
    ) -> None:
        """Say what went wrong; `attributes` are those that the class has a default for."""
        for name, value in attributes.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no attribute {name!r}")
            setattr(self, name, value)
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
        # As data: an error whose words are made from its facts is not made again from its words.
        return _without_init, (type(self), self.args), self.__dict__


def _without_init(kind: type[KernelLabError], args: tuple[Any, ...]) -> KernelLabError:
    """An error as `pickle` and `copy` make it, before its attributes are set."""
    return kind.__new__(kind, *args)


_LONGEST = 20_000
"""The most characters of a message; longer ones stop browsers and terminals."""


def clipped(words: str) -> str:
    """Shorten a very long text for people: leave out its middle."""
    if len(words) <= _LONGEST:
        return words
    half = _LONGEST // 2
    left_out = len(words) - 2 * half
    return f"{words[:half]}\n... {left_out:,} characters are left out here ...\n{words[-half:]}"


class TargetError(KernelLabError, ValueError):
    """A GPU target that does not exist or that this Triton cannot compile for."""


class OptionError(KernelLabError, TypeError):
    """An option that does not exist, or a value that the option does not accept."""


class ArgumentError(KernelLabError, TypeError):
    """Kernel arguments that do not fit the kernel: too few, too many, or of a wrong type."""


class MissingArguments(ArgumentError):
    """A kernel was not given all of its arguments."""

    constexprs: Sequence[str] = ()
    others: Sequence[str] = ()

    fact_names = ("constexprs", "others")


class NotRecorded(ArgumentError, ValueError, LookupError):
    """A record does not contain what an answer needs; see `Compilation.can_answer`."""


class LayoutError(KernelLabError, ValueError):
    """A layout that is not valid: its encoding cannot be parsed, does not fit the tile's shape,
    belongs to another target, or no value of the kernel has it.
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
        kernel: the name of the kernel, "" if it is an IR text.
        target: the target's name, "" if there is none.
        reason: what the compiler itself says, "" if it says nothing.
        passes: the record of the passes that ran before, a tuple of `records.PassRun`.
    """

    failed_pass: str | None = None
    kernel: str = ""
    target: str = ""
    reason: str = ""
    passes: tuple[Any, ...] = ()

    fact_names = ("kernel", "target", "failed_pass", "reason")


class CompilationStopped(NotRecorded, CompileError):
    """A compilation was stopped before it made what an answer needs."""


class ArchiveError(KernelLabError, ValueError):
    """A file is missing, damaged, of another version, or not one that KernelLab can read."""


class ProfileError(KernelLabError, ValueError):
    """A profile cannot be read, or belongs to other code than the compilation."""


class GpuFault(KernelLabError, RuntimeError):
    """A launch failed on the GPU, and this process can no longer use the GPU.

    Attributes:
        kernel: the kernel's name.
        findings: the result of `kernellab.check` for the same launch on the CPU, or None if the
            launch could not be checked.
    """

    kernel: str = ""
    findings: Any = None

    fact_names = ("kernel",)


class MachineError(KernelLabError):
    """The machine is at fault, not the kernel: a folder is not writable, the disk is full, a tool
    is missing, or memory ran out. The same call works once this is fixed.
    """


class NoGpu(MachineError, RuntimeError):
    """Triton was to launch on a GPU, and this machine has none; it raises a RuntimeError there."""


class WorkerError(KernelLabError):
    """The worker process died in a call, or took too long.

    Attributes:
        last_words: what it printed, the end of it; "" if it took too long.
        ending: how the process ended, "signal SIGSEGV" or "exit status 3"; "" if too slow.
    """

    died: bool = False
    timed_out: bool = False
    last_words: str = ""
    ending: str = ""

    fact_names = ("died", "timed_out", "last_words", "ending")


class WorkerLost(WorkerError, MachineError):
    """The worker process could not start, or was killed from outside; its call is not the cause."""


class UnsupportedOperation(KernelLabError, NotImplementedError):
    """The interpreter does not know an operation of the kernel's IR."""


class NoSuchStep(KernelLabError, IndexError):
    """A trace has no step of that number."""


class NoSuchStage(KernelLabError, KeyError):
    """A compilation has no stage of that name."""

    __str__ = KernelLabError.__str__


# Errors of kernels that did what their launch does not allow; their words are made of facts.


ProgramId = tuple[int, int, int]
"""Of one program, along x, y, z."""


class Occurrence(TypedDict, total=False):
    """Where in its launch a fault occurs: keywords of `KernelFault`, which says what they mean."""

    program: ProgramId
    grid: ProgramId
    lane: tuple[int, ...]
    count: int
    more: int
    values: Mapping[str, Any]


class KernelFault(KernelLabError):
    """The kernel did something that its launch does not allow;
    nothing was written outside its tensors.

    Attributes:
        program: the id of the first program at fault, along x, y, z; None if it is not known.
        programs: the ids of those that it is reported for; empty if they are not known.
        grid: how many programs the launch has, along x, y, z; None if it is not known.
        lane: position in its tile of the first lane at fault; () if no lane is.
        count: how many lanes are at fault in the programs that ran together.
        more: how many further programs were found at fault.
        values: the values from which the index (or the asserted condition) was computed in that
            lane, by the kernel's names.
    """

    fact_names: ClassVar[tuple[str, ...]] = (
        "program", "programs", "grid", "lane", "count", "more", "values",
    )  # fmt: skip

    def __init__(
        self,
        what: str,
        *,
        advice: str = "",
        position: SourcePosition | None = None,
        again: str = "at fault",
        made: str = "index",
        **where: Unpack[Occurrence],
    ) -> None:
        """`where` begins the words; `again` is for further lanes, `made` for the values."""
        self.program = where.get("program")
        self.programs: tuple[ProgramId, ...] = () if self.program is None else (self.program,)
        self.grid = where.get("grid")
        self.lane = where.get("lane", ())
        self.count = where.get("count", 1)
        self.more = where.get("more", 0)
        self.values = where.get("values", {})
        super().__init__(
            what, advice=advice, position=position, why=self._circumstances(again, made)
        )

    def _circumstances(self, again: str, made: str) -> str:
        """ "in program (96, 0, 0) of grid (98, 1, 1), element 32 of the tile, and 1 more program;
        out of bounds in 7 elements of this batch of programs", and the values.
        """
        if self.program is None:
            return ""
        where = f"in program {self.program} of grid {self.grid}{_lane(self.lane)}"
        if self.more:
            where += f", and {self.more:,} more program{'s' if self.more > 1 else ''}"
        if self.count > 1:
            where += f"; {again} in {self.count:,} elements of this batch of programs"
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"{where}\nthe {made} was computed from {values}" if values else where


def _lane(lane: Sequence[int]) -> str:
    """ ", element 2 of the tile", or (0, 2) in two dimensions; "" if it is not known."""
    return f", element {lane[0] if len(lane) == 1 else tuple(lane)} of the tile" if lane else ""


@dataclass(frozen=True)
class WaitingProgram:
    """A program that waits for ever."""

    program: ProgramId
    position: SourcePosition | None
    reading: str
    """The value that it read there last, "lock[0] is 1"; "" if it is not known."""

    def __str__(self) -> str:
        where = f" at {self.position}" if self.position else ""
        reading = f": {self.reading}" if self.reading else ""
        return f"program {self.program} waits{where}{reading}"


class Deadlock(KernelFault):
    """Programs wait for something that no other program will do, so the launch never ends.

    `programs` has the ids of the programs that wait.

    Attributes:
        waiting: the place where each program waits, in the order in which they ran.
        silent_rounds: the number of rounds in which every program ran and memory did not change.
        proven: whether all programs returned to an earlier state. If False, the launch was stopped
            after `silent_rounds` rounds.
    """

    fact_names = ("programs", "grid", "waiting", "silent_rounds", "proven")

    def __init__(
        self,
        waiting: Sequence[WaitingProgram],
        *,
        grid: ProgramId,
        silent_rounds: int,
        proven: bool,
        position: SourcePosition | None = None,
    ) -> None:
        self.waiting = tuple(waiting)
        self.silent_rounds = silent_rounds
        self.proven = proven
        advice = (
            "Look for a lock that some path does not release, a flag that no one sets, or a "
            "barrier that expects a different number of programs than the grid has."
        )
        super().__init__(self._words(grid), advice=advice, position=position, grid=grid)
        self.programs = tuple(program.program for program in self.waiting)

    def _words(self, grid: ProgramId) -> str:
        number, everyone = len(self.waiting), math.prod(grid)
        who = f"{number:,} of {everyone:,} programs" if everyone > 1 else "the program"
        verb = "wait" if number > 1 else "waits"
        why = (
            "no program that still runs can end the wait"
            if self.proven
            else f"memory did not change and no program ended in {self.silent_rounds:,} rounds"
        )
        return f"deadlock: {who} {verb} forever; {why}"

    def _circumstances(self, again: str, made: str) -> str:
        del again, made
        listed = [str(program) for program in self.waiting[:_LISTED]]
        if len(self.waiting) > _LISTED:
            listed.append(f"and {len(self.waiting) - _LISTED:,} more")
        return "\n".join(listed)


_LISTED = 8
"""The most programs of a deadlock that are listed."""


class EndlessWait(KernelFault):
    """A wait for a phase of a barrier in shared memory that nothing completes."""


class ExtraArrival(KernelFault):
    """More arrivals in a phase of a barrier in shared memory than it counts."""


class InvalidBarrier(KernelFault):
    """A use of a barrier in shared memory that is not initialized or was invalidated, a second
    initialization, or an invalidation while something will still arrive there.
    """


class MissingWait(KernelFault):
    """More asynchronous operations in flight than shared memory has tiles for."""


class OutOfBounds(KernelFault, IndexError):
    """A load, store or atomic accesses an address outside its tensor.

    Attributes:
        action: "load", "store", or the name of the atomic.
        tensor: the parameter that holds the tensor; "" if the address belongs to no parameter.
        index: the index of the first element that is out of bounds, counted from the tensor's first
            element; None if the address belongs to no parameter.
        dtype: the dtype of the elements, such as "float32".
        shape, strides: of the tensor; strides are in elements.
        bounds: "storage" if the access left the tensor's storage, "view" if it left the view.
        held: the indices of the first and the last element that the access may touch.
        address: the address in memory if no tensor is known; otherwise None.
    """

    fact_names = (
        "action", "tensor", "index", "dtype", "shape", "strides", "bounds", "held", "address",
        *KernelFault.fact_names,
    )  # fmt: skip

    def __init__(
        self,
        *,
        action: str,
        dtype: str,
        tensor: str = "",
        index: int | None = None,
        shape: tuple[int, ...] = (),
        strides: tuple[int, ...] = (),
        bounds: str = "storage",
        held: range = range(0),
        address: int | None = None,
        reason: str = "",
        fix: str = "",
        position: SourcePosition | None = None,
        **where: Unpack[Occurrence],
    ) -> None:
        """Give `tensor` to `held`, or `address` and `reason`; `fix` bounds the access, if known."""
        self.action, self.dtype = action, dtype
        self.tensor, self.index, self.shape, self.strides = tensor, index, shape, strides
        self.bounds, self.held, self.address = bounds, held, address
        wild = address is not None
        super().__init__(
            f"{action} of {dtype} at address {address:#x}{reason}" if wild else self._words(),
            advice=_ADDRESS_ADVICE if wild else self._advice(fix),
            position=position,
            again="the addresses are wrong" if wild else "out of bounds",
            **where,
        )

    def _words(self) -> str:
        described = f"{self.dtype}, shape {self.shape}"
        if self.bounds == "view":
            described += f", strides {self.strides}"
        place = f"{self.tensor}[{self.index}]"
        return f"{self.action} out of bounds: {place} {self._extent()} ({described})"

    def _extent(self) -> str:
        is_whole = self.bounds == "storage"
        outside = "is outside the " + ("tensor, whose storage" if is_whole else "view, which")
        if not self.held:
            return f"{outside} is empty"
        elements = f"{self.held[0]} to {self.held[-1]}"
        if self.index in self.held:
            return f"is between two elements of the view, which has elements from {elements}"
        return f"{outside} holds elements {elements}"

    def _advice(self, fix: str) -> str:
        mask = "Mask the elements beyond the tensor, or check its sizes and strides."
        advice = f"{fix or mask} Nothing outside the tensor was written."
        if self.bounds == "view":
            advice += (
                ' Pass bounds="storage" to allow accesses to the whole storage of a view, '
                "as on a GPU."
            )
        return advice


_ADDRESS_ADVICE = (
    "An address must lie in an argument of the launch, or in another torch tensor on "
    "the CPU that is still alive: keep the tensors whose data_ptr() you pass."
)
