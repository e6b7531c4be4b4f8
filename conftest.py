"""How all tests run: their surroundings, their markers, their time limits.

A marker is given by where a test stands and by the fixtures it asks for, so that nobody has to
remember it; CONTRIBUTING.md says what each is for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Notebooks that are checked keep no bars among their outputs; tests of bars ask for them.
os.environ.setdefault("KERNELLAB_PROGRESS", "0")

# How long one example takes says how busy the machine is, and nothing about the code.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")

ROOT = Path(__file__).parent

MARKERS_OF_FIXTURES = {"chromium": "browser", "server": "browser", "notebook": "notebook"}
"""Fixture -> the marker of every test that asks for it, itself or through another fixture."""

MARKERS_OF_PLACES = {"notebooks": "notebook", "tests/corpus": "corpus", "tests/benchmarks": "slow"}
"""Folder -> the marker of every test in it."""

SLOW = {"notebook", "corpus"}
"""Markers whose tests are slow ones."""

SLOW_LIMIT = 1200
"""Seconds that a slow test or one in a browser may take; pyproject.toml has the others' limit."""


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its markers, and those that take long a longer limit."""
    for item in items:
        for marker in sorted(_markers_of(item)):
            item.add_marker(marker)
        takes_long = item.get_closest_marker("slow") or item.get_closest_marker("browser")
        if takes_long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT))


def _markers_of(item: pytest.Item) -> set[str]:
    place = item.path.relative_to(ROOT).as_posix()
    fixtures = getattr(item, "fixturenames", ())  # a notebook's cell has none
    given = {marker for name, marker in MARKERS_OF_FIXTURES.items() if name in fixtures}
    given |= {marker for folder, marker in MARKERS_OF_PLACES.items() if place.startswith(folder)}
    own = {mark.name for mark in item.iter_markers()}
    return given | {"slow"} if SLOW & (given | own) else given


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts the test and the processes it starts, wherever the tests were started:
    in the background of a shell SIGINT is ignored, and children inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _stays_where_it_is() -> Iterator[None]:
    """A test that leaves its process in another folder spoils those after it: it fails itself."""
    before = Path.cwd()
    yield
    after = Path.cwd()
    os.chdir(before)
    assert after == before, f"the test left its process in {after}: use monkeypatch.chdir"
