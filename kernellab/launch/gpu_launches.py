"""Launches that Triton carries out on the GPU, at what they cost without the lab: noted in a
microsecond, and turned into records when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from kernellab import triton_api
from kernellab.compiler.specialization.argument_formatting import (
    NUMBERS,
    ArgumentFacts,
    facts_of,
    in_words,
)
from kernellab.interpreter.execution.grid import check_has_length
from kernellab.launch.preparation import Grid
from kernellab.records import Launch, Run, Specialization, Target
from kernellab.records.run_options import says_nothing_of_runs
from kernellab.triton_api import JITFunction


class GpuLaunch(NamedTuple):
    """A launch on the GPU.

    A tuple, because every launch makes one, and a frozen data class takes five times as long.
    """

    compiled: Any
    """Triton's compiled kernel."""
    grid: Sequence[int]
    """As it was given, or as its function gave it."""
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
        x, y, z = (*self.grid, 1, 1)[:3]
        launch = Launch(
            kernel=source.fn.__name__,
            grid=(x, y, z),
            specialization=specialization,
            arguments={name: in_words(one) for name, one in facts.items() if name in signature},
            options={name: one for name, one in facts.items() if name not in signature},
        )
        return Run(launch, device="gpu", target=Target(target.backend, str(target.arch)))


def is_for_gpu_alone(kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether nothing of a launch has to be looked at before Triton launches it: its first tensor
    is on a GPU, no option is the interpreter's, and the kernel is what it was at its last launch.
    """
    for value in args:
        if type(value) is Tensor:
            return (
                value.is_cuda
                and not triton_api.is_emulating()
                and says_nothing_of_runs(keywords)
                and triton_api.is_made_of_the_same(kernel)
            )
    return False


def launch_on_gpu(
    run_natively: Callable[..., Any],
    grid: Grid,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> tuple[Any, GpuLaunch | None]:
    """Let Triton launch a kernel, with `run_natively(*args, grid=, warmup=, **keywords)`.

    Returns:
        What Triton gives, its compiled kernel; and a note of the launch, without the tensors,
        whose memory it would keep; None where a hook of Triton's prevented it.

    Raises:
        GridError: a grid of one number, of which Triton would ask the length.
    """
    seen = grid
    if callable(grid):

        def seen_grid(parameters: Mapping[str, Any]) -> Any:
            nonlocal seen
            seen = grid(parameters)
            if type(seen) is not tuple:
                check_has_length(seen, is_asked=True)
            return seen

        compiled = run_natively(*args, grid=seen_grid, warmup=False, **keywords)
    else:
        if type(grid) is not tuple:
            check_has_length(grid, is_asked=False)
        compiled = run_natively(*args, grid=grid, warmup=False, **keywords)
    if compiled is None:
        return None, None
    # Written out for tensors and numbers: a call for each would be a tenth of the launch.
    noted = [
        (one.dtype, one.shape)
        if type(one) is Tensor
        else one
        if type(one) in NUMBERS
        else facts_of(one)
        for one in args
    ]
    for one in keywords.values():
        if type(one) not in NUMBERS:
            parameters = compiled.src.fn.arg_names
            keywords = {
                name: facts_of(one) if name in parameters else one for name, one in keywords.items()
            }
            break
    return compiled, GpuLaunch(compiled, seen, noted, keywords)
