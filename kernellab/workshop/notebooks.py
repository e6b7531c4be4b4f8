"""Notebooks as the JSON that they are (nbformat 4.5): made of cells, and read for their code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernellab.errors import ArgumentError

_LARGEST = 50_000_000
"""Bytes of a notebook that is read; one with pictures has some millions."""

FIRST_CELL = """%load_ext kernellab

import triton
import triton.language as tl"""
"""The code that exercises need above them."""


def cell(kind: str, text: str) -> dict[str, Any]:
    """A cell, "markdown" or "code", without outputs."""
    lines = text.splitlines(keepends=True)
    made: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": lines}
    return made if kind == "markdown" else {**made, "execution_count": None, "outputs": []}


def notebook_text(cells: Sequence[dict[str, Any]]) -> str:
    """The file of a notebook of these cells."""
    numbered = [{**one, "id": f"cell-{number}"} for number, one in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": numbered, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def texts_of(file: Path, kind: str = "code") -> list[str]:
    """The texts of a notebook's cells of one kind.

    Raises:
        ArgumentError: it is no notebook.
    """
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            raise ValueError("no notebook has that size")
        cells = json.loads(file.read_bytes())["cells"]
        return ["".join(one["source"]) for one in cells if one["cell_type"] == kind]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArgumentError(
            f"{file} cannot be read as a notebook: {error}",
            advice="Open it in Jupyter and save it again, or take it out of the folder.",
        ) from error
