"""Both sides, run with residues in place of floats: launches of kernels, and functions of
torch.
"""

from __future__ import annotations

import copy
import functools
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import torch
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from kernellab import triton_api
from kernellab.common.system import OutOfTime, limited
from kernellab.equality import residues
from kernellab.equality.lowering import (
    BITS,
    chooses,
    exchanged_bits,
    has_residues,
    is_exchanged,
    rule_of,
    rule_with_rounding,
)
from kernellab.equality.residues import ONE, ZERO
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.codegen.emitter import AfterOperation, Emitter
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import ProgramCode, program_of_module
from kernellab.interpreter.lowering.asynchrony import deferred
from kernellab.interpreter.memory.address_space import is_pointer, memory_behind
from kernellab.interpreter.memory.global_memory import lanes_on
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess, RunObserver
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import Atomic, GlobalAccess, global_effect, has, in_region_of_elements
from kernellab.ir.syntax import read_module
from kernellab.ir.types import MemDescType, PointerType, ResidueType, TensorDescType, dtype
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.preparation import PreparedLaunch
from kernellab.records.launches import DEFAULT, RunOptions
from kernellab.torch_api.emulation import (
    OperationMode,
    changes_an_argument,
    decomposition_of,
    nested_tensors,
)

# The code of a kernel that computes with residues: its module with another type for floats.


class Conditions:
    """The outcomes of the conditions on floats: comparisons, and values that are computed from
    them. Those of infinities and NaN are left out: random residues have none.

    Attributes:
        operations: those of a kernel; its conditions are numbers of operations.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._of_integers: set[Any] = set()
        self._seen: dict[tuple[Any, ...], bool] = {}

    def never(self, counts: Callable[[bool], bool]) -> Iterator[tuple[Any, bool]]:
        """The conditions that never had one of the outcomes, each with that outcome.

        Args:
            counts: whether a condition counts; receives whether it is on integers of memory.
        """
        several = ((key[-2], key[-1]) for key, seen in self._seen.items() if not seen)
        return (each for each in several if counts(each[0] in self._of_integers))

    def are_noted(self) -> bool:
        """Whether there is any condition."""
        return bool(self._seen)

    def add(self, others: Conditions) -> None:
        """Add the outcomes of other runs of the same computation."""
        for key, seen in others._seen.items():
            self._seen[key] = seen or self._seen.get(key, False)

    def note(self, *key: Any, holds: Any, around: Any = True, of_integers: bool = False) -> None:
        """Note both outcomes of a condition.

        Args:
            around: where it decides something.
        """
        if of_integers:
            self._of_integers.add(key[-1])
        for outcome in (True, False):
            if not self._seen.get((*key, outcome)):
                self._seen[*key, outcome] = bool(numpy.any(numpy.equal(holds, outcome) & around))

    def watched(self, module: ModuleOp) -> AfterOperation:
        """Return an observer that notes the conditions of a module as they are computed; the inner
        of two `where` or `if` only where it decides something.
        """
        self.operations = list(module.walk())
        numbers, trees = {op: n for n, op in enumerate(self.operations)}, _trees(self.operations)
        self._of_integers = {
            numbers[op]
            for op in self.operations
            if isinstance(op, mlir.CmpIOp | mlir.AndIOp | mlir.OrIOp | mlir.XOrIOp)
            and any(map(_is_loaded_integer, flow.backward(op.operands, is_loaded)))
        }

        def inner(op: mlir.SelectOp) -> Iterator[tuple[tuple[SSAValue, bool], ...]]:
            """For each `where` in an arm: the conditions and outcomes around it, and its own. Those
            of a sorting network are too many, and choose one of two elements that both stay.
            """
            if any(map(_is_of_bits, (op.true_value, op.false_value))):
                return
            for outcome, arm in ((True, op.true_value), (False, op.false_value)):
                each = arm.owner
                if isinstance(each, mlir.SelectOp) and _is_free(trees.get(each.condition, ...)):
                    yield (op.condition, outcome), (each.condition, True)
                    yield from (((op.condition, outcome), *path) for path in inner(each))

        def note(emit: Emitter, op: Operation) -> None:
            paths: list[Any] = []
            if in_region_of_elements(op):
                return
            if isinstance(op, EXTREMES) and residues.with_terms():
                compared = functools.partial(self.note_order, numbers[op])
                operands = (emit[value] for value in op.operands)
                emit.evaluate(None, emit.constant(compared, hint="note")(*operands))
            if isinstance(op, _CONDITIONS) and _is_free(trees.get(op.results[0], ...)):
                own, around = op.results[0], _branches_around(op, trees)
                around = (each for each in around if emit.rank(each[0]) == emit.rank(own))
                paths = [(*around, (own, True))]
            elif isinstance(op, mlir.SelectOp) and _is_free(trees.get(op.condition, ...)):
                paths = [path for path in inner(op) if len({emit.rank(v) for v, _ in path}) == 1]
            for path in paths:
                own = path[-1][0]
                leaves, tree = _numbered(trees[own])
                key = (
                    tuple(numbers[value.owner] for value, _ in path[:-1]),
                    tuple(outcome for _, outcome in path),
                    numbers[own.owner],
                )
                noted = emit.constant(functools.partial(self._note_path, key, tree), hint="note")
                values = (*(value for value, _ in path), *leaves)
                emit.evaluate(None, noted(*(emit[value] for value in values)))

        return note

    def note_order(self, place: Any, value: Any, *others: Any) -> None:
        """Note where a value is above and below each of others, if a random point says so."""
        if not residues.with_terms().is_at_point:
            return
        for number, other in enumerate(others):
            for name in ("ogt", "olt"):
                self.note(number, name, place, holds=residues.compare(name, value, other))

    def _note_path(self, key: Any, tree: Any, *values: Any) -> None:
        if all(self._seen.get((*key, outcome)) for outcome in (True, False)):
            return
        holds = [numpy.not_equal(each, 0) for each in values]
        here = holds[: len(key[1])]
        around = functools.reduce(
            numpy.logical_and,
            map(numpy.equal, here[:-1], key[1]),
            open_places(tree, holds[len(here) :]),
        )
        if numpy.any(open_places(tree, holds[len(here) :])):
            self.note(*key, holds=here[-1], around=around)


# What a condition depends on: None is an outcome that floats or integers of memory decide, and a
# value is one that only indices and sizes do; ("and", a, b) is made from others.

_LOGICAL_OPERATIONS = {mlir.AndIOp: "and", mlir.OrIOp: "or", mlir.XOrIOp: "xor"}
_PRODUCTS = mlir.MulFOp | mlir.MulIOp
_CONDITIONS = mlir.CmpFOp | mlir.CmpIOp | mlir.AndIOp | mlir.OrIOp | mlir.XOrIOp | _PRODUCTS
_SPREADING = tt.SplatOp | tt.ExpandDimsOp | tt.BroadcastOp
_NUMBERS_OF_BOOLS = mlir.ExtUIOp | mlir.ExtSIOp | mlir.SIToFPOp | mlir.UIToFPOp


def _trees(operations: Iterable[Operation]) -> dict[SSAValue, Any]:
    """The conditions behind each bool, and each number that is 0 where a bool is false."""
    trees: dict[SSAValue, Any] = {}
    for op in operations:
        if len(op.results) == 1 and (made := _tree_of(op, trees)) is not ...:
            trees[op.results[0]] = made
    return trees


def _tree_of(op: Operation, trees: Mapping[SSAValue, Any]) -> Any:
    result = op.results[0]
    if isinstance(op, mlir.CmpFOp):
        is_of_infinity = any(number_of(v) in (math.inf, -math.inf) for v in op.operands)
        return ... if op.lhs is op.rhs or is_of_infinity else None
    if isinstance(op, mlir.CmpIOp):
        slice = flow.backward(op.operands, is_loaded)
        return None if any(_is_loaded_integer(v) or _is_of_floats(v) for v in slice) else ...
    if isinstance(op, _CONDITIONS):
        if not _is_bool(result) and not all(part in trees for part in op.operands):
            return ...
        parts = (trees.get(part, part) for part in op.operands)
        made = (_LOGICAL_OPERATIONS.get(type(op), "and"), *parts)
        return made if _is_free(made) else ...
    if isinstance(op, _SPREADING) and op.operands[0] in trees:
        return None if _is_free(trees[op.operands[0]]) else result
    if isinstance(op, _NUMBERS_OF_BOOLS):
        return trees.get(op.operands[0], result if _is_bool(op.operands[0]) else ...)
    if isinstance(op, mlir.SelectOp) and number_of(op.false_value) == 0:
        return trees.get(op.condition, result) if _constant_of(op.true_value) else ...
    return ...


def _branches_around(
    op: Operation, trees: Mapping[SSAValue, Any]
) -> Iterator[tuple[SSAValue, bool]]:
    """The conditions of the `if` that an operation is in, and whether it is where they hold."""
    while (parent := op.parent_op()) is not None:
        if isinstance(parent, mlir.IfOp) and _is_free(trees.get(parent.condition, ...)):
            yield parent.condition, op.parent_region() is parent.regions[0]
        op = parent


def is_loaded(value: SSAValue) -> bool:
    """Whether a value comes from memory, or is a matmul of such values."""
    op = value.owner
    return isinstance(op, Operation) and (has(op, GlobalAccess) or isinstance(op, tt.DotOp))


def _is_loaded_integer(value: SSAValue) -> bool:
    """Whether a value is an integer of memory that a run may change."""
    op = value.owner
    return (
        isinstance(op, Operation)
        and has(op, GlobalAccess)
        and not has(op, Atomic)
        and not has_residues(value)
        and not any(map(chooses, flow.forward(op.results)))
    )


def _is_of_floats(value: SSAValue) -> bool:
    """Whether an operation makes an integer of floats."""
    op = value.owner
    return (
        isinstance(op, Operation)
        and not has(op, GlobalAccess)
        and not has_residues(value)
        and any(map(has_residues, op.operands))
    )


def _is_of_bits(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, tt.BitcastOp) and is_exchanged(op.operand)


def _is_bool(value: SSAValue) -> bool:
    return dtype(value.type).kind == "b"


def _constant_of(value: SSAValue) -> mlir.ConstantOp | None:
    op = value.owner
    if isinstance(op, tt.SplatOp):
        op = op.operands[0].owner
    return op if isinstance(op, mlir.ConstantOp) else None


def number_of(value: SSAValue) -> float | None:
    """The number of a constant, or of all elements of its tile; None if a value is not one."""
    op = _constant_of(value)
    return None if op is None else op.number


def _is_free(tree: Any) -> bool:
    """Whether a tree depends on floats or on integers of memory."""
    return tree is None or (isinstance(tree, tuple) and any(map(_is_free, tree[1:])))


def _numbered(tree: Any) -> tuple[list[SSAValue], Any]:
    """The values in a tree, and the tree with their numbers in place of them."""
    leaves: list[SSAValue] = []

    def numbered(tree: Any) -> Any:
        if isinstance(tree, SSAValue):
            leaves.append(tree)
            return len(leaves) - 1
        return tree if tree is None else (tree[0], *map(numbered, tree[1:]))

    return leaves, numbered(tree)


def _outcomes(tree: Any, values: Any) -> tuple[Any, Any]:
    """Where a condition may hold, and where it may not."""
    if tree is None:
        return True, True
    if isinstance(tree, int):
        return values[tree], ~values[tree]
    (yes, no), (also, neither) = (_outcomes(each, values) for each in tree[1:])
    match tree[0]:
        case "and":
            return yes & also, no | neither
        case "or":
            return yes | also, no & neither
    return (yes & neither) | (no & also), (yes & also) | (no & neither)


def open_places(tree: Any, values: Any) -> Any:
    """Where both outcomes of a condition are possible."""
    return numpy.logical_and(*_outcomes(tree, values))


EXTREMES = mlir.MaxNumFOp | mlir.MinNumFOp | mlir.MaximumFOp | mlir.MinimumFOp | tt.ClampFOp
"""Operations that choose one of their operands by their order."""


def exact_code(
    text: str,
    kernel: Any,
    *,
    rounds: bool = False,
    is_late: bool = False,
    conditions: Conditions | None = None,
) -> ProgramCode:
    """The code of a module in MLIR's generic form.

    Args:
        rounds: whether results in formats narrower than float32 are rounded.
        is_late: whether asynchronous operations complete only when something waits for them.
        conditions: records the outcomes of its conditions.

    Raises:
        UnsupportedOperation: an operation on floats that has no law and moves no elements; it names
            the kernel's line.
    """
    module = read_module(text)
    _name_extremes(module)
    _replace_floats(module)
    rules = rule_with_rounding if rounds else rule_of
    after = None if conditions is None else conditions.watched(module)
    return program_of_module(
        module, kernel, after, rules=deferred(kernel, rules) if is_late else rules
    )


def _name_extremes(module: ModuleOp) -> None:
    """Turn `where((a > b) | (a != a), a, b)`, as Inductor writes it, into a maximum, and the same
    with `<` into a minimum: both have laws, and comparisons have none.
    """
    for op in [*module.walk()]:
        if not isinstance(op, mlir.SelectOp) or not isinstance(op.condition.owner, mlir.OrIOp):
            continue
        condition, a, b = op.condition.owner, op.true_value, op.false_value
        relations = {_relation_of(side.owner, a, b) for side in condition.operands}
        extreme = mlir.MaximumFOp if ">" in relations else mlir.MinimumFOp
        if relations not in ({">", "is NaN"}, {"<", "is NaN"}):
            continue
        made = extreme.create(operands=[a, b], result_types=op.result_types, location=op.location)
        Rewriter.replace_op(op, made)
        for unused in (condition, *(side.owner for side in condition.operands)):
            if isinstance(unused, Operation) and not any(each.uses for each in unused.results):
                Rewriter.erase_op(unused)


def _relation_of(op: Any, a: SSAValue, b: SSAValue) -> str:
    """Which relation a comparison tests: that a is NaN, above b, or below b; else an empty text."""
    if not isinstance(op, mlir.CmpFOp):
        return ""
    predicate = mlir.FLOAT_PREDICATES[op.predicate.value.data]
    if op.lhs is a and op.rhs is a:
        return "is NaN" if predicate in ("une", "uno") else ""
    if predicate not in ("ogt", "oge", "olt", "ole") or {op.lhs, op.rhs} != {a, b}:
        return ""
    return ">" if predicate.startswith("og") == (op.lhs is a) else "<"


def _replace_floats(module: ModuleOp) -> None:
    for op in module.walk():
        for value in (*op.results, *flow.arguments_inside(op)):
            value._type = _replaced(value.type)
    for value in exchanged_bits(module):
        match value.type:
            case builtin.TensorType() as tile:
                value._type = builtin.TensorType(BITS, tile.get_shape(), tile.encoding)
            case _:
                value._type = BITS


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

    Attributes:
        seed: which residues are drawn.
        rounds: whether tensors of formats narrower than float32 hold rounded residues.
        given: whether they hold the tensors' values.
        integers: the storages of integers that functions of torch used.
        constants: the numbers that they compared with.
        has_unknown_integers: whether floats became integers in them.
        choices: the functions that they called of which one element may decide the result.
    """

    seed: int
    rounds: bool = False
    given: bool = False
    integers: set[int] = field(default_factory=set)
    constants: set[float] = field(default_factory=set)
    has_unknown_integers: bool = False
    choices: set[str] = field(default_factory=set)
    _storages: dict[int, torch.Tensor] = field(default_factory=dict)
    _owners: list[torch.UntypedStorage] = field(default_factory=list)

    def holding(self, named: Iterable[tuple[str, torch.Tensor]]) -> ExactTensors:
        """Add residues or a copy for each of the tensors, and return self."""
        for name, tensor in named:
            self.of(tensor, name)
        return self

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
        """Whether there are residues or a copy for the memory of a tensor."""
        return tensor.detach().untyped_storage().data_ptr() in self._storages

    def rounded(self, exact: Any, kind: torch.dtype) -> Any:
        """Residues that are computed for a tensor of a dtype of torch."""
        if not self.rounds or not kind.is_floating_point or not exact.is_complex():
            return exact
        bits = 1 - round(math.log2(torch.finfo(kind).eps))
        return _as_tensor(residues.rounded(exact.numpy(), bits))

    def put(self, tensor: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        """Let residues stand for a tensor whose memory nothing stands for yet; return them in its
        shape and strides.
        """
        storage = tensor.detach().untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        self._storages[storage.data_ptr()] = torch.zeros(count, dtype=torch.complex128)
        self._owners.append(storage)
        made = self.of(tensor, "")
        for axis, stride in enumerate(tensor.stride()):
            if not stride:  # an expanded axis, whose elements are one in memory
                made, exact = made.narrow(axis, 0, 1), exact.narrow(axis, 0, 1)
        made.copy_(exact)
        return self.of(tensor, "")

    def _new(
        self, storage: torch.UntypedStorage, count: int, tensor: torch.Tensor, name: str
    ) -> torch.Tensor:
        everything = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,)).detach()
        if not tensor.is_floating_point():
            return everything.clone()
        if self.given:
            return torch.from_numpy(numpy.atleast_1d(residues.of_floats(_numbers(everything))))
        if (terms := residues.with_terms()) is not None:
            is_whole = tensor.is_contiguous() and tensor.numel() == count
            shape = tuple(tensor.shape) if is_whole else (count,)
            return _as_tensor(terms.inputs(name, shape))
        generator = numpy.random.default_rng((self.seed, zlib.crc32(name.encode())))
        drawn = numpy.atleast_1d(residues.drawn((count,), generator))
        if self.seed % len(_ORDERS) == 0 and not self.rounds:
            small = generator.choice(_SMALL, count) * generator.choice([-1, 1], count)
            is_small = generator.random(count) < 0.5
            drawn = numpy.where(is_small, residues.of_integers(small), drawn)
        order = _ORDERS[self.seed % len(_ORDERS)]
        made: torch.Tensor = self.rounded(torch.from_numpy(drawn), tensor.dtype)
        return made if order is None else made[torch.from_numpy(order(made.numpy().real))]


_SMALL = [*range(1, 13), *(2**n - 1 for n in range(4, 16))]
"""Half of the residues of the first seed: between constants that a kernel compares with there is
rarely another residue.
"""

_ORDERS: tuple[Any, ...] = (None, numpy.argsort, lambda key: numpy.argsort(-key))
"""The order of the residues, seed by seed. In the second and third, the largest and smallest
element of each row is its first or last, which a maximum over a part of the row misses."""


LONGEST = 120.0
"""Seconds that a run may take: a loop on floats need not end with residues, or with infinity."""


@contextmanager
def ending() -> Iterator[None]:
    """While active, a run that takes too long is an UnsupportedOperation."""
    try:
        with limited(LONGEST):
            yield
    except OutOfTime as endless:
        raise UnsupportedOperation(
            f"A run did not end within {LONGEST:g} seconds: a loop may not end for some floats."
        ) from endless


class ExactLaunch:
    """A kernel's launch, whose code computes with residues.

    Args:
        prepared: the launch with floats.
        text: the module that runs, in MLIR's generic form.
        is_late, options: as for `exact_code`.

    Raises:
        UnsupportedOperation: an operation on floats that has no law.
    """

    def __init__(
        self, prepared: PreparedLaunch, text: str, *, is_late: bool = False, **options: Any
    ) -> None:
        self._prepared = prepared
        self._options = RunOptions(completion="late") if is_late else DEFAULT
        self.code = exact_code(text, prepared.kernel, is_late=is_late, **options)

    @classmethod
    def of_ttir(cls, prepared: PreparedLaunch, **options: Any) -> ExactLaunch:
        """The launch of the module that Triton's front end makes."""
        call, target = prepared.call, prepared.target
        made = triton_api.make_ttir(prepared.kernel, call.specialization, target, call.options)
        with triton_api.freed_after(made) as module:
            return cls(prepared, triton_api.generic_text(module), **options)

    @ending()
    def run(
        self,
        tensors: ExactTensors,
        observer: RunObserver | None = None,
        order: str = DEFAULT.order,
        seed: int = 0,
    ) -> dict[str, torch.Tensor]:
        """Run it; return the contents of its tensors afterwards, by the names of the arguments."""
        call = self._prepared.call
        values = {name: _exact(value, name, tensors) for name, value in call.values.items()}
        launch = replace(call, values=values)
        options = replace(self._options, order=order, seed=seed)
        launch_observed(
            self._prepared.kernel, self._prepared.grid, launch, self.code, observer, options
        )
        return dict(tensors_in(values))

    def last_store(self, tensors: ExactTensors, address: int | None = None) -> Operation | None:
        """Run it; return the operation that stores last at an address, None for any; None if none
        does.
        """
        last = None

        def hear(access: ObservedAccess) -> None:
            nonlocal last
            if global_effect(access.operation) == "load":
                return
            on = lanes_on(access.mask, access.active, len(access.shape))
            hit = numpy.True_ if address is None else numpy.asarray(access.addresses) == address
            if numpy.any(hit if on is None else hit & on):
                last = access.operation

        self.run(tensors, AccessObserver(hear))
        return last


def unchanged(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether a tensor holds the same residues."""
    if before.is_complex():
        before, after = torch.view_as_real(before), torch.view_as_real(after)
    return torch.equal(before.nan_to_num(), after.nan_to_num())


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


# torch's operations on residues: by name, functions of arrays of pairs.

Array = numpy.ndarray[Any, Any]


def _times(a: Array, factor: Any) -> Any:
    return a if factor in (1, ONE) else residues.multiply(a, factor)


def _power(a: Array, exponent: Any) -> Any:
    """Whole exponents as products, halves as roots; others without a law."""
    for number in range(1, _LARGEST_POWER + 1):
        if exponent == residues.of_integers(number):
            result = a
            for _ in range(number - 1):
                result = residues.multiply(result, a)
            return result
        if exponent == residues.of_integers(-number):
            return residues.inverse(_power(a, residues.of_integers(number)))
    if exponent == residues.of_float(0.5):
        return residues.square_root(a)
    if exponent == residues.of_float(-0.5):
        return residues.inverse(residues.square_root(a))
    return residues.function("pow", a, exponent)


_LARGEST_POWER = 16


def _sigmoid(a: Array) -> Any:
    return residues.inverse(residues.add(residues.exp(residues.negative(a)), ONE))


def _sum(a: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    return _with_dims(residues.total(a, _axes(dim, a)), a, dim, keepdim)


def _variance(a: Array, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    axes = _axes(dim, a)
    count = math.prod(a.shape[axis] for axis in axes)
    mean = residues.divide(_sum(a, dim, True), residues.of_integers(count))
    off = residues.subtract(a, mean)
    squares = _sum(residues.multiply(off, off), dim, keepdim)
    left = count - (1 if correction is None else correction)
    return residues.divide(squares, residues.of_float(float(left)))


def _extreme(a: Array, dim: Any = None, keepdim: bool = False, *, largest: bool) -> Any:
    result = a
    for axis in sorted(_axes(dim, a), reverse=True):
        result = residues.extreme(result, axis, largest=largest)
    return _with_dims(result, a, dim, keepdim)


def _axes(dim: Any, a: Array) -> tuple[int, ...]:
    if dim is None or dim == []:
        return tuple(range(a.ndim))
    given = dim if isinstance(dim, list | tuple) else (dim,)
    return tuple(int(axis) % max(a.ndim, 1) for axis in given)


def _with_dims(result: Any, a: Array, dim: Any, keepdim: bool) -> Any:
    if not keepdim:
        return result
    axes = _axes(dim, a)
    return numpy.reshape(result, [1 if i in axes else n for i, n in enumerate(a.shape)])


def _place(find: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, dim=None, keepdim=False: find(residues.order_key(a), dim, keepdims=keepdim)


_largest, _smallest = (functools.partial(_extreme, largest=each) for each in (True, False))


def _with_place(values: Callable[..., Any], find: Callable[..., Any]) -> Callable[..., Any]:
    place = _place(find)

    def both(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return values(a)
        return values(a, dim, keepdim), place(a, dim, keepdim)

    return both


def _sign(a: Array) -> Any:
    above, below = (residues.compare(name, a, ZERO) for name in ("ogt", "olt"))
    return residues.of_integers(numpy.int64(above) - numpy.int64(below))


def _largest_few(
    a: Array, k: int, dim: int = -1, largest: bool = True, *_: bool
) -> tuple[Any, Any]:
    key = residues.order_key(a)
    places = numpy.argsort(-key if largest else key, dim, kind="stable").take(range(k), dim)
    return numpy.take_along_axis(a, places, dim), places


def _clamp(a: Array, low: Any = None, high: Any = None) -> Any:
    raised = a if low is None else residues.maximum(a, low)
    return raised if high is None else residues.minimum(raised, high)


def _by_name(name: str) -> Callable[..., Any]:
    return functools.partial(residues.function, name)


COMPARISONS = ("eq", "lt", "le", "gt", "ge", "ne")

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b, alpha=1: residues.add(a, _times(b, alpha)),
    "sub": lambda a, b, alpha=1: residues.subtract(a, _times(b, alpha)),
    "mul": residues.multiply,
    "div": residues.divide,
    "true_divide": residues.divide,
    "neg": residues.negative,
    "reciprocal": residues.inverse,
    "sign": _sign,
    "topk": _largest_few,
    "sort": lambda a, dim=-1, descending=False, **_: _largest_few(a, a.shape[dim], dim, descending),
    **{name: _by_name(name) for name in ("abs", "sqrt", "rsqrt", "tanh", "fmax", "fmin")},
    **{name: _by_name(name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
    **{name: _by_name(name) for name in ("erf", "sin", "cos", "tan", "floor", "ceil", "trunc")},
    "round": _by_name("rint"),
    "atan2": _by_name("atan2"),
    "pow": _power,
    "sigmoid": _sigmoid,
    "relu": lambda a: residues.maximum(a, ZERO),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda a, high: residues.minimum(a, high),
    "maximum": residues.maximum_or_nan,
    "minimum": residues.minimum_or_nan,
    "sum": _sum,
    "var": _variance,
    "amax": _largest,
    "amin": _smallest,
    "max": _with_place(_largest, numpy.argmax),
    "min": _with_place(_smallest, numpy.argmin),
    "argmax": _place(numpy.argmax),
    "argmin": _place(numpy.argmin),
    "cumsum": lambda a, dim, **_: residues.running_total(a, dim),
    "mm": residues.matmul,
    "bmm": residues.matmul,
    "isnan": residues.is_nan,
    "isinf": numpy.isinf,
    **{
        name: functools.partial(residues.compare, f"{order}{name}")
        for name, order in zip(COMPARISONS, "ooooou")
    },
}
"""By the name of ATen's operation. Numbers among the operands come as pairs."""

_ORDERING = frozenset(
    {"relu", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "fmax", "fmin"}
)

_LOGICAL = frozenset(
    f"{kind}_{name}" for kind in ("bitwise", "logical") for name in ("and", "or", "xor", "not")
)

ALONG_AXES = frozenset(
    {"sum", "var", "amax", "amin", "argmax", "argmin", "max", "min", "cumsum", "topk", "sort"}
)
"""Functions whose numbers are axes."""

_CHOOSE = ALONG_AXES - {"sum", "var", "cumsum"} | {"any", "all"}

MOVES = frozenset(
    {
        "clone", "copy", "_to_copy", "convert_element_type", "index", "gather", "index_select",
        "cat", "where", "constant_pad_nd", "flip", "roll", "repeat", "tril", "triu", "index_put",
        "slice_scatter", "select_scatter", "scatter", "embedding", "fill", "contiguous",
        "masked_select",
    }
)  # fmt: skip
"""Operations whose results have the elements of their arguments, unchanged."""

CREATES = frozenset(
    {
        "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like",
        "new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided", "zeros", "ones",
        "full", "empty", "empty_strided", "arange", "scalar_tensor", "lift_fresh", "eye",
        "linspace",
    }
)  # fmt: skip
"""Operations whose results do not depend on the elements of their arguments."""

# A function of torch, run with residues in place of floats.


def run_exactly(
    function: Callable[[], Any], tensors: ExactTensors, conditions: Conditions
) -> list[torch.Tensor]:
    """Call a function of torch; return the residues of the tensors that it returns.

    Raises:
        UnsupportedOperation: an operation on floats that has no law, or a decision of Python on a
            float.
    """
    mode = _ExactMode(tensors, conditions)
    with numpy.errstate(all="ignore"), mode:
        results = [result.detach() for result in nested_tensors(function())]
    return [mode.exact(result) for result in results]


class _ExactMode(OperationMode):
    """Runs each operation on floats, for the shapes, and its counterpart on residues."""

    def __init__(self, tensors: ExactTensors, conditions: Conditions) -> None:
        super().__init__()
        self._tensors = tensors
        self._conditions = conditions
        self._noted: dict[int, tuple[torch.Tensor, Any, str]] = {}
        self._integers: dict[int, torch.Tensor] = {}
        self._leaves: list[numpy.ndarray] = []
        self._pieces: dict[int, tuple[torch.Tensor, list[tuple[Any, torch.Tensor]]]] = {}
        self._calls = 0

    def exact(self, tensor: torch.Tensor) -> torch.Tensor:
        """The values in place of a tensor: residues for floats."""
        if self._tensors.has(tensor):
            return self._tensors.of(tensor, "")
        if not tensor.is_floating_point():
            return tensor
        made = torch.from_numpy(numpy.atleast_1d(residues.of_floats(_numbers(tensor))))
        return self._tensors.put(tensor, made.reshape(tensor.shape))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        self._note(name, (*args, *kwargs.values()))
        if name in _CHOOSE:
            kinds = {"amin": "minimum", "min": "minimum", "amax": "maximum", "max": "maximum"}
            self._tensors.choices.add(kinds.get(name, name))
        if any(map(torch.is_complex, nested_tensors(args, kwargs))) or name == "complex":
            return self._of_complex(name, func, args, kwargs)
        is_logical = name in _LOGICAL or (name == "mul" and not any(map(_is_floating, args)))
        if is_logical and any(id(arg) in self._noted for arg in args):
            result = func(*args, **kwargs)
            return self._of_conditions(name, result, args) if result.dtype == torch.bool else result
        if name in CREATES or not any(
            map(
                self._tensors.has,
                (tensor for tensor in nested_tensors(args, kwargs) if tensor.is_floating_point()),
            )
        ):
            result = func(*args, **kwargs)  # constants, integers
            self._note_integers(name, result, args)
            known = name in FUNCTIONS or name in MOVES
            if known and self._tensors.has_unknown_integers and _is_floating(result):
                return self._result(name, func, args, kwargs)
            return result
        if changes_an_argument(func):
            return self._in_place(name, func, args, kwargs)
        if name in FUNCTIONS or name in MOVES:
            return self._result(name, func, args, kwargs)
        decomposed: Callable[..., Any] | None = _DECOMPOSITIONS.get(name) or decomposition_of(func)
        if decomposed is not None:
            with self:
                result = decomposed(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        made = list(nested_tensors(result))
        if made and all(map(self._tensors.has, made)):
            return result  # a view, of memory that residues stand for already
        raise UnsupportedOperation(
            f"torch's operation {name!r} has no exact form here.",
            advice="Write it by operations such as sums, products and exponentials.",
        )

    def _of_complex(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """An operation on complex numbers, whose residues are those of their parts."""
        result = func(*args, **kwargs)
        made = list(nested_tensors(result))
        if made and all(map(self._tensors.has, made)):
            return result  # a view
        if name not in _COMPLEX or kwargs:
            raise UnsupportedOperation(f"torch's {name!r} of complex numbers has no exact form.")
        with self:
            both = (_parts(arg, is_part=name == "complex") for arg in args)
            exact = torch.stack([part.expand(result.shape) for part in _COMPLEX[name](*both)], -1)
        self._tensors.put(torch.view_as_real(result), self.exact(exact))
        return result

    def _note(self, name: str, values: Iterable[Any]) -> None:
        """Note the tensors of integers among the arguments of an operation, and the numbers of a
        comparison.
        """
        for value in values:
            if isinstance(value, torch.Tensor) and not value.is_floating_point():
                self._tensors.integers.add(value.untyped_storage().data_ptr())
            elif isinstance(value, int | float) and name in COMPARISONS:
                self._tensors.constants.add(value)
            elif isinstance(value, list | tuple):
                self._note(name, value)

    def _result(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        self._calls += 1
        result = func(*args, **kwargs)
        exact = self._exact_result(name, func, args, kwargs)
        if isinstance(result, torch.Tensor):
            result, exact = (result,), (exact,)
        for tensor, value in zip(result, exact, strict=True):
            if tensor.is_floating_point():
                self._tensors.put(tensor, self._tensors.rounded(value, tensor.dtype))
            else:
                tensor.copy_(value)
                self._integers[id(tensor)] = tensor
        bounds = [arg for arg in (*args[1:], *kwargs.values()) if arg is not None] or [0.0]
        if name in _ORDERING and (terms := residues.with_terms()) and terms.is_at_point:
            operands = map(self._operand, (args[0], *bounds))
            self._conditions.note_order(f"{name} {self._calls}", *operands)
        if name in COMPARISONS and not any(
            (isinstance(arg, float) and not math.isfinite(arg)) or arg is args[1 - place]
            for place, arg in enumerate(args)
        ):
            self._noted_condition(result[0])
        if name == "where" and id(args[0]) in self._noted and len(args) == 3:
            self._note_pieces(result[0], *args)
        return result if len(result) > 1 else result[0]

    def _noted_condition(
        self, holds: torch.Tensor, tree: Any = None, *, of_integers: bool = False
    ) -> torch.Tensor:
        name, values = f"comparison {len(self._noted) + 1}", holds.numpy()
        around = open_places(tree, self._leaves)
        if numpy.any(around):
            self._conditions.note(name, holds=values, around=around, of_integers=of_integers)
        self._noted[id(holds)] = holds, tree, name
        return holds

    def _of_conditions(self, name: str, holds: torch.Tensor, args: Any) -> torch.Tensor:
        """Note values computed from conditions, and from masks that indices and sizes decide."""

        def tree_of(value: Any) -> Any:
            if id(value) in self._noted:
                return self._noted[id(value)][1]
            self._leaves.append(numpy.asarray(value, numpy.bool_))
            return len(self._leaves) - 1

        kind = {"mul": "and", "not": "xor"}.get(plain := name.rpartition("_")[2], plain)
        both = (*args, True) if plain == "not" else args
        return self._noted_condition(holds, (kind, *map(tree_of, both)))

    def _note_integers(self, name: str, result: Any, args: Any) -> None:
        """Note integers that are made of floats, of conditions or of memory, and comparisons of
        these.
        """
        made = [id(arg) for arg in args if id(arg) in self._integers or id(arg) in self._noted]
        read = any(isinstance(arg, torch.Tensor) and self._tensors.has(arg) for arg in args)
        if isinstance(result, torch.Tensor) and (made or read):
            if name in COMPARISONS:
                self._noted_condition(result, of_integers=read)
            elif not result.is_floating_point():
                self._integers[id(result)] = result

    def _note_pieces(self, result: torch.Tensor, condition: torch.Tensor, *arms: Any) -> None:
        """Note the conditions of `where` inside another only where these decide something."""
        pieces: list[tuple[Any, torch.Tensor]] = [(True, condition)]
        for outcome, arm in zip((True, False), arms):
            here = numpy.equal(condition.numpy(), outcome)
            inner = self._pieces.get(id(arm), (arm, []))[1]
            pieces += [(here & around, each) for around, each in inner]
        self._pieces[id(result)] = result, pieces
        for place, (around, each) in enumerate(pieces[1:]):
            key = "where", self._calls, place, self._noted[id(each)][2]
            self._conditions.note(*key, holds=each.numpy(), around=around)

    def _exact_result(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        if name in ("_to_copy", "convert_element_type"):
            dtype = kwargs.get("dtype") or (args[1] if args[1:] else torch.float32)
            if dtype.is_floating_point:
                return _converted(self.exact(args[0])).clone()
            if dtype == torch.bool:
                return _as_tensor(residues.compare("une", self._operand(args[0]), residues.ZERO))
            self._tensors.has_unknown_integers = True
            return _as_tensor(
                residues.to_integers(
                    self._operand(args[0]), torch.empty(0, dtype=dtype).numpy().dtype
                )
            )
        if name in MOVES:
            if residues.with_terms() and (kwargs.get("accumulate") or args[3:] == (True,)):
                raise UnsupportedOperation(f"torch's {name!r} adds in memory.")
            return _as_tensor(func(*self._moved(args), **self._moved(kwargs)))
        has_axes = name in ALONG_AXES
        operands = [
            value if has_axes and n else self._operand(value) for n, value in enumerate(args)
        ]
        options = {key: value for key, value in kwargs.items() if key != "dtype"}
        if not has_axes:
            options = {key: self._operand(value) for key, value in options.items()}
        result = FUNCTIONS[name](*operands, **options)
        return tuple(map(_as_tensor, result)) if isinstance(result, tuple) else _as_tensor(result)

    def _operand(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _converted(self.exact(value)).numpy()
        return _number(value) if isinstance(value, int | float) else value

    def _moved(self, value: Any) -> Any:
        """Arguments of an operation that moves elements, with residues for floats."""
        if isinstance(value, torch.Tensor):
            return self.exact(value)
        if isinstance(value, float):
            return complex(_number(value))
        if isinstance(value, list | tuple):
            return type(value)(self._moved(item) for item in value)
        if isinstance(value, dict):
            return {key: self._moved(item) for key, item in value.items()}
        return value

    def _in_place(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        target = kwargs.get("out", args[0])
        plain = name.removesuffix("_")
        rest = {key: value for key, value in kwargs.items() if key != "out"}
        exact_target = self.exact(target)
        if plain in ("copy", "fill", "zero"):
            exact = torch.as_tensor(self._operand(args[1] if args[1:] else 0.0))
        else:
            out_of_place = getattr(torch.ops.aten, plain)
            overload = getattr(out_of_place, func._overloadname, None) or out_of_place.default
            with self:
                made = overload(*args, **rest)
            exact = self.exact(made)
        exact_target.copy_(self._tensors.rounded(exact, target.dtype))
        return target


def _parts(value: Any, *, is_part: bool) -> Any:
    """The real and imaginary part of a number; of a part, itself."""
    if isinstance(value, torch.Tensor) and value.is_complex():
        return torch.view_as_real(value).unbind(-1)
    if isinstance(value, complex):
        return value.real, value.imag
    return value if is_part else (value, 0.0)


_COMPLEX: Mapping[str, Callable[..., Any]] = {
    "complex": lambda real, imaginary: (real, imaginary),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[0], a[1] - b[1]),
    "mul": lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
}
"""Both parts of a result."""


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    _: list[int],
    groups: int,
) -> Any:
    """A sum of products of windows."""
    if transposed:
        return NotImplemented
    size = weight.shape[2:]
    windows = _windows(x, size, stride, padding, dilation)
    places = windows.shape[2 : 2 + len(size)]
    columns = windows.movedim(1, 1 + len(size)).reshape(len(x), math.prod(places), groups, -1)
    rows = weight.reshape(groups, len(weight) // groups, -1)
    made = columns.transpose(1, 2) @ rows.transpose(1, 2)
    made = made.transpose(2, 3).reshape(len(x), len(weight), *places)
    return made if bias is None else made + bias.reshape(-1, *(1 for _ in size))


def _windows(
    x: torch.Tensor, size: Any, stride: Any, padding: Any, dilation: Any = (1, 1, 1)
) -> torch.Tensor:
    """The windows of the last axes; those of a window come last."""
    made = torch.constant_pad_nd(x, [n for each in reversed(padding) for n in (each, each)])
    for axis, (n, step, gap) in enumerate(zip(size, stride, dilation), x.ndim - len(size)):
        made = made.unfold(axis, gap * (n - 1) + 1, step)[..., ::gap]
    return made


def _average_pool(
    x: torch.Tensor, size: Any, stride: Any = (), padding: Any = (0, 0, 0), *others: Any
) -> Any:
    """Means of windows; with other options, torch's operation has no exact form."""
    if len(size) != len(stride or size) or others not in ((), (False,), (False, True)):
        return NotImplemented
    windows = _windows(x, size, stride or size, padding[: len(size)])
    return windows.sum([*range(-len(size), 0)]) / math.prod(size)


_DECOMPOSITIONS: Mapping[str, Callable[..., Any]] = {
    "convolution": _convolution,
    **dict.fromkeys(("avg_pool2d", "avg_pool3d"), _average_pool),
}
"""Of torch's operations that torch itself does not decompose."""


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _number(value: Any) -> Any:
    made = residues.of_float(value) if isinstance(value, float) else residues.of_integers(value)
    return numpy.asarray(made)[()]


def _converted(exact: torch.Tensor) -> torch.Tensor:
    if exact.is_complex():
        return exact
    return _as_tensor(residues.of_integers(exact.numpy()))


def _as_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    array = numpy.asarray(value)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _numbers(tensor: torch.Tensor) -> Any:
    return tensor.detach().float().numpy()
