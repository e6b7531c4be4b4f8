"""Self-contained pages that are alive: the bundle, the views' data,
and under them what a reader without scripts sees.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kernellab.viz.kit.bundle import SCRIPT, STYLE
from kernellab.viz.kit.data import as_json
from kernellab.viz.kit.report import Html, escape, join, page

if TYPE_CHECKING:
    from kernellab.viz.kit.view import View


@dataclass(frozen=True)
class Section:
    """A part of a page: words, and a view below them."""

    title: str
    """"" for a page that is the view alone, and for a further view of what is above."""
    view: View | None
    words: Sequence[Html]
    """What is shown between the title and the view."""


def page_of_views(title: str, sections: Sequence[Section], lead: Html | None = None) -> str:
    """A whole document: its views, which share one bundle."""
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
    contents = _contents(titled) if len(titled) >= _MOST_WITHOUT_CONTENTS else Html("")
    wide = Html("<style>body { max-width: none; }</style>")
    return page(title, lead or Html(""), [wide, _THEME, contents, *parts, *data, _bundle(), _START])


_MOST_WITHOUT_CONTENTS = 3
"""Parts of a page that is scrolled through without links to each."""


def _contents(titled: Sequence[tuple[int, str]]) -> Html:
    """Links to the parts of a long page."""
    links = (Html(f'<a href="#part-{number}">{escape(title)}</a>') for number, title in titled)
    return Html(f"<nav>{join(links, between=' · ')}</nav>")


def _section(number: int, section: Section, all_sections: Sequence[Section]) -> Html:
    heading = Html("")
    if section.title:
        heading = Html(f'<h2 id="part-{number}">{escape(section.title)}</h2>\n')
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
    """How the places in the page begin of the views that this one leads to, and the attributes that
    say so; "" and nothing for one that leads nowhere.
    """
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
