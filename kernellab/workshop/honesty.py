"""What is no answer to an exercise: something else than a kernel, somebody else's, one made for the
launches that were seen; and how such a one is told.
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
from kernellab.records.showing import described
from kernellab.tracing.records import Trace
from kernellab.triton_api import (
    JITFunction,
    definition_of,
    is_in_library,
    reachable_functions,
)
from kernellab.workshop.exercise import Case, Exercise

_NOT_ONES_OWN = (Path(__file__).parents[1], *map(Path, (sysconfig.get_path("purelib"),)))
"""Folders whose kernels nobody wrote as an answer."""


def no_kernel_of_ones_own(exercise: Exercise, kernel: Any) -> Diagnostic | None:
    """Why something is no kernel for this exercise; None where it is one."""
    if not isinstance(kernel, JITFunction):
        return Diagnostic(
            "error",
            "not-a-kernel",
            f"{described(kernel)} is no Triton kernel",
            advice="The answer is a function under @triton.jit, with the stub's parameters; "
            "what torch or NumPy compute is no answer.",
        )
    own = tuple(kernel.arg_names)
    if own != exercise.parameters:
        return Diagnostic(
            "error",
            "other-parameters",
            f"{kernel.__name__} has the parameters {', '.join(own)}; the exercise launches it with "
            f"{', '.join(exercise.parameters)}",
            definition_of(kernel),
            advice=f"Begin it as the stub does: {exercise.first_line}",
        )
    for one in (kernel, *reachable_functions(kernel)):
        place = definition_of(one)
        file = Path(place.file)
        if not is_in_library(place.file) and any(map(file.is_relative_to, _NOT_ONES_OWN)):
            return Diagnostic(
                "error",
                "not-ones-own",
                f"{one.__name__} stands in {file.name} of an installed package, not in your cell",
                place,
                advice="Write the kernel out; what it calls may come from triton.language.",
            )
    return None


def suspicion(kernel: Any, cases: Sequence[Case], number: int) -> Diagnostic | None:
    """Of a launch that goes wrong: what the kernel was made for, where that shows."""
    if number:
        return _one_block(cases[number - 1], cases[number]) or _one_size(kernel, cases, number)
    return None


def constant_result(
    kernel: Any, traced: Trace, results: Mapping[str, torch.Tensor]
) -> Diagnostic | None:
    """A kernel that stored one number everywhere, where the right results are many."""
    for name, right in results.items():
        stored = traced.final_memory(name).reshape(-1)
        if (
            stored.size > 1
            and (stored == stored[0]).all()
            and (right != right.reshape(-1)[0]).any()
        ):
            return Diagnostic(
                "error",
                "constant-result",
                f"every element of {name} is {stored[0].item():g}, whatever the inputs are",
                definition_of(kernel),
                advice="Compute the result from what the kernel loads.",
            )
    return None


def _one_block(before: Case, case: Case) -> Diagnostic | None:
    """A kernel for one size of its tiles: nothing else tells this launch from the one before."""
    changed = [name for name, one in case.constants.items() if before.constants.get(name) != one]
    same = all(
        one.shape == before.arguments[name].shape
        if isinstance(one, torch.Tensor)
        else one == before.arguments[name]
        for name, one in case.arguments.items()
    )
    if not changed or not same:
        return None
    words = ", ".join(f"{name} = {before.constants[name]}" for name in changed)
    now = ", ".join(f"{name} = {case.constants[name]}" for name in changed)
    return Diagnostic(
        "error",
        "one-block-only",
        f"right with {words}, wrong with {now}",
        advice=f"Nothing in the kernel may depend on a certain {changed[0]}.",
    )


def _one_size(kernel: Any, cases: Sequence[Case], number: int) -> Diagnostic | None:
    """A number of the source's that is a size of launches that were right, and not of this one."""
    now = set(_sizes(cases[number]))
    seen = {size: name for case in cases[:number] for size, name in _sizes(case).items()}
    for value, place in _numbers(kernel):
        if value in seen and value not in now and value > _SMALL:
            return Diagnostic(
                "error",
                "hard-coded-size",
                f"the number {value} is {seen[value]} of launches that were right; here it is "
                "another",
                place,
                advice=f"Use {seen[value]} in its place.",
            )
    return None


_SMALL = 4
"""Numbers up to this are in every kernel."""


def _sizes(case: Case) -> dict[int, str]:
    """The whole numbers among a case's arguments, and their parameters."""
    return {
        one: name
        for name, one in case.keywords.items()
        if isinstance(one, int) and not isinstance(one, bool)
    }


def _numbers(kernel: Any) -> Iterator[tuple[int, SourcePosition | None]]:
    """The whole numbers in a kernel's source, with their lines."""
    start = definition_of(kernel)
    tree = ast.parse(textwrap.dedent(kernel.src))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            place = None
            if start is not None:
                place = SourcePosition(start.file, start.line + node.lineno - 1)
            yield node.value, place
