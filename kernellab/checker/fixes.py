"""Fixes that were tried: the search for a change that makes wrong results right."""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from kernellab import triton_api
from kernellab.checker.kernel_source import (
    NotReadable,
    Source,
    in_brackets,
    is_condition,
    mask_argument,
)
from kernellab.checker.records import Finding, Findings, Proposal
from kernellab.checker.rewrites import (
    LIKELY,
    WAITS,
    WRONG,
    WRONG_IN_FEW,
    Family,
    Rewrite,
    dtypes,
    names_in,
    waits_before,
    written,
)
from kernellab.checker.session import Work
from kernellab.common.system import OutOfTime, limited
from kernellab.common.text import called, element_text, number_text
from kernellab.errors import Change, SourcePosition, changes_between
from kernellab.launch.results import Within, elements_off, is_finite, is_within
from kernellab.records.launches import DEFAULT

# What wrong results say by themselves: each function compares them with the expected ones, and
# returns a sentence, or None if it has nothing to say. Nothing runs.
#
# To recognize another relation, add a function to `READINGS`. The first sentence is reported.


_LARGEST = 1 << 22
"""The most elements of a result that are compared in all these ways."""


@dataclass(frozen=True)
class WrongTensor:
    """A result that is wrong.

    Attributes:
        got, want: the kernel's result, and the expected one.
        allowed: how far each element may be off; a tensor of their shape, float64.
        values: the arguments of the launch before it, by parameter.
        text: the kernel's source from `def` on.
    """

    name: str
    got: torch.Tensor
    want: torch.Tensor
    allowed: torch.Tensor
    values: Mapping[str, Any]
    text: str

    @cached_property
    def left(self) -> torch.Tensor:
        """The kernel's result, float64."""
        return self.got.double()

    @cached_property
    def right(self) -> torch.Tensor:
        """The expected result, float64."""
        return self.want.double()

    @cached_property
    def off(self) -> torch.Tensor:
        return elements_off(self.left, self.right, self.allowed)

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The numbers of the launch, by parameter."""
        return {
            name: float(value)
            for name, value in self.values.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and value
        }

    def can_read(self) -> bool:
        """Return whether the results can be compared element by element, and differ."""
        is_small = self.want.numel() <= _LARGEST and self.got.shape == self.want.shape
        return is_small and not self.want.is_complex() and bool(self.off.any())

    def is_expected(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor equals the expected one, and is not constant."""
        return tensor.shape == self.right.shape and bool(
            not elements_off(tensor, self.right, self.allowed).any()
        )


Reading = Callable[[WrongTensor], str | None]


def never_used(result: WrongTensor) -> str | None:
    """A parameter or a variable that the kernel does not use at all."""
    source = _readable(result)
    if source is None:
        return None
    used = {node.id for node in source.names()}
    for name, value in result.values.items():
        if name not in used and name not in source.constants:
            verb = "never read" if isinstance(value, torch.Tensor) else "never used"
            return f"{name} is {verb}."
    unused = next((name for name in source.assigned if name not in used), None)
    return None if unused is None else f"{unused} is computed, and never used."


def _readable(result: WrongTensor) -> Source | None:
    source = Source(result.text, result.values)
    try:
        return source if source.kernel else None
    except NotReadable:
        return None


def overwritten(result: WrongTensor) -> str | None:
    """A store in a loop goes to the same place each iteration, with a value that does not grow."""
    source = _readable(result)
    for loop in source.loops() if source else ():
        nodes = [node for part in loop.body for node in ast.walk(part)]
        made, grown = _made_in(loop, nodes)
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            if called(call) != "store" or len(call.args) < 2:
                continue
            place, value = map(names_in, call.args[:2])
            if result.name in place and not place & made and not value & grown:
                words = " ".join(source.of(call.args[0]).split()) if source else ""
                return (
                    f"Each iteration of the loop stores to {words}, over what the one before it "
                    "stored: only the last one counts."
                )
    return None


def _made_in(loop: ast.For | ast.While, nodes: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the variables that a loop writes, and those that depend on an earlier iteration."""
    made = written(loop)
    needs: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            needs.setdefault(node.targets[0].id, set()).update(names_in(node.value))
    for _ in needs:
        for own in needs.values():
            own |= set().union(*(needs.get(name, set()) for name in own))
    looped = {*names_in(loop.target)} if isinstance(loop, ast.For) else set()
    carried = {name for name in made - looped if name in needs.get(name, {name})}
    return made, {name for name in made if name in carried or needs.get(name, set()) & carried}


def scaled(result: WrongTensor) -> str | None:
    """All elements are off by one factor."""
    usable = result.left.isfinite() & result.right.isfinite() & (result.right.abs() > 1e-6)
    usable &= result.left.abs() > 1e-12
    if usable.sum() < 2:
        return None
    ratios = result.left[usable] / result.right[usable]
    ratio = float(ratios.median())
    if abs(ratio - 1) < 1e-3 or ratio == 0 or not math.isfinite(ratio):
        return None
    allowed = result.allowed * max(1.0, abs(ratio)) * 2
    allowed += 1e-4 * result.left.abs()
    if elements_off(result.left, result.right * ratio, allowed).any():
        return None
    if abs(ratio + 1) < 1e-3:
        return f"Every element of {result.name} has the wrong sign."
    return f"Every element of {result.name} is {_factor(result, ratio)} the expected value."


def _factor(result: WrongTensor, ratio: float) -> str:
    known = {**result.numbers, "ln 2": math.log(2), "log2(e)": 1 / math.log(2)}
    for name, number in known.items():
        value = "" if name not in result.numbers else f" ({number_text(number)})"
        if math.isclose(ratio, number, rel_tol=1e-3):
            return f"{name}{value} times"
        if name in result.numbers and math.isclose(ratio, 1 / number, rel_tol=1e-3):
            return f"1 / {name}{value} times"
    is_two = 2.0 in (round(ratio, 3), round(1 / ratio, 3))  # as many pairs have it
    pairs = itertools.permutations(result.numbers.items(), 2)
    for (mine, first), (other, second) in () if is_two else pairs:
        if math.isclose(ratio, first / second, rel_tol=1e-3):
            return f"{mine} / {other} ({number_text(first)} / {number_text(second)}) times"
    return f"{number_text(ratio)} times"


def shifted_by_a_number(result: WrongTensor) -> str | None:
    """All elements are off by one difference."""
    if result.left.numel() < 2 or not bool(result.left.isfinite().all()):
        return None
    distance = result.left - result.right
    if not bool(distance.isfinite().all()):
        return None
    number = float(distance.median())
    limit = result.allowed * 2 + 1e-6 * (result.left.abs() + abs(number))
    is_clear = abs(number) > 2 * float(limit.max())  # of smaller numbers, any would fit
    if not is_clear or not bool(((distance - number).abs() <= limit).all()):
        return None
    name = next((n for n, v in result.numbers.items() if math.isclose(abs(number), v)), "")
    words = f"{name} = {number_text(abs(number))}" if name else number_text(abs(number))
    return f"Every element of {result.name} is too {'large' if number > 0 else 'small'} by {words}."


def rearranged(result: WrongTensor) -> str | None:
    """The expected elements in other places: transposed, reversed, shifted, or rows exchanged."""
    left, right = result.left, result.right
    if right.numel() < 2 or bool((right == right.reshape(-1)[0]).all()):
        return None
    if right.ndim == 2:
        turned = left.reshape(right.shape[1], right.shape[0]).T
        if result.is_expected(turned):
            return f"{result.name} is transposed: its rows and columns are swapped."
    for axis in range(right.ndim):
        if result.is_expected(left.flip(axis)):
            along = f" along axis {axis}" if right.ndim > 1 else ""
            return f"{result.name} is reversed{along}."
    flat, wanted = left.reshape(-1), right.reshape(-1)
    limit = result.allowed.reshape(-1)
    for step in (1, 2):
        for sign, words in ((step, "behind"), (-step, "ahead of")):
            mine, theirs = (
                (flat[sign:], wanted[:-sign]) if sign > 0 else (flat[:sign], wanted[-sign:])
            )
            tolerance = limit[:-sign] if sign > 0 else limit[-sign:]
            if mine.numel() > 3 and not elements_off(mine, theirs, tolerance).any():
                place = "place" if step == 1 else "places"
                return f"Every element of {result.name} is {step} {place} {words} its own."
    return None


def equals_an_argument(result: WrongTensor) -> str | None:
    """The result is an argument, unchanged."""
    for name, value in result.values.items():
        if isinstance(value, torch.Tensor) and value.shape == result.got.shape:
            is_one_number = bool((value == value.reshape(-1)[:1]).all())
            if name == result.name or is_one_number:
                continue
            if bool(torch.equal(value.double(), result.left)):
                return f"{result.name} has the elements of {name}, unchanged."
    return None


def function_of_expected(result: WrongTensor) -> str | None:
    """The result is a simple function of the expected one."""
    want = result.right
    if want.numel() < 2:
        return None
    forms = {
        "the exponential of": want.exp(),
        "the logarithm of": want.log(),
        "the square of": want * want,
        "the square root of": want.sqrt(),
        "1 divided by": 1 / want,
        "the absolute value of": want.abs(),
    }
    for words, tensor in forms.items():
        close = (tensor - result.left).abs() <= result.allowed + 1e-4 * tensor.abs()
        differs = not bool((tensor == want).all())
        if differs and bool(close.all()) and bool(tensor.isfinite().all()):
            return f"Every element of {result.name} is {words} the expected value."
    return None


def one_number(result: WrongTensor) -> str | None:
    """All elements are one number, which the expected ones are not."""
    flat = result.left.reshape(-1)
    if (
        flat.numel() > 1
        and bool((flat == flat[0]).all())
        and bool((result.right != result.right.reshape(-1)[0]).any())
    ):
        return f"Every element of {result.name} is {number_text(float(flat[0]))}."
    return None


def one_expected(result: WrongTensor) -> str | None:
    """One number is expected wherever the result is wrong."""
    want, got = result.right[result.off], result.left[result.off]
    if len(want) < 2 or bool((result.right == want[0]).all()) or not bool((want == want[0]).all()):
        return None
    number = float(want[0])
    name = next((name for name, value in result.numbers.items() if value == number), "")
    expected = f"{number_text(number)} ({name})" if name else number_text(number)
    if bool((got == got[0]).all()):
        left = number_text(float(got[0]))
        return f"Every wrong element of {result.name} is {left}, expected {expected}."
    return f"The expected value of every wrong element of {result.name} is {expected}."


def _broadcast_arguments(result: WrongTensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the arguments of floats whose shape broadcasts to that of a result."""
    right = result.right
    for name, value in result.values.items():
        if not isinstance(value, torch.Tensor) or name == result.name:
            continue
        if value.is_floating_point():
            own = value.double()
            if own.ndim == 1 and right.ndim == 2 and len(own) == len(right) != right.shape[1]:
                own = own[:, None]
            if own.shape in (right.shape, right.shape[-1:], (*right.shape[:1], 1)):
                yield name, own


def one_element_for_all(result: WrongTensor) -> str | None:
    """The first element of an argument is used where each element or row has its own."""
    left, right = result.left, result.right
    for name, own in _broadcast_arguments(result):
        first, limit = own.reshape(-1)[0], result.allowed * own.abs().clamp(min=1)
        is_factor = bool(first) and _are_close(left * own, right * first, limit)
        if is_factor or _are_close(left - first + own, right, result.allowed):
            element = element_text(name, [0] * result.values[name].ndim)
            return f"Every element of {result.name} is computed with {element}, not with its own."
    return None


def wrong_where_equal(result: WrongTensor) -> str | None:
    """The wrong elements are those for which two arguments have the same number."""
    values = {
        name: value
        for name, value in result.values.items()
        if isinstance(value, torch.Tensor) and value.shape == result.off.shape
        if name != result.name
    }
    for names in itertools.combinations(values, 2):
        if not result.off.all() and torch.equal(operator.eq(*map(values.get, names)), result.off):
            which = " and ".join(names)
            return f"The wrong elements of {result.name} are those where {which} are equal."
    return None


def does_not_fit(result: WrongTensor) -> str | None:
    """Expected integers do not fit into the type of the argument, which has their low bits."""
    kind = result.got.dtype
    if any(each.is_floating_point or each == torch.bool for each in (kind, result.want.dtype)):
        return None
    limits = torch.iinfo(kind)
    outside = result.want[(result.want < limits.min) | (result.want > limits.max)]
    if not outside.numel() or bool((result.want.to(kind) != result.got).any()):
        return None
    return (
        f"{result.name} is {limits.dtype}, which holds {limits.min:,} to {limits.max:,}; "
        f"{number_text(int(outside[0]))} is stored as {number_text(int(outside[0].to(kind)))}. "
        "Pass a tensor of a wider type."
    )


def an_argument_is_missing(result: WrongTensor) -> str | None:
    """A factor or a term, an argument or one of each row's numbers, is missing or once too many."""
    left, right = result.left, result.right
    for name, value in result.values.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point() and name != result.name:
            if sentence := _number_of_rows(result, name, value.double()):
                return sentence
    for name, own in _broadcast_arguments(result):
        for what, join, allowed in (
            ("factor", torch.mul, result.allowed * own.abs().clamp(min=1)),
            ("term", torch.add, result.allowed),
        ):
            if _are_close(join(left, own), right, allowed):
                return f"The {what} {name} is missing from every element of {result.name}."
            if _are_close(left, join(right, own), allowed):
                return f"Every element of {result.name} has the {what} {name} one time too many."
    return None


def _number_of_rows(result: WrongTensor, name: str, own: torch.Tensor) -> str:
    """Return by which number of each row of an argument a result is off; "" if by none."""
    if own.ndim != 2 or not own.numel() or result.right.shape != own.shape[:1]:
        return ""
    for words, row in (("largest element", own.amax(1)), ("sum", own.sum(1))):
        for size, sign in (("small", 1), ("large", -1)):
            if _are_close(result.left + sign * row, result.right, result.allowed):
                whose = f"the {words} of its row of {name}"
                return f"Every element of {result.name} is too {size} by {whose}."
    return ""


def _are_close(mine: torch.Tensor, other: torch.Tensor, allowed: torch.Tensor) -> bool:
    limit = 4 * allowed + 1e-5 * other.abs()
    return bool(mine.isfinite().all()) and not bool(elements_off(mine, other, limit).any())


def elements_of_an_input(result: WrongTensor) -> str | None:
    """The expected elements are elements of an argument, and the kernel took others of it."""
    wrong = result.off.nonzero().tolist()
    if not wrong:
        return None
    for name, value in result.values.items():
        places = [
            _place_of(side[tuple(place)], value)
            for place in _looked_at(result, wrong)
            for side in (result.want, result.got)
        ]
        if name == result.name or None in places:
            continue
        here, there = (place or [] for place in places[:2])
        more = [wrong[len(wrong) // 2], wrong[-1]]
        turned = value.ndim > 1 and all(
            (place := _place_of(result.want[tuple(index)], value)) is not None
            and place[::-1] == _place_of(result.got[tuple(index)], value)
            for index in (wrong[0], *more)
        )
        element = element_text(result.name, wrong[0])
        return (
            f"The expected value of {element} is {element_text(name, here)}, and the kernel took "
            f"{element_text(name, there)}{': rows and columns are swapped' if turned else ''}."
        )
    return None


def _place_of(number: torch.Tensor, value: Any) -> list[int] | None:
    """Return where an argument has a number; None unless it has it in one place."""
    if not isinstance(value, torch.Tensor) or value.dtype != number.dtype:
        return None
    places = (value == number).nonzero().tolist() if value.is_floating_point() else []
    return places[0] if len(places) == 1 else None


def an_element_of_an_input(result: WrongTensor) -> str | None:
    """The expected element is an element of an argument."""
    wrong = result.off.nonzero().tolist()
    for name, value in result.values.items():
        here = [_place_of(result.want[tuple(place)], value) for place in _looked_at(result, wrong)]
        if name != result.name and None not in here:
            if float(result.want[tuple(wrong[0])]) not in (0.0, 1.0, -1.0):
                element = element_text(result.name, wrong[0])
                return f"The expected value of {element} is {element_text(name, here[0] or [])}."
    return None


def _looked_at(result: WrongTensor, wrong: Sequence[list[int]]) -> Sequence[list[int]]:
    """Return the places that must agree: several in a narrow type, whose numbers often repeat."""
    is_wide = result.want.element_size() > 2 or len(wrong) < 3
    return wrong[:1] if is_wide else (wrong[0], wrong[len(wrong) // 2], wrong[-1])


def as_before(result: WrongTensor) -> str | None:
    """The wrong elements are as before the launch, though atomics combine values with them."""
    before = result.values.get(result.name)
    if not isinstance(before, torch.Tensor) or "tl.atomic_" not in result.text:
        return None
    here = before.double().reshape(result.left.shape)[result.off]
    if not torch.equal(here, result.left[result.off]):
        return None
    place = tuple(result.off.nonzero()[0].tolist())
    return (
        f"{element_text(result.name, place)} is still what it was before the launch: an atomic "
        "starts from that value."
    )


def only_some(result: WrongTensor) -> str | None:
    """Which elements are wrong: those from a place on, or of some rows or columns."""
    off = result.off
    if off.all() or off.numel() < 4:
        return None
    for axis in range(off.ndim):
        others = tuple(n for n in range(off.ndim) if n != axis)
        along = off.any(dim=others) if others else off
        wrong = along.nonzero().reshape(-1)
        first, last, size = int(wrong[0]), int(wrong[-1]), len(along)
        region = off.narrow(axis, first, last - first + 1)
        # Of a border, or of single elements, it would say too much.
        if len(wrong) == last - first + 1 < size and 2 * int(region.sum()) >= region.numel():
            which = "elements" if off.ndim == 1 else ("rows", "columns")[axis] if axis < 2 else ""
            name = next((n for n, v in result.numbers.items() if v == first and first > 1), "")
            start = f"{first} ({name})" if name else str(first)
            is_rest = last == size - 1
            if which and first == last:
                return f"Only {which[:-1]} {start} is wrong."
            if which and (first or not is_rest):
                places = f"from {start} on" if is_rest else f"{start} to {last}"
                return f"Only {which} {places} are wrong."
    return None


READINGS: tuple[Reading, ...] = (
    does_not_fit, overwritten, as_before, never_used, one_number, scaled, shifted_by_a_number,
    rearranged, equals_an_argument, function_of_expected, one_element_for_all,
    an_argument_is_missing, wrong_where_equal, one_expected, elements_of_an_input, only_some,
    an_element_of_an_input,
)  # fmt: skip


EXACT: tuple[Reading, ...] = (
    scaled, shifted_by_a_number, rearranged, function_of_expected, an_argument_is_missing,
)  # fmt: skip
"""Those that state a relation between each element and its expected value."""


def reading(result: WrongTensor, readings: Sequence[Reading] = READINGS) -> str:
    """Return what a wrong result says; "" if no sentence fits."""
    return next(filter(None, (read(result) for read in readings)), "") if result.can_read() else ""


def likely_families(result: WrongTensor) -> list[Family]:
    """Return the families of changes that a wrong result suggests: see rewrites.toml."""
    if not result.can_read():
        return []
    signs = [] if bool(result.left.isfinite().all()) else ["not_finite"]
    if not result.want.is_floating_point() and torch.equal(result.got, result.want.int()):
        signs.append("low_bits")
    signs += [read.__name__ for read in READINGS if read.__name__ in LIKELY and read(result)]
    return [family for sign in signs or ["unclear"] for family in LIKELY[sign]]


# Look for a change of a kernel that makes a launch right, by trying changes one by one.


Maker = Callable[[Sequence[str]], Sequence[Any]]
"""Makes kernels from sources; None for one that does not compile."""

Judge = Callable[[Rewrite, Any], bool]
"""Returns whether a kernel with a changed source is right."""


@dataclass(frozen=True)
class Tries:
    """How much is tried.

    Attributes:
        seconds: no try begins later; on a busy machine, none after three times as long.
        batch: how many sources are made together.
    """

    most: int
    seconds: float = math.inf
    batch: int = 1


def search(
    source: Source,
    families: Sequence[Family],
    make: Maker,
    judge: Judge,
    tries: Tries,
    likely: Sequence[Family] = (),
) -> Rewrite | None:
    """Return the first change whose kernel is right, or None; families `likely` come first."""
    start, busy = time.monotonic(), time.process_time()
    rewrites = _distinct(_in_turn(source, families, likely), source.text)
    candidates = itertools.islice(rewrites, tries.most)
    for rewrite, kernel in _kernels(candidates, make, tries.batch):
        wait = time.monotonic() - start
        is_slow = time.process_time() - busy < tries.seconds / 2  # other processes had the time
        if wait > tries.seconds * (3 if is_slow else 1):
            return None
        if kernel is not None and judge(rewrite, kernel):
            return rewrite
    return None


def _kernels(
    candidates: Iterator[Rewrite], make: Maker, batch: int
) -> Iterator[tuple[Rewrite, Any]]:
    """Yield changes with their kernels; while those of a batch run, those of the next compile."""
    with ThreadPoolExecutor(1) as compiling:

        def begun() -> tuple[list[Rewrite], Future[Sequence[Any]]] | None:
            rewrites = list(itertools.islice(candidates, batch))
            texts = [each.text for each in rewrites]
            return (rewrites, compiling.submit(make, texts)) if rewrites else None

        current = begun()
        while current is not None:
            following = begun()
            yield from zip(current[0], current[1].result(), strict=True)
            current = following


_TURN = 6
"""How many changes of a kind are tried before it is the turn of the next kind."""


_LIKELY = (8, 40, 270)
"""How many changes of each likely kind are tried first, then of each and of all together, before
other kinds.
"""


def _in_turn(
    source: Source, families: Sequence[Family], likely: Sequence[Family]
) -> Iterator[Rewrite]:
    """Yield the changes of likely kinds, then those of all kinds, some of each kind in turn."""
    try:
        few, more, together = _LIKELY
        for most in (few, min(more, together // max(len(likely), 1))):
            for family in likely:
                yield from itertools.islice(family(source), most)
        waiting = [family(source) for family in families]
        while waiting:
            for changes in tuple(waiting):
                some = list(itertools.islice(changes, _TURN))
                yield from some
                if len(some) < _TURN:
                    waiting.remove(changes)
    except NotReadable:
        return


def nearest(family: Family, line: int) -> Family:
    """Return the changes of a family, those near a line of the source (from 0) first."""

    def rewrites(source: Source) -> Iterator[Rewrite]:
        old = source.text.splitlines()

        def distance(rewrite: Rewrite) -> int:
            pairs = enumerate(itertools.zip_longest(old, rewrite.text.splitlines()))
            return abs(next((at for at, (mine, other) in pairs if mine != other), 0) - line)

        return iter(sorted(family(source), key=distance))

    return rewrites


def _distinct(rewrites: Iterable[Rewrite], text: str) -> Iterator[Rewrite]:
    seen = {text}
    for rewrite in rewrites:
        if rewrite.text not in seen:
            seen.add(rewrite.text)
            yield rewrite


MOST_TRIES = 100
"""The most changes that are tried for a wrong result."""

MOST_WORK = 60_000_000
"""The most work of a check for which changes are tried, and of all tries for findings about
asynchronous operations, since a check stops early at these; see `session.Work`. A processor does 8
to 35 million a second. It is counted, not timed, so that a loaded machine shows the same fixes.
"""

_MOST_SEARCH = 2 * MOST_WORK
"""The most work of the tries for a wrong result together."""

_SECONDS = 20.0
"""A changed kernel that runs longer counts as endless."""

_SEARCHED: Mapping[str, tuple[Family, ...]] = {"wrong-result": WRONG, "rounding": (dtypes,)}
"""The kinds of findings for which changes are searched -> those that are tried."""

_MOST_WAITS = 36
"""The most changes that are tried for a finding about asynchronous operations."""

_MASKED = ("out-of-bounds", "race", "lane-collision")
"""The kinds of findings that a missing mask may cause."""

_MOST_PLACES = 3
"""The most places of a proposal's expression that are tried."""

_MOST_FINDINGS = 4
"""The most findings for which changes are tried."""


@dataclass(frozen=True)
class Trial:
    """The launch on which changes are tried.

    Attributes:
        results: runs the launch with a kernel, and options of the run and other arguments if they
            are given, on copies of the arguments, and returns those.
        work: what the check took; see `session.Work`.
    """

    kernel: Any
    values: Mapping[str, Any]
    grid: Sequence[int]
    examine: Callable[..., Findings]
    results: Callable[..., Mapping[str, Any]]
    expected: Mapping[str, Within]
    work: int
    removed: dict[tuple[str, str], set[tuple[str, str]]] = field(default_factory=dict)
    """By the key of a finding, those of the findings that its change removes."""
    _waits_tried: list[str] = field(default_factory=list)
    """The sources that were tried for findings about asynchronous operations."""
    _work_for_waits: Work = field(default_factory=lambda: Work(most=MOST_WORK))

    def completed(self, findings: Findings) -> Findings:
        """Return the findings with the changes that were tried and help."""
        if not findings.findings or self.cannot_try():
            return findings
        known: list[Finding] = []
        left = _MOST_FINDINGS
        for finding in findings.findings:
            is_fixed = any(each.verified and each.kind in WAITS for each in known)  # all of them
            is_tried = left > 0 and (
                finding.kind in _SEARCHED
                or (finding.kind in WAITS and not is_fixed)
                or bool(self._proposals(finding))
                or (finding.kind in _MASKED and bool(self._unused_masks))
            )
            left -= is_tried
            with warnings.catch_warnings(action="ignore"):  # of Triton, about a change
                known.append(self._with_fix(finding, findings) if is_tried else finding)
        return replace(findings, findings=tuple(self._with_others(each, known) for each in known))

    def _with_others(self, finding: Finding, known: Sequence[Finding]) -> Finding:
        """Return a finding without a change with that of another finding, if it removes both."""
        for other in () if finding.verified else known:
            if other.changes and key_of(finding) in self.removed.get(key_of(other), ()):
                advice = (
                    f"The change of line {other.changes[0].line} for the finding {other.kind} was "
                    "tried, and removes this one too."
                )
                return replace(finding, advice=advice, changes=other.changes, verified=True)
        return finding

    def cannot_try(self) -> bool:
        """Return whether a change would take too long, or has no source to be made in."""
        return (
            self.work > MOST_WORK
            or triton_api.is_given(self.kernel)
            or triton_api.is_variant(self.kernel)
        )

    @property
    def _source(self) -> Source:
        return Source(str(self.kernel.src), self.values, self.grid)

    def _with_fix(self, finding: Finding, before: Findings) -> Finding:
        if finding.kind in _MASKED and self._unused_masks:
            return self._with_unused_mask(finding, before)
        if finding.kind in WAITS:
            return self._with_wait(finding, before) if self.kernel.is_gluon() else finding
        if finding.kind not in _SEARCHED:
            return self._with_proposal(finding, before)
        if before.of_kind("overwritten-argument"):
            return finding  # no change of the kernel keeps what the other argument overwrites
        if rows := self._rearranged(before):
            return self._of_strides(finding, rows)
        repair = self._searched(finding, self._judge(finding, before))
        if repair is not None and not self._is_computed(finding.argument, repair.text):
            return finding
        if repair is None and finding.kind == "rounding":
            return finding
        origin = self._said(finding, (elements_of_an_input,))
        if repair is None:
            relation = "" if finding.cause else self._said(finding)
            said = " ".join(dict.fromkeys(filter(None, (origin, relation))))
            return replace(finding, advice=f"{said} {finding.advice}".strip())
        changes = self._changes(repair.text)
        remaining = {*map(key_of, before.findings)} - self.removed.get(key_of(finding), set())
        is_all = not any(kind == "wrong-result" for kind, _ in remaining)
        effect = "the results agree" if finding.kind == "rounding" else "the results are right"
        effect = effect if is_all else f"{finding.argument} is right"
        words = fix_words(repair.reason, f"With this change, {effect}", changes)
        if finding.kind == "rounding":
            words = f"{finding.advice} {words}"
        elif origin:
            words = f"{origin} {words}"
        return replace(finding, advice=words, changes=changes, verified=True)

    def _rearranged(self, before: Findings) -> Mapping[str, torch.Tensor]:
        """Return contiguous copies of the tensors that are read or written by other strides."""
        names = {
            each.argument
            for each in before.findings
            if each.kind in ("ignored-strides", "out-of-bounds")
        }
        return {
            name: value.detach().contiguous()
            for name, value in self.values.items()
            if name in names and isinstance(value, torch.Tensor) and not value.is_contiguous()
        }

    def _of_strides(self, finding: Finding, rows: Mapping[str, torch.Tensor]) -> Finding:
        """Return a wrong result that strides explain: a change of the kernel would only hide it."""
        left = self._left_by(self.kernel, DEFAULT, rows)
        if left is None or not is_within(left[finding.argument], self.expected[finding.argument]):
            return finding
        names = " and ".join(rows)
        noun = "a contiguous copy" if len(rows) == 1 else "contiguous copies"
        words = f"With {noun} of {names} (.contiguous()), which was tried, {finding.argument} is"
        return replace(finding, advice=f"{words} right.")

    def _is_computed(self, argument: str, source: str) -> bool:
        """Return whether a right result comes from the changed kernel, and not from before."""
        given, due = self.values.get(argument), self.expected[argument]
        if not isinstance(given, torch.Tensor) or not is_within(given, due):
            return True
        (kernel,) = self._with_changed(self.kernel, [source])
        left = self._left_by(kernel, DEFAULT, {argument: (given.detach() == 0).to(given.dtype)})
        return left is not None and is_within(left[argument], due)

    def _searched(self, finding: Finding, judge: Judge) -> Rewrite | None:
        tries = Tries(min(MOST_TRIES, _MOST_SEARCH // max(self.work, 1)))
        make = functools.partial(self._with_changed, self.kernel)
        families, wrong = _SEARCHED[finding.kind], self._wrong(finding)
        likely: Sequence[Family] = ()
        if wrong and finding.kind == "wrong-result":
            likely = likely_families(wrong)
            if _says_little(self.expected[finding.argument]):
                families = WRONG_IN_FEW
                likely = [family for family in likely if family in families]
        try:
            return search(self._source, families, make, judge, tries, likely)
        except OutOfTime:  # a changed kernel that does not end; others may not, either
            return None

    def _with_wait(self, finding: Finding, before: Findings) -> Finding:
        """Return a finding about asynchronous operations with a tried change that removes it."""
        functions = self._functions(finding)
        kind, position = finding.kind, finding.position
        for number, function in itertools.product(range(len(WAITS[kind])), functions):
            line = triton_api.definition_of(function).line
            near = 0 if position is None else position.line - line
            source = Source(str(function.src), {})
            is_first = kind == "missing-wait" and not waits_before(source, near)
            together = WAITS["first-wait" if is_first else kind][number]
            families = [nearest(family, near) for family in together]
            make = functools.partial(self._with_changed, function)
            most = min(_MOST_WAITS, _MOST_SEARCH // max(self.work, 1))
            tries = Tries(max(most - len(self._waits_tried), 0))
            repair = search(source, families, make, functools.partial(self._waits, before), tries)
            if repair is not None:
                changes = changes_between(str(function.src), repair.text, line)
                words = fix_words(repair.reason, "With this change, which was tried", changes)
                return replace(finding, advice=words, changes=changes, verified=True)
        return finding

    def _waits(self, before: Findings, change: Rewrite, kernel: Any) -> bool:
        """Return whether nothing is missing with another kernel, and its results are the same
        whether operations complete early or late, and hold nothing that was never written.
        """
        self._waits_tried.append(change.text)
        if not self._helps(kernel, None, before, self._work_for_waits):
            return False
        runs = (replace(DEFAULT, completion=how) for how in ("late", "early"))
        late, early = (self._left_by(kernel, run) for run in runs)
        if late is None or early is None:
            return False
        return all(
            bool(((value == late[name]) | value.isnan()).all())
            and (is_finite(value) or not is_finite(self.values[name]))
            for name, value in early.items()
        )

    def _left_by(self, kernel: Any, *options: Any) -> Mapping[str, Any] | None:
        try:
            with limited(_SECONDS):
                return self.results(kernel, *options)
        except Exception:  # a run that fails has no results
            return None

    def _functions(self, finding: Finding) -> list[Any]:
        kernel, place = self.kernel, finding.position
        names = dict.fromkeys(node.id for node in self._source.names())
        named = triton_api.functions_within(kernel.fn.__globals__.get(name) for name in names)
        functions = {triton_api.definition_of(each): each for each in (kernel, *named) if each.fn}
        file = triton_api.definition_of(kernel).file
        own = [(where, each) for where, each in functions.items() if where.file == file]

        def distance(item: tuple[SourcePosition, Any]) -> tuple[bool, int]:
            apart = 0 if place is None else place.line - item[0].line
            return apart < 0, abs(apart)

        return [each for _, each in sorted(own, key=distance)]

    def _with_changed(self, function: Any, sources: Sequence[str]) -> list[Any]:
        """Return the kernel with a function of its file, or itself, made of other sources."""
        made = [triton_api.with_source(function, source) for source in sources]
        if function is self.kernel:
            return made
        helpers = ({function.__name__: each} for each in made)
        own = str(self.kernel.src)
        return [triton_api.with_source(self.kernel, own, helpers=each) for each in helpers]

    @cached_property
    def _unused_masks(self) -> Mapping[str, ast.expr]:
        try:
            source = self._source
            read = {name.id for name in source.names()}
            return {
                name: value
                for name, value in source.assigned.items()
                if is_condition(value) and name not in read
            }
        except NotReadable:
            return {}

    def _with_unused_mask(self, finding: Finding, before: Findings) -> Finding:
        for name, value in self._unused_masks.items():
            fails = _failing(self._source, value, {**self.values, **finding.values})
            said = f"The mask {name} is made and never used{fails}."
            proposal = Proposal(f"Pass mask={name}.", "", name)
            tried = self._with_proposal(replace(finding, proposals=(proposal,)), before)
            if tried.verified:
                advice = f"{said} {proposal.words} {TRIED}"
                return replace(tried, advice=advice)
        if finding.proposals:
            return self._with_proposal(finding, before)
        return finding

    def _judge(self, finding: Finding, before: Findings) -> Judge:
        def judge(_: Rewrite, kernel: Any) -> bool:
            try:
                with limited(_SECONDS):
                    after = self.results(kernel)
            except OutOfTime:
                raise
            except Exception:  # whatever it raises, it does not help
                return False
            is_right = is_within(after[finding.argument], self.expected[finding.argument])
            return is_right and self._helps(kernel, finding, before)

        return judge

    def _said(self, finding: Finding, readings: Sequence[Reading] | None = None) -> str:
        wrong = self._wrong(finding)
        if wrong is None:
            return ""
        return reading(wrong, READINGS if readings is None else readings)

    def _wrong(self, finding: Finding) -> WrongTensor | None:
        name = finding.argument
        if self._left is None or name not in self._left or name not in self.expected:
            return None
        due, text = self.expected[name], str(self.kernel.src)
        return WrongTensor(name, self._left[name], due.values, due.allowed, self.values, text)

    @cached_property
    def _left(self) -> Mapping[str, Any] | None:
        return self._left_by(self.kernel)

    def _proposals(self, finding: Finding) -> Sequence[Proposal]:
        """Return what a finding proposes; for an access outside, else, the kernel's own masks."""
        return finding.proposals or (self._masks if finding.kind == "out-of-bounds" else ())

    @cached_property
    def _masks(self) -> Sequence[Proposal]:
        try:
            conditions = self._source.conditions
        except NotReadable:
            return ()
        return [
            Proposal(f"Add mask={condition}.", "", condition, replaces_advice=True)
            for condition in conditions[:_MOST_PLACES]
        ]

    def _with_proposal(self, finding: Finding, before: Findings) -> Finding:
        for proposal in self._proposals(finding):
            sources = dict.fromkeys(proposed(self._source, self.kernel, finding, proposal))
            for source in list(sources)[:_MOST_PLACES]:
                if self._helps(triton_api.with_source(self.kernel, source), finding, before):
                    said = "" if proposal.replaces_advice else finding.advice
                    change = proposal.words
                    if f"mask={proposal.new}, other=0" in source:
                        change = f"Add mask={proposal.new} and other=0."
                    words = f"{said} {change} {TRIED}".strip()
                    return replace(
                        finding, advice=words, changes=self._changes(source), verified=True
                    )
        return finding

    def _helps(
        self, kernel: Any, finding: Finding | None, before: Findings, work: Work | None = None
    ) -> bool:
        """Return whether another kernel loses a finding, or all of these, and gains none."""
        try:
            with limited(_SECONDS):
                after = self.examine(kernel, work)
        except Exception:  # whatever it raises, it does not help
            return False
        remaining, known = ({*map(key_of, side.findings)} for side in (after, before))
        if finding is None:
            of_waits = {key for key in known if key[0] in WAITS}
            self.removed.update(dict.fromkeys(of_waits, known - remaining))
            return remaining <= known and not of_waits & remaining
        if finding.kind == "missing-other" and any(kind == "wrong-result" for kind, _ in remaining):
            return False
        helps = key_of(finding) not in remaining and remaining <= known
        if helps:
            self.removed[key_of(finding)] = known - remaining
        return helps

    def _changes(self, source: str) -> tuple[Change, ...]:
        first = triton_api.definition_of(self.kernel).line
        return changes_between(str(self.kernel.src), source, first)


_HOLDS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _failing(source: Source, condition: ast.expr, values: Mapping[str, Any]) -> str:
    """Return which comparison of a mask is false, as "; n < N is false for n = 40"; "" if none."""
    for node in ast.walk(condition):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left = node.left.value if isinstance(node.left, ast.Subscript) else node.left
        sides = [values.get(source.of(side)) for side in (left, node.comparators[0])]
        holds = _HOLDS.get(type(node.ops[0]))
        if holds is None or not all(isinstance(side, int) for side in sides):
            continue
        if not holds(*sides):
            return f"; {source.of(node)} is false for {source.of(left)} = {sides[0]}"
    return ""


TRIED = "This change was tried: the finding goes away, and no new one appears."


def key_of(finding: Finding) -> tuple[str, str]:
    """Return what findings on one fault have in common, also if lines of the kernel change."""
    return finding.kind, finding.argument


def fix_words(reason: str, effect: str, changes: Sequence[Change]) -> str:
    """Return a change as text: why it is needed, what it does, and the new lines."""
    lines = [
        f"line {change.line}: {change.new if change.new.strip() else 'deleted'}"
        if change.old.strip()
        else f"new line {change.line}: {change.new.strip()}"
        for change in changes
    ]
    return "\n".join([f"{reason} {effect}:", *lines])


def proposed(source: Source, kernel: Any, finding: Finding, proposal: Proposal) -> Iterator[str]:
    """Yield the sources that a proposal may mean: an expression on the line, or its mask."""
    place = finding.position
    if place is None or finding.called_from:
        return
    try:
        statement = _statement_at(source, kernel, place)
    except NotReadable:
        return
    if statement is None:
        return
    if proposal.keyword == "statement":
        yield source.with_line(statement, proposal.new)
        return
    for node in (node for node in source.nodes if source.is_inside(node, statement)):
        if proposal.old and isinstance(node, ast.expr):
            if _same(source.of(node), proposal.old):
                yield source.replaced((node, proposal.new))
        elif proposal.keyword:
            if isinstance(node, ast.Call) and _takes(node, finding):
                keyword = f"{proposal.keyword}={proposal.new}"
                yield source.replaced((node, source.with_argument(node, keyword)))
        elif isinstance(node, ast.Call) and called(node) in ("load", "store", "atomic_add"):
            yield from _masked(source, node, finding.argument, proposal.new)
    for node in source.nodes:  # an index or a mask may have a name, and be on a line above
        if proposal.old and isinstance(node, ast.Compare | ast.BinOp):
            if _same(source.of(node), proposal.old):
                yield source.replaced((node, proposal.new))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                yield from _remainder(source, node, proposal)


def _says_little(due: Within) -> bool:
    """Return whether elements are so few and small that a change may give them by chance."""
    values = due.values.double()
    is_whole = bool((values == values.round()).all()) and bool((values.abs() < 1000).all())
    return is_whole and len({*values.reshape(-1)[:1024].tolist()}) < 3


def _takes(call: ast.Call, finding: Finding) -> bool:
    """Return whether a call is the assertion, or the access of the argument, that is reported."""
    if called(call) == "device_assert":
        return finding.kind == "failed-assertion"
    return called(call) in ("load", "store") and _may_access(call, finding.argument)


def _may_access(call: ast.Call, argument: str) -> bool:
    pointer = call.args[0] if call.args else call
    names = {node.id for node in ast.walk(pointer) if isinstance(node, ast.Name)}
    return argument in names or len(names) == 1  # a_ptrs, which a loop advances


def _remainder(source: Source, node: ast.BinOp, proposal: Proposal) -> Iterator[str]:
    """Yield a remainder that is never negative, if the source has a name for the divisor."""
    dividend, _, divisor = proposal.old.rpartition(" % ")
    if divisor and _same(source.of(node.left), dividend.removeprefix("(").removesuffix(")")):
        whole, named = source.of(node), in_brackets(source.of(node.right))
        yield source.replaced((node, f"({whole} + {named}) % {named}"))


def _masked(source: Source, call: ast.Call, argument: str, condition: str) -> Iterator[str]:
    if not _may_access(call, argument):
        return
    given = mask_argument(call)
    if given is None:
        mask = f"mask={condition}"
        yield source.replaced((call, source.with_argument(call, mask)))
        made = [source.assigned.get(name) for name in names_in(ast.parse(condition))]
        is_of_data = any(isinstance(node, ast.Call) and called(node) == "load" for node in made)
        # Of another mistake in the index, zeros would only hide the effect.
        if called(call) == "load" and (is_of_data or condition in source.conditions):
            yield source.replaced((call, source.with_argument(call, f"{mask}, other=0")))
    else:
        mask = in_brackets(source.of(given))
        yield source.replaced((given, f"{mask} & ({condition})"))


def _same(mine: str, other: str) -> bool:
    return "".join(mine.split()) == "".join(other.split())


def _statement_at(source: Source, kernel: Any, place: SourcePosition) -> ast.stmt | None:
    definition = triton_api.definition_of(kernel)
    line = place.line - definition.line + 1
    if place.file != definition.file:
        return None
    around = [
        node
        for node in source.nodes
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return around[-1] if around else None
