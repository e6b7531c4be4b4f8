"""Two compilations side by side, held against the two sides themselves."""

import functools
import linecache
import types
from pathlib import Path
from typing import Any

import pytest

import kernellab
from kernellab.compiler.compare import Comparison, without_locations
from kernellab.compiler.compilations import Compilation
from kernellab.errors import ArgumentError
from kernellab.viz.kernels import comparison_card
from tests.kernels import analyzed, basic
from tests.support.compiled import compiled, of_corpus

SOURCE = """
import triton
import triton.language as tl

@triton.jit
def scale(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * 3.0)
"""


def version_of(source: str, folder: Path, name: str) -> Compilation:
    file = folder / f"{name}.py"
    file.write_text(source)
    linecache.checkcache(str(file))
    module = types.ModuleType(name)
    exec(compile(source, str(file), "exec"), module.__dict__)  # noqa: S102
    return compiled(module.scale, "*fp32:16", "*fp32:16", BLOCK=256)


def test_a_compilation_and_itself_differ_in_nothing() -> None:
    one = of_corpus("matmul", "sm_90")
    same = kernellab.compare(one, one)
    assert same.first_difference is None
    assert all(pair.equal for pair in same.passes)
    assert all(pair.equal for pair in same.stages)
    assert (same.options, same.opcodes, same.remarks) == ((), (), ((), ()))
    assert same.diff("ttgir") == ""
    assert len(same.table()) == 0
    assert same.is_equal
    assert "are equal: types, options and every stage" in str(same)


@pytest.mark.slow
def test_the_same_kernel_on_other_lines_differs_in_its_source_alone(tmp_path) -> None:
    first = version_of(SOURCE, tmp_path, "first")
    moved = version_of("# a comment\n" * 7 + SOURCE, tmp_path, "moved")
    comparison = kernellab.compare(first, moved)
    assert first.stages["ttir"].text != moved.stages["ttir"].text, "locations differ"
    assert comparison.first_difference is None
    differing = [pair.name for pair in comparison.stages if not pair.equal]
    assert set(differing) <= {"cubin"}, "its line table names the lines"


def test_another_version_parts_in_the_front_end(tmp_path) -> None:
    first = version_of(SOURCE, tmp_path, "version_a")
    second = version_of(SOURCE.replace("x * 3.0", "x * x"), tmp_path, "version_b")
    comparison: Any = kernellab.compare(first, second)
    assert comparison.first_difference.label == "source.front_end"
    diff = comparison.diff("source.front_end").splitlines()
    assert any(line.startswith("+") and "arith.mulf" in line for line in diff)
    assert any(line.startswith("-") and "3.000000e+00" in line for line in diff)


@functools.cache
def of_targets(left: str, right: str) -> Comparison:
    return kernellab.compare(of_corpus("matmul", left), of_corpus("matmul", right))


@pytest.mark.slow
def test_two_targets_part_where_the_target_enters() -> None:
    comparison: Any = of_targets("sm_80", "sm_90")
    left, right = comparison.left, comparison.right
    assert comparison.names == ("sm_80", "sm_90")
    assert comparison.first_difference.label == "ttgir.convert_to_ttgpuir"
    diff = comparison.diff("ttgir.convert_to_ttgpuir")
    assert "-module attributes" in diff
    assert 'ttg.target = "cuda:80"' in diff
    resources = {one.name: (one.left, one.right) for one in comparison.resources}
    for name, numbers in resources.items():
        assert numbers == (getattr(left.resources, name), getattr(right.resources, name))
    alone = [pair.label for pair in comparison.passes if pair.left and not pair.right]
    assert alone == [
        run.label for run in left.passes if run.label not in {other.label for other in right.passes}
    ]


def test_passes_are_lined_up_in_order_and_complete() -> None:
    comparison = of_targets("sm_90", "gfx942")
    left, right = comparison.left.passes, comparison.right.passes
    assert [pair.left for pair in comparison.passes if pair.left] == list(left)
    assert {pair.label for pair in comparison.passes} == {run.label for run in (*left, *right)}


@pytest.mark.slow
def test_options_and_opcodes() -> None:
    types_given = ("*fp32:16",) * 3 + ("i32:16",)
    few = compiled(basic.add, *types_given, BLOCK=1024, num_warps=4)
    many = compiled(basic.add, *types_given, BLOCK=1024, num_warps=8)
    comparison = kernellab.compare(few, many)
    assert [(one.name, one.left, one.right) for one in comparison.options] == [("num_warps", 4, 8)]
    assert comparison.names == ("num_warps=4", "num_warps=8")
    larger = compiled(basic.add, *types_given, BLOCK=2048, num_warps=8)
    both = kernellab.compare(few, larger)
    assert both.names == ("BLOCK=1024, num_warps=4", "BLOCK=2048, num_warps=8")
    table = both.table()
    assert list(table.columns) == ["kind", "name", *both.names]
    assert list(table.iloc[0]) == ["parameter", "BLOCK", 1024, 2048]
    for one in comparison.opcodes:
        for count, side in ((one.left, few), (one.right, many)):
            assert count == sum(1 for i in side.instructions if i.opcode == one.name)
    table = comparison.table()
    assert list(table.columns) == ["kind", "name", "num_warps=4", "num_warps=8"]
    assert ("option", "num_warps") in set(zip(table["kind"], table["name"]))


@pytest.mark.slow
def test_remarks_of_one_side() -> None:
    halves = ("*fp16:16", "*fp16:16", "*fp32:16")
    comparison = kernellab.compare(
        compiled(analyzed.small_dot, *halves, N=32), compiled(analyzed.small_dot, *halves, N=64)
    )
    left, right = comparison.remarks
    assert any("MMA version 3 acceleration not applied" in one.what for one in left)
    assert not any("MMA version 3" in one.what for one in right)


def test_the_cards_two_forms_say_the_same_and_escape() -> None:
    comparison = of_targets("sm_80", "sm_90")
    card = comparison_card(comparison)
    text, html = card.text(), card.html()
    assert str(comparison) == text
    for words in ("sm_80", "ttgir.accelerate_matmul", "part at ttgir.convert_to_ttgpuir"):
        assert words in text
        assert words in html
    assert "<script" not in html
    assert "are equal" not in text


def test_what_cannot_be_compared(messages, raised) -> None:
    one = of_corpus("vector_add", "sm_90")
    comparison = kernellab.compare(one, one)
    with pytest.raises(ArgumentError) as refused:
        kernellab.compare({"sm_90": one}, one)  # type: ignore[arg-type]
    assert refused.value == messages
    raised(ArgumentError, comparison.diff, "ttgirr", match="ttgir")
    raised(ArgumentError, comparison.diff, "cubin", match="cubin")


@pytest.mark.parametrize("stage", ["ttir", "ttgir", "llir", "ptx", "sass"])
def test_texts_without_locations_name_no_lines_and_keep_the_rest(stage) -> None:
    text = of_corpus("vector_add", "sm_90").stages[stage].text
    bare = without_locations(text)
    assert "elementwise.py" not in bare
    assert not [words for words in (" loc(", "!dbg", "\t.loc") if words in bare]
    kept = {
        "ttir": "tt.load", "ttgir": "tt.load", "llir": "asm sideeffect", "ptx": "ld.global",
        "sass": "LDG",
    }  # fmt: skip
    assert bare.count(kept[stage]) == text.count(kept[stage]) > 0


def test_libraries_are_told_by_name_and_not_by_their_place_on_this_machine() -> None:
    text = str(of_targets("sm_90", "gfx942"))
    assert "libdevice, libdevice.10.bc" in text
    assert "ocml, ocml.bc" in text
    assert "site-packages" not in text


@pytest.mark.slow
def test_the_lines_whose_operations_differ_are_listed(tmp_path, raised) -> None:
    twice = SOURCE.replace("x * 3.0", "x * 3.0 + x").replace("\n@triton", "\n\n@triton")
    compared = kernellab.compare(
        version_of(SOURCE, tmp_path, "three"), version_of(twice, tmp_path, "four")
    )
    old, new = compared.by_line("ttir")
    assert old.name == "tl.store(out_ptr + i, x * 3.0)"
    assert new.name == "tl.store(out_ptr + i, x * 3.0 + x)"
    assert old.left["arith.mulf"] == new.right["arith.mulf"] == new.right["arith.addf"] == 1
    assert (old.right, new.left) == ({}, {})
    assert kernellab.compare(compared.left, compared.left).by_line("sass") == ()
    raised(ArgumentError, compared.by_line, "ttgri", match="ttgri")
