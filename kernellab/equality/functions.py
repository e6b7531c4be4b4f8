"""What is compared, run with residues in place of floats: launches of kernels, and functions of
torch.
"""

from __future__ import annotations

import copy
import functools
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import torch
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from kernellab import triton_api
from kernellab.equality import residues
from kernellab.equality.lowering import rule_of, rule_with_rounding
from kernellab.equality.residues import ONE, ZERO
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.codegen.emitter import AfterOperation, Emitter
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import ProgramCode, program_of_module
from kernellab.interpreter.lowering.asynchrony import deferred
from kernellab.interpreter.memory.address_space import is_pointer, memory_behind
from kernellab.interpreter.memory.observers import RunObserver
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import in_region_of_elements
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
    """Which outcomes the conditions on floats had: comparisons, and what is made of these. Those of
    infinities and NaN are left out: random residues have none.

    Attributes:
        operations: those of a kernel, which the numbers of its conditions mean.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._seen: dict[tuple[Any, ...], bool] = {}

    def never(self) -> Iterator[tuple[Any, bool]]:
        """The conditions that never had an outcome, and the outcomes."""
        return ((key[-2], key[-1]) for key, seen in self._seen.items() if not seen)

    def add(self, others: Conditions) -> None:
        """Add what other runs of the same computation have seen."""
        for key, seen in others._seen.items():
            self._seen[key] = seen or self._seen.get(key, False)

    def note(self, *key: Any, holds: Any, around: Any = True) -> None:
        """Note both outcomes of a condition.

        Args:
            around: where it decides something.
        """
        for outcome in (True, False):
            seen = self._seen.get((*key, outcome), False)
            here = numpy.equal(holds, outcome) & around
            self._seen[*key, outcome] = seen or bool(numpy.any(here))

    def watched(self, module: ModuleOp) -> AfterOperation:
        """What notes the conditions of a module as they are computed; the inner one of two `where`
        only where it decides something.
        """
        self.operations, known = list(module.walk()), dict[Any, int]()
        for number, op in enumerate(self.operations):
            if isinstance(op, mlir.CmpFOp):
                is_known = op.lhs is not op.rhs and not any(map(_is_infinite, op.operands))
            else:
                logical = isinstance(op, mlir.AndIOp | mlir.OrIOp | mlir.XOrIOp)
                is_known = logical and all(each.owner in known for each in op.operands)
            if is_known:
                known[op] = number

        def inner(op: mlir.SelectOp) -> Iterator[tuple[tuple[SSAValue, bool], ...]]:
            """For each `where` in an arm: the conditions and outcomes around it, and its own."""
            for outcome, arm in ((True, op.true_value), (False, op.false_value)):
                each = arm.owner
                if isinstance(each, mlir.SelectOp) and each.condition.owner in known:
                    yield (op.condition, outcome), (each.condition, True)
                    yield from (((op.condition, outcome), *path) for path in inner(each))

        def note(emit: Emitter, op: Operation) -> None:
            paths: list[Any] = []
            if isinstance(op, EXTREMES) and residues.with_terms() and not in_region_of_elements(op):
                compared = functools.partial(self.note_order, self.operations.index(op))
                values = (emit[value] for value in op.operands)
                emit.evaluate(None, emit.constant(compared, hint="note")(*values))
            if op in known:
                paths = [((op.results[0], True),)]
            elif isinstance(op, mlir.SelectOp) and op.condition.owner in known:
                paths = [path for path in inner(op) if len({emit.rank(v) for v, _ in path}) == 1]
            for path in () if in_region_of_elements(op) else paths:
                numbers = tuple(known[value.owner] for value, _ in path)
                key = (numbers[:-1], tuple(outcome for _, outcome in path), numbers[-1])
                noted = emit.constant(functools.partial(self._note_path, key), hint="note")
                emit.evaluate(None, noted(*(emit[value] for value, _ in path)))

        return note

    def note_order(self, place: Any, value: Any, *others: Any) -> None:
        """Note where a value is above and below each of others, if a random point says so."""
        if not residues.with_terms().is_at_point:
            return
        for number, other in enumerate(others):
            for name in ("ogt", "olt"):
                self.note(number, name, place, holds=residues.compare(name, value, other))

    def _note_path(self, key: Any, *holds: Any) -> None:
        around = (numpy.equal(each, outcome) for each, outcome in zip(holds[:-1], key[1]))
        self.note(*key, holds=holds[-1], around=functools.reduce(numpy.logical_and, around, True))


EXTREMES = mlir.MaxNumFOp | mlir.MinNumFOp | mlir.MaximumFOp | mlir.MinimumFOp | tt.ClampFOp
"""Operations that choose one of their operands by their order."""


def _is_infinite(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, tt.SplatOp):
        op = op.operands[0].owner
    match op.value if isinstance(op, mlir.ConstantOp) else None:
        case builtin.FloatAttr() as number:
            return math.isinf(number.value.data)
        case builtin.DenseIntOrFPElementsAttr() as numbers if _is_float(numbers.get_element_type()):
            kept = numpy.frombuffer(numbers.data.data, dtype(numbers.get_element_type()))
            return bool(numpy.isinf(kept).all())
    return False


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
        conditions: what notes the outcomes of its conditions.

    Raises:
        UnsupportedOperation: an operation on floats that has no law and moves no elements; it names
            the kernel's line.
    """
    module = read_module(text)
    _replace_floats(module)
    rules = rule_with_rounding if rounds else rule_of
    after = None if conditions is None else conditions.watched(module)
    return program_of_module(module, kernel, after, rules=deferred(rules) if is_late else rules)


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

    Attributes:
        seed: which residues are drawn.
        rounds: whether tensors of formats narrower than float32 hold rounded residues.
        given: whether they hold what the tensors do.
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
        """These, after something stands for each of the tensors."""
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
        """Whether something stands for the memory of a tensor."""
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


def _rising(key: numpy.ndarray) -> numpy.ndarray:
    return numpy.argsort(key)


def _falling(key: numpy.ndarray) -> numpy.ndarray:
    return numpy.argsort(-key)


_SMALL = [*range(1, 13), *(2**n - 1 for n in range(4, 16))]
"""Half of the residues of the first seed: between constants that a kernel compares with there is
rarely another residue.
"""

_ORDERS = (None, _rising, _falling)
"""The order of the residues, seed by seed. In the second and third, the largest and smallest
element of each row is its first or last, which a maximum over a part of the row misses."""


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

    def run(
        self,
        tensors: ExactTensors,
        observer: RunObserver | None = None,
        order: str = DEFAULT.order,
        seed: int = 0,
    ) -> dict[str, torch.Tensor]:
        """Run it; return what its tensors hold afterwards, by the names of the arguments."""
        call = self._prepared.call
        values = {name: _exact(value, name, tensors) for name, value in call.values.items()}
        launch = replace(call, values=values)
        options = replace(self._options, order=order, seed=seed)
        launch_observed(
            self._prepared.kernel, self._prepared.grid, launch, self.code, observer, options
        )
        return dict(tensors_in(values))


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


def _add(a: Array, b: Array, *, alpha: Any = 1) -> Any:
    return residues.add(a, _times(b, alpha))


def _subtract(a: Array, b: Array, *, alpha: Any = 1) -> Any:
    return residues.subtract(a, _times(b, alpha))


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


def _largest(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
    return _extreme(a, dim, keepdim, largest=True)


def _smallest(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
    return _extreme(a, dim, keepdim, largest=False)


def _extreme(a: Array, dim: Any, keepdim: bool, *, largest: bool) -> Any:
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
    def place(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
        return find(residues.order_key(a), dim, keepdims=keepdim)

    return place


def _with_place(largest: bool) -> Callable[..., Any]:
    values, place = (
        (_largest, _place(numpy.argmax)) if largest else (_smallest, _place(numpy.argmin))
    )

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


def _comparison(predicate: str) -> Callable[..., Any]:
    return lambda a, b: residues.compare(predicate, a, b)


def _by_name(name: str) -> Callable[..., Any]:
    return lambda *operands: residues.function(name, *operands)


COMPARISONS = ("eq", "lt", "le", "gt", "ge", "ne")

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": _add,
    "sub": _subtract,
    "mul": residues.multiply,
    "div": residues.divide,
    "true_divide": residues.divide,
    "neg": residues.negative,
    "reciprocal": residues.inverse,
    "abs": residues.absolute,
    "sign": _sign,
    "topk": _largest_few,
    "sqrt": residues.square_root,
    "tanh": residues.tanh,
    "exp": residues.exp,
    "exp2": residues.exp2,
    "log": residues.log,
    "log2": residues.log2,
    **{name: _by_name(name) for name in ("expm1", "log10", "log1p", "rsqrt")},
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
    "fmax": residues.maximum,
    "fmin": residues.minimum,
    "sum": _sum,
    "var": _variance,
    "amax": _largest,
    "amin": _smallest,
    "max": _with_place(True),
    "min": _with_place(False),
    "argmax": _place(numpy.argmax),
    "argmin": _place(numpy.argmin),
    "cumsum": lambda a, dim, **_: residues.running_total(a, dim),
    "mm": residues.matmul,
    "bmm": residues.matmul,
    "isnan": residues.is_nan,
    "isinf": numpy.isinf,
    **{name: _comparison(f"{order}{name}") for name, order in zip(COMPARISONS, "ooooou")},
}
"""By the name of ATen's operation. Numbers among the operands come as pairs."""

_ORDERING = frozenset(
    {"relu", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "fmax", "fmin"}
)

_LOGICAL = frozenset(
    f"{kind}_{name}" for kind in ("bitwise", "logical") for name in ("and", "or", "xor", "not")
)

ALONG_AXES = frozenset(
    {"sum", "var", "amax", "amin", "argmax", "argmin", "max", "min", "cumsum", "topk"}
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
    """Call a function of torch; return what stands for the tensors that it returns.

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
        self._noted: dict[int, tuple[torch.Tensor, str]] = {}
        self._pieces: dict[int, tuple[torch.Tensor, list[tuple[Any, torch.Tensor]]]] = {}
        self._calls = 0

    def exact(self, tensor: torch.Tensor) -> torch.Tensor:
        """What stands for a tensor: residues for floats."""
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
            self._tensors.choices.add("minimum" if "min" in name else "maximum")
        if name in _LOGICAL and all(id(arg) in self._noted for arg in args):
            return self._noted_condition(func(*args, **kwargs))
        if name in CREATES or not any(
            map(
                self._tensors.has,
                (tensor for tensor in nested_tensors(args, kwargs) if tensor.is_floating_point()),
            )
        ):
            result = func(*args, **kwargs)  # constants
            known = name in FUNCTIONS or name in MOVES
            if known and self._tensors.has_unknown_integers and _is_floating(result):
                return self._result(name, func, args, kwargs)
            return result
        if changes_an_argument(func):
            return self._in_place(name, func, args, kwargs)
        if name in FUNCTIONS or name in MOVES:
            return self._result(name, func, args, kwargs)
        decomposed = decomposition_of(func)
        if decomposed is not None:
            with self:
                result = decomposed(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if all(self._tensors.has(tensor) for tensor in nested_tensors(result)):
            return result  # a view, of memory that residues stand for already
        raise UnsupportedOperation(
            f"torch's operation {name!r} has no exact form here.",
            advice="Write it by operations such as sums, products and exponentials.",
        )

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

    def _noted_condition(self, holds: torch.Tensor) -> torch.Tensor:
        name = f"comparison {len(self._noted) + 1}"
        self._conditions.note(name, holds=holds.numpy())
        self._noted[id(holds)] = holds, name
        return holds

    def _note_pieces(self, result: torch.Tensor, condition: torch.Tensor, *arms: Any) -> None:
        """Note the conditions of `where` inside another only where these decide something."""
        pieces: list[tuple[Any, torch.Tensor]] = [(True, condition)]
        for outcome, arm in zip((True, False), arms):
            here = numpy.equal(condition.numpy(), outcome)
            inner = self._pieces.get(id(arm), (arm, []))[1]
            pieces += [(here & around, each) for around, each in inner]
        self._pieces[id(result)] = result, pieces
        for place, (around, each) in enumerate(pieces[1:]):
            key = "where", self._calls, place, self._noted[id(each)][1]
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
        given = args[1:2] if plain in ("copy", "fill") else args
        if plain == "zero":
            given = (0.0,)
        elif plain not in FUNCTIONS and plain not in MOVES:
            raise UnsupportedOperation(f"torch's operation {name!r} has no exact form here.")
        exact_target = self.exact(target)
        if plain in ("copy", "fill", "zero"):
            value = self._operand(given[0])
            exact = torch.as_tensor(value)
        else:
            out_of_place = getattr(torch.ops.aten, plain)
            overload = getattr(out_of_place, func._overloadname, out_of_place.default)
            exact = self._exact_result(plain, overload, given, rest)
        exact_target.copy_(self._tensors.rounded(exact, target.dtype))
        return target


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _number(value: Any) -> Any:
    made = residues.of_float(value) if isinstance(value, float) else residues.of_integers(value)
    return numpy.asarray(made)[()]


def _converted(exact: torch.Tensor) -> torch.Tensor:
    """Integers as residues."""
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
