"""The cards of a diagnosis and of accesses: bars for what is busy, costs and is wasted."""

import pytest
import torch
from playwright.sync_api import expect

import kernellab
from benchmarks import memory_kernels as kernels
from kernellab.profiling.diagnosis.records import Diagnosis
from kernellab.viz.diagnostics import accesses_card, diagnosis_card
from kernellab.viz.kit.view import CardView
from tests.kernels.basic import add
from tests.viz.browser import OpenPage


@pytest.fixture(scope="module")
def slow() -> Diagnosis:
    """Why a small launch is slow: two findings, one of them on a line."""
    x = torch.rand(4096)
    found = kernellab.diagnose(add, x, x, x, 4096, grid=(4,), target="sm_90", BLOCK=1024)
    assert isinstance(found, Diagnosis)
    return found


def test_a_diagnosis_has_a_bar_for_each_busy_part_and_each_finding_once(slow: Diagnosis) -> None:
    card = diagnosis_card(slow)
    assert slow.microseconds is not None
    assert slow.estimate is not None
    busy, *findings = card.tables
    assert card.title.endswith(f"{slow[0].kind} {slow[0].cost:.0%}".replace("%", " %"))
    least = {part.name: part.at_least for part in slow.estimate.parts}
    for (name, *_), bar in zip(busy.rows, busy.bars[2], strict=True):
        whole = sum(part.share for part in bar)
        assert whole == pytest.approx(slow.parts[name] / slow.microseconds)
        of_data_sheet = sum(part.share for part in bar if part.stands_for == "used")
        assert of_data_sheet <= least[name] / slow.microseconds + 1e-9
    text = card.text()
    assert len(findings) == len(slow)
    for table, finding in zip(findings, slow, strict=True):
        assert text.count(finding.what) == 1
        assert sum(part.share for part in table.title_bar) == pytest.approx(finding.cost)


def test_accesses_have_bars_of_what_is_useful_and_each_source_line_once() -> None:
    x, out = torch.rand(8192), torch.zeros(1024)
    strided = kernellab.accesses(
        kernels.copy_strided, (1,), x, out, STRIDE=8, BLOCK=1024, target="sm_90"
    )
    card = accesses_card(strided)
    table = next(table for table in card.tables if "sectors" in table.columns)
    load, store = table.bars[3]
    assert [part.stands_for for part in load] == ["used", "lost"]
    assert [part.stands_for for part in store] == ["used"]
    used, lost = (part.share for part in load)
    assert used + lost == pytest.approx(1)
    assert used == pytest.approx(strided.accesses[0].efficiency)
    a, b, c = (torch.zeros(128, 128, dtype=torch.float16) for _ in range(3))
    pipelined = kernellab.accesses(
        kernels.matmul, (2, 2), a, b, c, 128, 128, M=64, N=64, K=32, num_stages=3, target="sm_80"
    )
    text = accesses_card(pipelined).text()
    for title in ("access", "in shared memory"):
        (table,) = (one for one in accesses_card(pipelined).tables if one.columns[0] == title)
        lines = [row[1] for row in table.rows]
        assert lines == sorted(lines, key=int), "a line is above all that became of it"
    assert len({access.position for access in pipelined}) < len(pipelined)
    assert text.count("tl.store(") == 1
    assert text.count("tl.dot(") == 1


def test_numbers_and_bars_of_the_live_card(open_page: OpenPage, slow: Diagnosis) -> None:
    view = CardView(diagnosis_card(slow))
    page = open_page(view, width=420)
    bars = page.locator(".kl-bar-cell .kl-stack")
    expect(bars).to_have_count(len(diagnosis_card(slow).tables[0].rows))
    cost = page.locator(".kl-card-title .kl-stack").first
    share = cost.evaluate("bar => bar.firstChild.getBoundingClientRect().width / bar.clientWidth")
    assert share == pytest.approx(slow[0].cost, abs=0.02)
    number = page.locator(".kl-bar-cell + td").first
    assert number.evaluate("one => getComputedStyle(one).textAlign") == "right"
    facts = page.locator(".kl-card-table").first
    assert facts.evaluate("one => one.scrollWidth <= one.clientWidth + 1")
