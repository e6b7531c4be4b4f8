"""What the site's directives share: Markdown that is made here goes through the page's parser."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


class MarkdownDirective(SphinxDirective):
    """A directive that stands for Markdown, which `markdown` writes."""

    def markdown(self) -> str:
        """The text in its place."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """The nodes of that text."""
        place = nodes.Element()
        lines = self.markdown().split("\n")
        self.state.nested_parse(StringList(lines, source=""), self.content_offset, place)
        return place.children


def escaped(text: str) -> str:
    """Prose whose stars, angle brackets and dollars stand for themselves; `code` stays."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([*<$|])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def fenced(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.strip(chr(10))}\n```\n"
