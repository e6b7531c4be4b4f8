"""Proofs for every size: accesses in bounds, and stores of different programs apart, whatever the
sizes and the grid are.

An address is a polynomial in the sizes, the program's number, the position in the tile, and what
counts the turns of loops; a mask says that polynomials are not negative. Each symbol is a whole
number from 0 on: a size is its least value and the rest. A polynomial is not negative if it is a
sum of products of such polynomials and symbols. That is sound, and incomplete.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.common.arguments import check_mapping, is_whole
from kernellab.common.text import counted, shown
from kernellab.errors import GridError, OptionError, SourcePosition, suggestion
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import mlir, operations, tt
from kernellab.ir.flow import yielded
from kernellab.ir.types import shape
from kernellab.launch.preparation import PreparedLaunch
from kernellab.records import BoundLaunch

Monomial = tuple[str, ...]


class Polynomial(dict[Monomial, Fraction]):
    """Monomial, a sorted tuple of symbols -> its coefficient, which is not 0."""

    @classmethod
    def of(cls, value: int | str) -> Polynomial:
        """A constant, or a symbol."""
        key, factor = ((), Fraction(value)) if isinstance(value, int) else ((value,), Fraction(1))
        return cls({key: factor} if factor else {})

    def plus(self, other: Polynomial, factor: Fraction | int = 1) -> Polynomial:
        """The sum with a multiple of another."""
        total = dict(self)
        for monomial, number in other.items():
            total[monomial] = total.get(monomial, Fraction(0)) + factor * number
        return Polynomial({monomial: number for monomial, number in total.items() if number})

    def minus(self, other: Polynomial) -> Polynomial:
        return self.plus(other, -1)

    def times(self, other: Polynomial) -> Polynomial:
        total = Polynomial()
        for left, number in self.items():
            for right, factor in other.items():
                total = total.plus(Polynomial({tuple(sorted(left + right)): number * factor}))
        return total

    def replaced(self, symbols: Mapping[str, Polynomial]) -> Polynomial:
        """The polynomial with others in place of symbols."""
        total = Polynomial()
        for monomial, number in self.items():
            product = Polynomial({(): number})
            for symbol in monomial:
                product = product.times(symbols.get(symbol, Polynomial.of(symbol)))
            total = total.plus(product)
        return total

    def at(self, values: Mapping[str, int]) -> int:
        return int(
            self.replaced({name: Polynomial.of(at) for name, at in values.items()}).get((), 0)
        )

    @property
    def symbols(self) -> set[str]:
        """The symbols in it."""
        return {symbol for monomial in self for symbol in monomial}


ONE = Polynomial.of(1)
_MOST_STEPS = 400
"""The most remainders of one proof that are looked at."""

_DEEPEST = 7
"""The most facts that one proof subtracts."""


def is_never_negative(goal: Polynomial, facts: Sequence[Polynomial]) -> bool:
    """Return True only if a polynomial is at least 0 wherever the facts are.

    A monomial with a negative coefficient is removed by subtracting a multiple of a fact, with a
    factor that is at least 0; what is left must have no negative coefficient.
    """
    seen: set[frozenset[tuple[Monomial, Fraction]]] = set()

    def holds(rest: Polynomial, depth: int) -> bool:
        if not _negative(rest):
            return True
        key = frozenset(rest.items())
        if not depth or key in seen or len(seen) > _MOST_STEPS:
            return False
        seen.add(key)
        target = max(_negative(rest), key=lambda monomial: (len(monomial), monomial))
        nearer = sorted(_without(rest, target, facts), key=lambda some: len(_negative(some)))
        return any(holds(some, depth - 1) for some in nearer)

    return holds(goal, _DEEPEST)


def _negative(number: Polynomial) -> list[Monomial]:
    return [monomial for monomial, factor in number.items() if factor < 0]


def _without(
    rest: Polynomial, target: Monomial, facts: Sequence[Polynomial]
) -> Iterator[Polynomial]:
    """Yield what is left after a multiple of a fact that has a monomial is subtracted."""
    for fact in facts:
        for monomial, number in fact.items():
            factor = _quotient(target, monomial)
            if number < 0 and factor is not None:
                yield rest.minus(fact.times(Polynomial({factor: rest[target] / number})))


def _quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for symbol in divisor:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


# The sizes of a launch


Range = tuple[int, int | None]


@dataclass(frozen=True)
class Sizes:
    """The parameters that are sizes, and what else in the launch follows from them.

    Attributes:
        ranges: the least and the largest value of each; None for no end.
    """

    ranges: Mapping[str, Range]
    given: Mapping[str, int]

    @classmethod
    def of(cls, prepared: PreparedLaunch, ranges: Any) -> Sizes:
        """The sizes that a caller gives.

        Raises:
            OptionError: a name is not an integer parameter, a range is empty, or two sizes have
                the same value in the launch.
        """
        known = {
            name: value
            for name, value in prepared.call.values.items()
            if is_whole(value) and prepared.call.specialization.signature.get(name) != "constexpr"
        }
        given: dict[str, int] = {}
        check_mapping("sizes", ranges, '{"n": (1, None)}')
        for name, bounds in ranges.items():
            if name not in known:
                raise OptionError(
                    f"sizes must name integer parameters, got {shown(name)}.",
                    advice=suggestion(str(name), known, "Integer parameters:"),
                )
            if not _is_range(bounds):
                raise OptionError(
                    f"sizes[{name!r}] must be a range (smallest, largest) of non-negative "
                    f"integers, got {shown(bounds)}.",
                    advice="Write (1, None) for every size from 1 on.",
                )
            given[name] = known[name]
        pairs = itertools.combinations_with_replacement(given.values(), 2)
        values = [*given.values(), *(left * right for left, right in pairs)]
        if len({*values, 1}) != len(values) + 1:
            raise OptionError(
                f"The sizes of the launch must differ from each other and from 1, got {given}.",
                advice="Shapes and strides are matched to the sizes by their values: launch with "
                "64, 96 and 160, for example.",
            )
        return cls({name: tuple(bounds) for name, bounds in ranges.items()}, given)

    def __str__(self) -> str:
        return " and ".join(
            f"every {name} from {least}" + ("" if largest is None else f" to {largest}")
            for name, (least, largest) in self.ranges.items()
        )

    def symbol(self, name: str) -> Polynomial:
        """A size: its least value, and the rest."""
        return Polynomial.of(name).plus(Polynomial.of(self.ranges[name][0]))

    def tied(self, value: int) -> Polynomial:
        """What a number of the launch is: a size, the product of two, or itself."""
        for name, size in self.given.items():
            if value == size:
                return self.symbol(name)
        for first, second in itertools.combinations_with_replacement(self.given, 2):
            if value == self.given[first] * self.given[second]:
                return self.symbol(first).times(self.symbol(second))
        return Polynomial.of(value)

    def facts(self) -> list[Polynomial]:
        ends = [
            (name, largest) for name, (_, largest) in self.ranges.items() if largest is not None
        ]
        return [Polynomial.of(largest).minus(self.symbol(name)) for name, largest in ends]

    def smallest(self, blocks: Collection[int]) -> Iterator[dict[str, int]]:
        """Yield small sizes, the smallest first: the first few, and those around the blocks."""
        choices = []
        for least, largest in self.ranges.values():
            near = {least, least + 1, least + 2, *(b + step for b in blocks for step in (-1, 0, 1))}
            end = max(near) if largest is None else largest
            choices.append(sorted(size for size in near if least <= size <= end))
        for sizes in sorted(itertools.product(*choices), key=lambda some: (sum(some), some)):
            yield dict(zip(self.ranges, sizes))


def _is_range(bounds: Any) -> bool:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2 or not is_whole(bounds[0]):
        return False
    least, largest = bounds
    return least >= 0 and (largest is None or (is_whole(largest) and largest >= least))


# What the values of a kernel are


def parameter_name(value: BlockArgument) -> str | None:
    """The name of a kernel's parameter; None for what a device function or a block is given."""
    function = value.block.parent_op()
    is_given = isinstance(function, tt.FuncOp) and function.is_kernel
    return operations.argument_name(value) if is_given and not value.block.prev_block else None


@dataclass(frozen=True)
class Address:
    """A pointer, or a tile of them: elements from an argument's first."""

    argument: str
    offset: Polynomial


Form = Polynomial | Address | None
"""What a value is; None if it is not known."""


class Values:
    """The values of a kernel as polynomials. "@0" is the position along a tile's first axis.

    Attributes:
        about: symbol -> what is known of it, of those for quotients, remainders and turns.
    """

    def __init__(
        self, prepared: PreparedLaunch, sizes: Sizes, assumed: Mapping[SSAValue, Form] | None = None
    ) -> None:
        self.prepared = prepared
        self.sizes = sizes
        self.about: dict[str, list[Polynomial]] = {}
        self._known: dict[SSAValue, Form] = dict(assumed or {})

    def form(self, value: SSAValue) -> Form:
        if value not in self._known:
            self._known[value] = None  # of a value that is computed from itself
            if isinstance(value, OpResult):
                self._known[value] = self._computed(value.op)
            else:
                assert isinstance(value, BlockArgument)
                self._known[value] = self._argument(value)
        return self._known[value]

    def number(self, value: SSAValue) -> Polynomial | None:
        """The same, of integers."""
        form = self.form(value)
        return form if isinstance(form, Polynomial) else None

    def _argument(self, value: BlockArgument) -> Form:
        loop = value.block.parent_op()
        if isinstance(loop, mlir.ForOp):
            return self._carried(loop, value)
        name = parameter_name(value)
        if name is None:
            return None
        given: Any = self.prepared.call.values.get(name)
        if isinstance(given, torch.Tensor):
            return Address(name, Polynomial())
        if name in self.sizes.given:
            return self.sizes.symbol(name)
        return self.sizes.tied(int(given)) if is_whole(given) and given >= 0 else None

    def _carried(self, loop: mlir.ForOp, value: BlockArgument) -> Form:
        """The number of a loop's turn, or what grows by the same in each turn."""
        lower, step = self.number(loop.lower), self.number(loop.step)
        if lower is None or step is None or {*step} != {()} or step[()] < 0:
            return None
        turn = Polynomial.of(name := f"turn of {id(loop)}")
        number = lower.plus(step.times(turn))
        upper = self.number(loop.upper)
        self.about[name] = [] if upper is None else [upper.minus(number).minus(ONE)]
        if value.index == 0:
            return number
        initial = self.form(loop.initial[value.index - 1])
        if initial is None:
            return None
        again = f"before the turn of {id(loop)}"
        assumed = Polynomial.of(again)
        if isinstance(initial, Address):
            inside = Values(self.prepared, self.sizes, {value: Address(initial.argument, assumed)})
        else:
            inside = Values(self.prepared, self.sizes, {value: assumed})
        after = inside.form(yielded(loop.block)[value.index - 1])
        offset = after.offset if isinstance(after, Address) else after
        more = None if offset is None else offset.minus(assumed)
        if more is None or any(
            "turn" in symbol or symbol in inside.about for symbol in more.symbols
        ):
            return None
        grown = more.times(turn)
        if isinstance(initial, Address):
            is_same = isinstance(after, Address) and after.argument == initial.argument
            return Address(initial.argument, initial.offset.plus(grown)) if is_same else None
        return initial.plus(grown)

    def _computed(self, op: Operation) -> Form:
        match op:
            case mlir.ConstantOp():
                return None if op.integer is None else Polynomial.of(int(op.integer))
            case tt.MakeRangeOp():
                return Polynomial.of("@0").plus(Polynomial.of(int(op.start.value.data)))
            case tt.GetProgramIdOp():
                return Polynomial.of(f"program {int(op.axis.value.data)}")
            case mlir.ExtSIOp() | mlir.IndexCastOp():
                return self.form(op.operands[0])
            case tt.SplatOp() | tt.BroadcastOp() | tt.ExpandDimsOp() | tt.TransOp():
                return self._moved(self.form(op.operands[0]), axes_of(op))
            case tt.AddPtrOp():
                base, offset = self.form(op.pointer), self.number(op.offset)
                if not isinstance(base, Address) or offset is None:
                    return None
                return Address(base.argument, base.offset.plus(offset))
        if len(op.operands) != 2:
            return None
        left, right = (self.number(operand) for operand in op.operands)
        return None if left is None or right is None else self._arithmetic(op, left, right)

    def _arithmetic(self, op: Operation, left: Polynomial, right: Polynomial) -> Form:
        match op:
            case mlir.AddIOp():
                return left.plus(right)
            case mlir.SubIOp():
                return left.minus(right)
            case mlir.MulIOp():
                return left.times(right)
            case mlir.DivSIOp() | mlir.DivUIOp():
                return self._quotient(op, left, right)
            case mlir.RemSIOp() | mlir.RemUIOp():
                quotient = self._quotient(op, left, right)
                if quotient is None:
                    return None
                rest = Polynomial.of(name := f"rest of {id(op)}")
                same = left.minus(right.times(quotient)).minus(rest)
                self.about[name] = [right.minus(ONE).minus(rest), same, Polynomial().minus(same)]
                return rest
            case mlir.MinSIOp():
                if not (self._is_natural(left) and self._is_natural(right)):
                    return None
                least = Polynomial.of(name := f"least of {id(op)}")
                self.about[name] = [left.minus(least), right.minus(least)]
                return least
        return None

    def _quotient(self, op: Operation, left: Polynomial, right: Polynomial) -> Polynomial | None:
        if not (self._is_natural(left) and self._is_natural(right.minus(ONE))):
            return None
        quotient = Polynomial.of(name := f"quotient of {id(op)}")
        rest = left.minus(right.times(quotient))
        self.about[name] = [rest, right.minus(ONE).minus(rest)]
        return quotient

    def _is_natural(self, number: Polynomial) -> bool:
        return is_never_negative(number, [*self.sizes.facts(), *self.known_of([number])])

    def known_of(self, numbers: Sequence[Polynomial]) -> list[Polynomial]:
        """What is known of the symbols of some polynomials, and of the symbols in that."""
        facts: list[Polynomial] = []
        seen: set[str] = set()
        waiting = [symbol for number in numbers for symbol in number.symbols]
        while waiting:
            symbol = waiting.pop()
            if symbol not in seen:
                seen.add(symbol)
                facts += self.about.get(symbol, ())
                waiting += [other for fact in self.about.get(symbol, ()) for other in fact.symbols]
        return facts

    def _moved(self, form: Form, axes: Mapping[int, int | None]) -> Form:
        """The form of a tile whose axes became others; None for one that has a single position."""
        if isinstance(form, Address):
            return Address(form.argument, self._moved_number(form.offset, axes))
        return None if form is None else self._moved_number(form, axes)

    def _moved_number(self, number: Polynomial, axes: Mapping[int, int | None]) -> Polynomial:
        symbols: dict[str, Polynomial] = {}
        for symbol in number.symbols:
            if symbol.startswith("@"):
                axis = axes.get(int(symbol[1:]), int(symbol[1:]))
                symbols[symbol] = Polynomial() if axis is None else Polynomial.of(f"@{axis}")
            elif symbol in self.about and self._is_of_position(symbol):
                twin = f"{symbol} {sorted(axes.items(), key=str)}"
                symbols[symbol] = Polynomial.of(twin)
                if twin not in self.about:
                    self.about[twin] = []  # facts of one symbol may name it
                    self.about[twin] = [
                        self._moved_number(fact, axes) for fact in self.about[symbol]
                    ]
        return number.replaced(symbols)

    def _is_of_position(self, symbol: str) -> bool:
        facts = self.known_of([Polynomial.of(symbol)])
        return any(other.startswith("@") for fact in facts for other in fact.symbols)

    def conditions(self, value: SSAValue) -> list[Polynomial]:
        """What is at least 0 where a condition holds, as far as it is known."""
        if not isinstance(value, OpResult):
            return []
        match value.op:
            case mlir.AndIOp() as op:
                return [*self.conditions(op.operands[0]), *self.conditions(op.operands[1])]
            case tt.SplatOp() | tt.BroadcastOp() | tt.ExpandDimsOp() | tt.TransOp() as op:
                axes = axes_of(op)
                return [self._moved_number(fact, axes) for fact in self.conditions(op.operands[0])]
            case mlir.CmpIOp() as op:
                left, right = (self.number(operand) for operand in op.operands)
                if left is None or right is None:
                    return []
                predicate = mlir.INTEGER_PREDICATES[int(op.predicate.value.data)]
                less, more = right.minus(left), left.minus(right)
                return {
                    "slt": [less.minus(ONE)], "sle": [less], "sgt": [more.minus(ONE)],
                    "sge": [more], "eq": [less, more],
                }.get(predicate, [])  # fmt: skip
        return []


def axes_of(op: Operation) -> dict[int, int | None]:
    """The axis of the result for each axis of the operand; None for a single position."""
    extents = shape(op.operands[0].type)
    match op:
        case tt.ExpandDimsOp():
            new = int(op.axis.value.data)
            return {axis: axis + (axis >= new) for axis in range(len(extents))}
        case tt.TransOp():
            return {int(old): axis for axis, old in enumerate(op.order.get_values())}
        case tt.BroadcastOp():
            wide = shape(op.results[0].type)
            return {axis: None for axis, size in enumerate(extents) if size == 1 != wide[axis]}
    return {}


@dataclass(frozen=True)
class OpenAccess:
    """What is not proved of an access, or of two.

    Attributes:
        reason: what is not proved.
        ops: the access, or both stores; none where z3 cannot help.
    """

    position: SourcePosition | None
    reason: str
    ops: tuple[Operation, ...] = ()


@dataclass(frozen=True, eq=False)
class _Access:
    op: Operation
    address: Address
    facts: list[Polynomial]

    @property
    def position(self) -> SourcePosition | None:
        return _position_of(self.op)


def _line(position: SourcePosition | None) -> str:
    return "" if position is None else f", line {position.line}"


def _position_of(op: Operation) -> SourcePosition | None:
    frames = operations.locate(op.location).frames
    return SourcePosition(frames[0].file, frames[0].line) if frames else None


class Proof:
    """What is proved of a launch for every size.

    Attributes:
        proved: how many accesses are in bounds, and how many pairs of stores are apart.
        open: what is not proved.
    """

    def __init__(self, prepared: PreparedLaunch, code: ProgramCode, sizes: Sizes) -> None:
        self.proved = [0, 0]
        self.open: list[OpenAccess] = []
        self._values = Values(prepared, sizes)
        self._prepared = prepared
        self._sizes = sizes
        self._grid = _grid_of(prepared, sizes)
        self._tensors = {
            name: value
            for name, value in prepared.call.values.items()
            if isinstance(value, torch.Tensor)
        }
        self._blocks: set[int] = set()
        accesses = list(self._accesses(code))
        unknown = [each.ops[0] for each in self.open if each.ops]
        for access in accesses:
            self._prove_bounds(access)
        writing = [access for access in accesses if operations.global_effect(access.op) != "load"]
        plain = [access for access in writing if not operations.has(access.op, operations.Atomic)]
        stores = [access.op for access in writing]
        for op in unknown:
            if operations.global_effect(op) != "load":
                stores.append(op)
                apart = "stores of different programs apart"
                self.open += [OpenAccess(_position_of(op), apart, (op, each)) for each in stores]
        for first, second in itertools.combinations_with_replacement(writing, 2):
            if (first in plain or second in plain) and self._may_overlap(first, second):
                self._prove_apart(first, second)

    @property
    def blocks(self) -> set[int]:
        return self._blocks

    def words(self) -> str:
        bounds, apart = self.proved
        return (
            f"For {self._sizes}: {bounds} {'access' if bounds == 1 else 'accesses'} in bounds, "
            f"{counted(apart, 'pair')} of stores apart between programs. This is proved, "
            f"provided that {self._tied()} and that no index overflows its integer type."
        )

    def _tied(self) -> str:
        call = self._prepared.call
        types = call.specialization.signature
        numbers = {
            name: int(value)
            for name, value in call.values.items()
            if is_whole(value) and types.get(name) != "constexpr" and name not in self._sizes.given
        }
        tied = [name for name, value in numbers.items() if self._sizes.tied(value).symbols]
        return f"the shapes of the tensors{''.join(f', {name}' for name in tied)} follow the sizes"

    def open_words(self) -> list[str]:
        """What is not proved, a sentence for each line."""
        said = [
            f"Not decided for {self._sizes}{_line(each.position)}: {each.reason}."
            for each in self.open
        ]
        if not callable(self._prepared.grid) and None in self._grid:
            said.append(
                "Pass the grid as a function of the parameters, so that launches with small sizes "
                "can be tried."
            )
        return list(dict.fromkeys(said))

    def _accesses(self, code: ProgramCode) -> Iterator[_Access]:
        for op in code.module.walk():
            access = operations.trait_of(op, operations.GlobalAccess)
            if access is None:
                continue
            position = _position_of(op)
            form = self._values.form(access.indices_of(op)[-1])
            self._blocks |= set(shape(access.indices_of(op)[-1].type))
            if isinstance(access, operations.DescriptorAccess) or len(access.indices_of(op)) != 1:
                self.open.append(OpenAccess(position, "an access through a descriptor"))
            elif not isinstance(form, Address):
                reason = "an address that is not a polynomial in the sizes"
                self.open.append(OpenAccess(position, reason, (op,)))
            else:
                yield _Access(op, form, self._facts(op, access, form))

    def _facts(
        self, op: Operation, access: operations.GlobalAccess, address: Address
    ) -> list[Polynomial]:
        mask = access.mask_of(op)
        facts = [] if mask is None else self._values.conditions(mask)
        inside = op
        for parent in operations.parents(op):
            if isinstance(parent, mlir.IfOp) and inside.parent_region() is parent.then_region:
                facts = [*facts, *self._values.conditions(parent.condition)]
            inside = parent
        extents = shape(access.indices_of(op)[-1].type)
        facts += [
            Polynomial.of(size - 1).minus(Polynomial.of(f"@{axis}"))
            for axis, size in enumerate(extents)
        ]
        facts += [
            size.minus(ONE).minus(Polynomial.of(f"program {axis}"))
            for axis, size in enumerate(self._grid)
            if size is not None
        ]
        facts += self._sizes.facts()
        return [*facts, *self._values.known_of([*facts, address.offset])]

    def _prove_bounds(self, access: _Access) -> None:
        tensor, offset = self._tensors[access.address.argument], access.address.offset
        size = ONE
        for extent in tensor.shape:
            size = size.times(self._sizes.tied(int(extent)))
        last = size.minus(ONE).minus(offset)
        if not tensor.is_contiguous():
            self.open.append(OpenAccess(access.position, "a tensor that is not contiguous"))
        elif is_never_negative(offset, access.facts) and is_never_negative(last, access.facts):
            self.proved[0] += 1
        else:
            reason = f"{access.address.argument} in bounds"
            self.open.append(OpenAccess(access.position, reason, (access.op,)))

    def _may_overlap(self, first: _Access, second: _Access) -> bool:
        tensors = [self._tensors[each.address.argument] for each in (first, second)]
        return len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1

    def _prove_apart(self, first: _Access, second: _Access) -> None:
        """Prove that two programs never write the same element by two accesses.

        Two equal addresses agree in one number after the other, of programs and of positions in the
        tile: whichever of the two were larger in it, the addresses would differ.
        """
        programs = {f"program {axis}" for axis, size in enumerate(self._grid) if size != ONE}
        positions = {name for name in first.address.offset.symbols if name.startswith("@")}
        same: set[str] = set()
        is_same = first.address.argument == second.address.argument
        while is_same and not programs <= same:
            others = sorted((programs | positions) - same, reverse=True)
            agreed = next(
                (each for each in others if self._decides(first, second, same, each)), None
            )
            if agreed is None:
                break
            same |= {agreed}
        if is_same and programs <= same:
            self.proved[1] += 1
            return
        reason = f"stores of different programs to {first.address.argument} apart"
        self.open.append(OpenAccess(first.position, reason, (first.op, second.op)))

    def _decides(self, first: _Access, second: _Access, same: Collection[str], number: str) -> bool:
        """Whether equal addresses agree in a number if they do so in others."""
        is_symmetric = first is second
        return self._are_apart(first, second, same, number) and (
            is_symmetric or self._are_apart(second, first, same, number)
        )

    def _are_apart(
        self, first: _Access, second: _Access, same: Collection[str], larger: str
    ) -> bool:
        """Whether the addresses differ if the second is larger in one number, and others agree."""
        offset, sizes = second.address.offset, set(self._sizes.given)
        symbols = {each for some in (offset, *second.facts) for each in some.symbols} - sizes
        renamed = {symbol: Polynomial.of(f"{symbol}'") for symbol in symbols - {*same}}
        renamed[larger] = Polynomial.of(larger).plus(Polynomial.of("later")).plus(ONE)
        facts = [*first.facts, *(fact.replaced(renamed) for fact in second.facts)]
        apart = offset.replaced(renamed).minus(first.address.offset)
        return any(
            is_never_negative(distance.minus(ONE), facts)
            for distance in (apart, Polynomial().minus(apart))
        )


@dataclass(frozen=True)
class _Symbolic:
    """A size for a function that computes the grid; None for a number that is not known."""

    number: Polynomial | None

    def __mul__(self, other: Any) -> _Symbolic:
        factor = other.number if isinstance(other, _Symbolic) else Polynomial.of(other)
        if self.number is None or factor is None:
            return _Symbolic(None)
        return _Symbolic(self.number.times(factor))

    __rmul__ = __mul__

    def __add__(self, _: Any) -> _Symbolic:
        return _Symbolic(None)

    __radd__ = __sub__ = __rsub__ = __floordiv__ = __mod__ = __add__

    def __neg__(self) -> _Symbolic:
        return _Symbolic(None)


def grid_of(prepared: PreparedLaunch, sizes: Sizes, symbols: Mapping[str, Any]) -> list[Any]:
    """Programs along each axis: 1, a size, or a fixed dimension's; None for any number.

    Args:
        symbols: what a function that computes the grid gets for the sizes, and may return.
    """
    if callable(prepared.grid):
        try:
            made = prepared.grid({**prepared.call.values, **symbols})
        except Exception:  # the function may do anything with sizes, also what only integers can
            made = prepared.grid(dict(prepared.call.values))
        axes = made if isinstance(made, Sequence) else [made]
        kinds = {type(symbol) for symbol in symbols.values()}
        known = [axis if type(axis) in kinds else None for axis in axes]
        return [*known, *[ONE] * (3 - len(known))]
    tensors = (v for v in prepared.call.values.values() if isinstance(v, torch.Tensor))
    extents = {1, *(int(extent) for tensor in tensors for extent in tensor.shape)}
    tied = [(size, sizes.tied(size)) for size in prepared.sizes()]
    return [known if known.symbols or size in extents else None for size, known in tied]


def _grid_of(prepared: PreparedLaunch, sizes: Sizes) -> list[Polynomial | None]:
    symbols = {name: _Symbolic(sizes.symbol(name)) for name in sizes.ranges}
    axes = grid_of(prepared, sizes, symbols)
    return [axis.number if isinstance(axis, _Symbolic) else axis for axis in axes]


def launch_of_sizes(
    prepared: PreparedLaunch, sizes: Sizes, chosen: Mapping[str, int]
) -> BoundLaunch:
    """The launch with other sizes, and with zeros in its tensors. Raises GridError: the launch has
    a grid that does not say how it follows from the sizes.
    """
    if not callable(prepared.grid) and None in _grid_of(prepared, sizes):
        raise GridError(
            f"The grid {prepared.sizes()} may be another for other sizes.",
            advice="Pass the grid as a function of the parameters.",
        )
    rest = {name: size - sizes.ranges[name][0] for name, size in chosen.items()}

    def resized(value: int) -> int:
        return sizes.tied(value).at(rest)

    values: dict[str, Any] = {}
    for name, value in prepared.call.values.items():
        is_constant = prepared.call.specialization.signature.get(name) == "constexpr"
        if isinstance(value, torch.Tensor):
            extents = [resized(int(extent)) for extent in value.shape]
            values[name] = torch.zeros(extents, dtype=value.dtype)
            if not value.is_contiguous():
                strides = [resized(stride) for stride in value.stride()]
                last = sum((extent - 1) * stride for extent, stride in zip(extents, strides))
                made = torch.zeros(max(0, last) + 1, dtype=value.dtype)
                values[name] = made.as_strided(extents, strides)
        elif is_whole(value) and not is_constant:
            values[name] = chosen.get(name, resized(int(value)))
        else:
            values[name] = value
    grid = prepared.grid if callable(prepared.grid) else tuple(map(resized, prepared.sizes()))
    options = dict(prepared.own_call.options)
    return BoundLaunch(prepared.kernel, grid, (), {**values, **options}, prepared.target)
