"""No attempt to fool the grader gets a grade that it does not deserve."""

from dataclasses import replace

import pytest
import torch

from kernellab.launch.results import Within
from kernellab.workshop.exercise import Exercise
from kernellab.workshop.launches import Case
from tests.workshop.attempts import ATTEMPTS, Attempt, add, answer_to

pytestmark = pytest.mark.usefixtures("clean_process")


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: one.name)
def test_it_is_rejected_for_its_reason(attempt: Attempt, tmp_path) -> None:
    marker = tmp_path / "marker"
    attempt = replace(attempt, cell=attempt.cell.replace("{marker}", str(marker)))
    answer = answer_to(attempt.exercise, attempt.cell)
    assert not answer.is_done, str(answer)
    assert not marker.exists()
    assert (answer.reached, answer.diagnostics[0].kind) == (attempt.reached, attempt.kind), str(
        answer
    )


def test_no_right_results_are_read_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a kernel that knows their address, which is the same for every launch here."""
    held = torch.zeros(1 << 20)
    right_results = Exercise.right_results

    def right_there(self: Exercise, case: Case) -> dict[str, Within]:
        right = right_results(self, case)["z_ptr"]
        held[: right.values.numel()] = right.values
        return {"z_ptr": replace(right, values=held[: right.values.numel()])}

    monkeypatch.setattr(Exercise, "right_results", right_there)
    place = f"offsets.to(tl.int64) * 4 + {held.data_ptr()}"
    stored = f"tl.load(({place}).to(tl.pointer_type(tl.float32)), mask=mask)"
    answer = answer_to("add", add(stored))
    assert (answer.reached, answer.diagnostics[0].kind) == ("compiles", "out-of-bounds")


def test_there_are_enough() -> None:
    assert len(ATTEMPTS) >= 40
    assert len({attempt.cell for attempt in ATTEMPTS}) == len(ATTEMPTS)
