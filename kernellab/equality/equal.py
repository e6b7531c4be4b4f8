"""`kernellab.equal`: whether two computations are the same for all inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.common.argument_checks import check_whole
from kernellab.common.own_options import parameters_first
from kernellab.compiler.specialization.unwrapping import parameter_names
from kernellab.equality import residues
from kernellab.equality.launches import ExactTensors
from kernellab.equality.results import ResultPair, paired
from kernellab.equality.sides import FunctionSide, KernelSide, Side, name_of, side_of
from kernellab.equality.verdicts import Comparison
from kernellab.errors import ArgumentError, UnsupportedOperation
from kernellab.records import BoundLaunch, Target
from kernellab.records.equality import Equality


def _names_of(first: Any) -> Sequence[str]:
    return () if isinstance(first, BoundLaunch) else parameter_names(first)


@parameters_first(_names_of)
def equal(
    first: Any,
    second: Any,
    grid: Any = None,
    args: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    *,
    seeds: int = 3,
    target: str | Target | None = None,
) -> Equality:
    """Decide whether two computations give the same results for all inputs of these sizes.

        kernellab.equal(softmax, online_softmax, (64,), x, y, 200, BLOCK=256)
        kernellab.equal(kernellab.bind(softmax, (64,), x, y, 200, BLOCK=256),
                        lambda: torch.softmax(x, -1))

    Both run on the CPU with residues in place of floats (docs/equality.md): sums in any order,
    fused multiply-adds and rescaled exponentials give identical residues, and rounding does not
    exist. Integers and indices keep their values. The arguments do not change.

    Args:
        first, second: each a kernel, a launch from `kernellab.bind`, or a function of torch. A
            function has no parameters and uses the launch's tensors, or has parameters with the
            names of the kernel's, with or without "_ptr", or takes the tensors that the kernel only
            reads, as `torch.add` does. It returns what the kernel writes, in the order of the
            kernel's parameters.
        grid, args, keywords: those of the kernels that are not bound.
        seeds: how many sets of random residues both run with.
        target: the GPU to compile for; it matters little, because TTIR runs.

    Returns:
        The Equality: "equal"; "different", with the first element, the line that stores it, and
        values of a run with floats that differ visibly; or "not decided", with the reason. It is
        true only if they are equal.

    Raises:
        ArgumentError: neither is a kernel, or the results have other shapes or another number.
        CompileError, KernelFault, GridError: as `kernellab.run`.
    """
    check_whole("seeds", seeds, 1)
    try:
        sides = _sides(first, second, grid, args, keywords or {}, target)
        return _compared(*sides, seeds)
    except UnsupportedOperation as unknown:
        return Equality(
            name_of(first),
            name_of(second),
            "not decided",
            seeds,
            {},
            reason=unknown.problem.rstrip("."),
            position=unknown.position,
        )


def _sides(
    first: Any,
    second: Any,
    grid: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    target: str | Target | None,
) -> tuple[Side, Side]:
    left, right = (side_of(subject, grid, args, keywords, target) for subject in (first, second))
    for function, kernel in ((left, right), (right, left)):
        if isinstance(function, FunctionSide):
            if not isinstance(kernel, KernelSide):
                raise ArgumentError(
                    "Neither of the two is a kernel.",
                    advice="Compare a kernel with another kernel or with a function of torch.",
                )
            function.takes_arguments_of(kernel)
    return left, right


def _compared(first: Side, second: Side, seeds: int) -> Equality:
    pairs: tuple[ResultPair, ...] = ()
    with residues.uninterpreted_noted() as uninterpreted:
        for seed in range(seeds):
            results = [side.run(fresh_tensors(seed, first, second)) for side in (first, second)]
            pairs = pairs or paired(first, second, *results)
            for pair in pairs:
                pair.note(*results)
            if any(pair.differs.any() for pair in pairs):
                break
    again = fresh_tensors(seed, first, second)
    comparison = Comparison(first, second, seed + 1, pairs, tuple(sorted(uninterpreted)), again)
    return comparison.equality()


def fresh_tensors(seed: int, *sides: Side) -> ExactTensors:
    """Residues for the tensors of both sides, before either has run."""
    tensors = ExactTensors(seed)
    for side in sides:
        for name, tensor in side.tensors():
            tensors.of(tensor, name)
    return tensors
