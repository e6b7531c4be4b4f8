"""What is sent to the processes of a sweep: plain data, by which they compile
and run its configs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernellab.records import Specialization, Target
from kernellab.tuning.pool.arguments import Shipment
from kernellab.tuning.results.records import Method


@dataclass(frozen=True)
class Job:
    """What all configs of a sweep have in common."""

    kernel: Any
    """The plain JIT function."""
    target: Target
    rtol: float | None
    """How far results may be apart; None goes by their dtype."""
    atol: float | None
    triton: str = ""
    """The version of Triton that every process must have: another compiles other code."""


@dataclass(frozen=True)
class Task:
    """One config, ready to be compiled and launched."""

    number: int
    specialization: Specialization
    options: Mapping[str, Any]
    grid: tuple[int, int, int]
    values: Mapping[str, Any]
    """The arguments that are not shipped: scalars and constants, by parameter."""
    tensors: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], str]] | None = None
    """Shape, strides and dtype of the others, where its time is to be estimated; else None."""


@dataclass(frozen=True)
class Delivery:
    """Where arguments, or expected results, can be had:
    a file on this machine, or the bytes themselves.
    """

    digest: str
    path: str = ""
    shipment: Shipment | None = None

    def open(self) -> Shipment:
        """The contents."""
        if self.shipment is not None:
            return self.shipment
        return Shipment.read(self.path)


@dataclass(frozen=True)
class Setup:
    """What a process must have before it runs configs."""

    job: bytes
    """A packed Job."""
    arguments: Delivery
    reference: Delivery | None
    """Results that are right, by parameter; None takes those of `standard`."""
    standard: bytes | None
    """A packed Task: the config that the others are compared with;
    None where nothing has run yet."""
    device: int | None
    """Number of the GPU; None runs configs on the interpreter."""
    gpu: str = ""
    """The name that this GPU must have: times of another kind of GPU are never mixed in."""


def setup_without_bytes(setup: Setup) -> Setup:
    """The setup for a process that has the arguments already."""

    def named(delivery: Delivery | None) -> Delivery | None:
        return None if delivery is None else replace(delivery, shipment=None)

    arguments = replace(setup.arguments, shipment=None)
    return replace(setup, arguments=arguments, reference=named(setup.reference))


@dataclass(frozen=True)
class TrialOptions:
    """How a config is to be run."""

    check: bool
    measure: bool
    method: Method | None
    """None finds out which suits."""
