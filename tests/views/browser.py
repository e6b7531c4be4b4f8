"""Chromium for tests of views. A page that it opened fails its test by an error on the console or by a request to elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
           "--disable-background-networking", "--disable-component-update"]  # fmt: skip

needs_browser = pytest.mark.skipif(
    CHROMIUM is None,
    reason="Chromium is not installed (apt-get install chromium): views are not tested in a browser",
)


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(
    started: Browser,
    address: str,
    *,
    width: int = 1400,
    height: int = 900,
    dark: bool = False,
    warnings: bool = True,
) -> Iterator[Page]:
    """A page of its own; at the end there must have been no error on its console and no request to another place.

    `warnings` says whether warnings are errors: JupyterLab has some of its own.
    """
    context = started.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    bad: list[str] = []
    kinds = ("error", "warning") if warnings else ("error",)
    home = "/".join(address.split("/")[:3])
    page.on("pageerror", lambda error: bad.append(str(error)))
    page.on(
        "console",
        lambda message: bad.append(message.text) if message.type in kinds else None,
    )
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((home, "data:", "blob:"))
            else bad.append(f"asked for {request.url}")
        ),
    )
    page.goto(address)
    try:
        yield page
    finally:
        context.close()
    assert not bad, "\n".join(bad)
