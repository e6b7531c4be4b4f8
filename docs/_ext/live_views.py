"""Pictures of views in the pages become the views themselves: pages of `tools/site_views.py`, made
when the site is built, in frames that load when they come into sight.

On GitHub, and in print, the picture stays.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

PLACES = {
    "docs/images/explorer.png": ("explorer", 740),
    "docs/images/layout.png": ("layout", 860),
    "docs/images/tuning_view.png": ("sweep", 820),
    "docs/images/stepper_live.png": ("stepper", 650),
}
"""Picture -> the view that takes its place, and how tall its frame is."""

FOLDER = "_views"

EMBEDDED = """<style>main > h1, main > p:has(#kernellab-theme) { display: none; }
body { padding: 0; } h2 { margin-top: 0; }
.kernellab-view :is(.kl-ir, .kl-tuning, .kl-graph) { height: calc(100vh - 2.5rem); }</style>
<script>
function follow(theme) { document.documentElement.dataset.klTheme = theme; }
follow(location.hash.slice(1));
addEventListener("message", (event) => { if (event.source === parent) follow(event.data.theme); });
</script>
</body>"""
"""Added to a page in a frame, so that it takes the theme of the page around it."""


def written_since(folder: Path, root: Path) -> bool:
    """Whether all pages are younger than the code that they come from."""
    code = [root / "tools/site_views.py", *(root / "kernellab").rglob("*.[pj][ys]")]
    changed = max(file.stat().st_mtime for file in code)
    pages = [folder / f"{name}.html" for name, _ in PLACES.values()]
    return all(page.exists() and page.stat().st_mtime > changed for page in pages)


def make_views(app: Sphinx) -> None:
    """Write the views' pages."""
    if app.builder.name != "html":
        return
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    if written_since(folder, Path(app.srcdir)):
        return
    from tools.site_views import write_views  # and with it torch and Triton

    for file in write_views(folder):
        file.write_text(file.read_text().replace("</body>", EMBEDDED))


def frame(name: str, height: int, words: str, up: str) -> str:
    """The frame's HTML; `up` leads to the site's root. docs/_static/site.js names its page, with
    the theme; where scripts are off, the link leads to it. In a sandbox a view has another origin
    than the site: what it scrolls to in itself does not scroll the page around it.
    """
    page = escape(f"{up}{FOLDER}/{name}.html")
    return f"""<figure class="live-view">
<iframe data-page="{page}" title="{escape(words)}" loading="lazy"
 sandbox="allow-scripts allow-popups" allow="fullscreen"
 style="height: {height}px"></iframe>
<figcaption>This is the view itself, at work without a kernel.
<a href="{page}">Open it as a page.</a></figcaption>
</figure>"""


HINT = "Run the cell for the live view."
"""The text that a widget shows in a saved notebook, below its still; a page cannot run it."""


def leave_hints_out(_app: Sphinx, doctree: nodes.document) -> None:
    """Take the hints out of notebooks' outputs."""
    for block in list(doctree.findall(nodes.literal_block)):
        if block.astext().strip() == HINT:
            block.parent.remove(block)


def place_views(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put frames where the pictures are."""
    if app.builder.name != "html":
        return
    up = "../" * docname.count("/")
    for image in list(doctree.findall(nodes.image)):
        if image["uri"] not in PLACES:
            continue
        html = frame(*PLACES[image["uri"]], image.get("alt", ""), up)
        image.replace_self(nodes.raw("", html, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", make_views)
    app.connect("doctree-read", leave_hints_out)
    app.connect("doctree-resolved", place_views)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
