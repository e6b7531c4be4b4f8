"""The notebooks from top to bottom on a machine with a GPU."""

from pathlib import Path

import nbformat
import pytest
import torch
from nbclient import NotebookClient

pytestmark = [
    pytest.mark.slow,
    pytest.mark.notebook,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_on_a_gpu(path: Path) -> None:
    """Every cell runs; only cells with the tag raises-exception may raise."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": path.parent}}).execute()
