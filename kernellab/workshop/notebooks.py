"""Write and read notebooks as JSON (nbformat 4.5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernellab.errors import ArgumentError

_LARGEST = 50_000_000
"""The most bytes of a notebook that is read; notebooks with pictures have several million."""

FIRST_CELL = """%load_ext kernellab

import triton
import triton.language as tl"""
"""The code that every notebook of exercises starts with."""


def cell(kind: str, text: str) -> dict[str, Any]:
    """Return a cell without outputs; `kind` is "markdown" or "code"."""
    lines = text.splitlines(keepends=True)
    content: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": lines}
    return content if kind == "markdown" else {**content, "execution_count": None, "outputs": []}


def notebook_text(cells: Sequence[dict[str, Any]]) -> str:
    """Return the contents of a notebook file with these cells."""
    numbered = [{**content, "id": f"cell-{number}"} for number, content in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": numbered, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def texts_of(file: Path, kind: str = "code") -> list[str]:
    """Return the texts of a notebook's cells of one kind.

    Raises:
        ArgumentError: the file is not a notebook.
    """
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            raise ValueError("the file is missing or too large")
        cells = json.loads(file.read_bytes())["cells"]
        return ["".join(content["source"]) for content in cells if content["cell_type"] == kind]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArgumentError(
            f"{file} cannot be read as a notebook: {error}.",
            advice="Open it in Jupyter and save it again, or remove it from the folder.",
        ) from error
