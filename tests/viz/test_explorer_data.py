"""What the IR explorer draws, held against the compilation that it is made from."""

import dataclasses
import functools
import json
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable

import pytest

import kernellab
from kernellab.compiler.compare import readable
from kernellab.compiler.machine_code import instructions
from kernellab.compiler.machine_code.instructions import padding_of
from kernellab.compiler.records import ControlCodes
from kernellab.errors import ArgumentError, CompileError, OptionError
from kernellab.ir.syntax import read_module
from kernellab.records import SourceMap
from kernellab.records.display import show
from kernellab.viz import explorer_sides
from kernellab.viz.explorer_data import IrSide, IrView, TextData, lightened
from kernellab.viz.kit.data import as_json, packed
from kernellab.viz.kit.view import View
from tests.kernels import basic, faulty
from tests.support.compiled import compiled, of_corpus
from tests.support.pages import unpacked
from tests.support.source_files import ROOT
from tests.viz import source_map_fixture
from tools import view_types


@functools.cache
def view_of_corpus(name: str, target: str) -> IrView:
    return explorer_sides.explore_compilation(of_corpus(name, target))


def view_of_matmul() -> IrView:
    return view_of_corpus("matmul", "sm_90")


def side_of(name: str, target: str = "sm_90") -> IrSide:
    return view_of_corpus(name, target).sides[0]


def numbered(text: TextData) -> dict[int, str]:
    """Number in the full text -> the shown line."""
    assert text.content is not None
    lines = text.content.split("\n")
    numbers = [n for n in range(1, len(lines) + len(text.skipped) + 1) if n not in text.skipped]
    return dict(zip(numbers, lines))


def test_the_typescript_knows_the_same_data() -> None:
    assert view_types.PAGE.read_text() == view_types.page(), "run python tools/view_types.py"


@pytest.mark.slow
def test_what_is_sent_is_the_data() -> None:
    view = view_of_corpus("softmax", "sm_90")
    sent = unpacked(packed(view))
    expected = json.loads(json.dumps(as_json(view), allow_nan=False))
    assert any(text["part"] for text in sent["sides"][0]["texts"]), "LLVM IR is long"
    for text in sent["sides"][0]["texts"]:
        text["content"], text["part"] = text["content"] or text["loaded"], 0
        del text["loaded"]
    assert sent == expected
    assert packed(view) == packed(view), "the same data gives the same bytes"


def test_the_fixture_of_the_typescript_has_pythons_answers() -> None:
    fixture = json.loads(source_map_fixture.FILE.read_text())
    source_map = SourceMap.from_json(fixture["map"])
    assert fixture["answers"] == source_map_fixture.answers(source_map)
    assert sum(len(lines) for lines in fixture["answers"].values()) > 500


@pytest.mark.parametrize(
    ("name", "target"),
    [("softmax", "sm_90"), pytest.param("matmul", "gfx942", marks=pytest.mark.slow)],
)
def test_shown_lines_keep_their_numbers_and_lose_locations_alone(name: str, target: str) -> None:
    compilation = of_corpus(name, target)
    side = side_of(name, target)
    for stage in side.stages:
        if stage.name == "source":
            continue
        full = compilation.stages[stage.name].text.splitlines()
        for number, line in numbered(side.texts[stage.text]).items():
            kept = re.sub(r"\s+", "", line)
            was = re.sub(r"\s+", "", full[number - 1])
            assert was.startswith(kept[:10]), (stage.name, number)
            assert len(was) - len(kept) == 0 or any(
                word in full[number - 1] for word in ("loc(", "!dbg", ".loc")
            )
        shown = side.texts[stage.text].content or ""
        assert not re.search(r"\bloc\(#|!dbg|^#loc|^\s*\.loc\s|//## File", shown, re.M)


def test_instructions_and_labels_of_sass_are_all_shown() -> None:
    compilation = of_corpus("matmul", "sm_90")
    side = side_of("matmul")
    shown = numbered(side.texts[next(s.text for s in side.stages if s.name == "sass")])
    for one in compilation.instructions:
        assert one.opcode in shown[one.line]
    assert sum(1 for line in shown.values() if line.startswith(".L_x_")) == len(
        re.findall(r"^\.L_x_\d+:", compilation.stages["sass"].text, re.M)
    )


def test_the_source_has_the_files_line_numbers_and_the_helpers() -> None:
    compilation = of_corpus("matmul", "sm_90")
    side = side_of("matmul")
    file = compilation.source_map.file
    lines = open(file).read().splitlines()  # noqa: SIM115
    shown = numbered(side.texts[side.stages[0].text])
    assert all(lines[number - 1] == line for number, line in shown.items())
    text = "\n".join(shown.values())
    assert "def matmul(" in text
    assert "def grouped_tile(" in text, "a helper that was inlined"
    assert "def matmul_persistent(" not in text


def test_empty_texts_and_strange_ones() -> None:
    assert readable("mlir", "").content == ""
    assert readable("mlir", "#loc = loc(unknown)\nmodule {\n}\n#loc1 = loc(unknown)\n") == (
        readable("mlir", "#loc = loc(unknown)\nmodule {\n}")
    )
    assert readable("nothing that we know", "a\nb").content == "a\nb"


@pytest.mark.slow
def test_notes_of_conversions_name_files_without_their_folders() -> None:
    found = [note.words for note in side_of("attention_forward").notes if note.origin == "layouts"]
    assert any("(attention.py:" in words for words in found)
    assert not any("/" in words for words in found)
    conversion = of_corpus("attention_forward", "sm_90").conversions()[0]
    data = conversion.show().data
    assert "attention.py:" in data.conversion
    assert "/" not in data.conversion


def test_every_pass_is_there_with_the_module_after_it() -> None:
    compilation = of_corpus("matmul", "sm_90")
    side = side_of("matmul")
    assert [one.label for one in side.passes] == [run.label for run in compilation.passes]
    for shown, run in zip(side.passes, compilation.passes):
        assert (
            shown.ops_after - shown.ops_before == sum(shown.op_changes.values())
            or not shown.ops_before
        )
        if not run.changed:
            assert shown.effect == "unchanged"
        language = side.texts[shown.text].language
        assert side.texts[shown.text].content == readable(language, run.text.read()).content
    assert {one.effect for one in side.passes} == {"changed", "locations", "unchanged"}


def test_lines_after_every_pass_lead_to_the_kernel() -> None:
    side = side_of("matmul")
    compilation = of_corpus("matmul", "sm_90")
    source_map = SourceMap.from_json(json.loads(json.dumps(as_json(side.map))))
    line = next(
        n for n, text in numbered(side.texts[0]).items() if "tl.dot(a, b, accumulator)" in text
    )
    for label, operation in (
        ("ttgir.coalesce", "tt.dot"),
        ("ttgir.pipeline", "ttng.warp_group_dot"),
        ("llir.to_llvmir", "nvg.wgmma"),
    ):
        shown = next(one for one in side.passes if one.label == label)
        lines = source_map.lines("source", shown.place, line)
        texts = numbered(side.texts[shown.text])
        assert any(operation in texts.get(n, "") for n in lines), (label, lines)
    assert source_map.lines("source", "sass", line) == compilation.source_map.lines(
        "source", "sass", line
    )


def test_control_codes_as_assembler_writers_print_them() -> None:
    codes = ControlCodes(4, True, 1, None, (0, 3), ())
    assert explorer_sides.control_codes(codes) == "B0--3--:R-:W1:Y:S04"
    side = side_of("matmul")
    compilation = of_corpus("matmul", "sm_90")
    assert len(side.controls) == len(compilation.instructions)
    metrics = {metric.name: metric.values for metric in side.metrics}
    padding = padding_of(compilation)
    work = [one for one in compilation.instructions if one.line not in padding]
    assert sum(metrics["instructions"].values()) == sum(1 for one in work if one.chains)
    assert sum(metrics["stall cycles"].values()) == sum(
        one.control.stall_cycles for one in work if one.control
    )


def test_conversions_that_cost_stand_on_their_lines() -> None:
    side = side_of("matmul")
    line = next(n for n, text in numbered(side.texts[0]).items() if "tl.store(" in text)
    words = [note.words for note in side.notes if note.line == line]
    assert any("ttg.convert_layout" in one and "shared memory" in one for one in words)


def test_amd_has_no_control_codes_and_its_own_stages() -> None:
    side = side_of("softmax", "gfx942")
    assert side.controls == ()
    assert [stage.name for stage in side.stages] == ["source", "ttir", "ttgir", "llir", "amdgcn"]


@pytest.mark.slow
def test_nothing_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            asked[name] += 1
            return real(*arguments)

        return call

    monkeypatch.setattr(
        instructions, "run_on_cubin", counted("nvdisasm", instructions.run_on_cubin)
    )
    monkeypatch.setattr("kernellab.compiler.modules.read_module", counted("xDSL", read_module))
    compilation = compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=2048)
    explorer_sides.explore_compilation(compilation)
    assert asked == {"nvdisasm": 1, "xDSL": 1}


def test_a_matmul_is_sent_at_once() -> None:
    assert len(packed(view_of_matmul())) <= 400_000


def test_of_more_the_largest_texts_stay_behind() -> None:
    view = view_of_matmul()
    light = unpacked(lightened(view, 150_000))
    assert len(lightened(view, 150_000)) <= 150_000
    texts = light["sides"][0]["texts"]
    stages = {stage["text"] for stage in light["sides"][0]["stages"]}
    missing = [n for n, text in enumerate(texts) if text["content"] is None and not text["part"]]
    assert missing
    assert not stages.intersection(missing)
    largest = max(
        range(len(texts)),
        key=lambda n: len(view.sides[0].texts[n].content or "") * (n not in stages),
    )
    assert largest in missing


@pytest.mark.slow
def test_two_compilations_have_their_passes_lined_up() -> None:
    comparison = kernellab.compare(of_corpus("softmax", "sm_80"), of_corpus("softmax", "sm_90"))
    view = explorer_sides.explore_comparison(comparison)
    assert [side.name for side in view.sides] == ["sm_80", "sm_90"]
    assert len(view.pairs) == len(comparison.passes)
    for pair, expected in zip(view.pairs, comparison.passes):
        assert (pair.left is None) == (expected.left is None)
        assert (pair.right is None) == (expected.right is None)
        assert pair.equal == expected.equal
        if pair.left is not None:
            assert view.sides[0].passes[pair.left].label == pair.label


def test_a_compilation_without_passes_has_stages() -> None:
    compilation = compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=1024, record="stages")
    view = explorer_sides.explore_compilation(compilation)
    assert view.sides[0].passes == ()
    assert [stage.name for stage in view.sides[0].stages][-1] == "sass"


def test_a_compilation_that_failed_shows_what_ran_and_the_error_on_its_line() -> None:
    with pytest.raises(CompileError) as caught:
        compiled(basic.add, *("*fp32:16",) * 3, "i32:16", BLOCK=1024, skip="convert_to_ttgpuir")
    assert caught.value.passes, "the record up to the failing pass"
    view = explorer_sides.explore_failure(caught.value)
    side = view.sides[0]
    labels = [one.label for one in side.passes]
    assert labels == [*(run.label for run in caught.value.passes), "ttgir.coalesce"]
    assert [one.label for one in side.passes if one.effect == "failed"] == ["ttgir.coalesce"]
    assert [stage.name for stage in side.stages] == ["source", "ttir"]
    assert caught.value.problem in side.failure
    assert isinstance(kernellab.show(caught.value), View)


def test_an_error_of_the_front_end_shows_the_source() -> None:
    with pytest.raises(CompileError) as caught:
        compiled(faulty.odd_arange, "*fp32", BLOCK=100)
    side = explorer_sides.explore_failure(caught.value).sides[0]
    assert side.kernel == "odd_arange"
    shown = numbered(side.texts[side.stages[0].text])
    (note,) = side.notes
    assert note.severity == "error"
    assert "FAULT: odd_arange" in shown[note.line]


def test_what_no_view_shows_is_an_error_with_what_is(raised) -> None:
    caught = raised(ArgumentError, kernellab.show, 3)
    assert "kernellab.compile" in caught.advice
    caught = raised(ArgumentError, kernellab.show, basic.add)
    assert "%tileir add" in caught.advice
    raised(OptionError, kernellab.show, of_corpus("matmul", "sm_90"), to=3)


def test_a_record_without_a_view_is_shown_as_its_card() -> None:
    conversions = of_corpus("matmul", "sm_90").conversions()
    assert "1 conversion  of ttgir" in repr(show(conversions))


def test_the_still_of_a_view_says_what_the_view_says() -> None:
    view = show(of_corpus("matmul", "sm_90"))
    text = repr(view)
    for word in ("matmul", "ttgir.pipeline", "registers per thread", "ttg.convert_layout"):
        assert word in text
        assert word in view.still_html()
    assert "<script" not in view.still_html()


def test_the_bundle_and_the_pictures_are_no_larger_than_promised() -> None:
    bundle = ROOT / "kernellab/viz/static/views.js"
    assert bundle.stat().st_size <= 500_000
    assert "http://" not in bundle.read_text().replace("http://www.w3.org/", "")
    assert max(one.stat().st_size for one in (ROOT / "docs/images").glob("*.png")) <= 100_000


def test_hostile_names_are_text_in_the_still_and_in_the_widgets_bundle() -> None:
    nasty = "<img src=x onerror=alert(1)></script>"
    bad = dataclasses.replace(of_corpus("softmax", "sm_90"), kernel=nasty)
    bundle = show(bad)._repr_mimebundle_()
    assert "<img" not in bundle["text/html"]
    assert "&lt;img src=x onerror=alert(1)&gt;" in bundle["text/html"]
    assert nasty in bundle["text/plain"]


def test_a_wheel_would_hold_the_bundle() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    ignored = subprocess.run(
        ["git", "check-ignore", "kernellab/viz/static/views.js"], cwd=ROOT, capture_output=True
    )
    assert packages == ["kernellab"]
    assert ignored.returncode != 0, "hatch leaves out what git ignores"
