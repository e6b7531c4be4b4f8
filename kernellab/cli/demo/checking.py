"""Is what a kernel wrote what it should have written?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernellab.cli.demo.cases import Arguments, Case, Tolerance


@dataclass(frozen=True)
class OutputCheck:
    """One output of a kernel, compared with its reference."""

    parameter: str
    passed: bool
    max_error: float
    """The largest |result - expected|, in fp64; infinity if there is an unexpected NaN or
    infinity."""
    tolerance: Tolerance


def check_outputs(case: Case, arguments: Arguments) -> list[OutputCheck]:
    """Compare every tensor that the case's kernel wrote with the reference.

    `arguments` are those of a finished launch; the inputs among them are unchanged.
    """
    expected = case.reference(arguments)
    return [
        compare(name, arguments[name], expected[name], case.tolerance[name]) for name in expected
    ]


def compare(
    name: str, result: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance
) -> OutputCheck:
    """Compare two tensors of one shape and dtype, element by element, in fp64."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        raise ValueError(
            f"{name}: {tuple(result.shape)} {result.dtype} and {tuple(expected.shape)} "
            f"{expected.dtype}"
        )
    wanted = expected.double()
    error = (result.double() - wanted).abs()
    # An infinity less itself is NaN, though nothing is wrong;
    # any other NaN is an error without bound.
    error[result == expected] = 0.0
    error = error.nan_to_num(nan=float("inf"), posinf=float("inf"))
    allowed = tolerance.absolute + tolerance.relative * wanted.abs()
    return OutputCheck(
        parameter=name,
        passed=bool(((error == 0) | (error <= allowed)).all()),
        max_error=float(error.max()),
        tolerance=tolerance,
    )
