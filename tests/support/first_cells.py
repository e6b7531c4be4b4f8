"""Cells of a first notebook, and what is asked of them."""

from tests.support.notebook_session import NotebookSession

PLAIN = """\
def scale(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i))
"""


def advice(lab: NotebookSession, cell: str) -> str:
    """What stands below the error of a cell."""
    outcome = lab.run(cell)
    assert outcome.status == "error"
    lines = outcome.streams.get("stdout", "").splitlines()
    return "\n".join(line for line in lines if line.startswith("KernelLab: "))


def succeeds(lab: NotebookSession, cell: str) -> None:
    outcome = lab.run(cell)
    assert outcome.status == "ok", outcome.traceback
