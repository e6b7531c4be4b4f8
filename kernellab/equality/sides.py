"""What is compared: a kernel's launch, or a function of torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy
import torch
from xdsl.ir import Operation

from kernellab.equality.functions import run_exactly, tensors_returned
from kernellab.equality.launches import ExactLaunch, ExactTensors
from kernellab.errors import ArgumentError, SourcePosition
from kernellab.interpreter.execution.launcher import launch
from kernellab.interpreter.memory.observing import AccessObserver, ObservedAccess
from kernellab.ir.locations import locate
from kernellab.ir.traits import global_effect
from kernellab.launch.argument_copies import copied, tensors_in
from kernellab.launch.bound_launches import bound_launch
from kernellab.launch.preparation import EntryPoint, PreparedLaunch, innermost, prepare_bound
from kernellab.launch.right_results import usage_of
from kernellab.records import BoundLaunch, Target

_EQUAL = EntryPoint(
    "equal",
    {
        "stage": "equal runs the TTIR; kernellab.validate runs the module after every pass",
        "order": (why := "the results do not depend on the order of the programs"),
        "seed": why,
        "bounds": "equal compares what the launches store",
    },
)


class Side(Protocol):
    """One of two computations.

    Attributes:
        name: what it is called in messages.
    """

    name: str

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Its tensors before it runs, with their names."""

    def run(self, tensors: ExactTensors) -> dict[str, torch.Tensor]:
        """Run it with residues; return its results and all other tensors, by name."""

    def written(self) -> list[str]:
        """The names of its results, after it has run."""

    def run_floats(self) -> dict[str, torch.Tensor]:
        """As `run`, with the floats that it was given."""


def side_of(
    subject: Any,
    grid: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    target: str | Target | None,
) -> Side:
    """The side that an argument of `equal` is.

    Raises:
        ArgumentError: it is neither a kernel, nor a bound launch, nor a function.
    """
    if isinstance(subject, BoundLaunch):
        return KernelSide(prepare_bound(subject, target or subject.target, _EQUAL))
    if inspect.isroutine(subject) or isinstance(subject, torch.nn.Module):
        return FunctionSide(subject)
    innermost(subject)
    given = bound_launch("equal", subject, grid, tuple(args), dict(keywords))
    return KernelSide(prepare_bound(given, target, _EQUAL))


def name_of(subject: Any) -> str:
    """What a kernel, a launch or a function is called in messages."""
    if isinstance(subject, BoundLaunch):
        return subject.name
    return str(getattr(subject, "__name__", type(subject).__name__))


class KernelSide:
    """A kernel's launch."""

    def __init__(self, prepared: PreparedLaunch) -> None:
        self.prepared = prepared
        self.name = prepared.kernel.__name__
        self._launch = ExactLaunch.of_ttir(prepared)
        self._written: list[str] | None = None

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        return tensors_in(self.prepared.call.values)

    def run(self, tensors: ExactTensors) -> dict[str, torch.Tensor]:
        before = {name: tensors.of(tensor, name).clone() for name, tensor in self.tensors()}
        after = self.run_again(tensors)
        changed = [name for name in after if not _same(before[name], after[name])]
        self._written = [name for name in after if name in {*changed, *(self._written or ())}]
        return after

    def run_again(self, tensors: ExactTensors) -> dict[str, torch.Tensor]:
        """Run it with residues, and nothing else."""
        return self._launch.run(tensors)

    def written(self) -> list[str]:
        return self._written or []

    def reads(self) -> tuple[str, ...]:
        """The parameters of the tensors that it only reads."""
        return usage_of(self._launch.code, self.prepared.call).reads

    def names_of(self, other: KernelSide) -> dict[str, str]:
        """By the names of another launch's tensors, those of this one's that are the same tensor,
        or else have the same name.
        """
        own = {_place(tensor): name for name, tensor in self.tensors()}
        names = {name for name, _ in self.tensors()}
        same = {
            name: own.get(_place(tensor), name if name in names else None)
            for name, tensor in other.tensors()
        }
        return {name: its for name, its in same.items() if its is not None}

    def run_floats(self) -> dict[str, torch.Tensor]:
        values = copied(self.prepared.call.values)
        call = replace(self.prepared.call, values=values)
        launch(self.prepared.kernel, self.prepared.grid, call, self.prepared.target)
        return dict(tensors_in(values))

    def stored_at(
        self, name: str, index: tuple[int, ...], tensors: ExactTensors
    ) -> SourcePosition | None:
        """The line that stores an element, None if none does."""
        tensor = tensors.of(dict(self.tensors())[name], name)
        watch = _StoreWatch(tensor[index].data_ptr())
        self._launch.run(tensors, AccessObserver(watch.hear))
        return watch.position


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.is_complex():
        before, after = torch.view_as_real(before), torch.view_as_real(after)
    return torch.equal(before.nan_to_num(), after.nan_to_num())


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


class _StoreWatch:
    """Hears which operation stores at an address last."""

    def __init__(self, address: int) -> None:
        self._address = address
        self.position: SourcePosition | None = None

    def hear(self, access: ObservedAccess) -> None:
        if global_effect(access.operation) == "load":
            return
        hit = numpy.asarray(access.addresses) == self._address
        if hit.any() and (access.mask is None or (hit & numpy.asarray(access.mask)).any()):
            self.position = _line_of(access.operation)


def _line_of(op: Operation) -> SourcePosition | None:
    frames = locate(op.location).frames
    return SourcePosition(frames[0].file, frames[0].line) if frames else None


class FunctionSide:
    """A function of torch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._call: Callable[[], Any] = function
        self._results: list[str] = []
        self.name = name_of(function)

    def takes_arguments_of(self, kernel: KernelSide) -> None:
        """Let the function's parameters be the kernel's of the same names, with or without "_ptr",
        or else the tensors that the kernel only reads, in their order.

        Raises:
            ArgumentError: its parameters are neither.
        """
        values, reads = kernel.prepared.call.values, kernel.reads()
        needed = _needed_parameters(self._function)
        named = {name: _first_of((name, f"{name}_ptr"), values) for name in needed or ()}
        if needed is not None and None not in named.values():
            given = {name: values[its] for name, its in named.items() if its is not None}
            self._call = lambda: self._function(**given)
        elif needed is None or len(needed) == len(reads):
            self._call = lambda: self._function(*(values[name] for name in reads))
        else:
            raise ArgumentError(
                f"{self.name} takes {', '.join(needed)}, which are not parameters of "
                f"{kernel.name}, and not as many as the tensors that it only reads "
                f"({', '.join(reads)}).",
                advice=f"Name its parameters as the kernel does: {', '.join(values)}.",
            )

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        return iter(())

    def run(self, tensors: ExactTensors) -> dict[str, torch.Tensor]:
        results = _numbered(run_exactly(self._call, tensors))
        self._results = list(results)
        return results

    def written(self) -> list[str]:
        return self._results

    def run_floats(self) -> dict[str, torch.Tensor]:
        return _numbered(list(tensors_returned(self._call())))


def _needed_parameters(function: Callable[..., Any]) -> list[str] | None:
    """The parameters without a default; None if they are not known, of a function in C."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    required = (each for each in parameters if each.default is inspect.Parameter.empty)
    return [parameter.name for parameter in required]


def _first_of(names: Sequence[str], values: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in values), None)


def _numbered(results: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"result {number}": result for number, result in enumerate(results)}
