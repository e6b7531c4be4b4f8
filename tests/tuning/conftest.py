"""What tests of sweeps share."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_prompt: None) -> None:
    """Outcomes of other runs must not count."""
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path))
