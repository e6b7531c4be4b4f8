"""The words of messages, docstrings, pages and notebooks: CONTRIBUTING.md, "Language"."""

import pytest

from tests.project import language
from tools import messages

pytestmark = pytest.mark.skipif(not (language.ROOT / ".git").exists(), reason="not a git checkout")

PACKAGES = sorted(file.parent.name for file in language.ROOT.glob("kernellab/*/__init__.py"))
READ = (
    "docs", "notebooks", "*.md", ":(glob)kernellab/*.py",
    *(f"kernellab/{name}/" for name in PACKAGES),
)  # fmt: skip
"""What people read; js/src and tests are not checked."""


@pytest.mark.parametrize("read", READ)
def test_no_page_message_or_name_has_a_word_of_the_list(read) -> None:
    files = language.files_in(read)
    assert files
    places = [str(place) for file in files for place in language.places_in(file)]
    assert not places, "\n".join(places)


@pytest.mark.parametrize(
    ("suffix", "text", "words"),
    [
        (".md", "Nobody asked the mends.", ["Nobody", "asked", "mends"]),
        (".md", "A list is no number, there is no list, and it is no longer used.", ["is no "]),
        (".py", "def f(x):\n    # it lacks a room\n    found = x\n", ["found", "lacks", "room"]),
        (".py", 'MESSAGE = f"{x} stands for {y}, and colours stand"\n', ["colours", "stand"]),
        (".ipynb", '{"cells": [{"source": ["initialise"], "outputs": []}]}', ["initialise"]),
    ],
)
def test_the_list_finds_words(suffix, text, words, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(language, "ROOT", tmp_path)
    file = tmp_path / f"text{suffix}"
    file.write_text(text)
    assert [place.text for place in language.places_in(file)] == words


@pytest.mark.slow
def test_advice_ends_as_sentences_do() -> None:
    """Every message can be listed for review: `python -m tools.messages`."""
    listed = list(messages.messages())
    assert len(listed) > 700
    wrong = [str(message) for message in listed if message.is_advice and not message.ends_well]
    assert not wrong, "\n".join(wrong)
