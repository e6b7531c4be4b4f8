"""What a saved sweep can only name: functions among its constants and the configs' hooks,
found again beside the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kernellab import triton_api
from kernellab.errors import ArgumentError
from kernellab.triton_api.functions import scope_of
from kernellab.tuning.results.records import Candidate
from kernellab.tuning.sweep.spaces import autotuner_in, of_config


@dataclass(frozen=True, repr=False)
class Named:
    """A value that a file holds no more of than its text."""

    text: str
    """Its repr."""
    function: str = ""
    """The name of a JIT function; "" for any other value."""

    def __repr__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.function or self.text


def found_again(value: Any, parameter: str, kernel: Any) -> Any:
    """The value that `Named` stands for; anything else as it is.

    Raises:
        ArgumentError: there is no such function where the kernel is defined, or the
            value is no function.
    """
    if not isinstance(value, Named):
        return value
    found = scope_of(kernel.fn).get(value.function)
    if isinstance(found, triton_api.JITFunction):
        return found
    wanted = f"the function {value.function!r}" if value.function else value.text
    raise ArgumentError(
        f"{parameter!r} of this sweep of {kernel.__name__!r} was {wanted}, which its "
        "file can only name",
        advice="The file that defines the kernel must define it too."
        if value.function
        else "Numbers, texts, types of Triton's and JIT functions can be read from a file.",
        position=triton_api.definition_of(kernel),
    )


def complete(candidate: Candidate, kernel: Any, plain: Any) -> Candidate:
    """The config with its functions and its hook.

    Args:
        candidate: of a sweep that was made here, or read from a file.
        kernel: with its autotuner, whose configs have the hooks.
        plain: the JIT function inside.

    Raises:
        ArgumentError: one of them is nowhere to be found.
    """
    constants = {
        name: found_again(value, name, plain) for name, value in candidate.constants.items()
    }
    candidate = replace(candidate, constants=constants)
    if candidate.pre_hook is not None or not candidate.hook_name:
        return candidate
    autotuner = autotuner_in(kernel)
    for config in autotuner.configs if autotuner is not None else ():
        if of_config(plain, config) == candidate and config.pre_hook is not None:
            return replace(candidate, pre_hook=config.pre_hook)
    raise ArgumentError(
        f"the config {candidate} has the hook {candidate.hook_name!r}, which a file can only name",
        advice="Give the kernel with its @triton.autotune, whose configs have their hooks.",
        position=triton_api.definition_of(plain),
    )
