"""The way up from a record to the views, of which nothing is imported before it is needed."""

from __future__ import annotations

from typing import Any

from kernellab.common import upcalls


def show(record: Any, *annotations: Any, **options: Any) -> Any:
    """The view of a record: as the last expression of a cell it is displayed.

    Args:
        record: a `Compilation`, a `Comparison`, a `CompileError`, a `Trace`, a `Layout`, a tile's
            or all of a compilation's, a `Conversion`, a `Tuning`, `Tunings`.
        annotations: of a compilation, or two: what `kernellab.check`, `kernellab.accesses`
            and `kernellab.read_ncu` give. The explorer shows findings in its margin and
            numbers as bars.
        options: what the view of such a record takes.

    A record without a view, such as the findings of a check, is shown as its card.

    Raises:
        ArgumentError: nothing shows it, or evidence is of something else.
        OptionError: its view takes no such option.
        ProfileError: a profile is of other machine code.
    """
    return upcalls.views().show(record, *annotations, **options)


def can_show(record: Any) -> bool:
    """Whether `show` has a view, or a card, of such a record."""
    return bool(upcalls.views().can_show(record))


def text_of(record: Any) -> str:
    """What `print` writes of a record that has a card: the card as text."""
    return str(upcalls.views().card(record).text())


def plot(record: Any, **options: Any) -> Any:
    """The matplotlib figure of a record that has one: as the last expression of a cell it is
    displayed.

    Args:
        record: a `SharedMemory`, a `TensorMemory`, a `Layout` or a tile's, a `Tuning`, `Tunings`.
        options: what the figure of such a record takes.
    """
    return upcalls.views().plot(record, **options)


class HasCard:
    """A record that has a card, which is what a notebook displays of it."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        view = upcalls.views().displayed(self)
        if view is None:
            raise NotImplementedError  # IPython then calls `_repr_mimebundle_`
        view._ipython_display_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude  # IPython picks from what is given
        card = upcalls.views().card(self)
        return {"text/plain": card.text(), "text/html": card.html()}


class PrintsAsCard(HasCard):
    """A record that `print` shows as its card, too."""

    __slots__ = ()

    def __str__(self) -> str:
        return text_of(self)


def described(thing: Any) -> str:
    """What something is, by its class: "a Tensor", "an int"."""
    name = type(thing).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
