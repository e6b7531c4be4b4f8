"""Proofs for every size: accesses in bounds, and stores of different programs apart, whatever the
sizes and the grid are.

An address is a polynomial in the sizes, the program's number, the position in the tile, and symbols
for the rest: turns of loops, quotients, the result of a choice, what a load returns.
What is known about a symbol, and what a mask says, are conditions on polynomials. A prover decides
whether they imply another: `Prover` by intervals, and z3 in `solver`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from kernellab.common.arguments import check_mapping, is_whole
from kernellab.common.text import counted, shown
from kernellab.errors import GridError, OptionError, SourcePosition, suggestion
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import mlir, operations, tt
from kernellab.ir.flow import yielded
from kernellab.ir.types import element_type, shape
from kernellab.launch.preparation import PreparedLaunch
from kernellab.records import BoundLaunch

Monomial = tuple[str, ...]


class Polynomial(dict[Monomial, Fraction | int]):
    """Monomial, a sorted tuple of symbols -> its coefficient, which is not 0.

    Each symbol is an integer from 0 on: a size is its least value and the rest.
    """

    @classmethod
    def of(cls, value: Polynomial | Fraction | int | str) -> Polynomial:
        """A constant, or a symbol."""
        if isinstance(value, Polynomial):
            return value
        return cls({(value,): 1} if isinstance(value, str) else {(): value} if value else {})

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __add__(self, other: Polynomial | int) -> Polynomial:
        return _sum([*self.items(), *Polynomial.of(other).items()])

    def __neg__(self) -> Polynomial:
        return Polynomial({monomial: -number for monomial, number in self.items()})

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + -Polynomial.of(other)

    def __mul__(self, other: Polynomial | Fraction | int) -> Polynomial:
        return _sum(
            (tuple(sorted(left + right)) if left and right else left or right, number * factor)
            for left, number in self.items()
            for right, factor in Polynomial.of(other).items()
        )

    def __rsub__(self, other: int) -> Polynomial:
        return -self + other

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, divisor: int) -> Polynomial:
        """A symbol for the quotient, as a function that computes a grid asks for it."""
        if not is_whole(divisor) or divisor <= 0:
            raise TypeError(divisor)
        return Polynomial.of(_Quotient(self, divisor))

    def replaced(self, symbols: Mapping[str, Polynomial]) -> Polynomial:
        """The polynomial with others in place of symbols."""
        if not any(symbol in symbols for monomial in self for symbol in monomial):
            return self
        total = Polynomial()
        for monomial, number in self.items():
            product = Polynomial({(): number})
            for symbol in monomial:
                product *= symbols.get(symbol, Polynomial.of(symbol))
            total += product
        return total

    def at(self, values: Mapping[str, int]) -> int:
        return int(
            self.replaced({name: Polynomial.of(at) for name, at in values.items()}).get((), 0)
        )

    @property
    def symbols(self) -> set[str]:
        """The symbols in it."""
        return {symbol for monomial in self for symbol in monomial}


class _Quotient(str):
    """The symbol of a quotient, rounded down."""

    def __new__(cls, number: Polynomial, divisor: int) -> _Quotient:
        made = super().__new__(cls, f"{number} // {divisor}")
        made.number, made.divisor = number, divisor
        return made

    number: Polynomial
    divisor: int


def _sum(terms: Iterable[tuple[Monomial, Fraction | int]]) -> Polynomial:
    total: dict[Monomial, Fraction | int] = {}
    for monomial, number in terms:
        total[monomial] = total.get(monomial, 0) + number
    return Polynomial({monomial: number for monomial, number in total.items() if number})


ONE = Polynomial.of(1)


@dataclass(frozen=True)
class _Parts:
    parts: tuple[Condition, ...] = ()

    def replaced(self, symbols: Mapping[str, Polynomial]) -> Condition:
        return type(self)(tuple(part.replaced(symbols) for part in self.parts))

    @property
    def symbols(self) -> set[str]:
        return {symbol for part in self.parts for symbol in part.symbols}


class All(_Parts):
    """All of some conditions hold."""


class Some(_Parts):
    """At least one of some conditions holds."""


Condition = Polynomial | _Parts
"""A polynomial that is at least 0, or several conditions."""


def negated(condition: Condition) -> Condition:
    match condition:
        case Polynomial():
            return -condition - 1
        case All(parts):
            return Some(tuple(map(negated, parts)))
    return All(tuple(map(negated, condition.parts)))


def equal(left: Polynomial, right: Polynomial | int = 0) -> Condition:
    return All((left - right, -(left - right)))


def either(condition: Condition, first: Condition, second: Condition) -> Condition:
    """The first where a condition holds, and otherwise the second."""
    return Some((All((condition, first)), All((negated(condition), second))))


_MOST_STEPS = 400
"""The most remainders of one proof that are looked at."""

_DEEPEST = 7
"""The most facts that one proof subtracts."""


def is_never_negative(goal: Polynomial, facts: Sequence[Polynomial]) -> bool:
    """Return True only if a polynomial is at least 0 wherever the facts are.

    A monomial with a negative coefficient is removed by subtracting a multiple of a fact, with a
    factor that is at least 0; what is left must have no negative coefficient.
    """
    seen: set[Polynomial] = set()

    def holds(rest: Polynomial, depth: int) -> bool:
        if not _negative(rest):
            return True
        if not depth or rest in seen or len(seen) > _MOST_STEPS:
            return False
        seen.add(rest)
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
                yield rest * -number + fact * Polynomial({factor: rest[target]})


def _quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for symbol in divisor:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


class Prover:
    """Decides whether conditions imply another, by those that are polynomials.

    Attributes:
        knows_logic: whether it uses all conditions. For such a prover, a sum that is a factor gets
            a symbol, in which two programs may agree.
    """

    knows_logic = False

    def holds(self, goal: Polynomial, facts: Iterable[Condition], *, hard: bool = False) -> bool:
        """Return True only if a polynomial is at least 0 wherever the facts hold."""
        return is_never_negative(goal, list(_plain(facts)))

    def is_never_zero(
        self, number: Polynomial, facts: Iterable[Condition], *, hard: bool = False
    ) -> bool:
        """Return True only if a polynomial is not 0 wherever the facts hold."""
        plain = list(_plain(facts))
        return any(is_never_negative(each - 1, plain) for each in (number, -number))


def _plain(facts: Iterable[Condition]) -> Iterator[Polynomial]:
    for fact in facts:
        if isinstance(fact, Polynomial):
            yield fact
        elif isinstance(fact, All):
            yield from _plain(fact.parts)


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
        if not ranges:
            raise OptionError(
                "sizes must name at least one parameter, got {}.",
                advice='Write sizes={"n": (1, None)}, for example.',
            )
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
        return Polynomial.of(name) + self.ranges[name][0]

    def tied(self, value: int) -> Polynomial:
        """A number of the launch as a size, the product of two sizes, or itself."""
        for name, size in self.given.items():
            if value == size:
                return self.symbol(name)
        for first, second in itertools.combinations_with_replacement(self.given, 2):
            if value == self.given[first] * self.given[second]:
                return self.symbol(first) * self.symbol(second)
        return Polynomial.of(value)

    def fixed_shapes(self, prepared: PreparedLaunch) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors that do not follow from the sizes or from other parameters."""
        values = prepared.call.values
        known = {1, *(int(value) for value in values.values() if is_whole(value))}
        return {
            name: tuple(value.shape)
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
            and not all(each in known or self.tied(each).symbols for each in value.shape)
        }

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
    """The name of a kernel's parameter; None for arguments of device functions and blocks."""
    function = value.block.parent_op()
    is_given = isinstance(function, tt.FuncOp) and function.is_kernel
    return operations.argument_name(value) if is_given and not value.block.prev_block else None


Index = tuple[Polynomial, ...]
"""A position in a tile, a number for each axis."""


@dataclass(frozen=True)
class Address:
    """A pointer: elements from an argument's first."""

    argument: str
    offset: Polynomial


@dataclass(frozen=True)
class Access:
    """An access at the position "@0", "@1", ... of its tile; `facts` hold where it takes part."""

    argument: str
    offset: Polynomial
    facts: list[Condition]

    @property
    def symbols(self) -> set[str]:
        return self.offset.symbols.union(*(fact.symbols for fact in self.facts))


class Values:
    """The values of a kernel, at positions of tiles.

    What may be negative and is not a polynomial is the difference of two symbols, "x" and "x-".

    Attributes:
        about: symbol -> what is known about it.
        shared: the symbols that are the same in all programs.
        grid: programs along each axis.
        programs: the program's number along each axis.
    """

    def __init__(self, prepared: PreparedLaunch, sizes: Sizes, prover: Prover) -> None:
        self._prepared = prepared
        self._sizes = sizes
        self._prover = prover
        self._known: dict[Any, Any] = {}
        self._made_of: dict[str, tuple[SSAValue | Operation | Condition, ...]] = {}
        self.about: dict[str, list[Condition]] = {
            name: [] if end is None else [-sizes.symbol(name) + end]
            for name, (_, end) in sizes.ranges.items()
        }
        self.grid = [
            self._symbol("programs") + 1 if size is None else size for size in self._grid()
        ]
        self.shared = set(self.about)
        self.programs = [
            Polynomial() if size == ONE else Polynomial.of(f"program {axis}")
            for axis, size in enumerate(self.grid)
        ]
        for size, program in zip(self.grid, self.programs):
            self.about |= {symbol: [size - 1 - program] for symbol in program.symbols}

    def _grid(self) -> list[Polynomial | None]:
        """Programs along each axis; None for any number."""
        grid = self._prepared.grid
        if not callable(grid):
            return _fixed_grid(self._prepared, self._sizes)
        given = self._prepared.call.values
        symbols = {name: self._sizes.symbol(name) for name in self._sizes.ranges}
        try:
            made = grid({**given, **symbols})
        except Exception:  # the function may do anything with sizes, also what only integers can
            made = grid(dict(given))
        axes = made if isinstance(made, Sequence) else [made]
        known = [self._defined(axis) if isinstance(axis, Polynomial) else None for axis in axes]
        return [*known, *[ONE] * (3 - len(known))]

    def _defined(self, size: Polynomial) -> Polynomial:
        """A size of the grid, with symbols of which something is known for quotients."""
        quotients = [symbol for symbol in size.symbols if isinstance(symbol, _Quotient)]
        return size.replaced(
            {each: self._floor(self._defined(each.number), each.divisor) for each in quotients}
        )

    def access(self, op: Operation) -> Access | None:
        """An access; None for one that is not by pointers into an argument."""
        access = operations.trait_of(op, operations.GlobalAccess)
        assert access is not None
        pointer, mask = access.indices_of(op)[-1], access.mask_of(op)
        extents = shape(pointer.type)
        index = tuple(Polynomial.of(f"@{axis}") for axis in range(len(extents)))
        facts = [*self._reach(op), *_inside(index, extents)]
        if mask is not None:
            facts.append(self.at(mask, index if shape(mask.type) else ()))
        address = self.at(pointer, index)
        if not isinstance(address, Address):
            return None
        facts += self.known_of([address.offset, *facts, *self.programs])
        return Access(address.argument, address.offset, facts)

    def known_of(self, conditions: Iterable[Condition]) -> list[Condition]:
        """The facts about the symbols of some conditions, and about the symbols in those facts."""
        facts: list[Condition] = []
        seen: set[str] = set()
        waiting = [symbol for each in conditions for symbol in sorted(each.symbols)]
        while waiting:
            symbol = waiting.pop()
            if symbol not in seen:
                seen.add(symbol)
                facts += self.about.get(symbol, ())
                waiting += [s for fact in self.about.get(symbol, ()) for s in sorted(fact.symbols)]
        return facts

    def _symbol(
        self, kind: str, *of: SSAValue | Operation | Condition, natural: bool = True
    ) -> Polynomial:
        """A new integer; `of` are the values with which it changes from one iteration of a loop to
        the next, and `natural` says whether it is known to be at least 0.
        """
        name = f"{kind} {len(self.about)}"
        number = Polynomial.of(name)
        for each in [name] if natural else [name, f"{name}-"]:
            self.about[each] = []
            self._made_of[each] = of
        return number if natural else number - Polynomial.of(f"{name}-")

    def _changes(self, loop: Operation, part: Any) -> bool:
        """Whether a number, a value or an operation differs between the turns of a loop."""
        if isinstance(part, SSAValue):
            part = part.owner.parent_op() if isinstance(part.owner, Block) else part.owner
        if isinstance(part, Operation):
            return part is loop or loop in operations.parents(part)
        symbols = part.symbols if isinstance(part, Condition) else ()
        made_of = itertools.chain(*(self._made_of.get(symbol, ()) for symbol in symbols))
        return any(self._changes(loop, each) for each in made_of)

    def _add(self, symbol: Polynomial, *facts: Condition) -> Polynomial:
        self.about[min(symbol.symbols)] += facts
        return symbol

    def _floor(self, number: Polynomial, divisor: int) -> Polynomial:
        """The quotient by a positive integer, rounded down."""
        is_natural = self._is_natural(number)
        if not is_natural and self._is_natural(-number):  # as in -(-n // 16)
            return -self._floor(-number + (divisor - 1), divisor)
        key = (number, divisor)
        if key not in self._known:
            quotient = self._symbol("quotient", number, natural=is_natural)
            rest = number - quotient * divisor
            self._known[key] = self._add(quotient, rest, -rest + (divisor - 1))
        return Polynomial.of(self._known[key])

    def _is_natural(self, number: Polynomial, facts: Sequence[Condition] = ()) -> bool:
        return self._prover.holds(number, [*facts, *self.known_of([number, *facts])])

    def at(self, value: SSAValue, index: Index = ()) -> Any:
        """A value at a position: a polynomial, a condition, or an address."""
        key = (value, index)
        if key not in self._known:
            self._known[key] = None  # of a value that is made from itself
            self._known[key] = self._made(value, index)
        if self._known[key] is None:
            is_condition = _is_condition(value)
            number = self._symbol("unknown", value, natural=is_condition)
            self._known[key] = number - 1 if is_condition else number
        return self._known[key]

    def _made(self, value: SSAValue, index: Index) -> Any:
        if isinstance(value, OpResult):
            return self._computed(value, index)
        assert isinstance(value, BlockArgument)
        loop = value.block.parent_op()
        if isinstance(loop, mlir.ForOp):
            number = self._turn(loop) * self.at(loop.step) + self.at(loop.lower)
            return self._grown(loop, value, index) if value.index else number
        if isinstance(loop, mlir.WhileOp):
            if value.block is loop.after.block:
                return self.at(yielded(loop.before.block)[value.index + 1], index)
            return self._grown(loop, value, index)
        name = parameter_name(value)
        given: Any = self._prepared.call.values.get(str(name))
        if isinstance(given, torch.Tensor):
            return Address(str(name), Polynomial())
        if name is not None and name in self._sizes.given:
            return self._sizes.symbol(name)
        return self._sizes.tied(int(given)) if is_whole(given) else None

    def _turn(self, loop: Operation) -> Polynomial:
        """How many turns of a loop are over."""
        if (loop, ()) not in self._known:
            self._known[loop, ()] = turn = self._symbol("turn", loop)
            if isinstance(loop, mlir.ForOp):
                step = self.at(loop.step)
                number = self.at(loop.lower) + step * turn
                self._add(turn, self.at(loop.upper) - number - 1, step - 1)
        return Polynomial.of(self._known[loop, ()])

    def _grown(self, loop: mlir.ForOp | mlir.WhileOp, value: BlockArgument, index: Index) -> Any:
        """What grows by the same in each turn; None if it does not."""
        if isinstance(loop, mlir.ForOp):
            place, block = value.index - 1, loop.block
        else:
            place, block = value.index, loop.after.block
        turn, first = self._turn(loop), self.at(loop.initial[place], index)
        before = self._symbol("before", loop, natural=False)
        known = dict(self._known)  # of a turn that begins with `before`
        is_address = isinstance(first, Address)
        self._known[value, index] = Address(first.argument, before) if is_address else before
        after = self.at(yielded(block)[place], index)
        self._known = known | {
            key: made
            for key, made in self._known.items()
            if not any(self._changes(loop, part) for part in key)
        }
        if _is_condition(value) or isinstance(after, Address) != is_address:
            return None
        more = (after.offset if is_address else after) - before
        if self._changes(loop, more):
            return None
        if not is_address:
            return first + more * turn
        is_same = after.argument == first.argument
        return Address(first.argument, first.offset + more * turn) if is_same else None

    def _computed(self, value: OpResult, index: Index) -> Any:
        op = value.op
        match op:
            case mlir.ConstantOp() if op.integer is not None:
                is_true = All() if op.integer else Some()
                return is_true if _is_condition(value) else Polynomial.of(int(op.integer))
            case tt.MakeRangeOp():
                return index[0] + int(op.start.value.data)
            case tt.GetProgramIdOp():
                return self.programs[int(op.axis.value.data)]
            case tt.GetNumProgramsOp():
                return self.grid[int(op.axis.value.data)]
            case tt.SplatOp() | tt.BroadcastOp() | tt.ExpandDimsOp() | tt.TransOp():
                return self.at(op.operands[0], _moved(op, index))
            case tt.AddPtrOp():
                base, offset = self.at(op.pointer, index), self.at(op.offset, index)
                is_address = isinstance(base, Address)
                return Address(base.argument, base.offset + offset) if is_address else None
            case mlir.ExtSIOp() | mlir.IndexCastOp() if not _is_condition(op.operands[0]):
                return self.at(op.operands[0], index)
            case mlir.ExtUIOp() if _is_condition(op.operands[0]):
                condition = self.at(op.operands[0], index)
                return self._either(value, condition, ONE, Polynomial())
            case mlir.SelectOp():
                condition = self.at(op.condition, index if shape(op.condition.type) else ())
                return self._either(value, condition, *(self.at(v, index) for v in op.operands[1:]))
            case mlir.IfOp():
                ends = [yielded(region.blocks[0])[value.index] for region in op.regions]
                condition = self.at(op.condition)
                return self._either(value, condition, *(self.at(v, index) for v in ends))
            case operations.BinaryOperation():
                operands = self.at(op.lhs, index), self.at(op.rhs, index)
                if _is_condition(op.lhs):
                    return _logic(op, *operands)
                return self._arithmetic(op, *operands, index)
        return None

    def _either(self, value: SSAValue, condition: Condition, first: Any, second: Any) -> Any:
        if first == second:
            return first
        if _is_condition(value):
            return either(condition, first, second)
        if isinstance(first, Address) or isinstance(second, Address):
            if not isinstance(first, Address) or not isinstance(second, Address):
                return None
            offset = self._either(value, condition, first.offset, second.offset)
            return Address(first.argument, offset) if first.argument == second.argument else None
        is_natural = self._is_natural(first) and self._is_natural(second)
        made = self._symbol("choice", condition, first, second, natural=is_natural)
        return self._add(made, either(condition, equal(made, first), equal(made, second)))

    def _arithmetic(self, op: Any, left: Polynomial, right: Polynomial, index: Index) -> Any:
        constant = _constant(right)
        power = -1 if constant is None else constant
        is_shift = 0 <= power < 63
        match op:
            case mlir.AddIOp():
                return left + right
            case mlir.SubIOp():
                return left - right
            case mlir.MulIOp():
                return self._factor(left) * self._factor(right)
            case mlir.MinSIOp() | mlir.MaxSIOp():
                return self._extreme(op, left, right)
            case mlir.DivSIOp() | mlir.DivUIOp():
                return self._divided(op, left, right, index)[0]
            case mlir.RemSIOp() | mlir.RemUIOp():
                return self._divided(op, left, right, index)[1]
            case mlir.CmpIOp():
                return _compared(op, left, right)
            case mlir.ShLIOp() if is_shift:
                return left * 2**power
            case mlir.ShRSIOp() if is_shift:
                return self._floor(left, 2**power)
            case mlir.AndIOp() if power >= 0 and not power & (power + 1):
                return left - self._floor(left, power + 1) * (power + 1)
        return None

    def _factor(self, number: Polynomial) -> Polynomial:
        """A symbol for a factor that is a sum, in which two programs may agree."""
        if not self._prover.knows_logic or len(number) < 2:
            return number
        key = (number, "factor")
        if key not in self._known:
            made = self._symbol("factor", number, natural=False)
            self._known[key] = self._add(made, equal(made, number))
        return Polynomial.of(self._known[key])

    def _extreme(self, op: Operation, left: Polynomial, right: Polynomial) -> Polynomial:
        is_least = isinstance(op, mlir.MinSIOp)
        sides = self._is_natural(left), self._is_natural(right)
        natural = all(sides) if is_least else any(sides)
        made = self._symbol("extreme", left, right, natural=natural)
        ends = [made - each for each in (left, right)]
        if is_least:
            return self._add(made, *(-end for end in ends), Some(tuple(ends)))
        return self._add(made, *ends, Some(tuple(-end for end in ends)))

    def _divided(
        self, op: Any, left: Polynomial, right: Polynomial, index: Index
    ) -> tuple[Polynomial, Polynomial]:
        """Quotient and remainder, of which only those of numbers from 0 on are known."""
        inside, divisor = _inside(index, shape(op.result.type)), _constant(right)
        if divisor is not None and divisor > 0 and self._is_natural(left, inside):
            quotient = self._floor(left, divisor)
            return quotient, left - quotient * divisor
        key = (left, right, op.parent_block(), *inside)
        if key in self._known:
            quotient, rest = self._known[key]
            return quotient, rest
        reach = self._reach(op)
        operands = (left, right - 1)
        always = all(self._is_natural(each, inside) for each in operands)
        here = always or all(self._is_natural(each, [*reach, *inside]) for each in operands)
        quotient, rest = (
            self._symbol(kind, left, right, natural=here) for kind in ("quotient", "rest")
        )
        left_over = left - right * quotient
        guard = () if always else [*reach, *inside] if here else operands
        for symbol, known in (
            (quotient, All((quotient, left_over, right - 1 - left_over))),
            (rest, All((rest, right - 1 - rest, equal(rest, left_over)))),
        ):
            self._add(symbol, Some((*map(negated, guard), known)) if guard else known)
        self._known[key] = quotient, rest
        return quotient, rest

    def _reach(self, op: Operation) -> list[Condition]:
        """The conditions under which the program reaches an operation."""
        facts: list[Condition] = []
        while not isinstance(parent := op.parent_op(), (tt.FuncOp, type(None))):
            match parent:
                case mlir.IfOp():
                    condition, is_then = (
                        self.at(parent.condition), op.parent_region() is parent.then_region
                    )  # fmt: skip
                    facts.append(condition if is_then else negated(condition))
                case mlir.ForOp():
                    facts += self.about[min(self._turn(parent).symbols)]
                case mlir.WhileOp() if op.parent_block() is parent.after.block:
                    facts.append(self.at(yielded(parent.before.block)[0]))
            op = parent
        block = op.parent_block()
        while block is not None and (jump := _only_jump_to(block)) is not None:
            if isinstance(jump, mlir.ConditionalBranchOp):
                condition = self.at(jump.condition)
                is_true = jump.true_successor is block
                facts.append(condition if is_true else negated(condition))
            block = jump.parent_block()
        return facts


def _is_condition(value: SSAValue) -> bool:
    return str(element_type(value.type)) == "i1"


def _constant(number: Polynomial) -> int | None:
    return int(number.get((), 0)) if {*number} <= {()} else None


def _inside(index: Index, extents: Sequence[int]) -> list[Condition]:
    pairs = zip(index, extents)
    return [fact for place, extent in pairs for fact in (place, -place + (extent - 1))]


def _logic(op: Operation, left: Condition, right: Condition) -> Condition | None:
    match op:
        case mlir.AndIOp():
            return All((left, right))
        case mlir.OrIOp():
            return Some((left, right))
        case mlir.XOrIOp():
            return negated(left) if right == All() else either(left, negated(right), right)
    return None


def _compared(op: mlir.CmpIOp, left: Polynomial, right: Polynomial) -> Condition | None:
    less, more = right - left, left - right
    known = {"eq": equal(more), "ne": negated(equal(more)), "slt": less - 1, "sle": less,
             "sgt": more - 1, "sge": more}  # fmt: skip
    return known.get(mlir.INTEGER_PREDICATES[int(op.predicate.value.data)])


def _moved(op: Operation, index: Index) -> Index:
    """The position in the operand of what is at a position in the result."""
    match op:
        case tt.SplatOp():
            return ()
        case tt.ExpandDimsOp():
            axis = int(op.axis.value.data)
            return index[:axis] + index[axis + 1 :]
        case tt.TransOp():
            order = [int(old) for old in op.order.get_values()]
            return tuple(index[order.index(axis)] for axis in range(len(index)))
    narrow = shape(op.operands[0].type)
    return tuple(Polynomial() if size == 1 else at for size, at in zip(narrow, index))


def _only_jump_to(block: Block) -> Operation | None:
    """The jump to a block, if there is a single one; None for a function's first block."""
    region = block.parent_region()
    if region is None or block.prev_block is None:
        return None
    jumps = [end for each in region.blocks if (end := each.last_op) and block in end.successors]
    return jumps[0] if len(jumps) == 1 and [*jumps[0].successors].count(block) == 1 else None


def _is_by_pointers(op: Operation) -> bool:
    access = operations.trait_of(op, operations.GlobalAccess)
    assert access is not None
    return not isinstance(access, operations.DescriptorAccess) and len(access.indices_of(op)) == 1


@dataclass(frozen=True)
class OpenQuestion:
    """A statement about one or two accesses that is not proved.

    Attributes:
        ops: the access, or both stores.
        reason: what is not proved.
        failing: what holds where it is wrong; none if it is not known.
    """

    ops: tuple[Operation, ...]
    reason: str
    failing: Sequence[Condition] = ()

    @property
    def position(self) -> SourcePosition | None:
        frames = operations.locate(self.ops[0].location).frames
        return SourcePosition(frames[0].file, frames[0].line) if frames else None


class Proof:
    """The proofs about a launch for every size.

    Attributes:
        proved: how many accesses are in bounds, and how many pairs of stores are apart.
        open: what is not proved.
        blocks: the extents of the tiles of pointers.
    """

    def __init__(self, prepared: PreparedLaunch, code: ProgramCode, sizes: Sizes) -> None:
        self.proved = [0, 0]
        self.blocks: set[int] = set()
        self._prepared = prepared
        self._sizes = sizes
        self._tensors = {
            name: value
            for name, value in prepared.call.values.items()
            if isinstance(value, torch.Tensor)
        }
        accesses, stores = [], []
        for op in code.module.walk():
            access = operations.trait_of(op, operations.GlobalAccess)
            if access is not None:
                accesses.append((op,))
                self.blocks |= set(shape(access.indices_of(op)[-1].type))
                if operations.global_effect(op) != "load" and _is_by_pointers(op):
                    stores.append(op)
        pairs = itertools.combinations_with_replacement(stores, 2)
        atomic = operations.Atomic
        plain = [pair for pair in pairs if not all(operations.has(op, atomic) for op in pair)]
        self.open = [OpenQuestion(ops, "") for ops in (*accesses, *plain)]
        self.decide(Prover())

    def decide(self, prover: Prover) -> None:
        """Try to prove what is open."""
        values = Values(self._prepared, self._sizes, prover)
        questions, self.open = self.open, []
        for question in questions:
            prove = self._prove_bounds if len(question.ops) == 1 else self._prove_apart
            self.open += prove(values, prover, *question.ops)

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
        """The statements that are not proved, a sentence for each line."""
        said = []
        for each in self.open:
            line = "" if each.position is None else f", line {each.position.line}"
            said.append(f"Not decided for {self._sizes}{line}: {each.reason}.")
        if not callable(self._prepared.grid) and None in _fixed_grid(self._prepared, self._sizes):
            said.append(
                "Pass the grid as a function of the parameters, so that launches with small sizes "
                "can be tried."
            )
        return list(dict.fromkeys(said))

    def _prove_bounds(self, values: Values, prover: Prover, op: Operation) -> list[OpenQuestion]:
        """Prove an access in bounds; return what is open."""
        if not _is_by_pointers(op):
            return [OpenQuestion((op,), "an access through a descriptor")]
        access, reason = values.access(op), "an address that is not a polynomial in the sizes"
        if access is None:
            return [OpenQuestion((op,), reason)]
        tensor = self._tensors[access.argument]
        if not tensor.is_contiguous():
            return [OpenQuestion((op,), "a tensor that is not contiguous")]
        size = ONE
        for extent in tensor.shape:
            size *= self._sizes.tied(int(extent))
        if not any(symbol.startswith("unknown ") for symbol in access.offset.symbols):
            reason = f"{access.argument} in bounds"
        for inside in (access.offset, size - 1 - access.offset):
            if not prover.holds(inside, access.facts, hard=True):
                return [OpenQuestion((op,), reason, [*access.facts, negated(inside)])]
        self.proved[0] += 1
        return []

    def _prove_apart(self, values: Values, prover: Prover, *ops: Operation) -> list[OpenQuestion]:
        """Prove that two programs never write the same element; return what is open.

        If it does not follow at once, two equal addresses agree in one symbol after the other:
        whichever of the two were larger in it, the addresses would differ.
        """
        first, second = map(values.access, ops)
        if first is None or second is None:
            return [OpenQuestion(ops, "stores of different programs apart")]
        tensors = [self._tensors[each.argument] for each in (first, second)]
        if len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 2:
            return []
        reason = f"stores of different programs to {first.argument} apart"
        if first.argument != second.argument:
            return [OpenQuestion(ops, reason)]
        programs = set().union(*(program.symbols for program in values.programs))
        symbols = (second.symbols | programs) - values.shared
        twins = {symbol: Polynomial.of(f"'{symbol}") for symbol in symbols}
        others = [Polynomial.of(program) - twins[program] for program in sorted(programs)]
        problem = _Collision(
            second.offset.replaced(twins) - first.offset,
            [*dict.fromkeys([*first.facts, *(fact.replaced(twins) for fact in second.facts)])],
            prover,
        )
        is_other = Some(tuple(negated(equal(each)) for each in others))
        failing = [*problem.facts, equal(problem.distance), is_other]
        if prover.knows_logic and prover.is_never_zero(
            problem.distance, [*problem.facts, is_other], hard=True
        ):
            self.proved[1] += 1
            return []
        places = {symbol for symbol in symbols if symbol.startswith("@")}
        rest = sorted(symbols if prover.knows_logic else programs | places, reverse=True)
        count = 0
        while len(rest) != count and programs & {*rest}:
            count = len(rest)
            for symbol in [*rest]:
                if problem.agrees(symbol, is_symmetric=ops[0] is ops[1]):
                    problem = problem.where_equal(symbol)
                    rest.remove(symbol)
        if programs & {*rest}:
            return [OpenQuestion(ops, reason, failing)]
        self.proved[1] += 1
        return []


@dataclass(frozen=True)
class _Collision:
    """Two accesses of the same element, by programs whose symbols are "x" and "'x".

    Attributes:
        distance: from the first to the second; 0.
    """

    distance: Polynomial
    facts: list[Condition]
    prover: Prover

    def agrees(self, symbol: str, *, is_symmetric: bool) -> bool:
        """Whether both programs must have the same number for a symbol."""
        ours, theirs = symbol, f"'{symbol}"
        pairs = [(theirs, ours)] if is_symmetric else [(theirs, ours), (ours, theirs)]
        return all(
            self._is_impossible({larger: Polynomial.of(smaller) + Polynomial.of("later") + 1})
            for larger, smaller in pairs
        )

    def _is_impossible(self, change: Mapping[str, Polynomial]) -> bool:
        there = self._replaced(change)
        return there.prover.is_never_zero(there.distance, there.facts)

    def where_equal(self, symbol: str) -> _Collision:
        names = (symbol, f"{symbol}-")
        return self._replaced({f"'{each}": Polynomial.of(each) for each in names})

    def _replaced(self, change: Mapping[str, Polynomial]) -> _Collision:
        facts = [fact.replaced(change) for fact in self.facts]
        return _Collision(self.distance.replaced(change), facts, self.prover)


def _fixed_grid(prepared: PreparedLaunch, sizes: Sizes) -> list[Polynomial | None]:
    """Programs along each axis of a grid of numbers: 1, a size, or a fixed dimension's."""
    tensors = (v for v in prepared.call.values.values() if isinstance(v, torch.Tensor))
    extents = {1, *(int(extent) for tensor in tensors for extent in tensor.shape)}
    tied = [(size, sizes.tied(size)) for size in prepared.sizes()]
    return [known if known.symbols or size in extents else None for size, known in tied]


def launch_of_sizes(
    prepared: PreparedLaunch, sizes: Sizes, chosen: Mapping[str, int]
) -> BoundLaunch:
    """The launch with other sizes, and with zeros in its tensors. Raises GridError: the launch has
    a grid that does not say how it follows from the sizes.
    """
    if not callable(prepared.grid) and None in _fixed_grid(prepared, sizes):
        raise GridError(
            f"The grid {prepared.sizes()} is fixed, but it may depend on the sizes.",
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
