"""The forms of a view in a notebook: what is displayed, saved, sent, and nbconvert's output."""

from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

from kernellab.viz.kit.data import DIGEST, LOADER, SCRIPT, STYLE
from tests.support.layouts import blocked
from tests.support.notebook_session import WIDGET, NotebookSession, Outcome

SETUP = """\
%load_ext kernellab
import kernellab, torch, triton, triton.language as tl
from IPython.display import display
x = torch.arange(64.0)"""

KERNEL = """\
%%tilekernel --no-compile
@triton.jit
def add(x_ptr, z_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(z_ptr + i, tl.load(x_ptr + i) + 1)
add[(1,)](x, torch.zeros(64), BLOCK=64)"""

VIEWS = {
    "%tileir add": "kl-ir",
    "%tilelayout add i": "kl-layout",
    "%tilestep add[(1,)](x, torch.zeros(64), BLOCK=64)": "kl-steps",
}
"""What shows each kind of view, and the class of its live root."""


CELLS = (SETUP, KERNEL)


def views_sent(outcome: Outcome) -> list[dict[str, Any]]:
    """The widgets that a cell made, without the models of their CSS layout."""
    return [one for one in outcome.opened if one["state"]["_model_name"] != "LayoutModel"]


@pytest.mark.parametrize(
    "cell",
    [
        "kernellab.show(add_compiled)",
        "display(add_compiled.explore())",
        "kernellab.trace(add, (1,), x, torch.zeros(64), BLOCK=64)",
    ],
)
def test_every_way_to_display_one_is_the_same(lab: NotebookSession, cell: str) -> None:
    lab.run("add_compiled = kernellab.compile(add, '*fp32', '*fp32', BLOCK=64, target='sm_90')")
    outcome = lab.run(cell)
    assert outcome.still
    assert len(outcome.displays) == 2


def test_the_bundle_is_sent_once_for_all_views(lab: NotebookSession) -> None:
    lab.run("import ipywidgets; ipywidgets.Widget.close_all()")
    holder, first = views_sent(lab.run("%tileir add"))
    assert holder["state"]["source"] == SCRIPT
    assert holder["state"]["style"] == STYLE
    assert holder["bytes"] > len(SCRIPT)
    for cell in VIEWS:
        (second,) = views_sent(lab.run(cell))
        data = int(lab.ask("len(list(ipywidgets.widget._instances.values())[-1].data)"))
        assert second["state"]["_esm"] == LOADER
        assert second["state"]["bundle"] == first["state"]["bundle"]
        assert second["state"]["digest"] == DIGEST
        assert second["bytes"] < data + 4_000


@pytest.mark.slow
def test_a_view_that_is_displayed_again_is_the_same_widget(lab: NotebookSession) -> None:
    lab.run(
        "kept = kernellab.show(kernellab.Layout.blocked(shape=(8,), size_per_thread=[1], "
        "threads_per_warp=[32], warps_per_cta=[1], order=[0]))"
    )
    first, second = lab.run("kept").displays[-1], lab.run("display(kept)").displays[-1]
    assert first[WIDGET] == second[WIDGET]
    # Somebody closed it: a fresh one, with a fresh bundle, since that was closed too.
    assert not lab.run("import ipywidgets; ipywidgets.Widget.close_all()").error
    again = lab.run("kept")
    assert again.displays[-1][WIDGET] != first[WIDGET]
    assert len(views_sent(again)) == 2


def test_a_terminal_gets_the_text_as_the_cells_result() -> None:
    layout = blocked((8,), [1], [32], [1], [0])
    view = layout.show()
    bundle, _ = DisplayFormatter().format(view)
    assert bundle == {"text/plain": repr(view), "text/html": view.still_html()}


def test_marimo_asks_for_one_thing_and_gets_the_widget() -> None:
    layout = blocked((8,), [1], [32], [1], [0])
    view = layout.show()
    assert view._display_() is view.widget
    view.widget.close()
