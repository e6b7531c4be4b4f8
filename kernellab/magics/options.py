"""The options on a magic's line: one table of them serves the parser,
Tab completion and the help.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from kernellab.errors import KernelLabError, OptionError, SourcePosition, nearest

Position = Callable[[str], SourcePosition]
"""Returns the position of a word on the magic's line."""


_OPTION = re.compile(r"\s*(?P<flag>--[\w-]+)(?P<equals>=?)")
_VALUE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^\s"'])+""")
"""A word as the shell reads it, quotes included."""


def no_values() -> Iterable[str]:
    """An option whose values cannot be listed."""
    return ()


@dataclass(frozen=True)
class Option:
    """One option of a magic."""

    flag: str
    """ "--target"."""
    metavar: str
    """The value's name in the help; "" for an option that takes none."""
    help: str
    read: Callable[[str], Any] = str
    """Turns the value's text into the value; raises ValueError or KernelLabError with words
    for the user."""
    values: Callable[[], Iterable[str]] = no_values
    """The values that Tab offers."""
    repeated: bool = False
    """Whether the option may be given several times; its value is then a list."""

    @property
    def name(self) -> str:
        """The key of the parsed value: "num_warps" for "--num-warps"."""
        return self.flag.removeprefix("--").replace("-", "_")


class Options:
    """The options that one magic takes."""

    def __init__(self, magic: str, options: Iterable[Option], sigil: str = "%%") -> None:
        """`sigil` is "%" for a magic of one line."""
        self.name, self.sigil = magic, sigil
        self.magic = f"{sigil}{magic}"
        self.by_flag: Mapping[str, Option] = {option.flag: option for option in options}

    def parse(self, line: str, position: Position) -> dict[str, Any]:
        """The values by name: None for an option that was not given (False for one without a value,
        [] for a repeated one).

        Raises:
            OptionError: an unknown option, a missing or unreadable value, a stray word;
                points at the word.
            KernelLabError: what an option's `read` raises, pointed at the word.
        """
        given: dict[str, Any] = {
            option.name: [] if option.repeated else None if option.metavar else False
            for option in self.by_flag.values()
        }
        words = self._words(line, position)
        while words:
            self._take(words, given, position)
        return given

    def parse_leading(self, line: str, position: Position) -> tuple[dict[str, Any], str]:
        """As `parse`, for a line that goes on after its options; and what it goes on with.

        Raises:
            OptionError, KernelLabError: as `parse`.
        """
        rest = line.lstrip()
        taken = 0
        while (match := _OPTION.match(rest, taken)) is not None:
            option = self.by_flag.get(match["flag"])
            takes_value = option is not None and option.metavar and not match["equals"]
            value = _VALUE.match(rest, match.end()) if takes_value or match["equals"] else None
            taken = match.end() if value is None else value.end()
        return self.parse(rest[:taken], position), rest[taken:].strip()

    def _words(self, line: str, position: Position) -> list[str]:
        try:
            return shlex.split(line)
        except ValueError as error:
            raise OptionError(
                f"the options of {self.magic} cannot be read: {error}", position=position("")
            ) from None

    def _take(self, words: list[str], given: dict[str, Any], position: Position) -> None:
        """Take one option, and its value, from the front of `words`."""
        word = words.pop(0)
        flag, equals, text = word.partition("=")
        option = self.by_flag.get(flag)
        if option is None:
            self._refuse(flag if word.startswith("-") else word, position)
        if not option.metavar:
            if equals:
                raise OptionError(f"{flag} takes no value", position=position(word))
            given[option.name] = True
            return
        if not equals:
            if not words or words[0] in self.by_flag:
                raise OptionError(
                    f"{flag} needs a value: {flag} {option.metavar}", position=position(word)
                )
            text = words.pop(0)
        value = self._read(option, text, position)
        if option.repeated:
            given[option.name].append(value)
        else:
            given[option.name] = value

    def _refuse(self, word: str, position: Position) -> NoReturn:
        what = "option" if word.startswith("-") else "word"
        close = nearest(word if what == "option" else f"--{word}", self.by_flag)
        if "--constexpr" in self.by_flag and re.match(r"[^\W\d]\w*=", word):
            close = "Several constants go with commas between them: --constexpr BM=64,BN=32."
        known = f"{self.magic} knows {', '.join(self.by_flag)}; {self.magic}? explains them."
        raise OptionError(
            f"unknown {what} {word!r} on the line of {self.magic}",
            advice=f"{close}\n{known}" if close else known,
            position=position(word),
        )

    def _read(self, option: Option, text: str, position: Position) -> Any:
        try:
            return option.read(text)
        except KernelLabError as error:
            error.position = error.position or position(text)
            raise
        except ValueError as error:
            raise OptionError(f"{option.flag} {text}: {error}", position=position(text)) from None

    def words(self, line: str) -> list[str]:
        """Return completions of the magic's line, whose last word is incomplete."""
        words = line.split()[1:]
        fragment = "" if line[-1:].isspace() or not words else words.pop()
        flag, equals, beginning = fragment.partition("=")
        if not equals:
            flag, beginning = (words[-1] if words else ""), fragment
        option = self.by_flag.get(flag)
        if option is not None and option.metavar:
            beginning = beginning.rpartition(",")[2]
            return [value for value in option.values() if value.startswith(beginning)]
        free = [o for o in self.by_flag.values() if o.repeated or o.flag not in words]
        return [o.flag for o in free if o.flag.startswith(fragment)]

    def help(self) -> str:
        """The options as a list for a docstring."""
        lines = []
        for option in self.by_flag.values():
            lines.append(f"  {option.flag} {option.metavar}".rstrip())
            lines += textwrap.wrap(
                option.help, 88, initial_indent=" " * 6, subsequent_indent=" " * 6
            )
        return "\n".join(lines)


def stated(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return those of the named options that a line gives."""
    return {name: given[name] for name in names if given[name] is not None}
