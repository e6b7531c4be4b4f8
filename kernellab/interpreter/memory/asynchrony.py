"""Asynchronous operations that complete when something waits for them, and no earlier: what
generated code calls in a run with `completion="late"` or "shuffled".

Without that, asynchronous operations complete when they are issued, and nothing here is called.
"""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, SimpleNamespace
from typing import Any

import numpy

from kernellab.interpreter.memory import shared_memory
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.tiles import Active, Value, narrowed, some

MOST_IN_FLIGHT = 1024
"""The most operations of one queue in flight. Their tiles are in shared memory, which holds fewer:
such a kernel never waits."""

Effect = Callable[[Active], None]
"""The effect of an operation's completion, for the programs for which it completes."""


@dataclass
class NeverWaitedFor(Exception):
    """More operations are in flight than a program can have, in the terms of one batch."""

    program: int
    """Position of the first program that takes part."""

    what = f"{MOST_IN_FLIGHT:,} asynchronous operations are in flight, and this is one more"
    advice = "Wait for earlier ones: a wait is missing, or it is before the commit."


class Flight:
    """An asynchronous operation, from its issue until it is complete for every program.

    Attributes:
        pending: for each program of the batch, whether the operation is in flight.
        group: for each program, the number of its group in its queue; None if a barrier counts it.
        completed: is called when it completes for some programs.
    """

    def __init__(
        self, effect: Effect, active: Active, programs: int, group: numpy.ndarray | None = None
    ) -> None:
        self._effect = effect
        self.pending = numpy.ones(programs, numpy.bool_) if active is None else active.copy()
        self.group = group
        self.completed: Callable[[], None] = nothing

    def complete(self, programs: numpy.ndarray) -> None:
        """Complete the operation for those of the programs for which it is in flight."""
        done = self.pending & programs
        if done.any():
            self.pending = self.pending & ~done
            self.completed()
            self._effect(some(done))


def nothing(*_: Any) -> None:
    """Does nothing: no one listens to operations, or they were done when issued."""


Issued = Callable[[Flight, str | SharedTile], None]
"""Hears of an operation that was issued, and its queue, or the barrier that counts it."""


class Flights:
    """The operations of one batch that complete in groups, queue by queue; the groups of warps that
    run separate code have separate queues.
    """

    def __init__(
        self,
        programs: int,
        chance: numpy.random.Generator | None = None,
        issued: Issued = nothing,
    ) -> None:
        """Nothing is in flight. With `chance`, operations may complete before a wait."""
        self._issued = issued
        self._programs = programs
        self._chance = chance
        self._queues: dict[str, list[Flight]] = defaultdict(list)
        self._committed: dict[str, numpy.ndarray] = {}

    def issue(self, queue: str, effect: Effect, active: Active = None) -> Flight:
        """Put an operation into the group of its queue that is committed next.

        Raises:
            NeverWaitedFor: there are too many.
        """
        if len(self._queues[queue]) == MOST_IN_FLIGHT:
            self._keep_pending(queue)
        flights = self._queues[queue]
        if len(flights) == MOST_IN_FLIGHT:
            raise NeverWaitedFor(0 if active is None else int(numpy.argmax(active)))
        flight = Flight(effect, active, self._programs, self.committed(queue).copy())
        flights.append(flight)
        self._issued(flight, queue)
        return flight

    def committed(self, queue: str) -> numpy.ndarray:
        """Return the number of committed groups of a queue, for each program."""
        if queue not in self._committed:
            self._committed[queue] = numpy.zeros(self._programs, numpy.int64)
        return self._committed[queue]

    def commit(self, queue: str, active: Active = None) -> None:
        """Close the group of the operations that were issued before."""
        self.committed(queue)[... if active is None else active] += 1
        flights = self._queues[queue]
        if self._chance is not None and flights:
            everyone = numpy.ones(self._programs, numpy.bool_)
            for flight in flights[: self._chance.integers(len(flights) + 1)]:
                flight.complete(everyone)
            self._keep_pending(queue)

    def wait(self, queue: str, pending: int, active: Active = None) -> None:
        """Complete the groups of a queue except for the last `pending` that were committed."""
        done = self.committed(queue) - pending
        for flight in self._queues[queue]:
            over = flight.group < done
            flight.complete(over if active is None else over & active)
        self._keep_pending(queue)

    def _keep_pending(self, queue: str) -> None:
        self._queues[queue] = [each for each in self._queues[queue] if each.pending.any()]

    # Operations

    def copy(self, queue: str, tile: SharedTile, value: Value, active: Active = None) -> None:
        """A copy into shared memory."""
        self.issue(queue, functools.partial(shared_memory.store, tile, value), active)

    def multiply(
        self,
        queue: str,
        tile: SharedTile,
        compute: Callable[[], numpy.ndarray],
        active: Active = None,
    ) -> None:
        """A product of tensor cores that goes to tensor memory."""
        self.issue(queue, lambda done: shared_memory.store(tile, compute(), done), active)

    def before(self, queue: str) -> Effect:
        """Return a function that completes the operations of a queue that were issued so far."""
        self._keep_pending(queue)
        issued = tuple(self._queues[queue])

        def complete(done: Active) -> None:
            everyone = numpy.ones(self._programs, numpy.bool_)
            for flight in issued:
                flight.complete(everyone if done is None else done)

        return complete

    def send(
        self, queue: str, tile: SharedTile, store: Callable[[], None], active: Active = None
    ) -> None:
        """A copy out of shared memory, which `store` has made once: it is made again if the tile
        has changed when it completes.
        """
        issued = shared_memory.load(tile).tobytes()

        def complete(done: Active) -> None:
            together = (done is None) is (active is None) and bool(numpy.all(done == active))
            if together and shared_memory.load(tile).tobytes() != issued:
                store()

        self.issue(queue, complete, active)
        self.commit(queue, active)

    def product(
        self,
        queue: str,
        compute: Callable[[], numpy.ndarray],
        shape: tuple[int, ...],
        dtype: numpy.dtype,
        active: Active = None,
        may_part: bool = False,
    ) -> numpy.ndarray:
        """A product of tensor cores, which reads shared memory when it completes. Its result is NaN
        until then, or -1.

        In a loop or a branch where programs may part (`may_part`), the result is right at once:
        values are copied where they part, before the product completes.
        """
        result = shared_memory.allocate(self._programs, shape, dtype).memory
        if may_part:
            result[...] = compute()

        def complete(done: Active) -> None:
            product = numpy.broadcast_to(compute(), result.shape)
            chosen = ... if done is None else done
            result[chosen] = product[chosen]

        self.issue(queue, complete, active)
        self.commit(queue, active)
        return result


class LateBarriers:
    """Replaces the module `mbarriers` in generated code: copies and products that a barrier counts
    complete when something waits for the barrier's phase, or before, by chance.

    Attributes:
        moves_data: whether copies write their tiles only when they complete; if False, then at
            once, and only the barrier's count is late.
    """

    def __init__(
        self,
        chance: numpy.random.Generator | None = None,
        *,
        moves_data: bool = True,
        issued: Issued = nothing,
    ) -> None:
        self._chance = chance
        self._issued = issued
        self.moves_data = moves_data

    def __getattr__(self, name: str) -> Any:
        return getattr(shared_memory, name)

    def deliver(
        self,
        barrier: SharedTile,
        tile: SharedTile,
        value: Value,
        size: int,
        active: Active = None,
    ) -> None:
        """As `shared_memory.deliver`, later."""
        effect = functools.partial(shared_memory.deliver, barrier, tile, value, size)
        if not self.moves_data:
            shared_memory.store(tile, value, active)
            effect = functools.partial(shared_memory.receive, barrier, size)
        self._issue(barrier, effect, active, is_copy=True)

    def invalidate(self, barrier: SharedTile, active: Active = None) -> None:
        """As `shared_memory.invalidate`.

        An arrival of products is lost: Triton's own warp specialization invalidates barriers at
        which the last products will arrive, because nothing waits for them there.

        Raises:
            NoBarrier: a copy will arrive at the barrier.
        """
        for arrival in barrier.arrivals:
            in_use = arrival.flight.pending & (arrival.addresses == barrier.addresses)
            in_use = narrowed(active, in_use, len(in_use))
            if in_use.any() and arrival.is_copy:
                raise shared_memory.NoBarrier(int(numpy.argmax(in_use)), in_use=True)
            arrival.addresses[in_use] = _LOST
        shared_memory.invalidate(barrier, active)

    def commit(
        self,
        barrier: SharedTile,
        arrivals: int,
        first: Effect = nothing,
        active: Active = None,
    ) -> None:
        """As `shared_memory.commit`, later, and after `first`."""

        shared_memory.check_arrivals(barrier, arrivals, active)

        def complete(done: Active) -> None:
            first(done)
            shared_memory.commit(barrier, arrivals, done)

        self._issue(barrier, complete, active)

    def count_copies(
        self,
        barrier: SharedTile,
        arrivals: int,
        first: Effect = nothing,
        active: Active = None,
    ) -> None:
        """As `shared_memory.count_copies`, later, and after `first`: the phase waits for it, as for
        a byte.
        """
        shared_memory.check_arrivals(barrier, arrivals, active)
        shared_memory.receive(barrier, -1, active)

        def complete(done: Active) -> None:
            first(done)
            shared_memory.receive(barrier, 1, done)
            shared_memory.arrive(barrier, arrivals, done)

        self._issue(barrier, complete, active, is_copy=True)

    def _issue(
        self, barrier: SharedTile, effect: Effect, active: Active, *, is_copy: bool = False
    ) -> None:
        arrivals = barrier.arrivals
        if len(arrivals) == MOST_IN_FLIGHT:
            _keep_to_come(arrivals)
        if len(arrivals) == MOST_IN_FLIGHT:
            raise NeverWaitedFor(0 if active is None else int(numpy.argmax(active)))
        flight = Flight(effect, active, len(barrier.memory))
        frame = sys._getframe(2)
        place = frame.f_code, frame.f_lasti
        arrivals.append(Arrival(barrier.addresses, flight, is_copy, place))
        self._issued(flight, barrier)
        if self._chance is not None:
            for arrival in arrivals[: self._chance.integers(len(arrivals) + 1)]:
                arrival.complete(arrival.to_come)
            _keep_to_come(arrivals)

    def is_under_way(self, barrier: SharedTile, phase: Value, active: Active = None) -> bool:
        """Return True: at every wait, a group of warps lets the others continue first."""
        del barrier, phase, active
        return True

    def wait(self, barrier: SharedTile, phase: Value, active: Active = None) -> None:
        """As `shared_memory.wait`, after what the phase waits for has come."""
        self._complete(barrier, phase, active)
        shared_memory.wait(barrier, phase, active)

    def Waiting(  # noqa: N802 - the module's class
        self, barrier: SharedTile, phase: Value, active: Active = None
    ) -> shared_memory.Waiting:
        """As `shared_memory.Waiting`."""
        return shared_memory.Waiting(barrier, phase, active, self._still_under_way)

    def _still_under_way(self, barrier: SharedTile, phase: Value, active: Active) -> bool:
        self._complete(barrier, phase, active)
        return shared_memory.is_under_way(barrier, phase, active)

    def _complete(self, barrier: SharedTile, phase: Value, active: Active) -> None:
        """Complete what programs wait for, in the order of issue, until their phases complete."""
        addresses = barrier.addresses
        for arrival in barrier.arrivals:
            waiting = shared_memory.waiting_programs(barrier, phase, active)
            if not waiting.any():
                break
            arrival.complete(waiting & (arrival.addresses == addresses))
        _keep_to_come(barrier.arrivals)


_LOST = -1
"""In place of the address of a barrier that was invalidated."""


@dataclass(frozen=True)
class Arrival:
    """An arrival at a barrier that is still to come.

    Attributes:
        addresses: of the barrier, for each program; `_LOST` where it was invalidated.
        is_copy: whether it comes with the bytes of a copy, or when products are done.
        place: where in the generated code it was issued.
    """

    addresses: numpy.ndarray
    flight: Flight
    is_copy: bool
    place: tuple[CodeType, int]

    @property
    def to_come(self) -> numpy.ndarray:
        """For each program, whether it will arrive."""
        to_come: numpy.ndarray = self.flight.pending & (self.addresses != _LOST)
        return to_come

    def complete(self, programs: numpy.ndarray) -> None:
        """Let it arrive for those of the programs for which it is in flight."""
        try:
            self.flight.complete(programs)
        except shared_memory.ExtraArrivals as extra:
            extra.place = self.place
            raise


def _keep_to_come(arrivals: list[Arrival]) -> None:
    arrivals[:] = [arrival for arrival in arrivals if arrival.to_come.any()]


def late_modules(completion: str, seed: int, issued: Issued | None = None) -> dict[str, Any]:
    """Return what generated code calls by name in a run whose operations complete late."""
    hears = nothing if issued is None else issued
    chance = numpy.random.default_rng(seed) if completion == "shuffled" else None
    transfers = SimpleNamespace(Flights=functools.partial(Flights, chance=chance, issued=hears))
    return {"mbarriers": LateBarriers(chance, issued=hears), "transfers": transfers}
