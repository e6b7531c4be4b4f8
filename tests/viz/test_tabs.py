"""The views of one launch lead to each other: what the kernel answers, and anchors in a page."""

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from playwright.sync_api import expect

import kernellab
from kernellab.errors import ArgumentError, CompileError, KernelLabError, OptionError, OutOfBounds
from kernellab.records.display import show
from kernellab.tracing.records import Trace
from kernellab.viz.kit.data import Answer, answer
from kernellab.viz.launch_tabs import LaunchTabs, stopped_card, tabs_for
from tests.support.layouts import blocked


@triton.jit
def shifted(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for turn in range(3):
        x = tl.load(x_ptr + i + turn, mask=i < n)
        tl.store(z_ptr + i, x, mask=i < n)


SOURCE = Path(__file__).read_text().splitlines()
LOAD = next(at for at, line in enumerate(SOURCE, 1) if "x = tl.load(x_ptr + i + turn" in line)


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(64.0), torch.zeros(64)


@pytest.fixture(scope="module")
def findings() -> Any:
    """A check with one finding: program 3 reads beyond the end, in the second turn."""
    found = kernellab.check(shifted, (4,), *tensors(), 64, BLOCK=16)
    assert len(found) == 1
    return found


def tabs_of(record: Any) -> Any:
    return tabs_for(record)


def trace_in(tabs: LaunchTabs) -> Trace:
    stepper: Any = tabs.enter("steps", {})[0]
    trace: Trace = stepper.trace
    return trace


def opens(tabs: LaunchTabs, tab_id: str, shown: int = -1, **at: Any) -> Answer:
    found = answer(tabs.handlers, {"kind": "open", "tab": tab_id, "at": at, "shown": shown})
    assert found is not None
    return found


def test_a_launch_leads_everywhere_and_a_compilation_alone_to_its_own(findings: Any) -> None:
    everywhere = ["card", "ir", "layouts", "steps", "check", "accesses", "diagnosis", "sweep"]
    assert [tab.id for tab in tabs_of(findings).tabs] == everywhere
    alone = kernellab.compile(shifted, "*fp32:16", "*fp32:16", "i32", BLOCK=16, target="sm_90")
    assert [tab.id for tab in tabs_of(alone).tabs] == ["card", "ir", "layouts"]
    assert tabs_for(blocked((8,), [1], [32], [1], [0])) is None  # fmt: skip


def test_a_finding_leads_to_the_step_that_does_it(findings: Any) -> None:
    tabs = tabs_of(findings)
    found = opens(tabs, "steps", finding=0)
    assert "problem" not in found.content
    at = found.content["at"]
    assert at["program"] == [3, 0, 0]
    assert at["line"] == LOAD
    trace = trace_in(tabs)
    step = trace[at["step"]]
    assert (step.line, step.frame.program) == (LOAD, (3, 0, 0))
    assert trace.at(step).turn == 1, "the first turn stays inside"
    assert len(found.buffers) == 1
    again = opens(tabs, "steps", shown=found.content["view"], finding=0)
    assert again.buffers == [], "what is shown already is not sent again"


def test_what_an_opened_view_asks_goes_to_its_own_handlers(findings, messages) -> None:
    tabs = tabs_of(findings)
    asked = {"kind": "within", "tab": "ir", "inner": {"kind": "text", "side": 0, "text": 1}}
    early: Any = answer(tabs.handlers, asked)
    assert early.content["problem"] == messages
    opens(tabs, "ir", line=LOAD)
    late: Any = answer(tabs.handlers, asked)
    assert "tt.func" in late.content["text"]


def test_an_untraced_program_is_traced_with_the_arguments_of_the_launch() -> None:
    x, z = tensors()
    trace = kernellab.trace(shifted, (4,), x[:48], z, 48, BLOCK=16)
    x.fill_(-1)
    tabs = tabs_of(trace)
    first = opens(tabs, "steps")
    more = opens(tabs, "steps", shown=first.content["view"], program=[2, 0, 0])
    assert more.content["view"] != first.content["view"]
    assert len(more.buffers) == 1
    both = trace_in(tabs)
    assert both.facts.programs == ((0, 0, 0), (2, 0, 0))
    assert both.history("x", (2, 0, 0))[0].value.tolist() == [float(n) for n in range(32, 48)]
    outside = opens(tabs, "steps", program=[9, 0, 0])
    assert "outside" in outside.content["problem"] or "grid" in outside.content["problem"]


def test_the_tab_of_sweeps_is_disabled_until_there_is_one(findings, messages) -> None:
    (sweep,) = (tab for tab in tabs_of(findings).tabs if tab.id == "sweep")
    assert sweep.why_not == messages
    assert not any(tab.why_not for tab in tabs_of(findings).tabs if tab.id != "sweep")


def test_a_launch_that_a_fault_stopped_leads_to_the_step_and_the_check() -> None:
    kernel = kernellab.TileKernel(shifted)
    with pytest.raises(OutOfBounds) as error:
        kernel[(4,)](*tensors(), 64, BLOCK=16)
    view: Any = stopped_card(error.value)
    (table,) = view.data.tables
    assert [link.words for link in table.links] == ["step", "IR", "check"]
    assert dict(table.rows)["where"].startswith("program (3, 0, 0)")
    tabs: Any = view.tab_group
    at = opens(tabs, "steps", **table.links[0].at).content["at"]
    trace: Any = trace_in(tabs)
    assert (at["step"], at["line"]) == (trace.fault.step, LOAD)
    assert "out-of-bounds" in repr(tabs.enter("check", {})[0])
    assert stopped_card(ArgumentError("n must be positive.")) is None


def test_a_kernel_that_does_not_compile_leads_to_what_the_compiler_made() -> None:
    with pytest.raises(CompileError) as error:
        kernellab.compile(shifted, "*fp32", "*fp32", "*fp32", BLOCK=16, target="sm_90")
    view: Any = stopped_card(error.value)
    assert view.data.tone == "fail"
    (table,) = view.data.tables
    assert [link.words for link in table.links] == ["IR"]
    assert [tab.id for tab in view.tab_group.tabs] == ["ir", "stopped"]
    assert view.tab_group.enter("ir", {})[0].data.kind == "ir"


def test_what_cannot_be_opened_says_why(findings, tmp_path, messages, raised) -> None:
    tabs = tabs_of(findings)
    assert opens(tabs, "sweep").content["problem"] == messages
    assert "no tab 'garden'" in opens(tabs, "garden").content["problem"]
    assert "no finding 7" in opens(tabs, "steps", finding=7).content["problem"]
    trace = kernellab.trace(shifted, (4,), *tensors(), 48, BLOCK=16)
    trace.save(tmp_path / "trace")
    read = tabs_of(kernellab.load(next(tmp_path.glob("trace*"))))
    assert opens(read, "steps", program=[1, 0, 0]).content["problem"] == messages
    gone = LaunchTabs(lambda: None, {"check": findings})
    raised(KernelLabError, gone.enter, "steps", {"finding": 0})


@pytest.mark.slow
def test_a_page_links_its_views_by_anchors(open_page, tmp_path: Path) -> None:
    path = tmp_path / "launch.html"
    trace = kernellab.trace(shifted, (4,), *tensors(), 48, BLOCK=16, programs=[1, 2])
    show(trace).to_html(path, tabs=["card", "ir"])
    page = open_page(path, width=820)
    expect(page.locator(".kl-root[data-ready]")).to_have_count(3)
    card, ir, steps = (page.locator(f".kl-{kind}") for kind in ("card", "ir", "steps"))
    tabs = steps.locator("a.kl-tab")
    expect(tabs).to_have_text(["Card", "IR", "Steps"])
    place = tabs.nth(1).get_attribute("href")
    assert page.locator(f"section{place}").locator(".kl-ir").count() == 1
    card.locator("summary", has_text="Stages").click()
    card.get_by_role("button", name="ttgir").click()
    expect(ir.locator(".kl-pane")).to_have_count(2)
    expect(ir.locator(".kl-pane").nth(1)).to_contain_text("#blocked")
    expect(ir).to_be_in_viewport()
    ir.locator(".cm-line", has_text="tl.store").first.click()
    ir.locator("a.kl-tab", has_text="Steps").click()
    expect(steps.locator(".kl-source-line[aria-current]")).to_contain_text("tl.store")
    expect(steps).to_be_in_viewport()


def test_a_page_is_refused_tabs_that_there_are_not(tmp_path: Path) -> None:
    view = show(kernellab.trace(shifted, (4,), *tensors(), 48, BLOCK=16))
    with pytest.raises(OptionError, match="garden"):
        view.to_html(tmp_path / "launch.html", tabs=["garden"])
