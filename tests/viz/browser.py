"""Chromium for tests of views: an error on the console or a request elsewhere fails the test."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, BrowserContext, FloatRect, Locator, Page, sync_playwright

CHROMIUM = shutil.which("chromium")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield started
        finally:
            started.close()


@dataclass(frozen=True)
class Watched:
    """A page, and what went wrong in it."""

    page: Page
    problems: list[str] = field(default_factory=list)
    """Errors on the console, exceptions that no one caught, and addresses of other places
    that were asked for."""

    def check(self) -> None:
        """Fail if anything went wrong; it is told once."""
        found = list(self.problems)
        self.problems.clear()
        assert not found, "\n".join(found)


@contextmanager
def watched(
    started: Browser,
    address: str,
    *,
    width: int = 1400,
    height: int = 900,
    dark: bool = False,
    warnings: bool = True,
) -> Iterator[Watched]:
    """A page of its own, whose problems are noted;
    when it is closed there must be none that was not told.

    `warnings` says whether warnings are problems: JupyterLab has some of its own.
    """
    context = started.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    shown = Watched(context.new_page())
    _watch(context, shown, address, ("error", "warning") if warnings else ("error",))
    shown.page.goto(address)
    try:
        yield shown
    finally:
        context.close()
    shown.check()


def _watch(context: BrowserContext, shown: Watched, address: str, kinds: tuple[str, ...]) -> None:
    home = "/".join([*address.split("/")[:3], ""])
    known = (home, home.replace("http", "ws", 1), "data:", "blob:")

    def asked(url: str) -> None:
        if not url.startswith(known):
            shown.problems.append(f"asked for {url}")

    context.on(
        "weberror", lambda error: shown.problems.append(error.error.stack or str(error.error))
    )
    context.on(
        "console", lambda said: shown.problems.append(said.text) if said.type in kinds else None
    )
    context.on("request", lambda request: asked(request.url))
    shown.page.on("websocket", lambda socket: asked(socket.url))


@contextmanager
def opened(started: Browser, address: str, **options: Any) -> Iterator[Page]:
    """The page of `watched`, with its options, for a test that expects no problem."""
    with watched(started, address, **options) as shown:
        yield shown.page


def box_of(locator: Locator) -> FloatRect:
    """Where an element is on the page, which must show it."""
    box = locator.bounding_box()
    assert box is not None
    return box


OpenPage = Callable[..., Page]
"""What the fixture `open_page` gives."""
