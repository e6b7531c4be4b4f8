"""What tests of checks share."""

import pytest

from kernellab.checker import fixes


@pytest.fixture
def no_fixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search no fix of a wrong result, which takes a hundred compilations."""
    monkeypatch.setattr(fixes, "MOST_TRIES", 0)
