"""The messages to the processes of a sweep: a launch's arguments, and what to compile and run."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from kernellab.launch.argument_copies import aligned_copy
from kernellab.records import Specialization, Target
from kernellab.triton_api.kernel_contents import KernelPickler
from kernellab.tuning.records import Method


@dataclass(frozen=True, eq=False)
class Shipment:
    """Arguments as bytes: a pickle without tensors' memory, and each storage once."""

    skeleton: bytes
    storages: Sequence[NDArray[np.uint8]]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the contents."""
        sha = hashlib.sha256(self.skeleton)
        for storage in self.storages:
            sha.update(storage.data)
        return sha.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shipment) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def size(self) -> int:
        return len(self.skeleton) + sum(map(len, self.storages))

    def write(self, file: BinaryIO) -> None:
        """Write the shipment to an empty file of this machine. Raises OSError: the disk is full."""
        header = pickle.dumps((self.skeleton, [len(storage) for storage in self.storages]))
        file.write(len(header).to_bytes(_NUMBER, "big") + header)
        for storage in self.storages:
            file.write(storage.data)
        file.flush()

    @classmethod
    def read(cls, path: str) -> Shipment:
        """Read what `write` wrote; storages are mapped, and stay valid without the file."""
        with open(path, "rb") as file:
            header = file.read(int.from_bytes(file.read(_NUMBER), "big"))
            skeleton, sizes = pickle.loads(header)
            at = _NUMBER + len(header)
            storages: list[NDArray[np.uint8]] = []
            for size in sizes:
                # "c" is copy-on-write: torch requires writable memory, but writes must not reach
                # the file. A storage without bytes cannot be mapped.
                storages.append(
                    np.memmap(file, np.uint8, "c", at, (size,)) if size else np.empty(0, np.uint8)
                )
                at += size
        return cls(skeleton, storages)


_NUMBER = 8
"""Bytes of the number at the start of a file, which is the length of its header."""


class _ArgumentPickler(KernelPickler):
    """Pickles arguments, with references in place of their tensors' storages."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.storages: dict[int, torch.UntypedStorage] = {}
        self._numbers: dict[int, int] = {}

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return None
        storage = value.detach().untyped_storage()
        number = self._numbers.setdefault(storage.data_ptr(), len(self._numbers))
        self.storages[number] = storage
        # A tuple of plain values: the other side has no tensor yet.
        return (
            number,
            str(value.dtype).removeprefix("torch."),
            int(value.storage_offset()),
            tuple(value.shape),
            tuple(value.stride()),
        )


def ship(values: Mapping[str, Any]) -> Shipment:
    """Return a shipment of the arguments and their tensors' memory, which may be shared."""
    file = io.BytesIO()
    pickler = _ArgumentPickler(file)
    pickler.dump(dict(values))
    storages = [_bytes(storage) for storage in pickler.storages.values()]
    return Shipment(file.getvalue(), storages)


def _bytes(storage: torch.UntypedStorage) -> NDArray[np.uint8]:
    raw = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    copied: NDArray[np.uint8] = raw.to("cpu", copy=True).numpy()
    return copied


class _Unpickler(pickle.Unpickler):
    def __init__(self, skeleton: bytes, storages: Sequence[torch.UntypedStorage]) -> None:
        super().__init__(io.BytesIO(skeleton))
        self._storages = storages

    def persistent_load(self, name: Any) -> torch.Tensor:
        number, dtype, offset, shape, strides = name
        storage = self._storages[number]
        empty = torch.empty(0, dtype=getattr(torch, dtype), device=storage.device)
        return empty.set_(storage, offset, shape, strides)


class Arguments:
    """Arguments that were shipped here: working copies on a device, which can be restored.

    Attributes:
        values: the arguments by name; kernels write into their tensors.
    """

    def __init__(self, shipment: Shipment, device: torch.device) -> None:
        self._pristine = [torch.from_numpy(content).to(device) for content in shipment.storages]
        self._working = [
            _like(pristine) if pristine.numel() else pristine for pristine in self._pristine
        ]
        storages = [tensor.untyped_storage() for tensor in self._working]
        self.values: dict[str, Any] = _Unpickler(shipment.skeleton, storages).load()

    def restore(self) -> None:
        for working, pristine in zip(self._working, self._pristine):
            working.copy_(pristine)

    def contents(self) -> list[torch.Tensor]:
        """Return a copy of the storages' current bytes."""
        return [tensor.clone() for tensor in self._working]

    def holds(self, contents: Sequence[torch.Tensor]) -> bool:
        """Whether the storages equal `contents`, bit for bit."""
        return all(torch.equal(now, then) for now, then in zip(self._working, contents))


def _like(pristine: torch.Tensor) -> torch.Tensor:
    """Return a copy whose memory starts at a multiple of 512 bytes, as on a GPU."""
    if pristine.device.type != "cpu":
        return pristine.clone()
    storage = aligned_copy(pristine.untyped_storage())
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)


@dataclass(frozen=True)
class Job:
    """The facts that all configs of a sweep share."""

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
    tensors: Mapping[str, torch.Tensor] | None = None
    """The other arguments, without memory, to estimate the time; else None."""
    is_timed: bool = False
    """Whether it is launched on a GPU, in a process that takes it from Triton's cache."""


@dataclass(frozen=True)
class Delivery:
    """Where arguments or expected results are: in a file on this machine, or in the message."""

    digest: str
    path: str = ""
    shipment: Shipment | None = field(default=None, compare=False)

    def open(self) -> Shipment:
        if self.shipment is not None:
            return self.shipment
        return Shipment.read(self.path)


@dataclass(frozen=True)
class Setup:
    """The data that a process needs before it runs configs."""

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
    again: bool = False
    """Whether it is one of the fastest, which are timed a second time on one and the same GPU."""
