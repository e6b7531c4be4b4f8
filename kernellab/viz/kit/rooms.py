"""The way from one view of a launch to a place in another: one message, and who answers it.

A live view sends {"kind": "open", "room": "ir", "at": {"stage": "ptx"}}. The answer holds the data
of that room's view, and the place in it, since what is meant may have to be looked up: a finding's
step. What the view asks for later comes as {"kind": "within", "room": "ir", "asked": ...}, and goes
to the view's own handlers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kernellab.common.argument_checks import listed
from kernellab.common.formatting import shown
from kernellab.errors import KernelLabError, OptionError, suggestion
from kernellab.viz.kit.data import At, Door, as_json
from kernellab.viz.kit.requests import Answer, Handler, answer


class Entered(Protocol):
    """The view of a room."""

    number: int
    """Tells it from all other views of this process."""

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """What answers its requests."""

    def sent(self) -> bytes:
        """Its packed data, as a widget sends it."""


class Rooms:
    """The views of one launch, which lead to each other. A subclass says which there are."""

    def __init__(self) -> None:
        self._entered: dict[str, Entered] = {}

    @property
    def doors(self) -> Sequence[Door]:
        """The rooms, in the order in which a bar names them."""
        raise NotImplementedError

    def enter(self, room: str, at: At) -> tuple[Any, At]:
        """The view of a room, the same one as before unless `at` asks for more than it has, and
        the place in it that is meant.

        Raises:
            KernelLabError: there is no such view, or it cannot be made.
        """
        raise NotImplementedError

    def chosen(self, rooms: Sequence[str] | None) -> list[tuple[Door, Any]]:
        """The views of these rooms, in the order of their doors; None for those that were entered.

        Raises:
            OptionError: there is no way to one of them.
            KernelLabError: its view cannot be made.
        """
        names = [door.room for door in self.doors]
        rooms = None if rooms is None else listed("rooms", rooms)
        for room in rooms or ():
            if room not in names:
                raise OptionError(
                    f"there is no way to {shown(room)} from here.",
                    advice=suggestion(room, names, "There are"),
                )
        wanted = self._entered if rooms is None else rooms
        return [(door, self.enter(door.room, {})[0]) for door in self.doors if door.room in wanted]

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """What answers the requests of whoever shows one of the views."""
        return {"open": self._open, "within": self._within}

    def _open(self, asked: Mapping[str, Any]) -> Answer:
        room, at = str(asked.get("room")), asked.get("at")
        if room not in {door.room for door in self.doors}:
            raise KernelLabError(f"There is no way to {room!r} from here.")
        view, place = self.enter(room, _plain(at))
        self._entered[room] = view
        buffers = [] if asked.get("shown") == view.number else [view.sent()]
        return Answer({"view": view.number, "at": as_json(place)}, buffers)

    def _within(self, asked: Mapping[str, Any]) -> Answer:
        view, inner = self._entered.get(str(asked.get("room"))), asked.get("asked")
        found = None if view is None else answer(view.handlers, inner)
        if found is None:
            raise KernelLabError("The view has nobody to ask for that.")
        return found


def _plain(at: Any) -> At:
    """A place as it came from a front end: lists are tuples, what is no place is left out."""
    if not isinstance(at, dict):
        return {}
    found: dict[str, int | str | tuple[int, ...]] = {}
    for name, value in at.items():
        if isinstance(value, list) and all(type(one) is int for one in value):
            found[str(name)] = tuple(value)
        elif type(value) in (int, str):
            found[str(name)] = value
    return found
