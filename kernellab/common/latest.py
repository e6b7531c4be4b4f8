"""What was used last, and no more than so many."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Latest(Generic[Value]):
    """Values by key, of which those go that were not asked for the longest.

    Threads may share it: at worst one finds nothing where another has looked just then.
    """

    def __init__(self, most: int) -> None:
        """Nothing yet, and never more than so many."""
        self._most = most
        self._values: dict[Hashable, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, which becomes the latest; None where it is not kept."""
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def get_or_make(self, key: Hashable | None, make: Callable[[], Value]) -> Value:
        """The value of a key, made and kept where there is none; for no key, made each time."""
        known = None if key is None else self.get(key)
        if known is not None:
            return known
        made = make()
        if key is not None:
            self.keep(key, made)
        return made

    def keep(self, key: Hashable, value: Value) -> None:
        """Keep a value as the latest."""
        self._values[key] = value
        for oldest in list(self._values)[: -self._most]:
            self._values.pop(oldest, None)
