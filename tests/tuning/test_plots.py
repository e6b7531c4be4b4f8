"""What is drawn of a sweep, and its card."""

import ast
import json
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.cli.demo.kernels import vector_add
from kernellab.common.text import percent
from kernellab.errors import ArgumentError
from kernellab.profiling.estimates.model import MEDIAN_ERROR
from kernellab.tuning.files import Named
from kernellab.tuning.plot_data import KINDS
from kernellab.tuning.records import Candidate, Dropped, Timing, Trial, Work
from kernellab.tuning.tuning import Live
from kernellab.viz.performance import tuning_card, tunings_card
from tests.kernels.tuned import double, scaled
from tests.support.pretended_gpu import pretended_gpu
from tests.support.source_files import ROOT
from tests.support.sweeps import MACHINE, sweep, sweep_of, timing, trial


def texts(labels) -> list[str]:
    return [label.get_text() for label in labels]


def test_times_are_ranked_and_ties_told() -> None:
    tuning = sweep()
    assert [one.number for one in tuning.ranked] == [1, 2, 3, 0]
    assert [one.number for one in tuning.ties] == [1, 2]
    row = tuning.table.loc[1]
    assert row["us"] == pytest.approx(10.0)
    assert row["GB/s"] == pytest.approx(12000 / 10e-6 / 1e9)
    assert row["TFLOP/s"] == pytest.approx(1000 / 10e-6 / 1e12)
    assert row["us, lower quartile"] == pytest.approx(9.95)
    assert tuning.table["why"][4] == "it <b>will</b> not"
    # A config prints as one line.
    assert str(tuning.best) == "1: BLOCK=128, num_warps=4: 10 us"
    assert repr(tuning.ties[1]) == "Trial(2: BLOCK=64, num_warps=8: 10.05 us)"
    assert str(tuning.trial(4)) == "4: BLOCK=96, num_warps=4: compile error: it <b>will</b> not"
    assert str(trial(7, None, BLOCK=8)) == "7: BLOCK=8, num_warps=4: not timed"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_what_its_data_says_and_the_data_is_json(kind) -> None:
    plot = sweep().plot(kind)
    assert plot.png().startswith(b"\x89PNG")
    data = json.loads(json.dumps(plot.data.to_json()))
    assert [point["config"] for point in data["points"]] == [1, 2, 3, 0]
    assert data["baselines"] == {"torch": pytest.approx(12.0)}
    assert data["varying"] == ["BLOCK", "num_warps"]
    if kind == "heatmap":
        assert sorted(data["axes"]) == ["BLOCK", "num_warps"]
    sparse = replace(trial(5, 12.0, BLOCK=64), candidate=Candidate({"BLOCK": 64}, {}))
    assert sweep_of(*sweep().trials, sparse).plot(kind).png().startswith(b"\x89PNG")


def test_without_times_resources_are_drawn(messages) -> None:
    trials = [trial(number, None, BLOCK=2**number) for number in (3, 1, 2)]
    untimed = sweep_of(*trials, trial(4, None, Dropped("crash", "gone"), BLOCK=5))
    drawn = untimed.plot()
    assert drawn.data.kind == "registers"
    points = json.loads(json.dumps(drawn.data.to_json()))["points"]
    assert [(one["config"], one["registers"]) for one in points] == [(3, 35), (1, 33), (2, 34)]
    (axes,) = drawn.figure.axes
    assert texts(axes.get_yticklabels()) == ["2", "4", "8"]
    assert list(axes.lines[0].get_xdata()) == [33, 34, 35]
    subtitle, *amounts = texts(axes.texts)
    assert subtitle == messages
    assert amounts == ["33", "34", "35"]
    assert untimed.plot("occupancy").png().startswith(b"\x89PNG")
    assert sweep().plot().data.kind == "times"
    assert untimed.show().data.plot == "registers"


def test_a_heat_map_shows_the_fastest_of_each_pair_and_frames_the_ties() -> None:
    (axes,) = sweep().plot("heatmap", x="num_warps", y="BLOCK").figure.axes
    assert {*texts(axes.texts)} >= {"20", "10", "10.05", "16"}
    places = {(round(one.get_x() + 0.44), round(one.get_y() + 0.4)) for one in axes.patches}
    assert places == {(0, 1), (1, 0)}  # num_warps 4 with BLOCK 128, num_warps 8 with BLOCK 64


def test_the_fastest_config_is_on_top_of_the_parallel_lines() -> None:
    (axes,) = sweep().plot("parallel").figure.axes
    times = [
        float(text.get_text())
        for text in sorted(axes.texts, key=lambda text: -text.get_position()[1])
        if text.get_position()[0] > len(axes.get_xticks()) - 1
    ]
    assert (times, times[0]) == (sorted(times), 10.0)
    *_, fastest = [line for line in axes.lines if len(line.get_xdata()) == len(axes.get_xticks())]
    assert fastest.get_ydata()[-1] == 1


def test_types_and_functions_are_named_in_the_order_of_the_sweep(tmp_path) -> None:
    configs = [(30.0, tl.float32, 64), (10.0, tl.float16, 64), (20.0, tl.float32, 32)]
    found = sweep_of(
        *(
            trial(number, us, KIND=kind, APPLIES=scaled, BLOCK=block)
            for number, (us, kind, block) in enumerate(configs)
        )
    )
    assert str(found.best) == "1: KIND=fp16, APPLIES=scaled, BLOCK=64, num_warps=4: 10 us"
    picture = found.plot("heatmap", x="BLOCK", y="KIND")
    assert json.loads(json.dumps(picture.data.to_json()))["points"][0]["values"]["KIND"] == "fp16"
    (axes,) = picture.figure.axes
    assert texts(axes.get_yticklabels()) == ["fp32", "fp16"]
    assert texts(axes.get_xticklabels()) == ["32", "64"]
    loaded = kernellab.Tuning.load(found.save(tmp_path / "sweep.json"))
    assert str(loaded.best) == str(found.best)


def test_a_lone_config_is_drawn_with_all_its_values() -> None:
    (axes,) = sweep_of(trial(0, 20.0, BLOCK=64)).plot("times").figure.axes
    assert texts(axes.get_yticklabels()) == ["64, 4"]
    assert axes.get_ylabel() == "BLOCK, num_warps"


def in_a_row(us: float) -> Timing:
    return replace(timing(us), method="graph")


def test_how_times_were_taken_is_said_in_table_card_plot_and_file(tmp_path, messages) -> None:
    warm = sweep_of(*(with_timing(one, in_a_row(5.0)) for one in sweep().trials[:4]))
    assert set(sweep().table["timed by"]) == {"do_bench, cold L2", ""}  # "": it was dropped
    assert set(warm.table["timed by"]) == {"CUDA graph, warm L2"}
    assert "Timed by do_bench, cold L2." in tuning_card(sweep()).text()
    assert "CUDA" in tuning_card(warm).text()
    assert tuning_card(warm).text() == messages
    assert sweep().plot().data.subtitle.endswith("; do_bench, cold L2")
    assert warm.plot().data.subtitle.endswith("; CUDA graph, warm L2")
    # torch's time beside it was taken in the other way.
    assert list(warm.plot().data.baselines) == ["torch (do_bench, cold L2)"]
    assert list(sweep().plot().data.baselines) == ["torch"]
    again = kernellab.Tuning.load(warm.save(tmp_path / "warm.json"))
    assert again.table.equals(warm.table)
    mixed = sweep_of(with_timing(sweep().trials[0], in_a_row(5.0)), *sweep().trials[1:])
    assert "1 by CUDA graph, warm L2 and 3 by do_bench, cold L2" in tuning_card(mixed).text()


def with_timing(one: Trial, found: Timing) -> Trial:
    return replace(one, outcome=replace(one.outcome, timing=found))


def test_sizes_are_lines_with_their_baselines() -> None:
    several = kernellab.Tunings([sweep(key={"n": 2000}), sweep(key={"n": 1000})])
    data = several.plot(y="GB/s").data
    assert [line.name for line in data.lines] == ["add", "torch"]
    assert data.lines[0].x == [1000.0, 2000.0]
    assert data.lines[0].y[0] == pytest.approx(12000 / 10e-6 / 1e9)
    assert all(line.lower <= line.y for line in data.lines)
    assert tick_labels(several) == ["1000", "2000"]
    long = [sweep(key={"n": n}) for n in (512, 16 << 10, 3 << 20)]
    assert tick_labels(kernellab.Tunings(long)) == ["512", "16 Ki", "3 Mi"]
    odd = kernellab.Tunings([sweep(key={"n": n}) for n in (1000, 1_000_000)])
    assert tick_labels(odd) == ["1000", "1000000"]
    assert several.plot().png().startswith(b"\x89PNG")
    assert list(several.table["BLOCK"]) == [128, 128]


def tick_labels(several: kernellab.Tunings) -> list[str]:
    (axes,) = several.plot().figure.axes
    return texts(axes.get_xticklabels())


@pytest.mark.slow
def test_the_documented_plot_of_several_kernels_and_torch_over_sizes_runs(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/tuning.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (code,) = [block for block in blocks if "def swept" in block]
    code = code.replace('"cuda"', '"cpu"').replace("range(12, 27, 2)", "range(8, 12, 2)")
    scope = {"torch": torch, "triton": triton, "kernellab": kernellab}
    scope |= {"add": vector_add, "add_by_pairs": vector_add}
    with pretended_gpu(lambda task: 0.1 + task.options["num_warps"] / 100):
        exec(code, scope)  # noqa: S102
    data = scope["one"].plot(y="GB/s", others=[scope["two"]]).data
    assert [line.is_baseline for line in data.lines] == [False, True] * 2
    assert [line.x for line in data.lines] == [[256, 1024]] * 4
    assert (tmp_path / "add.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_said(raised) -> None:
    one, failed = trial(0, 1.0, BLOCK=64), trial(0, None, Dropped("crash", "gone"), BLOCK=64)
    for subject, kind in (
        (sweep(), "heat"),
        (sweep_of(trial(0, None, BLOCK=64)), "times"),
        (sweep_of(trial(0, None, BLOCK=64)), "estimate"),
        (sweep_of(failed), "spills"),
        (sweep_of(one), "heatmap"),
        (sweep_of(one), "parallel"),
        (kernellab.Tunings([sweep(key={})]), "sizes"),
        (kernellab.Tunings([sweep()]), "times"),
    ):
        raised(ArgumentError, subject.plot, kind)
    for kind in KINDS:
        raised(ArgumentError, sweep_of(failed, replace(failed, number=1)).plot, kind, match="add")
    raised(ArgumentError, sweep().plot, "heatmap", x="BLOCK", y="BLOCK", match="BLOCK")


def test_the_card_says_the_fastest_the_tie_and_why_others_were_dropped(messages) -> None:
    card = tuning_card(sweep(notes=("interrupted: 3 configs were not tried",)))
    text = card.text()
    assert "add: 5 configs  for sm_90, NVIDIA H200" in text
    assert text == messages
    assert "1 × compile error" in text
    assert "&lt;b&gt;will&lt;/b&gt;" in card.html()
    alone = sweep_of(trial(0, None, BLOCK=64), machine=replace(MACHINE, gpu=""))
    assert "GPU" in tuning_card(alone).text()
    assert tuning_card(alone).text() == messages
    failed = tuning_card(sweep_of(trial(0, None, Dropped("crash", "gone"), BLOCK=64))).text()
    assert "needs a GPU" not in failed  # there was one
    assert failed == messages
    assert "n=1000" in tunings_card(kernellab.Tunings([sweep()])).text()


def test_sweeps_of_one_launch_are_put_together_and_other_gpus_refused(messages, raised) -> None:
    left = sweep_of(trial(0, 20.0, BLOCK=64), trial(1, None, BLOCK=128))
    right = sweep_of(trial(0, 10.0, BLOCK=128), trial(1, 30.0, BLOCK=256))
    both = left.merged(right)
    assert [one.candidate.values["BLOCK"] for one in both.trials] == [64, 128, 256]
    assert [one.number for one in both.trials] == [0, 1, 2]
    assert both.best.candidate.values["BLOCK"] == 128
    elsewhere = sweep(machine=replace(MACHINE, gpu="NVIDIA A100"))
    raised(ArgumentError, left.merged, elsewhere, match="NVIDIA")
    raised(ArgumentError, left.merged, sweep(key={"n": 5}))
    newer = left.merged(sweep(machine=replace(MACHINE, triton="3.7.1")))
    assert newer.notes[0] == messages


def of(n: int, block: int, **changes):
    return sweep_of(trial(0, 1.0, BLOCK=block), kernel="double", key={"n": n}, **changes)


def test_applied_tunings_choose_by_key_and_say_when_they_guess(capsys, messages, raised) -> None:
    applied = kernellab.Tunings([of(100, 32), of(10_000, 128)]).apply(double)
    assert applied.choose({"n": 100}).values == {"BLOCK": 32, "num_warps": 4}
    assert capsys.readouterr().err == ""
    assert applied.choose({"n": 5000}).values["BLOCK"] == 128
    assert capsys.readouterr().err == messages
    applied.choose({"n": 5000})
    assert capsys.readouterr().err == ""
    raised(ArgumentError, applied.choose, {})


def test_the_last_sweep_of_a_key_counts_and_gpus_are_never_mixed(raised) -> None:
    untimed = replace(of(300, 64), trials=(trial(0, None, BLOCK=64),))
    applied = kernellab.Tunings([of(100, 32), untimed, of(100, 64)]).apply(double)
    assert applied.choose({"n": 100}).values["BLOCK"] == 64
    assert [key for key, _ in applied.configs] == [{"n": 100}, {"n": 100}]
    other = of(200, 32, machine=replace(MACHINE, gpu="NVIDIA A100"))
    raised(ArgumentError, kernellab.Tunings([of(100, 32), other]).apply, double, match="NVIDIA")
    raised(ArgumentError, kernellab.Tunings([untimed]).apply, double, match="double")
    raised(ArgumentError, replace(untimed, trials=()).apply, double, match="double")
    assert "No config is valid" not in tuning_card(replace(untimed, trials=())).text()


def test_an_applied_tuning_launches_the_kernel(raised) -> None:
    x, z = torch.arange(100.0), torch.zeros(100)
    applied = sweep_of(trial(0, 1.0, BLOCK=32), kernel="double", key={}).apply(double)
    run = kernellab.run(applied, (4,), x, z, 100)
    assert torch.equal(z, 2 * x)
    assert run.launch.options["num_warps"] == 4
    raised(ArgumentError, applied.run, x, z, 100, match="BLOCK", grid=(4,), BLOCK=64)


def test_a_sweep_that_was_stopped_before_its_first_config_says_so(messages) -> None:
    stopped = sweep(trials=(), notes=("interrupted: 4 of 4 configs were not tried",), baselines={})
    assert repr(stopped) == "Tuning('add' for sm_90: 0 configs, 0 dropped, interrupted, not timed)"
    assert list(stopped.table.columns) == list(sweep().table.columns)[-9:]
    assert not len(stopped.table)
    (data,) = stopped.show().data.sweeps
    assert data.words == messages


def test_occupancy_is_rounded_as_in_the_view() -> None:
    """Halves go up: JavaScript's toPrecision(3), asked of Node for each, says the same."""
    shares = {36 / 64: "56.3 %", 1.0: "100 %", 0.0: "0 %", 1 / 3: "33.3 %", 0.5: "50 %"}
    shares[4 / 64] = "6.25 %"
    assert {share: percent(share) for share in shares} == shares


def test_a_card_says_how_to_explore_the_sweep_and_the_views_still_does_not(messages) -> None:
    tuning = sweep()
    assert tuning_card(tuning).notes[-1] == messages
    assert tunings_card(kernellab.Tunings([tuning])).notes[-1] == messages
    assert ".show() opens" not in tuning.show().still_html()


def test_a_view_without_times_counts_nothing_that_a_launch_moves() -> None:
    def count() -> Work:
        raise AssertionError("a kernel is compiled for that")

    untimed = [trial(number, None, BLOCK=64 << number) for number in range(3)]
    tuning = sweep_of(*untimed, known_work=None, live=Live(None, {}, count), baselines={})
    assert [one.gb_per_s for one in tuning.show().data.configs] == [None] * 3
    assert "GB/s" not in tuning.table


@pytest.mark.parametrize("kind", ["times", "heatmap", "parallel"])
def test_names_of_any_length_leave_a_picture_its_size(kind) -> None:
    long = "b c\n" * 3000 + "a" * 10_000
    values: list[dict[str, Any]] = [{long: n, "V": f"{n}{long}"} for n in range(3)]
    trials = [trial(n, 10.0 + n, None, **each) for n, each in enumerate(values)]
    found = sweep_of(*trials, kernel=long, baselines={long: timing(12.0)})
    picture = found.plot(kind).png()
    sizes = [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)]
    assert max(sizes) < 2000


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("times", "40 slower configs not shown; 34 baselines not shown"),
        ("heatmap", "80 values of P0 not shown; 80 values of P1 not shown"),
        ("parallel", "27 parameters not shown"),
    ],
)
def test_many_configs_parameters_values_and_baselines_leave_a_picture_its_size(kind, words) -> None:
    trials = [trial(n, 10.0 + n, None, **{f"P{k}": n for k in range(39)}) for n in range(100)]
    found = sweep_of(*trials, baselines={f"torch {one}": timing(one + 1) for one in range(50)})
    (axes,) = found.plot(kind).figure.axes
    written = " ".join(axes.texts[0].get_text().split())
    assert words in written
    assert len(axes.texts) < 20 * 20 + 10


@pytest.mark.filterwarnings("error")
def test_letters_that_the_font_lacks_warn_of_nothing() -> None:
    trials = [trial(number, 10.0 + number, 块=f"值{number}\U00010203") for number in range(2)]
    assert sweep_of(*trials, kernel="核").plot().png()


def test_without_times_estimates_are_drawn_with_their_error_and_the_first_five_marked() -> None:
    untimed = sweep(
        trials=tuple(trial(n, None, estimate=20.0 - n, BLOCK=2**n) for n in range(8)), baselines={}
    )
    drawn = untimed.plot()
    assert drawn.data.kind == "estimate"
    (axes,) = drawn.figure.axes
    assert [text.get_text() for text in axes.texts[1:]] == [f"{13 + n}" for n in range(8)]
    (band,) = [one for one in axes.containers if one.has_xerr]
    (segments,) = (one.get_segments() for one in band[2])
    assert segments[0][:, 0] == pytest.approx([13 * (1 - MEDIAN_ERROR), 13 * (1 + MEDIAN_ERROR)])
    rows = tuning_card(untimed).tables[0].rows
    assert [row[0] for row in rows] == ["★ 7", "★ 6", "★ 5", "★ 4", "★ 3", "2", "1", "0"]
    data = untimed.show().data
    assert [one.number for one in data.configs if one.standing == "candidate"] == [3, 4, 5, 6, 7]
    assert data.sweeps[0].answer == "about 13 us, estimated ± 6%: BLOCK=128, num_warps=4"
    space = ast.literal_eval(data.sweeps[0].space.removeprefix("space = "))
    assert space == untimed.candidates(5)


def test_a_text_of_a_file_is_not_copied_as_python() -> None:
    """A value that a file can only describe is text, which a pasted line would execute."""
    named = trial(1, None, estimate=2.0, BLOCK=Named("__import__('os').system('true')"))
    untimed = sweep(trials=(trial(0, None, estimate=1.0, BLOCK=8), named), baselines={})
    space = ast.literal_eval(untimed.show().data.sweeps[0].space.removeprefix("space = "))
    assert space == untimed.candidates(1)


def test_without_times_configs_are_ranked_by_what_the_compiler_says(messages) -> None:
    untimed = sweep_of(*(trial(number, None, BLOCK=2**number) for number in (3, 1, 2)))
    card = tuning_card(untimed)
    assert card.tables[0].title == messages
    assert [row[0] for row in card.tables[0].rows] == ["1", "2", "3"]
    ranks = {one.number: one.untimed_rank for one in untimed.show().data.configs}
    assert ranks == {1: 0, 2: 1, 3: 2}
