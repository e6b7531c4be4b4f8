"""The messages to the processes of a sweep: plain data that describes what to compile and run."""

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
    """Tolerances of the results; None takes those of the dtype."""
    atol: float | None
    triton: str = ""
    """The version of Triton that every process must have, since others compile different code."""


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
    """Shape, strides and dtype of the other arguments, to estimate the time; else None."""
    is_timed: bool = False
    """Whether it is launched on a GPU, in a process that takes it from Triton's cache."""


@dataclass(frozen=True)
class Delivery:
    """Where arguments or expected results are: in a file on this machine, or in the message."""

    digest: str
    path: str = ""
    shipment: Shipment | None = None

    def open(self) -> Shipment:
        """Return the contents."""
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
    """The expected results, by parameter; None takes those of `standard`."""
    standard: bytes | None
    """A packed Task: the config that the others are compared with; None before the first run."""
    device: int | None
    """Number of the GPU; None runs configs on the interpreter."""
    gpu: str = ""
    """The name that this GPU must have, as times of different kinds of GPUs are never mixed."""


def setup_without_bytes(setup: Setup) -> Setup:
    """Return the setup for a process that already has the arguments."""
    reference = setup.reference and replace(setup.reference, shipment=None)
    return replace(setup, arguments=replace(setup.arguments, shipment=None), reference=reference)


@dataclass(frozen=True)
class TrialOptions:
    """How a config is to be run."""

    check: bool
    measure: bool
    method: Method | None
    """None chooses the method by the kernel's time."""
