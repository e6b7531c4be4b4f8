"""What pytest does not collect here, and what no test here takes time for."""

import pytest

from kernellab.checker.fixes import Tries
from kernellab.workshop import feedback

collect_ignore = ["solutions.ipynb"]
"""test_solutions.py answers its cells, without a notebook's kernel."""


@pytest.fixture(autouse=True)
def _no_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for no fixes, which takes seconds; `test_mistakes.py` does."""
    monkeypatch.setattr(feedback, "TRIES", Tries(seconds=0.0, most=0))
