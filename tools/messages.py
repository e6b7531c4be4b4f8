"""List the messages of the package's errors, to review their words: python -m tools.messages

A line has the place, the error's class, and the words; what an f-string inserts is in braces.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Message:
    """One message in the source.

    Attributes:
        place: the file, from the repository's root, and the line.
        error: the name of the error's class.
        is_advice: whether it says what to do; else it says what is wrong.
        words: the text.
    """

    place: str
    error: str
    is_advice: bool
    words: str

    @property
    def ends_well(self) -> bool:
        """Whether it ends with a period, a value, or, after a colon, with code."""
        words = self.words.rstrip()
        return words.endswith((".", "?", ":", "}")) or ": " in words.rpartition(". ")[2]

    def __str__(self) -> str:
        return f"{self.place}: {self.error}: {self.words}"


def messages() -> Iterator[Message]:
    """Yield every message of an error that the package's code raises."""
    for file in sorted((ROOT / "kernellab").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (error := _error_of(node.func)):
                place = f"{file.relative_to(ROOT)}:{node.lineno}"
                for expression, is_advice in _texts_of(node):
                    if words := _words(expression):
                        yield Message(place, error, is_advice, words)


def _error_of(function: ast.expr) -> str:
    """The class of an error that a call makes; "" for another call."""
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name if name.endswith("Error") or name in _OTHER_ERRORS else ""


_OTHER_ERRORS = {
    "BadFile",
    "MissingArguments",
    "NotRecorded",
    "SchemaError",
    "UnsupportedOperation",
}


def _texts_of(call: ast.Call) -> Iterator[tuple[ast.expr, bool]]:
    if call.args:
        yield call.args[0], False
    for keyword in call.keywords:
        if keyword.arg == "advice":
            yield keyword.value, True


def _words(expression: ast.expr) -> str:
    """The text of a literal, of an f-string, or of the sum of such; "" for other expressions."""
    match expression:
        case ast.Constant(value=str(words)):
            return words
        case ast.JoinedStr(values=parts):
            return "".join(
                _words(part) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in parts
                if isinstance(part, ast.Constant | ast.FormattedValue)
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _words(left) + _words(right)
    return ""


if __name__ == "__main__":
    print(*messages(), sep="\n")
