"""The notebooks as a reader finds them, before running anything:
saved outputs, no errors, nothing of the machine.
"""

from __future__ import annotations

import nbformat
import pytest

from tests.support.source_files import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_saved_with_its_outputs(path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert any(cell.outputs for cell in code)
    for cell in code:
        assert cell.execution_count is not None, f"not run: {cell.source[:60]!r}"
        errors = [output for output in cell.outputs if output.output_type == "error"]
        expected = "raises-exception" in cell.metadata.get("tags", [])
        assert bool(errors) == expected, cell.source
    assert notebook.cells[0].cell_type == "markdown", "a notebook says first what it is about"
