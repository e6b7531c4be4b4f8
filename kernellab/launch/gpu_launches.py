"""Launches that Triton carries out on the GPU, at what they cost without the lab: noted in a
microsecond, and turned into records when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from kernellab.compiler.specialization.argument_formatting import (
    NUMBERS,
    ArgumentFacts,
    facts_of,
    in_words,
)
from kernellab.interpreter.execution.grid import check_has_length
from kernellab.launch.preparation import Grid
from kernellab.records import Launch, Run, Specialization, Target


class GpuLaunch(NamedTuple):
    """What is noted of a launch on the GPU.

    A launch notes a plain tuple of these: even a named one takes as long as two arguments.
    """

    compiled: Any
    """Triton's compiled kernel."""
    grid: Sequence[int] | SeenGrid
    args: Sequence[ArgumentFacts]
    """By position."""
    keywords: Mapping[str, Any]
    """Facts of parameters; options as they were given."""

    def as_run(self) -> Run:
        """The launch as a Run."""
        source, target = self.compiled.src, self.compiled.metadata.target
        facts = {**dict(zip(source.fn.arg_names, self.args, strict=False)), **self.keywords}
        signature = source.signature
        specialization = Specialization(
            signature=dict(signature),
            constants=dict(source.constants),
            attributes=dict(source.attrs),
            origins=dict.fromkeys(signature, "launch"),
        )
        sizes = self.grid.sizes if isinstance(self.grid, SeenGrid) else self.grid
        x, y, z = (*sizes, 1, 1)[:3]
        launch = Launch(
            kernel=source.fn.__name__,
            grid=(x, y, z),
            specialization=specialization,
            arguments={name: in_words(one) for name, one in facts.items() if name in signature},
            options={name: one for name, one in facts.items() if name not in signature},
        )
        return Run(launch, device="gpu", target=Target(target.backend, str(target.arch)))


class SeenGrid:
    """A launch's grid that is a function, and the sizes that it gave."""

    __slots__ = ("_grid", "sizes")

    def __init__(self, grid: Callable[[Mapping[str, Any]], Any]) -> None:
        self._grid: Any = grid
        self.sizes: Any = None

    def __call__(self, parameters: Mapping[str, Any]) -> Any:
        """The sizes.

        Raises:
            GridError: one number, of which Triton would ask the length.
        """
        self.sizes = sizes = self._grid(parameters)
        self._grid = None  # it may hold tensors
        if type(sizes) is not tuple:
            check_has_length(sizes, is_asked=True)
        return sizes


def launch_on_gpu(
    run_natively: Callable[..., Any],
    grid: Grid,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> tuple[Any, tuple[Any, ...] | None]:
    """Let Triton launch a kernel, with `run_natively(*args, grid=, warmup=, **keywords)`.

    Returns:
        What Triton gives, its compiled kernel; and the note of the launch,
        None where a hook of Triton's prevented it.

    Raises:
        GridError: a grid of one number, of which Triton would ask the length.
    """
    if callable(grid):
        grid = SeenGrid(grid)
    else:
        check_has_length(grid, is_asked=False)
    compiled = run_natively(*args, grid=grid, warmup=False, **keywords)
    return compiled, note(compiled, grid, args, keywords)


def note(
    compiled: Any, grid: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """The parts of a `GpuLaunch`, without the tensors, whose memory it would keep; None where
    nothing was launched.
    """
    if compiled is None:
        return None
    for one in keywords.values():
        if type(one) not in NUMBERS:
            parameters = compiled.src.fn.arg_names
            keywords = {
                name: facts_of(one) if name in parameters else one for name, one in keywords.items()
            }
            break
    # Written out for tensors and numbers: a call for each would be a tenth of the launch.
    facts = [
        (one.dtype, one.shape)
        if type(one) is Tensor
        else one
        if type(one) in NUMBERS
        else facts_of(one)
        for one in args
    ]
    return compiled, grid, facts, keywords
