"""Words that messages, cards and figures have in common."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 config", "1,024 configs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def joined_sizes(sizes: Iterable[int]) -> str:
    """A shape or a grid: "128x64"; "" without dimensions."""
    return "x".join(map(str, sizes))
