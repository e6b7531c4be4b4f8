"""What max-autotune would choose from: each template of Inductor's in each config; torch's own
operation. Nothing is timed: the first template is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch._inductor.select_algorithm

from kernellab.common.patches import replaced
from kernellab.records.graphs import Candidate

_selection: Any = torch._inductor.select_algorithm


@contextmanager
def candidates_noted(candidates: list[Candidate]) -> Iterator[None]:
    """While active, what Inductor would time is added to `found`, and the first template
    is taken; where there is none, the first.
    """
    original = _selection.AlgorithmSelectorCache.__call__

    def choose(cache: Any, name: str, choices: Sequence[Any], *args: Any, **keywords: Any) -> Any:
        if not choices:
            return original(cache, name, choices, *args, **keywords)
        taken = next((choice for choice in choices if _is_template(choice)), choices[0])
        place = len({candidate.place for candidate in candidates})
        candidates.extend(_candidate(name, place, choice, choice is taken) for choice in choices)
        return original(cache, name, [taken], *args, **keywords)

    with replaced(_selection.AlgorithmSelectorCache, __call__=choose):
        yield


def _is_template(choice: Any) -> bool:
    return isinstance(choice, _selection.TritonTemplateCaller)


def _candidate(operation: str, place: int, choice: Any, is_taken: bool) -> Candidate:
    request = choice.bmreq if _is_template(choice) else None
    return Candidate(
        operation=operation,
        place=place,
        name=str(getattr(request, "kernel_name", None) or choice.name),
        config=_text(lambda: choice.description) or _text(choice.call_name),
        is_template=request is not None,
        is_taken=is_taken,
        source=Path(request.module_path).read_text(encoding="utf-8") if request else "",
    )


def _text(read: Callable[[], Any]) -> str:
    """What a choice says of itself, in a line; "" where it says nothing."""
    try:
        return " ".join(str(read() or "").split())
    except (AttributeError, NotImplementedError):
        return ""
