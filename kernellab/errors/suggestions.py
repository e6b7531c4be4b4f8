"""Help with spelling: the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: object, known: Iterable[str]) -> str:
    """Return "Did you mean X?" with the known word that `word` is probably a typo of, or "" if
    there is none or `word` is not a word: no guess is better than a wrong one.
    """
    if not isinstance(word, str) or len(word) > _LONGEST:
        return ""
    bare = word.lstrip("-*").casefold()
    close = []
    for candidate in known:
        other = candidate.lstrip("-*").casefold()
        alike = difflib.SequenceMatcher(None, bare, other).ratio()
        # Few slips are in the first letter: words that begin differently have to be very alike.
        if alike >= (_ALIKE if bare[:1] == other[:1] else _VERY_ALIKE):
            close.append((alike, candidate))
    return f"Did you mean {max(close)[1]!r}?" if close else ""


_LONGEST = 100
"""Letters: what two words have in common takes the product of their lengths to find."""

_ALIKE = 0.6
"""The part of two words' letters that agrees in order, as difflib counts,
from which one may be a slip of the other."""


_VERY_ALIKE = 0.8


def suggestion(word: object, known: Iterable[str], lead: str) -> str:
    """Advice on a name that no one knows: the one that was probably meant, and what there is;
    of very many, the one alone.

    Args:
        lead: what the list begins with, such as "Its tensors are".
    """
    names = list(dict.fromkeys(known))
    guess = nearest(word, names)
    if guess and len(names) > _MANY:
        return guess
    return f"{guess} {lead} {', '.join(names) or 'none'}.".lstrip()


_MANY = 24
