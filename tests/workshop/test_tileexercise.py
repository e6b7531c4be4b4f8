"""`%%tileexercise` and `%tileexercise` in a notebook."""

import json

import pytest

from tests.support.notebook_session import NotebookSession, StartNotebook

KERNEL = """%%tileexercise {options}add
import triton
import triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) {sign} tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, total, mask=mask)
"""


def said_by(session: NotebookSession, cell: str) -> str:
    """All that a cell shows, as plain text."""
    outcome = session.run(cell)
    shown = [*outcome.displays, *([] if outcome.result is None else [outcome.result])]
    return "\n".join(
        [*outcome.streams.values(), *(one["text/plain"] for one in shown), outcome.message]
    )


@pytest.fixture(scope="module")
def session(notebook: StartNotebook) -> NotebookSession:
    """A notebook in which the process that starts confined ones runs already."""
    started = notebook("%load_ext kernellab")
    started.run("from kernellab.judging.worker import wait_for_worker\nwait_for_worker()")
    return started


@pytest.mark.slow
def test_a_finding_is_the_first_thing_that_a_notebook_displays(session: NotebookSession) -> None:
    """No view was displayed before, and no trace was made: the card of an answer is found."""
    outcome = session.run(KERNEL.format(options="", sign="+").replace(", mask=mask)", ")"))
    assert outcome.message == ""
    (shown, *_) = outcome.displays
    assert "add is not safe" in shown["text/plain"]
    assert "out-of-bounds" in shown["text/plain"]


@pytest.mark.slow
def test_a_wrong_kernel_is_told_the_first_wrong_element(session: NotebookSession) -> None:
    said = said_by(session, KERNEL.format(options="", sign="-"))
    assert "add gives a wrong result" in said
    assert "the first wrong element, z_ptr[0]" in said
    assert "expected" in said


@pytest.mark.slow
def test_a_right_one_is_done_and_counts(session, messages) -> None:
    assert said_by(session, KERNEL.format(options="", sign="+")) == messages
    listed = said_by(session, "%tileexercise")
    assert "1 of 47 exercises done" in listed


@pytest.mark.slow
def test_an_answer_as_json(session: NotebookSession) -> None:
    printed = said_by(session, KERNEL.format(options="--json ", sign="+"))
    assert json.loads(printed)["is_done"] is True


def test_a_name_gives_the_task_and_the_stub(session, messages) -> None:
    said = said_by(session, "%tileexercise softmax")
    assert said == messages
    assert "hint" in said
    assert "subtract" in said_by(session, "%tileexercise --hint 1 softmax")
    assert said_by(session, "%tileexercise --hint 9 softmax") == messages


_ADDED_CELLS = "print([one['source'] for one in get_ipython().payload_manager.read_payload()])"


def test_the_task_alone_adds_no_cell(session: NotebookSession, messages) -> None:
    assert "set_next_input" in said_by(session, f"%tileexercise softmax\n{_ADDED_CELLS}")
    said = said_by(session, f"alone = %tileexercise --task softmax\n{_ADDED_CELLS}")
    assert "[]" in said
    assert said_by(session, "alone") == messages


def test_a_cell_without_the_kernel_is_an_answer_and_a_wrong_name_an_error(
    session: NotebookSession, messages
) -> None:
    assert said_by(session, "%%tileexercise clamp\nx = 1") == messages
    assert "ad" in said_by(session, "%%tileexercise ad\nx = 1")
    assert said_by(session, "%%tileexercise ad\nx = 1") == messages
