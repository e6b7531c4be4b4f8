"""What `kernellab.exercise` says of kernels that are no right answers."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError, CompileError, OptionError, source_line
from kernellab.viz import registry
from kernellab.viz.launch_tabs import tabs_for
from kernellab.workshop import grader
from tests.workshop import solutions, wrong

SAID = [
    ("add", wrong.add_in_float16, "safe", "wrong-result", ""),
    ("add", wrong.add_of_512, "compiles", "unwritten-output", ""),
    ("add", wrong.add_without_mask, "compiles", "out-of-bounds", ""),
    ("add", wrong.add_of_one_block, "safe", "wrong-result", ""),
    ("add", wrong.add_of_zeros, "safe", "wrong-result", "tl.store"),
    ("gather_rows", wrong.gather_rows_that_scatters, "compiles", "out-of-bounds", ""),
    ("add", wrong.add_of_nothing, "compiles", "unwritten-output", ""),
    ("add", wrong.add_that_reads_its_result, "compiles", "uninitialized-read", ""),
    ("add", wrong.add_that_does_not_compile, "", "compile-error", ""),
    ("add", wrong.add_without_end, "compiles", "endless-loop", ""),
    ("dot_product", wrong.dot_product_that_races, "compiles", "race", ""),
    ("max_rows", wrong.max_rows_of_zeros_beyond, "safe", "wrong-result", ""),
    ("max_rows", wrong.max_rows_without_other, "safe", "missing-other", "tl.load"),
    ("log_softmax", wrong.log_softmax_that_overflows, "safe", "infinity", "tl.exp(x)"),
    ("online_softmax", wrong.online_softmax_in_three_passes, "right", "traffic", ""),
    ("dot_product", wrong.dot_product_by_lanes, "right", "traffic", ""),
    ("dot_of_tiles", wrong.dot_of_tiles_without_dot, "right", "no-tensor-core", ""),
    ("turn_vectors", wrong.turn_vectors_by_floats, "right", "narrow-access", ""),
    ("turn_vectors", wrong.turn_vectors_with_conflicts, "right", "bank-conflicts", ""),
    ("three_stages", wrong.three_stages_without_copies, "right", "no-asynchronous-copy", ""),
    ("transpose", wrong.transpose_of_small_ones, "compiles", "out-of-bounds", ""),
    ("add", solutions.clamp, "", "other-parameters", ""),
    ("add", torch.add, "", "not-a-kernel", ""),
    ("add", None, "", "not-a-kernel", ""),
    ("add", wrong, "", "not-a-kernel", ""),
]


@pytest.mark.thinned(2)
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "kernel", "reached", "kind", "line"),
    SAID,
    ids=lambda one: getattr(one, "__name__", None),
)
def test_each_has_its_own_answer(name, kernel, reached, kind, line) -> None:
    answer = kernellab.exercise(name, kernel)
    assert (answer.reached, answer.diagnostics[0].kind) == (reached, kind), str(answer)
    position = answer.diagnostics[0].position
    assert not line or (position and line in source_line(position.file, position.line))
    assert answer.is_right == (reached == "right")
    assert not answer.is_done
    told = json.loads(answer.json())
    assert (told["reached"], told["diagnostics"][0]["kind"]) == (reached, kind)
    assert kind in str(answer)
    if kind in ("out-of-bounds", "compile-error"):  # the exercise sets parameters and sizes
        assert not re.search(r" = [\d,]+\.|parameters of", answer.diagnostics[0].advice)


def test_other_parameters_are_fixed_by_the_stubs_own_first_line(messages) -> None:
    (said,) = kernellab.exercise("add", solutions.clamp).diagnostics
    assert said.advice is not None
    assert said.advice == messages


def test_a_kernel_that_an_installed_package_has_is_nobodys_answer(monkeypatch) -> None:
    folder = grader.__file__.rpartition("/kernellab/")[0] + "/tests"
    monkeypatch.setattr("kernellab.workshop.grader._INSTALLED", (folder,))
    (said,) = kernellab.exercise("add", wrong.add_of_the_solution).diagnostics
    assert said.kind == "not-ones-own"


def test_the_first_difference_has_line_program_lane_and_the_values_behind_it() -> None:
    answer: Any = kernellab.exercise("max_rows", wrong.max_rows_of_zeros_beyond)
    found: Any = answer.first_difference
    assert (found.name, found.actual, found.program, found.lane) == (
        "z_ptr", 0.0, (found.index[0], 0, 0), (),
    )  # fmt: skip
    assert found.expected < 0
    assert found.values["row"] == found.index[0]
    (behind,) = found.inputs
    row, columns = found.index[0], found.values["columns"]
    assert (behind.argument, behind.count) == ("x_ptr", columns)
    assert [index for index, _ in behind.first] == [(row, 0), (row, 1), (row, 2)]
    assert behind.last is not None
    assert behind.last[0] == (row, columns - 1)
    text = str(answer)
    assert f"and {columns - 3} more, the last of which is x_ptr[{row}, {columns - 1}] = " in text
    assert text.count("program (") == 1, text
    assert f"by program {found.program}" in text
    told = json.loads(answer.json())["first_difference"]["inputs"]
    assert told[0]["first"][0] == [[row, 0], behind.first[0][1]]
    assert answer.trace.first_shown is not None
    assert answer.trace[answer.trace.first_shown].line == found.line
    again = kernellab.exercise("max_rows", wrong.max_rows_of_zeros_beyond, seed=answer.seed)
    assert again.first_difference == found


def test_what_takes_too_long_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grader, "SECONDS", 0.05)
    answer = kernellab.exercise("matmul", solutions.matmul)
    assert answer.reached in ("", "compiles")
    assert answer.diagnostics[0].kind == "no-end"


@pytest.mark.slow
def test_the_search_for_a_change_does_not_count_as_the_kernels_time(monkeypatch) -> None:
    limits: list[float] = []

    @contextmanager
    def limited(seconds: float, _: type[Exception]) -> Iterator[None]:
        limits.append(seconds)
        yield
        limits.pop()

    monkeypatch.setattr(grader, "limited", limited)
    searched: list[int] = []
    repairing = "kernellab.workshop.feedback.Repairing.found"
    monkeypatch.setattr(repairing, lambda *_: searched.append(len(limits)))
    for kernel in (wrong.add_in_float16, wrong.add_that_does_not_compile):
        kernellab.exercise("add", kernel)
    assert searched == [0, 0]


@pytest.mark.slow
def test_lanes_that_take_turns_at_an_element_are_told_to_combine(messages) -> None:
    (said,) = kernellab.exercise("dot_product", wrong.dot_product_by_lanes).diagnostics
    assert said.advice == messages
    assert "atomic of z_ptr" in said.why


@pytest.mark.slow
def test_the_card_of_an_unsafe_answer_leads_to_its_step_and_its_check() -> None:
    answer = kernellab.exercise("add", wrong.add_without_mask)
    assert answer.launch is not None
    card: Any = registry.card(answer)
    table = next(one for one in card.tables if one.title.startswith("out-of-bounds"))
    assert [link.words for link in table.links] == ["step", "IR", "check"]
    assert [table.rows[row][0] for row in table.code] == ["line", "", "values"]  # and the caret
    tabs: Any = tabs_for(answer)
    stepper, at = tabs.enter("steps", table.links[0].at)
    assert stepper.data.steps[at["step"]].line == answer.diagnostics[0].line
    findings, _ = tabs.enter("check", {})
    assert "out-of-bounds" in repr(findings)


def test_a_kernel_that_does_not_compile_was_not_launched() -> None:
    for kernel in (wrong.add_that_does_not_compile, None):
        assert "not launched" in str(kernellab.exercise("add", kernel))


@pytest.mark.slow
def test_an_error_of_the_compiler_in_a_later_launch_is_not_under_compiles(monkeypatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise CompileError("Triton cannot compile 'add'.")

    monkeypatch.setattr(grader, "problems_of", refuse)
    answer = kernellab.exercise("add", solutions.add)
    assert (answer.reached, answer.diagnostics[0].kind) == ("", "compile-error")
    monkeypatch.undo()
    monkeypatch.setattr(grader, "over_budget", refuse)
    answer = kernellab.exercise("add", solutions.add)
    assert (answer.reached, answer.diagnostics[0].kind) == ("", "compile-error")


def test_hints_go_step_by_step() -> None:
    answer = kernellab.exercise("add", torch.add)
    assert answer.hint() == answer.hint(1) != answer.hint(2)
    assert answer.hint(99) == ""
    assert all("tl.store" not in hint or "add" not in hint for hint in answer.hints)


def test_bad_names_and_seeds_are_told(raised) -> None:
    error = raised(ArgumentError, kernellab.exercise, "sofmax", solutions.softmax, match="sofmax")
    assert "softmax" in error.advice
    raised(ArgumentError, kernellab.exercise, solutions.softmax, "softmax")
    with pytest.raises(OptionError, match="seed"):
        kernellab.exercise("add", solutions.add, seed="now")  # type: ignore[arg-type]


def test_the_list_of_exercises_is_a_table() -> None:
    listed = kernellab.exercises()
    assert listed.table()["name"].tolist() == [one.name for one in listed]
    assert "softmax" in str(listed)
    (add,) = (one for one in listed if one.name == "add")
    assert "def add(x_ptr, y_ptr, z_ptr, n" in add.stub
    assert "`z[i] = x[i] + y[i]`" in add.task
    assert add.budget.traffic is not None


@pytest.mark.slow
def test_the_launch_behind_an_answer_is_checked_and_compiled_as_any_other() -> None:
    answer: Any = kernellab.exercise("max_rows", wrong.max_rows_of_zeros_beyond)
    launch: Any = answer.trace.launch
    assert set(kernellab.check(launch).kinds) == {"wrong-result"}
    made: Any = kernellab.compile(launch.kernel, **launch.keywords, target="sm_90")
    assert made.source_map.file == wrong.__file__
