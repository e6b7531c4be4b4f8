"""Take the pictures of the pages: cells of ours, run, open in a real JupyterLab,
photographed by headless Chromium.

    python tools/screenshot.py docs/images/first_cell.txt docs/images/notebook.png
    python tools/screenshot.py docs/images/stepper.txt docs/images/stepper.png --size 1180x1310

The first argument is a notebook, shown as it is saved, or a text of cells,
each after a line `# %%`, which is run first. Needs Chromium on the path.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import nbformat
from PIL import Image

CHROMIUM_OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-sync", "--disable-background-networking", "--disable-component-update",
    "--hide-scrollbars",
]  # fmt: skip


def free_port() -> int:
    """A port that nothing listens on, outside the range from which systems hand them out:
    no notebook kernel takes it before its server does.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_for(address: str, seconds: float = 60) -> None:
    """Wait until something answers there."""
    end = time.monotonic() + seconds
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
    """An environment in which JupyterLab shows the notebook and nothing else:
    no news, no side bars' memory.
    """
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


def run_cells(text: str, notebook: Path) -> None:
    """Make a notebook of the cells and run it, as nbconvert does."""
    cells = [cell.strip("\n") for cell in text.split("# %%\n") if cell.strip()]
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(content, notebook)
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--execute", "--to", "notebook"]
    subprocess.run([*command, "--inplace", str(notebook)], check=True)


def photograph(notebook: Path, picture: Path, width: int, height: int) -> None:
    """Serve the notebook (or the cells, run) from a JupyterLab of its own,
    and save what Chromium shows of it.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        served = folder / "served"
        served.mkdir()
        shown = served / notebook.with_suffix(".ipynb").name
        if notebook.suffix == ".ipynb":
            shutil.copy(notebook, shown)
        else:
            run_cells(notebook.read_text(), shown)
        environment = quiet_settings(folder)
        subprocess.run(
            [sys.executable, "-m", "jupyter", "trust", str(shown)], env=environment, check=True
        )
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyter",
                "lab",
                "--no-browser",
                "--allow-root",
                f"--port={port}",
                f"--ServerApp.root_dir={served}",
                "--IdentityProvider.token=",
                "--ServerApp.password=",
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(f"{address}/api/status")
            subprocess.run(
                [
                    "chromium",
                    *CHROMIUM_OPTIONS,
                    f"--user-data-dir={folder / 'chromium'}",
                    f"--window-size={width},{height}",
                    "--force-device-scale-factor=1.2",
                    "--virtual-time-budget=30000",
                    f"--screenshot={picture.absolute()}",
                    f"{address}/doc/tree/{shown.name}",
                ],
                check=True,
                stderr=subprocess.DEVNULL,
            )
        finally:
            server.terminate()
            server.wait()
    shrink(picture)


def shrink(picture: Path) -> None:
    """Save a picture with 128 colors: docs/images has none of more than 100 KB."""
    with Image.open(picture) as taken:
        few = taken.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


def main() -> None:
    """Parse the command line and take the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebook", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument(
        "--size", default="1000x1010", help="width and height in CSS pixels (default: %(default)s)"
    )
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    photograph(options.notebook, options.picture, width, height)


if __name__ == "__main__":
    main()
