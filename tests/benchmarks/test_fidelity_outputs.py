"""What the kernels of an H200 wrote was recorded, and the interpreter computes it again."""

import json
from collections.abc import Mapping
from typing import Any

import numpy
import pytest
import torch

from benchmarks.fidelity_outputs import DATA, FACTS, OUTPUTS, compare, distances, rows
from tests.support import versions
from tests.support.source_files import ROOT

ROWS = [row for row in rows() if versions.HAS_BLOCK_POINTERS or row.name != "block pointer"]


@pytest.fixture(scope="module")
def facts() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((DATA / FACTS).read_text())
    return found


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, numpy.ndarray]:
    with numpy.load(DATA / OUTPUTS) as archive:
        return dict(archive)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_interpreter_computes_what_the_gpu_did(row, facts, recorded) -> None:
    found = compare(row, facts, recorded)
    assert found.within, (
        f"{found.differing} of {found.elements} differ, by up to {found.ulp:.3g} ulp"
    )
    if row.ulp == 0:
        assert found.whole


def test_everything_recorded_is_compared(facts: Mapping[str, Any]) -> None:
    assert list(facts["rows"]) == [row.name for row in rows()]
    assert sum(row.group == "small" for row in ROWS) >= 40
    assert sum(row.group == "eleven" for row in ROWS) == 11


def test_other_inputs_are_noticed(facts, recorded) -> None:
    row = next(row for row in rows() if row.name == "fp32 add")
    row.arguments["x"][7] = 1.25
    with pytest.raises(ValueError, match="not those that were recorded"):
        compare(row, facts, recorded)


def test_distances_are_in_units_of_the_last_place() -> None:
    one = torch.tensor([1.0, 1.0, float("nan"), float("inf"), 0.0, float("nan")])
    other = torch.tensor([1.0 + 2**-22, 1.0, float("nan"), float("inf"), -0.0, 1.0])
    assert distances(one, other, "value").tolist() == [2, 0, 0, 0, 0, numpy.inf]
    large = torch.tensor([1024.0, 1.0])
    assert distances(large + 2**-13, large, "largest").tolist() == [1, 1]
    whole = torch.tensor([3, -4], dtype=torch.int8)
    assert distances(whole, -whole, "value").tolist() == [6, 8]


def test_the_page_holds_the_rows_of_the_table() -> None:
    page = (ROOT / "docs/fidelity.md").read_text()
    exact = {"bf16 dot", "fp32 dot, ieee"}  # with a tolerance that they do not need
    for row in ROWS:
        if row.ulp and row.name not in exact:
            assert f"| {row.name} |" in page, f"docs/fidelity.md has no {row.name!r}"
