"""The docs site, as `make docs` builds it: no warnings, no dead links, nothing from elsewhere."""

import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import kernellab
from tests.support.source_files import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("myst_nb") is None, reason="needs the extra docs"),
]

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

LOADED = {"img": "src", "script": "src", "iframe": "data-page", "source": "src", "embed": "src"}
"""Element -> the attribute that names what a browser loads by itself."""


@dataclass
class Page(HTMLParser):
    """What a page links to, loads, and offers as places to link to."""

    file: Path
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.places |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if said.get("rel") in ("stylesheet", "icon", "preload", "prefetch"):
            self.loaded.append(said["href"])
        if LOADED.get(tag, "") in said:
            self.loaded.append(said[LOADED[tag]])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The site, built once, and what Sphinx said."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fail-on-warning", "--keep-going", "-c", "docs"]
    ran = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ".", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return folder, ran.stderr if ran.returncode else ""


@pytest.fixture(scope="module")
def site(built: tuple[Path, str]) -> Path:
    assert (built[0] / "index.html").is_file(), built[1]
    return built[0]


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html")}


def outside(address: str) -> bool:
    return re.match(r"(https?:)?//", address) is not None


@pytest.mark.slow
def test_it_is_built_without_a_warning(built) -> None:
    assert not built[1], built[1]


@pytest.mark.slow
def test_every_link_leads_somewhere(site, pages) -> None:
    dead = []
    for page in pages.values():
        for link in [*page.links, *page.loaded]:
            if outside(link) or link.startswith(("mailto:", "data:")):
                continue
            path, _, place = unquote(re.sub(r"\?[^#]*", "", link)).partition("#")
            target = page.file if not path else (page.file.parent / path).resolve()
            leads = target.is_file() and (not place or target not in pages)
            if not leads and place not in getattr(pages.get(target), "places", ()):
                dead.append(f"{page.file.relative_to(site)} -> {link}")
    assert not dead, "\n".join(dead)


def test_nothing_is_loaded_from_elsewhere(site, pages) -> None:
    asked = [
        f"{page.file.relative_to(site)}: {one}"
        for page in pages.values()
        for one in page.loaded
        if outside(one)
    ]
    for sheet in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text())
        asked += [f"{sheet.relative_to(site)}: {one}" for one in found]
    assert not asked, "\n".join(asked)


def test_the_search_knows_the_notebooks(site) -> None:
    text = (site / "searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    named = index["docnames"]
    assert {f"notebooks/{one.stem}" for one in NOTEBOOKS} <= set(named)
    assert any(named[one].startswith("notebooks/") for one in index["terms"]["softmax"])


def test_every_public_name_has_its_place(site, pages) -> None:
    places = set().union(*(page.places for file, page in pages.items() if "reference" in str(file)))
    missing = {name for name in kernellab.__all__ if f"kernellab.{name}" not in places}
    assert missing == {"__version__"}


def test_every_magic_and_command_has_its_section() -> None:
    from kernellab.cli.main import COMMANDS
    from kernellab.magics import _all_magics

    pages = {
        name: (ROOT / f"docs/reference/{name}.md").read_text()
        for name in ("magics", "command_line")
    }
    for magic in _all_magics():
        assert f"```{{magic}} {magic.magic}\n" in pages["magics"]
    for command in COMMANDS:
        assert f"```{{command}} kernellab {command}\n" in pages["command_line"]


def test_every_notebook_has_its_row(site, pages) -> None:
    links = pages[site / "docs/course.html"].links
    for notebook in NOTEBOOKS:
        assert f"../notebooks/{notebook.stem}.html" in links


def test_views_are_in_the_pages(site, pages) -> None:
    shown = {Path(one).name for page in pages.values() for one in page.loaded if "_views/" in one}
    assert shown == {"explorer.html", "stepper.html", "layout.html", "sweep.html"}
    for name in shown:
        page = (site / "_views" / name).read_text()
        assert 'id="kernellab-data-0"' in page
        assert "function follow(theme)" in page  # the theme of the page around it


def test_notebooks_do_not_ask_to_be_run(site) -> None:
    for page in (site / "notebooks").glob("*.html"):
        assert "Run the cell for the live view" not in page.read_text(), page.name


def test_formulas_are_drawn(site) -> None:
    page = (site / "notebooks/09_layer_norm.html").read_text()
    assert page.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') == 2
    assert "$$" not in page
