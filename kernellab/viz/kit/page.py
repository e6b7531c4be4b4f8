"""Self-contained HTML pages, with and without live views: no network; light or dark as the reader's
system is.

Text that comes from a user or a compiler goes through `escape` on its way in; what is already HTML
has the type `Html`.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NewType

from kernellab.viz.kit.data import SCRIPT, STYLE, as_json

if TYPE_CHECKING:
    from kernellab.viz.kit.view import View

Html = NewType("Html", str)

PAGE_STYLE = """
:root { color-scheme: light dark;
  --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --shade: #f5f7f9; --line: #d5dbe1; --good: #1a7f37; --bad: #cf222e; --accent: #0b62c4; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e3e8ed; --soft: #9aa5b1; --paper: #11151a; --shade: #1a2027; --line: #313a44; --good: #4cc26a; --bad: #ff7b72; --accent: #6cb2ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 60rem; }
.soft { color: var(--soft); }
.bad { color: var(--bad); font-weight: 600; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; vertical-align: baseline; }
th { color: var(--soft); font-weight: 600; font-size: .85em; border-bottom-width: 2px; white-space: normal; vertical-align: bottom; }
@media (max-width: 1100px) { th, td { padding: .3rem .45rem; } }
pre, code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: 12.5px; }
pre { margin: 0; padding: .9rem; max-height: 32rem; overflow: auto; background: var(--shade); line-height: 1.45; tab-size: 4; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; overflow: hidden; }
summary { padding: .45rem .9rem; cursor: pointer; }
summary:hover { background: var(--shade); }
summary code { font-weight: 600; color: var(--accent); font-size: 13.5px; } summary .soft { margin-left: .6rem; font-size: .9em; }
a { color: var(--accent); }
figure { margin: 1.25rem 0; } figure svg { width: 100%; max-width: 46rem; height: auto; } figcaption { color: var(--soft); font-size: .9em; }
footer { margin-top: 3rem; color: var(--soft); font-size: .9em; }
"""


def escape(text: object) -> Html:
    """Return a text escaped for HTML, attributes included."""
    return Html(html.escape(str(text), quote=True))


def join(parts: Iterable[Html], between: str = "") -> Html:
    """Pieces of HTML, one after the other."""
    return Html(between.join(parts))


def page(title: str, lead: Html, body: Iterable[Html]) -> str:
    """Return an HTML document: a title, the words under it, and the sections."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{PAGE_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{lead}
{join(body, between=chr(10))}
</main>
</body>
</html>
"""


def format_number(value: object) -> str:
    """Format a number: three significant digits of a float, an integer with separators."""
    if not isinstance(value, float):
        return f"{value:,}"
    if value == 0 or 1e-3 <= abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1e}"


def paragraph(text: object) -> Html:
    """Escaped words in a paragraph."""
    return Html(f'<p class="soft">{escape(text)}</p>')


@dataclass(frozen=True)
class Section:
    """A part of a page: words, and a view below them."""

    title: str
    """"" for a page that is the view alone, and for a further view of what is above."""
    view: View | None
    words: Sequence[Html]
    """The text between the title and the view."""


def page_of_views(title: str, sections: Sequence[Section], lead: Html | None = None) -> str:
    """Return an HTML document of several views, which share one bundle."""
    parts = [_section(number, section, sections) for number, section in enumerate(sections)]
    data = [
        Html(
            '<script type="text/plain" '
            f'id="kernellab-data-{number}">{_base64(section.view.packed_data())}</script>'
        )
        for number, section in enumerate(sections)
        if section.view is not None
    ]
    titled = [(number, section.title) for number, section in enumerate(sections) if section.title]
    contents = Html("")
    if len(titled) >= _MOST_WITHOUT_CONTENTS:
        links = (Html(f'<a href="#part-{number}">{escape(name)}</a>') for number, name in titled)
        contents = Html(f"<nav>{join(links, between=' · ')}</nav>")
    # A view that is alone has its title itself.
    hidden = "" if titled else "h1 { position: absolute; clip-path: inset(50%); }"
    wide = Html(f"<style>body {{ max-width: none; }} {hidden}</style>")
    return page(title, lead or Html(""), [wide, _THEME, contents, *parts, *data, _bundle(), _START])


_MOST_WITHOUT_CONTENTS = 3
"""Parts of a page that is scrolled through without links to each."""


def _section(number: int, section: Section, all_sections: Sequence[Section]) -> Html:
    heading = f'<h2 id="part-{number}">{escape(section.title)}</h2>\n' if section.title else ""
    if section.view is None:
        return Html(f"<section>\n{heading}{join(section.words)}</section>")
    views = [section.view for section in all_sections if section.view is not None]
    group, tabs = _beside(section.view, views)
    place = Html(f' id="{group}{escape(section.view.tab_id)}"') if group else Html("")
    return Html(
        f"<section{place}>\n{heading}{join(section.words)}"
        '<div class="kernellab-view" '
        f'data-view="{number}"{tabs}><noscript>{section.view.still_html()}</noscript></div>\n'
        "</section>"
    )


def _beside(view: View, views: Sequence[View]) -> tuple[str, Html]:
    """The prefix of the places that this view leads to, and their attributes; "" for none."""
    if view.tab_group is None:
        return "", Html("")
    group = [other for other in views if other.tab_group is view.tab_group]
    there = {view.tab_id for view in group}
    tabs = [tab for tab in view.tab_group.tabs if tab.id in there]
    name = f"kernellab-{views.index(group[0])}-"
    words = escape(json.dumps(as_json(tabs)))
    attributes = f' data-tab="{escape(view.tab_id)}" data-group="{name}" data-tabs="{words}"'
    return name, Html(attributes)


@cache
def _bundle() -> Html:
    packed = gzip.compress(SCRIPT.encode(), mtime=0)
    return Html(
        f"<style>{STYLE}\n.kernellab-view :is(.kl-ir, .kl-tuning, .kl-graph) {{ height: 85vh; }}</style>\n"
        f'<script type="text/plain" id="kernellab-bundle">{_base64(packed)}</script>'
    )


def _base64(content: bytes) -> str:
    """Letters that cannot end a script element, whatever the content is."""
    return base64.b64encode(content).decode("ascii")


_THEME = Html("""<p><label class="soft">Theme
<select id="kernellab-theme"><option value="">as the system</option><option value="light">light</option><option value="dark">dark</option></select></label></p>
<style>
:root[data-kl-theme="light"] { color-scheme: light; --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --shade: #f5f7f9; --line: #d5dbe1; --accent: #0b62c4; }
:root[data-kl-theme="dark"] { color-scheme: dark; --ink: #e3e8ed; --soft: #9aa5b1; --paper: #11151a; --shade: #1a2027; --line: #313a44; --accent: #6cb2ff; }
</style>""")

_START = Html("""<script type="module">
const bytes = (id) => Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
const stream = new Blob([bytes("kernellab-bundle")]).stream().pipeThrough(new DecompressionStream("gzip"));
const script = new Blob([await new Response(stream).text()], { type: "text/javascript" });
const address = URL.createObjectURL(script);
const views = (await import(address)).default;
URL.revokeObjectURL(address);
for (const place of document.querySelectorAll("[data-view]")) {
  const { view, tab, group, tabs } = place.dataset;
  await views.mountPacked(place, bytes(`kernellab-data-${view}`), tab, group, tabs && JSON.parse(tabs));
}
document.getElementById("kernellab-theme").addEventListener("change", (event) => {
  document.documentElement.dataset.klTheme = event.target.value;
});
</script>""")
