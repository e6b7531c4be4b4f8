"""Views in Colab, as far as its own sources go: its widget manager, the theme, and the still."""

import base64

import pytest
from playwright.sync_api import Page, expect

import kernellab
from kernellab.viz.kit.data import SCRIPT, STYLE
from tests.support.layouts import blocked
from tests.support.notebook_session import WIDGET

pytestmark = pytest.mark.slow

MANAGER = "https://ssl.gstatic.com/colaboratory-static/widgets/manager.min.js"

STAND_IN = f"""\
import sys, types
enabled = []
output = types.ModuleType("google.colab.output")
output._widgets = types.SimpleNamespace(_installed_url=None)
def enable_custom_widget_manager():
    enabled.append(1)
    output._widgets._installed_url = {MANAGER!r}
output.enable_custom_widget_manager = enable_custom_widget_manager
for name in ("google", "google.colab"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["google.colab.output"] = output
sent = []
def keep(message):
    sent.append(message["content"])
    return message
get_ipython().display_pub.register_hook(keep)"""
"""What Colab's Python has of its support for widgets; what is displayed is kept."""

VIEW = blocked((8, 4), [1, 1], [8, 4], [1, 1], [1, 0])

PAGE = """\
<!doctype html><html theme="dark"><meta charset="utf-8"><script>globalThis.google = { colab: {} };</script>
<body><div id="output-body">
<div class="output">a text of the cell</div>
<div class="output"><div class="kl-still" id="first">another view's still</div></div>
<div class="output"><div class="kl-still" id="own">the still</div></div>
<div class="output" id="place"></div>
<div class="output"><div class="kl-still" id="later">a later view's still</div></div>
</div></body></html>"""

DRAW = """async ({ source, data }) => {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const views = (await import(address)).default;
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  const model = { get: (name) => (name === "data" ? new DataView(bytes.buffer) : undefined), on() {}, off() {}, send() {} };
  await views.render({ model, el: document.getElementById("place") }, null);
}"""


@pytest.fixture
def page(open_page, tmp_path):
    """A cell's outputs in Colab's dark theme; the reader's system is light."""
    file = tmp_path / "outputs.html"
    file.write_text(PAGE)
    data = base64.b64encode(kernellab.show(VIEW).packed_data()).decode()
    opened_page = open_page(file)
    opened_page.add_style_tag(content=STYLE)
    opened_page.evaluate(DRAW, {"source": SCRIPT, "data": data})
    return opened_page


def test_the_manager_for_widgets_is_enabled_and_named_in_the_output(notebook) -> None:
    """anywidget calls `enable_custom_widget_manager`, and a view passes on what that says."""
    lab = notebook(STAND_IN, "import kernellab")
    outcome = lab.run(
        "kernellab.show(kernellab.Layout.blocked(shape=(8,), size_per_thread=[1], "
        "threads_per_warp=[32], warps_per_cta=[1], order=[0]))"
    )
    assert outcome.still
    assert lab.ask("enabled") == "[1]"
    metadata = lab.ask(f"[one['metadata'].get({WIDGET!r}) for one in sent]")
    assert metadata == f"[None, {{'colab': {{'custom_widget_manager': {{'url': {MANAGER!r}}}}}}}]"


def test_the_theme_is_colabs(page: Page) -> None:
    view = page.locator(".kl-root[data-ready]")
    expect(view).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="dark")
    for light in (
        "document.documentElement.removeAttribute('theme')",
        "document.documentElement.setAttribute('theme', 'default')",
    ):
        page.evaluate(light)
        expect(view).to_have_attribute("data-theme", "light")
        page.evaluate("document.documentElement.setAttribute('theme', 'dark')")
        expect(view).to_have_attribute("data-theme", "dark")


def test_the_widget_hides_its_own_still(page: Page) -> None:
    expect(page.locator(".kl-root[data-ready]")).to_be_visible()
    expect(page.locator("#own")).to_be_hidden()
    expect(page.locator("#first")).to_be_visible()
    expect(page.locator("#later")).to_be_visible()
