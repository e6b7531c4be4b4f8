"""Profiles: metrics by expression, filters, differences, timelines, files."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy
import pytest

import kernellab
from kernellab.errors import ArchiveError, ArgumentError, OptionError, ProfileError
from kernellab.profiling.profiles import trees
from kernellab.profiling.profiles.records import Scope
from tests.support.made_profiles import made_profile


def value(metric: str, scope: str) -> float:
    table = made_profile().table([metric])
    return float(table[table["name"] == scope][metric].iloc[0])


@pytest.mark.parametrize(
    ("metric", "scope", "expected"),
    [
        ("time/ms", "ROOT", 4),
        ("time/ms", "step", 3),
        ("time/us", "matmul<&>", 2000),
        ("Time/NS", "matmul<&>", 2e6),
        ("avg_time/us", "matmul<&>", 500),
        ("tflop16/s", "matmul<&>", 400),
        ("tflop/s", "matmul<&>", 400),
        ("gbyte/s", "add", 3000),
        ("gbyte/s", "step", 4 / 3e-3),
        ("time/%", "step", 75),
        ("count", "ROOT", 6),
        ("loss", "step", 0.5),
        ("num_samples", "matmul<&>", 40),
        ("flops16", "rest", math.nan),
        # 8e11 operations at 132 SMs, 1.98 GHz: Proton's formula for the peak of sm_90.
        ("util", "matmul<&>", 8e11 / (132 / 114 * 1980 / 1755 * 1513e12 / 2) / 2e-3),
        ("util", "step", math.nan),
    ],
)
def test_metrics_by_expression(metric: str, scope: str, expected: float) -> None:
    assert value(metric, scope) == pytest.approx(expected, nan_ok=True)


def test_the_tree_is_what_proton_viewer_prints() -> None:
    tree = made_profile().tree("time/ms")
    assert tree == (
        "4.000 ROOT\n"
        "├─ 3.000 step\n"
        "│  ├─ 2.000 matmul<&>\n"
        "│  │  ├─ nan k.py:10\n"
        "│  │  └─ nan k.py:12\n"
        "│  └─ 1.000 add\n"
        "└─ 1.000 rest\n"
        "   └─ 1.000 add"
    )
    assert repr(tree) == tree
    assert made_profile().tree("time/ms,count", depth=1) == (
        "4.000 6.000 ROOT\n├─ 3.000 5.000 step\n└─ 1.000 1.000 rest"
    )


def test_filters() -> None:
    made = made_profile()
    assert list(made.table("count", include="mat")["name"]) == [
        "ROOT", "step", "matmul<&>", "k.py:10", "k.py:12",
    ]  # fmt: skip
    without = made.filter(exclude="^step$")
    assert [one.name for one in without] == ["ROOT", "rest", "add"]
    assert without.table("time/ms")["time/ms"].iloc[0] == 1
    large = made.table("time/ms", threshold=1.5)
    assert list(large["name"]) == ["ROOT", "step", "matmul<&>"]
    assert list(large["time/ms"]) == [4, 3, 2]  # what is left out counts where it was
    assert made.filter(include="no such").root.children == ()


def test_a_difference_compares_rates_and_not_their_parts(messages) -> None:
    made = made_profile()
    matmul = Scope("matmul<&>", "kernel", {"time (ns)": 1e6, "count": 4, "flops16": 8e11})
    faster = made_profile(root=Scope("ROOT", "root", {}, (Scope("step", "scope", {}, (matmul,)),)))
    table = (faster - made).table(["tflop16/s", "time/ms"]).set_index("name")
    assert table.loc["matmul<&>", "tflop16/s"] == pytest.approx(400)
    assert table.loc["matmul<&>", "time/ms"] == pytest.approx(-1)
    assert table.loc["rest", "time/ms"] == pytest.approx(-1)
    assert "      -1.000 matmul<&>" in (faster - made).tree("time/ms")
    assert "matmul" in str(faster - made)
    assert str(made - made_profile(measured_by="interpreter")) == messages


def test_lines_and_perturbation() -> None:
    made: Any = made_profile()
    lines = made.lines
    assert list(lines.columns[:6]) == [
        "kernel", "line", "operation", "cycles", "share", "executions",
    ]  # fmt: skip
    assert list(lines["line"]) == [10, 12]
    assert lines["share"].sum() == 1
    assert made.perturbation.ratio == pytest.approx(1.1)
    assert "1.10 times" in str(made)


def test_a_timeline_is_a_chrome_trace(tmp_path) -> None:
    made = made_profile()
    records = made.timeline().records
    assert list(records["scope"]) == ["tt.load", "tt.load", "tt.store"]
    assert list(records["duration"]) == [1000, 400, 500]
    assert list(made.timeline(program=1).records["start"]) == [1000]
    file = made.timeline().save(tmp_path / "t.json")
    events = [one for one in json.loads(file.read_text())["traceEvents"] if one["ph"] == "X"]
    assert [(one["name"], one["ts"], one["dur"]) for one in events] == [
        ("tt.load", 0, 1), ("tt.load", 0, 0.4), ("tt.store", 1.5, 0.5),
    ]  # fmt: skip
    assert made.timeline()._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(OptionError, match="program 7"):
        made.timeline(program=7)
    with pytest.raises(ProfileError, match="no events"):
        made_profile(events=None).timeline()


def test_a_saved_profile_is_the_same(tmp_path) -> None:
    made: Any = made_profile()
    again: Any = kernellab.load(made.save(tmp_path / "a.profile"))
    assert again == made
    for name in ("program", "warp", "scope", "start", "end"):
        assert numpy.array_equal(getattr(again.events, name), getattr(made.events, name))
    assert again.events.names == made.events.names
    (tmp_path / "b").write_bytes((tmp_path / "a.profile").read_bytes()[:200])
    with pytest.raises(ArchiveError, match="cut off"):
        kernellab.load(tmp_path / "b")


def test_a_deep_tree_is_saved_and_read(tmp_path) -> None:
    root = Scope("deepest", "frame", {"time (ns)": 1})
    for level in range(199):
        root = Scope(f"f{level}", "frame", {}, (root,))
    made = made_profile(root=Scope("ROOT", "root", {}, (root,)))
    assert kernellab.load(made.save(tmp_path / "deep")).tree() == made.tree()


def test_the_card_and_the_flame_graph() -> None:
    made = made_profile()
    shown = made._repr_mimebundle_()
    assert "made &lt;up&gt;" in shown["text/html"]
    assert "<note>" not in shown["text/html"]
    assert "proton, NVIDIA H200 (sm_90)" in shown["text/plain"]
    assert (
        "made <up>: 4 ms in 6 launches, matmul<&> 50 %, line 10 tt.load 75 %" in shown["text/plain"]
    )
    assert "linear-gradient(90deg,#56b4e9 0.0% 100.0%" in shown["text/html"]
    assert made.plot().png().startswith(b"\x89PNG")
    assert made.tree().plot().svg().count("matmul") >= 1


def test_what_means_nothing_is_refused(messages, raised, monkeypatch) -> None:
    made = made_profile()
    raised(OptionError, made.table, "tflop8/s", match="tflop8/s")
    raised(OptionError, made.table, "cuont")
    raised(OptionError, made.tree, include="(")
    monkeypatch.setattr(trees, "_MOST_SECONDS", 0.05)
    named = replace(made, root=Scope("a" * 40 + "!", "root"))
    raised(OptionError, named.tree, exclude="(a+)+$", match="to match")
    raised(OptionError, made.table, metrics=5)
    with pytest.raises(OptionError, match="threshold"):
        made.tree(threshold="x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError) as caught:
        made - 5  # type: ignore[operator]
    assert caught.value == messages
    with pytest.raises(OptionError, match="no metrics"):
        made_profile(root=Scope("ROOT", "root")).plot()


def test_a_hatchet_file_is_protons(tmp_path) -> None:
    made = made_profile()
    file = made.save(tmp_path / "p.hatchet")
    tree, devices = json.loads(file.read_text())
    assert tree["frame"] == {"name": "ROOT", "type": "function", "measured_by": "proton"}
    assert set(made.metrics) <= set(tree["metrics"])  # by which proton-viewer knows them
    assert devices["CUDA"]["0"]["num_sms"] == 132
    again = kernellab.load(file)
    assert (again.measured_by, again.root) == ("proton", made.root)
    assert again.machine.devices == made.machine.devices
    assert (list(again.lines["line"]), list(again.lines["share"])) == ([10, 12], [0.75, 0.25])
    cpu = made_profile(measured_by="interpreter").save(tmp_path / "cpu.hatchet")
    assert kernellab.load(cpu).measured_by == "interpreter"


def test_protons_own_scopes_and_those_with_nothing_are_left_out(tmp_path) -> None:
    def node(name: str, *children: object, **metrics: object) -> dict[str, object]:
        frame = {"name": name, "type": "function"}
        return {"frame": frame, "metrics": metrics, "children": list(children)}

    own = node("__proton_launch_metadata", node("empty_kernel", **{"time (ns)": 5}))
    loss = node("a.py:3@step", node("vector", loss=[1, 2.5], device_id="0"))
    data = [node("ROOT", own, node("nothing"), loss, **{"time (ns)": 0})]
    (tmp_path / "p").write_text(json.dumps(data))
    found = kernellab.load(tmp_path / "p")
    assert [(one.name, one.kind) for one in found] == [
        ("ROOT", "root"), ("a.py:3@step", "frame"), ("vector", "kernel"),
    ]  # fmt: skip
    assert found.table("loss")["loss"].iloc[0] == 3.5


def test_speedscope_has_a_profile_for_each_metric(tmp_path) -> None:
    made = made_profile()
    data = json.loads(made.save(tmp_path / "p.speedscope.json").read_bytes())
    frames = [frame["name"] for frame in data["shared"]["frames"]]
    found = {profile["name"]: profile for profile in data["profiles"]}
    assert found["time"]["unit"] == "nanoseconds"
    for name, metric in (("time", "time/ns"), ("num_samples", "num_samples")):
        ours = made.table(metric).set_index("name")[metric]
        stacks, weights = found[name]["samples"], found[name]["weights"]
        assert found[name]["endValue"] == sum(weights) == pytest.approx(ours["ROOT"])
        of_matmul = sum(
            weight
            for stack, weight in zip(stacks, weights, strict=True)
            if "matmul<&>" in [frames[frame] for frame in stack]
        )
        assert of_matmul == pytest.approx(ours["matmul<&>"])


def test_chrome_traces_nest(tmp_path) -> None:
    again = kernellab.load(made_profile().timeline().save(tmp_path / "t"))
    assert list(again.timeline().records["duration"]) == [1000, 400, 500]
    events = [
        {"ph": "X", "name": "outer", "pid": "a", "tid": 1, "ts": 0, "dur": 10},
        {"ph": "X", "name": "inner", "pid": "a", "tid": 1, "ts": 2, "dur": 3, "cat": "kernel"},
        {"ph": "B", "name": "begun", "pid": "a", "tid": 1, "ts": 6},
        {"ph": "E", "pid": "a", "tid": 1, "ts": 8},
        {"ph": "M", "name": "process_name"},
    ]
    (tmp_path / "u").write_text(json.dumps({"traceEvents": events}))
    assert kernellab.load(tmp_path / "u").tree("time/us") == (
        "10.000 ROOT\n└─ 10.000 outer\n   ├─ 3.000 inner\n   └─ 2.000 begun"
    )


@pytest.mark.parametrize(
    "content",
    [
        '[{"frame": 5, "children": []}]',
        '[{"children": []}]',
        '[{"frame": {"name": "a"}, "metrics": {"time (ns)": 1e301}, "children": []}]',
        '{"traceEvents": 5}',
        '{"traceEvents": [{"ph": "X", "ts": 1e300}]}',
        '[{"frame": {"name": "a"}, "metrics": {}, "children": [',
    ],
)
def test_foreign_files_that_are_none_are_refused(tmp_path, content, raised) -> None:
    (tmp_path / "p").write_text(content)
    raised(ArchiveError, kernellab.load, tmp_path / "p")


def test_a_hatchet_file_nested_too_deeply_is_refused(tmp_path) -> None:
    node = '{"frame": {"name": "a"}, "metrics": {"x": 1}, "children": ['
    (tmp_path / "p").write_text("[" + node * 300 + "]}" * 300 + "]")
    with pytest.raises(ArchiveError, match="nested deeper"):
        kernellab.load(tmp_path / "p")
