"""Launches with residues in place of floats, and the code that they run."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import torch
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from kernellab import triton_api
from kernellab.equality import residues
from kernellab.equality.lowering import rule_of
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import ProgramCode, program_of_module
from kernellab.interpreter.memory.address_space import is_pointer, memory_behind
from kernellab.interpreter.memory.observers import RunObserver
from kernellab.ir import flow
from kernellab.ir.syntax import read_module
from kernellab.ir.types import MemDescType, PointerType, ResidueType, TensorDescType, dtype
from kernellab.launch.preparation import PreparedLaunch

# The code of a kernel that computes with residues: its module with another type for floats.


def exact_code(text: str, kernel: Any) -> ProgramCode:
    """The code of a module in MLIR's generic form.

    Raises:
        UnsupportedOperation: an operation on floats that has no law and moves no elements; it names
            the kernel's line.
    """
    module = read_module(text)
    _replace_floats(module)
    return program_of_module(module, kernel, rules=rule_of)


def _replace_floats(module: ModuleOp) -> None:
    for op in module.walk():
        for value in (*op.results, *flow.arguments_inside(op)):
            _replace_type(value)


def _replace_type(value: SSAValue) -> None:
    value._type = _replaced(value.type)


def _replaced(type: Attribute) -> Attribute:
    match type:
        case PointerType():
            return PointerType(_replaced(type.pointee), type.address_space)
        case TensorDescType():
            return TensorDescType(_of_residues(type.block), type.spelling)
        case MemDescType():
            kept = (type.encoding, type.memory_space, type.mutability, type.allocation)
            return MemDescType(type.dimensions, _replaced(type.element_type), *kept)
        case builtin.TensorType():
            return _of_residues(type)
    return ResidueType(type) if _is_float(type) else type


def _of_residues(type: builtin.TensorType[Attribute]) -> builtin.TensorType[Attribute]:
    return builtin.TensorType(_replaced(type.get_element_type()), type.get_shape(), type.encoding)


def _is_float(type: Attribute) -> bool:
    try:
        return dtype(type).kind not in "iub"
    except KeyError:  # a type without elements
        return False


# Launches with residues in place of floats.


@dataclass
class ExactTensors:
    """The tensors of residues that stand for tensors of floats, and copies of all others.

    Tensors that share memory share it here too. A tensor gets residues drawn for its name, so that
    two launches with different tensors of one name and size compute with the same.
    """

    seed: int
    _storages: dict[int, torch.Tensor] = field(default_factory=dict)
    _owners: list[torch.UntypedStorage] = field(default_factory=list)

    def of(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """The tensor of residues, or the copy, with the same shape and strides.

        Args:
            name: decides the residues of a tensor that was not seen before.
        """
        storage = tensor.detach().untyped_storage()
        key = storage.data_ptr()
        if key not in self._storages:
            count = storage.nbytes() // tensor.element_size()
            self._storages[key] = self._new(storage, count, tensor, name)
            self._owners.append(storage)  # so that no other tensor gets its address
        made = self._storages[key]
        return made.as_strided(tensor.shape, tensor.stride(), int(tensor.storage_offset()))

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether something stands for the memory of a tensor."""
        return tensor.detach().untyped_storage().data_ptr() in self._storages

    def put(self, tensor: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        """Let residues stand for a tensor whose memory nothing stands for yet; return them in its
        shape and strides.
        """
        storage = tensor.detach().untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        self._storages[storage.data_ptr()] = torch.zeros(count, dtype=torch.complex128)
        self._owners.append(storage)
        made = self.of(tensor, "")
        made.copy_(exact)
        return made

    def _new(
        self, storage: torch.UntypedStorage, count: int, tensor: torch.Tensor, name: str
    ) -> torch.Tensor:
        if not tensor.is_floating_point():
            everything = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,))
            return everything.detach().clone()
        generator = numpy.random.default_rng((self.seed, zlib.crc32(name.encode())))
        drawn = numpy.atleast_1d(residues.drawn((count,), generator))
        order = _ORDERS[self.seed % len(_ORDERS)]
        return torch.from_numpy(drawn if order is None else drawn[order(drawn.real)])


def _rising(key: numpy.ndarray) -> numpy.ndarray:
    return numpy.argsort(key)


def _falling(key: numpy.ndarray) -> numpy.ndarray:
    return numpy.argsort(-key)


_ORDERS = (None, _rising, _falling)
"""The order of the residues, seed by seed. In the second and third, the largest and smallest
element of each row is its first or last, which a maximum over a part of the row misses."""


class ExactLaunch:
    """A kernel's launch, whose code computes with residues.

    Args:
        prepared: the launch with floats.
        text: the module that runs, in MLIR's generic form.

    Raises:
        UnsupportedOperation: an operation on floats that has no law.
    """

    def __init__(self, prepared: PreparedLaunch, text: str) -> None:
        self._prepared = prepared
        self.code: ProgramCode = exact_code(text, prepared.kernel)

    @classmethod
    def of_ttir(cls, prepared: PreparedLaunch) -> ExactLaunch:
        """The launch of the module that Triton's front end makes."""
        call, target = prepared.call, prepared.target
        made = triton_api.make_ttir(prepared.kernel, call.specialization, target, call.options)
        with triton_api.freed_after(made) as module:
            return cls(prepared, triton_api.generic_text(module))

    def run(
        self, tensors: ExactTensors, observer: RunObserver | None = None
    ) -> dict[str, torch.Tensor]:
        """Run it; return what its tensors hold afterwards, by the names of the arguments."""
        call = self._prepared.call
        values = {name: _exact(value, name, tensors) for name, value in call.values.items()}
        launch = replace(call, values=values)
        launch_observed(self._prepared.kernel, self._prepared.grid, launch, self.code, observer)
        return dict(_tensors(values))


def _exact(value: Any, name: str, tensors: ExactTensors) -> Any:
    if is_pointer(value):
        value = memory_behind(value)
    if isinstance(value, torch.Tensor):
        return tensors.of(value, name)
    if isinstance(value, tuple):
        items = [_exact(item, f"{name}[{place}]", tensors) for place, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if memory_behind(value) is not None:  # a tensor descriptor
        described = copy.copy(value)
        described.base = _exact(value.base, name, tensors)
        return described
    return residues.of_float(value) if isinstance(value, float) else value


def _tensors(values: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, tuple):
            yield from _tensors({f"{name}[{place}]": item for place, item in enumerate(value)})
        elif memory_behind(value) is not None:
            yield name, value.base
