"""What is launched, and for which GPU: targets, specializations, launches, runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kernellab.common.formatting import joined_sizes
from kernellab.errors import SourcePosition
from kernellab.records.showing import HasCard

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
        """The vendor's own word: "sm_90", "gfx942"."""
        return f"sm_{self.arch}" if self.backend == "cuda" else self.arch

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Specialization:
    """What one compilation of a kernel is specialized on.

    Paths are Triton's own: (2,) is the third parameter, (2, 0)
    the first element of a tuple given for it.
    """

    signature: Mapping[str, Any]
    """Parameter name -> type string ("*fp32", "i32", "constexpr"), or a tuple of them."""
    constants: Mapping[Path, Any]
    """Values compiled in: constexpr arguments, and integers equal to 1."""
    attributes: Mapping[Path, Any]
    """What is promised of an argument, as Triton writes it: [["tt.divisibility", 16]]."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Parameter name -> how its type is known."""


@dataclass(frozen=True)
class Launch(HasCard):
    """One launch of a kernel, as it was seen."""

    kernel: str
    grid: tuple[int, int, int]
    specialization: Specialization
    arguments: Mapping[str, str]
    """Parameter name -> a short description of the value: "float32[98432]", "98432"."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Launch options that are not parameters of the kernel: num_warps, num_stages, ..."""


@dataclass(eq=False)
class BoundLaunch:
    """A kernel with its grid and its arguments, which are as they are now: what it takes to launch
    it, to check it, to trace it.
    """

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
    """What a run on the interpreter says something about:
    a kernel as it was defined then, and what it was specialized on.
    """

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
    """Wall time of the interpreter's run, launch overhead included;
    None on a GPU, where a launch returns before the kernel ends."""

    def __repr__(self) -> str:
        grid = joined_sizes(self.launch.grid)
        where = f"interpreter, emulating {self.target}" if self.device == "interpreter" else "GPU"
        took = "" if self.seconds is None else f", {self.seconds * 1e3:.1f} ms"
        return f"Run({self.launch.kernel!r}, grid {grid}, {where}{took})"
