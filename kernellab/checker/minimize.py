"""`kernellab.minimize`: the smallest launch that fails as a given one does, as a script."""

from __future__ import annotations

import ast
import os
import re
import runpy
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from kernellab.checker.check import CheckOptions, examined
from kernellab.checker.launch_scripts import AnyScript, CompileScript, LaunchScript
from kernellab.common.arguments import check_choice, check_whole
from kernellab.common.processes import Forked
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.common.text import counted, element_text
from kernellab.compiler.registered_passes import registered_for
from kernellab.compiler.targets import parse_target
from kernellab.equality.equal import equal
from kernellab.equality.validation import validate
from kernellab.errors import ArgumentError, KernelLabError, WorkerError
from kernellab.launch.preparation import (
    EntryPoint,
    PreparedLaunch,
    prepare_bound,
    refused,
    takes_launch,
)
from kernellab.launch.reference_results import Reference
from kernellab.records import BoundLaunch, Target

Failures = Mapping[tuple[str, str], str]
"""The failures of a script: kind and argument of a finding, or an error and "" -> the message."""

_WRONG = ("wrong-result", "rounding", "different")
"""The kinds of failures that compare results with expected ones."""


def run_script(path: Path, shown_by: Callable[[Mapping[str, Any]], Failures]) -> Failures:
    """Run a script, and return its failures; an error that it raises is a failure."""
    torch.set_num_threads(1)  # a copy of a process has none of its threads
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    try:
        return shown_by(runpy.run_path(str(path)))
    except Exception as error:  # the compiler and the script may raise anything
        words = error.what if isinstance(error, KernelLabError) else str(error)
        return {(f"{type(error).__name__}: {_essence(words)}", ""): str(error)}


def _essence(words: str) -> str:
    """The last line of a message, without numbers and places, which change with the kernel."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return re.sub(r"\d+", "#", lines[-1])[:200] if lines else ""


def _asserted(error: WorkerError) -> str:
    said = [
        line for line in error.last_words.splitlines() if "ssert" in line or "LLVM ERROR" in line
    ]
    return re.sub(r"^.*?: |\d+", "", said[-1])[:200] if said else ""


def _findings_of(names: Mapping[str, Any], target: Target) -> Failures:
    options = CheckOptions(target=target, expect=names.get("expected"))
    findings = examined(names["launch"], options).findings
    ordered = sorted(findings, key=lambda finding: finding.severity != "error")
    return {(finding.kind, finding.argument): finding.what for finding in ordered}


def _wrong_pass_of(names: Mapping[str, Any], target: Target) -> Failures:
    wrong = validate(names["launch"], target=target).wrong
    return {} if wrong is None else {(f"wrong pass: {wrong.label}", ""): wrong.reason}


def _difference_of(names: Mapping[str, Any], target: Target) -> Failures:
    equality = equal(names["launch"], names["expected"], target=target)
    difference = equality.difference
    if equality.verdict != "different" or difference is None:
        return {}
    at, *floats = difference.floats or (difference.index,)
    values = " and ".join(f"{number:g}" for number in floats)
    return {("different", difference.tensor): f"{element_text(difference.tensor, at)} is {values}"}


def _no_failures(names: Mapping[str, Any], target: Target) -> Failures:
    del names, target
    return {}


@dataclass
class Judge:
    """Decides whether a script still fails as the first one did, within a bounded amount of work.

    Attributes:
        shown_by: see `run_script`.
        tries: how many scripts may still run.
        deadline: when no more may start, in `time.monotonic`.
        limit: how long a script may take, in seconds.
        kind: the kind of failure to keep; "" for the first.
        known: the failures that the first script shows: no other may appear.
    """

    shown_by: Callable[[Mapping[str, Any]], Failures]
    tries: int
    deadline: float
    limit: float
    kind: str = ""
    wanted: tuple[str, str] = ("", "")
    known: Failures = field(default_factory=dict)
    ran: int = 0

    def begin(self, script: AnyScript) -> bool:
        start = time.monotonic()
        self.known = self._shown(script.text())
        self.limit = min(self.limit, 2 + 5 * (time.monotonic() - start))
        kinds = [key for key in self.known if self.kind in ("", key[0].partition(":")[0])]
        self.wanted = kinds[0] if kinds else ("", "")
        return bool(kinds)

    @property
    def is_spent(self) -> bool:
        return self.tries <= 0 or time.monotonic() > self.deadline

    def fails(self, script: AnyScript, *, exactly: bool = False) -> bool:
        """Return whether a script fails as the first one does, and in no other way; False if the
        work is spent.

        Args:
            exactly: whether a wrong result must stay the same, because every change of a
                computation changes it.
        """
        if self.is_spent:
            return False
        shown = self._shown(script.text())
        if self.wanted not in shown or not {*shown} <= {*self.known}:
            return False
        is_same = shown[self.wanted] == self.known[self.wanted]
        if exactly and self.wanted[0] in _WRONG and not is_same:
            return False
        self.known = {**self.known, **shown}
        return True

    def _shown(self, text: str) -> Failures:
        self.tries -= 1
        self.ran += 1
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "minimal.py"
            path.write_text(text, encoding="utf-8")
            try:
                limit = max(1.0, min(self.limit, self.deadline - time.monotonic()))
                return Forked(partial(run_script, path, self.shown_by), "The script").result(limit)
            except WorkerError as error:
                if error.timed_out:
                    return {("hang", ""): f"It did not end within {limit:g} seconds."}
                return {(f"crash: {error.ending} {_asserted(error)}".strip(), ""): str(error)}


def without_statements(text: str, fails: Callable[[str], bool]) -> str:
    """Remove statements of a kernel: first large parts, then single ones; then put the body of a
    loop or a branch in its place. What uses a variable that is set nowhere is not tried.

    Args:
        fails: whether the kernel with another text fails as it does.
    """
    unknown = _read_and_never_set(text)
    size = len(_statements(text))
    while size:
        end = len(_statements(text))
        while end > 0:
            chosen = _statements(text)[max(0, end - size) : end]
            made = _changed(text, dict.fromkeys(chosen, ""), unknown)
            if made not in (None, text) and fails(made):
                text = made
            end = min(end - size, len(_statements(text)))
        size //= 2
    for place in reversed(range(len(_statements(text)))):
        statement = _statements(text)[place]
        if isinstance(statement, ast.For | ast.While | ast.If | ast.With):
            made = _changed(text, {statement: _body(text, statement)}, unknown)
            text = made if made is not None and fails(made) else text
    return text


def _statements(text: str) -> list[ast.stmt]:
    function = ast.parse(text).body[0]
    inside = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    return sorted(inside, key=lambda node: (node.lineno, node.col_offset))[1:]


def _body(text: str, statement: Any) -> str:
    lines = text.splitlines()[statement.body[0].lineno - 1 : statement.body[-1].end_lineno]
    indent = " " * statement.col_offset
    body = textwrap.indent(textwrap.dedent("\n".join(lines)), indent)
    if not isinstance(statement, ast.For):
        return body
    arguments = getattr(statement.iter, "args", [])
    first = ast.unparse(arguments[0]) if len(arguments) > 1 else "0"
    return f"{indent}{ast.unparse(statement.target)} = {first}\n{body}"


def _changed(text: str, changes: Mapping[ast.stmt, str], unknown: set[str]) -> str | None:
    """The text with other lines in place of those of statements; None if that is not a kernel."""
    lines: list[str | None] = [*text.splitlines()]
    for statement, new in sorted(changes.items(), key=lambda item: -item[0].lineno):
        first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        if lines[first] is not None and str(lines[first])[: statement.col_offset].strip():
            return None  # one of several statements on a line
        indent = " " * statement.col_offset
        lines[first:last] = [new or f"{indent}pass", *[None] * (last - first - 1)]
    made = _tidy("\n".join(line for line in lines if line is not None))
    return made if made is not None and _read_and_never_set(made) <= unknown else None


def _tidy(text: str) -> str | None:
    try:
        function = ast.parse(text).body[0]
    except SyntaxError:
        return None
    lines: list[str | None] = [*text.splitlines()]
    for node in ast.walk(function):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            idle = [part for part in block if isinstance(part, ast.Pass)]
            for part in idle if len(idle) < len(block) else idle[1:]:
                lines[part.lineno - 1] = None
    return "\n".join(line for line in lines if line is not None) + "\n"


def _read_and_never_set(text: str) -> set[str]:
    function = ast.parse(text).body[0]
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    set_ = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    set_ |= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - set_


def _without_parameters(text: str) -> tuple[str, list[str]]:
    """The text without parameters that the kernel never uses, and those that it keeps."""
    function: Any = ast.parse(text).body[0]
    read = {node.id for part in function.body for node in ast.walk(part)
            if isinstance(node, ast.Name)}  # fmt: skip
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    kept = [each for each in every if each.arg in read]
    written = ", ".join(ast.unparse(each) for each in kept)
    body = "\n".join(text.splitlines()[function.body[0].lineno - 1 :])
    return f"def {function.name}({written}):\n{body}\n", [each.arg for each in kept]


def minimal(script: Any, fails: Callable[..., bool]) -> Any:
    """Return the smallest script found that fails.

    Args:
        fails: called once for each script: whether it fails so; if `exactly`, by the message too.
    """
    seen = {script.text()}

    def fails_anew(made: Any, *, exactly: bool = False) -> bool:
        text = made.text()
        is_new = text not in seen
        seen.add(text)
        return is_new and fails(made, exactly=exactly)

    def still_fails(source: str) -> bool:
        return fails_anew(script.with_source(source, script.values), exactly=True)

    script = _smaller_in_values(script, fails_anew)
    before = None
    while before != script.source:
        before = script.source
        script = script.with_source(without_statements(before, still_fails), script.values)
    source, kept = _without_parameters(script.source)
    made = script.with_source(source, kept)
    if source != script.source and fails_anew(made, exactly=True):
        script = made
    return _smaller_in_values(script, fails_anew)


def _smaller_in_values(script: Any, fails: Callable[[Any], bool]) -> Any:
    for family in script.smaller():
        smaller: Any = script
        while smaller is not None:
            script = smaller
            smaller = next((made for made in family(script) if fails(made)), None)
    return script


@dataclass(frozen=True)
class Minimal:
    """The smallest launch that fails as a given one does, as `kernellab.minimize` finds it.

    Attributes:
        failure: what fails: "out-of-bounds in x_ptr".
        tries: how many launches ran.
        is_complete: whether nothing smaller was left to try; False if the work was spent before.
    """

    kernel: str
    failure: str
    message: str
    script: str
    tries: int
    is_complete: bool

    def __str__(self) -> str:
        """The script."""
        return self.script

    def __repr__(self) -> str:
        end = "" if self.is_complete else ", and then the search was ended"
        ran = f"{counted(self.tries, 'script')} ran{end}"
        return f"{self.kernel}: {self.failure} ({ran})\n\n{self.script}"


Finder = Literal["compile", "check", "validate", "equal"]

_MINIMIZE = EntryPoint("minimize", refused("check or validate finds the smallest launch"))

_SHOWN_BY: Mapping[Finder, Callable[..., Failures]] = {
    "compile": _no_failures,
    "check": _findings_of,
    "validate": _wrong_pass_of,
    "equal": _difference_of,
}
"""The failures of a script that ran: (its variables, the GPU) -> failures."""


@takes_launch
def minimize(
    launch: BoundLaunch,
    *,
    by: Finder | None = None,
    kind: str = "",
    target: str | Target | None = None,
    expect: Reference | BoundLaunch | None = None,
    tries: int = 400,
    seconds: float = 300.0,
) -> Minimal:
    """Find the smallest launch that fails as this one does, and return it as a standalone script.

    It makes sizes, blocks, the grid, the contents of the tensors and the options smaller, then
    removes statements and parameters of the kernel, and keeps each change with which the launch
    still fails in the same way and in no other. Every try runs in a copy of this process, so that a
    crash or an endless loop of the compiler ends that copy alone.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch.
        by: what finds the failure: "compile" (Triton fails or crashes; the script needs only
            triton), "check" (a finding of `kernellab.check`), "validate" (a pass of the compiler
            changes a result), or "equal" (`kernellab.equal` says that `expect` is different). None
            for "equal" with a launch, and else the first of "compile" and "check" that fails.
        kind: the kind of finding to keep, "race", or the class of an error; "" for the first.
        target: the GPU, as for `kernellab.check`.
        expect: a function that computes the expected results, as for `kernellab.check`, or another
            kernel's launch with the same tensors; or the second argument, as for `equal`.
        tries: how many launches may run.
        seconds: how long the search may take; a launch that has begun ends first.

    Returns:
        The Minimal, whose text is the script.

    Raises:
        ArgumentError: nothing fails, or a script cannot have an argument, what the kernel uses,
            or the expected results.
    """
    __tracebackhide__ = True
    if by is not None:
        check_choice("by", by, tuple(_SHOWN_BY))
    if isinstance(expect, BoundLaunch):
        by = "equal"
    check_whole("tries", tries, least=1)
    prepared = prepare_bound(launch, None if target is None else parse_target(target), _MINIMIZE)
    deadline = time.monotonic() + seconds
    for finder in ("compile", "check") if by is None else (by,):
        try:
            script = _script_of(finder, prepared, expect)
        except ArgumentError:
            if by is None and finder == "compile":
                continue
            raise
        shown_by = partial(_SHOWN_BY[finder], target=prepared.target)
        judge = Judge(shown_by, tries, deadline, min(60.0, seconds), kind)
        if judge.begin(script):
            return _searched(prepared.kernel.__name__, script, judge)
    raise ArgumentError(
        f"This launch of {prepared.kernel.__name__!r} does not fail"
        + (f" with {kind!r}." if kind else "."),
        advice="Pass a launch that does not compile or that fails kernellab.check. Or pass "
        "expect= to compare its results, or by='validate' to validate every pass.",
    )


def _script_of(finder: Finder, prepared: PreparedLaunch, expect: Any) -> AnyScript:
    if finder == "compile":
        return CompileScript.of(prepared)
    expected = "" if expect is None or finder == "validate" else ", expect=expected"
    if finder == "equal":
        if expect is None:
            raise ArgumentError(
                'by="equal" needs something to compare with.',
                advice="Pass expect=: a function of torch, or another launch.",
            )
        if isinstance(expect, BoundLaunch):
            expect = prepare_bound(expect, prepared.target, _MINIMIZE)
    beside = ", expected" if finder == "equal" else expected
    question = f'print(kernellab.{finder}(launch{beside}, target="{prepared.target}"))'
    passes = registered_for(prepared.kernel) if finder == "validate" else ()
    return LaunchScript.of(prepared, expect if beside else None, question, passes)


def _searched(kernel: str, script: Any, judge: Judge) -> Minimal:
    with ProgressBar(f"minimize {kernel}", judge.tries, "launches", UNTOUCHED) as work:

        def fails(made: Any, *, exactly: bool = False) -> bool:
            ran = judge.ran
            kept = judge.fails(made, exactly=exactly)
            work.advance(judge.ran - ran)
            return kept

        smallest = minimal(script, fails)
    kind, argument = judge.wanted
    failure = f"{kind} in {argument}" if argument else kind
    text = f'"""{kernel}: {failure}"""\n\n{smallest.text()}'
    message = judge.known[judge.wanted]
    return Minimal(kernel, failure, message, text, judge.ran, not judge.is_spent)
