"""Atomics on a flat array: as if one element after the other were read, changed and written,
in the order given.

Elements at different addresses do not see each other, so only those at one address have to take
turns. Addresses that a few elements share take theirs together, round by round; one that many share
runs alone, as one accumulation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy

Array = numpy.ndarray

UFUNCS = {
    "and": numpy.bitwise_and,
    "or": numpy.bitwise_or,
    "xor": numpy.bitwise_xor,
    "add": numpy.add,
    "fadd": numpy.add,
    "max": numpy.maximum,
    "min": numpy.minimum,
    "umax": numpy.maximum,
    "umin": numpy.minimum,
}

_ROUNDS = 64
"""An address that more elements share runs alone:
so there are few rounds, and few that run alone."""


def apply(operation: str, elements: Array, targets: Array, operands: Array) -> None:
    """Update `elements` at `targets`, when the earlier values are not needed.

    Args:
        operation: one of `UFUNCS`, or "exchange".
    """
    if operation == "exchange":
        elements[targets] = operands  # where targets are equal, NumPy lets the last one win
        return
    elements, operands = _as_compared(operation, elements, operands)
    UFUNCS[operation].at(elements, targets, operands)


def update(operation: str, elements: Array, targets: Array, operands: Array) -> Array:
    """As `apply`; returns what each target held when its turn came."""
    of_type = elements.dtype
    elements, operands = _as_compared(operation, elements, operands)

    def step(old: Array, lanes: Array | slice) -> Array:
        if operation == "exchange":
            return operands[lanes]
        written: Array = UFUNCS[operation](old, operands[lanes])
        return written

    def alone(first: Array, lanes: Array) -> Array:
        states = numpy.concatenate([first, operands[lanes]])
        if operation == "exchange":
            return states
        accumulated: Array = UFUNCS[operation].accumulate(states, dtype=states.dtype)
        return accumulated

    return _in_turns(elements, targets, step, alone).view(of_type)


def compare_and_swap(elements: Array, targets: Array, expected: Array, replacement: Array) -> Array:
    """Write `replacement` where the target holds `expected`; returns what it held. All are bits:
    unsigned integers.
    """

    def step(old: Array, lanes: Array | slice) -> Array:
        return numpy.where(old == expected[lanes], replacement[lanes], old)

    def alone(first: Array, lanes: Array) -> Array:
        state = first.item()
        states = [state]
        for compared, new in zip(expected[lanes].tolist(), replacement[lanes].tolist()):
            state = new if state == compared else state
            states.append(state)
        return numpy.array(states, first.dtype)

    return _in_turns(elements, targets, step, alone)


def _as_compared(operation: str, elements: Array, operands: Array) -> tuple[Array, Array]:
    """Both as unsigned integers where the operation takes them for such."""
    if operation not in ("umax", "umin"):
        return elements, operands
    bits = f"u{elements.itemsize}"
    return elements.view(bits), operands.view(bits)


def _in_turns(
    elements: Array,
    targets: Array,
    step: Callable[[Array, Array | slice], Array],
    alone: Callable[[Array, Array], Array],
) -> Array:
    """Update `elements` at `targets`; returns what each target held when its turn came.

    Args:
        step: (what is found, lanes) -> what is written, for lanes with targets that differ.
        alone: (what is found first, lanes) -> the states of one target: what its lanes find one
            after the other, and what remains.
    """
    if (targets[1:] > targets[:-1]).all():
        untouched: Array = elements[targets]
        elements[targets] = step(untouched, slice(None))
        return untouched
    old = numpy.empty(targets.shape, elements.dtype)
    order = targets.argsort(kind="stable")
    ordered = targets[order]
    begins = numpy.flatnonzero(numpy.append(True, ordered[1:] != ordered[:-1]))
    counts = numpy.diff(begins, append=len(targets))
    crowded = counts > _ROUNDS
    for begin, count in zip(begins[crowded], counts[crowded]):
        lanes, target = order[begin : begin + count], ordered[begin : begin + 1]
        states = alone(elements[target], lanes)
        old[lanes], elements[target] = states[:-1], states[-1]
    begins, counts = begins[~crowded], counts[~crowded]
    for turn in range(counts.max(initial=0)):
        lanes = order[begins[counts > turn] + turn]
        old[lanes] = elements[targets[lanes]]
        elements[targets[lanes]] = step(old[lanes], lanes)
    return old
