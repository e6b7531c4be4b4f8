"""The data classes that every part of the lab shares: plain facts, with no screen and no compiler in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Backend = Literal["cuda", "hip"]
Origin = Literal["launch", "signature", "annotation", "assumption"]
"""How an argument's type came to be known."""

Path = tuple[int, ...]
"""Where an argument stands: its parameter's number, then positions inside nested tuples."""


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
    """What one compilation of a kernel is specialised on.

    Paths are Triton's own: (2,) is the third parameter, (2, 0) the first element of a tuple given for it.
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
class Launch:
    """One launch of a kernel, as it was seen."""

    kernel: str
    grid: tuple[int, int, int]
    specialization: Specialization
    arguments: Mapping[str, str]
    """Parameter name -> a short description of the value: "float32[98432]", "98432"."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Launch options that are no kernel parameters: num_warps, num_stages, ..."""


@dataclass(frozen=True)
class Stage:
    """What one stage of the compiler made: text, or the bytes of a binary."""

    name: str
    """ "source", "ttir", "ttgir", "llir", "ptx", "cubin", "sass", "amdgcn", "hsaco"."""
    language: str
    """What a highlighter should take it for: "python", "mlir", "llvm", "ptx", "sass", "amdgcn", "elf"."""
    content: str | bytes

    @property
    def text(self) -> str:
        """The stage's text; raises TypeError for a binary stage."""
        if isinstance(self.content, bytes):
            raise TypeError(f"stage {self.name!r} is binary: read .content")
        return self.content

    @property
    def size(self) -> int:
        """Size in bytes (text as UTF-8)."""
        content = self.content
        return len(content if isinstance(content, bytes) else content.encode())


class Stages(Mapping[str, Stage]):
    """Stage name -> Stage, in the order of the pipeline; a stage given as a function is made when first asked for."""

    def __init__(self, stages: Mapping[str, Stage | Callable[[], Stage]]) -> None:
        self._stages = dict(stages)

    def __getitem__(self, name: str) -> Stage:
        stage = self._stages[name]
        if not isinstance(stage, Stage):
            stage = self._stages[name] = stage()
        return stage

    def __iter__(self) -> Iterator[str]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self._stages)})"


@dataclass(frozen=True)
class Resources:
    """What one program of the compiled kernel takes, read from the binary."""

    registers: int
    """Registers per thread (AMD: vector registers)."""
    spills: int
    """Bytes of local memory per thread that hold spilled registers and local arrays."""
    shared_bytes: int
    """Shared memory per program, in bytes (AMD: LDS), what a launch asks for included."""
    stack_bytes: int
    """Stack per thread, in bytes."""


@dataclass(frozen=True)
class Compilation:
    """One compilation of one kernel for one target."""

    kernel: str
    target: Target
    specialization: Specialization
    options: Mapping[str, Any]
    """The backend's options in force: num_warps, num_stages, num_ctas, ..."""
    stages: Stages
    read_resources: Callable[[], Resources] = field(repr=False, compare=False)
    """Reads the resources from the binary; called once, when first asked for."""

    @cached_property
    def resources(self) -> Resources:
        """Registers, spills, shared memory and stack of the compiled kernel."""
        return self.read_resources()

    def __repr__(self) -> str:
        return f"Compilation({self.kernel!r} for {self.target}: {', '.join(self.stages)})"


@dataclass(frozen=True)
class Run:
    """One finished run of a kernel."""

    launch: Launch
    device: Literal["interpreter", "gpu"]
    target: Target
    """The GPU it ran on, or that the interpreter emulated."""
    seconds: float | None = None
    """Wall time of the interpreter's run, launch overhead included; None on a GPU, where a launch returns before the kernel ends."""

    def __repr__(self) -> str:
        grid = "x".join(str(size) for size in self.launch.grid)
        where = f"interpreter, emulating {self.target}" if self.device == "interpreter" else "GPU"
        took = "" if self.seconds is None else f", {self.seconds * 1e3:.1f} ms"
        return f"Run({self.launch.kernel!r}, grid {grid}, {where}{took})"
