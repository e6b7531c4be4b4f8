"""What tests of several rooms share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from kernellab.tracing.records import Trace
from tests.support.messages import MessagePage
from tests.support.notebook_session import NotebookSession, StartNotebook, notebook_session
from tests.support.trace_events import Events


@pytest.fixture(scope="module")
def notebook() -> Iterator[StartNotebook]:
    """Starts a notebook kernel in which the given cells have run; it ends with the file's tests."""
    with ExitStack() as running:

        def start(*setup: str) -> NotebookSession:
            return running.enter_context(notebook_session(*setup))

        yield start


@pytest.fixture
def messages(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """The page of the package's messages: equal to what the page has under the test's name."""
    return snapshot.use_extension(MessagePage)


@pytest.fixture
def events(tmp_path: Path) -> Events:
    """The events of a small program, told to a recorder."""
    told = Events(tmp_path)
    told.run()
    return told


@pytest.fixture
def trace(events: Events) -> Trace:
    """The trace of those events."""
    return events.trace()
