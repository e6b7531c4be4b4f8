"""How records are displayed: by their views and cards, and as tables.

`viz/` is above the records. What displays one imports it when it is called.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar, overload

from kernellab.common.progress import in_notebook
from kernellab.errors import SourcePosition


def show(record: Any, *annotations: Any, **options: Any) -> Any:
    """The view of a record: as the last expression of a cell it is displayed.

    Args:
        record: a `Compilation`, a `Comparison`, a `CompileError`, a `Trace`, a `Layout`, a tile's
            or all of a compilation's, a `Conversion`, a `Tuning`, `Tunings`.
        annotations: of a compilation, or two: what `kernellab.check`, `kernellab.accesses`
            and `kernellab.read_ncu` give. The explorer shows findings in its margin and
            numbers as bars.
        options: the options of this record's view.

    A record without a view, such as the findings of a check, is shown as its card.

    Raises:
        ArgumentError: nothing shows it, or evidence is of something else.
        OptionError: its view takes no such option.
        ProfileError: a profile is of other machine code.
    """
    from kernellab.viz import launch_tabs

    return launch_tabs.show(record, *annotations, **options)


def can_show(record: Any) -> bool:
    """Whether `show` has a view, or a card, of such a record."""
    from kernellab.viz import registry

    return registry.can_show(record)


def text_of(record: Any) -> str:
    """Return what `print` writes of a record that has a card: the card as text."""
    return str(_card_of(record).text())


def _card_of(record: Any) -> Any:
    from kernellab.viz import registry

    card = registry.card(record)
    assert card is not None, "each record that has these methods has a card"
    return card


def plot(record: Any, **options: Any) -> Any:
    """The matplotlib figure of a record that has one, which a cell displays at its end.

    Args:
        record: a `SharedMemory`, a `TensorMemory`, a `Layout` or a tile's, a `Tuning`, `Tunings`.
    """
    from kernellab.viz import registry

    return registry.plot(record, **options)


class HasCard:
    """A record that has a card, which is what a notebook displays of it."""

    __slots__ = ()

    def _ipython_display_(self) -> None:
        view = None
        if in_notebook():  # a card elsewhere, which most are, needs no views
            from kernellab.viz import launch_tabs

            view = launch_tabs.displayed(self)
        if view is None:
            raise NotImplementedError  # IPython then calls `_repr_mimebundle_`
        view._ipython_display_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude  # IPython picks from what is given
        card = _card_of(self)
        return {"text/plain": card.text(), "text/html": card.html()}


class PrintsAsCard(HasCard):
    """A record that `print` shows as its card, too."""

    __slots__ = ()

    def __str__(self) -> str:
        return text_of(self)


def described(thing: Any) -> str:
    """Describe an object by its class: "a Tensor", "an int"."""
    name = type(thing).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def data_frame(rows: Sequence[Any], columns: Sequence[str]) -> Any:
    """A pandas DataFrame of data classes; positions become text."""
    from kernellab.common.pandas_import import pandas

    def cell(value: Any) -> Any:
        return str(value) if isinstance(value, SourcePosition) else value

    data = [[cell(getattr(row, name)) for name in columns] for row in rows]
    return pandas.DataFrame(data, columns=list(columns))


def frame_of(rows: Sequence[Sequence[Any]], columns: Sequence[str]) -> Any:
    """A pandas DataFrame of rows of cells."""
    from kernellab.common.pandas_import import pandas

    return pandas.DataFrame(list(rows), columns=list(columns))


def column_names(kind: type) -> list[str]:
    """The names of a data class's fields, as columns of its table."""
    return [field.name for field in dataclasses.fields(kind)]


Row = TypeVar("Row", covariant=True)


class HasRows(Generic[Row]):
    """A record that goes through the rows in one of its fields."""

    _rows: ClassVar[str]
    """The field's name."""

    def __iter__(self) -> Iterator[Row]:
        return iter(getattr(self, self._rows))

    def __len__(self) -> int:
        return len(getattr(self, self._rows))


class RowSequence(HasRows[Row], Sequence[Row]):
    """A record that is a sequence of the rows in one of its fields."""

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, place: int | slice) -> Any:
        return getattr(self, self._rows)[place]
