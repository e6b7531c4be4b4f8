"""`%tileir` through a real notebook kernel: what it compiles, what it shows, what it refuses."""

import re

import pytest

from tests.support.notebook_session import ADD, NotebookSession

CELLS = (
    "%load_ext kernellab",
    "import kernellab, torch, triton, triton.language as tl\n"
    "x = torch.rand(1000); y = torch.rand(1000); z = torch.zeros(1000)",
    f"%%tilekernel --no-compile --target sm_80\n{ADD}",
    "add[(8,)](x, y, z, 1000, BLOCK=128, num_warps=2)",
)


@pytest.mark.slow
def test_a_kernel_is_compiled_for_its_cells_target_and_its_latest_launch(lab) -> None:
    bundle = lab.run("%tileir add").still
    assert "add  compiled for sm_80" in bundle["text/plain"]
    assert "*fp32, divisible by 16" in bundle["text/plain"]
    assert re.search(r"warps per program +2\n", bundle["text/plain"])
    assert "ttgir.coalesce" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]


def test_options_before_and_after(lab: NotebookSession) -> None:
    line = '--sig "*fp16, *fp16, *fp16, i32" --constexpr BLOCK=64 --target gfx942'
    for text in (f"%tileir add {line}", f"%tileir {line} add"):
        bundle = lab.run(text).still
        assert "add  compiled for gfx942" in bundle["text/plain"]
        assert "*fp16" in bundle["text/plain"]


@pytest.mark.slow
def test_two_targets_are_compared(lab: NotebookSession) -> None:
    bundle = lab.run("%tileir add --target sm_80,sm_90").still
    assert "sm_80 and sm_90" in bundle["text/plain"]


@pytest.mark.slow
def test_what_is_compiled_already(lab: NotebookSession) -> None:
    lab.run(MADE)
    assert "add  compiled for sm_90" in lab.run("%tileir made").still["text/plain"]
    assert "add  compiled for sm_90" in lab.run("made.explore()").still["text/plain"]


MADE = (
    "made = kernellab.compile(add, '*fp32:16', '*fp32:16', '*fp32:16', 'i32', BLOCK=256, "
    "target='sm_90')"
)
EVIDENCE = """\
costs = kernellab.accesses(add, (8,), x, y, z, 1000, BLOCK=128, num_warps=2)
report = kernellab.check(add, (9,), x[:900], y, z, 1000, BLOCK=128)"""


@pytest.fixture(scope="module")
def evidence(lab: NotebookSession) -> None:
    """The notebook has the variables `costs` and `report`."""
    assert not lab.run(EVIDENCE).error


@pytest.mark.usefixtures("evidence")
def test_evidence_is_named_on_the_line(lab: NotebookSession) -> None:
    text = lab.run("%tileir add --with costs,report").still["text/plain"]
    assert re.search(r"out-of-bounds: this load reads x_ptr\[900\]", text)
    assert re.search(r"sectors +5 +250 +run of the interpreter for sm_80, grid 8x1x1", text)
    again = lab.run("%tileir --with report add --with costs").still["text/plain"]
    for words in (
        "out-of-bounds: this load reads x_ptr[900]",
        "a thread of this load takes 4 bytes",
    ):
        assert words in again
    lab.run(MADE)
    assert "out-of-bounds" in lab.run("%tileir made --with report").still["text/plain"]


@pytest.mark.slow
def test_evidence_of_an_earlier_definition_is_refused(lab, messages) -> None:
    kernel = ADD.replace("add", "again")
    lab.run(f"%%tilekernel --no-compile --target sm_80\n{kernel}")
    lab.run("again[(8,)](x, y, z, 1000, BLOCK=128)")
    lab.run("before = kernellab.check(again, (8,), x, y, z, 1000, BLOCK=128)")
    assert "nothing found" in lab.run("%tileir again --with before").still["text/plain"]
    lab.run(f"%%tilekernel --no-compile --target sm_80\n\n{kernel.replace('x + y', 'x * y')}")
    lab.run("again[(8,)](x, y, z, 1000, BLOCK=128)")
    outcome = lab.run("%tileir again --with before")
    assert outcome.error == "ArgumentError"
    assert outcome.message == messages


@pytest.mark.slow
def test_a_kernel_that_is_redefined_is_another_one(lab: NotebookSession) -> None:
    lab.run(f"%%tilekernel --no-compile\n{ADD.replace('add', 'late').replace('x + y', 'x - y')}")
    lab.run("late[(8,)](x, y, z, 1000, BLOCK=128)")
    before = lab.ask(
        "get_ipython().run_line_magic('tileir', 'late').data.sides[0].texts[0].content"
    )
    lab.run(f"%%tilekernel --no-compile\n{ADD.replace('add', 'late').replace('x + y', 'x * y')}")
    lab.run("late[(8,)](x, y, z, 1000, BLOCK=128)")
    after = lab.ask("get_ipython().run_line_magic('tileir', 'late').data.sides[0].texts[0].content")
    assert "x - y" in before
    assert "x * y" in after


@pytest.mark.slow
def test_what_was_compiled_before_a_kernel_was_redefined_is_said_to_be_old(lab) -> None:
    cell = f"%%tilekernel --no-compile\n{ADD.replace('add', 'fresh')}"
    lab.run(cell)
    lab.run(
        "old = kernellab.compile(fresh, '*fp32', '*fp32', '*fp32', 'i32', BLOCK=64, target='sm_90')"
    )
    assert lab.ask("old.explore().data.sides[0].notice") == "''"
    lab.run(cell)
    assert lab.ask("old.explore().data.sides[0].notice") == "''", "the same text, run again"
    lab.run(cell.replace("x + y", "x * y"))
    shown_then = lab.run("old.explore()").still
    assert "redefined since it was compiled" in shown_then["text/plain"]
    assert "redefined since it was compiled" in shown_then["text/html"]
    assert "redefined" in lab.ask("old.explore().data.sides[0].notice")
    assert "x + y" in lab.ask("old.explore().data.sides[0].texts[0].content")
    line = (
        "get_ipython().run_line_magic('tileir', \"fresh --sig '*fp32,*fp32,*fp32,i32' --constexpr "
        'BLOCK=64").data.sides[0]'
    )
    assert "x * y" in lab.ask(f"{line}.texts[0].content")
    assert lab.ask(f"{line}.notice") == "''"


def test_a_kernel_that_does_not_compile_shows_how_far_it_came(lab: NotebookSession) -> None:
    lab.run(
        "%%tilekernel --no-compile\n"
        "@triton.jit\n"
        "def odd(x_ptr, BLOCK: tl.constexpr):\n"
        "    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)\n"
    )
    outcome = lab.run("%tileir odd --sig '*fp32' --constexpr BLOCK=100")
    assert outcome.error == "CompileError"
    assert "power of 2" in outcome.displays[0]["text/plain"]


@pytest.mark.slow
def test_a_launch_that_a_fault_stopped_says_the_types(lab: NotebookSession) -> None:
    lab.run(
        "%%tilekernel --no-compile\n"
        "@triton.jit\n"
        "def beyond(x_ptr, n, BLOCK: tl.constexpr):\n"
        "    tl.store(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), n)\n"
    )
    assert lab.run("beyond[(9,)](x, 3, BLOCK=128)").error == "OutOfBounds"
    text = lab.run("%tileir beyond").still["text/plain"]
    assert re.search(r"BLOCK +constexpr +128", text)
    assert re.search(r"x_ptr +\*fp32", text)
    assert lab.ask("beyond.last_launch") == "None"


@pytest.mark.parametrize(
    "line",
    [
        "%tileir",
        "%tileir ad",
        "%tileir x",
        "%tileir add --taget sm_90",
        "%tileir add --target sm_80,sm_90,gfx942",
        "%tileir add --with nothing",
        "%tileir nope",
        "%tileir add --constexpr BLOCK=64 N=3",
        "%tileir add --with x",
        "%tileir add --with report(",
        "%tileir add --sig '*fp32'",
    ],
)
@pytest.mark.usefixtures("evidence")
def test_what_it_refuses(lab: NotebookSession, line: str, messages) -> None:
    outcome = lab.run(line)
    assert outcome.error
    assert outcome.message == messages


def test_help(lab: NotebookSession) -> None:
    text = lab.help("%tileir")
    assert "--target" in text
    assert "%tileir matmul --target sm_80,sm_90" in text


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%tileir add --tar", ["--target"]),
        ("%tileir add --target gfx94", ["gfx942"]),
        ("%tilelayout add --af", ["--after"]),
    ],
)
def test_tab_completes_options(lab: NotebookSession, line: str, offered: list[str]) -> None:
    assert lab.complete(line) == offered


def test_tab_completes_names(lab: NotebookSession) -> None:
    assert "kernellab" in lab.complete("%tileir kernell")


COUNTING = """\
from kernellab.triton_api import compilation, pipeline
compiled = []
def counted(function):
    def call(*args, **keywords):
        compiled.append(function.__name__)
        return function(*args, **keywords)
    return call
pipeline.compile_watched = counted(pipeline.compile_watched)
compilation.triton.compile = counted(triton.compile)"""


@pytest.mark.slow
def test_a_cell_compiles_its_kernel_once_for_all_that_shows_it(lab: NotebookSession) -> None:
    lab.run(COUNTING)
    kernel = ADD.replace("add", "once")
    lab.run(f"%%tilekernel --target sm_80\n{kernel}\nonce[(8,)](x, y, z, 1000, BLOCK=128)")
    assert lab.ask("compiled") == "['compile_watched']"
    for line in ("%tileir once", "%tilelayout once", "%tileir once --target sm_80"):
        assert not lab.run(line).error
    assert lab.ask("compiled") == "['compile_watched']"
    lab.run("%tileir once --target sm_90")
    lab.run("once[(8,)](x, y, z, 1000, BLOCK=64)")
    lab.run("%tileir once")
    assert lab.ask("compiled") == "['compile_watched', 'compile_watched', 'compile_watched']"
    lab.run("%tileir once --target sm_90,sm_80")
    lab.run("once[(8,)](x, y, z, 1000, BLOCK=128)")
    lab.run("%tileir once")
    assert lab.ask("len(compiled)") == "4", "only BLOCK=64 for sm_90 is new"
