"""Arithmetic on expressions in normal form, in place of residues: what proves that two results are
the same at one shape.

An expression is a polynomial over the elements of the inputs and over functions: its summands are
products of powers of these with one exponential, `coefficient * x**2 * f(y)**-1 * 2**(z)`. Each is
kept once, so that two expressions of the same normal form have the same number. A number fills
both parts of a complex number, as residues do, so that the same code moves, masks and merges them;
0 and 1 are the numbers of themselves. `residues.computing_with` lets the functions of `residues`
compute with an object of this module's. An infinity is that of the floats; NaN is what is
not known.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy

from kernellab.errors import UnsupportedOperation
from kernellab.ir import mlir

Array = numpy.ndarray[Any, Any]
Number = Any
"""A coefficient or an exponent: an int, or a Fraction."""

Summands = tuple[tuple[int, Number], ...]
"""The numbers of the products of a polynomial, which rise, and their coefficients."""

MOST_SUMMANDS = 1_500_000
"""How many summands all expressions may have together: some seconds, about 10**5 expressions."""

_MOST_TURNS = 8
"""How many powers of an exponential are divided by a sum with it."""

_PAIR = numpy.dtype(numpy.complex128)
_INFINITY, _LOWEST, _NAN = -1, -2, -3
_SPECIAL = {math.inf: _INFINITY, -math.inf: _LOWEST}
_VALUES = {_INFINITY: complex(math.inf, math.inf), _LOWEST: complex(-math.inf, -math.inf),
           _NAN: complex(math.nan, math.nan)}  # fmt: skip


class NotProved(UnsupportedOperation):
    """A proof has no expression for an operation."""


class OrderNotKnown(NotProved):
    """A result depends on an order of floats that does not follow from any law."""


def _of_each(function: Callable[..., int]) -> Callable[..., Any]:
    """A method that applies one of the numbers of expressions to each element."""
    return lambda self, *arrays: self._each(functools.partial(function, self), *arrays)


class Terms:
    """Expressions, each of them once."""

    def __init__(self) -> None:
        self._drawn: numpy.random.Generator | None = None
        self._values: dict[int, float] = {}
        self._sums: list[Summands] = []
        self._numbers: dict[Summands, int] = {}
        self._products: list[tuple[tuple[tuple[int, Number], ...], int]] = []
        self._product_numbers: dict[Any, int] = {}
        self._atoms: list[tuple[Any, ...]] = []
        self._atom_numbers: dict[tuple[Any, ...], int] = {}
        self._multiplied: dict[tuple[int, int], Summands] = {}
        self._size = 0
        self._sum_of({})
        self._product((), 0)
        self._sum_of({0: 1})

    def move_to(self, point: int) -> None:
        """From now on let the elements of the inputs be random real numbers too, which decide the
        order of two expressions: computations are compared in the pieces that these are in.
        """
        self._drawn, self._values = numpy.random.default_rng(point), {}

    @property
    def is_at_point(self) -> bool:
        """Whether the elements of the inputs are random numbers too."""
        return self._drawn is not None

    # Sums of products

    def _spend(self, summands: int) -> None:
        self._size += summands
        if self._size > MOST_SUMMANDS:
            raise NotProved(f"The expressions have more than {MOST_SUMMANDS:,} terms.")

    def _sum_of(self, summands: Mapping[int, Number]) -> int:
        made = tuple(sorted(item for item in summands.items() if item[1]))
        number = self._numbers.get(made)
        if number is None:
            self._spend(1 + len(made))
            number = self._numbers[made] = len(self._sums)
            self._sums.append(made)
        return number

    def _product(self, factors: Any, exponent: int) -> int:
        key = (factors, exponent)
        number = self._product_numbers.get(key)
        if number is None:
            self._spend(1)
            number = self._product_numbers[key] = len(self._products)
            self._products.append(key)
        return number

    def _atom(self, *key: Any) -> int:
        number = self._atom_numbers.get(key)
        if number is None:
            number = self._atom_numbers[key] = len(self._atoms)
            self._atoms.append(key)
        return number

    def _of_atom(self, atom: int) -> int:
        return self._expanded({atom: 1}, 0)

    def _constant(self, number: Number) -> int:
        return self._sum_of({0: number})

    def _constant_of(self, a: int) -> Number | None:
        summands = self._sums[a]
        if not summands:
            return 0
        return summands[0][1] if len(summands) == 1 and not summands[0][0] else None

    def _combination(self, parts: Iterable[tuple[int, Number]]) -> int:
        """The sum of expressions with coefficients, which may be infinite."""
        made: dict[int, Number] = {}
        infinite: set[int] = set()
        for number, factor in parts:
            if number < 0:
                opposite = {_INFINITY: _LOWEST, _LOWEST: _INFINITY}.get(number, _NAN)
                infinite.add(number if factor > 0 else opposite)
                continue
            summands = self._sums[number]
            self._spend(len(summands) // 4)
            for product, coefficient in summands:
                made[product] = made.get(product, 0) + factor * coefficient
        if infinite:
            return infinite.pop() if len(infinite) == 1 else _NAN
        return self._sum_of(made)

    def _plus(self, a: int, b: int) -> int:
        return self._combination([(a, 1), (b, 1)])

    def _minus(self, a: int, b: int) -> int:
        return self._combination([(a, 1), (b, -1)])

    def _times(self, a: int, b: int) -> int:
        if a < 0 or b < 0:
            return self._times_infinity(a, b)
        made: dict[int, Number] = {}
        self._spend(len(self._sums[a]) * len(self._sums[b]))
        for first, factor in self._sums[a]:
            for second, other in self._sums[b]:
                for product, coefficient in self._multiply_products(first, second):
                    made[product] = made.get(product, 0) + factor * other * coefficient
        return self._sum_of(made)

    def _times_infinity(self, a: int, b: int) -> int:
        signs = [
            {_INFINITY: 1, _LOWEST: -1, _NAN: 0}[each] if each < 0 else self._sign(each) or 0
            for each in (a, b)
        ]
        return {1: _INFINITY, -1: _LOWEST, 0: _NAN}[signs[0] * signs[1]]

    def _multiply_products(self, a: int, b: int) -> Summands:
        if not a or not b:
            return ((a or b, 1),)
        key = (a, b) if a < b else (b, a)
        made = self._multiplied.get(key)
        if made is None:
            (factors, exponent), (others, other) = self._products[a], self._products[b]
            powers = dict(factors)
            for atom, power in others:
                powers[atom] = powers.get(atom, 0) + power
            made = self._sums[self._expanded(powers, self._plus(exponent, other))]
            self._multiplied[key] = made
        return made

    def _expanded(self, powers: Mapping[int, Number], exponent: int) -> int:
        """A product of powers of atoms and of an exponential. A whole power of a sum is a sum."""
        kept, sums = {}, []
        for atom, power in powers.items():
            whole = math.floor(power)
            if self._atoms[atom][0] == "sum" and whole >= 1:
                sums += [self._atoms[atom][1]] * whole
                power -= whole
            if power:
                kept[atom] = power
        fraction = self._partial_fractions(kept, exponent) if exponent and not sums else None
        if fraction is not None:
            return fraction
        scale, exponent = self._without_whole_part(exponent)
        made = self._sum_of({self._product(tuple(sorted(kept.items())), exponent): scale})
        return functools.reduce(self._times, sums, made)

    def _partial_fractions(self, powers: Mapping[int, Number], exponent: int) -> int | None:
        """A product that contains 2**u / (a + b * 2**u), as the sum of two without this; None if
        there is none. So `tanh(x)`, `2 * sigmoid(2 * x) - 1` and others have one normal form.
        """
        for atom, power in powers.items():
            kind, *operands = self._atoms[atom]
            base: Any = self._sums[operands[0]] if kind == "sum" else ()
            if power > -1 or len(base) != 2 or base[0][0] or self._products[base[1][0]][0]:
                continue
            (_, a), (product, b) = base
            inside = self._products[product][1]
            leading, unit = self._sums[inside][-1]
            turns = math.floor(dict(self._sums[exponent]).get(leading, 0) / Fraction(unit))
            if not turns or abs(turns) > _MOST_TURNS:
                continue
            fewer = {**powers, atom: power + 1}
            moved = self._combination([(exponent, 1), (inside, -1 if turns > 0 else 1)])
            apart = moved if turns > 0 else exponent
            divisor, rest = (b, a) if turns > 0 else (a, b)
            parts = self._expanded(fewer, apart), self._expanded(powers, moved)
            return self._combination(zip(parts, (1 / Fraction(divisor), -Fraction(rest, divisor))))
        return None

    def _without_whole_part(self, exponent: int) -> tuple[Number, int]:
        """2**n and x - n for 2**x, whose n is a whole number."""
        summands = self._sums[exponent]
        whole = math.floor(summands[0][1]) if summands and not summands[0][0] else 0
        if not whole:
            return 1, exponent
        if abs(whole) > 4_000:
            raise NotProved("An exponential is too large.")
        return Fraction(2) ** whole, self._combination([(exponent, 1), (1, -whole)])

    # Normal forms of functions

    def _before(self, a: int, b: int) -> int:
        """An order of expressions that adding and positive factors keep."""
        for left, right in itertools.zip_longest(self._sums[a], self._sums[b], fillvalue=None):
            if left == right:
                continue
            if right is None or (left is not None and left[0] < right[0]):
                return 1 if left[1] > 0 else -1  # type: ignore[index]
            if left is None or right[0] < left[0]:
                return -1 if right[1] > 0 else 1
            return 1 if left[1] > right[1] else -1
        return 0

    def _without_content(self, a: int) -> tuple[Number, int, int]:
        """c > 0, u and b, so that a = c * 2**u * b: the same b for every multiple of a."""
        summands = self._sums[a]
        exponents = {self._products[product][1] for product, _ in summands}
        largest = max(exponents, key=functools.cmp_to_key(self._before))
        if largest:
            a = self._times(a, self._exponential(self._combination([(largest, -1)])))
        scale = abs(self._sums[a][0][1])
        return scale, largest, self._combination([(a, 1 / Fraction(scale))])

    def _exponential(self, a: int) -> int:
        """2**a, where 2**log2(x) is x."""
        if a < 0:
            return {_LOWEST: 0}.get(a, a)
        rest, made = dict(self._sums[a]), []
        for product, coefficient in self._sums[a]:
            factors, exponent = self._products[product]
            if len(factors) == 1 and not exponent and factors[0][1] == 1 and coefficient % 1 == 0:
                kind, *operands = self._atoms[factors[0][0]]
                if kind == "log2":
                    made.append(self._whole_power(operands[0], int(coefficient)))
                    del rest[product]
        return functools.reduce(self._times, made, self._expanded({}, self._sum_of(rest)))

    def _whole_power(self, a: int, exponent: int) -> int:
        base = a if exponent > 0 else self._inverse(a)
        return functools.reduce(self._times, [base] * abs(exponent), 1)

    def _inverse(self, a: int) -> int:
        if a <= 0:
            return _NAN if a in (0, _NAN) else 0
        summands = self._sums[a]
        if len(summands) == 1:
            return self._inverse_of_product(*summands[0])
        powers = {atom: -power for atom, power in self._shared_powers(a).items()}
        divided = self._times(a, self._expanded(powers, 0)) if powers else a
        scale, exponent, base = self._without_content(divided)
        powers[self._atom("sum", base)] = -1
        made = self._expanded(powers, self._combination([(exponent, -1)]))
        return self._combination([(made, 1 / Fraction(scale))])

    def _inverse_of_product(self, product: int, coefficient: Number) -> int:
        factors, exponent = self._products[product]
        opposite = self._combination([(exponent, -1)])
        made = self._expanded({atom: -power for atom, power in factors}, opposite)
        return self._combination([(made, 1 / Fraction(coefficient))])

    def _shared_powers(self, a: int) -> dict[int, Number]:
        """The powers of inputs and functions that all summands have."""
        powers = [dict(self._products[product][0]) for product, _ in self._sums[a]]
        shared = {atom: min(each.get(atom, 0) for each in powers) for atom in powers[0]}
        return {a: p for a, p in shared.items() if p and self._atoms[a][0] != "sum"}

    def _single_power(self, a: int) -> tuple[int, Number] | None:
        """The atom and the exponent of an expression that is one power."""
        summands = self._sums[a]
        if len(summands) == 1 and summands[0][1] == 1:
            factors, exponent = self._products[summands[0][0]]
            if len(factors) == 1 and not exponent:
                return factors[0]
        return None

    def _root(self, a: int) -> int:
        if a <= 0:
            return _NAN if a in (_LOWEST, _NAN) else a
        scale, exponent, base = self._without_content(a)
        powers: dict[int, Number] = {}
        if self._constant_of(base) is not None:
            if self._constant_of(base) != 1:
                return _NAN
        elif (single := self._single_power(base)) is not None and abs(single[1]) == 1:
            atom, power = single
            if self._atoms[atom][0] != "sum":
                atom = self._atom("sum", self._of_atom(atom))
            powers[atom] = Fraction(power, 2)
        else:
            powers[self._atom("sum", base)] = Fraction(1, 2)
        factor, rest = _square_root(Fraction(scale))
        if rest != 1:
            powers[self._atom("sum", self._constant(rest))] = Fraction(1, 2)
        made = self._expanded(powers, self._combination([(exponent, Fraction(1, 2))]))
        return self._combination([(made, factor)])

    def _logarithm(self, a: int) -> int:
        if a <= 0:
            return {0: _LOWEST, _INFINITY: _INFINITY}.get(a, _NAN)
        scale, exponent, base = self._without_content(a)
        parts: list[tuple[int, Number]] = [(exponent, 1)]
        twos = 0
        while scale % 2 == 0:
            scale, twos = scale / 2, twos + 1
        while (scale * 2) % 1 == 0 and scale % 1:
            scale, twos = scale * 2, twos - 1
        parts.append((1, twos))
        if scale != 1:
            parts.append((self._of_atom(self._atom("log2", self._constant(scale))), 1))
        single = self._single_power(base)
        if single is not None and single[1] != 1 and single[1] % 2:
            atom, power = single
            kind, *operands = self._atoms[atom]
            inside = operands[0] if kind == "sum" else self._of_atom(atom)
            parts.append((self._logarithm(inside), power))
        elif base != 1:
            parts.append((self._of_atom(self._atom("log2", base)), 1))
        return self._combination(parts)

    def _maximum(self, numbers: Iterable[int]) -> int:
        known = set(numbers)
        if self.is_at_point and _NAN not in known:
            return functools.reduce(lambda a, b: b if self._order(a, b) < 0 else a, sorted(known))
        if _NAN in known or _INFINITY in known:
            return _NAN if _NAN in known else _INFINITY
        largest: dict[int, Number] = {}
        for number in known - {_LOWEST}:
            for each in self._arguments_of_maximum(number):
                summands = self._sums[each]
                constant: Any = summands[0][1] if summands and not summands[0][0] else 0
                rest = self._combination([(each, 1), (1, -constant)]) if constant else each
                if rest not in largest or largest[rest] < constant:
                    largest[rest] = constant
        if not largest:
            return _LOWEST
        several = [self._combination([(n, 1), (1, c)]) for n, c in largest.items()]
        several.sort(key=functools.cmp_to_key(self._before))
        if len(several) == 1:
            return several[0]
        top = several[-1]
        below = [self._minus(each, top) for each in several]
        scale = abs(self._sums[below[0]][0][1])
        key = frozenset(self._combination([(each, 1 / Fraction(scale))]) for each in below)
        return self._combination([(top, 1), (self._of_atom(self._atom("max", key)), scale)])

    def _arguments_of_maximum(self, a: int) -> Iterator[int]:
        """The arguments of a maximum with a positive factor and something added, or a itself."""
        for product, coefficient in self._sums[a]:
            factors, exponent = self._products[product]
            if coefficient > 0 and not exponent and len(factors) == 1 and factors[0][1] == 1:
                kind, *operands = self._atoms[factors[0][0]]
                if kind == "max":
                    rest = self._sum_of({p: c for p, c in self._sums[a] if p != product})
                    for each in operands[0]:
                        yield self._combination([(rest, 1), (each, coefficient)])
                    return
        yield a

    def _minimum(self, numbers: Iterable[int]) -> int:
        opposite = (self._combination([(number, -1)]) for number in numbers)
        return self._combination([(self._maximum(opposite), -1)])

    def _sign(self, a: int) -> int | None:
        """The sign of a constant, or of a sum of exponentials, None if it is not known."""
        summands = self._sums[a]
        signs = {1 if coefficient > 0 else -1 for _, coefficient in summands}
        if all(not self._products[product][0] for product, _ in summands) and len(signs) < 2:
            return signs.pop() if signs else 0
        return None

    def _order(self, a: int, b: int) -> int:
        """-1 if a < b, 0 if they are equal, 1 if a > b."""
        difference = self._minus(a, b) if (a, b) not in ((-1, -1), (-2, -2)) else 0
        sign = {_INFINITY: 1, _LOWEST: -1}.get(difference) or self._sign(max(difference, 0))
        if sign is not None:
            return sign
        if not self.is_at_point:
            raise OrderNotKnown("Floats are compared, and their order is not known.")
        try:
            parts = [number * self._at_point(each) for each, number in self._sums[difference]]
            value = math.fsum(parts)
        except (ArithmeticError, ValueError):  # a root of a negative number, overflow
            value, parts = math.nan, [math.nan]
        if not abs(value) > 1e-9 * max(map(abs, parts)):
            raise NotProved("The order of two floats is not clear at a random point.")
        return 1 if value > 0 else -1

    def numbers(self, first: complex, second: complex) -> tuple[float, float] | None:
        """The real numbers that two expressions are at the point, None if they may be the same."""
        a, b = (_numbers(each)[0] for each in (first, second))
        try:
            if not self.is_at_point or min(a, b) < 0 or not self._order(a, b):
                return None
            return self._sum_at_point(a), self._sum_at_point(b)
        except (ArithmeticError, ValueError, NotProved):
            return None

    def _at_point(self, product: int) -> float:
        factors, exponent = self._products[product]
        with numpy.errstate(all="raise", under="ignore"):
            powers = [numpy.float64(self._atom_at_point(atom)) ** float(n) for atom, n in factors]
            return float(numpy.prod([*powers, numpy.exp2(self._sum_at_point(exponent))]))

    def _sum_at_point(self, a: int) -> float:
        return math.fsum(number * self._at_point(product) for product, number in self._sums[a])

    def _atom_at_point(self, atom: int) -> float:
        if atom not in self._values:
            assert self._drawn is not None
            kind, *operands = self._atoms[atom]
            if kind == "input":
                size = 2.0 ** self._drawn.uniform(-5, 5)
                self._values[atom] = size * self._drawn.choice([-1, 1])
            else:
                function = getattr(math, kind, None) or getattr(numpy, kind, None)
                if function is None:
                    raise NotProved(f"The order of floats depends on {kind}.")
                values = [numpy.float64(self._sum_at_point(each)) for each in operands]
                self._values[atom] = values[0] if kind == "sum" else function(*values)
        return self._values[atom]

    def is_zero(self, a: int) -> bool:
        """Whether an expression is 0, after it is multiplied by all denominators."""
        for _ in range(20):
            powers: dict[int, Number] = {}
            for product, _ in self._sums[a] if a > 0 else ():
                for atom, power in self._products[product][0]:
                    if power < 0 and self._atoms[atom][0] == "sum":
                        powers[atom] = min(power, powers.get(atom, 0))
            if not powers:
                return a == 0
            atom, power = max(powers.items())
            product = self._product(((atom, -power),), 0)
            a = self._times(a, self._sum_of({product: 1}))
        return False

    # Arrays of expressions: the functions of `residues` by name.

    def _each(self, function: Callable[..., int], *arrays: Any) -> Any:
        """Apply a function of the numbers of expressions to each element."""
        arrays = numpy.broadcast_arrays(*arrays)
        memo = functools.cache(function)
        made = [memo(*each) for each in zip(*map(_numbers, arrays))]
        return _array(made, arrays[0].shape)

    def inputs(self, name: str, shape: tuple[int, ...]) -> Any:
        """The elements of a tensor in the order of its memory."""
        self._spend(3 * math.prod(shape))
        made = [self._of_atom(self._atom("input", name, index)) for index in numpy.ndindex(*shape)]
        return _array(made, (len(made),))

    def of_fraction(self, number: Fraction) -> complex:
        return complex(_array([self._constant(number)], ()))

    def of_integers(self, value: Any) -> Any:
        array = numpy.asarray(value)
        return _array([self._constant(int(n)) for n in array.ravel().tolist()], array.shape)

    add, subtract, multiply = map(_of_each, (_plus, _minus, _times))
    inverse, square_root, exp2, log2 = map(_of_each, (_inverse, _root, _exponential, _logarithm))

    def negative(self, a: Any) -> Any:
        return self._each(lambda a: self._combination([(a, -1)]), a)

    def fused_multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.add(self.multiply(a, b), c)

    unreduced_sum, unreduced_difference, unreduced_product = add, subtract, multiply

    def uninterpreted(self, name: str, *operands: Any) -> Any:
        def applied(*numbers: int) -> int:
            if any(number < 0 for number in numbers):
                return _NAN
            return self._of_atom(self._atom(name, *numbers))

        return self._each(applied, *operands)

    def to_integers(self, *_: Any) -> Any:
        raise NotProved("A float becomes an integer.")

    def maximum(self, a: Any, b: Any) -> Any:
        return self._each(lambda *both: self._maximum(both), a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return self._each(lambda *both: self._minimum(both), a, b)

    maximum_or_nan, minimum_or_nan = maximum, minimum

    def absolute(self, a: Any) -> Any:
        return self.maximum(a, self.negative(a))

    def order_key(self, a: Any) -> Any:
        known = [self._value(number) for number in _numbers(a)]
        if None in known:
            raise OrderNotKnown("The order of floats decides what is computed.")
        return numpy.array(known, numpy.float64).reshape(numpy.shape(a))[()]

    def _value(self, a: int) -> float | None:
        constant = None if a < 0 else self._constant_of(a)
        if a >= 0 and self.is_at_point:
            try:
                return self._sum_at_point(a)
            except (ArithmeticError, ValueError):
                return None
        return _VALUES[a].real if a < 0 else None if constant is None else float(constant)

    def is_nan(self, a: Any) -> Any:
        if numpy.isnan(numpy.real(a)).any():
            raise NotProved("A number may be NaN.")
        return numpy.zeros(numpy.shape(a), numpy.bool_)[()]

    def compare(self, predicate: str, a: Any, b: Any) -> Any:
        if predicate in ("true", "false"):
            return numpy.bool_(predicate == "true")

        def holds(a: int, b: int) -> bool:
            if _NAN in (a, b):
                raise NotProved("A number may be NaN.")
            if predicate in ("ord", "uno"):
                return predicate == "ord"
            return bool(mlir.RELATIONS[predicate[1:]](self._order(a, b), 0))

        arrays = numpy.broadcast_arrays(a, b)
        made = [holds(*each) for each in zip(*map(_numbers, arrays))]
        return numpy.array(made, numpy.bool_).reshape(arrays[0].shape)[()]

    def total(self, a: Any, axis: Any) -> Any:
        axes = axis if isinstance(axis, tuple) else (axis,)
        return self._along(lambda ns: self._combination((n, 1) for n in ns), a, axes)

    def extreme(self, a: Any, axis: int, *, largest: bool) -> Any:
        return self._along(self._maximum if largest else self._minimum, a, (axis,))

    def _along(self, function: Callable[[Any], int], a: Any, axes: tuple[int, ...]) -> Any:
        a = numpy.asarray(a)
        moved = numpy.moveaxis(a, axes, range(-len(axes), 0))
        kept = moved.shape[: a.ndim - len(axes)]
        rows = numpy.reshape(moved, (math.prod(kept), -1))
        return _array([function(_numbers(row)) for row in rows], kept)

    def running_total(self, a: Any, axis: int, reverse: bool = False) -> Any:
        moved = numpy.moveaxis(numpy.asarray(a), axis, -1)[..., :: -1 if reverse else 1]
        rows = moved.reshape(-1, moved.shape[-1])
        sums = [
            number for row in rows for number in itertools.accumulate(_numbers(row), self._plus)
        ]
        made = _array(sums, moved.shape)[..., :: -1 if reverse else 1]
        return numpy.moveaxis(made, -1, axis)

    def matmul(self, a: Any, b: Any, c: Any = 0) -> Any:
        a, b = numpy.asarray(a), numpy.swapaxes(numpy.asarray(b), -1, -2)
        products = self.multiply(a[..., :, None, :], b[..., None, :, :])
        return self.add(self.total(products, -1), c)

    def agreement(self, first: Any, second: Any) -> tuple[Array, Array]:
        """Where two arrays are proved to be the same, and where both are known."""
        if first.dtype != _PAIR or second.dtype != _PAIR:
            return numpy.asarray(first == second), numpy.ones(first.shape, numpy.bool_)

        def same(a: int, b: int) -> int:
            if min(a, b) < 0:
                return int(a == b != _NAN)
            return int(a == b or self.is_zero(self._minus(a, b)))

        agree = self._each(same, first, second)
        return numpy.real(agree) == 1, ~numpy.isnan(first.real) & ~numpy.isnan(second.real)

    # Text

    def text(self, value: complex, other: complex) -> str:
        """An expression; of one with many summands, those that another one does not have."""
        a, b = _numbers(value)[0], _numbers(other)[0]
        if a < 0:
            return {_INFINITY: "inf", _LOWEST: "-inf", _NAN: "not known"}[a]
        whole = self._sum_text(self._sums[a])
        if len(whole) <= _LONGEST_TEXT or b < 0:
            return whole[:_LONGEST_TEXT]
        shared = set(self._sums[a]) & set(self._sums[b])
        if len(shared) == len(self._sums[a]):
            return f"{whole[:_LONGEST_TEXT]}..."
        own = self._sum_text([each for each in self._sums[a] if each not in shared])
        rest = f" + {len(shared):,} terms that both have" if shared else ""
        return (own if len(own) <= _LONGEST_TEXT else f"{own[:_LONGEST_TEXT]}...") + rest

    def _sum_text(self, summands: Iterable[tuple[int, Number]]) -> str:
        made = ""
        for product, coefficient in itertools.islice(summands, 40):
            text = self._product_text(product)
            size = abs(coefficient)
            decimal = f"{float(size):.12g}"
            number = decimal if Fraction(decimal) == size else str(size)
            shown = number if not text else text if size == 1 else f"{number} * {text}"
            sign = "-" if coefficient < 0 else "+"
            made += f" {sign} {shown}" if made else f"{'-' if coefficient < 0 else ''}{shown}"
        return made or "0"

    def _product_text(self, product: int) -> str:
        factors, exponent = self._products[product]
        texts = [
            self._atom_text(atom)
            + ("" if power == 1 else f"**{power}" if power > 0 else f"**({power})")
            for atom, power in factors
        ]
        if exponent:
            texts.append(f"exp2({self._sum_text(self._sums[exponent])})")
        return " * ".join(texts)

    def _atom_text(self, atom: int) -> str:
        kind, *operands = self._atoms[atom]
        if kind == "input":
            name, index = operands
            return f"{name}[{', '.join(map(str, index))}]"
        numbers = sorted(operands[0]) if kind == "max" else operands
        shown = [self._sum_text(self._sums[number]) for number in numbers[:8]]
        inside = ", ".join(shown + ["..."] * (len(numbers) > 8))
        return f"({inside})" if kind == "sum" else f"{kind}({inside})"


def _square_root(number: Fraction) -> tuple[Fraction, int]:
    """A fraction and a whole number without small squares, whose root times it is the root."""
    rest, factor = number.numerator * number.denominator, Fraction(1, number.denominator)
    for n in (math.isqrt(rest), *range(2, 100)):
        while n > 1 and rest % (n * n) == 0:
            rest, factor = rest // (n * n), factor * n
    return factor, rest


_LONGEST_TEXT = 240


def _numbers(array: Any) -> list[int]:
    values = numpy.real(numpy.asarray(array)).ravel().tolist()
    return [int(value) if math.isfinite(value) else _SPECIAL.get(value, _NAN) for value in values]


def _array(numbers: list[int], shape: tuple[int, ...]) -> Any:
    made = [complex(n, n) if n >= 0 else _VALUES[n] for n in numbers]
    return numpy.array(made, _PAIR).reshape(shape)[()]
