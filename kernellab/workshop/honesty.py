"""Recognize what does not answer an exercise: an object that is not a kernel, an installed kernel,
or a kernel that works only for the launches seen before.
"""

from __future__ import annotations

import ast
import sysconfig
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from kernellab.errors import Diagnostic, SourcePosition
from kernellab.launch.differences import Within
from kernellab.tracing.records import Trace
from kernellab.triton_api import (
    definition_of,
    is_in_library,
    reachable_functions,
)
from kernellab.workshop.exercise import Case, Exercise

_INSTALLED = (Path(__file__).parents[1], *map(Path, (sysconfig.get_path("purelib"),)))
"""Folders of installed packages, whose kernels are not a student's."""


def not_a_kernel(described: str) -> Diagnostic:
    """Return the diagnostic for an object that is not a kernel; `described` says what it is."""
    return Diagnostic(
        "error",
        "not-a-kernel",
        f"{described} is not a Triton kernel",
        advice="Write a function with @triton.jit and the parameters of the stub. Results "
        "computed by torch or NumPy do not count as an answer.",
    )


def not_an_answer(exercise: Exercise, kernel: Any) -> Diagnostic | None:
    """Return why a kernel is not a student's for this exercise; None if it is one."""
    own = tuple(kernel.arg_names)
    if own != exercise.parameters:
        return Diagnostic(
            "error",
            "other-parameters",
            f"{kernel.__name__} has the parameters {', '.join(own)}, but the exercise passes "
            f"{', '.join(exercise.parameters)}",
            definition_of(kernel),
            advice=f"Start the kernel as the stub does: {exercise.first_line}",
        )
    for function in (kernel, *reachable_functions(kernel)):
        place = definition_of(function)
        file = Path(place.file)
        if not is_in_library(place.file) and any(map(file.is_relative_to, _INSTALLED)):
            return Diagnostic(
                "error",
                "not-ones-own",
                f"{function.__name__} is defined in {file.name} of an installed package, not in "
                "your cell",
                place,
                advice="Write the kernel yourself. It may call functions of triton.language.",
            )
    return None


def suspicion(kernel: Any, cases: Sequence[Case], number: int) -> Diagnostic | None:
    """Return the sizes that a kernel was written for, if they explain a launch that goes wrong."""
    if number:
        return _one_block(cases[number - 1], cases[number]) or _one_size(kernel, cases, number)
    return None


def constant_result(kernel: Any, traced: Trace, results: Mapping[str, Within]) -> Diagnostic | None:
    """Return a diagnostic if a kernel stored one number everywhere and the right ones differ."""
    for name, right in results.items():
        stored = traced.final_memory(name).reshape(-1)
        if (
            stored.size > 1
            and (stored == stored[0]).all()
            and (right.values != right.values.reshape(-1)[0]).any()
        ):
            return Diagnostic(
                "error",
                "constant-result",
                f"every element of {name} is {stored[0].item():g}, regardless of the inputs",
                definition_of(kernel),
                advice="Compute the result from the values that the kernel loads.",
            )
    return None


def _one_block(before: Case, case: Case) -> Diagnostic | None:
    """Return a diagnostic if only the tile sizes differ between this launch and the one before."""
    changed = [
        name for name, value in case.constants.items() if before.constants.get(name) != value
    ]
    same = all(
        value.shape == before.arguments[name].shape
        if isinstance(value, torch.Tensor)
        else value == before.arguments[name]
        for name, value in case.arguments.items()
    )
    if not changed or not same:
        return None
    words = ", ".join(f"{name} = {before.constants[name]}" for name in changed)
    now = ", ".join(f"{name} = {case.constants[name]}" for name in changed)
    return Diagnostic(
        "error",
        "one-block-only",
        f"the results are right with {words}, and wrong with {now}",
        advice=f"The kernel must work with every {changed[0]}.",
    )


def _one_size(kernel: Any, cases: Sequence[Case], number: int) -> Diagnostic | None:
    """Return a diagnostic if the source contains a size of earlier launches only."""
    now = set(_sizes(cases[number]))
    seen = {size: name for case in cases[:number] for size, name in _sizes(case).items()}
    for value, place in _numbers(kernel):
        if value in seen and value not in now and value > _SMALL:
            return Diagnostic(
                "error",
                "hard-coded-size",
                f"the kernel contains the number {value}, which is {seen[value]} in the launches "
                f"that were right; here {seen[value]} is {cases[number].keywords[seen[value]]}",
                place,
                advice=f"Use {seen[value]} instead of the number.",
            )
    return None


_SMALL = 4
"""Every kernel may contain numbers up to this."""


def _sizes(case: Case) -> dict[int, str]:
    """Return the integers among a case's arguments, with their parameters."""
    return {
        value: name
        for name, value in case.keywords.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _numbers(kernel: Any) -> Iterator[tuple[int, SourcePosition | None]]:
    """Yield the integers in a kernel's source, with their lines."""
    start = definition_of(kernel)
    try:
        tree = ast.parse(textwrap.dedent(kernel.src))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # a source that another process made up
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            place = None
            if start is not None:
                place = SourcePosition(start.file, start.line + node.lineno - 1)
            yield node.value, place
