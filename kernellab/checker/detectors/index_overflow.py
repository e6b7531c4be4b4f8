"""Integer arithmetic on the way to an address that does not fit its type.

The checked run only looks whether any of it wraps. Where some does, the launch runs once more, and beside each index goes its distance from the exact one, computed in int64: an access whose lane is on, and whose address or mask is then not what it should be, is what makes a finding. Arithmetic that wraps and harms nobody makes none: a hash, lanes that are off, a sum that leaves int32 and comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from xdsl.ir import Operation

from kernellab.checker.detector import Detector
from kernellab.checker.naming import name_of
from kernellab.checker.scene import Computed, Scene
from kernellab.checker.shadows import Array, Shadow, Shadows, lifted, moved, moves
from kernellab.checker.slices import ACCESSES, makes_addresses, placing, sources
from kernellab.interpreter import memory
from kernellab.interpreter.affine import AffineTile
from kernellab.ir import arith, tt
from kernellab.ir.locations import locate
from kernellab.ir.types import dtype, is_pointer, shape

if TYPE_CHECKING:
    from kernellab.checker.examination import Examination

Exact = Callable[[Array, Array], Array]
"""What an operation computes, on int64."""


def _quotient(a: Array, b: Array) -> Array:
    """C's, toward zero; by zero, 0."""
    divisor = numpy.where(b == 0, 1, b)
    quotient = numpy.abs(a) // numpy.abs(divisor) * numpy.sign(a) * numpy.sign(divisor)
    return numpy.where(b == 0, 0, quotient)


_WRAPPING: dict[type[Operation], tuple[Exact, str]] = {
    arith.AddIOp: (numpy.add, "+"),
    arith.SubIOp: (numpy.subtract, "-"),
    arith.MulIOp: (numpy.multiply, "*"),
    arith.ShLIOp: (lambda a, b: a << numpy.clip(b, 0, 62), "<<"),
}
"""What may wrap, and how Python writes it."""

_FOLLOWED: dict[type[Operation], Exact] = {
    **{kind: exact for kind, (exact, _) in _WRAPPING.items()},
    arith.DivSIOp: _quotient,
    arith.RemSIOp: lambda a, b: a - _quotient(a, b) * b,
    arith.MaxSIOp: numpy.maximum,
    arith.MinSIOp: numpy.minimum,
}
"""What carries an inexact operand on. Bits and unsigned numbers do not: who takes those of a product wants it modulo 2**32."""

_CASTS = (arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp)

_COMPARISONS: dict[str, numpy.ufunc] = {
    "eq": numpy.equal, "ne": numpy.not_equal,
    "lt": numpy.less, "le": numpy.less_equal, "gt": numpy.greater, "ge": numpy.greater_equal,
}  # fmt: skip

_LOGIC: dict[type[Operation], Exact] = {
    arith.AndIOp: numpy.bitwise_and,
    arith.OrIOp: numpy.bitwise_or,
    arith.XOrIOp: numpy.bitwise_xor,
}

_LARGE = 4096
"""Tiles of so many elements are first looked at by their extremes."""


def _may_wrap(op: Operation) -> bool:
    """True for integer arithmetic of fewer than 64 bits."""
    if type(op) in _WRAPPING:
        kind = dtype(op.results[0].type)
        return kind.kind == "i" and kind.itemsize < 8
    return _cuts(op)


def _cuts(op: Operation) -> bool:
    """True for int64 cut to int32; what is cut further is taken for bits."""
    return (
        isinstance(op, arith.TruncIOp)
        and dtype(op.operand.type).itemsize == 8
        and dtype(op.result.type).itemsize == 4
    )


# The first look


class IndexOverflow(Detector):
    """Notices that some arithmetic on the way to an address wraps."""

    kinds = ("index-overflow",)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._wraps = False
        self._astray: frozenset[Operation] = frozenset()

    @classmethod
    def hears(cls, operation: Operation) -> bool:
        """Integer arithmetic on the way to an address or a mask."""
        return _may_wrap(operation) and makes_addresses(operation)

    def computed(self, computed: Computed) -> None:
        """Look whether it wrapped."""
        if not self._wraps:
            self._wraps = _wrapped(computed)

    def ask(self, examination: Examination) -> None:
        """Run it with exact indices, where something wrapped."""
        if self._wraps:
            (closer,), _ = examination.listen((ExactIndices,))
            self.sightings, self._astray = closer.sightings, closer.explains()

    def explains(self) -> frozenset[Operation]:
        """Whatever is wrong with accesses that went astray."""
        return self._astray


def _wrapped(computed: Computed) -> bool:
    """Whether a result is not what the operation should give."""
    result = computed.results[0]
    if isinstance(result, AffineTile):
        return False  # an affine tile never wraps: see affine._fitting
    op = computed.operation
    if isinstance(op, arith.TruncIOp):
        return not numpy.array_equal(result, computed.operands[0])
    exact, _ = _WRAPPING[type(op)]
    if numpy.size(result) >= _LARGE and _fits(op, exact, computed.operands):
        return False
    a, b = (numpy.asarray(operand, numpy.int64) for operand in computed.operands)
    return bool(numpy.any(exact(a, b) != result))


def _fits(op: Operation, exact: Exact, operands: Sequence[Any]) -> bool:
    """True where the extremes of the operands already say that nothing wraps."""
    (a_low, a_high), (b_low, b_high) = (_extremes(operand) for operand in operands)
    corners = exact(
        numpy.array([a_low, a_low, a_high, a_high]), numpy.array([b_low, b_high, b_low, b_high])
    )
    limits = numpy.iinfo(dtype(op.results[0].type))
    return bool(corners.min() >= limits.min and corners.max() <= limits.max)


def _extremes(value: Any) -> tuple[int, int]:
    if isinstance(value, AffineTile):
        return value.low, value.high
    array = numpy.asarray(value)
    return int(array.min()), int(array.max())


# The second look


@dataclass
class _Wrap:
    """Where an operation wrapped first, and in which programs it did.

    Attributes:
        facts: of the finding, but for what the access says.
        programs: linear ids.
        count: elements.
    """

    facts: dict[str, Any]
    programs: set[int]
    count: int


class ExactIndices(Detector):
    """Follows how far each index is from the exact one, and tells of accesses that this puts elsewhere."""

    kinds: ClassVar[tuple[str, ...]] = ("index-overflow",)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._distances = _Distances()
        self._harmed: dict[Operation, str] = {}

    @classmethod
    def hears(cls, operation: Operation) -> bool:
        """Whatever takes part in an address, where values are handed on, and the accesses themselves."""
        return (
            isinstance(operation, ACCESSES)
            or operation.name.startswith(("scf.", "cf.", "tt.return", "kernellab."))
            or (makes_addresses(operation) and not isinstance(operation, arith.ConstantOp))
        )

    def computed(self, computed: Computed) -> None:
        """Follow it; of an access, see whether it goes where it should."""
        if isinstance(computed.operation, ACCESSES):
            self._look(computed)
        else:
            self._distances.follow(computed)

    def _look(self, computed: Computed) -> None:
        op = computed.operation
        pointer, *rest = placing(op)
        away = self._distances[pointer]
        mask = rest[0] if rest else None
        wrong_mask = None if mask is None else self._distances[mask]
        if away is None and wrong_mask is None:
            return
        rank = len(shape(pointer.type))
        on = None if mask is None else computed.operands[list(op.operands).index(mask)]
        lanes = memory.lanes_on(on, computed.active, rank)
        here = numpy.zeros((1,) * (rank + 1), numpy.bool_)
        if away is not None:
            here = here | (away != 0 if lanes is None else (away != 0) & lifted(lanes, rank))
        if wrong_mask is not None:
            active = True if computed.active is None else computed.active.reshape((-1,) + (1,) * rank)  # fmt: skip
            here = here | ((wrong_mask != 0) & active)
        if here.any():
            self._harmed.setdefault(op, _effect(op, away is not None))

    def explains(self) -> frozenset[Operation]:
        """Whatever is wrong with accesses that went astray."""
        return frozenset(self._harmed)

    def end(self) -> None:
        """Tell each operation that wrapped on the way to an access that went astray."""
        for access, effect in self._harmed.items():
            behind = sources(access)
            for op, wrap in self._distances.wraps.items():
                if op.results[0] in behind:
                    facts = {**wrap.facts, "message": f"{wrap.facts['message']}{effect}"}
                    self.sightings.add(op, facts, sorted(wrap.programs), wrap.count)


def _effect(access: Operation, moves_away: bool) -> str:
    """What the access does: "the load on line 12 goes to another element"."""
    what = "load"
    if isinstance(access, tt.StoreOp | tt.AtomicStoreOp):
        what = "store"
    elif isinstance(access, tt.AtomicRMWOp | tt.AtomicCASOp):
        what = "atomic"
    frames = locate(access.location).frames
    where = f" on line {frames[0].line}" if frames else ""
    if moves_away:
        return f"; the {what}{where} goes to another element than it should"
    return f"; the mask of the {what}{where} is wrong"


class _Distances(Shadows):
    """How far each integer, offset and truth value is from the exact one: exact minus actual.

    Attributes:
        wraps: the operations that wrapped, in the order in which they first did.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wraps: dict[Operation, _Wrap] = {}

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        """As `Shadows.computed`."""
        op = computed.operation
        if moves(op):
            return moved(computed, operands)
        if len(op.results) != 1:
            return [None] * len(op.results)
        return [self._of_one(computed, operands)]

    def _of_one(self, computed: Computed, operands: Sequence[Shadow]) -> Shadow:
        op = computed.operation
        inexact = any(shadow is not None for shadow in operands)
        exact = self._exact(computed, operands) if inexact or _may_wrap(op) else None
        if exact is None:
            return None
        rank = len(shape(op.results[0].type))
        distance: Array = exact - _integers(computed.results[0], rank)
        if isinstance(op, arith.ExtUIOp):
            distance = _unsigned_distance(op, computed, distance, rank)
        if not distance.any():
            return None
        if _may_wrap(op):
            self._note(computed, operands, exact, distance)
        return distance

    def _exact(self, computed: Computed, operands: Sequence[Shadow]) -> Array | None:
        """What the operation gives for exact operands, in int64; None for one that nothing is carried through."""
        op = computed.operation
        values = [
            _integers(value, len(shape(source.type))) + (0 if shadow is None else shadow)
            for value, source, shadow in zip(computed.operands, op.operands, operands)
            if is_pointer(source.type) or dtype(source.type).kind in "ib"
        ]
        if isinstance(op, _CASTS) and dtype(op.operands[0].type).kind == "i":
            is_index = dtype(op.results[0].type).itemsize >= 4
            return values[0] if is_index else None
        if len(values) != 2:
            return None
        if isinstance(op, tt.AddPtrOp):
            return _of_pointer(computed, operands)
        if isinstance(op, arith.CmpIOp):
            predicate = arith.INTEGER_PREDICATES[op.predicate.value.data]  # type: ignore[attr-defined]
            holds: Array = _COMPARISONS[predicate[-2:]](*values)
            return holds.astype(numpy.int64)
        if type(op) in _LOGIC and dtype(op.results[0].type).kind == "b":
            return _LOGIC[type(op)](*values)
        follow = _FOLLOWED.get(type(op))
        return None if follow is None or dtype(op.results[0].type).kind != "i" else follow(*values)

    def _note(
        self, computed: Computed, operands: Sequence[Shadow], exact: Array, distance: Array
    ) -> None:
        """Lanes whose operands are exact and whose result is not: here it begins."""
        fresh = distance != 0
        for shadow in operands:
            if shadow is not None:
                fresh = fresh & (shadow == 0)
        rank = len(shape(computed.operation.results[0].type))
        if computed.active is not None:
            fresh = fresh & computed.active.reshape((-1,) + (1,) * rank)
        if not fresh.any():
            return
        op = computed.operation
        if op not in self.wraps:
            self.wraps[op] = _Wrap(_facts(computed, exact, fresh), set(), 0)
        wrap = self.wraps[op]
        each = len(fresh) > 1
        ids = computed.linear_ids(fresh.reshape(len(fresh), -1).any(axis=1) if each else None)
        wrap.programs.update(ids.tolist())
        wrap.count += int(fresh.sum()) * (1 if each else max(len(ids), 1))


def _integers(value: Any, rank: int) -> Array:
    return lifted(value, rank).astype(numpy.int64)


def _of_pointer(computed: Computed, operands: Sequence[Shadow]) -> Array:
    """The result, moved by what its operands are away from exact ones."""
    rank = len(shape(computed.operation.results[0].type))
    exact = _integers(computed.results[0], rank)
    for source, shadow in zip(computed.operation.operands, operands):
        if shadow is not None:
            missing = rank - len(shape(source.type))
            exact = exact + shadow.reshape(shadow.shape + (1,) * missing)
    return exact


def _unsigned_distance(op: arith.ExtUIOp, computed: Computed, distance: Array, rank: int) -> Array:
    """None of its own for an operand that is read as unsigned: 3e9 is not -1294967296 then."""
    bits = 8 * dtype(op.operand.type).itemsize
    lanes = _integers(computed.operands[0], rank)
    as_signed = numpy.where(lanes < 0, 1 << bits, 0)
    return numpy.where(distance == -as_signed, 0, distance)


# Words


def _facts(computed: Computed, exact: Array, fresh: Array) -> dict[str, Any]:
    """The finding, told of the first lane that wrapped."""
    op = computed.operation
    rank = len(shape(op.results[0].type))
    first = tuple(int(i) for i in numpy.argwhere(fresh)[0])
    values = [
        int(_at(_integers(v, len(shape(s.type))), first, rank))
        for v, s in zip(computed.operands, op.operands)
    ]
    wrapped = int(_at(_integers(computed.results[0], rank), first, rank))
    kind = dtype(op.results[0].type).name
    right = int(_at(exact, first, rank))
    places = computed.calls()
    return {
        "kind": "index-overflow",
        "position": places[-1] if places else None,
        "calls": places[:-1],
        "lane": first[1:],
        "values": {},
        "message": f"{_formula(op, values)}{right:,} does not fit {kind}; it wraps to {wrapped:,}",
        "advice": _advice(op),
    }


def _at(array: Array, place: tuple[int, ...], rank: int) -> Any:
    """The element of a tile, or of a scalar beside one, at a place whose first number is the program's."""
    place = place[: array.ndim] if array.ndim <= rank else place
    return array[tuple(min(i, extent - 1) for i, extent in zip(place, array.shape))]


def _formula(op: Operation, values: Sequence[int]) -> str:
    """ "pid * stride = 3 * 1,000,000,000 = "."""
    if isinstance(op, arith.TruncIOp):
        name = name_of(op.operand, op)
        return "" if name is None else f"{name} = "
    sign = f" {_WRAPPING[type(op)][1]} "
    numbers = [f"{value:,}" if value >= 0 else f"({value:,})" for value in values]
    names = [name_of(operand, op) for operand in op.operands]
    with_numbers = f"{sign.join(numbers)} = "
    if all(name is None for name in names):
        return with_numbers
    return f"{sign.join(name or number for name, number in zip(names, numbers))} = {with_numbers}"


def _advice(op: Operation) -> str:
    if isinstance(op, arith.TruncIOp):
        return "Leave the index in int64: pointers take int64 offsets."
    for operand in op.operands:
        name = name_of(operand, op)
        if name is not None:
            return f"Compute it in int64: cast before the arithmetic, {_cast(name)}."
    return "Compute it in int64: cast one operand to tl.int64 before the arithmetic."


def _cast(name: str) -> str:
    return f"{name}.to(tl.int64)"
