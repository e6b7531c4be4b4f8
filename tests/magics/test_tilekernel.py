"""`%%tilekernel`: what a cell leaves behind, its line numbers, options, cards, help."""

import re
from typing import Any

import pytest

from tests.support.notebook_session import ADD, NotebookSession

CELLS = (
    "%load_ext kernellab",
    "import inspect, linecache, numpy as np, torch, triton, triton.language as tl\n"
    "x = torch.rand(1000); y = torch.rand(1000); z = torch.zeros(1000)",
)


@pytest.mark.slow
def test_everything_that_the_cell_defines_is_in_the_namespace(lab: NotebookSession) -> None:
    cell = (
        "%%tilekernel --no-compile\n"
        "import math as mathematics\n"
        "five = 5\n"
        f"{ADD}def plain(): return five"
    )
    assert lab.run(cell).status == "ok"
    assert lab.ask("five, plain(), mathematics.pi > 3") == "(5, 5, True)"
    assert lab.ask("add") == "TileKernel(__main__:add)"
    assert lab.ask("isinstance(add, triton.runtime.JITFunction), triton.jit.__module__") == (
        "(True, 'triton.runtime.jit')"
    )


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (f"{ADD}6 * 7", {"text/plain": "42"}),
        (f"{ADD}6 * 7;", None),  # the semicolon keeps it quiet
        (f"words = !echo one two\n%precision 3\n{ADD}words", {"text/plain": "['one two']"}),
    ],
)
def test_the_last_expression_is_displayed_and_kept(lab: NotebookSession, cell, shown) -> None:
    assert lab.run(f"%%tilekernel --no-compile\n{cell}").result == shown
    assert shown is None or lab.ask("_") == shown["text/plain"]


def test_only_kernels_of_the_cell_become_tile_kernels(lab: NotebookSession) -> None:
    lab.run(f"%%tilekernel --no-compile\n{ADD}")
    lab.run(ADD.replace("def add", "def ordinary"))
    assert lab.ask("type(add).__name__, type(ordinary).__name__, type(tl.sum).__name__") == (
        "('TileKernel', 'JITFunction', 'JITFunction')"
    )


@pytest.mark.slow
def test_a_cell_that_is_run_again_compiles_nothing(lab: NotebookSession) -> None:
    cell = f"%%tilekernel\n{ADD}add[(4,)](x, y, z, 1000, BLOCK=256)"
    made = "sorted(map(id, vars(add)['_kernellab_compilations'].values()))"
    assert lab.run(cell).cards
    before, kernel = lab.ask(made), lab.ask("id(add)")
    lab.run("older = add  # whose id is not taken again")
    assert lab.run(cell).cards
    assert (lab.ask(made), lab.ask("id(add)") != kernel) == (before, True)
    lab.run(cell.replace("x + y", "x - y"))
    assert lab.ask(made) != before


def test_after_an_exception_kernels_are_tritons_again(lab: NotebookSession) -> None:
    lab.run(f"%%tilekernel\n{ADD}1 / 0")
    lab.run(ADD.replace("def add", "def later"))
    assert lab.ask("type(add).__name__, type(later).__name__") == "('TileKernel', 'JITFunction')"


@pytest.mark.slow
def test_the_extension_unloads_and_loads_again(lab: NotebookSession) -> None:
    assert lab.run("%unload_ext kernellab").status == "ok"
    missing = lab.run(f"%%tilekernel\n{ADD}")
    assert "not found" in missing.streams["stderr"]
    left = (
        "[m for kind in get_ipython().magics_manager.magics.values() for m in kind if "
        "m.startswith('tile')]"
    )
    assert lab.ask(left) == "[]"
    assert "--target" not in lab.complete("%%tilekernel --t")
    assert lab.run("%load_ext kernellab\n%reload_ext kernellab").status == "ok"
    assert lab.run(f"%%tilekernel --no-compile\n{ADD}").status == "ok"


@pytest.mark.parametrize("above", ["", "\n\n", "%%time\n"])
def test_a_line_of_the_cell_is_the_line_everywhere(lab: NotebookSession, above: str) -> None:
    cell = f"{above}%%tilekernel --no-compile\nfirst = 1\n\n{ADD}\ndef fail():\n    return 1 / 0\n"
    lines = cell.splitlines()
    assert lab.run(cell).status == "ok"
    definition = lines.index("def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):") + 1

    source, first_line = "".join(ADD), definition - 1
    assert lab.ask("inspect.getsourcelines(add.fn)[1]") == str(first_line)
    assert lab.ask("inspect.getsource(add.fn)") == repr(source)
    file = "add.fn.__code__.co_filename"
    assert lab.ask(f"linecache.getline({file}, {definition})") == repr(lines[definition - 1] + "\n")
    assert lab.ask("add.fn.__code__.co_firstlineno") == str(first_line)

    failed = lab.run("fail()")
    assert failed.arrows[-1] == f"{len(lines)}: return 1 / 0"


def test_the_debugger_of_jupyterlab_finds_the_cell(lab: NotebookSession) -> None:
    """ipykernel names a cell's file by a hash of its text; breakpoints are set in that file."""
    cell = f"%%tilekernel --no-compile\n{ADD}"
    lab.run(cell)
    lab.run(f"from ipykernel.compiler import get_file_name\nexpected = get_file_name({cell!r})")
    assert lab.ask("add.fn.__code__.co_filename == expected") == "True"


def test_a_launch_runs_in_place_and_the_card_says_how(lab: NotebookSession) -> None:
    outcome: Any = lab.run(
        "%%tilekernel --num-stages 2\n"
        f"{ADD}add[lambda meta: (triton.cdiv(1000, meta['BLOCK']),)](x, y, z, 1000, BLOCK=256, "
        "num_warps=8)\n"
        "torch.equal(z, x + y)"
    )
    assert outcome.result["text/plain"] == "True"
    (card,) = outcome.cards
    assert "add  compiled for sm_90" in card
    assert "grid (4, 1, 1), 4 programs, num_warps=8" in card
    assert "ran on the CPU, in the interpreter, emulating sm_90" in card
    assert _row(card, "x_ptr") == ["x_ptr", "*fp32, divisible by 16", "float32[1000]", "launch"]
    assert _row(card, "n") == ["n", "i32", "1000", "launch"]
    assert _row(card, "BLOCK") == ["BLOCK", "constexpr", "256", "launch"]
    assert _row(card, "warps per program") == ["warps per program", "8"]
    assert _row(card, "pipeline stages") == ["pipeline stages", "2"]
    assert _row(card, "matrix instructions") == ["matrix instructions", "none"]
    for stage in ("source", "ttir", "ttgir", "llir", "ptx", "cubin", "sass"):
        assert int(_row(card, stage)[1].split()[0].replace(",", "")) > 0
    assert lab.ask("add.last_launch.grid, add.last_launch.options") == (
        "((4, 1, 1), {'num_warps': 8})"
    )


def test_the_target_is_compiled_for_and_emulated(lab: NotebookSession) -> None:
    outcome = lab.run(f"%%tilekernel --target gfx942\n{ADD}add[(8,)](x, y, z, 1000, BLOCK=128);")
    (card,) = outcome.cards
    assert "compiled for gfx942" in card
    assert "emulating gfx942" in card
    assert "amdgcn" in card
    assert lab.ask("str(add.target)") == "'gfx942'"


@pytest.mark.slow
def test_helper_functions_have_no_card_of_their_own(lab: NotebookSession) -> None:
    helper = "@triton.jit\ndef plus(a, b):\n    return a + b\n"
    kernel = ADD.replace("x + y", "plus(x, y)")
    outcome = lab.run(f"%%tilekernel\n{helper}{kernel}add[(8,)](x, y, z, 1000, BLOCK=128);")
    assert [card.split()[0] for card in outcome.cards] == ["add"]
    alone = lab.run(f"%%tilekernel\n{helper}")
    assert (alone.status, alone.cards) == ("ok", [])


@pytest.mark.slow
def test_types_from_sig(lab: NotebookSession) -> None:
    outcome = lab.run(
        f'%%tilekernel --sig "*fp16:16, *bf16, *fp32:16, n=i64" --constexpr BLOCK=64\n{ADD}'
    )
    (card,) = outcome.cards
    assert "Not launched in this cell" in card
    assert _row(card, "x_ptr") == ["x_ptr", "*fp16, divisible by 16", "--sig"]
    assert _row(card, "y_ptr") == ["y_ptr", "*bf16", "--sig"]
    assert _row(card, "n") == ["n", "i64", "--sig"]
    assert _row(card, "BLOCK") == ["BLOCK", "constexpr", "64", "--constexpr"]


@pytest.mark.slow
def test_types_from_annotations_and_assumptions(lab: NotebookSession) -> None:
    kernel = ADD.replace("x_ptr,", 'x_ptr: "*fp64",', 1).replace("n, BLOCK", "n, BLOCK", 1)
    (card,) = lab.run(f"%%tilekernel --constexpr BLOCK=64\n{kernel}").cards
    assert _row(card, "x_ptr") == ["x_ptr", "*fp64", "annotation"]
    assert _row(card, "y_ptr") == ["y_ptr", "*fp32, divisible by 16", "assumed"]
    assert _row(card, "n") == ["n", "i32", "assumed"]


def test_a_missing_constexpr_is_asked_for_on_the_card(lab: NotebookSession) -> None:
    outcome = lab.run(f"%%tilekernel\n{ADD}")
    assert outcome.status == "ok"
    (card,) = outcome.cards
    assert "not compiled" in card
    assert "'BLOCK'" in card
    assert "--constexpr" in card


def test_what_cannot_be_assumed_is_asked_for_on_the_card(lab: NotebookSession) -> None:
    outcome = lab.run(
        "%%tilekernel\n@triton.jit\ndef through_descriptor(desc, out):\n"
        "    tl.store(out + tl.arange(0, 16), desc.load([0]))\n"
    )
    assert outcome.status == "ok", outcome.traceback
    (card,) = outcome.cards
    assert "not compiled" in card
    assert "'desc'" in card


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", ["64", "2.5", "True", "relu", "'two words'", "tl.float16"])
def test_constexpr_values(lab: NotebookSession, text: str) -> None:
    outcome = lab.run(
        f"%%tilekernel --constexpr V={text}\n"
        "@triton.jit\ndef k(p, V: tl.constexpr):\n    tl.static_print(V)\n    tl.store(p, 1)\n"
    )
    assert not outcome.error, outcome.traceback
    assert text.strip("'").removeprefix("tl.") in _row(outcome.cards[0], "V")[2]


def test_records_are_shown_as_cards(lab: NotebookSession) -> None:
    lab.run(f"%%tilekernel --no-compile\n{ADD}")
    run: Any = lab.run("add[(8,)](x, y, z, 1000, BLOCK=128)").result
    assert "grid (8, 1, 1)" in run["text/html"]
    assert "grid (8, 1, 1)" in run["text/plain"]
    launch: Any = lab.run("add.last_launch").result
    assert "float32[1000]" in launch["text/html"]
    lab.run("import kernellab\nc = kernellab.compile(add, x, y, z, 1000, BLOCK=128)")
    compilation = lab.run("c").card
    assert "sass" in compilation["text/html"]
    resources: Any = lab.run("c.resources").result
    assert "registers per thread" in resources["text/html"]
    nested: Any = lab.run("[c]").result
    assert nested["text/plain"].startswith("[Compilation('add' for sm_90")


def test_help_explains_every_option_with_examples(lab: NotebookSession) -> None:
    text = lab.help("%%tilekernel")
    options = {"--target", "--sig", "--constexpr", "--num-warps", "--num-stages", "--no-compile"}
    assert {*re.findall(r"--[a-z-]+", text)} >= options
    assert "Examples:" in text


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%%tilekernel --t", ["--target"]),
        ("%%tilekernel --num", ["--num-warps", "--num-stages"]),
        ("%%tilekernel --target gfx9", ["gfx90a", "gfx942", "gfx950"]),
        ("%%tilekernel --target=sm_12", ["sm_120"]),
        ("%%tilekernel --num-warps 1", ["1", "16"]),
        ("%%tilekernel --target sm_90 --targ", []),
    ],
)
def test_tab_completes_the_magics_line(lab: NotebookSession, line: str, offered: list[str]) -> None:
    assert sorted(lab.complete(f"{line}\n{ADD}", len(line))) == sorted(offered)


def test_tab_below_the_magics_line_completes_python(lab: NotebookSession) -> None:
    assert "triton" in lab.complete("%%tilekernel\ntrito")


def _row(card: str, name: str) -> list[str]:
    """The cells of the card's row that starts with `name`; empty ones leave no trace."""
    for line in card.splitlines():
        cells = [cell.strip() for cell in line.strip().split("  ") if cell.strip()]
        if cells and cells[0] == name:
            return cells
    raise AssertionError(f"no row {name!r} in\n{card}")


def test_a_launch_under_its_card_is_told_once_and_elsewhere_in_a_line(lab: NotebookSession) -> None:
    launched = f"{ADD}add[(8,)](x, y, z, 1000, BLOCK=128)"
    outcome = lab.run(f"%%tilekernel\n{launched}")
    assert outcome.status == "ok"
    assert len(outcome.cards) == 1
    assert outcome.result is None
    without_card = lab.run(f"%%tilekernel --no-compile\n{launched}").result
    assert without_card is not None
    again = lab.run("add[(8,)](x, y, z, 1000, BLOCK=128)").result
    assert again is not None
    for shown in (without_card, again):
        (line,) = shown["text/plain"].splitlines()
        assert line.startswith("add  launched with grid (8, 1, 1), 8 programs: ran on the CPU")
    # Of a run that no card tells of nothing is hidden.
    kept = lab.run(f"r = add[(2,)](x, y, z, 256, BLOCK=128)\n_ = None\n{'r'}").result
    assert kept is not None
    # What a cell ends with besides is displayed as ever.
    assert lab.run(f"%%tilekernel\n{launched}\n7").result == {"text/plain": "7"}


def test_help_and_completion_of_the_package(lab, messages) -> None:
    lab.run("import kernellab, kernellab.errors, kernellab.viz")
    offered = lab.complete("kernellab.")
    assert {"check", "trace", "compile", "TileKernel"} <= set(offered)
    assert not {"errors", "viz", "sys", "importlib", "annotations", "TYPE_CHECKING"} & set(offered)
    told = lab.help("kernellab")
    named = re.findall(r"^    (\w+)\(", told, re.M)
    assert len(named) >= 9
    assert set(named) <= set(offered)
    assert lab.run("kernellab.chekc").message == messages
