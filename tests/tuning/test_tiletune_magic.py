"""`%%tiletune` in a real notebook kernel."""

from __future__ import annotations

import pytest

from tests.notebook_session import NotebookSession

DEFINES = """\
%%tilekernel --no-compile
import torch, triton, triton.language as tl

@triton.jit
def double(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=inside), mask=inside)
"""

TUNES = """\
%%tiletune --space BLOCK=64,128 --space num_warps=2,4 --key n --check --no-cache --name found
n = 1000
x = torch.arange(n, dtype=torch.float32)
z = torch.zeros(n)
grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)

double[grid](x, z, n)
"""


@pytest.fixture(scope="module")
def session():
    made = NotebookSession()
    made.run("%load_ext kernellab")
    assert not made.run(DEFINES).error
    yield made
    made.close()


def test_a_cell_is_run_and_its_launch_tuned(session) -> None:
    outcome = session.run(TUNES)
    assert not outcome.error, outcome.traceback
    card = outcome.still["text/plain"]
    assert "double: 4 configs  for sm_90, no GPU" in card
    assert 'alt="registers of a thread, of each config"' in outcome.still["text/html"]
    assert "nothing was timed, which needs a GPU" in card
    shown = session.run("print(list(found.table['same result as']), float(z.sum()), found.key)")
    assert shown.streams["stdout"] == f"{['the first config'] * 4} 0.0 {{'n': 1000}}\n"


@pytest.mark.parametrize(
    ("cell", "error", "words"),
    [
        ("%%tiletune --space BLOCK\nx", "OptionError", "write NAME=VALUE,VALUE,..."),
        ("%%tiletune\nn = 5", "OptionError", "the cell ends in no launch"),
        ("%%tiletune\nn + 5", "OptionError", "'n + 5' is no launch"),
        ("%%tiletune\ndouble[grid](x, z, n)", "ArgumentError", "not under @triton.autotune, and no space"),
        ("%%tiletune --space BLOK=64\ndouble[grid](x, z, n)", "OptionError", "Did you mean 'BLOCK'"),
        ("%%tiletune --space BLOCK=64\ny = (1\n", "SyntaxError", "incomplete input"),
    ],
)  # fmt: skip
def test_what_cannot_be_tuned_is_said(session, cell, error, words) -> None:
    outcome = session.run(cell)
    assert outcome.error == error
    assert words in outcome.message


def test_the_stop_button_keeps_the_table(session) -> None:
    cell = TUNES.replace("double[grid]", "print('begins', flush=True)\ndouble[grid]").replace(
        "BLOCK=64,128", "BLOCK=16,32,64,128,256,512,1024,2048"
    )
    outcome = session.run(cell, interrupt_after="begins")
    assert not outcome.error, outcome.traceback
    assert "Interrupted: " in outcome.cards[0]
    assert session.run("print(len(found.trials) < 16)").streams["stdout"] == "True\n"


def test_a_sweep_says_that_its_kernel_was_redefined(session) -> None:
    redefined = "redefined since this sweep"
    both = "import kernellab; kernellab.Tunings([found, found]).show()"
    for cell in (DEFINES.replace("double", "triple"), TUNES.replace("double", "triple")):
        assert not session.run(cell).error
    assert redefined not in session.run("found.show()").still["text/plain"]
    session.run(DEFINES.replace("double", "triple").replace("2 * tl", "3 * tl"))
    assert redefined in session.run("found.show()").still["text/plain"]
    assert redefined in session.run(both).still["text/plain"]
    assert redefined in session.ask("found.show()._live_data().sweeps[0].words[1]")
