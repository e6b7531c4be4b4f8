"""Code of a file runs after a question or with trust=True, whatever is opened, shown or clicked."""

import builtins
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import kernellab
from kernellab.common import consent
from kernellab.errors import ArchiveError, ArgumentError, OptionError
from kernellab.graphs.report import GraphReport
from kernellab.records.graphs import Candidate
from kernellab.viz.graphs import GraphTabs
from tests.support import fuzzed_files
from tests.support.source_files import ROOT

REPORT = ROOT / "tests/viz/two_blocks.klgraph"


@pytest.fixture(autouse=True)
def nothing_trusted(monkeypatch: pytest.MonkeyPatch, no_prompt: None) -> None:
    monkeypatch.setattr(consent, "_trusted", set())


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What exists once a file's code has run."""
    return tmp_path / "ran"


def writes(marker: Path) -> str:
    return f"open({str(marker)!r}, 'w').close()\n"


@pytest.fixture
def report(tmp_path: Path, marker: Path) -> Path:
    """A saved report, each of whose modules writes the marker."""
    capture = kernellab.load(REPORT).capture
    first, *rest = capture.lowered
    kernel = replace(first.kernels[0], source=f"{writes(marker)}raise SystemExit  # @triton.jit")
    template = Candidate("mm", 0, "triton_mm", "", True, True, kernel.source)
    lowered = replace(first, kernels=(kernel,), candidates=(template,))
    changed = replace(capture, lowered=(lowered, *rest))
    return GraphReport(changed).save(tmp_path / "evil.klgraph")


def answered(monkeypatch: pytest.MonkeyPatch, answer: str | type[BaseException]) -> list[str]:
    """Someone sits at a prompt; returns the questions."""
    asked: list[str] = []

    def read(prompt: str = "") -> str:
        asked.append(prompt)
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(builtins, "input", read)
    return asked


USES: dict[str, Callable[[Any], Any]] = {
    "tuner": lambda report: report.kernels[0].tuner,
    "kernel": lambda report: report.kernels[0].kernel,
    "compilation": lambda report: report.kernels[0].compilation,
    "candidate": lambda report: report.graphs[0].candidate_kernels[0].tuner,
    "candidate's compilation": lambda report: report.graphs[0].candidate_kernels[0].compilation,
    "tab of a view": lambda report: GraphTabs(report).enter(report.kernels[0].name, {}),
}


@pytest.mark.parametrize("use", USES)
def test_a_reports_kernels_do_not_run_where_no_one_is_asked(report, marker, use) -> None:
    with pytest.raises(ArgumentError) as caught:
        USES[use](kernellab.load(report))
    assert "trust=True" in caught.value.advice
    assert not marker.exists()


def view(opened: Any) -> Any:
    return opened.explore() if hasattr(opened, "explore") else opened.show()


SHOWN: dict[str, Callable[[Any, Path], Any]] = {
    "print": lambda opened, _: str(opened),
    "card": lambda opened, _: opened._repr_mimebundle_(),
    "page": lambda opened, folder: view(opened).to_html(folder / "page.html"),
    "view": lambda opened, _: view(opened)._repr_mimebundle_(),
    "save": lambda opened, folder: opened.save(folder / "again"),
    "candidates": lambda opened, _: opened.graphs[0].candidates,
    "diagnosis": lambda opened, _: kernellab.diagnose(opened),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", SHOWN)
def test_showing_runs_nothing(report, tmp_path, marker, way) -> None:
    SHOWN[way](kernellab.load(report), tmp_path)
    assert not marker.exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "answer", ["", "n", "no", "yes please", EOFError, NotImplementedError, RuntimeError, OSError]
)
def test_anything_but_a_yes_runs_nothing(report, monkeypatch, capsys, marker, answer) -> None:
    opened = kernellab.load(report)
    asked = answered(monkeypatch, answer)
    with pytest.raises(ArgumentError):
        _ = opened.kernels[0].tuner
    assert len(asked) == 1
    assert writes(marker).strip() in capsys.readouterr().out
    assert not marker.exists()


def test_an_agreement_holds_for_one_text(report, marker, monkeypatch) -> None:
    asked = answered(monkeypatch, "y")
    for _ in range(2):
        with pytest.raises(SystemExit):
            _ = kernellab.load(report).kernels[0].tuner
        assert len(asked) == 1
    assert marker.exists()
    for value in ("yes", None, 2):
        with pytest.raises(OptionError):
            kernellab.load(report, trust=value)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_trusted_report_runs_its_modules(report, marker) -> None:
    opened = kernellab.load(report, trust=True)
    assert not marker.exists()
    with pytest.raises(SystemExit):
        _ = opened.kernels[0].tuner
    assert marker.exists()


# The table of docs/security.md


def table() -> dict[tuple[str, str], str]:
    """(file, way of opening) -> "runs nothing" or "needs consent"."""
    page = (ROOT / "docs/security.md").read_text()
    _, _, section = page.partition("## Other people's files")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.partition("\n## ")[0].splitlines()
        if line.startswith("|") and not line.startswith("|-")
    ]
    (_, *ways), *files = rows
    return {
        (file, way): said
        for names, *cells in files
        for group, said in zip(ways, cells, strict=True)
        for file, way in product(names.split(", "), group.split(", "))
        if said
    }


WAYS: dict[str, Callable[[Any, Path], Any]] = {
    "open": lambda opened, _: opened, "print": SHOWN["print"], "show": SHOWN["card"],
    "page": SHOWN["page"], "kernel": lambda opened, _: opened.kernels[0].tuner,
}  # fmt: skip


def with_code(kind: str, folder: Path, marker: Path) -> Path:
    """A file of a kind; every text of it that is Python begins with code that writes the marker."""
    file = folder / "file"
    file.write_bytes(fuzzed_files.KINDS[kind].content())
    return file


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("kind", "way"), list(table()))
def test_each_way_does_what_the_table_says(request, tmp_path, marker, kind, way) -> None:
    own = kind == "report"
    file = request.getfixturevalue(kind) if own else with_code(kind, tmp_path, marker)
    opened = kernellab.load(file) if own else fuzzed_files.KINDS[kind].load(file)
    if table()[kind, way] == "needs consent":
        with pytest.raises(ArgumentError):
            WAYS[way](opened, tmp_path)
        assert not marker.exists()
        if own:
            trusted = kernellab.load(file, trust=True)
            with suppress(ArchiveError, SystemExit):
                WAYS[way](trusted, tmp_path)
            assert marker.exists()
    else:
        assert table()[kind, way] == "runs nothing"
        WAYS[way](opened, tmp_path)
        assert not marker.exists()


def test_the_table_has_every_way() -> None:
    assert {way for _, way in table()} == set(WAYS)
