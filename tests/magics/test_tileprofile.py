"""`%tileprofile`, `%%tileprofile` and `%tilediagnose` in a real notebook kernel."""

import pytest

import kernellab
from tests.support.notebook_session import ADD, NotebookSession

LAUNCH = "add[(2,)](x, y, z, 30, BLOCK=16)"


CELLS = (
    "%load_ext kernellab",
    "import torch, triton, triton.language as tl\nx = y = torch.ones(32); z = torch.zeros(32)",
    f"%%tilekernel --no-compile\n{ADD}",
)


@pytest.mark.slow
def test_a_launch(lab: NotebookSession) -> None:
    card = lab.run(f"%tileprofile {LAUNCH}").card
    assert "counted, not timed: 360 bytes" in card["text/plain"]
    assert "tt.store" in card["text/html"]
    assert lab.ask("z.sum().item()") == "60.0"


def test_a_cell(lab: NotebookSession, tmp_path) -> None:
    file = tmp_path / "p.hatchet"
    outcome = lab.run(
        f"%%tileprofile --save {file} --name found\nfor _ in range(3):\n    {LAUNCH}\n5 + 5"
    )
    assert outcome.result == {"text/plain": "10"} or any(
        "10" in one["text/plain"] for one in outcome.displays
    )
    assert lab.ask("found.kernels[0].launches") == "3"
    assert kernellab.load(file).table("count")["count"].iloc[0] == 3


def test_what_means_nothing_is_refused(lab: NotebookSession, messages) -> None:
    assert lab.run("%tileprofile").message == messages
    assert lab.run("%%tileprofile --contxt python\n1").message == messages
    outcome = lab.run("%%tileprofile --name broken\n1 / 0")
    assert outcome.error == "ZeroDivisionError"
    assert lab.ask("'broken' in dir()") == "False"


def test_tab_offers_the_options_of_each(lab: NotebookSession) -> None:
    assert "--detail" in lab.complete("%tileprofile --de")
    assert "--context" in lab.complete("%%tileprofile --con")


@pytest.mark.slow
def test_why_a_launch_is_slow(lab: NotebookSession, messages) -> None:
    card = lab.run(f"%tilediagnose --target sm_90 {LAUNCH}").card
    assert "launch-bound" in card["text/plain"]
    assert "busy part" in card["text/html"]
    lab.run("import kernellab\nwith kernellab.profile() as measured:\n    " + LAUNCH)
    assert "1 kernel diagnosed" in lab.run("%tilediagnose --of measured").card["text/plain"]
    assert "--target" in lab.complete("%tilediagnose --ta")
    assert lab.run("%tilediagnose").message == messages
