"""What tests of views share: a browser and a Jupyter server, one of each for a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.viz.browser import OpenPage, browser, opened
from tests.viz.jupyter import Jupyter, jupyterlab


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A Chromium, for pages of its own."""
    with browser() as started:
        yield started


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Opens the page of a view, or a file, until the test ends, with the options of `opened`."""
    with ExitStack() as pages:

        def open_page(view: Any, **options: Any) -> Page:
            file = view if isinstance(view, Path) else view.to_html(tmp_path / "view.html")
            return pages.enter_context(opened(chromium, file.as_uri(), **options))

        yield open_page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    """JupyterLab and Notebook 7, in a folder of their own."""
    with jupyterlab(tmp_path_factory.mktemp("jupyter")) as running:
        yield running
