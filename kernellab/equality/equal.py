"""`kernellab.equal`: whether two computations, kernels or functions of torch, are the same for all
inputs.
"""

from __future__ import annotations

import inspect
import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, get_args

import numpy
import torch
from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab import triton_api
from kernellab.common.arguments import check_choice, check_whole, parameters_first
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.common.text import counted
from kernellab.compiler import passes
from kernellab.compiler.kernels import parameter_names
from kernellab.compiler.pipeline import record_passes
from kernellab.equality import residues
from kernellab.equality.functions import ExactLaunch, ExactTensors, run_exactly
from kernellab.equality.records import (
    Domain,
    Equality,
    FloatPair,
    Rounding,
    UnequalElement,
    ValidatedPass,
    Validation,
    Verdict,
)
from kernellab.equality.residues import agreement
from kernellab.errors import ArgumentError, KernelFault, SourcePosition, UnsupportedOperation
from kernellab.interpreter.codegen.analyses import underlying_objects
from kernellab.interpreter.execution.launcher import launch
from kernellab.interpreter.execution.program import entry_of, is_asynchronous, program_code
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import GlobalAccess, argument_name, global_effect, locate, trait_of
from kernellab.ir.types import dtype, is_pointer
from kernellab.launch.argument_copies import copied, tensors_in
from kernellab.launch.bisection import changing, from_inliner_on, rewritten_lines
from kernellab.launch.preparation import (
    EntryPoint,
    PreparedLaunch,
    bound_launch,
    innermost,
    prepare_bound,
    takes_launch,
)
from kernellab.launch.reference_results import usage_of
from kernellab.launch.results import elements_off, relative_tolerance, rounding_of, size_of
from kernellab.records import BoundLaunch, PassRun, Target
from kernellab.torch_api.emulation import nested_tensors

# What is compared: a kernel's launch, or a function of torch.


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
        """The names of its results, after it has run: of a kernel those that it changed, if any."""

    def run_floats(self) -> dict[str, torch.Tensor]:
        """As `run`, with the floats that it was given."""

    def rounding(self) -> Mapping[str, float]:
        """Which part of its results rounding may change, by name, where it is known."""

    def zeros(self) -> dict[str, torch.Tensor]:
        """The tensors that hold zeros to which it adds by atomics."""

    def keeps(self, integers: torch.Tensor) -> bool:
        """Whether it can only run with the integers that are given, or does not use them."""

    def constants(self) -> set[float]:
        """The numbers that its code compares with."""


def side_of(
    subject: Any,
    grid: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    target: str | Target | None,
    *,
    rounds: bool = False,
) -> Side:
    """The side that an argument of `equal` is.

    Raises:
        ArgumentError: it is neither a kernel, nor a bound launch, nor a function.
    """
    if isinstance(subject, BoundLaunch):
        return KernelSide(prepare_bound(subject, target or subject.target, _EQUAL), rounds=rounds)
    if inspect.isroutine(subject) or isinstance(subject, torch.nn.Module):
        return FunctionSide(subject)
    innermost(subject)
    given = bound_launch("equal", subject, grid, tuple(args), dict(keywords))
    return KernelSide(prepare_bound(given, target, _EQUAL), rounds=rounds)


def name_of(subject: Any) -> str:
    """What a kernel, a launch or a function is called in messages."""
    if isinstance(subject, BoundLaunch):
        return subject.name
    return str(getattr(subject, "__name__", type(subject).__name__))


class KernelSide:
    """A kernel's launch."""

    def __init__(self, prepared: PreparedLaunch, *, rounds: bool = False) -> None:
        self.prepared = prepared
        self.name = prepared.kernel.__name__
        self._launch = ExactLaunch.of_ttir(prepared, rounds=rounds)
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
        return self._written or list(self._stored)

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
        kernel, target = self.prepared.kernel, self.prepared.target
        launch(kernel, self.prepared.grid, call, target, program_code(kernel, call, target))
        return dict(tensors_in(values))

    def rounding(self) -> Mapping[str, float]:
        prepared = self.prepared
        return rounding_of(program_code(prepared.kernel, prepared.call, prepared.target))

    def zeros(self) -> dict[str, torch.Tensor]:
        updated = usage_of(self._launch.code, self.prepared.call).updates
        return {
            name: tensor for name, tensor in self.tensors() if name in updated and not tensor.any()
        }

    def keeps(self, integers: torch.Tensor) -> bool:
        place = integers.data_ptr()
        return any(
            tensor.data_ptr() == place and (name in self._stored or name in self._choosing)
            for name, tensor in self.tensors()
        )

    @cached_property
    def _stored(self) -> tuple[str, ...]:
        return usage_of(self._launch.code, self.prepared.call).writes

    @cached_property
    def _choosing(self) -> set[str | None]:
        """The parameters whose elements choose addresses, loops or branches."""
        function = entry_of(self._launch.code.module)
        objects = underlying_objects(function)
        choosing: set[str | None] = set()
        for op in function.walk():
            access = trait_of(op, GlobalAccess)
            if access is not None and any(map(_chooses, flow.forward(op.results))):
                base = objects.get(access.base_of(op))
                if isinstance(base, BlockArgument):
                    choosing.add(argument_name(base))
                else:
                    choosing |= dict(self.tensors()).keys()
        return choosing

    def constants(self) -> set[float]:
        operations = self._launch.code.module.walk()
        return {number for op in operations for number in _compared_numbers(op)}

    def stored_at(
        self, name: str, index: tuple[int, ...], tensors: ExactTensors
    ) -> SourcePosition | None:
        """The line that stores an element, None if none does."""
        tensor = tensors.of(dict(self.tensors())[name], name)
        watch = _StoreWatch(tensor[index].data_ptr())
        self._launch.run(tensors, AccessObserver(watch.hear))
        return watch.position


def _chooses(value: SSAValue) -> bool:
    """Whether a value is an address, or decides what runs."""
    if is_pointer(value.type):
        return True
    for op in (use.operation for use in value.uses):
        access = trait_of(op, GlobalAccess)
        indices = () if access is None else access.indices_of(op)
        if value in (*flow.conditions(op), *indices) or isinstance(op, tt.CallOp | tt.AssertOp):
            return True
    return False


def _compared_numbers(op: Operation) -> Iterator[float]:
    """The constants that an operation compares with."""
    if not isinstance(op, mlir.CmpFOp | mlir.CmpIOp):
        return
    for value in (operand.owner for operand in op.operands):
        match value.value if isinstance(value, mlir.ConstantOp) else None:
            case builtin.FloatAttr() | builtin.IntegerAttr() as number:
                yield number.value.data
            case builtin.DenseIntOrFPElementsAttr() as numbers:
                yield numpy.frombuffer(numbers.data.data, dtype(numbers.type))[0].item()


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
        elif needed is None:
            self._call = lambda: self._of_unknown_parameters(kernel, reads)
        elif len(needed) == len(reads):
            self._call = lambda: self._function(*(values[name] for name in reads))
        else:
            raise ArgumentError(
                f"{self.name} takes {', '.join(needed)}, which are not parameters of "
                f"{kernel.name}, and not as many as the tensors that it only reads "
                f"({', '.join(reads)}).",
                advice=f"Name its parameters as the kernel does: {', '.join(values)}.",
            )

    def _of_unknown_parameters(self, kernel: KernelSide, reads: Sequence[str]) -> Any:
        """Call a function in C with the tensors that the kernel only reads."""
        try:
            return self._function(*(kernel.prepared.call.values[name] for name in reads))
        except TypeError as refused:
            raise ArgumentError(
                f"{self.name} cannot be called with the tensors that {kernel.name} only reads "
                f"({', '.join(reads) or 'there are none'}): {str(refused).split(' - ')[0]}.",
                advice="Pass a lambda whose parameters have the names of the kernel's.",
            ) from refused

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        return iter(())

    def run(self, tensors: ExactTensors) -> dict[str, torch.Tensor]:
        results = _numbered(run_exactly(self._call, tensors))
        self._results, self._tensors = list(results), tensors
        return results

    def written(self) -> list[str]:
        return self._results

    def run_floats(self) -> dict[str, torch.Tensor]:
        return _numbered([tensor.clone() for tensor in nested_tensors(self._call())])

    def rounding(self) -> Mapping[str, float]:
        return {}

    def zeros(self) -> dict[str, torch.Tensor]:
        return {}

    def keeps(self, integers: torch.Tensor) -> bool:
        return integers.untyped_storage().data_ptr() not in self._tensors.integers

    def constants(self) -> set[float]:
        return self._tensors.constants


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


# Which results of two computations should be equal, and where they are.


Results = Mapping[str, torch.Tensor]


class ResultPair:
    """A result of each computation, and what is known of their elements after some seeds.

    Attributes:
        names: what the two are called.
        differs, decided: a bool for each element.
    """

    def __init__(self, names: tuple[str, str], shape: tuple[int, ...]) -> None:
        self.names = names
        self.differs = numpy.zeros(shape, numpy.bool_)
        self.decided = numpy.zeros(shape, numpy.bool_)

    def note(self, of_first: Results, of_second: Results) -> None:
        """Compare the results of one more seed."""
        first, second = of_first[self.names[0]], of_second[self.names[1]]
        same, known = agreement(first.numpy(), second.numpy())
        self.differs |= known & ~same
        self.decided |= known


def paired(
    first: Side, second: Side, of_first: Results, of_second: Results
) -> tuple[ResultPair, ...]:
    """The pairs: of the same tensor, of tensors of one name, or in order.

    Raises:
        ArgumentError: the two have another number of results, or of other shapes.
    """
    pairs = []
    for left, right in _matched(first, second):
        shapes = tuple(of_first[left].shape), tuple(of_second[right].shape)
        if shapes[0] != shapes[1]:
            raise ArgumentError(
                f"{first.name} writes {left} of shape {shapes[0]}, and the result of "
                f"{second.name} has shape {shapes[1]}.",
                advice="Compare results of one shape: reshape them in the function.",
            )
        pairs.append(ResultPair((left, right), shapes[0]))
    return tuple(pairs)


def _matched(first: Side, second: Side) -> list[tuple[str, str]]:
    written = first.written(), second.written()
    if isinstance(first, KernelSide) and isinstance(second, KernelSide):
        same = second.names_of(first)
        pairs = [
            (name, other)
            for name, other in same.items()
            if name in written[0] or other in written[1]
        ]
        if pairs:
            return pairs
    if len(written[0]) != len(written[1]) or not written[0]:
        raise ArgumentError(
            f"{first.name} has {counted(len(written[0]), 'result')} ({', '.join(written[0])}), and "
            f"{second.name} has {len(written[1])}.",
            advice="A function returns what the kernel writes, in the order of its parameters.",
        )
    return list(zip(written[0], written[1]))


# What tensors hold in runs with floats, which show what residues do not.

Make = Callable[[torch.Tensor, torch.dtype, Sequence[float]], torch.Tensor]


@dataclass(frozen=True)
class Inputs:
    """What tensors hold in a run with floats.

    Attributes:
        words: what it is called in messages.
        why: what a difference that only this run shows comes from.
        floats, integers: make the elements of a tensor, from normal numbers of its shape, its
            dtype, and the numbers that the code compares with; None for those that are given.
        counts: which elements of two results count.
    """

    words: str
    why: str
    floats: Make | None = None
    integers: Make | None = None
    counts: Callable[[torch.Tensor, torch.Tensor], Any] = lambda *_: True


def _rank(normal: torch.Tensor) -> torch.Tensor:
    return normal.flatten().argsort().argsort().reshape(normal.shape)


def _sorted(normal: torch.Tensor) -> torch.Tensor:
    return normal.flatten().sort().values.reshape(normal.shape)


def _one_of(normal: torch.Tensor, numbers: Sequence[float]) -> torch.Tensor:
    """Each of the numbers in about as many places."""
    return torch.tensor(numbers)[_rank(normal) % len(numbers)]


def _among(normal: torch.Tensor, numbers: Sequence[float]) -> torch.Tensor:
    """Normal numbers, with one of the others in the first of every sixteen places."""
    rank = _rank(normal)
    others = torch.tensor(numbers, dtype=normal.dtype)[rank // 16 % len(numbers)]
    return torch.where(rank % 16 == 0, others, normal)


def _compared_with(normal: torch.Tensor, _: torch.dtype, constants: Sequence[float]) -> Any:
    """The constants of comparisons and their opposites, and the next number toward 0 of each."""
    finite = [float(each) for each in constants if math.isfinite(each)] or [0.0]
    known = torch.tensor([*finite, *(-each for each in finite)])
    below = torch.nextafter(known, torch.zeros(()))
    return _among(normal, [*known.tolist(), *below.tolist()])


def _whole_numbers(wide: bool) -> Make:
    """Integers but 0 and -1, by which a division may fail: all that the dtype has, or small ones
    and the constants of comparisons.
    """

    def make(normal: torch.Tensor, kind: torch.dtype, constants: Sequence[float]) -> torch.Tensor:
        if kind == torch.bool:
            return normal > 0
        low, high = torch.iinfo(kind).min + 1, min(torch.iinfo(kind).max, 2**63 - 1)
        drawn = (low + (normal.erf() + 1) / 2 * (high - low)).to(torch.int64)
        pool = [high, low, high // 2] if wide else [*range(-9, -1), *range(1, 10)]
        pool += [int(each) for each in constants if float(each).is_integer() and not wide]
        picked = _one_of(normal, [each for each in pool if low <= each <= high])
        made = torch.where(normal > 0.5, drawn, picked) if wide else picked
        return torch.where((made == 0) | (made == -1), 7, made)

    return make


GIVEN = Inputs(
    "the given floats",
    " by more than the usual rounding: by a race between programs (see kernellab.check), or by "
    "rounding",
    counts=lambda first, second: first.isfinite() & second.isfinite(),  # they may overflow
)
NORMAL = Inputs(
    "normal numbers",
    ": where a root, a logarithm or a division of integers meets a negative number, or by overflow",
    lambda normal, *_: normal,
    _whole_numbers(wide=True),
)
ORDERED = (
    Inputs("small floats", "", lambda normal, *_: normal * 1e-3),
    Inputs("rising floats", "", lambda normal, *_: _sorted(normal)),
    Inputs("falling floats", "", lambda normal, *_: -_sorted(normal)),
)
SMALL = Inputs(
    "small whole numbers",
    ": where one is 0 or negative, or two are equal",
    lambda normal, *_: _one_of(normal, [-0.0, *map(float, range(-4, 5))]),
    _whole_numbers(wide=False),
)
ZEROS = Inputs("zeros", "", lambda normal, *_: normal * 0.0)
CONSTANTS = Inputs("constants that the code compares with", "", _compared_with)
NAN = Inputs("NaN among the inputs", "", lambda normal, *_: _among(normal, [math.nan]))
INFINITY = Inputs(
    "infinity among the inputs",
    "",
    lambda normal, *_: _among(normal, [math.inf, -math.inf]),
    counts=lambda first, second: ~first.isnan() & ~second.isnan(),  # inf - inf is overflow
)


# What follows from the residues of two computations, and from runs with floats.

Floats = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Comparison:
    """Two computations after their runs with residues.

    Attributes:
        seeds: how many sets of residues they ran with.
        pairs: their results.
        uninterpreted: functions without a law that they called.
        again: the residues of the last run, before it.
        inputs: which floats count.
        refused: inputs that one of the two failed with.
    """

    first: Side
    second: Side
    seeds: int
    pairs: Sequence[ResultPair]
    uninterpreted: tuple[str, ...]
    again: ExactTensors
    inputs: Domain
    refused: list[str] = field(default_factory=list)

    @cached_property
    def _constants(self) -> list[float]:
        return sorted(self.first.constants() | self.second.constants())

    @cached_property
    def _fixed(self) -> dict[int, str]:
        """The addresses and names of the tensors that keep what is given: zeros, and integers."""
        sides = self.first, self.second
        named = [(name, tensor) for side in sides for name, tensor in side.tensors()]
        fixed = [item for side in sides for item in side.zeros().items()]
        for name, tensor in named:
            if not tensor.is_floating_point() and any(side.keeps(tensor) for side in sides):
                fixed.append((name, tensor))
        return {tensor.data_ptr(): name for name, tensor in fixed}

    def equality(self) -> Equality:
        """The verdict."""
        for pair in self.pairs:
            if pair.differs.any():
                return self._unequal(pair, pair.differs, self._why_not_visible())
        for pair in self.pairs:
            if not pair.decided.all():
                return self._unequal(pair, ~pair.decided, _without_residue(pair))
        return self._after_floats()

    def _after_floats(self) -> Equality:
        """The verdict if all residues agree: runs with floats may show what residues do not."""
        compared = (CONSTANTS,) if self._constants else ()
        special = () if self.inputs == "finite" else (NAN, INFINITY)
        for inputs in (GIVEN, NORMAL, SMALL, ZEROS, *compared, *special):
            for pair, results in self._runs(inputs):
                off = self._off(pair, results) & inputs.counts(*results)
                if off.any():
                    floats = _farthest(off, results)
                    reason = (
                        f"The exact values agree, and a run with {inputs.words} differs{inputs.why}"
                    )
                    sizes = int(off.sum()), off.numel()
                    element = UnequalElement(pair.names[0], floats[0], *sizes, floats)
                    return self._verdict("not decided", reason, element)
        return self._verdict("equal")

    def _verdict(
        self,
        verdict: Verdict,
        reason: str = "",
        difference: UnequalElement | None = None,
        position: SourcePosition | None = None,
    ) -> Equality:
        compared = {pair.names[0]: pair.differs.size for pair in self.pairs}
        names = self.first.name, self.second.name
        zeros = dict.fromkeys((*self.first.zeros(), *self.second.zeros()))
        written = {*self.first.written(), *self.second.written()}
        kept = [name for name in self._fixed.values() if name not in {*zeros, *written}]
        notes = (
            *(f"`{name}` holds zeros before, as given, and atomics add to them." for name in zeros),
            *(f"`{name}` keeps its integers, as given." for name in kept),
            *(f"One of the two fails with {words}." for words in dict.fromkeys(self.refused)),
        )
        return Equality(
            *names,
            verdict,
            self.seeds,
            compared,
            difference,
            reason,
            position,
            self.uninterpreted,
            notes if verdict == "equal" else notes[: len(zeros)],
            "kept" if self.again.rounds else "ignored",
            self.inputs,
        )

    def _unequal(self, pair: ResultPair, off: numpy.ndarray, otherwise: str) -> Equality:
        """The verdict if elements are off: "different" only if floats show it."""
        floats = self._visible(pair)
        if floats is not None:
            off = off | floats[0].numpy()
        index = tuple(int(place) for place in numpy.argwhere(off)[0])
        shown = None if floats is None else _farthest(*floats)
        element = UnequalElement(pair.names[0], index, int(off.sum()), off.size, shown)
        position = self._stored_at(pair, index)
        if floats is None:
            return self._verdict("not decided", otherwise, element, position)
        return self._verdict("different", "", element, position)

    def _why_not_visible(self) -> str:
        reason = "The exact values differ, and runs with floats show no difference"
        if self.uninterpreted:
            functions = ", ".join(self.uninterpreted)
            reason += (
                f"; nothing is known of {functions} but that equal arguments give equal results"
            )
        return reason

    def _stored_at(self, pair: ResultPair, index: tuple[int, ...]) -> SourcePosition | None:
        """The line that stores an element."""
        for side, name in zip((self.first, self.second), pair.names):
            if isinstance(side, KernelSide):
                position = side.stored_at(name, index, self.again)
                if position is not None:
                    return position
        return None

    def _visible(self, pair: ResultPair) -> tuple[torch.Tensor, Floats] | None:
        """Where the first run with floats that shows a difference does, and its results."""
        for inputs in (GIVEN, NORMAL, *ORDERED):
            for each, results in self._runs(inputs):
                if each is pair and (off := self._off(pair, results)).any():
                    return off, results
        return None

    def _runs(self, inputs: Inputs) -> Iterator[tuple[ResultPair, Floats]]:
        """Run both with floats; yield each pair with its two results."""
        sides = self.first, self.second
        try:
            with self._holding(inputs):
                results = [side.run_floats() for side in sides]
        except Exception:  # an assertion, an index or a function of torch refuses the inputs
            if inputs is GIVEN:
                raise
            self.refused.append(inputs.words)
            return
        for pair in self.pairs:
            first, second = (each[name].detach() for each, name in zip(results, pair.names))
            yield pair, (first, second)

    def _off(self, pair: ResultPair, results: Floats) -> torch.Tensor:
        """Where two results differ by more than rounding explains."""
        sides = zip((self.first, self.second), pair.names)
        own = [side.rounding().get(name, 0.0) for side, name in sides]
        usual = (relative_tolerance(result.dtype) for result in results)
        parts = [_TIMES_ROUNDING * max(each, *own) for each in usual]
        sizes = [part * size_of(result) for part, result in zip(parts, results)]
        left, right = map(_finite, results)
        return elements_off(right, left, max(sizes) + max(parts) * left.abs())

    @contextmanager
    def _holding(self, inputs: Inputs) -> Iterator[None]:
        """Let the tensors hold other numbers for a while, drawn for their names."""
        sides = self.first, self.second
        named = {
            tensor.data_ptr(): (name, tensor) for side in sides for name, tensor in side.tensors()
        }
        before = []
        try:
            for place, (name, tensor) in named.items():
                make = inputs.floats if tensor.is_floating_point() else inputs.integers
                if make is None or place in self._fixed or not tensor.numel():
                    continue
                before.append((tensor, tensor.detach().clone()))
                generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
                normal = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
                tensor.detach().copy_(make(normal, tensor.dtype, self._constants))
            yield
        finally:
            for tensor, contents in before:
                tensor.detach().copy_(contents)


def _farthest(off: torch.Tensor, results: Floats) -> FloatPair:
    """The element that is farthest off, and its two values."""
    left, right = map(_finite, results)
    away = (right - left).abs().nan_to_num(nan=torch.inf)
    place = torch.where(off, away, -1.0).argmax()
    index = tuple(int(number) for number in torch.unravel_index(place, off.shape))
    return index, float(results[0][index]), float(results[1][index])


_TIMES_ROUNDING = 4
"""How many times the usual tolerance of a dtype a visible difference is."""


def _without_residue(pair: ResultPair) -> str:
    count = int((~pair.decided).sum())
    return (
        f"{counted(count, 'element')} of {pair.names[0]} {'has' if count == 1 else 'have'} no "
        "residue in both: NaN, or a product of an exponential and a logarithm"
    )


def _finite(result: torch.Tensor) -> torch.Tensor:
    """A result with large numbers for infinities, which no tolerance excuses."""
    return result.double().nan_to_num(nan=float("nan"), posinf=1e300, neginf=-1e300)


# `kernellab.equal`: whether two computations are the same for all inputs.


def _names_of(first: Any) -> Sequence[str]:
    return () if isinstance(first, BoundLaunch) else parameter_names(first)


@parameters_first(_names_of)
def equal(
    first: Any,
    second: Any,
    grid: Any = None,
    args: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    *,
    seeds: int = 3,
    target: str | Target | None = None,
    rounding: Rounding = "ignored",
    inputs: Domain = "all",
) -> Equality:
    """Decide whether two computations give the same results for all inputs of these sizes.

        kernellab.equal(softmax, online_softmax, (64,), x, y, 200, BLOCK=256)
        kernellab.equal(kernellab.bind(softmax, (64,), x, y, 200, BLOCK=256),
                        lambda: torch.softmax(x, -1))

    Both run on the CPU with residues in place of floats (docs/equality.md): sums in any order,
    fused multiply-adds and rescaled exponentials give identical residues, and rounding does not
    exist. Integers and indices keep their values. The arguments do not change.

    Args:
        first, second: each a kernel, a launch from `kernellab.bind`, or a function of torch. A
            function has no parameters and uses the launch's tensors, or has parameters with the
            names of the kernel's, with or without "_ptr", or takes the tensors that the kernel only
            reads, as `torch.add` does. It returns what the kernel writes, in the order of the
            kernel's parameters.
        grid, args, keywords: those of the kernels that are not bound.
        seeds: how many sets of random residues both run with.
        target: the GPU to compile for; it matters little, because TTIR runs.
        rounding: with "kept", results in formats narrower than float32 are rounded, by a function
            of which nothing else is known, so that equal computations also round the same numbers.
        inputs: with "finite", what the two do with NaN and infinity does not count.

    Returns:
        The Equality: "equal"; "different", with the first element, the line that stores it, and
        values of a run with floats that differ visibly; or "not decided", with the reason. It is
        true only if they are equal.

    Raises:
        ArgumentError: neither is a kernel, or the results have other shapes or another number.
        CompileError, KernelFault, GridError: as `kernellab.run`.
    """
    check_whole("seeds", seeds, 1)
    check_choice("rounding", rounding, get_args(Rounding))
    check_choice("inputs", inputs, get_args(Domain))

    def decided(rounds: bool) -> Equality:
        sides = _sides(first, second, grid, args, keywords or {}, target, rounds=rounds)
        return _compared(*sides, seeds, inputs, rounds=rounds)

    try:
        equality = decided(rounding == "kept")
        if rounding == "kept" and equality.difference is not None and decided(False):
            return replace(equality, verdict="not decided", reason=_ROUNDS_ELSEWHERE)
        return equality
    except UnsupportedOperation as unknown:
        return Equality(
            name_of(first),
            name_of(second),
            "not decided",
            seeds,
            {},
            reason=unknown.problem.rstrip("."),
            position=unknown.position,
            rounding=rounding,
            inputs=inputs,
        )


_ROUNDS_ELSEWHERE = (
    "The two are the same algorithm, equal over the reals, and round other numbers on the way"
)


def _sides(
    first: Any,
    second: Any,
    grid: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    target: str | Target | None,
    *,
    rounds: bool,
) -> tuple[Side, Side]:
    left, right = (
        side_of(subject, grid, args, keywords, target, rounds=rounds) for subject in (first, second)
    )
    for function, kernel in ((left, right), (right, left)):
        if isinstance(function, FunctionSide):
            if not isinstance(kernel, KernelSide):
                raise ArgumentError(
                    "Neither of the two is a kernel.",
                    advice="Compare a kernel with another kernel or with a function of torch.",
                )
            function.takes_arguments_of(kernel)
    return left, right


def _compared(first: Side, second: Side, seeds: int, inputs: Domain, *, rounds: bool) -> Equality:
    pairs: tuple[ResultPair, ...] = ()
    with residues.uninterpreted_noted() as uninterpreted:
        for seed in range(seeds):
            results = [
                side.run(fresh_tensors(seed, first, second, rounds=rounds))
                for side in (first, second)
            ]
            pairs = pairs or paired(first, second, *results)
            for pair in pairs:
                pair.note(*results)
    again = fresh_tensors(0, first, second, rounds=rounds)
    comparison = Comparison(
        first, second, seeds, pairs, tuple(sorted(uninterpreted)), again, inputs
    )
    return comparison.equality()


def fresh_tensors(seed: int, *sides: Side, rounds: bool = False) -> ExactTensors:
    """Residues for the tensors of both sides, before either has run."""
    tensors = ExactTensors(seed, rounds)
    for side in sides:
        for name, tensor in side.tensors():
            tensors.of(tensor, name)
    for side in sides:
        for name, tensor in side.zeros().items():
            tensors.of(tensor, name).zero_()
    return tensors


# `kernellab.validate`: whether each pass of the compiler keeps what a kernel computes.


_VALIDATE = EntryPoint(
    "validate",
    {
        "stage": "validate runs the module after every pass",
        "order": (why := "validate runs the programs in the order of their ids"),
        "seed": why,
        "bounds": "validate compares what accesses leave in the storage",
    },
)


@takes_launch
def validate(
    launch: BoundLaunch,
    *,
    target: str | Target | None = None,
    seeds: int = 1,
    skip: str | Sequence[str] = (),
    pipeline: Sequence[passes.Item] | None = None,
) -> Validation:
    """Decide for each pass of the compiler whether it keeps what a kernel computes.

    One compilation records the module after every pass of the TTIR and TTGIR stages. From the
    inliner on, each module that differs from the one before runs on the CPU with residues in place
    of floats (docs/equality.md), and leaves the same in all tensors or does not. A pass that only
    computes sums in another order is equal. A module with asynchronous operations runs once more,
    and there they complete only when something waits for them. The arguments do not change.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch.
        target: the GPU whose pipeline runs; None for the one that a launch would emulate.
        seeds: how many sets of random residues each module runs with.
        skip, pipeline: changes of the target's pipeline, as for `kernellab.compile`.

    Returns:
        The Validation: a row for each pass, and of the first that changes a result the element and
        the lines that it rewrote. It is true only if all passes are equal.

    Raises:
        ArgumentError, GridError, CompileError: as `kernellab.run`.
        UnsupportedOperation: the first module has an operation that is not decided.
    """
    check_whole("seeds", seeds, 1)
    prepared = prepare_bound(launch, target, _VALIDATE)
    modules = _Modules(prepared, seeds)
    with ProgressBar(f"validate {prepared.kernel.__name__}", None, "modules", UNTOUCHED) as work:
        passes = record_passes(
            prepared.kernel, prepared.call, prepared.target, skip=skip, pipeline=pipeline
        )
        several = list(changing(from_inliner_on(passes)))
        work.total = len(several)
        for module in several:
            modules.add(module)
            work.advance()
    return modules.validation()


class _Modules:
    """The modules of one launch, one after the other, compared with the first."""

    def __init__(self, prepared: PreparedLaunch, seeds: int) -> None:
        self._prepared = prepared
        self._seeds = seeds
        self._first = ""
        self._expected: list[Mapping[str, torch.Tensor]] = []
        self._before = ""
        self._passes: list[ValidatedPass] = []
        self._difference: UnequalElement | None = None
        self._lines: tuple[SourcePosition, ...] = ()

    def add(self, module: PassRun) -> None:
        """Run the module after a pass, and compare."""
        text = triton_api.generic_form(module.text.read(), self._prepared.target)
        start = time.perf_counter()
        if not self._first:
            self._expected = self._results(ExactLaunch(self._prepared, text))
            self._first = module.label
        else:
            verdict, reason = self._judged(text)
            seconds = time.perf_counter() - start
            self._passes.append(ValidatedPass(module.label, verdict, seconds, reason))
            if verdict == "different" and not self._lines:
                self._lines = rewritten_lines(self._before, text, self._prepared.kernel)
        self._before = text

    def _judged(self, text: str) -> tuple[Verdict, str]:
        try:
            launch = ExactLaunch(self._prepared, text)
            results = self._results(launch)
        except UnsupportedOperation as unknown:
            return "not decided", unknown.problem
        except KernelFault as fault:
            return "different", f"it fails: {fault.problem}"
        undecided = 0
        for expected, contents in zip(self._expected, results):
            for name, tensor in expected.items():
                same, known = agreement(tensor.numpy(), contents[name].numpy())
                undecided += int((~known).sum())
                if not same.all():
                    self._note_difference(name, ~same)
                    return "different", ""
        if is_asynchronous(launch.code) and (late := self._late(text, results)):
            return "different", late
        if undecided:
            return "not decided", f"{undecided:,} elements have no residue in both"
        return "equal", ""

    def _late(self, text: str, results: Sequence[Mapping[str, torch.Tensor]]) -> str:
        """What is wrong where operations complete when something waits for them; "" if nothing."""
        try:
            late = self._results(ExactLaunch(self._prepared, text, is_late=True))
        except KernelFault as fault:
            return f"it fails where operations complete late: {fault.problem}"
        for early, contents in zip(results, late):
            for name, tensor in early.items():
                same, known = agreement(tensor.numpy(), contents[name].numpy())
                off = ~same | ~known & agreement(tensor.numpy(), tensor.numpy())[1]
                if off.any():
                    self._note_difference(name, off)
                    return "something is used before an asynchronous operation completes"
        return ""

    def _note_difference(self, name: str, off: numpy.ndarray) -> None:
        if self._difference is None:
            index = tuple(int(i) for i in numpy.argwhere(off)[0])
            self._difference = UnequalElement(name, index, int(off.sum()), off.size)

    def _results(self, launch: ExactLaunch) -> list[Mapping[str, torch.Tensor]]:
        return [launch.run(self._fresh(seed)) for seed in range(self._seeds)]

    def _fresh(self, seed: int) -> ExactTensors:
        tensors = ExactTensors(seed)
        for name, tensor in tensors_in(self._prepared.call.values):
            tensors.of(tensor, name)
        return tensors

    def validation(self) -> Validation:
        """The result."""
        return Validation(
            self._prepared.kernel.__name__,
            str(self._prepared.target),
            self._first,
            tuple(self._passes),
            self._difference,
            self._lines,
            self._prepared.notes,
        )
