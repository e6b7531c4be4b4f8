"""What tests of the compiler share."""

from pathlib import Path

import pytest


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of Triton's that no earlier test or run has filled."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
