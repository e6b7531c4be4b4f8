"""What `kernellab.equal` compares: launches of kernels and functions of torch, and what their
tensors hold in runs with floats, which show what residues do not.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy
import torch
from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.compiler.modules import position_of
from kernellab.equality import functions
from kernellab.equality.functions import (
    EXTREMES,
    Conditions,
    ExactLaunch,
    ExactTensors,
    is_loaded,
    number_of,
    run_exactly,
    unchanged,
)
from kernellab.equality.lowering import chooses, is_exchanged
from kernellab.errors import ArgumentError, SourcePosition, UnsupportedOperation
from kernellab.interpreter.codegen.analyses import underlying_objects
from kernellab.interpreter.execution.launcher import launch
from kernellab.interpreter.execution.program import entry_of, program_code
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import (
    Atomic,
    GlobalAccess,
    argument_name,
    function_of_elements,
    global_effect,
    has,
    operation_name,
    trait_of,
)
from kernellab.ir.types import is_pointer
from kernellab.launch.argument_copies import copied, tensors_in
from kernellab.launch.preparation import (
    EntryPoint,
    PreparedLaunch,
    bound_launch,
    innermost,
    prepare_bound,
    refused,
)
from kernellab.launch.reference_results import usage_of
from kernellab.launch.results import rounding_of
from kernellab.records import BoundLaunch, Target
from kernellab.torch_api.emulation import nested_tensors

_EQUAL = EntryPoint("equal", refused("equal runs the TTIR with residues, in several orders"))


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
    """The name of a kernel, a launch or a function in messages."""
    if isinstance(subject, BoundLaunch):
        return subject.name
    return str(getattr(subject, "__name__", type(subject).__name__))


class KernelSide:
    """A kernel's launch, as one of two computations.

    Attributes:
        name: what it is called in messages.
        conditions: the outcomes of the conditions on floats of its runs with residues.
    """

    def __init__(self, prepared: PreparedLaunch, *, rounds: bool = False) -> None:
        self.prepared = prepared
        self.name = prepared.kernel.__name__
        self.conditions = Conditions()
        self._launch = ExactLaunch.of_ttir(prepared, rounds=rounds, conditions=self.conditions)
        self._written: list[str] | None = None

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Its tensors before it runs, with their names."""
        return tensors_in(self.prepared.call.values)

    def run(self, tensors: ExactTensors) -> dict[str, torch.Tensor]:
        """Run it with residues; return its results and all other tensors, by name."""
        before = {name: tensors.of(tensor, name).clone() for name, tensor in self.tensors()}
        after = self.run_again(tensors)
        changed = [name for name in after if not unchanged(before[name], after[name])]
        self._written = [name for name in after if name in {*changed, *(self._written or ())}]
        return after

    def run_again(self, tensors: ExactTensors) -> dict[str, torch.Tensor]:
        """Run it with residues, and nothing else."""
        return self._launch.run(tensors)

    def in_other_orders(self, fresh: Callable[[], ExactTensors]) -> Iterator[dict[str, Any]]:
        """Run it with residues in other orders of its programs; yield its tensors' contents."""
        for order, seed in OTHER_ORDERS:
            yield self._launch.run(fresh(), order=order, seed=seed)

    @cached_property
    def ordered(self) -> dict[str, SourcePosition | None]:
        """The atomics whose order its results may show, by name, with the lines of the first."""
        if math.prod(self.prepared.sizes(may_be_empty=True)) <= 1:
            return {}
        operations = [*filter(_shows_order, self._launch.code.module.walk())]
        return {_atomic_name(op): position_of(op) for op in reversed(operations)}

    def written(self) -> list[str]:
        """The names of its results, after it has run: those that it changed, if any."""
        return self._written or list(self._stored)

    def read(self) -> Iterator[torch.Tensor]:
        """The tensors that it reads, and those that it adds to."""
        usage = usage_of(self._launch.code, self.prepared.call)
        named = {*usage.reads, *usage.updates}
        return (tensor for name, tensor in self.tensors() if name in named)

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
        """As `run`, with the floats that it was given."""
        values = copied(self.prepared.call.values)
        call = replace(self.prepared.call, values=values)
        kernel, target = self.prepared.kernel, self.prepared.target
        code = program_code(kernel, call, target)
        with functions.ending():
            launch(kernel, self.prepared.grid, call, target, code)
        return dict(tensors_in(values))

    def rounding(self) -> Mapping[str, float]:
        """The part of its results that rounding may change, by name, if it is known."""
        prepared = self.prepared
        return rounding_of(program_code(prepared.kernel, prepared.call, prepared.target))

    def zeros(self) -> dict[str, torch.Tensor]:
        """The tensors that hold zeros to which it adds by atomics."""
        updated = usage_of(self._launch.code, self.prepared.call).updates
        return {
            name: tensor for name, tensor in self.tensors() if name in updated and not tensor.any()
        }

    def keeps(self, integers: torch.Tensor) -> bool:
        """Whether it can only run with the given integers, or does not use them."""
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
        function = entry_of(self._launch.code.module)
        objects = underlying_objects(function)
        choosing: set[str | None] = set()
        for op in function.walk():
            access = trait_of(op, GlobalAccess)
            if access is not None and any(map(chooses, flow.forward(op.results))):
                base = objects.get(access.base_of(op))
                if isinstance(base, BlockArgument):
                    choosing.add(argument_name(base))
                else:
                    choosing |= dict(self.tensors()).keys()
        return choosing

    def constants(self) -> set[float]:
        """The numbers that its code compares with."""
        compared = mlir.CmpFOp | mlir.CmpIOp | EXTREMES
        operations = (op for op in self._launch.code.module.walk() if isinstance(op, compared))
        numbers = {number_of(operand) for op in operations for operand in op.operands}
        return {number for number in numbers if number is not None}

    def unseen_condition(
        self, counts: Callable[[bool], bool]
    ) -> tuple[str, SourcePosition | None] | None:
        """A condition that always had one outcome in the runs so far, and its line.

        Args:
            counts: whether a condition counts; receives whether it is on integers of memory.
        """
        for number, outcome in self.conditions.never(counts):
            position = position_of(self.conditions.operations[number])
            line = "" if position is None else f" on line {position.line}"
            return f"A condition of {self.name}{line} is never {outcome}", position
        return None

    def choices(self) -> set[str]:
        """The operations of which one element of many may decide the result."""
        operations = filter(_is_choice, self._launch.code.module.walk())
        return {_kind_of_choice(op) for op in operations}

    def stored_at(
        self, name: str, index: tuple[int, ...], tensors: ExactTensors
    ) -> SourcePosition | None:
        """The line that stores an element, None if none does."""
        tensor = tensors.of(dict(self.tensors())[name], name)
        op = self._launch.last_store(tensors, tensor[index].data_ptr())
        return None if op is None else position_of(op)

    def stores_nothing(self, tensors: ExactTensors) -> bool:
        """Whether it changed nothing so far, and the mask of no store is true."""
        return not self._written and self._launch.last_store(tensors) is None

    @property
    def store(self) -> SourcePosition | None:
        """The line of its first store."""
        effects = ((op, global_effect(op)) for op in self._launch.code.module.walk())
        return next(
            (position_of(op) for op, effect in effects if effect not in (None, "load")), None
        )


OTHER_ORDERS = ("reversed", 0), ("shuffled", 0), ("shuffled", 1)
"""The orders of programs, with seeds, that a kernel also runs in if its atomics may show them."""


def _shows_order(op: Operation) -> bool:
    """Whether results may depend on which program came first at an atomic: sums of residues do
    not, nor do maxima.
    """
    if isinstance(op, tt.AtomicRMWOp):
        return bool(op.result.uses) or _atomic_name(op) == "tl.atomic_xchg"
    return has(op, Atomic) and not isinstance(op, tt.DescriptorReduceOp)


def _atomic_name(op: Operation) -> str:
    """The name of an atomic in a kernel: "tl.atomic_xchg"."""
    if not isinstance(op, tt.AtomicRMWOp):
        return operation_name(op).replace("tt.", "tl.")
    name = tt.ATOMIC_OPERATIONS[op.operation.value.data]
    return f"tl.atomic_{'xchg' if name == 'exchange' else name.removeprefix('f').removeprefix('u')}"


def _is_choice(op: Operation) -> bool:
    """Whether one element of many may decide the result of an operation on elements of memory: in a
    reduction, from iteration to iteration, of a count, or in memory.
    """
    if isinstance(op, tt.AtomicRMWOp):
        return _atomic_name(op).endswith(("_max", "_min", "_and", "_or"))
    if isinstance(op, tt.BitcastOp):
        return is_exchanged(op.result)  # tl.sort
    if not isinstance(op, EXTREMES | _CHOICES | mlir.MulFOp):
        return False
    parent = function_of_elements(op)
    values = op.operands if parent is None else parent.operands
    slice = [*flow.backward(values, is_loaded)]
    if isinstance(op, mlir.MulFOp) and not any(isinstance(v.owner, mlir.CmpFOp) for v in slice):
        return False  # only a condition makes one element 0
    if parent is not None:
        return True
    deciding = flow.backward(op.operands[:1], is_loaded) if isinstance(op, mlir.SelectOp) else slice
    counts = isinstance(op, mlir.CmpIOp) and any(isinstance(v.owner, tt.ReduceOp) for v in slice)
    return any(map(is_loaded, deciding)) and (counts or any(map(_is_carried, slice)))


def _kind_of_choice(op: Operation) -> str:
    if not isinstance(op, EXTREMES):
        return operation_name(op)
    return "maximum" if "max" in op.name else "minimum"


_CHOICES = (
    mlir.CmpFOp | mlir.CmpIOp | mlir.SelectOp | mlir.AndIOp | mlir.OrIOp
    | mlir.MaxSIOp | mlir.MinSIOp | mlir.MaxUIOp | mlir.MinUIOp | mlir.MulIOp
)  # fmt: skip


def _is_carried(value: SSAValue) -> bool:
    """Whether a loop carries a value from iteration to iteration."""
    if not isinstance(value, BlockArgument) or is_pointer(value.type):
        return False
    loop = value.owner.parent_op()
    return isinstance(loop, mlir.WhileOp) or (isinstance(loop, mlir.ForOp) and value.index > 0)


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


class FunctionSide:
    """A function of torch, with the methods of a kernel's launch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._call: Callable[[], Any] = function
        self._results: list[str] = []
        self.conditions = Conditions()
        self.name = name_of(function)

    def takes_arguments_of(self, kernel: KernelSide) -> None:
        """Let the function's parameters be the kernel's of the same names, with or without "_ptr",
        or else the tensors that the kernel only reads, in their order.

        Raises:
            ArgumentError: its parameters are neither.
        """
        values, reads = kernel.prepared.call.values, kernel.reads()
        needed = _needed_parameters(self._function)
        named = {
            name: next((each for each in (name, f"{name}_ptr") if each in values), None)
            for name in needed or ()
        }
        if needed is not None and None not in named.values():
            given = {name: values[its] for name, its in named.items() if its is not None}
            self._call = lambda: self._function(**given)
        elif needed is None:
            self._call = lambda: self._of_unknown_parameters(kernel, reads)
        elif len(needed) == len(reads):
            self._call = lambda: self._function(*(values[name] for name in reads))
        else:
            raise ArgumentError(
                f"The parameters of {self.name} ({', '.join(needed)}) must have the names of "
                f"parameters of {kernel.name}, or be as many as the tensors that it only reads "
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
        try:
            results = _numbered(run_exactly(self._call, tensors, self.conditions))
        except (IndexError, RuntimeError) as error:
            if not tensors.has_unknown_integers:
                raise
            problem = f"{self.name} uses an integer that was a float, whose value no residue has"
            raise UnsupportedOperation(problem) from error
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

    def read(self) -> Iterator[torch.Tensor]:
        return iter(())

    def choices(self) -> set[str]:
        return self._tensors.choices

    def unseen_condition(
        self, counts: Callable[[bool], bool]
    ) -> tuple[str, SourcePosition | None] | None:
        for place, outcome in self.conditions.never(counts):
            return f"In {self.name}, {place} is never {outcome}", None
        return None


def _needed_parameters(function: Callable[..., Any]) -> list[str] | None:
    """The parameters without a default; None if they are not known, of a function in C."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    required = (each for each in parameters if each.default is inspect.Parameter.empty)
    return [parameter.name for parameter in required]


def _numbered(results: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"result {number}": result for number, result in enumerate(results)}


Side = KernelSide | FunctionSide
"""One of two computations."""


def sides_of(
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
                    f"One of the two sides must be a kernel, got {left.name} and {right.name}.",
                    advice="Compare a kernel with another kernel or with a function of torch.",
                )
            function.takes_arguments_of(kernel)
    return left, right


def fresh_tensors(
    seed: int, *sides: Side, rounds: bool = False, given: bool = False
) -> ExactTensors:
    """Residues for the tensors of both sides, before either has run."""
    named = (item for side in sides for item in side.tensors())
    tensors = ExactTensors(seed, rounds, given).holding(named)
    for side in sides:
        for name, tensor in side.zeros().items():
            tensors.of(tensor, name).zero_()
    return tensors


# What tensors hold in runs with floats.

Make = Callable[[torch.Tensor, torch.dtype, Sequence[float]], torch.Tensor]


@dataclass(frozen=True)
class Outstanding:
    """Elements of a tensor that are far from all others: one of each row.

    Attributes:
        row: how many elements a row has.
        place: of the element of the first row; that of the next row is one further.
        number: 1 or -1, infinity, or NaN.
    """

    tensor: torch.Tensor
    row: int
    place: int
    number: float

    def put(self, others: torch.Tensor) -> torch.Tensor:
        """The others with them; the place decides which row has the farthest."""
        kind, rows = self.tensor.dtype, torch.arange(self.tensor.numel() // self.row)
        most = torch.finfo(kind).max if kind.is_floating_point else torch.iinfo(kind).max
        size = min(1e3, most // 4) if kind.is_floating_point else most // 2 + 1 - len(rows)
        made = others.double().flatten()
        places = rows * self.row + (rows + self.place) % self.row
        made[places] = self.number * (size + (rows + self.place) % len(rows)).double()
        return made.reshape(self.tensor.shape)

    def inputs(self) -> Inputs:
        """All others are one number, on the other side of 0; residues keep the order of all. Beside
        NaN they are normal numbers.
        """
        if math.isnan(self.number):
            return replace(NAN[0], floats=NORMAL.floats, outstanding=self)
        fill = functools.partial(_filled, -2.0 if self.number > 0 else 2.0)
        counts = (INFINITY[0] if math.isinf(self.number) else GIVEN).counts
        words = "one element of a row far from all others"
        return Inputs(words, "", fill, fill, counts=counts, outstanding=self)


@dataclass(frozen=True)
class Inputs:
    """The contents of tensors in a run with floats.

    Attributes:
        words: what it is called in messages.
        why: the cause of a difference that only this run shows.
        floats, integers: make the elements of a tensor, from normal numbers of its shape, its
            dtype, and the numbers that the code compares with; None for those that are given.
        seed: of the normal numbers.
        counts: which elements of two results count.
        outstanding: what some elements are that are far from all others.
    """

    words: str
    why: str
    floats: Make | None = None
    integers: Make | None = None
    seed: int = 0
    counts: Callable[[torch.Tensor, torch.Tensor], Any] = lambda *_: True
    outstanding: Outstanding | None = None


def _filled(number: float, normal: torch.Tensor, *_: Any) -> torch.Tensor:
    return normal * 0 + number


def _rank(normal: torch.Tensor) -> torch.Tensor:
    order = normal.flatten().argsort()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order))
    return rank.reshape(normal.shape)


def _sorted(normal: torch.Tensor) -> torch.Tensor:
    return normal.flatten().sort().values.reshape(normal.shape)


def _one_of(normal: torch.Tensor, numbers: Sequence[float]) -> torch.Tensor:
    """Each of the numbers in about as many places."""
    return torch.tensor(numbers)[_rank(normal) % len(numbers)]


def _among(
    numbers: Sequence[float], every: int, first: int, normal: torch.Tensor, *_: Any
) -> torch.Tensor:
    """Normal numbers, with one of the others in one of so many places, from the first on."""
    rank = _rank(normal)
    others = torch.tensor(numbers, dtype=normal.dtype)[rank // every % len(numbers)]
    return torch.where(rank % every == first, others, normal)


def _compared_with(normal: torch.Tensor, _: torch.dtype, constants: Sequence[float]) -> Any:
    """The constants of comparisons and their opposites, and the next numbers of each."""
    finite = [float(each) for each in constants if math.isfinite(each)] or [0.0]
    known = torch.tensor([*finite, *(-each for each in finite)])
    below, above = (torch.nextafter(known, factor * known) for factor in (0, 2))
    return _among([*known.tolist(), *below.tolist(), *above.tolist()], 16, 0, normal)


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


def _are_normal(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Where neither result underflows."""
    return (first.abs() > 1e-30) & (second.abs() > 1e-30)


GIVEN = Inputs(
    "the given floats",
    " by more than the usual rounding: where floats are compared, by a race between programs (see "
    "kernellab.check), or by rounding",
    counts=lambda first, second: first.isfinite() & second.isfinite(),  # they may overflow
)
NORMAL = Inputs(
    "normal numbers",
    ": where a root, a logarithm or a division of integers meets a negative number, or by overflow",
    lambda normal, *_: normal,
    _whole_numbers(wide=True),
)
ORDERED = (
    Inputs("small floats", "", lambda normal, *_: normal / 32),
    Inputs("smaller floats", "", lambda normal, *_: normal * 1e-3),
    Inputs("tiny floats", "", lambda normal, *_: normal * 1e-12, counts=_are_normal),
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


def _of_few(seed: int) -> Inputs:
    """Whole numbers of which many are equal or opposite, so that two elements have every order and
    every pair of signs in some of several such inputs.
    """
    few = numpy.random.default_rng(seed).choice(range(2, 31), 1 + seed % 3, replace=False)

    def make(normal: torch.Tensor, kind: torch.dtype, _: Any) -> torch.Tensor:
        if kind == torch.bool:
            return normal > 0
        signed = kind.is_floating_point or kind in _SIGNED
        return _one_of(normal, [*map(float, few), *(-float(each) for each in few if signed)])

    return Inputs("few different numbers", "", make, make, seed)


_SIGNED = {torch.int8, torch.int16, torch.int32, torch.int64}

OF_FEW = tuple(map(_of_few, range(1, 25)))


def _with(words: str, numbers: Sequence[float], counts: Any) -> tuple[Inputs, ...]:
    """Numbers that are not finite: few, and each element once."""
    return tuple(
        Inputs(words, "", functools.partial(_among, numbers, every, first), counts=counts)
        for every, first in ((16, 0), (2, 0), (2, 1))
    )


NAN = _with("NaN among the inputs", (math.nan,), lambda *_: True)
INFINITY = _with(
    "infinity among the inputs",
    (math.inf, -math.inf),
    lambda first, second: ~first.isnan() & ~second.isnan(),  # inf - inf is overflow
)


def outstanding_inputs(
    tensors: Sequence[torch.Tensor], finite: Sequence[float], special: bool
) -> list[Inputs] | None:
    """Inputs in each of which one element is far from all others, so that it decides what one
    element of many can: each element of the tensors, or else one of each row at a time. None if
    that takes too many runs.

    Args:
        finite: 1, -1, or both.
        special: whether elements are infinity and NaN too.
    """
    numbers = [
        (*finite, *((math.nan, math.inf) if special and tensor.is_floating_point() else ()))
        for tensor in tensors
    ]
    for rows in ([t.numel() for t in tensors], [(1, *t.shape)[-1] for t in tensors]):
        if sum(row * len(each) for row, each in zip(rows, numbers)) <= _MOST_OUTSTANDING:
            return [
                Outstanding(tensor, row, place, number).inputs()
                for tensor, row, each in zip(tensors, rows, numbers)
                for number in each
                for place in range(row)
            ]
    return None


_MOST_OUTSTANDING = 2_000
"""The most runs: those of small kernels take some seconds."""


def single_nans(tensors: Sequence[torch.Tensor]) -> list[Inputs]:
    """Inputs with NaN in one element of each row of a tensor, and in one element of a tensor: in
    each if there are few, or else in the first and last and some between.
    """
    return [
        Outstanding(tensor, row, place, math.nan).inputs()
        for tensor in tensors
        for row in dict.fromkeys(((1, *tensor.shape)[-1], tensor.numel()))
        for place in _some_places(row)
    ]


def _some_places(count: int) -> list[int]:
    if count <= MOST_NANS:
        return [*range(count)]
    part = MOST_NANS // 4
    between = {int(place * 0.618034 % 1 * count) for place in range(2 * part)}
    return sorted({*range(part), *range(count - part, count), *between})


MOST_NANS = 128
