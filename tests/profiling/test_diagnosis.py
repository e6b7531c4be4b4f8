"""`kernellab.diagnose`: the corpus of slow kernels beside good twins, and what else it takes."""

import json
import linecache
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from benchmarks.diagnosed import pairs
from benchmarks.diagnosed.corpus import PAIRS
from benchmarks.diagnosed.held_out import HELD_OUT
from kernellab.errors import ArgumentError, Diagnostic, OptionError
from kernellab.graphs.report import GraphReport
from kernellab.ir.syntax import read_module
from kernellab.profiling.diagnosis.diagnose import _measured
from kernellab.profiling.diagnosis.records import Diagnoses, Diagnosis
from kernellab.profiling.diagnosis.rules import all_rules
from kernellab.profiling.diagnosis.traffic import Scalars
from kernellab.viz.diagnostics import diagnoses_card, diagnosis_card
from tests.corpus.elementwise import vector_add
from tests.corpus.launches import LAUNCHES
from tests.corpus.loader import compile_entry, entry
from tests.kernels import forms

ROOT = Path(__file__).parents[2]
RECORDED = json.loads((ROOT / "notebooks/recorded/diagnosed_h200.json").read_text())
EVERY = (*PAIRS, *HELD_OUT)
_kept: dict[str, Diagnosis] = {}
compiled: Any = kernellab.compile


def diagnosed(variant: pairs.Variant) -> Diagnosis:
    """Of a launch whose floats have no values; a twin of several pairs is diagnosed once."""
    key = repr((variant.kernel.__name__, *vars(variant).items()))
    if key not in _kept:
        _kept[key] = pairs.diagnosed(variant)
    return _kept[key]


def diagnosis(*arguments: Any, **keywords: Any) -> Diagnosis:
    found = kernellab.diagnose(*arguments, **keywords)
    assert isinstance(found, Diagnosis)
    return found


def both(name: str) -> tuple[pairs.Pair, Diagnosis, Diagnosis]:
    (pair,) = (each for each in EVERY if each.name == name)
    return pair, diagnosed(pair.slow), diagnosed(pair.good)


@pytest.mark.slow
def test_the_right_finding_comes_first_and_good_twins_have_no_severe_one() -> None:
    """The goal: 63 of at least 67 first, and nothing severe on any twin, also of those held out."""
    found = [both(pair.name) for pair in EVERY]
    later = [
        pair.name
        for pair, slow, _ in found[: len(PAIRS)]
        if not len(slow) or slow[0].kind != pair.kind
    ]
    assert len(PAIRS) >= 67
    assert len(later) <= len(PAIRS) - 63, later
    for pair, slow, good in found:
        assert {each.kind for each in good.severe} <= set(pair.also), pair.name
        assert not [note for note in (*slow.notes, *good.notes) if "could not" in note], pair.name


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90"])
def test_a_kernel_is_diagnosed_in_the_time_of_its_estimate(target: str) -> None:
    x = torch.empty(1 << 20, device="meta")
    launch: dict[str, Any] = {"BLOCK": 1024, "target": target}
    found = diagnosis(vector_add, x, x, x, 1 << 20, grid=(1024,), **launch)
    compilation = compiled(vector_add, x, x, x, 1 << 20, **launch)
    assert found.microseconds == compilation.estimate((1024,), x, x, x, 1 << 20).microseconds
    assert found.microseconds == found.to_json()["microseconds"]
    assert any("L2 bandwidth" in note for note in found.notes) == (target == "sm_89")


@pytest.mark.slow
def test_without_values_the_same_model_counts_what_is_known() -> None:
    x, types = torch.empty(1 << 24, device="meta"), ("*fp32:16",) * 3
    launch: dict[str, Any] = {"grid": (1 << 14,), "BLOCK": 1024, "target": "sm_90"}
    sampled = diagnosis(vector_add, x, x, x, 1 << 24, **launch)
    stated = diagnosis(vector_add, *types, 1 << 24, **launch)
    whole = diagnosis(vector_add, *("*i32:16",) * 3, 1 << 24, **launch)  # integers decide nothing
    assert whole.microseconds == pytest.approx(sampled.microseconds, rel=0.02)
    assert whole.estimate is not None
    unknown = diagnosis(vector_add, *types, "i32:16", **launch)
    assert stated.estimate is not None
    assert stated.microseconds == pytest.approx(sampled.microseconds, rel=0.02)
    assert unknown.estimate is None  # its counts are those of the TTGIR
    assert unknown.microseconds == pytest.approx(sampled.microseconds, rel=0.1)
    on_amd = diagnosis(vector_add, x, x, x, 1 << 24, **{**launch, "target": "gfx942"})
    assert on_amd.estimate is None
    assert any("gfx942 are not calibrated" in note for note in on_amd.notes)


def test_every_kind_of_the_corpus_is_a_rule_of_its_own_and_documented() -> None:
    kinds = {kind for rule in all_rules() for kind in rule.kinds}
    assert {pair.kind for pair in PAIRS} <= kinds
    page = (ROOT / "docs/diagnosis.md").read_text()
    assert [kind for kind in (*kinds, "edge-of-space") if f"`{kind}`" not in page] == []


def test_on_an_h200_the_advice_makes_most_of_them_faster() -> None:
    """The recording: outputs agree, at least 65 are 1.2 times faster; the page says how many."""
    pairs = {one["name"]: one for one in RECORDED["pairs"]}
    assert set(pairs) == {one.name for one in EVERY}
    # Not known which kernel of this pair is wrong under Triton 3.6, and why.
    assert [name for name, one in pairs.items() if not one["agree"]] == ["band-times-all-blocks"]
    faster = [one for one in pairs.values() if one["ratio"] >= 1.2]
    assert len(faster) >= 65
    page = (ROOT / "docs/diagnosis.md").read_text()
    assert f"at least 1.2 times faster for {len(faster)} of {len(pairs)}," in page


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "name",
    [
        "mode-by-where",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                "total-by-lock",
                "tall-product-in-columns",
                "cubes-by-pow",
                "shifted-through-memory",
                "steps-by-place",
                "images-in-large-tiles",
                "attention-over-all-blocks",
                "attention-on-four-warps",
            )
        ),
    ],
)
def test_a_pair_is_told_apart_and_its_gain_is_near_the_measured_one(name: str) -> None:
    pair, slow, good = both(name)
    (measured,) = (each for each in RECORDED["pairs"] if each["name"] == name)
    assert slow[0].kind == pair.kind
    assert pair.kind not in {each.kind for each in good}
    assert slow.microseconds == pytest.approx(measured["slow_us"], rel=0.35)
    gain = 1 / (1 - slow[0].cost)
    assert gain > 100 or gain == pytest.approx(measured["ratio"], rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["transposed-in-narrow-tiles", "packed-widened", "depth-in-64-parts"]
)
def test_what_the_latest_pairs_taught_is_named_first_on_its_line(name: str) -> None:
    pair, slow, good = both(name)
    assert slow[0].kind == pair.kind not in {each.kind for each in good}
    assert slow[0].position is not None
    assert pair.line in linecache.getline(slow[0].position.file, slow[0].position.line)
    assert "loop-not-pipelined" not in {each.kind for each in both("points-for-each-center")[2]}


def test_a_finding_is_a_diagnostic_with_line_cost_evidence_and_advice(messages) -> None:
    _, slow, _ = both("scale-columns")
    first = slow[0]
    assert isinstance(first, Diagnostic)
    assert first.severity == "warning"
    assert 0 < first.cost <= 1
    assert first.line is not None
    assert first.evidence["sectors per request"] == 32
    assert first.advice
    assert str(first) == messages
    again = Diagnostic.from_json(json.loads(json.dumps(first.to_json())))
    assert (again.facts["cost"], again.facts["evidence"]["would do"]) == (first.cost, 4)


@pytest.mark.slow
def test_a_diagnosis_has_a_card_a_table_and_json(tmp_path, messages) -> None:
    _, slow, _ = both("one-total")
    text = diagnosis_card(slow).text()
    assert "atomic-contention" in text
    assert text == messages
    assert next(iter(slow.table().kind)) == "atomic-contention"
    saved = json.loads(slow.save(tmp_path / "why.json").read_text())
    assert saved["findings"][0]["kind"] == "atomic-contention"
    several = Diagnoses((slow,), (1.0,))
    assert "100% " in str(several)
    assert several["total_by_elements"] is slow
    assert "total_by_elements" in diagnoses_card(several).text()


def test_a_launch_is_counted_where_it_is_small_and_leads_to_its_other_views() -> None:
    x, out = torch.rand(4096), torch.zeros(4096)
    found = diagnosis(vector_add, x, x, out, 4096, grid=(4,), target="sm_90", BLOCK=1024)
    assert found[0].kind == "launch-bound"
    assert not found.severe
    assert found.launch is not None
    assert torch.equal(out, torch.zeros(4096))
    counts = kernellab.accesses(found.launch)
    again = diagnosis(counts)
    assert [one.kind for one in again] == [one.kind for one in found]
    assert kernellab.diagnose(found) is found
    tuned = triton.autotune([triton.Config({"BLOCK": 1024})], key=[])(vector_add)
    for kernel, blocks in ((vector_add, {"BLOCK": 1024}), (tuned, {})):
        in_front = diagnosis(kernel, (4,), x, x, out, 4096, target="sm_90", **blocks)
        assert [one.kind for one in in_front] == [one.kind for one in found]
    job = (x, out, 4096)
    assert diagnosis(forms.of_tuple, (4,), job, BLOCK=1024).grid == (4, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("matmul", "gfx942"),
        ("attention_forward", "sm_100"),
        ("gluon_transpose", "sm_80"),
        ("collatz", "gfx1100"),
        ("atomics", "sm_90"),
    ],
)
def test_no_kernel_is_too_strange(name: str, target: str) -> None:
    found = diagnosis(compile_entry(entry(name), target, "stages"))
    assert not [note for note in found.notes if "could not" in note]
    assert any("grid" in note for note in found.notes)


@pytest.mark.slow
def test_bad_input_says_what_is_wrong(raised) -> None:
    compilation = compile_entry(entry("vector_add"), "sm_90", "stages")
    raised(OptionError, kernellab.diagnose, compilation, target="sm_80", match="sm_90")
    raised(ArgumentError, kernellab.diagnose, compilation, grid=(1,), nonsense=5)
    raised(ArgumentError, kernellab.diagnose, compilation, 1, 2, 3, 4, 5, 6)
    raised(OptionError, kernellab.diagnose, compilation, counts=cast("Any", "yes"))
    raised(ArgumentError, kernellab.diagnose, compilation, counts=True)
    raised(ArgumentError, kernellab.diagnose, kernellab.diagnose(compilation), grid=(1,))


def test_a_sweep_whose_best_is_at_the_edge_of_its_space_says_so() -> None:
    sweep = kernellab.load(ROOT / "notebooks/recorded/tuning_h200_vector_add.json")
    found = diagnosis(sweep)
    edges = [one for one in found if one.kind == "edge-of-space"]
    best = sweep.best.candidate.values
    for one in edges:
        values = one.evidence["values"].split(", ")
        assert str(one.evidence["best"]) in (values[0], values[-1])
        assert one.evidence["best"] in best.values()


@pytest.mark.slow
def test_a_profile_is_diagnosed_kernel_by_kernel(messages) -> None:
    x, out = torch.rand(4096), torch.zeros(4096)
    with kernellab.profile() as session:
        kernellab.run(vector_add, (4,), x, x, out, 4096, BLOCK=1024)
    found = kernellab.diagnose(session)
    assert isinstance(found, Diagnoses)
    assert found["vector_add"].kernel == "vector_add"
    assert found.shares == (1.0,)
    assert any("Measured: line" in note for note in found[0].notes)
    assert found[0].grid == (4, 1, 1)
    recorded = kernellab.load(ROOT / "benchmarks/data/line_cycles_h200_matmul.klprofile")
    elsewhere = kernellab.diagnose(recorded)
    assert len(elsewhere) == 0
    assert str(elsewhere) == messages
    sampled = kernellab.load(ROOT / "notebooks/recorded/profile_h200_samples.hatchet")
    assert "not have its kernels" in str(kernellab.diagnose(sampled))
    (hottest, *_) = _measured(sampled.line_records)
    assert hottest.startswith("Measured: line 73 has 47%")
    assert "stall for: " in hottest


def test_a_report_of_torch_compile_is_diagnosed_kernel_by_kernel() -> None:
    report = kernellab.load(ROOT / "tests/viz/two_blocks.klgraph", trust=True)
    first, *_ = report.capture.lowered
    one = [kernel for kernel in first.kernels if "gelu" in kernel.name][:1]
    small = GraphReport(replace(report.capture, lowered=(replace(first, kernels=tuple(one)),)))
    found = kernellab.diagnose(small)
    assert isinstance(found, Diagnoses)
    assert [each.kernel for each in found] == [one[0].name]
    assert (found[0][0].kind, found[0].target) == ("small-tile", "sm_90")


@triton.jit
def segment_sums(x_ptr, firsts_ptr, out_ptr, BLOCK: tl.constexpr):
    segment = tl.program_id(0)
    end = tl.load(firsts_ptr + segment + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.load(firsts_ptr + segment), end, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < end, other=0.0)
    tl.store(out_ptr + segment, tl.sum(total))


@pytest.mark.slow
def test_a_loop_whose_length_is_loaded_is_counted_where_the_values_are_at_hand(raised) -> None:
    x, out = (torch.empty(size, device="meta") for size in (3_000_000, 10_000))
    firsts = torch.arange(10_001, dtype=torch.int32) * 300
    asked: dict[str, Any] = {"grid": (10_000,), "target": "sm_90", "BLOCK": 128}
    found = diagnosis(segment_sums, x, firsts, out, **asked)
    assert (found[0].kind, found[0].evidence["iterations"]) == ("loop-not-pipelined", 3)
    assert not found.notes
    unknown = diagnosis(segment_sums, x, firsts.to("meta"), out, **asked)
    assert any("16 are assumed" in note for note in unknown.notes)
    raised(ArgumentError, kernellab.diagnose, segment_sums, x, firsts, out, counts=True, **asked)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["collatz", "layer_norm_backward"])
def test_a_loop_whose_length_is_loaded_is_counted_for_amd_too(name: str) -> None:
    """Their loads are buffer operations, of whose lanes nothing is known."""
    kernel, launch = entry(name), LAUNCHES[name]
    found = diagnosis(
        kernel.kernel, *launch.make(), grid=launch.grid, target="gfx942", counts=False,
        **kernel.constants, **kernel.options,
    )  # fmt: skip
    assert not any("are assumed" in note for note in found.notes)


@triton.jit
def each_twice(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i // 2, mask=i < n), mask=i < n)


@pytest.mark.slow
def test_neighbors_behind_a_small_divisor_are_not_far_apart() -> None:
    found = diagnosis(
        each_twice, "*fp32:16", "*fp32:16", 1 << 24, grid=(1 << 14,), target="sm_90", BLOCK=1024
    )
    assert "strided-access" not in [one.kind for one in found]


@triton.jit
def neighbors(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (i ^ 1)) + tl.load(x_ptr + ((i + 3) & (n - 1)))
    tl.store(out_ptr + i * stride, x)


@pytest.mark.slow
def test_steps_that_no_one_knows_are_unknown_and_not_far() -> None:
    types: tuple[str, ...] = ("*fp32:16", "*fp32:16")
    asked: dict[str, Any] = {"grid": (1 << 14,), "target": "sm_90", "BLOCK": 1024}
    known = diagnosis(neighbors, *types, 1 << 24, 1, **asked)
    unknown = diagnosis(neighbors, *types, "i32:16", "i32:16", **asked)
    for found in (known, unknown):
        assert "strided-access" not in [one.kind for one in found.severe]
    assert not any("contiguous" in note for note in known.notes)
    assert any("store of out_ptr" in note and "not known" in note for note in unknown.notes)


@triton.jit
def product_of_fp32(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
    i, k = tl.arange(0, BLOCK), tl.arange(0, 32)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, 32):
        a = tl.load(a_ptr + i[:, None] * K + start + k[None, :])
        total += tl.dot(a, tl.load(b_ptr + (start + k)[:, None] * BLOCK + i[None, :]))
    tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], total)


@pytest.mark.slow
def test_a_copy_that_turns_its_tile_is_narrow_for_that_and_not_for_a_mask() -> None:
    types = ("*fp32:16",) * 3
    found = diagnosis(
        product_of_fp32, *types, 4096, grid=(1,), target="sm_90", counts=False, BLOCK=64
    )
    narrow = [one for one in found if one.kind == "narrow-access"]
    assert all("along the tile's other axis" in one.what for one in narrow)
    assert narrow


@triton.jit
def copies_in_stages(x_ptr, y_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for at in tl.range(0, n, BLOCK, num_stages=STAGES):
        x = tl.load(x_ptr + at + tl.arange(0, BLOCK))
        tl.store(y_ptr + at + tl.arange(0, BLOCK), 2 * x)


def test_stages_are_those_of_the_loop_where_it_has_its_own() -> None:
    types = ("*fp32:16", "*fp32:16", "i32:16")
    found = diagnosis(copies_in_stages, *types, BLOCK=256, STAGES=2, grid=(132,), target="sm_90")
    (stages,) = (each for each in found if each.kind == "too-few-stages")
    assert stages.evidence["num_stages"] == 2
    assert "tl.range" in stages.advice
    found = diagnosis(copies_in_stages, *types, BLOCK=256, STAGES=4, grid=(132,), target="sm_90")
    assert "too-few-stages" not in {each.kind for each in found}


@triton.jit
def copies(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for at in range(0, n, BLOCK):
        x = tl.load(x_ptr + at + tl.arange(0, BLOCK))
        tl.store(y_ptr + at + tl.arange(0, BLOCK), 2 * x)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 4])
def test_stages_are_advised_where_they_change_the_loop(stages: int) -> None:
    """A loop without a product is pipelined only on request, whatever the launch's option."""
    types = ("*fp32:16", "*fp32:16", "i32:16")
    found = diagnosis(copies, *types, BLOCK=256, num_stages=stages, grid=(132,), target="sm_90")
    (waits,) = (each for each in found if each.kind == "loop-not-pipelined")
    assert "no tl.dot" in waits.what
    assert waits.advice.startswith("Write for i in tl.range(..., num_stages=3).")


@pytest.mark.slow
def test_stages_of_a_file_are_not_tried(tmp_path: Path) -> None:
    types = ("*fp32:16", "*fp32:16", "i32:16")
    compilation: Any = kernellab.compile(
        copies_in_stages, *types, BLOCK=256, STAGES=2, target="sm_90", record="stages"
    )
    loaded = kernellab.load(compilation.save(tmp_path / "copies"))
    found = diagnosis(loaded, grid=(132,))
    assert "too-few-stages" not in {each.kind for each in found}


QUOTIENT = """"builtin.module"() ({
  "tt.func"() <{function_type = () -> (), sym_name = "f", sym_visibility = "public"}> ({
    %large = "arith.constant"() <{value = -9007199254740995 : i64}> : () -> i64
    %two = "arith.constant"() <{value = 2 : i64}> : () -> i64
    %half = "arith.divsi"(%large, %two) : (i64, i64) -> i64
    %rest = "arith.remsi"(%large, %two) : (i64, i64) -> i64
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()"""


def test_integers_beyond_the_exact_floats_are_divided_exactly() -> None:
    values = {value.name_hint: value for op in read_module(QUOTIENT).walk() for value in op.results}
    scalars = Scalars({})
    assert scalars.number(values["half"]) == -((2**53 + 3) // 2)
    assert scalars.number(values["rest"]) == -1
