"""A real JupyterLab for tests of views: a server of its own, notebooks opened and run in Chromium."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from playwright.sync_api import Browser, Page

from tests.views.browser import opened
from tools.screenshot import free_port, quiet_settings, wait_for


@dataclass(frozen=True)
class Lab:
    """A running server."""

    address: str
    token: str
    folder: Path
    """Where its notebooks are."""

    @contextmanager
    def run(self, started: Browser, *cells: str) -> Iterator[Page]:
        """A notebook of these cells, open and run from top to bottom."""
        name = f"{secrets.token_hex(4)}.ipynb"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])  # fmt: skip
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}  # fmt: skip
        nbformat.write(notebook, self.folder / name)
        with opened(
            started, f"{self.address}/lab/tree/{name}?token={self.token}&reset", warnings=False
        ) as page:
            page.wait_for_function(
                "window.jupyterapp?.shell?.currentWidget?.sessionContext", timeout=60_000
            )
            page.evaluate("""async () => {
              await jupyterapp.restored;
              const panel = jupyterapp.shell.currentWidget;
              await panel.context.ready;
              await panel.sessionContext.ready;
              await jupyterapp.commands.execute("notebook:run-all-cells");
            }""")
            yield page


@contextmanager
def jupyterlab(folder: Path) -> Iterator[Lab]:
    """A server on a free port, quiet, with settings of its own."""
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    port, token = free_port(), secrets.token_hex(16)
    command = [
        sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={notebooks}", "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, env=quiet_settings(folder), stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_for(f"{address}/api/status?token={token}")
            yield Lab(address, token, notebooks)
        finally:
            server.terminate()
            server.wait(20)
