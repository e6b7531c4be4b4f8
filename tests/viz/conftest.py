"""What tests of views share: a browser, and for a file a Jupyter server."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.viz.browser import OpenPage, Watched, browser, opened
from tests.viz.jupyter import Jupyter, jupyterlab

_shared = ExitStack()
_browsers: list[Browser] = []


@pytest.fixture(scope="module")
def chromium() -> Browser:
    """A Chromium, the same for all tests of the folder that run in a row."""
    if not _browsers:
        _browsers.append(_shared.enter_context(browser()))
    return _browsers[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the browser before the tests of another folder: its event loop would be theirs."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        pytest_sessionfinish()


def pytest_sessionfinish() -> None:
    """End the browser, also of a run that was stopped."""
    _browsers.clear()
    _shared.close()


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Opens the page of a view, or a file, until the test ends, with the options of `opened`."""
    with ExitStack() as pages:

        def open_page(view: Any, **options: Any) -> Page:
            file = view if isinstance(view, Path) else view.to_html(tmp_path / "view.html")
            return pages.enter_context(opened(chromium, file.as_uri(), **options))

        yield open_page


@pytest.fixture
def page(shown: Watched) -> Iterator[Page]:
    """The page of a file's fixture `shown`: its errors and its requests elsewhere fail."""
    yield shown.page
    shown.check()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    """JupyterLab and Notebook 7, in a folder of their own."""
    with jupyterlab(tmp_path_factory.mktemp("jupyter")) as running:
        yield running
