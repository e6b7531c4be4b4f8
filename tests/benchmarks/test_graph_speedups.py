"""Speed-ups of models on an H200, as recorded: the page says what the file says."""

import json
from pathlib import Path

import pytest

from benchmarks.graph_speedups import means

ROOT = Path(__file__).parents[2]
RECORDED = json.loads((ROOT / "notebooks/recorded/graph_speedups_h200.json").read_text())


def test_the_page_has_the_recorded_numbers() -> None:
    page = (ROOT / "docs/torch_compile.md").read_text()
    for direction in ("forward", "training"):
        for mode in ("inductor", "inductor, CUDA graphs"):
            assert f"{RECORDED['means'][direction][mode]['speedup']:.2f}" in page


def test_the_means_are_those_of_the_models() -> None:
    again = means(RECORDED["models"])
    for direction, modes in RECORDED["means"].items():
        for mode, one in modes.items():
            assert again[direction][mode]["speedup"] == pytest.approx(one["speedup"], abs=2e-3)


def test_every_mode_gave_what_eager_gives() -> None:
    """Relative to the largest value. Of experts that are nearly as good, rounding chooses one."""
    for name, model in RECORDED["models"].items():
        if name == "experts":
            continue
        for direction in ("forward", "training"):
            for mode, one in model[direction].items():
                assert not one["error"], (name, direction, mode)
                assert one["distance"] is None or one["distance"] < 0.1, (name, direction, mode)
