"""What no test here takes time for."""

import pytest

from kernellab.checker.fixes import Tries
from kernellab.judging.worker import wait_for_worker
from kernellab.workshop import feedback


@pytest.fixture(autouse=True)
def _no_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for no fixes, which takes seconds; `test_mistakes.py` does."""
    monkeypatch.setattr(feedback, "TRIES", Tries(seconds=0.0, most=0))


@pytest.fixture(scope="module")
def clean_process() -> None:
    """Start it before the first test, whose time it would count as."""
    wait_for_worker()
