"""Launches that Triton makes on the GPU, at the cost that they have without the lab: noting one
takes a microsecond, and the record is made on request.
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
    """The note of a launch on the GPU.

    A launch makes a plain tuple of these: a named one would take as long as two arguments.
    """

    compiled: Any
    """Triton's compiled kernel."""
    grid: Sequence[int] | SeenGrid
    args: Sequence[ArgumentFacts]
    """By position."""
    keywords: Mapping[str, Any]
    """Facts about parameters by name, and options."""

    def as_run(self) -> Run:
        """Return the launch as a Run."""
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
            arguments={name: in_words(value) for name, value in facts.items() if name in signature},
            options={name: value for name, value in facts.items() if name not in signature},
        )
        return Run(launch, device="gpu", target=Target(target.backend, str(target.arch)))


class SeenGrid:
    """A grid that is a function, and the sizes that it returned."""

    __slots__ = ("_grid", "sizes")

    def __init__(self, grid: Callable[[Mapping[str, Any]], Any]) -> None:
        self._grid: Any = grid
        self.sizes: Any = None

    def __call__(self, parameters: Mapping[str, Any]) -> Any:
        """Return the sizes.

        Raises:
            GridError: the function returned a number, and Triton needs a sequence.
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
        Triton's compiled kernel, and the note of the launch; None if a hook of Triton's prevented
        the launch.

    Raises:
        GridError: the grid is a number, and Triton needs a sequence.
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
    """Return the parts of a `GpuLaunch`, without tensors, whose memory it would keep; None if
    nothing was launched.
    """
    if compiled is None:
        return None
    for value in keywords.values():
        if type(value) not in NUMBERS:
            parameters = compiled.src.fn.arg_names
            keywords = {
                name: facts_of(keyword) if name in parameters else keyword
                for name, keyword in keywords.items()
            }
            break
    # Inline for tensors and numbers: a call for each would take a tenth of the launch's time.
    facts = [
        (arg.dtype, arg.shape)
        if type(arg) is Tensor
        else arg
        if type(arg) in NUMBERS
        else facts_of(arg)
        for arg in args
    ]
    return compiled, grid, facts, keywords
