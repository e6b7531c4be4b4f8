"""Run torch's tracers on a function, in a separate process."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import pickle
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.fx

from kernellab.errors import ArgumentError
from kernellab.graphs.trace_events import breaks_in

_jit: Any = torch.jit

_LONGEST = 300
"""Characters of a tracer's message."""

_WATCHED = (bool, int, float, str, list, dict, set, tuple)
"""Types of the variables around a function whose changes are noticed."""


Outcome = Literal["whole", "parts", "fixed", "wrong", "refused"]


@dataclass(frozen=True)
class Traced:
    """A function, captured by one tracer and called again.

    Attributes:
        tracer: "jit.trace", "jit.script", "fx.symbolic_trace", "lazy tensors", "export", "compile".
        outcome: "whole": one program that does what the function does, also with other inputs;
            "parts": several, with Python between them; "fixed": right for the inputs that it was
            captured with, and an error for others; "wrong": another result than the function's,
            or another effect, and no error; "refused": an error while it was captured.
        programs: how many there are for one call.
        operations: how many they have; None where a tracer does not say.
        says: the error, what differs, or where it was parted.
    """

    tracer: str
    outcome: Outcome
    programs: int
    operations: int | None
    says: str


@dataclass(frozen=True)
class _Given:
    """A function as it was sent, unpickled for each tracer, so that no tracer sees what another did
    to its variables.
    """

    sent: bytes

    def fresh(self) -> tuple[Callable[..., Any], Callable[..., Any], list[tuple[Any, ...]]]:
        """Return the function, the function with its keywords bound, and the calls' arguments."""
        function, calls, keywords = pickle.loads(self.sent)
        bound = functools.partial(function, **keywords) if keywords else function
        return function, bound, calls


@dataclass
class _Program:
    """A function as a tracer captured it."""

    call: Callable[..., Any]
    size: Callable[[], tuple[int, int | None]]
    """Returns the number of programs of one call and of operations, after the first call."""
    breaks: Callable[[], str] = lambda: ""
    """Returns where the function was split into several programs, or ""."""


@dataclass(frozen=True)
class _Seen:
    """The results and side effects of the calls."""

    results: list[Any]
    arguments: list[Any]
    printed: str
    variables: dict[str, str]


def traced(sent: bytes) -> list[Traced]:
    """Return a row for every tracer."""
    given = _Given(sent)
    function, bound, calls = given.fresh()
    try:
        expected = _seen(function, bound, calls)
    except Exception as error:
        raise ArgumentError(
            f"the function itself fails with these arguments: {_words(error)}",
            advice="Pass arguments, and others as again=(...), that it accepts.",
        ) from error
    return [_row(name, tracer, given, expected) for name, tracer in TRACERS.items()]


def _row(name: str, tracer: Callable[..., _Program], given: _Given, expected: _Seen) -> Traced:
    function, bound, calls = given.fresh()
    printed = io.StringIO()
    counted: list[tuple[int, int | None]] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            _seed(-1)
            with contextlib.redirect_stdout(printed):
                program = tracer(bound, _copied(calls[0]))

            def call(*args: Any) -> Any:
                result = program.call(*args)
                counted.append(program.size())
                return result

            seen = _seen(function, call, calls, printed)
        except Exception as error:
            programs, operations = counted[0] if counted else (0, None)
            failed: Outcome = "fixed" if counted else "refused"
            return Traced(name, failed, programs, operations, _words(error))
    programs, operations = counted[0]
    differs, breaks = _difference(expected, seen), program.breaks()
    if differs:
        said = "; ".join(filter(None, (differs, _warning(warned))))
        return Traced(name, "wrong", programs, operations, said)
    outcome: Outcome = "parts" if breaks or programs > 1 else "whole"
    return Traced(name, outcome, programs, operations, breaks)


def _warning(warned: Sequence[warnings.WarningMessage]) -> str:
    """Return a tracer's first warning about the function, or ""."""
    ours = [warning for warning in warned if warning.category.__name__ == "TracerWarning"]
    return f"it warned: {_shortened(str(ours[0].message))}" if ours else ""


# --------------------------------------------------------------------------------------------------
# Calls, and their effects
# --------------------------------------------------------------------------------------------------


def _seen(
    function: Any,
    call: Callable[..., Any],
    calls: list[tuple[Any, ...]],
    printed: io.StringIO | None = None,
) -> _Seen:
    printed = printed or io.StringIO()
    results, arguments = [], []
    for number, args in enumerate(calls):
        mine = _copied(args)
        _seed(number)
        with contextlib.redirect_stdout(printed):
            results.append(call(*mine))
        arguments.append(mine)
    return _Seen(results, arguments, printed.getvalue(), dict(_variables(function)))


def _seed(number: int) -> None:
    """Seed random numbers for a call, in the same way for each tracer and for Python."""
    torch.manual_seed(number)
    random.seed(number)


def _copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)


def _variables(function: Any) -> Iterator[tuple[str, str]]:
    """Yield the global and nonlocal variables of a function with their reprs."""
    if not inspect.isfunction(function):
        return
    around = inspect.getclosurevars(function)
    for name, value in {**around.globals, **around.nonlocals}.items():
        if isinstance(value, _WATCHED):
            yield name, repr(value)[:_LONGEST]


def _difference(expected: _Seen, seen: _Seen) -> str:
    """Describe the first difference; "" if there is none."""
    ways = (
        ("result", expected.results, seen.results),
        ("argument afterwards", expected.arguments, seen.arguments),
    )
    for what, right, actual in ways:
        for number, (left, other) in enumerate(zip(right, actual, strict=True)):
            if not _equal(left, other):
                which = "first" if number == 0 else "second"
                return f"different {what} in the {which} call"
    if expected.printed != seen.printed:
        lines, wanted = (text.count("\n") for text in (seen.printed, expected.printed))
        return f"prints {lines} lines instead of {wanted}"
    for name, words in expected.variables.items():
        if seen.variables.get(name) != words:
            return f"{name} is {seen.variables.get(name)} afterwards instead of {words}"
    return ""


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
            return False
        return left.shape == right.shape and torch.allclose(left, right, equal_nan=True)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    return _shortened(f"{kind}: {lines[0]}" if lines else kind)


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# --------------------------------------------------------------------------------------------------
# Tracers
# --------------------------------------------------------------------------------------------------


def _jit_trace(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    made: Any = _jit.trace(_of_tensors(function, args), _tensors(args), check_trace=False)
    calls = sum(node.kind().startswith("aten::") for node in made.inlined_graph.nodes())
    return _Program(lambda *given: made(*_tensors(given)), lambda: (1, calls))


def _jit_script(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    del args
    bound = function.keywords if isinstance(function, functools.partial) else {}
    made: Any = _jit.script(getattr(function, "func", function))
    calls = str(made.inlined_graph).count(" = aten::")
    return _Program(lambda *given: made(*given, **bound), lambda: (1, calls))


def _symbolic_trace(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    made = torch.fx.symbolic_trace(_of_tensors(function, args))
    calls = sum(node.op.startswith("call_") for node in made.graph.nodes)
    return _Program(lambda *given: made(*_tensors(given)), lambda: (1, calls))


def _lazy(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    from kernellab.torch_api import lazy_tensors

    del args
    lazy_tensors.forget()
    return _Program(
        lazy_tensors.lazily(function),
        lambda: (lazy_tensors.programs_run(), None),
        lambda: _sent_on(lazy_tensors.operations_sent_on()),
    )


def _sent_on(names: list[str]) -> str:
    return f"torch ran {', '.join(names)} immediately" if names else ""


def _export(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    class Called(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return _of_tensors(function, args)(*tensors)

    made = torch.export.export(Called(), _tensors(args))
    calls = sum(node.op.startswith("call_") for node in made.graph.nodes)
    module = made.module()
    return _Program(lambda *given: module(*_tensors(given)), lambda: (1, calls))


def _compile(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    from kernellab.torch_api.events import Event, events_heard

    del args
    events: list[Event] = []
    sizes: list[int] = []

    def backend(module: Any, inputs: Any) -> Any:
        del inputs
        sizes.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module.forward

    torch.compiler.reset()
    made = torch.compile(function, backend=backend)

    def call(*given: Any) -> Any:
        with events_heard(events):
            return made(*given)

    def breaks() -> str:
        return "; ".join(
            f"{each.reason}, line {each.position.line}" if each.position else each.reason
            for each in breaks_in(events)
        )

    return _Program(call, lambda: (len(sizes), sum(sizes)), breaks)


def _tensors(args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(arg for arg in args if isinstance(arg, torch.Tensor))


def _of_tensors(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the function as a function of its tensors alone, with the other arguments fixed."""
    has_only_tensors = all(isinstance(arg, torch.Tensor) for arg in args)
    if has_only_tensors and not isinstance(function, functools.partial):
        return function

    def called(*tensors: Any) -> Any:
        left = iter(tensors)
        return function(*(next(left) if isinstance(arg, torch.Tensor) else arg for arg in args))

    return called


TRACERS: dict[str, Callable[[Callable[..., Any], tuple[Any, ...]], _Program]] = {
    "jit.trace": _jit_trace,
    "jit.script": _jit_script,
    "fx.symbolic_trace": _symbolic_trace,
    "lazy tensors": _lazy,
    "export": _export,
    "compile": _compile,
}
"""Torch's tracers, the oldest first."""
