"""What tests of several rooms share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.messages import E, MessagePage, Raised
from tests.support.notebook_session import NotebookSession, StartNotebook, notebook_session

if TYPE_CHECKING:  # the process that only distributes the tests never imports torch
    from kernellab.tracing.records import Trace
    from tests.support.trace_events import Events


@pytest.fixture(scope="module")
def notebook() -> Iterator[StartNotebook]:
    """Starts a notebook kernel in which the given cells have run; it ends with the file's tests."""
    with ExitStack() as running:

        def start(*setup: str) -> NotebookSession:
            return running.enter_context(notebook_session(*setup))

        yield start


@pytest.fixture(scope="module")
def lab(notebook: StartNotebook, request: pytest.FixtureRequest) -> NotebookSession:
    """A notebook that has run the cells in `CELLS` of the test file."""
    return notebook(*request.module.CELLS)


@pytest.fixture
def messages(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """The page of the package's messages: equal to what the page has under the test's name."""
    return snapshot.use_extension(MessagePage)


@pytest.fixture
def raised(messages: SnapshotAssertion) -> Raised:
    """Makes a call that raises an error, which the page has; returns the error."""

    def raised(
        error: type[E],
        call: Callable[..., object],
        /,
        *args: Any,
        match: str | None = None,
        **keywords: Any,
    ) -> E:
        with pytest.raises(error, match=match) as caught:
            call(*args, **keywords)
        assert caught.value == messages
        return caught.value

    return raised


@pytest.fixture
def no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove `sys.ps1`, which IPython sets for the whole process: no one answers questions here."""
    monkeypatch.delattr(sys, "ps1", raising=False)


@pytest.fixture
def events(tmp_path: Path) -> Events:
    """The events of a small program, told to a recorder."""
    from tests.support.trace_events import Events

    told = Events(tmp_path)
    told.run()
    return told


@pytest.fixture
def trace(events: Events) -> Trace:
    return events.trace()
