"""A file that is edited after its import: errors, findings and views show what was compiled."""

import html
import importlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError, CompileError, OutOfBounds

TEXT = """import triton
import triton.language as tl


@triton.jit
def taken(x_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes * n)
    return x


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    x = taken(x_ptr, n, BLOCK)
    tl.store(x_ptr + tl.arange(0, BLOCK), x)


@triton.jit
def refused(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr, x.nothing)
"""
HELPER = TEXT.replace("x = tl.load(x_ptr + lanes * n)", "x = tl.load(x_ptr + 0 * lanes)")
"""With another helper, on the same lines."""
MOVED = f"# one\n# two\n# three\n{HELPER}"
EDITS = pytest.mark.parametrize("text", [HELPER, MOVED, "x = 3\n"], ids=["helper", "moved", "gone"])
COMPILED = "    x = tl.load(x_ptr + lanes * n)"
NOTICE = "'taken' in {} has changed since it was imported"


class Edited:
    def __init__(self, folder: Path) -> None:
        self.name = f"edited_{folder.name}".replace("-", "_")
        self.file = folder / f"{self.name}.py"
        self.write(TEXT)
        self.module: ModuleType = importlib.import_module(self.name)

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def run(self, kernel: Any = None) -> None:
        kernellab.run(kernel or self.module.kernel, (1,), torch.zeros(16), 2, BLOCK=16)

    def failed(self, kernel: Any = None) -> OutOfBounds:
        with pytest.raises(OutOfBounds) as caught:
            self.run(kernel)
        return caught.value


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edited]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Edited(tmp_path)
    yield made
    del sys.modules[made.name]


def assert_as_compiled(words: str, edited: Edited) -> None:
    assert COMPILED.strip() in words
    assert "0 * lanes" not in words
    assert NOTICE.format(edited.file) in " ".join(words.split())


def shown(record: Any) -> list[str]:
    """A record as a terminal and a notebook show it, entities read."""
    bundle = record._repr_mimebundle_()
    return [html.unescape(bundle[kind]) for kind in ("text/plain", "text/html")]


@EDITS
def test_an_error_shows_the_line_that_ran(edited, text) -> None:
    edited.write(text)
    error = edited.failed()
    assert_as_compiled(str(error), edited)
    assert f"    8 | {COMPILED}" in str(error)
    # A traceback looks for changed files itself.
    told = "".join(traceback.format_exception(error))
    assert f'File "{edited.file} (as it was imported)", line 8' in told
    moved = " (as it was imported)" if text != HELPER else ""  # the kernel stands there still
    assert f'File "{edited.file}{moved}", line 14, in kernel' in told
    assert "    x = taken(x_ptr, n, BLOCK)" in told
    assert_as_compiled(told, edited)


def test_an_error_that_is_older_than_the_edit_keeps_its_line(edited) -> None:
    error = edited.failed()
    before = str(error)
    assert "has changed" not in before
    assert "as it was imported" not in "".join(traceback.format_exception(error))
    edited.write(HELPER)
    assert_as_compiled(str(error), edited)
    edited.write(TEXT)
    assert str(error) == before


def test_findings_and_counts_of_accesses_show_the_line_that_ran(edited) -> None:
    edited.write(HELPER)
    found = kernellab.check(edited.module.kernel, (1,), torch.zeros(16), 2, BLOCK=16)
    assert_as_compiled(str(found), edited)
    for words in (*shown(found), *shown(found[0])):
        assert_as_compiled(words, edited)
    counts = kernellab.accesses(
        edited.module.kernel, (1,), torch.zeros(64), 2, BLOCK=16, target="sm_90"
    )
    for words in shown(counts):
        assert_as_compiled(words, edited)


def test_what_the_compiler_refuses_is_shown_as_it_was_compiled(edited) -> None:
    edited.write(TEXT.replace("x.nothing", "x.something"))
    with pytest.raises(CompileError) as refused:
        kernellab.compile(edited.module.refused, "*fp32", BLOCK=16, target="sm_90")
    words = str(refused.value)
    assert "tl.store(x_ptr, x.nothing)" in words
    assert "x.something" not in words
    assert f"'refused' in {edited.file} has changed" in words
    side = kernellab.show(refused.value).data.sides[0]
    assert "x.nothing" in side.texts[0].content
    assert "x.something" not in side.texts[0].content
    assert "'refused' in" in side.notice
    with pytest.raises(ArgumentError) as caught:
        kernellab.run(edited.module.refused, (1,))
    missing = caught.value
    assert f"'refused' in {edited.file} has changed" in str(missing)


def explored(compiled: kernellab.Compilation) -> tuple[dict[int, str], str]:
    """The Python lines of the explorer by number, and the notice above them."""
    (side,) = compiled.explore().data.sides
    source = side.texts[0]
    numbers = [n for n in range(1, 100) if n not in source.skipped]
    return dict(zip(numbers, source.content.split("\n"))), side.notice


@pytest.mark.sampled(6)
@EDITS
@pytest.mark.parametrize("is_saved", [False, True], ids=["here", "saved"])
def test_the_explorer_shows_a_helper_as_it_was_compiled(
    edited, text, is_saved, tmp_path, messages
) -> None:
    edited.write(text)
    compiled = kernellab.compile(edited.module.kernel, "*fp32", "i32", BLOCK=16, target="sm_90")
    assert isinstance(compiled, kernellab.Compilation)
    if is_saved:
        compiled = kernellab.load(compiled.save(tmp_path / "saved.json.gz"))
    # Another import, which is launched, changes nothing of a record.
    importlib.reload(edited.module)
    if text != "x = 3\n":
        edited.run()
    lines, notice = explored(compiled)
    before = TEXT.splitlines()
    assert lines == {n: before[n - 1] for n in (5, 6, 7, 8, 9, 12, 13, 14, 15)}
    assert notice == messages
    assert COMPILED in repr(compiled.explore())
    # An edit is undone: the file is what was compiled.
    edited.write(TEXT)
    assert explored(compiled) == (lines, "")


def test_another_import_is_shown_as_it_is_then(edited) -> None:
    old = edited.module.kernel
    edited.write(MOVED.replace("0 * lanes", "3 * lanes * n"))
    importlib.reload(edited.module)
    error = str(edited.failed())
    assert "   11 |     x = tl.load(x_ptr + 3 * lanes * n)" in error
    assert "has changed" not in error
    # The old kernel calls the new helper, as Python would, from lines of its own.
    told = "".join(traceback.format_exception(edited.failed(old)))
    assert "3 * lanes * n" in told
    assert "line 14, in kernel\n    x = taken(x_ptr, n, BLOCK)\n" in told


@pytest.mark.slow
def test_a_notebook_shows_the_line_that_ran(notebook, tmp_path) -> None:
    file = tmp_path / "parts.py"
    file.write_text(TEXT)
    lab = notebook(
        f"import kernellab, torch, sys; sys.path.insert(0, {str(tmp_path)!r})",
        "sys.dont_write_bytecode = True; import parts",
    )
    file.write_text(HELPER)
    outcome = lab.run("kernellab.run(parts.kernel, (1,), torch.zeros(16), 2, BLOCK=16)")
    assert outcome.error == "OutOfBounds"
    assert outcome.arrows[1:] == ["14: x = taken(x_ptr, n, BLOCK)", f"8: {COMPILED.strip()}"]
    assert "0 * lanes" not in outcome.traceback
    assert "'taken' in" in outcome.message
    found = lab.run(
        "found = kernellab.check(parts.kernel, (1,), torch.zeros(16), 2, BLOCK=16); found"
    )
    assert COMPILED.strip() in found.card["text/html"]
    assert "0 * lanes" not in found.card["text/html"]
