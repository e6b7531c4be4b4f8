"""The sweeps recorded on an H200, replayed: what they say, and their use without a GPU."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

import kernellab
from benchmarks.tuning_cases import vector_add_case
from kernellab.cli.demo.kernels import matmul, vector_add
from kernellab.errors import ArgumentError
from kernellab.tuning.records import by_compiler
from kernellab.tuning.tunings import bytes_moved, flops_done, with_recorded_times
from kernellab.tuning.worker import installed_triton
from kernellab.viz.kernels import comparison_card
from kernellab.viz.performance import tuning_card
from kernellab.viz.sweeps import sweeps_data
from tests.corpus import gluon_kernels
from tests.kernels.gluon_add import gluon_add
from tests.support.compiled import compiled
from tests.support.pages import unpacked
from tests.support.source_files import ROOT
from tools import tuning_page

DATA = ROOT / "benchmarks/data"
SWEEPS = ROOT / "notebooks/recorded"
CASES = ("vector_add", "softmax", "matmul", "layer_norm", "attention")
NUMBERS = json.loads((DATA / "tuning_h200_numbers.json").read_text())


def recorded(name: str) -> kernellab.Tuning:
    return kernellab.Tuning.load(SWEEPS / f"tuning_h200_{name}.json")


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_sweep_is_whole_right_and_as_good_as_tritons(name) -> None:
    tuning = recorded(name)
    assert tuning.machine.gpu == "NVIDIA H200"
    assert tuning.machine.triton
    assert len(tuning.trials) >= 40
    assert {one.outcome.checked for one in tuning.trials if not one.is_dropped} == {"the reference"}
    assert "torch" in tuning.baselines
    assert tuning.work.bytes
    numbers = NUMBERS[name]
    assert numbers["lab"]["best"] == tuning.best.candidate.values
    assert tuning_page.same_winner(numbers) or numbers["winners"]["lab over triton"] <= 1.02


def test_the_recorded_sweeps_take_at_most_the_time_of_tritons_own() -> None:
    numbers = tuning_page.recorded_numbers()
    for name in CASES:
        assert numbers[name]["sweep's time over triton's"] <= 1, name
    assert numbers["compiling matmul"]["times faster on 2"] >= 1.7
    assert numbers["compiling matmul"]["times faster on 8"] >= 6


def test_the_page_says_what_was_recorded() -> None:
    assert (ROOT / "docs/tuning_h200.md").read_text() == tuning_page.page()


def test_recorded_sizes_draw_lines_beside_torch() -> None:
    sizes = kernellab.Tunings.load(SWEEPS / "tuning_h200_matmul_sizes.json")
    data = sizes.plot(y="TFLOP/s").data
    assert [line.is_baseline for line in data.lines] == [False, True]
    # An H200 does 989 TFLOP/s in fp16 at most (NVIDIA's data sheet, without sparsity).
    assert 400 < max(data.lines[0].y) < 989


@pytest.mark.slow
def test_the_same_call_has_the_recorded_times_where_there_is_no_gpu(raised) -> None:
    case = vector_add_case(1 << 24, "cpu")
    space = {"BLOCK": [512, 1024], "num_warps": [1, 4]}

    options = {"check": False, "workers": 1, "recorded": SWEEPS / "tuning_h200_vector_add.json"}

    def swept(**changes):
        arguments = {**case.arguments, **changes}
        return kernellab.tune(case.kernel, case.grid, space=space, **options, **arguments)

    tuning, whole = swept(), recorded("vector_add")
    times = {str(one.candidate): one.timing for one in whole.trials}
    assert all(one.timing == times[str(one.candidate)] for one in tuning.trials)
    assert tuning.machine == whole.machine
    assert any("times were recorded with NVIDIA H200" in note for note in tuning.notes)
    assert tuning.compilation(0).options["num_warps"] == 1
    other = torch.zeros(1000)
    raised(
        ArgumentError, swept, match="vector_add", x_ptr=other, y_ptr=other, out_ptr=other, n=1000
    )


def test_configs_that_were_not_recorded_are_told(messages, raised) -> None:
    whole = recorded("vector_add")
    one, another = whole.trials[0], whole.trials[1]
    other = replace(one, candidate=replace(one.candidate, options={"num_warps": 64}))
    some = with_recorded_times(replace(whole, trials=(other, another)), [whole])
    assert [trial.timing for trial in some.trials] == [None, another.timing]
    assert some.notes == messages
    raised(
        ArgumentError, with_recorded_times, replace(whole, trials=(other,)), [whole], match="BLOCK"
    )


def test_a_sweep_says_by_which_versions_it_was_made() -> None:
    tuning = recorded("matmul")
    versions = f"NVIDIA H200; Triton {tuning.machine.triton}, torch {tuning.machine.torch}"
    assert tuning_card(tuning).subtitle == f"for sm_90, {versions}"
    (sweep,) = sweeps_data("matmul", "times", [tuning], [], []).sweeps
    assert sweep.machine == versions


@pytest.mark.slow
def test_a_config_that_another_triton_compiles_says_so_where_it_is_opened_and_compared() -> None:
    tuning = recorded("matmul")
    tuning = replace(tuning, machine=replace(tuning.machine, triton="3.0.0"))
    words = (
        "The sweep's configs were compiled by Triton 3.0.0, and those opened here by Triton "
        f"{installed_triton()}: their IR, registers and shared memory may differ."
    )
    assert not tuning.recompiled
    known = tuning.with_kernel(matmul)
    assert any(note.startswith(words) for note in tuning_card(known).notes)
    found = known.compare(46, 47)
    assert found.notes == (words,)
    assert comparison_card(found).notes[0] == words
    assert [side.notice for side in found.explore().data.sides] == [words, words]
    (opened,) = known.show(compilations=[46]).data.opened
    assert unpacked(opened.explorer)["sides"][0]["notice"] == words
    same = replace(known, machine=replace(known.machine, triton=installed_triton()))
    assert not same.recompiled
    assert not same.compare(46, 47).notes


SIZE = 1 << 16


@pytest.fixture(scope="module")
def tuning() -> kernellab.Tuning:
    x = torch.ones(SIZE)
    return kernellab.tune(
        vector_add, lambda meta: (triton.cdiv(SIZE, meta["BLOCK"]),), x, x, torch.empty(SIZE), SIZE,
        space={"BLOCK": [16, 1024], "num_warps": [4]}, check=False, cache=False, workers=1,
        progress=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_estimated_faster_config_is_first(tuning) -> None:
    slow, fast = tuning.table["us, estimated"]
    assert 0 < fast < slow
    assert [one.number for one in by_compiler(tuning.trials)] == [1, 0]
    assert tuning.candidates(1) == [{"BLOCK": 1024, "num_warps": 4}]
    assert len(tuning.candidates()) == 2
    words = tuning._repr_mimebundle_()["text/plain"]
    assert re.search(r"estimated times.*median error of \d+%", words)
    assert re.search(r"★ 1 .*\n *★ 0 ", words)


@pytest.mark.slow
def test_estimates_are_saved(tuning, tmp_path) -> None:
    loaded = kernellab.Tuning.load(tuning.save(tmp_path / "sweep.json"))
    assert list(loaded.table["us, estimated"]) == list(tuning.table["us, estimated"])


@pytest.mark.slow
def test_of_types_alone_nothing_is_estimated() -> None:
    tuning = kernellab.tune(
        vector_add, None, "*fp32:16", "*fp32:16", "*fp32:16", "i32:16",
        space={"BLOCK": [1024]}, cache=False, workers=1, progress=False,
    )  # fmt: skip
    assert "us, estimated" not in tuning.table


SIZES = {"x_ptr": 100, "y_ptr": 200, "z_ptr": 1000, "out_ptr": 5000}


@triton.jit
def updates(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.atomic_add(y_ptr + lanes, x)
    tl.store(z_ptr + lanes, x)
    tl.store(z_ptr + BLOCK + lanes, x)


def moved(kernel: Any, *types: str, **constants: Any) -> float | None:
    return bytes_moved(compiled(kernel, *types, record="stages", **constants), SIZES)[0]


def test_each_tensor_counts_once_and_twice_where_it_is_read_and_written() -> None:
    pointer = "*fp32:16"
    assert moved(updates, pointer, pointer, pointer, BLOCK=64) == 100 + 2 * 200 + 1000


def test_gluon_kernels_are_counted_from_their_ttgir() -> None:
    types = ("*fp32:16",) * 3
    assert moved(gluon_add, *types, "i32", BLOCK=128) == 100 + 200 + 1000
    assert moved(gluon_kernels.copy_async, *types[:2], ROWS=64, COLUMNS=64) == 100 + 5000


@gluon.jit
def product(x_ptr, y_ptr, z_ptr):
    """z = x y for tiles of 64 x 64."""
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    total: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    row = gl.arange(0, 64, layout=gl.SliceLayout(1, rows))
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, rows))
    tile = row[:, None] * 64 + column[None, :]
    x = gl.allocate_shared_memory(gl.float16, [64, 64], shared, gl.load(x_ptr + tile))
    y = gl.allocate_shared_memory(gl.float16, [64, 64], shared, gl.load(y_ptr + tile))
    z = warpgroup_mma(x, y, gl.zeros((64, 64), gl.float32, total), is_async=False)
    gl.store(z_ptr + tile, gl.convert_layout(z, rows))


def test_products_that_gluon_states_itself_are_said_not_to_be_counted() -> None:
    types = ("*fp32:16",) * 3
    found = compiled(gluon_add, *types, "i32", BLOCK=128)
    assert flops_done(found, 3, {})[0] == 3 * 128
    types = ("*fp16:16", "*fp16:16", "*fp32:16")
    found = compiled(product, *types)
    assert bytes_moved(found, SIZES)[0] == 100 + 200 + 1000
    assert flops_done(found, 1, {}) == (None, "operations of ttng.warp_group_dot are not counted")
