"""How the corpus of faulty kernels is written:
pairs of launches, one with a fault and its clean twin.

The faulty line carries the comment `# fault: race`, or several kinds, `# fault: race, nan`; that is
what a check of the faulty launch must find, all of it and nothing else. A check of the clean twin
must find nothing. Both may launch one kernel: the fault is then in the launch. Where a few words
make the difference, the twin is given by them: {"mask=i <= n": "mask=i < n"}.
"""

import importlib
import inspect
import linecache
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from triton.runtime import JITFunction

import kernellab
from kernellab.checker.records import Findings

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel of the corpus; `arguments` makes its tensors and numbers afresh."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: Callable[[], Sequence[Any]]
    constants: dict[str, Any] = field(default_factory=dict)
    outputs: str | tuple[str, ...] = ()

    def check(self) -> Findings:
        found = kernellab.check(
            self.kernel, self.grid, *self.arguments(), outputs=self.outputs, **self.constants
        )
        assert not any(" failed: " in note for note in found.notes), found.notes
        return found

    def marked(self) -> set[tuple[str, int]]:
        return marked_faults(self.kernel)


@dataclass(frozen=True)
class Pair:
    faulty: Launch
    clean: Launch

    @property
    def name(self) -> str:
        name: str = self.faulty.kernel.__name__
        return name


def pair(
    faulty: Any,
    clean: Any,
    grid: tuple[int, ...],
    arguments: Callable[[], Sequence[Any]],
    outputs: str | tuple[str, ...] = (),
    **constants: Any,
) -> Pair:
    """Two kernels that are launched alike; `clean` may be what to replace in the faulty one."""
    if isinstance(clean, Mapping):
        clean = _changed(faulty, clean)
    return Pair(
        Launch(faulty, grid, arguments, constants, outputs),
        Launch(clean, grid, arguments, constants, outputs),
    )


def _changed(kernel: Any, changes: Mapping[str, str]) -> Any:
    """The kernel with changes of its source, each old text of which it has once."""
    source, place = inspect.getsource(kernel.fn), f"<clean twin of {kernel.__name__}>"
    for old, new in changes.items():
        assert source.count(old) == 1, f"{kernel.__name__} has {old!r} {source.count(old)} times"
        source = source.replace(old, new)
    linecache.cache[place] = len(source), None, source.splitlines(keepends=True), place
    names = dict(kernel.fn.__globals__)
    exec(compile(source, place, "exec", dont_inherit=True), names)  # noqa: S102
    return names[kernel.__name__]


def all_pairs() -> list[Pair]:
    """Every pair of the corpus, file by file."""
    files = sorted(path.stem for path in CORPUS.glob("*.py") if path.stem != "__init__")
    modules = [importlib.import_module(f"tests.checker.corpus.{file}") for file in files]
    return [one for module in modules for one in module.PAIRS]


def marked_faults(kernel: Any) -> set[tuple[str, int]]:
    """(kind, line) of every fault that the source of a kernel and of its helpers is marked with."""
    return {fault for function in _with_helpers(kernel.fn) for fault in _marks(function)}


def _with_helpers(function: Any) -> Iterator[Any]:
    yield function
    for name in function.__code__.co_names:
        called = function.__globals__.get(name)
        inside = vars(called) if isinstance(called, types.ModuleType) else {}
        for one in (called, *(inside.get(other) for other in function.__code__.co_names)):
            if isinstance(one, JITFunction):
                yield from _with_helpers(one.fn)


def _marks(function: Any) -> Iterator[tuple[str, int]]:
    lines, first = inspect.getsourcelines(function)
    for number, line in enumerate(lines, first):
        mark = re.search(r"# fault: ([\w, -]+)", line)
        if mark:
            yield from ((kind.strip(), number) for kind in mark.group(1).split(","))


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Numbers with mean 0 and deviation 1, the same in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def indices(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)
