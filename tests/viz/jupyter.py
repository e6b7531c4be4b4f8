"""A Jupyter server for tests of views: notebooks run in Chromium, in JupyterLab or Notebook 7."""

import contextlib
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from playwright.sync_api import Browser, Locator, Page, expect

from tests.viz.browser import Watched, watched


def free_port() -> int:
    """A free port below the ephemeral range, so that no notebook kernel takes it first."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_for(address: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def quiet_settings(folder: Path) -> dict[str, str]:
    """An environment in which JupyterLab shows only the notebook, without news or side bars."""
    settings = folder / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False})
    )
    return {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "lab" / "user-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),  # where it is kept which notebooks are trusted
    }


FRONT_ENDS = {"JupyterLab": "lab/tree", "Notebook 7": "notebooks"}
"""Front ends, and where their address of a notebook begins."""

_READY = """async () => {
  await jupyterapp.restored;
  const panel = jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
}"""

_OPEN_WITHOUT_KERNEL = """async (path) => {
  await jupyterapp.restored;
  const kernelPreference = { shouldStart: false, canStart: true, autoStartDefault: false };
  await jupyterapp.commands.execute("docmanager:open", { path, factory: "Notebook", kernelPreference });
}"""

_SHOW_CELL = "number => jupyterapp.shell.currentWidget.content.scrollToItem(number, 'center')"


def show_cell(page: Page, number: int) -> Locator:
    """A cell, scrolled to: Notebook 7 takes those far away out of the document."""
    page.evaluate(_SHOW_CELL, number)
    cell = page.locator(f'.jp-Cell[data-windowed-list-index="{number}"]')
    expect(cell).to_be_attached()
    return cell


def view(page: Page, cell: int, kind: str) -> Locator:
    """The view of a kind that a cell shows, once it is drawn."""
    return show_cell(page, cell).locator(f".kl-{kind}[data-ready]:not([hidden])")


@dataclass(frozen=True)
class Jupyter:
    address: str
    token: str
    folder: Path
    """Where its notebooks are."""
    environment: dict[str, str]

    def save(self, notebook: nbformat.NotebookNode, *, trusted: bool = True) -> str:
        """Save a notebook for the server; returns its name. Untrusted, only its safe HTML shows."""
        name = f"{secrets.token_hex(4)}.ipynb"
        notebook.metadata.kernelspec = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, self.folder / name)
        if trusted:
            command = [sys.executable, "-m", "jupyter", "trust", str(self.folder / name)]
            subprocess.run(command, env=self.environment, check=True, capture_output=True)
        return name

    @contextmanager
    def opened(
        self, started: Browser, name: str, front_end: str = "JupyterLab", *, kernel: bool = True
    ) -> Iterator[Watched]:
        """Open a saved notebook with a fresh kernel, or none in JupyterLab, without running it."""
        path = f"{FRONT_ENDS[front_end]}/{name}" if kernel else "lab"
        address = f"{self.address}/{path}?token={self.token}&reset"
        with watched(started, address, warnings=False) as shown:
            if not kernel:
                shown.page.wait_for_function("window.jupyterapp")
                shown.page.evaluate(_OPEN_WITHOUT_KERNEL, name)
            shown.page.wait_for_function(
                "window.jupyterapp?.shell?.currentWidget?.sessionContext", timeout=60_000
            )
            shown.page.evaluate(_READY)
            # What the front end says while it starts is not about views; where it asks, is.
            shown.problems[:] = [one for one in shown.problems if one.startswith("asked for")]
            yield shown

    @contextmanager
    def run_watched(
        self, started: Browser, *cells: str, front_end: str = "JupyterLab"
    ) -> Iterator[Watched]:
        """A notebook of these cells, open and run from top to bottom."""
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        with self.opened(started, self.save(made, trusted=False), front_end) as shown:
            shown.page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
            yield shown

    @contextmanager
    def run(self, started: Browser, *cells: str) -> Iterator[Page]:
        """The page of `run_watched`, for a test that expects no problem."""
        with self.run_watched(started, *cells) as shown:
            yield shown.page


_LAB = """\
from tests.support import no_iri_syntax
from jupyterlab.labapp import main
main()"""
"""The program of the server."""


@contextmanager
def jupyterlab(folder: Path) -> Iterator[Jupyter]:
    """A quiet server on a free port, with settings of its own, for JupyterLab and Notebook 7."""
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    port, token = free_port(), secrets.token_hex(16)
    command = [
        sys.executable, "-c", _LAB, "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={notebooks}",
        "--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True",
    ]  # fmt: skip
    address, environment = f"http://127.0.0.1:{port}", quiet_settings(folder)
    with (folder / "log").open("w") as log:
        # Kernels that belong to no notebook work where the server was started.
        server = subprocess.Popen(
            command, cwd=notebooks, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_for(f"{address}/api/status?token={token}")
            yield Jupyter(address, token, notebooks, environment)
        finally:
            server.terminate()
            server.wait(20)
