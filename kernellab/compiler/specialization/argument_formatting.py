"""Arguments of a call in words, without keeping their memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.common.formatting import shown


def format_argument(value: Any) -> str:
    """An argument in words: "float32[98432]", "1024"."""
    return _format_facts(_facts(value))


class FormattedArguments(Mapping[str, str]):
    """The arguments of a call by name, each in words.

    A launch notes what the words say, and not the tensors, which would keep their memory;
    the words are made when somebody reads them.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._facts = {name: _facts(value) for name, value in values.items()}

    def __getitem__(self, name: str) -> str:
        return _format_facts(self._facts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        return repr(dict(self))


_Facts = tuple[torch.dtype, torch.Size] | str
"""What the words for an argument need of it: dtype and shape of a tensor,
of anything else the words."""


def _facts(value: Any) -> _Facts:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape
    if hasattr(value, "data_ptr"):  # its repr may print all that it points to
        return f"{type(value).__name__} of {getattr(value, 'dtype', 'bytes')}"
    return shown(value)


def _format_facts(facts: _Facts) -> str:
    if isinstance(facts, str):
        return facts
    dtype, shape = facts
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"
