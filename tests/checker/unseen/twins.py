"""Pairs of launches, one with a fault and one that is right, and what the right one computes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import kernellab
from kernellab.checker.records import Findings


@dataclass(frozen=True)
class Call:
    """A launch with arguments of its own."""

    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def check(self, **more: Any) -> Findings:
        found = kernellab.check(self.kernel, self.grid, *self.args, **{**self.keywords, **more})
        assert not any(" failed: " in note for note in found.notes), found.notes
        return found


@dataclass(frozen=True)
class Twins:
    """A faulty launch and a right one; `made` makes either, `right` what is right, by position."""

    made: Callable[[bool], Call]
    right: Callable[[Call], Mapping[int, torch.Tensor]]
    tolerance: float

    @property
    def name(self) -> str:
        return str(self.made(False).kernel.__name__)


TWINS: list[Twins] = []
"""All that the modules beside this one have."""


def call(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> Call:
    return Call(kernel, grid, args, keywords)


def twins(
    made: Callable[[bool], Call],
    right: Callable[[Call], Mapping[int, torch.Tensor]],
    tolerance: float = 1e-3,
) -> None:
    TWINS.append(Twins(made, right, tolerance))
