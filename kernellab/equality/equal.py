"""`kernellab.equal`: whether two computations, kernels or functions of torch, are the same for all
inputs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

import numpy
import torch

from kernellab.common.arguments import check_choice, check_flags, check_whole, parameters_first
from kernellab.common.system import OutOfTime
from kernellab.common.text import counted, element_text
from kernellab.compiler.kernels import parameter_names
from kernellab.equality import residues
from kernellab.equality.functions import ExactTensors
from kernellab.equality.records import (
    Domain,
    Equality,
    FloatPair,
    Rounding,
    UnequalElement,
    Verdict,
)
from kernellab.equality.residues import agreement
from kernellab.equality.sides import (
    CONSTANTS,
    GIVEN,
    INFINITY,
    MOST_NANS,
    NAN,
    NORMAL,
    OF_FEW,
    ORDERED,
    OTHER_ORDERS,
    SMALL,
    ZEROS,
    Inputs,
    KernelSide,
    Side,
    fresh_tensors,
    name_of,
    outstanding_inputs,
    sides_of,
    single_nans,
)
from kernellab.equality.terms import OrderNotKnown, Terms
from kernellab.errors import (
    ArgumentError,
    KernelLabError,
    OptionError,
    SourcePosition,
    UnsupportedOperation,
)
from kernellab.launch.results import elements_off, relative_tolerance, size_of
from kernellab.records import Target

# Which results of two computations should be equal, and where they are.

Results = Mapping[str, torch.Tensor]


class ResultPair:
    """A result of each computation, and what is known about their elements after some seeds.

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
    for side, results in zip((first, second), written):
        if not results:
            does = "writes" if isinstance(side, KernelSide) else "returns"
            raise ArgumentError(
                f"{side.name} {does} no tensor, so there is nothing to compare.",
                advice="A kernel must store the results to compare, and a function must return "
                "them.",
            )
    if len(written[0]) != len(written[1]):
        raise ArgumentError(
            f"{first.name} has {counted(len(written[0]), 'result')} ({', '.join(written[0])}), but "
            f"{second.name} has {len(written[1])}.",
            advice="The function must return the tensors that the kernel writes, in the order of "
            "its parameters.",
        )
    return list(zip(written[0], written[1]))


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
        has_zeros: whether a product of theirs had a factor 0.
        refused: inputs that one of the two failed with.
        not_tried: notes on inputs that were not tried.
        by_squares: whether they only agree where roots and logarithms are those of squares.
    """

    first: Side
    second: Side
    seeds: int
    pairs: Sequence[ResultPair]
    uninterpreted: tuple[str, ...]
    again: ExactTensors
    inputs: Domain
    has_zeros: bool
    refused: list[str] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    by_squares: bool = False

    @cached_property
    def _constants(self) -> list[float]:
        return sorted(self.first.constants() | self.second.constants())

    @cached_property
    def _choices(self) -> set[str]:
        return self.first.choices() | self.second.choices()

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
                unequal = self._unequal(pair, pair.differs, self._why_not_visible(), *ORDERED)
                if unequal.verdict == "different" or not self._agree_on_squares():
                    return unequal
                return replace(self, by_squares=True).after_floats()
        for pair in self.pairs:
            if not pair.decided.all():
                return self._unequal(pair, ~pair.decided, _without_residue(pair))
        return self.after_floats()

    def after_floats(self, *, by_residues: bool = True, is_known: bool = False) -> Equality:
        """The verdict if all residues or expressions agree: other orders of the programs and runs
        with floats may show the rest.

        Args:
            by_residues: whether residues agree, or else expressions do.
            is_known: whether expressions say what every outcome of a condition leads to.
        """
        for side, names in self._of_orders():
            reason = self._in_other_orders(side)
            if reason:
                first = next(iter(side.ordered.values()))
                return self._verdict("not decided", f"{reason} by {names}", position=first)
        compared = (CONSTANTS,) if self._constants else ()
        special = () if self.inputs == "finite" else (*NAN, *INFINITY)
        usual = GIVEN, NORMAL, ORDERED[0], SMALL, ZEROS, *compared, *special
        off = self._off_for(usual)
        if off is None or off.verdict == "not decided":
            pieces = self._off_in_pieces() if by_residues else self._off_for(OF_FEW)
            if pieces is not None and (off is None or pieces.verdict == "different"):
                off = pieces
        if off is None:
            off = self._unseen(floats=not is_known)
        if off is None:
            outstanding = self._outstanding(special, is_known=is_known)
            if outstanding is None:
                advice = "" if self._choices >= _EXTREMES else ": try fewer elements"
                return self._verdict("not decided", f"{_HIDDEN}{advice}")
            off = self._off_for((*outstanding, *self._single_nans(special)))
        return self._verdict("equal") if off is None else off

    def _agree_on_squares(self) -> bool:
        """Whether all elements agree where each root and logarithm is one of a square, and such
        residues are met for each element.
        """
        undecided = {pair: ~numpy.zeros_like(pair.decided) for pair in self.pairs}
        with residues.of_squares_only(), residues.uninterpreted_noted():
            for seed in range(_SEEDS_OF_SQUARES):
                try:
                    agreements = self._agreements(seed, rounds=self.again.rounds)
                except UnsupportedOperation:
                    return False
                for pair, (same, known) in agreements.items():
                    if (known & ~same).any():
                        return False
                    undecided[pair] &= ~known
                if not any(each.any() for each in undecided.values()):
                    return True
        return False

    def _off_in_pieces(self) -> Equality | None:
        """The verdict if residues differ where tensors hold few different numbers, which meet more
        of the conditions on two elements.
        """
        if not any(side.conditions.are_noted() for side in (self.first, self.second)):
            return None
        for inputs in (SMALL, *OF_FEW):
            agreements: dict[ResultPair, Any] = {}
            laws = residues.of_squares_only() if self.by_squares else nullcontext()
            with suppress(Exception), self.holding(inputs), laws:  # an index, torch
                agreements = self._agreements(given=True)
            for pair, (same, known) in agreements.items():
                if (known & ~same).any():
                    reason = f"{_IN_PIECES} {inputs.words} differ"
                    return self._unequal(pair, known & ~same, reason, inputs)
        return None

    def _unseen(self, *, floats: bool) -> Equality | None:
        """The verdict if a condition, on floats too if these count, always had one outcome."""
        tensors = {t.data_ptr(): t for side in (self.first, self.second) for _, t in side.tensors()}
        varied = (t for place, t in tensors.items() if place not in self._fixed)
        integers = any(not t.is_floating_point() for t in varied)
        for side in (self.first, self.second):
            unseen = side.unseen_condition(lambda of_integers: integers if of_integers else floats)
            if unseen is not None:
                reason = f"{unseen[0]}, {_NOT_SEEN}"
                return self._verdict("not decided", reason, position=unseen[1])
        return None

    def _off_for(self, several: Iterable[Inputs]) -> Equality | None:
        """The verdict if a run with floats differs: "different" where residues of the same numbers
        do too, but not random ones, so that neither rounding nor overflow is the reason.
        """
        for inputs in several:
            for pair, results in self._runs(inputs):
                off = self._off(pair, results) & inputs.counts(*results)
                if off.any():
                    floats = _farthest(off, results)
                    reason = f"{_ONLY_FLOATS} {inputs.words} differs{inputs.why}"
                    sizes = int(off.sum()), off.numel()
                    element = UnequalElement(pair.names[0], floats[0], *sizes, floats)
                    if self._is_exact(inputs, pair, off.numpy()):
                        position = self._stored_at(pair, floats[0])
                        return self._verdict("different", reason, element, position)
                    return self._verdict("not decided", reason, element)
        return None

    def _outstanding(self, special: Sequence[Inputs], *, is_known: bool) -> list[Inputs] | None:
        """Inputs in which each element decides what one of many can; None if they are too many.
        `special`: those that are not finite, if they count; `is_known`: all finite ones agree.
        """
        is_extreme = self._choices <= _EXTREMES
        if not self._choices or (is_extreme and self._agree_under(residues.maxima_of_all())):
            return []
        if self._choices >= _EXTREMES and not is_known:  # another element may hide each
            return None
        chosen = [tensor for tensor in self._varied() if tensor.dtype != torch.bool]
        return outstanding_inputs(chosen, () if is_known else (1.0, -1.0), bool(special))

    def _single_nans(self, special: Sequence[Inputs]) -> list[Inputs]:
        """Inputs with single elements that are NaN, if the results may not multiply the same
        numbers by 0, as `where(mask, x, 0)` and `x * mask` do not.
        """
        if not (special and self.has_zeros) or self._agree_under(residues.zeros_as_factors(), 1):
            return []
        tensors = [tensor for tensor in self._varied() if tensor.is_floating_point()]
        if any(tensor.numel() > MOST_NANS for tensor in tensors):
            self.not_tried.append(
                f"Single NaN were tried in {MOST_NANS} places of each row and tensor, not in all."
            )
        return single_nans(tensors)

    def _varied(self) -> list[torch.Tensor]:
        """The tensors that the two read and that inputs change, each once."""
        tensors = {t.data_ptr(): t for side in (self.first, self.second) for t in side.read()}
        return [t for place, t in tensors.items() if place not in self._fixed and t.numel()]

    def _agree_under(self, law: AbstractContextManager[object], seed: int = 0) -> bool:
        """Whether the results agree under another law of residues."""
        with law, residues.uninterpreted_noted():
            if self.by_squares:
                return self._agree_on_squares()
            agreements = self._agreements(seed, rounds=self.again.rounds)
        return all((same & known).all() for same, known in agreements.values())

    def _agreements(self, seed: int = 0, **options: bool) -> dict[ResultPair, Any]:
        """The `agreement` of the results of one more run with residues."""
        sides = self.first, self.second
        results = [side.run(fresh_tensors(seed, *sides, **options)) for side in sides]
        return {
            pair: agreement(*(each[name].numpy() for each, name in zip(results, pair.names)))
            for pair in self.pairs
        }

    def _is_exact(self, inputs: Inputs, pair: ResultPair, off: numpy.ndarray) -> bool:
        """Whether residues of what the tensors hold in a run with floats differ where these do. Of
        many floats that are not whole numbers, residues are not looked up: it takes seconds.
        """
        tensors = (tensor for side in (self.first, self.second) for _, tensor in side.tensors())
        count = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
        is_whole = inputs in (SMALL, ZEROS) or inputs.outstanding is not None
        are_unlike = any(pair.differs.any() for pair in self.pairs) and not self.by_squares
        if are_unlike or (count > _MOST_FLOATS and not is_whole):
            return False
        with suppress(KernelLabError), self.holding(inputs):
            same, known = self._agreements(given=True)[pair]
            return not self.again.rounds and bool((known & ~same & off).any())
        return False

    def saw(self, first: Side, second: Side, *, also_before: bool) -> None:
        """Run both with expressions of special numbers, and take over which outcomes of conditions
        these runs and others had.

        Args:
            also_before: whether those of the runs with residues count.
        """
        for inputs in (SMALL, ZEROS, CONSTANTS):
            with suppress(KernelLabError), self.holding(inputs):
                for side in (first, second):
                    side.run(fresh_tensors(0, first, second, given=True))
        for side, other in ((self.first, first), (self.second, second)):
            if also_before:
                other.conditions.add(side.conditions)
            side.conditions = other.conditions

    def _of_orders(self) -> Iterator[tuple[KernelSide, str]]:
        """The kernels that may show the order of their programs, and by which atomics."""
        for side in (self.first, self.second):
            if isinstance(side, KernelSide) and side.ordered:
                yield side, " or ".join(side.ordered)

    def _in_other_orders(self, side: KernelSide) -> str:
        """Which element of a kernel's results depends on the order of its programs."""

        def fresh() -> ExactTensors:
            return fresh_tensors(0, self.first, self.second, rounds=self.again.rounds)

        usual = side.run_again(fresh())
        for results in side.in_other_orders(fresh):
            for name in side.written():
                same, known = agreement(usual[name].numpy(), results[name].numpy())
                off = numpy.argwhere(known & ~same)
                if len(off):
                    element = element_text(name, tuple(map(int, off[0])))
                    return f"{element} depends on the order of the programs of {side.name},"
        return ""

    @cached_property
    def order_notes(self) -> tuple[str, ...]:
        """Notes on what was not examined of kernels that may show the order of their programs."""
        return tuple(
            f"{side.name} may show the order of its programs by {names}: "
            f"{1 + len(OTHER_ORDERS)} orders were compared, not all."
            for side, names in self._of_orders()
        )

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
            *(
                f"`{name}` is written by {side.name} alone, and not compared."
                for number, side in enumerate((self.first, self.second))
                for name in side.written()
                if name not in {pair.names[number] for pair in self.pairs}
            ),
            *(f"One of the two fails with {words}." for words in dict.fromkeys(self.refused)),
            *dict.fromkeys((*self.order_notes, *self.not_tried)),
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

    def _unequal(
        self, pair: ResultPair, off: numpy.ndarray, otherwise: str, *more: Inputs
    ) -> Equality:
        """The verdict if elements are off: "different" only if floats show it."""
        floats = self._visible(pair, more)
        if floats is not None:
            visible = floats[0].numpy()
            off = (off & ~self._equal_by_other_laws(pair, visible)) | visible
        index = tuple(int(place) for place in numpy.argwhere(off)[0])
        shown = None if floats is None else _farthest(*floats)
        element = UnequalElement(pair.names[0], index, int(off.sum()), off.size, shown)
        position = self._stored_at(pair, index)
        if floats is None:
            return self._verdict("not decided", otherwise, element, position)
        reason = "" if pair.differs.any() else otherwise
        return self._verdict("different", reason, element, position)

    def _equal_by_other_laws(self, pair: ResultPair, shown: numpy.ndarray) -> numpy.ndarray:
        """Which elements may differ only because nothing is known about a function, or because a
        root or a logarithm is not one of a square.

        Args:
            shown: the elements that differ in a run with floats.
        """
        if self.uninterpreted:
            return ~shown
        equal = numpy.zeros_like(pair.differs)
        with residues.of_squares_only(), suppress(UnsupportedOperation):
            for seed in range(_SEEDS_OF_SQUARES):
                same, known = self._agreements(seed, rounds=self.again.rounds)[pair]
                equal |= known & same
                if known.all() or (equal | shown).all():
                    break
        return equal

    def _why_not_visible(self) -> str:
        reason = _NOT_VISIBLE
        if self.uninterpreted:
            functions = ", ".join(self.uninterpreted)
            reason += (
                f"; nothing is known of {functions} but that equal arguments give equal results"
            )
        return reason

    def _stored_at(self, pair: ResultPair, index: tuple[int, ...]) -> SourcePosition | None:
        for side, name in zip((self.first, self.second), pair.names):
            if isinstance(side, KernelSide):
                position = side.stored_at(name, index, self.again)
                if position is not None:
                    return position
        return None

    def _visible(
        self, pair: ResultPair, more: Sequence[Inputs]
    ) -> tuple[torch.Tensor, Floats] | None:
        """Where the first run with floats that shows a difference does, and its results."""
        for inputs in (GIVEN, NORMAL, *more):
            for each, results in self._runs(inputs):
                off = self._off(pair, results) & (inputs is GIVEN or inputs.counts(*results))
                if each is pair and off.any():
                    return off, results
        return None

    def _runs(self, inputs: Inputs) -> Iterator[tuple[ResultPair, Floats]]:
        """Run both with floats; yield each pair with its two results."""
        sides = self.first, self.second
        try:
            with self.holding(inputs):
                results = [side.run_floats() for side in sides]
        except Exception as error:  # an assertion, an index or a function refuses the inputs
            if inputs is GIVEN or isinstance(error.__cause__, OutOfTime):
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
    def holding(self, inputs: Inputs) -> Iterator[None]:
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
                generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + inputs.seed)
                normal = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
                made = make(normal, tensor.dtype, self._constants)
                far = inputs.outstanding
                if far is not None and far.tensor.data_ptr() == place:
                    made = far.put(made)
                tensor.detach().copy_(made)
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


_MOST_FLOATS = 4_096

_SEEDS_OF_SQUARES = 48
"""Each root and logarithm that an element depends on leaves it unknown in half of them."""

_HIDDEN = "One element of many decides, and not each of them was tried"

_EXTREMES = {"maximum", "minimum"}

_NOT_SEEN = "so what it decides was not compared"

_TIMES_ROUNDING = 4
"""How many times the usual tolerance of a dtype a visible difference is."""


def _without_residue(pair: ResultPair) -> str:
    count = int((~pair.decided).sum())
    return (
        f"{counted(count, 'element')} of {pair.names[0]} {'has' if count == 1 else 'have'} "
        f"{_NO_RESIDUE}: NaN, or a product of an exponential and a logarithm"
    )


_NO_RESIDUE = "no residue in both"


def _finite(result: torch.Tensor) -> torch.Tensor:
    """A result with large numbers for infinities, which no tolerance excuses."""
    return result.double().nan_to_num(nan=float("nan"), posinf=1e300, neginf=-1e300)


# `kernellab.equal`: whether two computations are the same for all inputs.


@parameters_first(parameter_names)
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
    proof: bool = False,
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
        proof: whether both also run with expressions, whose equality proves "equal" for these
            sizes. It takes seconds, and small sizes; if there is no proof, a note says why.

    Returns:
        The Equality: "equal"; "different", with the first element, the line that stores it, and
        values of a run with floats that differ visibly; or "not decided", with the reason. It is
        true only if they are equal.

    Raises:
        ArgumentError: neither is a kernel, or the results differ in shape or number.
        OptionError: an option has another value, or `proof` is combined with rounding="kept".
        CompileError, KernelFault, GridError: as `kernellab.run`.
    """
    check_whole("seeds", seeds, 1)
    check_choice("rounding", rounding, get_args(Rounding))
    check_choice("inputs", inputs, get_args(Domain))
    check_flags(proof=proof)
    if proof and rounding == "kept":
        raise OptionError(
            'proof=True needs rounding="ignored", got "kept".',
            advice='A proof is about real numbers: remove proof=True or rounding="kept".',
        )

    def sides(rounds: bool) -> tuple[Side, Side]:
        return sides_of(first, second, grid, args, keywords or {}, target, rounds=rounds)

    def compared(rounds: bool) -> Comparison:
        return _compared(*sides(rounds), seeds, inputs, rounds=rounds)

    try:
        comparison = compared(rounding == "kept")
        equality = comparison.equality()
        if proof or (_may_be_proved(equality) and rounding == "ignored"):
            return _with_proof(equality, comparison, lambda: sides(False))
        if rounding == "kept" and equality.difference is not None and compared(False).equality():
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


def _compared(first: Side, second: Side, seeds: int, inputs: Domain, *, rounds: bool) -> Comparison:
    pairs: tuple[ResultPair, ...] = ()
    zeros: list[bool] = []
    with residues.uninterpreted_noted() as uninterpreted:
        for seed in range(seeds):
            is_last = seed == seeds - 1  # of the first, half are small numbers
            note = residues.noting_zeros(lambda: zeros.append(True))
            with note if is_last else nullcontext():
                results = [
                    side.run(fresh_tensors(seed, first, second, rounds=rounds))
                    for side in (first, second)
                ]
            pairs = pairs or paired(first, second, *results)
            for pair in pairs:
                pair.note(*results)
    again = fresh_tensors(0, first, second, rounds=rounds)
    kernels = [side for side in (first, second) if isinstance(side, KernelSide)]
    if not any(pair.differs.any() for pair in pairs) and all(
        side.stores_nothing(fresh_tensors(0, first, second)) for side in kernels
    ):
        names = " and ".join(dict.fromkeys(side.name for side in kernels))
        raise UnsupportedOperation(
            f"The mask of no store is true in {names}, so nothing was compared.",
            position=kernels[0].store,
        )
    functions = tuple(sorted(uninterpreted))
    return Comparison(first, second, seeds, pairs, functions, again, inputs, bool(zeros))


_ONLY_FLOATS = "The exact values agree, and a run with"

_IN_PIECES = "The exact values of"

_NOT_VISIBLE = "The exact values differ, and runs with floats show no difference"


def _may_be_proved(equality: Equality) -> bool:
    """Whether expressions may decide what residues and floats do not."""
    reason = equality.reason
    of_given = f"{_ONLY_FLOATS} {GIVEN.words}"
    is_hope = reason.startswith((_NOT_VISIBLE, _IN_PIECES, _HIDDEN, of_given))
    return is_hope or reason.endswith(_NOT_SEEN) or _NO_RESIDUE in reason


def _with_proof(
    equality: Equality, comparison: Comparison, sides: Callable[[], tuple[Side, Side]]
) -> Equality:
    """The additions of runs with expressions to a verdict: a proof of "equal", or the expressions
    of the first element that differs, or the reason why there is neither. Expressions know the
    signs of constants and exponentials, which residues do not.
    """
    terms, off, why, points = Terms(), None, "", 0
    with residues.computing_with(terms), residues.uninterpreted_noted():
        try:
            first, second = sides()
            off = _first_unequal(terms, first, second, equality)
            why = f"the expressions of {off.text} differ." if off is not None else ""
        except OrderNotKnown as unknown:
            why = unknown.problem
        except UnsupportedOperation as unknown:
            return replace(equality, notes=(*equality.notes, f"Not proved: {unknown.problem}"))
        try:
            is_open = equality.verdict != "different" or _may_be_proved(equality)
            is_open &= not equality.reason.startswith(_HIDDEN)  # random points do not show it
            while why and is_open and points < comparison.seeds:
                terms.move_to(points)
                off = _first_unequal(terms, first, second, equality)
                if off is not None:
                    break
                points += 1
        except UnsupportedOperation:
            points = 0
        if points and off is None and _may_be_proved(equality):
            comparison.saw(first, second, also_before=equality.reason.endswith(_NOT_SEEN))
    if (points or not why) and off is None and _may_be_proved(equality):
        equality = comparison.after_floats(by_residues=False, is_known=not why)
    if why and (equality or off is None):
        seen = f" At {counted(points, 'random point')} they agree." if points and not off else ""
        equality = replace(equality, notes=(*equality.notes, f"Not proved: {why}{seen}"))
    if off is not None:
        equality = replace(equality, expressions=off.expressions)
        if off.element is not None and equality.verdict == "not decided":
            reason = "Real numbers at a random point show the difference"
            equality = replace(equality, verdict="different", reason=reason, difference=off.element)
    return replace(equality, proved=bool(equality) and not why and not comparison.order_notes)


@dataclass(frozen=True)
class _UnequalExpressions:
    """The first element of which both have other expressions, or one that is known to differ."""

    text: str
    expressions: tuple[str, str]
    element: UnequalElement | None
    """With the values of the two at a random point, None if they may be the same."""


def _first_unequal(
    terms: Terms, first: Side, second: Side, equality: Equality
) -> _UnequalExpressions | None:
    results = [side.run(fresh_tensors(0, first, second)) for side in (first, second)]
    for left, right in (pair.names for pair in paired(first, second, *results)):
        both = results[0][left].numpy(), results[1][right].numpy()
        off = numpy.argwhere(~terms.agreement(*both)[0])
        if len(off):
            known = equality.difference
            is_same = known is not None and known.tensor == left
            at = known.index if known and is_same else tuple(map(int, off[0]))
            a, b = both[0][at], both[1][at]
            numbers, element = terms.numbers(a, b), None
            if numbers is not None:
                element = UnequalElement(left, at, len(off), both[0].size, (at, *numbers))
            texts = terms.text(a, b), terms.text(b, a)
            return _UnequalExpressions(element_text(left, at), texts, element)
    return None
