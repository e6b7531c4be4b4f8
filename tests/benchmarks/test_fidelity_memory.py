"""Accesses to memory beside an H200: what Nsight Compute counted there is predicted here."""

import json
from collections.abc import Mapping
from typing import Any

import numpy
import pytest

from benchmarks.fidelity_memory import EXPLAINED, RECORDED, predict
from benchmarks.memory_cases import COPIES, MEMORY_CASES, MemoryCase
from tests.support.source_files import ROOT
from tests.support.versions import REDUCES_IN_ONE_ROUND, SPELLS_DESCRIPTORS_WITHOUT_TENSOR


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, Any]:
    rows: Mapping[str, Any] = json.loads(RECORDED.read_text())["rows"]
    return rows


@pytest.mark.thinned(2)
@pytest.mark.sampled(9)
@pytest.mark.parametrize("case", MEMORY_CASES, ids=lambda case: case.name)
def test_the_counters_are_predicted(case: MemoryCase, recorded: Mapping[str, Any]) -> None:
    if (
        SPELLS_DESCRIPTORS_WITHOUT_TENSOR
        and "!tt.tensordesc<tensor<" in recorded[case.name]["ttgir"]
    ):
        pytest.skip("this Triton cannot read the recorded TTGIR")
    found = predict(case, recorded[case.name])
    unexplained = [name for name in found.unequal if (case.name, name) not in EXPLAINED]
    if REDUCES_IN_ONE_ROUND:  # The GPU ran another lowering of the same TTGIR.
        lowered = ("shared_", "registers", "occupancy")
        unexplained = [name for name in unexplained if not name.startswith(lowered)]
    assert not unexplained, [(n, found.predicted[n], found.counted[n]) for n in unexplained]


def test_everything_recorded_is_predicted(recorded: Mapping[str, Any]) -> None:
    assert list(recorded) == [case.name for case in MEMORY_CASES]
    assert len(MEMORY_CASES) >= 24
    assert all(case in recorded for case, _ in EXPLAINED)


def test_wavefronts_of_nine_kernels_in_ten_are_equal(recorded: Mapping[str, Any]) -> None:
    """Of kernels that use shared memory; asynchronous copies, which count more, are left out."""
    counted = [
        f"shared_wavefronts_{kind}"
        for kind in ("load", "store", "ldmatrix", "stmatrix", "atomic", "wgmma")
    ]
    using = [
        case for case, row in recorded.items() if any(row["counters"][name] for name in counted)
    ]
    wrong = {case for case, name in EXPLAINED if name in counted}
    assert len(using) >= 15
    assert len(wrong) <= len(using) / 10


@pytest.mark.parametrize("case", COPIES, ids=lambda case: case.name)
def test_isolated_copies_take_a_wavefront_for_each_row_and_change_of_place(case, recorded) -> None:
    """What docs/fidelity.md says of them, from the addresses that the kernel's text gives."""
    settings = case.constants
    size = next(iter(case.tensors().values())).element_size()
    down = 32 // settings["LANES"]
    lane = numpy.arange(32)
    total = 0
    for top in range(0, settings["ROWS"], down):  # each instruction of a warp
        for left in range(0, settings["COLUMNS"], settings["LANES"] * settings["VECTOR"]):
            row = top + lane // settings["LANES"]
            column = left + lane % settings["LANES"] * settings["VECTOR"]
            place = (row * settings["APART"] + column) * size // 16 % 8
            given = _in_shared_memory(row, column, settings) * size
            changes = place ^ given // 16 % 8
            total += len({*zip((given // 128).tolist(), changes.tolist())})
    counted = recorded[case.name]["counters"]["shared_wavefronts_async"]
    assert total * case.grid[0] == counted


def _in_shared_memory(
    row: numpy.ndarray, column: numpy.ndarray, settings: Mapping[str, Any]
) -> numpy.ndarray:
    """The element of the buffer that an element of the tile becomes."""
    if not settings["FIRST"]:
        return numpy.asarray(column * settings["ROWS"] + row)
    piece, rest = numpy.divmod(column, settings["VECTOR"])
    piece = piece ^ row % settings["SWIZZLE"]
    return numpy.asarray(row * settings["COLUMNS"] + piece * settings["VECTOR"] + rest)


def test_the_page_holds_the_rows_of_the_table() -> None:
    page = (ROOT / "docs/fidelity.md").read_text()
    for case, _ in EXPLAINED:
        assert f"| {case} |" in page, f"docs/fidelity.md has no {case!r}: print it again"
