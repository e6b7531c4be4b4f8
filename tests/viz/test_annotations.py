"""A check, a count and a profile in the explorer: on which lines, with which numbers."""

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import kernellab
from kernellab.checker.records import Finding, Findings
from kernellab.compiler.compilations import Compilation, Sources
from kernellab.errors import ArgumentError, ProfileError, SourcePosition
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.profiles.nsight import SampledCode
from kernellab.records.display import show
from kernellab.viz.explorer_data import IrSide, MarginNote, MetricData
from tests.kernels import basic, evidenced
from tests.support.compiled import compiled
from tests.support.layouts import blocked
from tests.viz import annotation_cases as case


def side_of(compilation: Compilation, *evidence: Any) -> IrSide:
    (side,) = show(compilation, *evidence).data.sides
    assert isinstance(side, IrSide)
    return side


def metrics_of(*evidence: Any) -> Mapping[str, MetricData]:
    return {metric.name: metric for metric in side_of(case.compilation(), *evidence).metrics}


def on_the_source(metric: MetricData) -> Counter[int]:
    """The metric carried to the kernel's lines, as the view does."""
    total: Counter[int] = Counter()
    for line, number in metric.values.items():
        for there in case.compilation().source_map.lines(metric.stage, "source", line):
            total[there] += int(number)
    return total


def notes_of(origin: str, *evidence: Any) -> list[MarginNote]:
    notes = side_of(case.compilation(), *evidence).notes
    return [note for note in notes if note.origin.startswith(origin)]


def test_findings_stand_on_their_lines_with_words_and_advice(messages) -> None:
    (finding,) = case.checked()
    (note,) = notes_of("check", case.checked())
    assert note.line == case.line_of("# strided") == finding.line
    assert note.severity == "error"
    assert finding.message in note.words
    assert note.words == messages
    assert "program (3, 0, 0)" in note.words
    assert note.advice == finding.advice != ""
    assert note.origin == "check on sm_90, grid 4x1x1"


def test_a_check_that_found_nothing_says_so_of_the_whole_kernel() -> None:
    nothing = kernellab.check(evidenced.thinned, case.GRID, **case.launch(step=2))
    assert not nothing
    noted = dataclasses.replace(nothing, notes=("Something was not asked.",))
    found = notes_of("check", noted)
    assert [(one.severity, one.words, one.line) for one in found] == [
        ("note", "nothing found", 0),
        ("note", "Something was not asked.", 0),
    ]


def test_what_may_be_meant_is_a_warning() -> None:
    place = SourcePosition(case.FILE, case.line_of("# the store"))
    made = Findings(
        "thinned",
        "sm_90",
        (1, 1, 1),
        (Finding.of("nan", "NaN", "", place), Finding.of("race", "a race", "")),
    )
    found = notes_of("check", made)
    assert [(one.severity, one.line) for one in found] == [("warning", place.line), ("error", 0)]


def test_bars_have_what_accesses_counted_by_line_and_by_operation() -> None:
    counted = case.counted()
    metrics = metrics_of(counted)
    text = case.compilation().stages["ttgir"].text.splitlines()
    for name, number in (
        ("sectors", "sectors"),
        ("requests", "requests"),
        ("DRAM bytes", "footprint_bytes"),
    ):
        metric = metrics[name]
        assert metric.stage == "ttgir"
        for access in counted:
            (line,) = [line for line in metric.values if access.operation in text[line - 1]]
            assert metric.values[line] == getattr(access, number)
        load, store = counted
        by_line = on_the_source(metric)
        assert (
            by_line[case.line_of("# strided")]
            == by_line[case.line_of("# the call")]
            == getattr(load, number)
        )
        assert by_line[case.line_of("# the store")] == getattr(store, number)
    # Of 4 programs 4 warps each, 32 lanes 16 bytes apart: 16 sectors per request.
    assert sum(metrics["sectors"].values.values()) == 4 * 4 * (16 + 4)


@pytest.mark.slow
def test_each_operation_of_a_pipelined_loop_has_its_own_line() -> None:
    a = torch.zeros(64, 64, dtype=torch.float16)
    arguments = (a, a, torch.zeros_like(a), 64, 64, 64, 64, 1, 64, 1, 64, 1)
    blocks: dict[str, Any] = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}
    counted = kernellab.accesses(basic.matmul, (2, 2), *arguments, **blocks)
    compilation: Any = kernellab.compile(basic.matmul, *arguments, **blocks)
    metrics = {one.name: one for one in side_of(compilation, counted).metrics}
    text = compilation.stages["ttgir"].text.splitlines()
    sectors, wavefronts = metrics["sectors"], metrics["shared wavefronts"]
    copies = [line for line in sorted(sectors.values) if "async_copy" in text[line - 1]]
    assert len(copies) == 6
    assert [sectors.values[line] for line in copies] == [one.sectors for one in counted][:6]
    (conversion,) = [line for line in wavefronts.values if "ttg.convert_layout" in text[line - 1]]
    own = [one for one in counted.shared if one.operation == "ttg.convert_layout"]
    assert len(own) == 2, "it stores and loads"
    assert wavefronts.values[conversion] == sum(one.wavefronts for one in own)
    assert sum(wavefronts.values.values()) == counted.shared_wavefronts


def test_what_accesses_find_stands_in_the_margin(messages) -> None:
    notes = notes_of("run of the interpreter", case.counted())
    (finding,) = case.counted().findings
    (warning,) = [note for note in notes if note.severity == "warning"]
    assert (warning.words, warning.line) == (finding.what, case.line_of("# strided"))
    (together,) = [note for note in notes if note.line == 0]
    assert f"{case.counted().dram_bytes_read:,}" in together.words
    assert together.words == messages


def test_accesses_of_operations_that_are_not_found_stand_on_the_kernels_lines() -> None:
    unknown = [dataclasses.replace(one, occurrence=0) for one in case.counted()]
    metric = metrics_of(dataclasses.replace(case.counted(), accesses=tuple(unknown)))["sectors"]
    assert metric.stage == "source"
    assert set(metric.values) == {case.line_of("# strided"), case.line_of("# the store")}


@pytest.mark.slow
def test_a_profile_lines_up_with_the_machine_code() -> None:
    profile, code = case.profiled(), case.compilation().instructions
    metrics = metrics_of(profile)
    measured = [metric for metric in metrics.values() if metric.origin == profile.origin]
    assert [one.name for one in measured] == [
        "stall samples",
        "stalls: long scoreboard",
        "stalls: wait",
        "times executed",
    ]
    padding = sum(one.opcode == "NOP" for one in code)
    last = max(i for i, one in enumerate(code) if one.opcode != "NOP")
    assert padding, "what fills the section is measured, and left out"
    for i, one in enumerate(code[: last + 1]):
        assert metrics["stall samples"].values.get(one.line, 0) == i % 7 + i % 3
        assert metrics["stalls: wait"].values.get(one.line, 0) == i % 3
        assert metrics["times executed"].values[one.line] == 10
    assert profile.origin == "measured on NVIDIA H200 by Nsight Compute"


def test_the_gpu_and_what_warps_waited_for_are_said(messages) -> None:
    (note,) = notes_of("measured", case.profiled())
    assert note.line == 0
    assert note.origin == "measured on NVIDIA H200 by Nsight Compute"
    assert note.words == messages


def test_a_compilation_from_a_file_takes_evidence_too(tmp_path) -> None:
    saved = kernellab.load(case.compilation().save(tmp_path / "thinned.kernellab"))
    evidence = (case.checked(), case.counted(), case.profiled())
    there, here = side_of(saved, *evidence), side_of(case.compilation(), *evidence)
    assert there.metrics == here.metrics
    assert there.notes[:5] == here.notes[:5]


def test_a_record_that_kept_no_lines_has_evidence_of_the_whole_kernel() -> None:
    whole = case.compilation()
    without_lines = Sources(resources=lambda: whole.resources, remarks=whole.remarks)
    bare = dataclasses.replace(whole, sources=without_lines)
    view = show(bare, case.checked(), case.counted())
    (side,) = view.data.sides
    assert {note.line for note in side.notes if note.words.startswith("out-of-bounds")} == {0}
    assert "out-of-bounds" in repr(view)


def test_evidence_of_another_kernel_is_refused(raised) -> None:
    other = compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=1024, record="stages")
    for evidence in (case.checked(), case.counted()):
        raised(ArgumentError, show, other, evidence, match="thinned")
    raised(ProfileError, show, other, case.profiled(), match="thinned")


def test_evidence_of_an_earlier_definition_is_refused(raised) -> None:
    subject: Any = case.checked().subject
    edited = dataclasses.replace(subject, source=subject.source.replace("i < n", "i <= n"))
    moved = SourcePosition("/another/file.py", subject.definition.line)
    lower = SourcePosition(subject.definition.file, subject.definition.line + 1)
    others = [dataclasses.replace(subject, definition=place) for place in (moved, lower)]
    for earlier in (edited, *others):
        for evidence in (case.checked(), case.counted()):
            caught = raised(
                ArgumentError,
                show,
                case.compilation(),
                dataclasses.replace(evidence, subject=earlier),
                match="of 'thinned'",
            )
            assert "again" in caught.advice


@pytest.mark.slow
def test_accesses_of_another_compilation_are_refused_and_what_differs_is_said(raised) -> None:
    wider = compiled(evidenced.thinned, **case.launch(step=2), num_warps=8, record="stages")
    caught = raised(ArgumentError, show, wider, case.counted(), match="of 'thinned'")
    assert "the constant of STEP was 4, but is 2 here" in caught.problem
    assert "num_warps was 4, but is 8 here" in caught.problem
    assert side_of(wider, case.checked()).notes, "findings are of the kernel"


def test_a_profile_of_other_machine_code_is_refused_where_it_parts(raised) -> None:
    other = compiled(evidenced.thinned, **case.launch(step=2), record="stages")
    raised(ProfileError, show, other, case.profiled())
    shorter = dataclasses.replace(case.profiled(), instructions=case.profiled().instructions[:9])
    caught = raised(ProfileError, show, case.compilation(), shorter)
    assert "Instruction 10 is 'no more' in the profile" in caught.problem
    amd = compiled(evidenced.thinned, **case.launch(), target="gfx942", record="stages")
    with pytest.raises(ProfileError):
        show(amd, case.profiled())


def test_what_is_no_evidence_is_refused(raised) -> None:
    raised(ArgumentError, show, case.compilation(), 3)
    raised(ArgumentError, show, blocked((32,), [1], [32], [1], [0]), case.checked())


@pytest.mark.slow
def test_of_two_compilations_each_has_the_evidence_that_is_of_it() -> None:
    older = compiled(evidenced.thinned, **case.launch(), target="sm_80")
    comparison = kernellab.compare(older, case.compilation())
    view = comparison.explore(case.checked(), case.counted(), case.profiled())
    left, right = view.data.sides
    names = [{metric.name for metric in side.metrics} for side in (left, right)]
    assert {"sectors", "stall samples"} <= names[1]
    assert not {"sectors", "stall samples"} & names[0]
    assert all(
        any(note.words.startswith("out-of-bounds") for note in side.notes) for side in (left, right)
    )
    other = compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=1024, record="stages")
    neither = kernellab.compare(other, other)
    with pytest.raises(ArgumentError, match="'add'"):
        neither.explore(case.checked())


def test_metrics_of_one_name_are_told_apart() -> None:
    names = [
        metric.name
        for metric in side_of(case.compilation(), case.counted(), case.counted()).metrics
    ]
    assert len(set(names)) == len(names)
    assert "sectors (2)" in names


def test_the_still_lists_findings_and_the_largest_numbers() -> None:
    view = show(case.compilation(), case.checked(), case.counted(), case.profiled())
    (finding,) = case.checked()
    for text in (repr(view), view.still_html()):
        assert finding.advice.splitlines()[0].rpartition("` ")[2] in text
        assert "measured on NVIDIA H200 by Nsight Compute" in text
    load = next(one for one in case.counted() if one.action == "load")
    assert re.search(rf"sectors +{case.line_of('# strided')} +{load.sectors:,} ", repr(view))
    assert "measured on" not in repr(show(case.compilation()))


def test_words_with_html_are_text() -> None:
    nasty = "<img src=x onerror=alert(1)></script>"
    finding = Finding.of(nasty, nasty, nasty, SourcePosition(case.FILE, case.line_of("# the call")))
    view = show(case.compilation(), Findings("thinned", nasty, (1, 1, 1), (finding,), (nasty,)))
    assert "<img" not in view.still_html()
    assert "&lt;img src=x onerror=alert(1)&gt;" in view.still_html()


def test_the_first_bars_are_the_evidences() -> None:
    assert show(case.compilation()).data.metric == "instructions"
    assert show(case.compilation(), case.checked()).data.metric == "instructions"
    assert show(case.compilation(), case.counted()).data.metric == "sectors"
    assert isinstance(case.counted(), Accesses)
    assert isinstance(case.profiled(), SampledCode)
