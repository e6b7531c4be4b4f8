"""Targets, specializations, launches, runs, options, and differences of results."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from kernellab.common.arguments import check_choice, check_mapping, check_whole
from kernellab.common.text import counted, element_text, joined_sizes, number_texts
from kernellab.errors import OptionError, SourcePosition
from kernellab.records.display import HasCard

Backend = Literal["cuda", "hip"]

Origin = Literal["launch", "signature", "annotation", "assumption"]
"""How an argument's type came to be known."""

Path = tuple[int, ...]
"""The place of an argument: its parameter's number, then positions inside nested tuples."""


_ARCHITECTURES = {"cuda": re.compile(r"[0-9]{1,4}"), "hip": re.compile(r"gfx[0-9a-z]{1,12}")}


def is_architecture(backend: str, arch: str) -> bool:
    """Whether a word is the name of an architecture of a backend, known or to come."""
    return bool(_ARCHITECTURES[backend].fullmatch(arch))


@dataclass(frozen=True)
class Target:
    """A GPU that a kernel is compiled for, or that the interpreter emulates."""

    backend: Backend
    arch: str
    """ "90" for NVIDIA's sm_90; "gfx942" for AMD."""

    @property
    def name(self) -> str:
        """The vendor's name: "sm_90", "gfx942"."""
        return f"sm_{self.arch}" if self.backend == "cuda" else self.arch

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Specialization:
    """The values on which one compilation of a kernel is specialized.

    Paths are Triton's own: (2,) is the third parameter, (2, 0)
    the first element of a tuple given for it.
    """

    signature: Mapping[str, Any]
    """Parameter name -> type string ("*fp32", "i32", "constexpr"), or a tuple of them."""
    constants: Mapping[Path, Any]
    """Values compiled in: constexpr arguments, and integers equal to 1."""
    attributes: Mapping[Path, Any]
    """The promises about an argument, as Triton writes them: [["tt.divisibility", 16]]."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Parameter name -> how its type is known."""

    @property
    def constants_by_name(self) -> dict[str, Any]:
        """Parameter name -> its value, of those that are compiled in as a whole."""
        whole = {path[0]: value for path, value in self.constants.items() if len(path) == 1}
        return {name: whole[at] for at, name in enumerate(self.signature) if at in whole}


@dataclass(frozen=True)
class Launch(HasCard):
    """One launch of a kernel."""

    kernel: str
    grid: tuple[int, int, int]
    specialization: Specialization
    arguments: Mapping[str, str]
    """Parameter name -> a short description of the value: "float32[98432]", "98432"."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Launch options that are not parameters of the kernel: num_warps, num_stages, ..."""


@dataclass(eq=False)
class BoundLaunch:
    """A kernel with its grid and its current arguments: to launch, to check, to trace."""

    kernel: Any
    """With its autotuner and heuristics."""
    grid: Any
    args: tuple[Any, ...] = field(repr=False)
    keywords: Mapping[str, Any] = field(repr=False)
    target: Target | None = None
    """The GPU to emulate; None means the one that a launch would emulate."""
    expect: Any = field(default=None, repr=False)
    """The expected results, as `kernellab.check` takes them; None if they are not known."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return str(self.plain.__name__)

    @property
    def plain(self) -> Any:
        """The kernel inside autotuners and heuristics."""
        inside = self.kernel
        while not hasattr(inside, "arg_names") and hasattr(inside, "fn"):
            inside = inside.fn
        return inside


@dataclass(frozen=True)
class Subject:
    """The kernel of a run, as it was defined then, and its specialization."""

    kernel: str
    definition: SourcePosition
    """Its `def`."""
    source: str
    """Its text, decorators included."""
    target: Target
    specialization: Specialization
    options: Mapping[str, Any]
    """num_warps, num_stages, num_ctas, and what else the launch asked for."""


@dataclass(frozen=True)
class Run(HasCard):
    """One finished run of a kernel."""

    launch: Launch
    device: Literal["interpreter", "gpu"]
    target: Target
    """The GPU it ran on, or that the interpreter emulated."""
    seconds: float | None = None
    """The interpreter's wall time with overhead; None on a GPU, which is asynchronous."""

    def __repr__(self) -> str:
        grid = joined_sizes(self.launch.grid)
        where = f"interpreter, emulating {self.target}" if self.device == "interpreter" else "GPU"
        took = "" if self.seconds is None else f", {self.seconds * 1e3:.1f} ms"
        return f"Run({self.launch.kernel!r}, grid {grid}, {where}{took})"


STAGES = ("ttir", "ttgir")
ORDERS = ("sequential", "reversed", "shuffled")
BOUNDS = ("storage", "view")
COMPLETIONS = ("early", "late", "shuffled")


@dataclass(frozen=True)
class RunOptions:
    """The interpreter's options of one launch.

    Raises:
        OptionError: a value that is none of those below.
    """

    stage: str = "ttir"
    """The IR that runs: "ttir", "ttgir", or a pass's result ("ttgir.coalesce", "ttir.cse#2")."""
    order: str = "sequential"
    """The order of programs: by linear id, x fastest; "reversed"; or "shuffled" by `seed`."""
    seed: int = 0
    """Chooses what is shuffled: equal seeds, equal orders."""
    bounds: str = "storage"
    """The region that accesses must not leave: a tensor's "storage" or "view" without holes."""
    completion: str = "early"
    """When asynchronous operations of TTGIR complete: when they are issued; "late", when something
    waits for them; or "shuffled" by `seed`, in between."""

    def __post_init__(self) -> None:
        stage: Any = self.stage  # whatever a user gives
        word = stage.partition(".")[0] if isinstance(stage, str) else None
        check_choice("stage", stage, STAGES, word=word)
        check_choice("order", self.order, ORDERS)
        check_choice("bounds", self.bounds, BOUNDS)
        check_choice("completion", self.completion, COMPLETIONS)
        object.__setattr__(self, "seed", check_whole("seed", self.seed))

    @property
    def completes_late(self) -> bool:
        """Whether asynchronous operations do not complete when they are issued."""
        return self.completion != "early"

    def changed(self) -> dict[str, Any]:
        """The options that are not what they are by default."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


DEFAULT = RunOptions()
"""The options of a launch that states none; other launches have another object, even if equal."""

_NAMES = frozenset(field.name for field in fields(RunOptions))

RUN_OPTION_NAMES = _NAMES | {"options"}
"""The keywords that are run options, unless the kernel has a parameter of that name."""


def split_keywords(
    keywords: dict[str, Any], parameters: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any], RunOptions]:
    """A launch's keywords: by name of kernel and backend, backend options, run options.

    A name that is both a run option and a parameter is the parameter. `options={...}` among the
    keywords says options outright, run options and backend options alike, whatever the
    parameters are called.

    Raises:
        OptionError: a run option is wrong or given twice, or a seed has nothing to shuffle.
    """
    if RUN_OPTION_NAMES.isdisjoint(keywords):
        return keywords, {}, DEFAULT
    rest = dict(keywords)
    outright = dict(rest.pop("options")) if _gives_options(rest, parameters) else {}
    given = {name: rest.pop(name) for name in _NAMES.difference(parameters) & rest.keys()}
    for name in _NAMES & outright.keys():
        if name in given:
            raise OptionError(
                f"{name!r} is given twice: by name and among the options.",
                advice="Pass it only once.",
            )
        given[name] = outright.pop(name)
    if not given:
        return rest, outright, DEFAULT
    options = RunOptions(**given)
    if "seed" in given and "shuffled" not in (options.order, options.completion):
        raise OptionError(
            f'seed={options.seed} needs order="shuffled", got order={options.order!r}.',
            advice='Pass order="shuffled", or remove seed=.',
        )
    return rest, outright, options


def _gives_options(keywords: Mapping[str, Any], parameters: Collection[str]) -> bool:
    if "options" not in keywords or "options" in parameters:
        return False
    check_mapping("options", keywords["options"], '{"order": "shuffled", "num_warps": 8}')
    return True


@dataclass(frozen=True)
class Difference:
    """A value that is not what it should be, usually the contents of an argument.

    Attributes:
        index: the first element that is farther off than it may be; () of a scalar.
        actual, expected: that element, as it is and as it should be.
        count, size: how many elements are farther off than they may be, of how many.
        largest: how far they are off at most; infinity if one of the two is NaN or infinite.
        allowed: how far the first element may be off; 0 if every bit counts.
    """

    name: str = ""
    index: tuple[int, ...] = ()
    actual: Any = None
    expected: Any = None
    count: int = 0
    size: int = 0
    largest: float = 0.0
    allowed: float = 0.0

    @property
    def element(self) -> str:
        """The first element as text: "z_ptr[700]"."""
        return element_text(self.name, self.index)

    @property
    def texts(self) -> tuple[str, str]:
        """`actual` and `expected`, with enough digits to distinguish them."""
        return number_texts(self.actual, self.expected)

    def __str__(self) -> str:
        actual, expected = self.texts
        off = f"{self.count:,} of {counted(self.size, 'element')}"
        verb = "differs" if self.count == 1 else "differ"
        return f"{self.element} is {actual}, expected {expected}; {off} {verb}"
