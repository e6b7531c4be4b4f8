"""The view of a profile: answer, lines and timeline, against the profile and in Chromium."""

from pathlib import Path
from typing import Any

import numpy
import pytest
from playwright.sync_api import Page, expect

import kernellab
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import Events
from kernellab.viz.profiles import ProfileView, kind_of, timeline_of
from tests.support.made_profiles import made_profile
from tests.support.source_files import ROOT
from tests.viz.browser import OpenPage, box_of

RECORDED = ROOT / "notebooks/recorded"


@pytest.fixture(scope="module")
def recorded() -> Any:
    """The cycles of a matmul's lines on an H200."""
    return kernellab.load(RECORDED / "profile_h200_lines.klprofile")


def data_of(profile: Profile) -> ProfileView:
    data = kernellab.show(profile).data
    assert isinstance(data, ProfileView)
    return data


def test_the_answer_and_the_lines_are_those_of_the_profile(recorded: Profile) -> None:
    data = data_of(recorded)
    assert data.answer == "270 us, line 71 async copy 32 %"
    (kernel,) = data.kernels
    assert [line.number for line in kernel.lines] == list(range(59, 77))
    hottest = max(kernel.lines, key=lambda line: line.share())
    assert (hottest.number, hottest.text.strip()) == (71, "a = tl.load(a_tile)")
    assert {cost.stands_for for cost in hottest.costs} == {"wait", "copy"}
    assert hottest.share() == recorded.lines.query("line == 71")["share"].sum()
    assert sum(line.share() for line in kernel.lines) == pytest.approx(1)


def test_the_timeline_has_every_event_by_row(recorded: Profile) -> None:
    events: Any = recorded.events
    timeline: Any = timeline_of(events)
    assert sum(row.events for row in timeline.rows) == len(events) == len(timeline.events) // 20
    assert [(row.program, row.warp) for row in timeline.rows] == [
        (program, warp) for program in (0, 16) for warp in range(8)
    ]
    count = len(events)
    starts, ends = numpy.frombuffer(timeline.events, "<f8", 2 * count).reshape(2, count)
    scopes = numpy.frombuffer(timeline.events, "<i4", count, 16 * count)
    took = numpy.bincount(scopes, ends - starts)
    assert numpy.array_equal(took, numpy.bincount(events.scope, events.end - events.start))


def test_a_large_timeline_has_whole_programs() -> None:
    programs, warps, each = 40, 8, 300
    shape = (programs, warps, each)
    program, warp, turn = (axis.ravel() for axis in numpy.indices(shape))
    events = Events(program, warp, turn % 2, turn * 10, turn * 10 + 9, ("tt.load", "tt.dot"))
    timeline: Any = timeline_of(events)
    assert timeline.left_out == "16 of 40 programs"
    assert timeline.kinds == ("copy", "dot")
    assert len(timeline.rows) == 16 * warps
    assert timeline_of(events.at(numpy.array([0]))) is None
    one_warp: Any = timeline_of(events.at(numpy.repeat(0, 70_000)))
    assert [row.events for row in one_warp.rows] == [60_000] == [len(one_warp.events) // 20]
    assert one_warp.left_out == "60,000 of 70,000 events"


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("wait for dot", "wait"),
        ("barrier", "wait"),
        ("dot", "dot"),
        ("tt.dot", "dot"),
        ("async copy, prologue", "copy"),
        ("tt.store", "copy"),
        ("arith.addi", "other"),
        ("index arithmetic", "other"),
    ],
)
def test_what_an_operation_is_there_for(operation: str, kind: str) -> None:
    assert kind_of(operation) == kind


def test_without_a_gpu_the_answer_is_what_was_counted() -> None:
    data = data_of(made_profile(measured_by="interpreter"))
    assert data.answer == "counted, not timed"
    assert not data.is_of_gpu
    assert data.measures == ("interpreter's time",)


def test_of_samples_those_of_stalled_warps_are_separate() -> None:
    data = data_of(kernellab.load(RECORDED / "profile_h200_samples.hatchet"))
    assert data.answer.endswith("line 73 stalled 30 %")
    assert [kernel.name for kernel in data.kernels][1:] == ["softmax", "softmax, in standard.py"]
    line = next(line for line in data.kernels[0].lines if line.number == 73)
    assert [(cost.words, cost.facts) for cost in line.costs] == [
        ("stalled", "405,172 samples"),
        ("issuing", "225,845 samples"),
    ]


@pytest.fixture(scope="module")
def page_file(recorded: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "profile.html"
    kernellab.show(recorded).to_html(file)
    return file


@pytest.fixture
def page(open_page: OpenPage, page_file: Path) -> Page:
    shown = open_page(page_file, width=1000)
    shown.locator(".kl-timeline canvas").wait_for()
    return shown


def test_the_answer_comes_first_and_lines_light_their_events(page: Page) -> None:
    answer = page.locator(".kl-answer")
    expect(answer).to_have_text("270 us, line 71 async copy 32\u00a0%")
    top, bottom = (
        box["y"] for box in (page.locator(".kl-root").bounding_box(), answer.bounding_box()) if box
    )
    assert bottom - top < 200
    page.get_by_role("option").filter(has_text="a = tl.load").click()
    said = page.locator(".kl-cost-words")
    expect(said).to_contain_text("async copy 32.2 % 15,183,565 cycles")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("dot 23.3 % 10,982,090 cycles")
    expect(page.locator(".kl-lines [aria-selected=true]")).to_have_attribute("data-line", "73")
    page.keyboard.press("Escape")
    expect(page.locator(".kl-lines [aria-selected=true]")).to_have_count(0)


@pytest.mark.slow
def test_a_selection_of_the_timeline_sums_its_cycles_onto_the_lines(page: Page) -> None:
    canvas, row = page.locator(".kl-timeline canvas"), page.locator("[data-line='71']")
    box = box_of(canvas)
    canvas.focus()
    for _ in range(6):
        page.keyboard.press("w")
    x, y = box["x"] + 300, box["y"]
    page.mouse.move(x, y + 24)
    page.mouse.down()
    page.mouse.move(x + 200, y + 44)
    page.mouse.up()
    said = page.locator(".kl-timeline [role=status]").first
    expect(said).to_contain_text("of 2 rows")
    expect(row.locator(".kl-line-share")).not_to_have_text("40.6 %")
    shares = page.locator(".kl-line-share").all_inner_texts()
    total = sum(float(share.removesuffix(" %")) for share in shares if share)
    assert total == pytest.approx(100, abs=0.3)
    canvas.focus()
    page.keyboard.press("Escape")
    expect(said).to_have_text("6,288 events")
    expect(row.locator(".kl-line-share")).to_have_text("40.6 %")
    page.mouse.click(x, y + 28)  # an event lights its line
    expect(page.locator(".kl-lines [aria-selected=true]")).to_have_count(1)


@pytest.mark.slow
@pytest.mark.parametrize("width", [420, 700, 1000, 1400])
def test_nothing_of_the_answer_is_cut_off(open_page: OpenPage, page_file: Path, width: int) -> None:
    page = open_page(page_file, width=width)
    page.locator(".kl-timeline canvas").wait_for()
    overflowing = page.evaluate(
        "[...document.querySelectorAll('.kl-profile, .kl-lines, .kl-answer, .kl-totals')]"
        ".filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.className)"
    )
    assert overflowing == []
    (hottest,) = page.locator(".kl-hottest").all()
    seen, around = box_of(hottest), box_of(page.locator(".kl-lines"))
    assert around["y"] <= seen["y"] <= around["y"] + around["height"] - 20


@pytest.mark.slow
def test_it_is_copied_as_text(page: Page, recorded: Profile) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as text").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == str(recorded)
