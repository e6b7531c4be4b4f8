"""What is said of a kernel, a launch or this machine: one class, one JSON, one card."""

import functools
import inspect
import json
import math
import pickle
from typing import Any

import jsonschema
import numpy
import pytest
import torch

import kernellab
from kernellab import errors
from kernellab.checker.records import Finding
from kernellab.cli.doctor import DoctorLine
from kernellab.compiler.records import Remark
from kernellab.compiler.remarks import explained
from kernellab.errors import Diagnostic, KernelLabError, OutOfBounds, SourcePosition, WaitingProgram
from kernellab.viz.diagnostics import diagnostic_card, diagnostics_card
from kernellab.viz.kit.view import card_of
from tests.kernels import forms
from tests.kernels.interp import faults

PLACE = SourcePosition("/nowhere/k.py", 12, 5)
CALL = SourcePosition("/nowhere/k.py", 30, 9)

POSITION = {
    "type": "object",
    "required": ["file", "line", "column"],
    "additionalProperties": False,
    "properties": {"file": {"type": "string"}, "line": {"type": "integer", "minimum": 1},
        "column": {"type": "integer", "minimum": 0}},
}  # fmt: skip
CHANGE = {
    "type": "object",
    "required": ["line", "old", "new"],
    "additionalProperties": False,
    "properties": {"line": {"type": "integer", "minimum": 1}, "old": {"type": "string"},
        "new": {"type": "string"}},
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        "severity", "kind", "what", "position", "called_from", "why", "advice", "facts", "changes",
        "verified",
    ],
    "properties": {
        "severity": {"enum": ["error", "warning", "remark", "note"]},
        "kind": {"type": "string", "minLength": 1},
        "what": {"type": "string", "minLength": 1},
        "position": {"oneOf": [{"type": "null"}, POSITION]},
        "called_from": {"type": "array", "items": POSITION},
        "why": {"type": "string"},
        "advice": {"type": "string"},
        "facts": {"type": "object"},
        "changes": {"type": "array", "items": CHANGE},
        "verified": {"type": "boolean"},
    },
}  # fmt: skip
"""The table of docs/analyses.md."""

OUT_OF_BOUNDS = OutOfBounds(
    action="load",
    dtype="float32",
    tensor="x_ptr",
    index=770,
    shape=(770,),
    strides=(1,),
    held=range(770),
    position=PLACE,
    program=(96, 0, 0),
    grid=(97, 1, 1),
    lane=(2,),
    count=6,
    values={"offsets": numpy.int64(770), "scale": math.nan},
)

ERRORS: dict[type[KernelLabError], KernelLabError] = {
    errors.OutOfBounds: OUT_OF_BOUNDS,
    errors.Deadlock: errors.Deadlock([WaitingProgram((1, 0, 0), PLACE, "lock[0] is 1")],
        grid=(2, 1, 1), silent_rounds=3, proven=True, position=PLACE),
    errors.KernelFault: errors.KernelFault("device_assert failed", program=(0, 0, 0),
        grid=(1, 1, 1)),
    errors.CompileError: errors.CompileError("no", kernel="k", target="sm_90",
        failed_pass="ttgir.x"),
    errors.MissingArguments: errors.MissingArguments("no", constexprs=["BLOCK"], others=["x"]),
    errors.WorkerError: errors.WorkerError("gone", died=True, ending="signal SIGSEGV"),
}  # fmt: skip
"""Errors that have facts of their own; all others are made of words alone."""


def every_error() -> list[KernelLabError]:
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, KernelLabError)
    ]
    return [ERRORS.get(kind) or kind("words", advice="advice", position=PLACE) for kind in kinds]


def remark() -> Remark:
    what = "Used 32 registers, used 1 barriers, 400 bytes cmem[0]"
    return explained(Remark("note", "ptxas", what, PLACE, (CALL,)))


def finding() -> Finding:
    return Finding.of(
        "out-of-bounds",
        "reads beyond x",
        "Mask it.",
        PLACE,
        (CALL,),
        programs=((3, 0, 0),),
        argument="x_ptr",
        index=(12,),
        lane=(2,),
        values={"n": numpy.float32(math.inf)},
        count=4,
        program_count=1,
    )


@functools.cache
def access_findings() -> tuple[Diagnostic, ...]:
    x, out = torch.zeros(1024 * 8), torch.zeros(1024)
    found = kernellab.accesses(forms.copy_strided, (1,), x, out, 8, 1, BLOCK=1024)
    (strided,) = found.findings
    assert (strided.severity, strided.kind) == ("warning", "strided-access")
    assert strided.facts["access"]["argument"] == "x_ptr"
    return found.findings


def every_diagnostic() -> list[Diagnostic]:
    missing = DoctorLine.of("xdsl", "missing", "not installed", "Install it.")
    errors = [error.diagnostic for error in every_error()]
    return [remark(), finding(), missing, *access_findings(), *errors]


def test_json_there_and_back() -> None:
    """Of every kind: strict JSON of one schema, from which the same diagnostic can be read."""
    for one in every_diagnostic():
        text = json.dumps(one.to_json(), allow_nan=False)
        jsonschema.validate(json.loads(text), SCHEMA)
        again = Diagnostic.from_json(json.loads(text))
        assert again.to_json() == one.to_json()
        for name in ("severity", "kind", "what", "position", "called_from", "why", "advice"):
            assert getattr(again, name) == getattr(one, name)


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_an_error_travels_between_processes(error: KernelLabError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.args) == (str(error), error.args)
    assert again.diagnostic == error.diagnostic
    assert error.diagnostic.severity == "error"
    assert str(error) == str(error.diagnostic)


def test_kinds_of_errors_are_the_names_of_their_classes() -> None:
    assert OUT_OF_BOUNDS.diagnostic.kind == "out-of-bounds"
    assert ERRORS[errors.CompileError].diagnostic.kind == "compile-error"
    assert ERRORS[errors.CompileError].diagnostic.facts == {
        "kernel": "k",
        "target": "sm_90",
        "failed_pass": "ttgir.x",
        "reason": "",
    }


def test_facts_are_values_that_json_has() -> None:
    facts = OUT_OF_BOUNDS.diagnostic.facts
    assert facts["values"] == {"offsets": 770, "scale": "nan"}
    assert (facts["tensor"], facts["index"], facts["lane"]) == ("x_ptr", 770, [2])
    assert (facts["program"], facts["held"]) == ([96, 0, 0], [0, 769])
    assert finding().facts["values"] == {"n": "inf"}
    assert finding().facts["programs"] == [[3, 0, 0]]


def test_the_words_of_a_fault_are_made_of_its_data(messages) -> None:
    """Other data, other words; a hole of a view, an empty tensor and an address have their own."""

    def words(**changed: Any) -> str:
        data: dict[str, Any] = {
            "action": "store", "dtype": "int8", "tensor": "y", "index": 9, "shape": (4,),
            "strides": (3,), "held": range(-2, 8), "program": (1, 2, 3), "grid": (4, 5, 6),
        }  # fmt: skip
        return OutOfBounds(**{**data, **changed}).problem

    assert words() == (
        "store out of bounds: y[9] is outside the tensor, "
        "whose storage holds elements -2 to 7 (int8, shape (4,))"
        "\n  in program (1, 2, 3) of grid (4, 5, 6)"
    )
    assert words(bounds="view", index=1) == messages
    assert "strides (3,)" in words(bounds="view")
    assert "whose storage is empty" in words(held=range(0))
    assert words(lane=(0, 7), count=1200) == messages
    assert words(address=4096, reason=", where no tensor is") == messages
    assert words(values={"i": 3, "n": 5}).endswith("\n  the index was computed from i = 3, n = 5")


def test_the_data_of_a_real_fault() -> None:
    """Rows of 8: row 5 of 5 is the first that is not there, lane (1, 0) of program 1."""
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(faults.tile_2d, (2,), torch.zeros(5, 8), 6, 8, BLOCK_M=4, BLOCK_N=8)
    error = caught.value
    assert (error.index, error.program, error.lane) == (40, (1, 0, 0), (1, 0))
    assert error.held == range(40)
    assert f"[{error.index}]" in error.problem
    where = f"program {error.program} of grid {error.grid}, element {error.lane} of the tile"
    assert where in error.problem


@pytest.mark.slow
def test_one_card_for_all() -> None:
    for one in every_diagnostic():
        text = diagnostic_card(one).text()
        assert one.kind in text
        assert one.what.splitlines()[0] in text
        assert one.advice in text
    shown_alone: list[Diagnostic] = [remark(), finding(), *access_findings()]
    for shown in shown_alone:
        assert card_of(shown) == diagnostic_card(shown)
    assert remark()._repr_mimebundle_()["text/html"] == diagnostic_card(remark()).html()
    together = diagnostics_card("everything", every_diagnostic())
    for one in every_diagnostic():
        assert one.what.splitlines()[0] in together.text()
    severe = [table.tone == "fail" for table in together.tables]
    assert severe == sorted(severe, reverse=True)


def test_a_card_escapes_what_is_said() -> None:
    nasty = "</td><script>alert(1)</script>"
    card = diagnostic_card(Diagnostic("error", nasty, nasty, why=nasty, advice=nasty))
    assert "<script" not in card.html()


def test_a_message_of_megabytes_is_cut_in_the_middle(messages):
    error = errors.CompileError("begins" + 10_000_000 * "x" + "ends", advice="a" * 10_000_000)
    assert len(str(error)) < 50_000
    assert str(error).startswith("begins")
    assert "ends" in str(error)
    assert str(error) == messages
