"""Arguments of a call in words, without keeping their memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch

from kernellab.common.text import shown


def format_argument(value: Any) -> str:
    """An argument in words: "float32[98432]", "1024"."""
    return in_words(facts_of(value))


class FormattedArguments(Mapping[str, str]):
    """The arguments of a call by name, each in words.

    A launch notes what the words say, and not the tensors, which would keep their memory;
    the words are made when somebody reads them.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._facts = {name: facts_of(value) for name, value in values.items()}

    def __getitem__(self, name: str) -> str:
        return in_words(self._facts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        return repr(dict(self))


NUMBERS = frozenset({bool, int, float})
"""Types of arguments that are kept as they are."""

ArgumentFacts = tuple[torch.dtype, torch.Size] | float | str
"""What the words for an argument need of it: dtype and shape of a tensor,
a number itself, of anything else the words."""


def facts_of(value: Any) -> ArgumentFacts:
    """What is kept of an argument, in place of its memory."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape
    if type(value) in NUMBERS:
        return cast("float", value)
    if hasattr(value, "data_ptr"):  # its repr may print all that it points to
        return f"{type(value).__name__} of {getattr(value, 'dtype', 'bytes')}"
    return shown(value)


def in_words(facts: ArgumentFacts) -> str:
    """An argument of which these are kept: "float32[98432]", "1024"."""
    if isinstance(facts, tuple):
        dtype, shape = facts
        return f"{str(dtype).removeprefix('torch.')}{list(shape)}"
    return facts if isinstance(facts, str) else shown(facts)
