"""Find words that the project's documentation and messages do not use.

`python -m tests.project.language PATH ...` prints every place in the given files and folders, and
`test_language.py` checks that there are none. The rules are in CONTRIBUTING.md, "Language".
"""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.source_files import tree_of

ROOT = Path(__file__).parents[2]

REPLACEMENTS = {
    r"mend(s|ed|ing)?": "fix",
    r"rooms?": "package, module, tab, or space",
    r"doors?": "entry point, link, or tab",
    r"houses?": "project, or container",
    r"tells?|told|telling": "report, show, say, or distinguish",
    r"nobody|nobody's": "no one, or nothing",
    r"(?<!\bstand-)(stands?|stood|standing)(?!-in\b| in for\b| for\b|alone)": "is",
    r"lack(s|ed|ing)?": "is missing, or has no",
    r"of (its|their|your|our|his|her|my|one's) own": "its own, or separate",
    r"ask(s|ed)?(?! for\b)": "request, query, call, or pass",
    r"(?<!there )(is|are|was|were) no (?!(longer|more|less|fewer|later|earlier|larger|smaller"
    r"|better|worse|faster|slower|greater|higher|lower|wider|deeper|cheaper)\b)": "is not a",
    r"sane": "valid",
    r"matrix products?": "matmul",
    r"\w*(colour|neighbour|behaviour|flavour|honour|favour)\w*": "the American spelling",
    r"\w*(special|optim|initial|normal|quant|summar|maxim|minim|vector|canonical|recogn|organ|serial"
    r"|parallel|visual|synchron|general)is(e|ed|es|er|ing|ation|ations)": "the American spelling",
    r"analyse[dr]?|analysing|labelled|modelled|licence|grey|centred?|towards|spelt|catalogue"
    r"|artefacts?|judgement": "the American spelling",
}
"""Regular expression over whole words -> what to write instead."""

WORDS = re.compile(
    "|".join(rf"(?P<w{n}>\b(?:{words})\b)" for n, words in enumerate(REPLACEMENTS)), re.IGNORECASE
)

SINGLE = re.compile(
    "|".join(
        f"(?:{words})" for words in REPLACEMENTS if " own" not in words and " no " not in words
    ),
    re.IGNORECASE,
)
PHRASE = re.compile(r"of \w+('s)? own\b|\b(is|are|was|were) no \b|\bmatrix product", re.IGNORECASE)

VAGUE_NAMES = {"one", "found", "told", "asked", "nobody", "mend", "door", "room"}
"""Names of variables that say nothing about the value."""

BOUND = re.compile(rf"\b(?:{'|'.join(VAGUE_NAMES)})\s*(?:[=:,)\]]|in\b|[-+*/%|&^@<>]+=)")
"""Where such a name may be bound; parsing a file to know takes long."""


class Place(NamedTuple):
    """One use of a word that the project does not use."""

    file: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text!r}: write {self.instead}"


@cache
def is_listed(word: str) -> bool:
    """Return whether a word alone is one that the project does not use."""
    return SINGLE.fullmatch(word) is not None


def may_have_places(source: str) -> bool:
    """Return whether `WORDS` may be in a text; it takes ten times as long to look for them."""
    words = set(re.findall(r"\w+", source.lower()))
    return any(map(is_listed, words)) or PHRASE.search(source) is not None


def places_in(file: Path) -> Iterator[Place]:
    """Yield every use in one file, in the order of its lines."""
    name = file.relative_to(ROOT).as_posix()
    source = file.read_text(encoding="utf-8")
    if file.suffix == ".py" and BOUND.search(source):
        yield from (
            Place(name, line, bound, "a name that says what the value is")
            for bound, line in _vague_names(file)
        )
    # Tokenizing takes longest, and a text of a line has a word only where the line has it.
    lines = () if file.suffix == ".ipynb" else filter(may_have_places, source.splitlines())
    if file.suffix != ".ipynb" and not any(map(WORDS.search, lines)):
        return
    if file.suffix == ".py":
        texts = _python_texts(source)
    elif file.suffix == ".ipynb":
        texts = _notebook_texts(source)
    else:
        texts = enumerate(source.splitlines(), 1)
    for line, text in texts:
        for match in WORDS.finditer(text) if may_have_places(text) else ():
            number = int((match.lastgroup or "w0")[1:])
            yield Place(name, line, match.group(), list(REPLACEMENTS.values())[number])


def _python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and string literals of Python code, line by line."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in kinds:
            for number, text in enumerate(token.string.splitlines()):
                yield token.start[0] + number, text


def _vague_names(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the variables and parameters that have a vague name, each with its line."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Name) and node.id in VAGUE_NAMES:
            if isinstance(node.ctx, ast.Store):
                yield node.id, node.lineno
        elif isinstance(node, ast.arg) and node.arg in VAGUE_NAMES:
            yield node.arg, node.lineno


def _notebook_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the cells' lines and their text outputs; the number is the cell's, counted from 0."""
    for number, cell in enumerate(json.loads(source)["cells"]):
        for line in cell["source"]:
            yield number, line
        for output in cell.get("outputs", ()):
            plain = output.get("data", {}).get("text/plain", output.get("text", ()))
            for line in plain:
                yield number, line


def files_in(*paths: str) -> list[Path]:
    """Return the tracked files below the paths that people read."""
    listed = subprocess.run(
        ["git", "ls-files", *(paths or ("kernellab", "docs", "notebooks", "*.md", "js/src"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    suffixes = {".py", ".md", ".ipynb", ".toml", ".ts"}
    names = (ROOT / name for name in listed if "static/" not in name)
    return [file for file in names if file.suffix in suffixes and file.exists()]


if __name__ == "__main__":
    for file in files_in(*sys.argv[1:]):
        for place in places_in(file):
            print(place)
