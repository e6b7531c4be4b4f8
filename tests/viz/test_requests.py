"""What a live view asks the kernel, and what comes back."""

from collections.abc import Mapping
from typing import Any

import pytest

from kernellab.errors import ArgumentError
from kernellab.viz.explorer import compilation_view
from kernellab.viz.kit.data import SCRIPT, STYLE, Answer, answer
from kernellab.viz.kit.widget import ViewWidget
from tests.support.compiled import of_corpus


def double(asked: Mapping[str, Any]) -> Answer:
    if asked["number"] < 0:
        raise ArgumentError("a negative number", advice="Take another.")
    return Answer({"twice": 2 * asked["number"]}, [bytes(asked["number"])])


@pytest.fixture
def told(monkeypatch):
    """A widget that also doubles numbers, asked directly; what it sends is collected."""
    view = compilation_view(of_corpus("vector_add", "sm_90"))
    widget = ViewWidget(view.packed_data(), {**view.handlers, "double": double})
    sent: list[tuple[Any, Any]] = []
    monkeypatch.setattr(
        widget, "send", lambda content, buffers=None: sent.append((content, buffers))
    )

    def tell(message: Any) -> list[tuple[Any, Any]]:
        sent.clear()
        widget._answer(widget, message, [])
        return list(sent)

    return tell


def test_a_request_is_heard_and_answered_by_its_own_handler(told) -> None:
    heard, (content, buffers) = told({"kind": "double", "request": 7, "number": 4})
    assert heard == ({"kind": "heard", "request": 7}, None)
    assert content == {"kind": "double", "request": 7, "twice": 8}
    assert buffers == [bytes(4)]


def test_a_text_that_was_left_out_is_sent(told, messages) -> None:
    view = compilation_view(of_corpus("vector_add", "sm_90")).data
    _, (content, _) = told({"kind": "text", "request": 1, "side": 0, "text": 1})
    assert content["text"] == view.sides[0].texts[1].content
    _, (content, _) = told({"kind": "text", "request": 2, "side": 3, "text": 1})
    assert content["problem"] == messages


def test_the_bundle_is_sent_where_a_front_end_has_no_model_of_it(told) -> None:
    _, (content, _) = told({"kind": "bundle", "request": 3})
    assert content == {"kind": "bundle", "request": 3, "source": SCRIPT, "style": STYLE}


def test_a_problem_goes_back_in_words_and_other_messages_are_let_alone(told) -> None:
    _, (content, _) = told({"kind": "double", "request": 1, "number": -1})
    assert "a negative number" in content["problem"]
    assert "Take another." in content["problem"]
    _, (content, _) = told({"kind": "double", "request": 2})
    assert content["problem"] == "KeyError: 'number'"
    assert told({"kind": "unheard of", "request": 3}) == []
    assert told("double") == []


def test_the_page_that_is_sent_is_the_one_that_is_written(tmp_path) -> None:
    view = compilation_view(of_corpus("vector_add", "sm_90"))
    sent: Any = answer(view.all_handlers, {"kind": "page"})
    assert sent.buffers == [view.to_html(tmp_path / "view.html").read_bytes()]
