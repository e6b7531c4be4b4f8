"""Cycles by line that `python -m benchmarks.line_cycles` recorded on an H200, replayed."""

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest

import kernellab
from tests.support.source_files import ROOT

DATA = ROOT / "benchmarks/data/line_cycles_h200.json"
SAVED = DATA.with_name("line_cycles_h200_matmul.klprofile")
MOST, WITHIN, OF = 1.3, 0.1, 8
"""What the profile is held to: so many times the plain launch, a sum so near to the program's
cycles, for so many of the twelve kernels."""


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DATA.read_text())
    return found


def kernels() -> dict[str, Any]:
    found: dict[str, Any] = recorded()["kernels"]
    return found


def by_line(one: dict[str, Any], way: str) -> Counter[int]:
    """Cycles, or samples, of each line of the kernel's own file."""
    found: Counter[int] = Counter()
    if way == "scopes":
        for line, _, cycles, _ in one["scopes"]["lines"]:
            found[line] += cycles
    else:
        found.update({int(line): count for line, count in one[way].items()})
    del found[0]
    return found


def leading(one: dict[str, Any], way: str) -> int:
    """The line that takes most."""
    return by_line(one, way).most_common(1)[0][0]


def test_every_kernel_was_measured_in_each_way() -> None:
    assert len(kernels()) == 12
    assert recorded()["machine"]["gpu"] == "NVIDIA H200"
    for one in kernels().values():
        assert not any("error" in one[way] for way in ("scopes", "ncu", "proton"))
    assert DATA.stat().st_size < 300_000


def test_marks_hardly_slow_a_launch_down() -> None:
    ratios = [one["scopes"]["perturbation"]["ratio"] for one in kernels().values()]
    assert sum(ratio <= MOST for ratio in ratios) >= OF


def test_scopes_add_up_to_their_program() -> None:
    sums = [one["scopes"]["cycles of a program"] for one in kernels().values()]
    off = [abs(one["sum of its scopes"] / one["by two marks"] - 1) for one in sums]
    assert sum(one <= WITHIN for one in off) >= OF


def test_shared_memory_stays_as_it_was() -> None:
    for one in kernels().values():
        perturbation = one["scopes"]["perturbation"]
        assert perturbation["shared_before"] == perturbation["shared_after"]
        assert perturbation["events_lost"] == 0


def test_the_line_that_leads_is_the_one_with_most_stalled_warps() -> None:
    """Where each line has marks: of two kernels loops, or all, had one scope."""
    same = [
        name for name, one in kernels().items() if leading(one, "scopes") == leading(one, "ncu")
    ]
    assert len(same) >= OF, same


def test_shares_are_those_of_nsight_compute() -> None:
    """Two instruments, one picture: the shares of the leading line are 12 points apart at most."""
    for name in ("softmax", "rms_norm", "dropout", "histogram by atomics", "cumsum", "vector add"):
        one = kernels()[name]
        line = leading(one, "ncu")
        ours, theirs = (
            by_line(one, way)[line] / by_line(one, way).total() for way in ("scopes", "ncu")
        )
        assert abs(ours - theirs) < 0.12, (name, ours, theirs)


def test_the_saved_profile_opens_anywhere(tmp_path, messages) -> None:
    profile = kernellab.load(SAVED)
    assert profile.origin == messages
    (kernel,) = profile.root.children
    assert [one.name for one in kernel.children] == messages
    assert profile.lines["share"].sum() == pytest.approx(1)
    timeline = profile.timeline()
    assert set(timeline.records["warp"]) == set(range(8))
    in_loop = timeline.records[timeline.records["scope"] == "63: dot"]
    assert len(in_loop) == 3 * 8 * 32  # programs, warps, turns
    trace = json.loads(timeline.save(tmp_path / "trace.json").read_text())
    assert len([one for one in trace["traceEvents"] if one["ph"] == "X"]) == len(timeline)
