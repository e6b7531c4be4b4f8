"""The way up, from a record to the room of the screens, of which nothing is imported before it
is needed.
"""

from __future__ import annotations

from typing import Any

from kernellab.common import doors
from kernellab.common.argument_faults import names_bad_arguments


@names_bad_arguments
def show(record: Any, *annotations: Any, **options: Any) -> Any:
    """The view of a record: as the last expression of a cell it is displayed.

    Args:
        record: a `Compilation`, a `Comparison`, a `CompileError`, a `Trace`, a `Layout`, a tile's
            or all of a compilation's, a `Conversion`, a `Tuning`, `Tunings`.
        annotations: of a compilation, or two: what `kernellab.check`, `kernellab.accesses`
            and `kernellab.read_ncu` give. The explorer shows findings in its margin and
            numbers as bars.
        options: what the view of such a record takes.

    A record that has no view of its own, such as what a check found, is shown as its card.

    Raises:
        ArgumentError: nothing shows it, or evidence is of something else.
        OptionError: its view takes no such option.
        ProfileError: a profile is of other machine code.
    """
    return doors.views().show(record, *annotations, **options)


def can_show(record: Any) -> bool:
    """Whether `show` has a view, or a card, of such a record."""
    return bool(doors.views().can_show(record))


def text_of(record: Any) -> str:
    """What `print` writes of a record that has a card: the card as text."""
    return str(doors.views().card(record).text())


def plot(record: Any, **options: Any) -> Any:
    """The matplotlib figure of a record that has one: as the last expression of a cell it is
    displayed.

    Args:
        record: a `SharedMemory`, a `TensorMemory`, a `Layout` or a tile's, a `Tuning`, `Tunings`.
        options: what the figure of such a record takes.
    """
    return doors.views().plot(record, **options)


class HasCard:
    """A record that has a card, which is what a notebook displays of it."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        view = doors.views().displayed(self)
        if view is None:
            raise NotImplementedError  # IPython asks `_repr_mimebundle_` then
        view._ipython_display_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude  # IPython picks from what is given
        card = doors.views().card(self)
        return {"text/plain": card.text(), "text/html": card.html()}


def described(thing: Any) -> str:
    """What something is, by its class: "a Tensor", "an int"."""
    name = type(thing).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
