"""Paths, names and texts that are not ASCII, or that compilers escape, at every entry point."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import kernellab
from kernellab.common.text import string_of_assembly, string_of_ir, value_name
from kernellab.errors import CompileError, KernelFault, OutOfBounds, SourcePosition
from tests.kernels import unicode_names
from tests.support.imported import imported
from tests.support.python_processes import run_python
from tests.support.source_lines import position_of
from tests.support.versions import LOCATES_WHOLE_CALLS

TYPES = ("*fp32", "*fp32", "i32")

FOLDERS = ["é", "ελ/Κύρ ил", "日本\u3000😀", "a:b", "back\\C3\\A9", "tab\t%s", "{x)(", "new\nline"]
QUOTED = ['q"uote', 'loc("x":1:2)', "it's"]

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Copies the kernels, or another file, into a folder of that name and imports them there."""

    def load(folder: str, origin: Path = Path(str(unicode_names.__file__))) -> ModuleType:
        file = tmp_path / folder / "noyaux_é.py"
        file.parent.mkdir(parents=True)
        file.write_bytes(origin.read_bytes())
        return imported(file)

    return load


def launch() -> tuple[Any, ...]:
    return (1,), torch.arange(64.0), torch.zeros(64), 64


def line_of(module: ModuleType, text: str) -> int:
    lines = Path(str(module.__file__)).read_text().split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


def typed(monkeypatch: pytest.MonkeyPatch, *commands: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(commands) + "\n"))


@pytest.mark.slow
def test_every_entry_point_in_a_folder_with_an_accent(load, tmp_path, monkeypatch, capsys) -> None:
    kernels = load("é")
    scale, file = kernels.scale, str(kernels.__file__)
    monkeypatch.chdir(tmp_path / "é")
    grid, x, z, n = launch()
    kernellab.run(scale, grid, x, z, n, ΒLOCK=64)
    assert (z == 2 * x + x.sum()).all()
    kernellab.run(scale, grid, x, z.zero_(), n, ΒLOCK=64, stage="ttgir")
    assert (z == 2 * x + x.sum()).all()
    with kernellab.interpreted():
        scale[(1,)](x, z.zero_(), n, ΒLOCK=64)
    assert (z == 2 * x + x.sum()).all()

    assert not kernellab.check(scale, *launch(), ΒLOCK=64).findings
    assert "store of ζ_ptr" in str(kernellab.accesses(scale, *launch(), ΒLOCK=64))
    assert "No pass changes a result" in str(kernellab.bisect(scale, *launch(), ΒLOCK=64))

    trace = kernellab.trace(scale, *launch(), ΒLOCK=64)
    trace.save("é.trace")
    again = kernellab.load("é.trace")
    assert "γ: float32[64]" in str(again.at(3))
    assert "hélper(α)" in str(again.show())
    again.show().to_html("é.html")

    line = line_of(kernels, "σ = tl.sum")
    typed(monkeypatch, f"b {line}", "c", "p α[3]", "n", "p σ", "q")
    kernellab.debug(scale, *launch(), ΒLOCK=64)
    printed = capsys.readouterr().out
    assert f"> {file}({line})scale()" in printed
    assert "(Pdb) np.float32(3.0)" in printed
    assert f"(Pdb) np.float32({x.sum()})" in printed

    sweep = kernellab.tune(scale, *launch(), space={"ΒLOCK": [64, 128]}, workers=1, progress=False)
    assert list(sweep.table["dropped"]) == ["", ""]
    sweep.save("é.json")
    assert list(kernellab.load("é.json").table["ΒLOCK"]) == [64, 128]
    assert "scale" in str(sweep.show())


def cache_folder(below: Path) -> Path:
    """Triton's, of the one kernel that was compiled into it."""
    (file,) = (below / "ché").rglob("scale.ttgir")
    return file.parent


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize("record", ["passes", "stages"])
def test_a_compilation_from_a_folder_with_an_accent(
    load, tmp_path, monkeypatch, target, record
) -> None:
    kernels = load("é")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "ché"))
    kernel, file = kernels.scale, str(kernels.__file__)
    compiled: Any = kernellab.compile(kernel, *TYPES, ΒLOCK=64, target=target, record=record)
    assert [name for name in compiled.source_map.files if "triton" not in name] == [file]
    line = SourcePosition(file, line_of(kernels, "α = tl.load"))
    last = "sass" if target == "sm_90" else "amdgcn"
    for stage in ("ttir", "ttgir", "llir", last):
        assert compiled.source_map.lines("source", stage, line), stage
    view = compiled.explore(kernellab.check(kernel, *launch(), ΒLOCK=64))
    assert "ζ_ptr" in str(view)
    view.to_html(tmp_path / "é.html")
    assert {access.pointer for access in compiled.axis_info().accesses} == {"x_ptr", "ζ_ptr"}
    assert {"α", "合計"} <= {tile.name for tile in compiled.layouts().tiles}
    assert compiled.remarks is not None
    assert compiled.instructions
    assert compiled.work() is not None
    if record == "passes":
        places = [one.position for one in compiled.barriers().barriers]
        assert {place.file for place in places if place is not None} <= {file}
        assert str(compiled.conversions())
    compiled.save(tmp_path / "é.kernellab")
    again = kernellab.load(tmp_path / "é.kernellab")
    assert again.source_map == compiled.source_map
    if record == "stages":
        assert kernellab.load(cache_folder(tmp_path)).source_map.file == file


@pytest.mark.sampled(10)
@pytest.mark.parametrize("folder", FOLDERS[1:] + QUOTED)
def test_any_path(load, folder) -> None:
    kernels = load(folder)
    file = str(kernels.__file__)
    _, x, z, n = launch()
    kernellab.run(kernels.scale, (1,), x, z, n, ΒLOCK=64)
    assert (z == 2 * x + x.sum()).all()
    assert len(kernellab.trace(kernels.scale, *launch(), ΒLOCK=64).steps) == 7
    compiled: Any = kernellab.compile(kernels.scale, *TYPES, ΒLOCK=64, target="sm_90")
    assert [name for name in compiled.source_map.files if "triton" not in name] == [file]
    compiled.explore()
    if '"' in folder:
        return
    compiled = kernellab.compile(kernels.scale, *TYPES, ΒLOCK=64, target="sm_90", record="stages")
    assert [name for name in compiled.source_map.files if "triton" not in name] == [file]


@pytest.mark.parametrize("folder", [one for one in FOLDERS + QUOTED if "\n" not in one])
@pytest.mark.parametrize(("kernel", "text"), [("assembled", '"wrong'), ("misfit", "α = tl.inline")])
def test_the_compilers_errors_name_the_line_in_any_path(load, folder, kernel, text) -> None:
    kernels = load(folder)
    with pytest.raises(CompileError) as caught:
        kernellab.compile(getattr(kernels, kernel), *TYPES, ΒLOCK=64, target="sm_90")
    position = position_of(caught.value)
    assert (position.file, position.line) == (str(kernels.__file__), line_of(kernels, text))


def test_a_path_that_ptxas_cannot_read_is_named(load, raised) -> None:
    """Its own limit: it takes the quote for the end of the name."""
    kernels = load('q"uote')
    options: Any = {"ΒLOCK": 64, "target": "sm_90", "record": "stages"}
    raised(CompileError, kernellab.compile, kernels.scale, *TYPES, **options)


def test_a_path_that_is_no_text_is_named(load, raised) -> None:
    kernels = load(os.fsdecode(b"caf\xe9"))
    caught = raised(CompileError, kernellab.run, kernels.scale, *launch(), ΒLOCK=64)
    str(caught).encode()  # so that a terminal can print it


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["\f", "\u2028", "\x85", "\x1c"])
def test_marks_that_end_no_line_of_python(load, tmp_path, mark) -> None:
    """A form feed between parts of a file, say: `str.splitlines` ends a line there."""
    file = tmp_path / "parts.py"
    text = Path(unicode_names.__file__).read_text()
    file.write_text(text.replace("\n\n\n@", f"\n\n# {mark}next\n@").replace('"π"', f'"{mark}"'))
    kernels = load("é", file)
    scale = kernels.scale
    line = line_of(kernels, "合計 = 1.0")
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernels.outside, *launch(), ΒLOCK=64)
    assert position_of(caught.value).line == line
    assert "tl.load(x_ptr + ι + 1)" in str(caught.value)
    trace = kernellab.trace(scale, *launch(), ΒLOCK=64)
    trace.save(tmp_path / "parts.trace")
    again = kernellab.load(tmp_path / "parts.trace")
    assert str(again.show()) == str(trace.show())
    sweep = kernellab.tune(scale, *launch(), space={"ΒLOCK": [64]}, workers=1, progress=False)
    assert list(sweep.table["dropped"]) == [""]


def test_functions_of_such_names_that_are_not_inlined(load) -> None:
    kernel = load("é").called
    grid, x, z, n = launch()
    kernellab.run(kernel, grid, x + 1, z, n, ΒLOCK=64)
    assert z[0] == 2
    for target, stage in (("sm_90", "ptx"), ("gfx942", "amdgcn")):
        compiled: Any = kernellab.compile(kernel, *TYPES, ΒLOCK=64, target=target)
        assert compiled.stages[stage].text
        assert "дважды" in str(compiled.call_graph())


def test_a_kernels_own_name_is_refused_in_tritons_words(load) -> None:
    kernels = load("é")
    line = line_of(kernels, "def noyau_é")
    for entry_point in (kernellab.run, kernellab.check, kernellab.trace):
        with pytest.raises(CompileError) as caught:
            entry_point(kernels.noyau_é, *launch(), ΒLOCK=64)
        error = caught.value
        assert error.reason == "invalid function identifier: noyau_é"
        assert error.position == SourcePosition(str(kernels.__file__), line)
        assert "'noyau_e' for one" in error.advice
        assert error.advice in str(error)


def test_texts_of_prints_and_asserts(load, raised) -> None:
    kernels = load("é")
    options: Any = {"ΒLOCK": 64, "debug": True, "match": "device_assert"}
    raised(KernelFault, kernellab.run, kernels.asserting, *launch(), **options)
    with pytest.raises(CompileError, match="π is not an ascii string") as caught:
        kernellab.run(kernels.printing, *launch(), ΒLOCK=64)
    assert "write this one in ASCII" in caught.value.advice


def test_the_caret_stands_under_the_fault(load) -> None:
    """Columns of compilers count bytes; Chinese letters are two columns wide."""
    kernels = load("é")
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernels.outside, *launch(), ΒLOCK=64)
    source, caret = str(caught.value).partition("    合計 = 1.0")[2].splitlines()[:2]
    at = source.index("tl.load" if LOCATES_WHOLE_CALLS else "x_ptr")
    number = len(f"{line_of(kernels, '合計 = 1.0'):>5} | ")
    assert caret.index("^") == number + 4 + len("1234 = 1.0") + at
    assert "the index was computed from ι = 63" in str(caught.value)


@pytest.mark.slow
def test_tritons_own_library_in_such_a_folder(load, tmp_path) -> None:
    """A virtual environment there: `tl.sum` is written in a file of it."""
    kernels = load("é")
    packages = tmp_path / "é" / "site-packages"
    packages.symlink_to(Path(str(torch.__file__)).parents[1])
    script = f"""
        import sys
        sys.path[:0] = [{str(packages)!r}, {str(tmp_path / "é")!r}]
        import triton
        assert triton.__file__.startswith({str(packages)!r})
        import torch, kernellab, noyaux_é as kernels
        launch = ((1,), torch.arange(64.0), torch.zeros(64), 64)
        kernellab.run(kernels.scale, *launch, ΒLOCK=64)
        assert (launch[2] == 2 * launch[1] + launch[1].sum()).all()
        assert not kernellab.check(kernels.scale, *launch, ΒLOCK=64).findings
        assert len(kernellab.trace(kernels.scale, *launch, ΒLOCK=64).steps) == 7
        compiled = kernellab.compile(
            kernels.scale, "*fp32", "*fp32", "i32", ΒLOCK=64, target="sm_90")
        print(compiled.barriers().barriers[0].position)
        compiled.explore()
    """
    home = tmp_path / "é" / "home"
    home.mkdir()
    done = run_python(script, env={"HOME": str(home), "TMPDIR": str(home)}, timeout=200)
    assert done.returncode == 0, done.stderr
    line = line_of(kernels, "σ = tl.sum")
    assert done.stdout.startswith(f"{kernels.__file__}:{line}:")


@pytest.mark.slow
def test_in_a_notebook_of_such_a_folder(notebook, tmp_path) -> None:
    folder = tmp_path / "é ил"
    folder.mkdir()
    session = notebook(
        f"import os; os.chdir({str(folder)!r}); import tempfile; tempfile.tempdir = os.getcwd()",
        "%load_ext kernellab\nimport torch, triton, triton.language as tl, kernellab",
    )
    text = Path(unicode_names.__file__).read_text()
    helper = text[text.index("@triton.jit") : text.index("@triton.jit(noinline")]
    kernel = text[text.index("@triton.jit\ndef scale") : text.index("@triton.jit\ndef called")]
    cell = f"%%tilekernel --target sm_90 --sig '*fp32, *fp32, i32' --constexpr ΒLOCK=64\n{helper}"
    outcome = session.run(helper)
    assert not outcome.error, outcome.traceback
    outcome = session.run(cell.replace(helper, kernel))
    assert not outcome.error, outcome.traceback
    assert "ζ_ptr" in outcome.cards[0]
    outcome = session.run(
        "x, ζ = torch.arange(64.0), torch.zeros(64)\nscale[(1,)](x, ζ, 64, ΒLOCK=64)\n"
        "assert (ζ == 2 * x + x.sum()).all()\n"
        "kernellab.trace(scale, (1,), x, ζ, 64, ΒLOCK=64).show()"
    )
    assert "合計" in outcome.still["text/html"]
    outcome = session.run("kernellab.check(scale, (1,), x, torch.zeros(60), 64, ΒLOCK=64)")
    assert not outcome.error, outcome.traceback
    assert "ζ_ptr[60]" in outcome.card["text/html"]
    assert not session.run("π = 3").error
    refused = session.run(
        "%%tilekernel\n@triton.jit\ndef noyau_é(x_ptr):\n    tl.store(x_ptr, 1.0)"
    )
    assert "-> 3 def noyau_é(x_ptr):" in refused.traceback
    assert refused.error == "CompileError"
    assert "invalid function identifier: noyau_é" in refused.message


@pytest.mark.parametrize("text", ["é", 'a"b', "a\\b", "\\C3\\A9", "\\303", "日本\n\t\x01", "😀"])
def test_strings_are_read_as_compilers_write_them(text) -> None:
    def written(escape: str) -> str:
        return "".join(
            c if c.isascii() and c.isprintable() and c not in '"\\'
            else "\\\\" if c == "\\"
            else "".join(escape.format(b) for b in c.encode())
            for c in text
        )  # fmt: skip

    assert string_of_ir(written("\\{:02X}")) == text
    assert string_of_assembly(written("\\{:03o}")) == text


def test_names_of_values_are_spelled_as_mlir_does() -> None:
    assert [value_name(name) for name in ("acc", "α", "é_val", "xé")] == [
        "acc", "_CEB1", "_C3A9_val", "xC3A9",
    ]  # fmt: skip
