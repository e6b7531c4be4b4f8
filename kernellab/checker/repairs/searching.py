"""Look for a change of a kernel that makes a launch right, by trying changes one by one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kernellab.checker.repairs.rewrites import Family, Rewrite
from kernellab.checker.repairs.sources import NotReadable, Source

Maker = Callable[[Sequence[str]], Sequence[Any]]
"""Makes kernels of sources; None for one that does not compile."""

Judge = Callable[[str, Any], bool]
"""Returns whether a kernel, made of a source, is right."""


@dataclass(frozen=True)
class Tries:
    """How much is tried.

    Attributes:
        seconds: no try begins later.
        most: the most sources.
        batch: how many sources are made together.
    """

    seconds: float
    most: int
    batch: int = 1


@dataclass(frozen=True)
class Found:
    """A change that makes a launch right.

    Attributes:
        reason: what was wrong.
        source: the changed source.
    """

    reason: str
    source: str


def search(
    source: Source, families: Sequence[Family], make: Maker, judge: Judge, tries: Tries
) -> Found | None:
    """Return the first change whose kernel is right; None if none of those that were tried is."""
    end = time.monotonic() + tries.seconds
    candidates = itertools.islice(_distinct(_in_turn(source, families), source.text), tries.most)
    for rewrite, kernel in _kernels(candidates, make, tries.batch):
        if time.monotonic() > end:
            return None
        if kernel is not None and judge(rewrite.text, kernel):
            return Found(rewrite.reason, rewrite.text)
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


def _in_turn(source: Source, families: Sequence[Family]) -> Iterator[Rewrite]:
    """Yield the changes of all kinds, some of each kind in turn."""
    try:
        waiting = [family(source) for family in families]
        while waiting:
            for changes in tuple(waiting):
                some = list(itertools.islice(changes, _TURN))
                yield from some
                if len(some) < _TURN:
                    waiting.remove(changes)
    except NotReadable:
        return


def _distinct(rewrites: Iterable[Rewrite], text: str) -> Iterator[Rewrite]:
    seen = {text}
    for rewrite in rewrites:
        if rewrite.text not in seen:
            seen.add(rewrite.text)
            yield rewrite
