"""Where the memory behind each argument of a launch is, found out once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import torch

from kernellab import triton_api
from kernellab.compiler.targets import local_target
from kernellab.errors import ArgumentError
from kernellab.interpreter.memory.address_space import (
    UnknownExtent,
    described,
    is_pointer,
    memory_behind,
)
from kernellab.triton_api import JITFunction


class ResolvedArgument(NamedTuple):
    """A tensor, an array, or another object with memory that a kernel gets."""

    tensor: torch.Tensor | None
    """The tensor over its memory; None of a NumPy array, which becomes a tensor when it is bound,
    and of an object that points to memory on a GPU."""
    device: str
    """The type of the device that the memory is on: "cpu", "cuda", "xpu", "meta"."""


class _Unusable(Exception):
    """An object without one block of memory.

    Attributes:
        what: what it is, continuing "argument 'x' is ".
        advice: what to pass instead.
    """

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice


class ResolvedArguments:
    """The arguments of a launch that have memory.

    Attributes:
        devices: the types of the devices that hold them.
    """

    def __init__(
        self, kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> None:
        """Resolve the arguments.

        Raises:
            ArgumentError: one has no block of memory.
        """
        self._kernel = kernel
        self._args = args
        self._keywords = keywords
        try:
            self.devices = _devices((*args, *keywords.values()))
        except _Unusable:
            self._raise_unusable()

    def by_name(self) -> dict[str, Any]:
        """The arguments by parameter, those without memory too."""
        names = self._kernel.arg_names
        return {**dict(zip(names, self._args, strict=False)), **self._keywords}

    def with_memory(self) -> dict[str, list[ResolvedArgument]]:
        """What is behind each argument that has memory; several, of a tuple."""
        resolved = {name: list(_resolved([value])) for name, value in self.by_name().items()}
        return {name: parts for name, parts in resolved.items() if parts}

    def check_one_device(self) -> None:
        """Refuse tensors on several kinds of devices, or on none.

        Raises:
            ArgumentError: there are such.
        """
        if len(self.devices) < 2 and "meta" not in self.devices:
            return
        places = [
            f"{name} on {', '.join(part.device for part in parts)}"
            for name, parts in self.with_memory().items()
        ]
        raise ArgumentError(
            f"The tensors of this launch of {self._kernel.__name__!r} are not on one device: "
            f"{'; '.join(places)}.",
            advice=(
                "Move all of them to the GPU (the kernel runs there) or to the CPU (the "
                "interpreter runs it)."
            ),
            position=triton_api.definition_of(self._kernel),
        )

    def _raise_unusable(self) -> None:
        """Raise for the first argument without a block of memory."""
        kernel = self._kernel
        for name, value in self.by_name().items():
            try:
                list(_resolved([value]))
            except _Unusable as unusable:
                what, advice = unusable.what, unusable.advice
                if isinstance(value, tuple):
                    what = "a tuple with a tensor that has none"
                    advice = "Pass plain tensors in it."
                raise ArgumentError(
                    f"Argument {name!r} of {kernel.__name__!r} is {what}; a kernel takes tensors "
                    "whose elements are in one block of memory.",
                    advice=advice,
                    position=triton_api.parameter_position(kernel, name)
                    if name in kernel.arg_names
                    else triton_api.definition_of(kernel),
                ) from None


_NUMBERS = frozenset({bool, int, float})


def _devices(values: Sequence[Any]) -> set[str]:
    """Return the types of the devices that hold values; every launch waits for it."""
    devices = set()
    for value in values:
        kind = type(value)
        if kind is torch.Tensor:
            devices.add(_device_of(value))
        elif kind not in _NUMBERS:
            devices.update(argument.device for argument in _resolved((value,)))
    return devices


def _resolved(values: Sequence[Any]) -> Iterator[ResolvedArgument]:
    """Yield what is behind those arguments that have memory, items of tuples too."""
    for value in values:
        if type(value) in _NUMBERS:
            continue
        if isinstance(value, torch.Tensor) and not is_pointer(value):
            yield ResolvedArgument(value, _device_of(value))
        elif isinstance(value, numpy.ndarray):
            yield ResolvedArgument(None, "cpu")
        elif isinstance(value, tuple):
            yield from _resolved(value)
        elif is_pointer(value):
            yield _resolved_pointer(value)
        elif (base := described(value)) is not None:
            yield from _resolved([base])


def _resolved_pointer(value: Any) -> ResolvedArgument:
    """An object with `data_ptr()`: its memory is on the CPU where it says no device, and where
    there is no GPU.
    """
    try:
        device = "cpu" if local_target() is None else torch.device(value.device).type
    except Exception:  # other people's objects may raise anything
        device = "cpu"
    if device != "cpu":
        return ResolvedArgument(None, device)
    try:
        return ResolvedArgument(memory_behind(value), device)
    except UnknownExtent as error:
        raise _Unusable(f"a {type(value).__qualname__} {error}", error.advice) from error


def _device_of(tensor: torch.Tensor) -> str:
    """Return the type of a tensor's device.

    Raises:
        _Unusable: no pointer leads to its elements.
    """
    try:
        if not tensor.is_nested and tensor.layout is torch.strided:
            device = "cpu" if tensor.is_cpu else tensor.device.type
            if device == "meta":
                return device
            has_memory = tensor.data_ptr() != 0 or tensor.numel() == 0
            if has_memory and not tensor.is_neg() and not (device == "cpu" and _is_cut_off(tensor)):
                return device
    except Exception:  # a subclass may raise anything
        pass
    raise _unusable(tensor)


def _is_cut_off(tensor: torch.Tensor) -> bool:
    """Return whether the tensor's storage was shortened after the tensor was made."""
    steps = sum((count - 1) * step for count, step in zip(tensor.shape, tensor.stride()))
    needed = (tensor.storage_offset() + steps + 1) * tensor.itemsize
    return bool(tensor.numel() and needed > tensor.untyped_storage().nbytes())


def _unusable(tensor: torch.Tensor) -> _Unusable:
    """Say why no pointer leads to a tensor's elements."""
    is_nested = bool(tensor.is_nested)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not is_nested:
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        return _Unusable(
            f"a {kind}, a kind of tensor without memory",
            "Pass the plain tensor that holds its values.",
        )
    layout = str(tensor.layout).removeprefix("torch.")
    if is_nested:
        return _Unusable(
            f"a nested tensor (layout {layout})",
            "Pass its values and its offsets as separate tensors: x.values(), x.offsets(); "
            "or x.to_padded_tensor(0.0).",
        )
    if tensor.layout is not torch.strided:
        return _Unusable(
            f"a tensor in the layout {layout}",
            "Pass x.to_dense(), or the tensors that it is made of: x.indices(), x.values().",
        )
    if tensor.is_neg():
        return _Unusable(
            "a tensor that torch negates when it is read (is_neg()): its memory has the other sign",
            "Pass x.resolve_neg().",
        )
    try:
        has_address = tensor.data_ptr() != 0
    except Exception:  # within vmap
        has_address = False
    if has_address:
        return _Unusable(
            "a tensor whose storage was shortened: it does not hold all of its elements",
            "Make the tensor anew, or resize the storage back.",
        )
    return _Unusable(
        "a tensor without memory, of one of torch's transforms or with its storage freed",
        "Launch the kernel outside of vmap and grad, on tensors that hold values.",
    )
