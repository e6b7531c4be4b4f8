"""A detector that fails is told as that, and costs no finding of another."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from xdsl.ir import Operation

import kernellab
from kernellab.checker import check
from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.detectors import DETECTORS
from kernellab.checker.records import Findings
from kernellab.ir import mlir
from kernellab.viz.diagnostics import findings_card


@triton.jit
def beyond_and_infinite(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, 1.0 / x, mask=lanes < n)


def check_it() -> Findings:
    x = torch.ones(12)
    x[3] = 0.0
    return kernellab.check(beyond_and_infinite, (2,), x, torch.zeros(16), 12, BLOCK=8)


METHODS = (
    "concerns", "observes", "__init__", "meet", "outside_tensor", "before", "computed", "after",
    "end", "investigate", "explains", "findings",
)  # fmt: skip


def failing_in(method: str) -> type[Detector]:
    class Failing(Detector):
        kinds = ("doubt",)

        @classmethod
        def observes(cls, operation: Operation) -> bool:
            return isinstance(operation, mlir.DivFOp)

    def fail(*_given: Any, **_named: Any) -> Any:
        raise KeyError(f"nothing is called <{method}>")

    by_class = method in ("concerns", "observes")
    setattr(Failing, method, classmethod(fail) if by_class else fail)
    return Failing


@pytest.fixture(scope="module")
def expected() -> Findings:
    found = check_it()
    assert set(found.kinds) == {"out-of-bounds", "infinity"}
    assert not found.notes
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS)
def test_the_others_go_on(method, expected, monkeypatch, messages) -> None:
    monkeypatch.setattr(check, "DETECTORS", (failing_in(method), *DETECTORS))
    found = check_it()
    assert found.findings == expected.findings
    (note,) = found.notes
    assert f"'Failing' failed: KeyError: 'nothing is called <{method}>'" in note
    assert "test_failures.py:" in note
    assert note == messages
    assert note in str(found)
    assert "&lt;" in findings_card(found).html()


def test_where_nothing_else_is_found_the_note_is_shown(monkeypatch) -> None:
    monkeypatch.setattr(check, "DETECTORS", (failing_in("before"), *DETECTORS))
    found = kernellab.check(beyond_and_infinite, (2,), torch.ones(16), torch.zeros(16), 16, BLOCK=8)
    assert not found
    assert "'Failing' failed" in str(found)


def test_what_a_further_run_raises_is_a_note_too(monkeypatch) -> None:
    class Failing(Detector):
        kinds = ("doubt",)

        def investigate(self, session: Any) -> None:
            def observers(run: CheckedRun) -> tuple[Detector, ...]:
                return (failing_in("before")(run),)

            session.repeat(observers)

    monkeypatch.setattr(check, "DETECTORS", (*DETECTORS, Failing))
    found = check_it()
    assert set(found.kinds) == {"out-of-bounds", "infinity"}
    assert "nothing is called <before>" in found.notes[0]


@triton.jit
def adds_reciprocals(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + lanes, 1.0 / tl.load(x_ptr + lanes))


def test_an_infinite_number_goes_into_an_atomic_whose_result_is_unused() -> None:
    x = torch.tensor([1.0, 2.0, 0.0, 4.0])
    found = kernellab.check(adds_reciprocals, (1,), x, torch.zeros(4), BLOCK=4)
    (finding,) = found
    assert (finding.kind, finding.index, finding.lane) == ("infinity", (2,), (2,))
    assert not found.notes


CELL = """%%tilekernel
@triton.jit
def twice(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes) * 2.0)
"""

FAULT = """from kernellab.checker.detectors.updates import LaneCollision
def fail(self, access, found):
    raise IndexError("tuple index out of range")
LaneCollision.after = fail
"""


@pytest.mark.slow
def test_the_card_in_a_notebook_has_the_note(notebook) -> None:
    session = notebook()
    session.run("%load_ext kernellab\nimport torch, triton, triton.language as tl")
    assert not session.run(CELL).error
    session.run(FAULT)
    shown = session.run("%tilecheck twice[(2,)](torch.ones(12), torch.zeros(16), BLOCK=8)")
    for text in (shown.card["text/plain"], shown.card["text/html"]):
        assert "out-of-bounds" in text
        assert "LaneCollision" in text
        assert " failed: IndexError" in text
