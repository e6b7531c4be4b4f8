"""Cards: their two forms have the same words, foreign text is escaped, facts are the records'."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

import kernellab
from benchmarks import memory_kernels as kernels
from kernellab.checker.records import Finding, Findings
from kernellab.compiler.records import Resources
from kernellab.errors import SourcePosition
from kernellab.profiling.diagnosis.records import Diagnosis
from kernellab.records import Launch, Run, Specialization, Target
from kernellab.records.display import HasCard, PrintsAsCard
from kernellab.viz import registry
from kernellab.viz.diagnostics import accesses_card, diagnosis_card
from kernellab.viz.kernels import (
    Numbers,
    Verdict,
    argument_table,
    change_of,
    compilation_card,
    kernel_card,
    launch_card,
    lead_of,
    plain_card,
    resources_card,
    run_card,
)
from kernellab.viz.kit.view import Card, CardView, Table, card_of
from tests.kernels import basic
from tests.kernels.basic import add
from tests.support.compiled import compiled

SM_90 = Target("cuda", "90")


class Words(HTMLParser):
    """The words of a page, its tags, and the style attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


@pytest.fixture(scope="module")
def matmul() -> kernellab.Compilation:
    return compiled(
        basic.matmul, *["*fp16:16"] * 3, *["i32:16"] * 4, 1, "i32:16", 1, "i32:16", 1, BLOCK_M=64,
        BLOCK_N=64, BLOCK_K=32, target="sm_90",
    )  # fmt: skip


@pytest.fixture
def run() -> Run:
    specialization = Specialization(
        signature={"x": "*fp32", "pair": ("i32", "*fp16"), "one": "constexpr", "name": "constexpr"},
        constants={(2,): 1, (3,): "<script>&"},
        attributes={(0,): [["tt.divisibility", 16]], (1, 1): [["tt.divisibility", 16]]},
        origins=dict.fromkeys(("x", "pair", "one", "name"), "launch"),
    )
    launch = Launch("k<1>", (3, 1, 1), specialization, {"x": "float32[7]"}, {"num_warps": 8})
    return Run(launch, "interpreter", SM_90, 0.00125)


def cards(matmul: kernellab.Compilation, run: Run) -> list[Card]:
    return [
        kernel_card(matmul, run=run, notes=["a < b"]),
        compilation_card(matmul),
        run_card(run),
        launch_card(run.launch),
        resources_card(matmul.resources),
        plain_card("k", SM_90, ["<not> given"]),
    ]


def test_html_and_text_say_the_same(matmul: kernellab.Compilation, run: Run) -> None:
    for card in cards(matmul, run):
        page = Words(card.html())
        assert page.open == []
        assert page.words == card.text().split()


def test_foreign_text_is_escaped(matmul: kernellab.Compilation, run: Run) -> None:
    for card in cards(matmul, run):
        for foreign in ("<script>", "k<1>", "a < b", "<not>"):
            assert foreign not in card.html()
    assert "k&lt;1&gt;" in run_card(run).html()
    assert "&lt;script&gt;&amp;" in launch_card(run.launch).html()


def test_a_card_needs_no_script_and_no_network(matmul: kernellab.Compilation, run: Run) -> None:
    for card in cards(matmul, run):
        page = card.html()
        for forbidden in ("<script", "<style", "<link", "<img", "http", "url("):
            assert forbidden not in page


def test_types_promises_and_constants(run: Run) -> None:
    rows = argument_table(run.launch.specialization, run.launch).rows
    assert [tuple(row) for row in rows] == [
        ("x", "*fp32, divisible by 16", "float32[7]", "launch"),
        ("pair", "(i32, *fp16, divisible by 16)", "", "launch"),
        ("one", "constexpr", "1", "launch"),
        ("name", "constexpr", "'<script>&'", "launch"),
    ]


def test_a_compilations_numbers_are_on_its_card(matmul: kernellab.Compilation) -> None:
    text = compilation_card(matmul).text()
    resources = matmul.resources
    assert f"{resources.registers} / 255" in text
    occupancy = matmul.occupancy()
    assert f"{occupancy.warps} of {occupancy.most_warps} warps" in text
    assert f"shared memory         {resources.shared_bytes:,} bytes" in text
    sass = matmul.stages["sass"].text
    # An independent count: each instruction of SASS ends with a semicolon;
    # behind the last EXIT a kernel without calls has padding.
    code = [line for line in sass.splitlines() if line.rstrip().endswith(";")]
    instructions = max(n for n, line in enumerate(code, 1) if re.search(r"\bEXIT\b", line))
    assert {line.split()[1].rstrip(";") for line in code[instructions:]} <= {"BRA", "NOP"}
    assert f"{instructions:,} instructions" in text
    products = [line for line in sass.splitlines() if "HGMMA" in line]
    assert f"{len(products)} × HGMMA" in text
    ttgir = matmul.stages["ttgir"].text.splitlines()
    assert f"{sum(not line.startswith('#loc') for line in ttgir)} lines" in text


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_a_stage_has_one_size_whatever_its_lines_are_linked_to(target: str) -> None:
    """The explorer compiles with other debug lines than a launch does, and to the same code."""
    arguments = [*["*fp32:16"] * 3, "i32"]
    cards = []
    for record in ("stages", "passes"):
        made = compiled(basic.add, *arguments, BLOCK=128, target=target, record=record)
        text = compilation_card(made).text()
        cards.append(text.splitlines())
    assert cards[0] == cards[1]


def test_an_amd_card_has_amds_stages() -> None:
    pointers = ["*fp32:16"] * 3
    made = compiled(basic.add, *pointers, "i32", BLOCK=128, target="gfx942", num_warps=2)
    text = compilation_card(made).text()
    assert "amdgcn" in text
    assert "sass" not in text
    assert "warps per program     2" in text
    assert "matrix instructions   none" in text


def test_an_edit_shows_what_it_changed(messages) -> None:
    before = Numbers(58, 0, 24_576, 0.25)
    assert change_of(before, before) == ""
    assert change_of(before, replace(before, registers=44, occupancy=0.375)) == messages
    assert change_of(before, Numbers(59, 16, 0, None)) == messages


def test_the_worst_finding_is_what_to_fix_first(messages) -> None:
    place = SourcePosition("k.py", 3)
    nan = Finding.of("nan", "x is NaN", "", place)
    wrong = Finding.of("race", "two programs write y_ptr[0]", "", place)
    lead, links = lead_of(Verdict(Findings("k", "sm_90", (1, 1, 1), (nan, wrong))))
    assert lead == messages
    assert [link.tab_id for link in links] == ["check"]
    passed = Verdict(Findings("k", "sm_90", (1, 1, 1)), Diagnosis("k", "sm_90", None, ()))
    assert lead_of(passed) == ("Nothing to fix.", ())
    assert lead_of(Verdict()) == lead_of(None) == ("", ())


def test_spills_are_named(messages) -> None:
    text = resources_card(Resources(255, 1024, 0, 1024)).text()
    assert text == messages
    text = resources_card(Resources(255, 60, 0, 64, spill_loads=120)).text()
    assert text == messages
    printing = resources_card(Resources(40, 0, 0, 24)).text()
    assert re.search(r"spilled +nothing", printing)


def test_a_run_on_a_gpu_says_so(run: Run, messages) -> None:
    on_gpu = Run(run.launch, "gpu", SM_90)
    assert "GPU" in run_card(on_gpu).text()
    assert run_card(on_gpu).text() == messages
    assert on_gpu.seconds is None
    assert " ms" not in run_card(on_gpu).text()


def test_columns_line_up_in_the_terminal() -> None:
    card = Card("t", tables=(Table("Things", ("a", "b"), (("long name", "1"), ("x", "22"))),))
    assert card.text().splitlines() == [
        "t", "  Things", "    a          b", "    long name  1", "    x          22",
    ]  # fmt: skip


def test_every_record_with_a_card_shows_it_by_itself() -> None:
    """The classes that cards are registered of are those that notebooks ask for one."""
    assert not registry.can_show(object())  # which asks for all there are
    kinds = [kind for kind in card_of.registry if kind is not object]
    assert registry.card(Resources(40, 0, 0, 24)) == resources_card(Resources(40, 0, 0, 24))
    for kind in kinds:
        assert issubclass(kind, HasCard)
        assert callable(card_of.dispatch(kind))
    asked = set(_below(HasCard)) - {PrintsAsCard}
    assert asked >= set(kinds)
    assert all(card_of.dispatch(kind) is not card_of.dispatch(object) for kind in asked)


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _below(subclass)


@pytest.fixture(scope="module")
def slow() -> Any:
    """Why a small launch is slow: two findings, one of them on a line."""
    x = torch.rand(4096)
    return kernellab.diagnose(add, x, x, x, 4096, grid=(4,), target="sm_90", BLOCK=1024)


def test_a_diagnosis_has_a_bar_for_each_busy_part_and_each_finding_once(slow) -> None:
    card = diagnosis_card(slow)
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


def test_numbers_and_bars_of_the_live_card(open_page, slow) -> None:
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
