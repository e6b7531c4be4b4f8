"""Pages as a browser reads them, and what a page or a widget is sent, read back in Python."""

import base64
import gzip
import itertools
import json
import re
from html.parser import HTMLParser
from typing import Any


class Reader(HTMLParser):
    """Collects what a browser would see: tags with attributes, and the text of each <pre>."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.preformatted: list[str] = []
        self._inside = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "pre":
            self._inside = True
            self.preformatted.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.preformatted[-1] += data


def assert_self_contained(page: str) -> None:
    """No script, nothing loaded from elsewhere: the page is all there is."""
    assert_loads_nothing(page)
    assert "script" not in {tag for tag, _ in Reader(page).tags}
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


VOID = {"input", "img", "br"}


class Page(HTMLParser):
    """The elements of a page, and its words; every tag must be closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def unpacked(data: bytes) -> Any:
    """The JSON of packed data; texts that travel as parts are under "loaded"."""
    count = int.from_bytes(data[:4], "little")
    sizes = [int.from_bytes(data[4 * n : 4 * n + 4], "little") for n in range(1, count + 1)]
    starts = list(itertools.accumulate(sizes, initial=4 * (count + 1)))
    assert starts[-1] == len(data)
    parts = [gzip.decompress(data[start:end]) for start, end in itertools.pairwise(starts)]
    found = json.loads(parts[0])
    for side in found.get("sides", ()):
        for text in side["texts"]:
            text["loaded"] = parts[text["part"]].decode() if text["part"] else None
    return found


class _Scripts(Reader):
    """Collects the text of each element that a page's script reads data from."""

    def __init__(self, page: str) -> None:
        self.data: list[str] = []
        self._in_data = False
        super().__init__(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        self._in_data = tag == "script" and (dict(attrs).get("id") or "").startswith(
            "kernellab-data"
        )

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        self._in_data = False

    def handle_data(self, data: str) -> None:
        super().handle_data(data)
        if self._in_data:
            self.data.append(data)


def views_in(page: str) -> list[Any]:
    return [unpacked(base64.b64decode(text)) for text in _Scripts(page).data]


def texts_of(view: Any) -> list[str]:
    return [
        text["content"] or text["loaded"] or "" for side in view["sides"] for text in side["texts"]
    ]


def assert_loads_nothing(page: str) -> None:
    """No element of the page asks for anything from elsewhere."""
    for tag, attributes in Reader(page).tags:
        assert tag not in {"link", "iframe", "img", "object", "embed", "base"}
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag} {name}=...> is a script"
            if name in ("src", "href", "xlink:href", "action", "data"):
                assert value is not None
                assert value.startswith("#"), f"<{tag} {name}={value!r}> loads something"
