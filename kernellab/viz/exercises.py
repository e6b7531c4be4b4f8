"""The cards of an answer to an exercise, of a student's progress, and of a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kernellab.checker.records import Finding
from kernellab.common.text import counted, number_text, percent
from kernellab.errors import Diagnostic
from kernellab.judging.records import STAGES, Verdict
from kernellab.viz.diagnostics import diagnostic_table, facts_table, finding_links
from kernellab.viz.kit.data import Link, Tile, Tone
from kernellab.viz.kit.view import Card, Table, card_of
from kernellab.workshop.course import Progress, Row
from kernellab.workshop.exercise import RUNGS, Answer, Exercise, FirstDifference
from kernellab.workshop.grader import Grade, Grades

_IN_THE_WAY = {
    "": "does not compile",
    "compiles": "is not safe",
    "safe": "gives a wrong result",
    "right": "is right, and over budget",
    "within budget": "is right, and within budget",
}


@card_of.register
def answer_card(answer: Answer) -> Card:
    """The steps as a ladder, the first failure, and its explanation; hints are folded."""
    tables = [
        replace(_diagnostic_table(answer, number, diagnostic), is_wide=True)
        for number, diagnostic in enumerate(answer.diagnostics)
        if diagnostic.kind != _LAUNCH
    ]
    if answer.first_difference is not None:
        tables.append(replace(_difference_table(answer, answer.first_difference), is_wide=True))
    details = {}
    if answer.reached or answer.passed:
        details["right"] = f"{answer.passed} of {answer.cases} hidden launches"
    if not answer.is_done:
        tables += _hint_tables(answer.exercise, answer.hints)
    return Card(
        f"{answer.title}: {answer.kernel} {_IN_THE_WAY[answer.reached]}",
        "" if answer.reached or answer.passed else "not launched",
        tables,
        [said.what for said in answer.diagnostics if said.kind == _LAUNCH],
        tone="pass" if answer.is_done else "warn" if answer.is_right else "fail",
        tiles=list(_ladder(RUNGS, answer.reached, details)),
    )


def _ladder(steps: Sequence[str], reached: str, details: Mapping[str, str]) -> Iterator[Tile]:
    """A tile for each step: those that are reached, the one that is in the way, the others."""
    last = steps.index(reached) if reached else -1
    for number, step in enumerate(steps):
        tone: Tone = "pass" if number <= last else "fail" if number == last + 1 else ""
        yield Tile(f"step {number + 1}", step, details.get(step, ""), tone)


@card_of.register
def verdict_card(verdict: Verdict) -> Card:
    """The stages as a ladder, what keeps the submission from the next, and its kernels."""
    details = {"right": counted(verdict.cases, "case")} if verdict.cases else {}
    if verdict.microseconds is not None:
        details["within budget"] = verdict.costs
    parts = [(name, f"a kernel stored {percent(part)} of it")
             for name, part in verdict.traced.items()]  # fmt: skip
    kernels = [str(kernel).split(": ") for kernel in verdict.kernels]
    tables = [Table(title, (), rows, is_wide=True)
              for title, rows in (("outputs", parts), ("kernels", kernels)) if rows]  # fmt: skip
    if verdict.diagnostic is not None:
        tables.insert(0, replace(diagnostic_table(verdict.diagnostic), is_wide=True))
    return Card(
        f"{verdict.submission}: {verdict.verdict}",
        verdict.case,
        tables,
        tone="pass" if verdict else "fail" if verdict.verdict == "rejected" else "warn",
        tiles=list(_ladder(STAGES, verdict.reached, details)),
        footnotes=[f"not examined: {words}" for words in verdict.not_examined],
    )


def _hint_tables(exercise: str, hints: Sequence[str]) -> list[Table]:
    """The hints, each folded; in a terminal the magic that shows the first."""
    command = f"{counted(len(hints), 'hint')}: `%tileexercise --hint 1 {exercise}`"
    return [
        Table(
            f"Hint {number}",
            (),
            [("", hint)],
            is_wide=True,
            is_folded=True,
            in_text="" if number > 1 else command,
        )
        for number, hint in enumerate(hints, 1)
    ]


_LAUNCH = "launch"
"""The kind of the note that says which launch went wrong."""


def _diagnostic_table(answer: Answer, number: int, diagnostic: Diagnostic) -> Table:
    """A diagnostic with its links. Of a wrong result, where the element was written and what it was
    computed from is in the table of the difference.
    """
    links = finding_links({"finding": number, "of": "answer"}, diagnostic)
    if links:
        links.append(Link(-1, "check", "The launch with every detector on", "check", {}))
    difference = answer.first_difference
    if (
        isinstance(diagnostic, Finding)
        and difference is not None
        and (diagnostic.argument, diagnostic.index) == (difference.name, difference.index)
    ):
        diagnostic = replace(diagnostic, programs=(), lane=(), values={}, inputs=None)
    return diagnostic_table(diagnostic, links)


def _difference_table(answer: Answer, difference: FirstDifference) -> Table:
    """The first element that is off, and what the kernel's variables held there."""
    trace = answer.trace
    step = None if trace is None else trace.first_shown
    links = [] if step is None else [
        Link(-1, "step", "The step that writes it, in the stepper", "steps", {"step": step})
    ]  # fmt: skip
    return facts_table(
        f"the first wrong element, {difference.element}",
        _facts(difference),
        links,
        ("got", "expected", "computed from", *difference.values),
    )


def _facts(difference: FirstDifference) -> Iterator[tuple[str, str]]:
    got, expected = difference.texts
    yield "got", got
    yield "expected", expected
    if difference.line is not None:
        lane = difference.lane[0] if len(difference.lane) == 1 else difference.lane
        which = f", element {lane} of the tile" if difference.lane else ""
        yield "written", f"on line {difference.line}, by program {difference.program}{which}"
    if difference.inputs is not None:
        words = [str(text) for text in difference.inputs] or ["nothing that the kernel has read"]
        for number, text in enumerate(words):
            yield ("" if number else "computed from"), text
    for name, value in difference.values.items():
        yield name, number_text(value)


@card_of.register
def progress_card(progress: Progress) -> Card:
    """Every exercise as a tile, by chapter, with progress; a click inserts its stub."""
    chapters: dict[str, list[Row]] = {}
    for row in progress:
        chapters.setdefault(row.chapter, []).append(row)
    tables = []
    for chapter, rows in chapters.items():
        title = f"{chapter}: {sum(row.is_done for row in rows)} of {len(rows)}"
        tables.append(Table(title, (), (), tiles=list(map(_exercise_tile, rows))))
    left = [row for row in progress if not row.is_done]
    done = len(progress) - len(left)
    return Card(
        f"{done} of {counted(len(progress), 'exercise')} done",
        "",
        tables,
        ("`%tileexercise NAME` shows a task, and puts its stub into the next cell.",),
        tiles=[replace(_exercise_tile(row), name="next") for row in left[:1]],
    )


def _exercise_tile(row: Row) -> Tile:
    tries = [counted(row.tries, "answer")] if row.tries else []
    return Tile(
        row.name,
        row.title,
        ", ".join(filter(None, ["done" if row.is_done else row.reached, *tries])),
        "pass" if row.is_done else "warn" if row.tries else "",
        cell=f"%tileexercise {row.name}",
    )


def task_card(exercise: Exercise) -> Card:
    """The requirements of an exercise, with its hints folded."""
    rows = [("task", exercise.task), *(("budget", words) for words in _allowed(exercise))]
    hints = _hint_tables(exercise.name, exercise.hints)
    return Card(
        f"{exercise.chapter}: {exercise.title}",
        exercise.name,
        [Table("", (), rows, is_wide=True), *hints],
        ("The stub is in the next cell: fill it in and run it.",),
    )


def hint_card(exercise: Exercise, number: int) -> Card:
    """One hint, and how to ask for the next."""
    if not 0 < number <= len(exercise.hints):
        last = f"The hints of {exercise.name} are 1 to {len(exercise.hints)}."
        return Card(exercise.title, "no such hint", (), (last,))
    more = number < len(exercise.hints)
    notes = (f"`%tileexercise --hint {number + 1} {exercise.name}`",) if more else ()
    hint = exercise.hints[number - 1]
    return Card(f"{exercise.title}, hint {number}", "", [Table("", (), [("", hint)])], notes)


def _allowed(exercise: Exercise) -> Iterator[str]:
    budget = exercise.budget
    if budget.traffic is not None:
        yield f"moves at most {budget.traffic:g} times the bytes of its tensors"
    if budget.needs_tensor_cores:
        yield "uses the tensor cores"


_MARKS = {"": "-", **dict(zip(RUNGS, ("compiles", "safe", "right", "done")))}


@card_of.register
def grades_card(grades: Grades) -> Card:
    """Of one folder each exercise and what is in the way; of several how many each has done."""
    if len(grades.folders) == 1:
        return _folder_card(grades)
    chapters = list(dict.fromkeys(grade.chapter for grade in grades))
    rows = []
    for folder in grades.folders:
        own = [grade for grade in grades if grade.folder == folder]
        parts = [[grade for grade in own if grade.chapter == chapter] for chapter in chapters]
        rows.append((folder, _done(own), *map(_done, parts)))
    columns = ("folder", "done", *chapters)
    return Card(
        f"{counted(len(grades.folders), 'folder')}",
        "",
        [Table("", columns, rows, numbers=range(1, len(columns))), _hardest(grades)],
        grades.problems,
    )


def _done(grades: list[Grade]) -> str:
    return f"{sum(grade.is_done for grade in grades)} of {len(grades)}"


def _folder_card(grades: Grades) -> Card:
    rows = [
        (grade.exercise, _MARKS[grade.reached], f"{grade.kind}: {grade.what}" if grade.kind else "")
        for grade in grades
        if grade.file
    ]
    left = sum(not grade.file for grade in grades)
    notes = [f"{counted(left, 'exercise')} without an answer"] if left else []
    title = f"{grades.folders[0]}: {_done(list(grades))} done"
    columns = ("exercise", "reached", "in the way")
    return Card(title, "", [Table("", columns, rows)], [*notes, *grades.problems])


def stuck_on(grades: Grades) -> list[tuple[str, list[Grade]]]:
    """The exercises that folders have tried and not done, those of most folders first."""
    stuck: dict[str, list[Grade]] = {}
    for grade in grades:
        if grade.file and not grade.is_done:
            stuck.setdefault(grade.exercise, []).append(grade)
    return sorted(stuck.items(), key=lambda item: -len(item[1]))


def _hardest(grades: Grades) -> Table:
    """The exercises that most folders have tried and not done, with what is in the way there."""
    rows = [
        (name, str(len(those)), ", ".join(dict.fromkeys(exercise.kind for exercise in those)))
        for name, those in stuck_on(grades)[:10]
    ]
    return Table("where most are stuck", ("exercise", "folders", "in the way"), rows, numbers=(1,))
