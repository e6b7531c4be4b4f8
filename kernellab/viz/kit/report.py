"""Self-contained HTML pages: no network, no script; light or dark as the reader's system is.

Text that comes from a user or a compiler goes through `escape` on its way in;
what is already HTML has the type `Html`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import NewType

from kernellab.common.pandas_import import pandas

Html = NewType("Html", str)

STYLE = """
:root { color-scheme: light dark;
  --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --shade: #f5f7f9; --line: #d5dbe1; --good: #1a7f37; --bad: #cf222e; --accent: #0b62c4; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e3e8ed; --soft: #9aa5b1; --paper: #11151a; --shade: #1a2027; --line: #313a44; --good: #4cc26a; --bad: #ff7b72; --accent: #6cb2ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 60rem; }
.soft { color: var(--soft); }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; vertical-align: baseline; }
th { color: var(--soft); font-weight: 600; font-size: .85em; border-bottom-width: 2px; }
td.number, th.number { text-align: right; }
pre, code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: 12.5px; }
pre { margin: 0; padding: .9rem; max-height: 32rem; overflow: auto; background: var(--shade); line-height: 1.45; tab-size: 4; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; overflow: hidden; }
summary { padding: .45rem .9rem; cursor: pointer; }
summary:hover { background: var(--shade); }
summary code { font-weight: 600; color: var(--accent); font-size: 13.5px; } summary .soft { margin-left: .6rem; font-size: .9em; }
a { color: var(--accent); }
figure { margin: 1.25rem 0; } figure svg { max-width: 100%; height: auto; } figcaption { color: var(--soft); font-size: .9em; }
footer { margin-top: 3rem; color: var(--soft); font-size: .9em; }
"""


def escape(text: object) -> Html:
    """Return a text escaped for HTML, attributes included."""
    return Html(html.escape(str(text), quote=True))


def join(parts: Iterable[Html], between: str = "") -> Html:
    """Pieces of HTML, one after the other."""
    return Html(between.join(parts))


def page(title: str, lead: Html, body: Iterable[Html]) -> str:
    """A whole document: a title, the words under it, and the sections."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{lead}
{join(body, between=chr(10))}
</body>
</html>
"""


def table(rows: pandas.DataFrame) -> Html:
    """Return a DataFrame without its index as HTML. Numbers are aligned right, "pass" and "FAIL"
    have their colors.
    """
    numeric = {name: pandas.api.types.is_numeric_dtype(rows[name]) for name in rows.columns}
    head = join(
        Html(
            f'<th class="number">{escape(name)}</th>'
            if numeric[name]
            else f"<th>{escape(name)}</th>"
        )
        for name in rows.columns
    )
    lines = [
        join(_cell(value, numeric[name]) for name, value in zip(rows.columns, row, strict=True))
        for row in rows.itertuples(index=False, name=None)
    ]
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return Html(
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
        "<tbody>\n"
        f"{body}</tbody></table></div>"
    )


def format_number(value: object) -> str:
    """A number for a reader: three significant digits of a float, thousands apart in an integer."""
    if not isinstance(value, float):
        return f"{value:,}"
    if value == 0 or 1e-3 <= abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1e}"


def text_table(rows: pandas.DataFrame) -> str:
    """A DataFrame without its index, for a terminal, numbers as in `table`."""
    words = rows.map(
        lambda value: format_number(value) if isinstance(value, int | float) else str(value)
    )
    left = {name for name in rows.columns if not pandas.api.types.is_numeric_dtype(rows[name])}
    widths = {name: max(len(name), *(len(word) for word in words[name])) for name in rows.columns}
    lines = [dict(zip(rows.columns, rows.columns, strict=True)), *words.to_dict("records")]
    return "\n".join(
        "  ".join(
            line[name].ljust(widths[name]) if name in left else line[name].rjust(widths[name])
            for name in rows.columns
        ).rstrip()
        for line in lines
    )


def _cell(value: object, is_number: bool) -> Html:
    if value is None or value is pandas.NA or value != value:
        return Html('<td class="soft">&ndash;</td>')
    if is_number:
        return Html(f'<td class="number">{escape(format_number(value))}</td>')
    if value in ("pass", "FAIL"):
        return Html(f'<td class="{"good" if value == "pass" else "bad"}">{escape(value)}</td>')
    return Html(f"<td>{escape(value)}</td>")


def paragraph(text: object) -> Html:
    """Escaped words in a paragraph."""
    return Html(f'<p class="soft">{escape(text)}</p>')
