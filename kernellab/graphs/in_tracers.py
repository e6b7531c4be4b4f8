"""What runs in the process of torch's tracers."""

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
from typing import Any

from kernellab.errors import ArgumentError
from kernellab.graphs.trace_events import breaks_in
from kernellab.records.tracers import Outcome, Traced

_LONGEST = 300
"""Characters of what a tracer says."""

_WATCHED = (bool, int, float, str, list, dict, set, tuple)
"""Kinds of variables around a function of which is noticed that they change."""


@dataclass(frozen=True)
class _Given:
    """A function as it was sent, unpickled anew for each tracer: what one does to its variables
    is no other's business.
    """

    sent: bytes

    def fresh(self) -> tuple[Callable[..., Any], Callable[..., Any], list[tuple[Any, ...]]]:
        """The function, the same with its keywords as tracers get it, arguments of its calls."""
        function, calls, keywords = pickle.loads(self.sent)
        bound = functools.partial(function, **keywords) if keywords else function
        return function, bound, calls


@dataclass
class _Program:
    """What a tracer makes of a function."""

    call: Callable[..., Any]
    size: Callable[[], tuple[int, int | None]]
    """Programs of one call, and operations; asked after the first call."""
    parted: Callable[[], str] = lambda: ""
    """Where it was parted, where there are several."""


@dataclass(frozen=True)
class _Seen:
    """What two calls gave and left behind."""

    results: list[Any]
    arguments: list[Any]
    printed: str
    variables: dict[str, str]


def traced(sent: bytes) -> list[Traced]:
    """Every tracer's row."""
    given = _Given(sent)
    function, bound, calls = given.fresh()
    try:
        expected = _seen(function, bound, calls)
    except Exception as error:
        raise ArgumentError(
            f"the function itself fails with these arguments: {_words(error)}",
            advice="Give arguments, and with again=(...) others, that it takes.",
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
    differs, parted = _difference(expected, seen), program.parted()
    if differs:
        said = "; ".join(filter(None, (differs, _warning(warned))))
        return Traced(name, "wrong", programs, operations, said)
    outcome: Outcome = "parts" if parted or programs > 1 else "whole"
    return Traced(name, outcome, programs, operations, parted)


def _warning(warned: Sequence[warnings.WarningMessage]) -> str:
    """What a tracer warned of, where that is about the function."""
    found = [one for one in warned if one.category.__name__ == "TracerWarning"]
    return f"it warned: {_shortened(str(found[0].message))}" if found else ""


# --------------------------------------------------------------------------------------------------
# Calls, and what they leave
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
    """Have random numbers be those of a call, the same for each tracer and for Python."""
    import torch

    torch.manual_seed(number)
    random.seed(number)


def _copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    import torch

    return tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in args)


def _variables(function: Any) -> Iterator[tuple[str, str]]:
    """Variables that a function names and does not own, in words."""
    if not inspect.isfunction(function):
        return
    around = inspect.getclosurevars(function)
    for name, value in {**around.globals, **around.nonlocals}.items():
        if isinstance(value, _WATCHED):
            yield name, repr(value)[:_LONGEST]


def _difference(expected: _Seen, seen: _Seen) -> str:
    """What differs, the first thing; "" of nothing."""
    ways = (
        ("result", expected.results, seen.results),
        ("argument afterwards", expected.arguments, seen.arguments),
    )
    for what, right, found in ways:
        for number, (one, other) in enumerate(zip(right, found, strict=True)):
            if not _equal(one, other):
                which = "first" if number == 0 else "second"
                return f"another {what} in the {which} call"
    if expected.printed != seen.printed:
        lines, wanted = (text.count("\n") for text in (seen.printed, expected.printed))
        return f"prints {lines} lines and not {wanted}"
    for name, words in expected.variables.items():
        if seen.variables.get(name) != words:
            return f"{name} is {seen.variables.get(name)} afterwards and not {words}"
    return ""


def _equal(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
            return False
        return one.shape == other.shape and torch.allclose(one, other, equal_nan=True)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


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


def _jit() -> Any:
    import torch

    return torch.jit


def _jit_trace(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    made: Any = _jit().trace(_of_tensors(function, args), _tensors(args), check_trace=False)
    calls = sum(node.kind().startswith("aten::") for node in made.inlined_graph.nodes())
    return _Program(lambda *given: made(*_tensors(given)), lambda: (1, calls))


def _jit_script(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    del args
    bound = function.keywords if isinstance(function, functools.partial) else {}
    made: Any = _jit().script(getattr(function, "func", function))
    calls = str(made.inlined_graph).count(" = aten::")
    return _Program(lambda *given: made(*given, **bound), lambda: (1, calls))


def _symbolic_trace(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    import torch.fx

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
    return f"torch ran {', '.join(names)} at once" if names else ""


def _export(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    import torch

    class Called(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return _of_tensors(function, args)(*tensors)

    made = torch.export.export(Called(), _tensors(args))
    calls = sum(node.op.startswith("call_") for node in made.graph.nodes)
    module = made.module()
    return _Program(lambda *given: module(*_tensors(given)), lambda: (1, calls))


def _compile(function: Callable[..., Any], args: tuple[Any, ...]) -> _Program:
    import torch

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

    def parted() -> str:
        return "; ".join(
            f"{one.reason}, line {one.position.line}" if one.position else one.reason
            for one in breaks_in(events)
        )

    return _Program(call, lambda: (len(sizes), sum(sizes)), parted)


def _tensors(args: Sequence[Any]) -> tuple[Any, ...]:
    import torch

    return tuple(one for one in args if isinstance(one, torch.Tensor))


def _of_tensors(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """The function as one of its tensors alone; the rest is as it was captured."""
    import torch

    if all(isinstance(one, torch.Tensor) for one in args) and not isinstance(
        function, functools.partial
    ):
        return function

    def called(*tensors: Any) -> Any:
        left = iter(tensors)
        return function(*(next(left) if isinstance(one, torch.Tensor) else one for one in args))

    return called


TRACERS: dict[str, Callable[[Callable[..., Any], tuple[Any, ...]], _Program]] = {
    "jit.trace": _jit_trace,
    "jit.script": _jit_script,
    "fx.symbolic_trace": _symbolic_trace,
    "lazy tensors": _lazy,
    "export": _export,
    "compile": _compile,
}
"""Torch's tracers, in the order in which they came."""
