"""Views in a saved notebook: what is stored, what nbconvert makes of it, what shows at first."""

import copy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.notebook_session import WIDGET
from tests.viz.browser import Watched
from tests.viz.jupyter import Jupyter, show_cell

pytestmark = [pytest.mark.notebook, pytest.mark.slow]  # nbconvert runs it

NASTY = "<img src=x onerror=alert(1)></script>"

CELLS = [
    "%load_ext kernellab\nimport dataclasses, kernellab, torch, triton, triton.language as tl",
    """\
%%tilekernel --no-compile
@triton.jit
def add(x_ptr, z_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)  # </script><img src=x onerror=alert(1)>
    tl.store(z_ptr + i, tl.load(x_ptr + i) + 1)
x = torch.arange(64.0)
add[(1,)](x, torch.zeros(64), BLOCK=64);""",
    f"""\
compiled = kernellab.compile(add, '*fp32', '*fp32', BLOCK=64, target='sm_90')
kernellab.show(dataclasses.replace(compiled, kernel={NASTY!r}))""",
    "%tilelayout add i",
    "%tilestep add[(1,)](x, torch.zeros(64), BLOCK=64)",
]
KINDS = {"ir": 2, "layout": 3, "steps": 4}
"""Kinds of views, and the numbers of their cells."""


def nbconvert(file: Path, *options: str) -> None:
    command = [sys.executable, "-m", "jupyter", "nbconvert", str(file), *options]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """The notebook as nbconvert executes and saves it: with the state of its widgets."""
    file = tmp_path_factory.mktemp("saved") / "views.ipynb"
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), file)
    nbconvert(file, "--execute", "--to", "notebook", "--inplace")
    executed: nbformat.NotebookNode = nbformat.read(file, as_version=4)
    return executed


@pytest.fixture(scope="module")
def saved(live: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same without that state, as JupyterLab saves it unless it is told otherwise."""
    plain = copy.deepcopy(live)
    assert plain.metadata.pop("widgets")
    return plain


def test_what_is_stored(saved: nbformat.NotebookNode) -> None:
    nbformat.validate(saved)
    for number in KINDS.values():
        still, widget = saved.cells[number].outputs
        assert set(still.data) == {"text/html", "text/plain"}
        assert set(widget.data) == {WIDGET, "text/plain"}
        for harm in ("<script", "</script", "<img src=x", "javascript:"):
            assert harm not in still.data["text/html"].lower()
    title = saved.cells[KINDS["ir"]].outputs[0].data
    assert "&lt;img src=x onerror=alert(1)&gt;" in title["text/html"]
    assert NASTY in title["text/plain"]


def test_the_state_of_widgets_holds_the_bundle_once(live: nbformat.NotebookNode) -> None:
    models = live.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    assert sum("source" in one["state"] for one in models) == 1
    assert sum(one["model_name"] == "AnyModel" for one in models) == len(KINDS)


@pytest.mark.parametrize("state", ["live", "saved"])
def test_a_page_of_nbconvert_shows_each_still_once(request, chromium, tmp_path, state: str) -> None:
    file = tmp_path / "views.ipynb"
    nbformat.write(request.getfixturevalue(state), file)
    nbconvert(file, "--to", "html")
    context = chromium.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(file.with_suffix(".html").as_uri())
        stills = page.locator(".kl-still")
        expect(stills).to_have_count(len(KINDS))
        for still in stills.all():
            expect(still).to_be_visible()
        expect(page.get_by_text("compiled for sm_90")).to_have_count(1)
        expect(page.locator('img[src="x"]')).to_have_count(0)
        hints = page.get_by_text("run the cell for the live view")
        expect(hints).to_have_count(len(KINDS) if state == "saved" else 0)
    finally:
        context.close()


JUPYTERS_OWN = ("widget model not found", "Cannot read properties of null (reading 'kernel')")
"""What Jupyter logs for each widget that it has no model of, and where a notebook has no kernel."""


def forgive_jupyter(shown: Watched) -> None:
    """Nothing else may have gone wrong."""
    others = [one for one in shown.problems if not any(own in one for own in JUPYTERS_OWN)]
    shown.problems.clear()
    assert not others, others


def outputs(page: Page, kind: str) -> Locator:
    return show_cell(page, KINDS[kind]).locator(".jp-OutputArea-child")


@pytest.mark.parametrize(
    ("front_end", "trusted", "kernel"),
    [("JupyterLab", True, False), ("JupyterLab", False, True), ("Notebook 7", True, True)],
)
def test_stills_show_before_anything_is_run(
    chromium: Browser,
    server: Jupyter,
    saved: nbformat.NotebookNode,
    front_end: str,
    trusted: bool,
    kernel: bool,
) -> None:
    notebook = copy.deepcopy(saved)
    # Jupyter also trusts a copy of what it trusts.
    notebook.metadata.title = f"{front_end}, {trusted}"
    name = server.save(notebook, trusted=trusted)
    with server.opened(chromium, name, front_end, kernel=kernel) as shown:
        for kind in KINDS:
            still, widget = outputs(shown.page, kind).all()
            expect(still.locator(".kl-still")).to_be_visible()
            # Of the widget nothing is left where Jupyter tries it,
            # and one line where it does not trust it.
            if trusted:
                expect(widget).to_be_hidden()
            else:
                expect(widget).to_contain_text("Run the cell for the live view")
        expect(shown.page.locator('img[src="x"]')).to_have_count(0)
        forgive_jupyter(shown)


def test_a_notebook_with_the_state_of_its_widgets_is_alive(chromium, server, live) -> None:
    with server.opened(chromium, server.save(copy.deepcopy(live))) as shown:
        for kind in KINDS:
            still, widget = outputs(shown.page, kind).all()
            expect(widget.locator(f".kl-{kind}[data-ready]")).to_be_visible()
            expect(still).to_be_hidden()
            expect(widget.locator(".kl-orphan")).to_contain_text("is gone")
        steps = shown.page.locator(".kl-steps")
        steps.press("End")
        expect(steps.locator('figure[data-name="z_ptr"]')).to_contain_text("1 .. 64")
        view = outputs(shown.page, "ir").locator(".kl-ir")
        expect(view.locator(".kl-head")).to_contain_text(NASTY)
        expect(view.locator(".kl-pane").first).to_contain_text("</script><img src=x")
