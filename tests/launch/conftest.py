"""What tests of launches share."""

import io
import sys
from collections.abc import Iterator

import pytest

import kernellab


@pytest.fixture
def gpu() -> Iterator[None]:
    """torch answers as on a machine with a GPU."""
    with kernellab.interpreted(answers="gpu"):
        yield


@pytest.fixture
def goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the debugger asks, the answer is to go on."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("c\n" * 100))
