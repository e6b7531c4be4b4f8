"""The docs site (`make docs`): Sphinx over the repository's root, so that a link from one file to
another is the same on GitHub and in the site. The site's own extensions are in docs/_ext.
"""

import sys
from pathlib import Path

from myst_nb import sphinx_ext
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs/_ext")]

project = "KernelLab"
extensions = ["myst_nb", "course", "reference", "live_views", "diagrams", "formulas"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "notebooks/*.ipynb", "CONTRIBUTING.md", "CHANGELOG.md"]
# Folders that hold no page are not walked: .venv and js/node_modules are large.
exclude_patterns = [
    entry.name
    for entry in ROOT.iterdir()
    if entry.is_dir() and entry.name not in ("docs", "notebooks")
]

# Notebooks are shown as they were saved, with their stills: a widget would need its scripts from a
# server, and has nothing to talk to.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_number_source_lines = False
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"  # MathJax is a script from elsewhere

suppress_warnings = ["misc.highlighting_failure"]  # a traceback whose message has backticks
html_theme = "furo"
html_title = "KernelLab"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_search_scorer = str(ROOT / "docs/_static/scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 90
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


FRONT_PAGE = """<!doctype html>
<meta charset="utf-8"><title>KernelLab</title>
<meta http-equiv="refresh" content="0; url=docs/index.html">
<a href="docs/index.html">KernelLab</a>
"""


def write_front_page(app: Sphinx, error: Exception | None) -> None:
    """The site's own index leads to that of the pages."""
    if error is None and app.builder.name == "html":
        Path(app.outdir, "index.html").write_text(FRONT_PAGE)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    # Pictures of notebooks are kept on their way into the site: there, and not beside it.
    sphinx_ext.OUTPUT_FOLDER = str(Path(app.outdir, ".notebooks"))
    app.connect("build-finished", write_front_page)
