"""Advice that keeps an access inside its tensor, in the words of the kernel: which
coordinate leaves which axis, and what bounds it or should.
"""

from __future__ import annotations

import math
import operator
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.binding import BoundCall
from kernellab.errors import source_line
from kernellab.interpreter.codegen import indices
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.ir import flow, mlir, operations, tt
from kernellab.ir.types import element_type

# The value of one element of one program, while its code is stopped.


_COMPUTED: Mapping[type, Callable[[int, int], int]] = {
    mlir.AddIOp: operator.add, mlir.SubIOp: operator.sub, mlir.MulIOp: operator.mul,
    mlir.AndIOp: operator.and_, mlir.OrIOp: operator.or_, mlir.XOrIOp: operator.xor,
    mlir.MinSIOp: min, mlir.MaxSIOp: max,
}  # fmt: skip
_DEEPEST = 60


@dataclass(frozen=True)
class LaneValues:
    """Integers of one program, by value and lane.

    Attributes:
        frame: of the generated code, at the position where it stopped.
        program: position of the program in the batch.
    """

    frame: types.FrameType
    program: int
    code: ProgramCode
    call: BoundCall

    def at(self, value: SSAValue, lane: indices.Lane, depth: int = 0) -> int | None:
        """The value, of the code, an argument or a constant, or computed of such; else None."""
        part = indices.IndexPart("", value, lane, None)
        value_read = part.read(self.code.variables, self.frame.f_locals, self.program)
        if value_read is None and isinstance(value, BlockArgument) and part.is_argument:
            value_read = self.call.values.get(value.name_hint or "")
        if value_read is None and isinstance(value, OpResult) and depth < _DEEPEST:
            value_read = self._computed(value, lane, depth)
        return int(value_read) if isinstance(value_read, int) else None

    def _computed(self, value: OpResult, lane: indices.Lane, depth: int) -> int | None:
        op = value.op
        if isinstance(op, mlir.ConstantOp):
            return op.integer
        if not (type(op) in _COMPUTED or _keeps_the_number(op)):
            return None
        lanes = [(operand, indices.lane_of(op, operand, lane)) for operand in op.operands]
        known = [None if at is None else self.at(operand, at, depth + 1) for operand, at in lanes]
        numbers = [number for number in known if number is not None]
        if len(numbers) < len(known):
            return None
        return _COMPUTED[type(op)](*numbers) if type(op) in _COMPUTED else numbers[0]


def _keeps_the_number(op: Operation) -> bool:
    is_cast = isinstance(op, mlir.ExtSIOp | mlir.ExtUIOp | mlir.TruncIOp | mlir.IndexCastOp)
    return is_cast or operations.has(op, operations.KeepsElements)


# Integer arithmetic that wraps on the way to an address.


CHECK_TRIES = "Run kernellab.check to look for a change that helps."
"""Advice for a change that would have to be tried."""

_SIGNS: Mapping[type, str] = {mlir.AddIOp: "+", mlir.SubIOp: "-", mlir.MulIOp: "*"}


def overflow_of(op: Operation, lane: indices.Lane, values: LaneValues) -> str:
    """Return which arithmetic on the way to an address wraps, as a sentence; "" if none is found.

    Args:
        op: the access, at a lane that is on and outside.
    """
    access = operations.trait_of(op, operations.PointerAccess)
    if access is None:
        return ""
    waiting: list[tuple[SSAValue, indices.Lane]] = [(access.indices_of(op)[0], lane)]
    seen: set[SSAValue] = set()
    while waiting:
        value, at = waiting.pop()
        owner = value.owner
        if value in seen or not isinstance(owner, Operation) or owner.regions:
            continue
        seen.add(value)
        lanes = [indices.lane_of(owner, operand, at) for operand in owner.operands]
        if words := _wrapped(owner, lanes, values):
            return words
        waiting += [(o, there) for o, there in zip(owner.operands, lanes) if there is not None]
    return ""


def _wrapped(op: Operation, lanes: Sequence[indices.Lane | None], values: LaneValues) -> str:
    kind = type(op)
    element = element_type(op.results[0].type) if kind in _SIGNS else None
    if not isinstance(element, builtin.IntegerType):
        return ""
    numbers = [
        None if lane is None else values.at(operand, lane)
        for operand, lane in zip(op.operands, lanes)
    ]
    left, right = numbers
    if left is None or right is None:
        return ""
    exact, bits = _COMPUTED[kind](left, right), element.width.data
    half = 1 << (bits - 1)
    if -half <= exact < half:
        return ""
    wrapped = (exact + half) % (2 * half) - half
    return (
        f"{left:,} {_SIGNS[kind]} {right:,} = {exact:,} does not fit in int{bits}; it wraps to "
        f"{wrapped:,}. Pointers take int64 offsets. {CHECK_TRIES}"
    )


# The coordinates of an access, the axes that they go along, and the advice.


@dataclass(frozen=True)
class Extents:
    """A tensor's, as an access sees it.

    Attributes:
        name: the parameter.
        shape, strides: in elements.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, buffer: Buffer) -> Extents:
        """Those of the tensor that an argument is."""
        tensor = buffer.tensor
        return cls(buffer.name, tuple(tensor.shape), tuple(tensor.stride()))


@dataclass(frozen=True)
class _Axis:
    """An axis of the tensor, or several that are in memory as one."""

    numbers: tuple[int, ...]
    """Which ones."""
    is_whole: bool
    """True if all of the tensor's are one."""
    extent: int
    stride: int


@dataclass(frozen=True)
class _Comparison:
    """A part of the mask that holds at the lane."""

    left: SSAValue
    right: SSAValue
    predicate: str
    text: str
    numbers: tuple[int, int]


@dataclass(frozen=True)
class BoundsAdvice:
    """The value that leaves a tensor, and the condition that would bound it.

    Attributes:
        facts: which coordinate leaves which axis, and what bounds it.
        condition: what would keep it inside, in the kernel's words, to be added to the mask; "" if
            there is none.
        has_mask: whether the access has a mask.
        bound: the comparison of the mask that includes one element too many; "" if it does not.
    """

    facts: str
    condition: str = ""
    has_mask: bool = False
    bound: str = ""

    @property
    def strict(self) -> str:
        """`bound` without that element."""
        return self.bound.replace("<=", "<").replace(">=", ">")

    @property
    def missing(self) -> str:
        """The condition that the access does not require, as a sentence; "" if it is not known."""
        if not self.condition:
            return ""
        mask = "Its mask does not require" if self.has_mask else "No mask requires"
        return f"{mask} `{self.condition}`."

    @property
    def change(self) -> str:
        """The change to try, as a sentence; "" if it is not known."""
        if self.bound:
            return f"Write `{self.strict}`."
        if not self.condition:
            return ""
        return (
            f"Add `& ({self.condition})` to its mask."
            if self.has_mask
            else f"Add `mask={self.condition}`."
        )


def bounds_advice(
    op: Operation, lane: indices.Lane, values: LaneValues, tensor: Extents, index: int
) -> BoundsAdvice | None:
    """The value that leaves the tensor, and the bound; None if the index is computed in a way that
    is not followed.

    Args:
        op: the access, at a lane that is on and outside.
        index: counted from the tensor's first element.
    """
    access = operations.trait_of(op, operations.PointerAccess)
    if access is None or access.has_offsets or _is_expanded(tensor):
        return None
    try:
        terms = indices.terms_of(access.indices_of(op)[0], lane, tensor.strides, values.at)
    except indices.NoTerms:
        return None
    sums = _sums(terms, values)
    if sums is None or sum(sums.values()) != index:
        return None
    axes = _axes(tensor, set(sums))
    for axis in axes:
        place = sums.get(axis.stride, 0) // axis.stride
        if not 0 <= place < axis.extent:
            mask = access.mask_of(op)
            missing = sorted(each.stride for each in axes if each.stride not in sums)
            if missing and len([term for term in terms if term.factor == axis.stride]) > 1:
                strides = " or ".join(map(str, missing))
                return BoundsAdvice(
                    f"Its strides are {tensor.strides}, and nothing in the index is multiplied by "
                    f"{strides}. Pass .stride(), and multiply each coordinate by its own."
                )
            held = () if mask is None else tuple(_comparisons(mask, lane, values))
            return _Words(terms, axis, place, tensor, values, lane, op, held).advice(mask)
    return None


def _is_expanded(tensor: Extents) -> bool:
    """Whether elements of an axis are one in memory: no coordinate of theirs is in an index."""
    return any(extent > 1 and not stride for extent, stride in zip(tensor.shape, tensor.strides))


def _sums(terms: Sequence[indices.Term], values: LaneValues) -> dict[int, int] | None:
    """How far the terms of each factor go, in elements; None if one is not known."""
    sums: dict[int, int] = {}
    for term in terms:
        coordinate = term.number or values.at(term.coordinate, term.lane)
        if coordinate is None:
            return None
        reach = coordinate * term.factor * term.count
        sums[term.factor] = sums.get(term.factor, 0) + reach
    return sums


def _axes(tensor: Extents, factors: set[int]) -> list[_Axis]:
    """The axes that coordinates run along, the outermost first: one that has none is a part of
    the next, if its elements follow each other there.
    """
    numbers = [n for n, extent in enumerate(tensor.shape) if extent > 1]
    numbers.sort(key=lambda n: -tensor.strides[n])
    axes: list[_Axis] = []
    together: tuple[int, ...] = ()
    whole = 1
    for position, number in enumerate(numbers):
        extent, stride = tensor.shape[number] * whole, tensor.strides[number]
        inner = numbers[position + 1] if position + 1 < len(numbers) else None
        together = (*together, number)
        follows = inner is not None and stride == tensor.shape[inner] * tensor.strides[inner]
        if follows and stride not in factors:
            whole = extent
            continue
        is_all = not axes and inner is None
        axes.append(_Axis(tuple(sorted(together)), is_all, extent, stride))
        together, whole = (), 1
    return axes or [_Axis((), True, 1, 1)]


@dataclass(frozen=True)
class _Words:
    """Of one coordinate that leaves its axis."""

    all_terms: Sequence[indices.Term]
    axis: _Axis
    place: int
    tensor: Extents
    values: LaneValues
    lane: indices.Lane
    access: Operation
    held: Sequence[_Comparison]
    """Those of the mask."""

    @property
    def terms(self) -> list[indices.Term]:
        return [term for term in self.all_terms if term.factor == self.axis.stride]

    def advice(self, mask: SSAValue | None) -> BoundsAdvice | None:
        text = self._coordinate(spread=False)
        if text is None:
            return None
        leaves = f"{self._extent()}, but the index `{text}` is {self.place:,}."
        advice = self._fix()
        return replace(advice, facts=f"{leaves} {advice.facts}", has_mask=mask is not None)

    def _extent(self) -> str:
        plural = "" if self.axis.extent == 1 else "s"
        elements = f"{self.tensor.name} has {self.axis.extent:,} element{plural}"
        if self.axis.is_whole:
            return elements
        axes = " and ".join(map(str, self.axis.numbers))
        plural = "is" if len(self.axis.numbers) == 1 else "es"
        return f"{elements} along ax{plural} {axes} (shape {self.tensor.shape})"

    def _fix(self) -> BoundsAdvice:
        if (bound := self._bound()) is not None:
            return self._of_bound(bound)
        if (program := self._program()) is not None and self.place >= self.axis.extent:
            return BoundsAdvice(
                f"Of the programs along axis {program} of the grid, only the first "
                f"{self.axis.extent:,} have an element."
            )
        coordinate = self._coordinate(spread=len(self.lane) > 1) or ""
        if self.place < 0:
            return BoundsAdvice("Nothing keeps this index at 0 or above.", f"{coordinate} >= 0")
        sizes = self._size_names()
        if not sizes:
            return BoundsAdvice(
                "Nothing limits this index, and no parameter of the kernel has the value "
                f"{self.axis.extent}: add one, such as {self._new_name()} = {self.axis.extent}.",
                f"{coordinate} < {self._new_name()}",
            )
        others = " and ".join(sizes[1:])
        either = f" ({others} {'are' if len(sizes) > 2 else 'is'} as large.)" if others else ""
        return BoundsAdvice(f"Nothing limits this index.{either}", f"{coordinate} < {sizes[0]}")

    # What the coordinate is

    def _coordinate(self, spread: bool) -> str | None:
        texts = []
        for term in self.terms:
            text = self._term(term)
            if text is None or re.search(rf"\b{re.escape(self.tensor.name)}\b", text):
                return None  # The text may be that of the whole pointer.
            if spread and term.axes and (marks := self._spread(term)):
                text = f"{text if text.isidentifier() else f'({text})'}{marks}"
            texts.append(text)
        return " + ".join(texts).replace("+ -", "- ")

    def _spread(self, term: indices.Term) -> str:
        """Return "[:, None]" for a coordinate along one axis of a tile; "" for one along all."""
        if len(term.axes) == len(self.lane):
            return ""
        marks = (":" if n in term.axes else "None" for n in range(len(self.lane)))
        return f"[{', '.join(marks)}]"

    def _variable_in_mask(self, term: indices.Term) -> str | None:
        """Return the variable that the mask compares with a size: of two equal `tl.arange`, the
        compiler keeps one, with the name of neither.
        """
        pattern = rf"(\w+){re.escape(self._spread(term))} <=? "
        for held in self.held:
            if indices.bare(held.left) is term.coordinate:
                if match := re.match(pattern, held.text):
                    return match[1]
        return None

    def _term(self, term: indices.Term) -> str | None:
        if term.turns is None:
            return self._variable_in_mask(term) or self._value(term.coordinate)
        loop = term.turns.block.parent_op()
        assert loop is not None
        assert term.step is not None
        number = term.number or self.values.at(term.coordinate, term.lane)
        text = self._value(term.coordinate, term.step)
        if term.number:
            text = self._constant(term.number, term.step)
        turn = indices.own_variable(term.turns)
        if text is None or turn is None:
            return None
        first, by = (self.values.at(loop.operands[n], ()) for n in (0, 2))
        if first == 0 and by == number:
            return turn
        return (
            f"{turn} * {text}" if (first, by) == (0, 1) else f"({turn} - {first}) // {by} * {text}"
        )

    def _value(self, value: SSAValue, user: Operation | None = None) -> str | None:
        owner = value.owner
        if isinstance(owner, mlir.ConstantOp):
            number = owner.integer
            return None if number is None else self._constant(number, user)
        if isinstance(owner, tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp | mlir.ExtSIOp):
            return indices.own_variable(value) or self._value(owner.operands[0], user)
        if isinstance(owner, tt.MakeRangeOp) and indices.own_variable(value) is None:
            ends = (owner.start.value.data, owner.end.value.data)
            return f"tl.arange({', '.join(self._constant(end, owner) for end in ends)})"
        name = indices.own_variable(value)
        if name is None and isinstance(owner, mlir.SubIOp) and _is_zero(owner.operands[0]):
            # x_ptr - offsets adds what is negative; in the source the pointer is there too.
            text = self._value(owner.operands[1], owner)
            return text and (f"-{text}" if _is_atom(text) else f"-({text})")
        name = name or indices.described(value)
        return name or indices.expression_of(value) or self._composed(value)

    def _composed(self, value: SSAValue) -> str | None:
        owner = value.owner
        sign = _SIGNS.get(type(owner))
        if sign is None or not isinstance(owner, Operation):
            return None
        sides = [self._value(operand, owner) for operand in owner.operands]
        if any(side is None for side in sides):
            return None
        left, right = (
            side if _is_atom(side or "") or sign == "+" else f"({side})" for side in sides
        )
        return f"{left} {sign} {right}"

    def _constant(self, number: int, user: Operation | None) -> str:
        """A number by the name that it has on the line of what is computed with it."""
        frames = operations.locate(user.location).frames if user is not None else ()
        words = re.findall(r"\w+", source_line(frames[0].file, frames[0].line)) if frames else []
        named = (name for name in self._constexprs() if name in words)
        values = self.values.call.values
        return next((name for name in named if values[name] == number), str(number))

    def _constexprs(self) -> list[str]:
        signature = self.values.call.specialization.signature
        return [name for name, type in signature.items() if type == "constexpr"]

    def _program(self) -> int | None:
        """The axis of the grid whose program number the coordinate is."""
        match [term.coordinate.owner for term in self.terms]:
            case [tt.GetProgramIdOp() as op]:
                return int(op.axis.value.data)
        return None

    # What bounds it

    def _size_names(self) -> list[str]:
        """Parameters that are as large as the axis; those of the launch before constants."""
        text = set(re.findall(r"\w+", self._coordinate(spread=False) or ""))
        constants = self._constexprs()
        fits = [
            name
            for name, value in _numbers(self.values.call.values)
            if value == self.axis.extent
            if not (name in constants and name in text)
        ]
        if not fits and len(self.axis.numbers) > 1:
            return self._product()
        strides = {
            operations.argument_name(term.by) for term in self.all_terms if term.by is not None
        }
        sizes = [fit for fit in fits if fit not in constants] or fits
        return [size for size in sizes if size not in strides] or sizes

    def _product(self) -> list[str]:
        """Of parameters of the launch, each as large as one of several axes that are as one."""
        constants = self._constexprs()
        given = list(_numbers(self.values.call.values))
        named = {value: name for name, value in reversed(given) if name not in constants}
        names = [named.get(self.tensor.shape[number]) for number in self.axis.numbers]
        return [] if None in names else [" * ".join(map(str, names))]

    def _new_name(self) -> str:
        places = operations.locate(self.access.location).frames[-1:]
        taken = {
            *self.values.call.values,
            *(name for at in places for name in indices.names_around(at)),
        }
        names = ["n", "size", f"{self.tensor.name}_size"]
        return next((name for name in names if name not in taken), "extent")

    def _bound(self) -> _Comparison | None:
        own = {term.coordinate for term in self.terms}
        starts = tuple(f"{self._term(term)}{self._spread(term)} " for term in self.terms)
        for comparison in sorted(self.held, key=lambda held: not held.text.startswith(starts)):
            smaller, larger = comparison.left, comparison.right
            if comparison.predicate[1] == "g":
                smaller, larger = larger, smaller
            if own & _inside(larger if self.place < 0 else smaller):
                return comparison
        return None

    def _of_bound(self, bound: _Comparison) -> BoundsAdvice:
        left, right = bound.numbers
        if left != self.place:
            text = self._coordinate(spread=False)
            return BoundsAdvice(
                f"Its mask requires `{bound.text}` ({left:,} and {right:,}), which does not limit "
                f"`{text}`.",
                self._inside_text(),
            )
        rule = f"Its mask only requires `{bound.text}` ({left:,} and {right:,})"
        if bound.predicate[2:] == "e" and left == right == self.axis.extent:
            facts = f"{rule}, which allows the first element beyond the end."
            return BoundsAdvice(facts, bound=bound.text)
        if right == math.prod(self.tensor.shape) > self.axis.extent:
            return BoundsAdvice(
                f"{rule}, which counts the elements of a contiguous tensor: {self.tensor.name} has "
                f"strides {self.tensor.strides}. Pass a contiguous tensor, or use its strides."
            )
        size = indices.bare(bound.right)
        name = indices.own_variable(size) if isinstance(size, BlockArgument) else None
        if name in self.values.call.values:
            return BoundsAdvice(f"{rule}: {name} must not be more than {self.axis.extent:,}.")
        return BoundsAdvice(f"{rule}, which allows this index.")

    def _inside_text(self) -> str:
        """Return what holds where the coordinate is inside its axis, on the side where it leaves;
        "" if the kernel has no name for the size.
        """
        coordinate = self._coordinate(spread=len(self.lane) > 1) or ""
        if self.place < 0:
            return f"{coordinate} >= 0"
        sizes = self._size_names()
        return f"{coordinate} < {sizes[0]}" if sizes else ""


def _numbers(arguments: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The integers that a launch gives, by what the kernel calls them: "n", "sizes[1]"."""
    for name, value in arguments.items():
        if isinstance(value, tuple):
            yield from _numbers({f"{name}[{place}]": item for place, item in enumerate(value)})
        elif type(value) is int:
            yield name, value


def _is_zero(value: SSAValue) -> bool:
    return isinstance(value.owner, mlir.ConstantOp) and value.owner.integer == 0


def _is_atom(text: str) -> bool:
    return bool(re.fullmatch(r"[\w.]+(\([^()]*\))?", text))


def _comparisons(mask: SSAValue, lane: indices.Lane, values: LaneValues) -> Iterator[_Comparison]:
    """Those that must all hold where the mask is on, as far as their numbers are known."""
    owner = mask.owner
    if isinstance(owner, mlir.AndIOp):
        for operand in owner.operands:
            yield from _comparisons(operand, lane, values)
    elif isinstance(owner, Operation) and operations.has(owner, operations.KeepsElements):
        source = owner.operands[0]
        if (where := indices.lane_of(owner, source, lane)) is not None:
            yield from _comparisons(source, where, values)
    elif isinstance(owner, mlir.CmpIOp):
        left, right = (
            values.at(operand, indices.lane_of(owner, operand, lane) or lane)
            for operand in owner.operands
        )
        text = indices.expression_of(mask)
        if left is not None and right is not None and text is not None:
            predicate = mlir.INTEGER_PREDICATES[owner.predicate.value.data]
            yield _Comparison(owner.operands[0], owner.operands[1], predicate, text, (left, right))


def _inside(value: SSAValue) -> set[SSAValue]:
    def step(value: SSAValue) -> Sequence[SSAValue]:
        if isinstance(value, OpResult) and operations.has(
            value.op, operations.Elementwise, operations.KeepsElements
        ):
            return value.op.operands
        return ()

    return set(flow.reached([value], step))
