"""The IR explorer as a live view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernellab.errors import CompileError
from kernellab.records import Compilation
from kernellab.viz.explorer.annotations import annotated, annotations_from
from kernellab.viz.explorer.card import compilation_cards, failure_cards
from kernellab.viz.explorer.data import lightened
from kernellab.viz.explorer.sides import explore_compilation, explore_failure, failure_title
from kernellab.viz.kit.requests import Answer, Handler
from kernellab.viz.kit.view import View, view_of


class Explorer(View):
    """An IR explorer. Of a long compilation, texts of passes wait in the kernel until asked for."""

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {"text": self._text}

    def _text(self, request: Mapping[str, Any]) -> Answer:
        """A text that was left out."""
        try:
            return Answer({"text": self.data.sides[request["side"]].texts[request["text"]].content})
        except (LookupError, TypeError):
            return Answer({"problem": "the view has no such text"})

    def lightened(self, most_bytes: int) -> bytes:
        """The packed data, without the largest texts of passes where it would be more."""
        return lightened(self.data, most_bytes)


@view_of.register
def compilation_view(compilation: Compilation, *given: Any) -> Explorer:
    """The explorer of one compilation, with what is known besides:
    findings, accesses, profiles (`kernellab.viz.explorer.annotations`).

    Raises:
        ArgumentError: a value is not evidence, or belongs to another kernel or compilation.
        ProfileError: a profile is of other machine code.
    """
    annotations = annotations_from(compilation, given)
    return Explorer(
        f"{compilation.kernel} for {compilation.target}",
        lambda: annotated(explore_compilation(compilation), [annotations]),
        lambda: compilation_cards(compilation, annotations),
    )


@view_of.register
def failure_view(error: CompileError) -> Explorer:
    """The explorer of a compilation that failed: up to the pass that did."""
    return Explorer(
        failure_title(error), lambda: explore_failure(error), lambda: failure_cards(error)
    )
