"""What tests of sweeps share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes of other runs must not count."""
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path))


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that another test made in this process is no prompt: what it sets says so."""
    monkeypatch.delattr(sys, "ps1", raising=False)
