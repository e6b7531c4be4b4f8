"""VS Code's widget manager, as its Jupyter extension loads it, over a real kernel:
the page that VS Code shows a notebook's outputs in.

The manager and its requirejs are npm packages (`npm ci` in js/). The elements around an output and
what the body says of the theme are as in VS Code's page. What stands in for VS Code is the
connection to the kernel, which JupyterLab lends, and the choice of a type for each output.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.support.source_files import ROOT
from tests.viz.browser import Watched, watched
from tests.viz.jupyter import Jupyter

_MODULES = ROOT / "js/node_modules"
_FILES = {
    "ipywidgets.js": _MODULES / "@vscode/jupyter-ipywidgets8/dist/ipywidgets.js",
    "require.js": _MODULES / "requirejs/require.js",
    # The extension copies the widgets' scripts from the kernel's environment.
    "nbextensions/anywidget/index.js": Path(sys.prefix)
    / "share/jupyter/nbextensions/anywidget/index.js",
}
"""Scripts of the page, by their paths below /vscode/."""

needs_manager = pytest.mark.skipif(
    not _FILES["ipywidgets.js"].exists(),
    reason=(
        "VS Code's widget manager is not installed (npm ci in js/): views are not tested with it"
    ),
)

_PAGE = (Path(__file__).parent / "vscode_page.js").read_text()


@contextmanager
def vscode_outputs(started: Browser, server: Jupyter) -> Iterator[Watched]:
    """A page of outputs with a fresh kernel; `run` runs a cell in it."""
    with watched(
        started, f"{server.address}/lab?token={server.token}&reset", warnings=False
    ) as shown:
        page = shown.page
        page.route("**/vscode/**", _serve)
        page.wait_for_function("window.jupyterapp?.restored.then(() => true)", timeout=60_000)
        page.wait_for_selector("body[data-jp-theme-light]", state="attached")  # comes late
        # What JupyterLab says while it starts is not about views; where it asks, is.
        shown.problems[:] = [one for one in shown.problems if one.startswith("asked for")]
        page.evaluate(_PAGE)
        yield shown


def _serve(route: Route) -> None:
    path = route.request.url.partition("/vscode/")[2]
    route.fulfill(body=_FILES[path].read_bytes(), content_type="text/javascript")


def run(page: Page, cell: str) -> None:
    """Run a cell and show its outputs, in the order of VS Code's preferences.

    Raises:
        playwright.sync_api.Error: the cell failed; with its traceback.
    """
    page.evaluate("cell => runCell(cell)", cell)


def choose_theme(page: Page, kind: str) -> None:
    """What VS Code says of its theme: a class of the body and an attribute."""
    page.evaluate(
        "kind => { document.body.className = document.body.dataset.vscodeThemeKind = kind; }", kind
    )


def restart(page: Page) -> None:
    """Restart the kernel as the extension does: it drops the manager and the connection."""
    page.evaluate("dropKernel()")
