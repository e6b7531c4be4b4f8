"""`kernellab mcp`: the functions of KernelLab as tools of the Model Context Protocol, over stdio.

A tool names a kernel as "FILE::NAME" and its launch as "FILE::NAME" of a mapping by parameter with
the key "grid", or of a function that returns one. Results are short, and typed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from kernellab.checker.check import check as check_launch
from kernellab.cli.tasks import judged_task
from kernellab.cli.user_code import load_kernel, load_named
from kernellab.common.system import OutOfTime, limited
from kernellab.compiler.pipeline import compile as compile_kernel
from kernellab.compiler.targets import parse_target
from kernellab.equality.equal import equal as decide
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.judging.judge import judge as judge_submission
from kernellab.launch.preparation import bind
from kernellab.profiling.diagnosis.diagnose import diagnose as diagnose_launch
from kernellab.records import BoundLaunch
from kernellab.tracing.launches import trace

SECONDS = 120.0
"""A call that takes longer is stopped."""

_MOST, _LONGEST = 20, 600
"""The most items of a list in a result, and the most characters of a text in it."""


@dataclass
class Finding:
    """A finding about a kernel; `line` is 0 if it has none."""

    kind: str
    severity: str
    line: int
    what: str
    why: str
    fix: str


@dataclass
class Compiled:
    """What a kernel takes on a target; sizes are None if they are not known."""

    target: str
    stages: list[str]
    registers: int | None
    spilled_bytes: int | None
    shared_bytes: int | None


@dataclass
class StateAt:
    """A program after a line: its variables as text."""

    step: int
    steps: int
    variables: dict[str, str]


@dataclass
class Entry:
    """A public name of KernelLab, and what it does."""

    name: str
    text: str


def judge(
    submission: str,
    reference: str,
    cases: str = "",
    targets: str = "sm_90",
    rtol: float | None = None,
    atol: float | None = None,
) -> dict[str, Any]:
    """Return one verdict on FILE::NAME, which runs confined, against FILE::NAME, which is trusted.

    `cases` is a trusted file that defines `cases` or `get_inputs`; without it the reference's does.
    """
    with judged_task(reference, cases or None) as task:
        verdict = judge_submission(
            submission, task.reference, task.cases, targets=targets, init=task.init, rtol=rtol,
            atol=atol, imports=task.imports,
        )  # fmt: skip
    return verdict.to_dict()


def compile(kernel: str, launch: str, target: str = "sm_90") -> Compiled:
    """Compile a kernel for a launch, and return its stages and resources."""
    made = _compiled(kernel, launch, target)
    needed = made.resources
    sizes = needed.registers, needed.spills, needed.shared_bytes
    return Compiled(target, [*made.stages], *sizes)


def explain(
    kernel: str, launch: str, line: int, stage: str = "sass", target: str = "sm_90"
) -> list[str]:
    """Return what a line of a kernel's file becomes in a stage, such as ttgir, ptx or sass."""
    made = _compiled(kernel, launch, target)
    if stage not in made.stages:
        raise ArgumentError(f"stage must be one of {', '.join(made.stages)}, got {stage!r}.")
    text = made.stages[stage].text.splitlines()
    numbers = made.source_map.lines("source", stage, line)
    return [text[number - 1].strip()[:_LONGEST] for number in numbers[: 2 * _MOST]]


def check(kernel: str, launch: str, target: str = "sm_90") -> list[Finding]:
    """Run a launch with every detector, and return the faults that it has."""
    return _findings(check_launch(_launch(kernel, launch, target)))


def step(
    kernel: str, launch: str, line: int, program: list[int] | None = None, target: str = "sm_90"
) -> StateAt:
    """Return the variables of a program after it ran a line of the kernel's file once."""
    traced = trace(_launch(kernel, launch, target), programs=[tuple(program or [0])])
    reached = next((each for each in traced if each.position.line == line), None)
    if reached is None:
        lines = sorted({each.position.line for each in traced})
        raise ArgumentError(f"line must be one that the program ran, got {line}.",
                            advice=f"It ran {', '.join(map(str, lines))}.")  # fmt: skip
    state = traced.at(reached)
    variables = {name: f"{state[name]}"[:_LONGEST] for name in list(state)[:_MOST]}
    return StateAt(reached.number, len(traced), variables)


def diagnose(kernel: str, launch: str, target: str = "sm_90") -> list[Finding]:
    """Return why a launch is slow, the most expensive findings first."""
    return _findings(diagnose_launch(_launch(kernel, launch, target)))


def equal(kernel: str, launch: str, other: str, target: str = "sm_90") -> dict[str, Any]:
    """Decide whether a launch gives what FILE::NAME gives for all inputs of its sizes.

    `other` is a kernel with the same parameters, or a function of torch.
    """
    return decide(_launch(kernel, launch, target), load_named(other)).to_dict()


def search(words: str) -> list[Entry]:
    """Return the public names whose documentation has most of the words."""
    import kernellab

    wanted = words.lower().split()
    entries = []
    for name in kernellab.__all__:
        text = inspect.getdoc(getattr(kernellab, name)) or ""
        score = sum(word in f"{name} {text}".lower() for word in wanted)
        if score:
            entries.append((-score, name, text))
    return [Entry(name, text[:_LONGEST]) for _, name, text in sorted(entries)[:5]]


TOOLS = (judge, compile, explain, check, step, diagnose, equal, search)


def server() -> MCPServer:
    """Return the server with its tools."""
    made = MCPServer("kernellab", instructions=__doc__)
    for function in TOOLS:
        made.add_tool(_in_time(function))
    return made


def serve() -> None:
    """Serve over stdin and stdout until the client leaves."""
    server().run("stdio")


def _in_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tool that runs in the main thread, where it can be stopped."""

    @functools.wraps(function)
    async def run(**arguments: Any) -> Any:
        try:
            with limited(SECONDS, OutOfTime):
                return function(**arguments)
        except (KernelLabError, OutOfTime) as error:
            raise ToolError(str(error)) from error

    return run


def _launch(kernel: str, launch: str, target: str) -> BoundLaunch:
    given = load_named(launch)
    given = given() if callable(given) else given
    if not isinstance(given, Mapping) or "grid" not in given:
        raise ArgumentError(
            f"launch must name a mapping of arguments with the key 'grid', got {launch!r}."
        )
    values = {name: value for name, value in given.items() if name != "grid"}
    bound = bind(load_kernel(kernel), given["grid"], **values)
    return replace(bound, target=parse_target(target))


def _compiled(kernel: str, launch: str, target: str) -> Any:
    bound = _launch(kernel, launch, target)
    return compile_kernel(bound.kernel, **bound.keywords, target=target)


def _findings(diagnostics: Iterable[Any]) -> list[Finding]:
    return [
        Finding(
            each.kind,
            each.severity,
            each.line or 0,
            each.what[:_LONGEST],
            each.why[:_LONGEST],
            each.advice[:_LONGEST],
        )
        for each, _ in zip(diagnostics, range(_MOST))
    ]
