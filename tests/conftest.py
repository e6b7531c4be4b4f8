"""What tests of several rooms share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.notebook_session import NotebookSession, StartNotebook, notebook_session


@pytest.fixture(scope="module")
def notebook() -> Iterator[StartNotebook]:
    """Starts a notebook kernel in which the given cells have run; it ends with the file's tests."""
    with ExitStack() as running:

        def start(*setup: str) -> NotebookSession:
            return running.enter_context(notebook_session(*setup))

        yield start
