"""What tests of views share: a browser and a Jupyter server, one of each for a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.viz.browser import browser
from tests.viz.jupyter import Jupyter, jupyterlab


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A Chromium, for pages of its own; see `opened`."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    """JupyterLab and Notebook 7, in a folder of their own."""
    with jupyterlab(tmp_path_factory.mktemp("jupyter")) as running:
        yield running
