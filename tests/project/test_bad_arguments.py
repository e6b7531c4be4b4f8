"""Every argument of every public function, given what means nothing: an error of KernelLab's that
names the argument, never one from the inside, and never silence.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy
import pandas
import pytest
import torch

import kernellab
from kernellab.errors import KernelLabError
from kernellab.records.graphs import Level
from tests.kernels.tuned import double
from tests.support.made_profiles import made_profile

TYPES = ("*fp32:16", "*fp32:16", "i32")


class Unclassed:
    """An object that raises when it is asked what it is."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Unwritten:
    """An object that cannot be written."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Unwilling:
    """An object that raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


NOTHING = [object(), torch.ones(2), [None], {"a": 1}, int, math.nan, Unclassed(), Unwritten()]
"""What hardly anything may be."""

NO_FLAG = [*NOTHING, "yes", "x", "", 5, -1, [], b"x"]
NO_WHOLE_NUMBER = [*NOTHING, True, "4", "x", 1.5, -1, [], None]
NO_COUNT = [*NO_WHOLE_NUMBER, 0]
NO_TEXT = [*NOTHING, 5, True, [], b"x", ["x"], 1.5]
NO_PATH = [*NO_TEXT, None, "a\0b", ("a",), "x" * 100_000]
NO_MAPPING = [*(one for one in NOTHING if type(one) is not dict), 5, "x", [], "", {5: 1}]
NO_TIME = [*NOTHING, "x", True, 0, -1, math.inf, 10**30, None, []]
NO_TOLERANCE = [*NOTHING, "x", True, -1, math.inf, 10**30, []]
NO_NAMES = [*NOTHING, 5, True, 0, 1.5, [5]]
NO_CHOICE = [*NO_TEXT, "x", ""]
NO_OBJECT = [*NOTHING, 5, "x", None, []]
"""For a kernel, a trace, a compilation."""


def launched(function: Any) -> Callable[..., Any]:
    """A function that launches kernels, waiting for one argument by name."""

    def call(**asked: Any) -> Any:
        x, z = torch.ones(64), torch.zeros(64)
        kernel, grid = asked.pop("kernel", double), asked.pop("grid", (1,))
        return function(kernel, grid, x, z, 64, BLOCK=64, **asked)

    return call


def tuned(**asked: Any) -> Any:
    x, z = torch.ones(64), torch.zeros(64)
    given = {"space": {"BLOCK": [64]}, "workers": 1, "check": False, "progress": False}
    kernel, grid = asked.pop("kernel", double), asked.pop("grid", (1,))
    return kernellab.tune(kernel, grid, x, z, 64, **{**given, **asked})


def compiled(**asked: Any) -> Any:
    kernel = asked.pop("kernel", double)
    return kernellab.compile(kernel, *TYPES, BLOCK=64, **{"record": "stages", **asked})


def diagnosed(**asked: Any) -> Any:
    subject = asked.pop("subject", double)
    return kernellab.diagnose(subject, *TYPES, BLOCK=64, **asked)


@cache
def compilation() -> Any:
    return kernellab.compile(double, *TYPES, BLOCK=64, target="sm_90")


@cache
def trace() -> Any:
    return launched(kernellab.trace)()


@cache
def tuning() -> Any:
    return tuned()


@cache
def layout() -> Any:
    return kernellab.Layout.blocked(
        shape=(16, 16), size_per_thread=(1, 1), threads_per_warp=(4, 8), warps_per_cta=(2, 2),
        order=(1, 0),
    )  # fmt: skip


BACKEND = {
    "num_warps": [*(one for one in NO_COUNT if one is not None), 3, 1000, 10**30],
    "num_stages": [*(one for one in NO_WHOLE_NUMBER if one is not None), 1000, 10**30],
    "num_ctas": [*(one for one in NO_COUNT if one is not None), 3, 17, 10**30],
    "maxnreg": [*(one for one in NO_COUNT if one is not None), 1000],
    "enable_fp_fusion": NO_FLAG,
    "debug": NO_FLAG,
    "launch_pdl": NO_FLAG,
    "sanitize_overflow": NO_FLAG,
    "default_dot_input_precision": NO_CHOICE,
    "ptx_options": NO_TEXT,
    "extern_libs": [*NOTHING, 5, "x", {"a": "no such file"}, {"a": 5}],
    "supported_fp8_dtypes": [*NOTHING, 5, "x"],
}
LAUNCH = {"kernel": NO_OBJECT, "grid": [*NOTHING, "x", b"x", (), -1, 1.5, True, (1, 1, 1, 1)]}
TARGET = {"target": [*NOTHING, 5, "x", "", [], True]}
ORDER = {
    "stage": NO_CHOICE, "order": NO_CHOICE, "bounds": NO_CHOICE,
    "seed": [one for one in NO_WHOLE_NUMBER if one is not None],
    "options": [*(one for one in NOTHING if type(one) is not dict), 5, "x", []],
}  # fmt: skip

TABLE: dict[str, tuple[Callable[..., Any], dict[str, list[Any]]]] = {
    "run": (
        launched(kernellab.run),
        {**LAUNCH, **BACKEND, **ORDER, "config": [*NOTHING, "x", -1, 5, True]},
    ),
    "check": (
        launched(kernellab.check),
        {
            **LAUNCH, **TARGET, "outputs": [*NO_NAMES, None], "most_turns": NO_COUNT,
            "expect": [one for one in [*NOTHING, 5, "x", {"no_such": 1}] if one is not None],
            "rtol": [one for one in NO_TOLERANCE if one is not None],
            "atol": [one for one in NO_TOLERANCE if one is not None],
        },
    ),
    "accesses": (launched(kernellab.accesses), {**LAUNCH, **TARGET}),
    "diagnose": (
        diagnosed,
        {
            "subject": [one for one in NO_OBJECT if one is not None],
            "grid": LAUNCH["grid"],
            **TARGET,
            "counts": [one for one in NO_FLAG if one is not None],
        },
    ),
    "counters": (
        launched(kernellab.counters),
        {**LAUNCH, **TARGET, "metrics": [*NOTHING, 5, [], [5]], "seconds": NO_TIME},
    ),
    "profile": (
        launched(kernellab.profile),
        {
            **LAUNCH, "name": NO_TEXT, "backend": NO_CHOICE, "context": NO_CHOICE,
            "data": NO_CHOICE, "mode": [*NOTHING, 5, "x"],
            "hook": [one for one in [*NOTHING, 5, "x"] if one is not int],
            "detail": NO_CHOICE, "allow_occupancy_change": NO_FLAG,
            "programs": [one for one in NO_COUNT if one is not None],
        },
    ),
    "bisect": (
        launched(kernellab.bisect),
        {
            **LAUNCH, **TARGET, "rtol": NO_TOLERANCE, "atol": NO_TOLERANCE,
            "skip": [*NO_NAMES, "no_such_pass"], "pipeline": [*NOTHING, 5, "x"],
        },
    ),
    "trace": (
        launched(kernellab.trace),
        {
            **LAUNCH, **TARGET, "programs": [*NOTHING, "x", True, -1, 5, [], None, b"x"],
            "operations": NO_FLAG, "in_place": NO_FLAG, "exact_bytes": NO_WHOLE_NUMBER,
            "expect": [one for one in [*NOTHING, 5, "x", {"no_such": 1}] if one is not None],
        },
    ),
    "debug": (
        launched(kernellab.debug),
        {
            **LAUNCH, "program": [*NOTHING, "x", True, -1, 5, [], None],
            "breakpoints": [*NOTHING, "x", True, -1, 0, "0", "²", "9" * 5000, 1.5, None],
            "in_place": NO_FLAG,
        },
    ),
    "compile": (
        compiled,
        {
            **TARGET, **BACKEND, "kernel": NO_OBJECT, "record": NO_CHOICE, "options": NO_MAPPING,
            "constants": NO_MAPPING, "skip": [*NO_NAMES, None, "no_such_pass"],
            "stop_after": [*NO_CHOICE], "pipeline": [*NOTHING, 5, "x"],
            "language": [*NO_TEXT, "x", "ptx"], "seconds": NO_TIME,
        },
    ),
    "compare": (
        lambda **v: kernellab.compare(**{"left": compilation(), "right": compilation(), **v}),
        {"left": NO_OBJECT, "right": NO_OBJECT},
    ),
    "tune": (
        tuned,
        {
            **{name: value for name, value in LAUNCH.items() if name != "grid"}, **TARGET,
            "grid": [object(), "x", 1.5, [None], int],
            "space": [*NOTHING, 5, "x", []], "key": [object(), 5, True, 1.5, "x", ["x"]],
            "prune": [5, "x", [], {}], "executor": [*NOTHING, 5, "x"],
            "reference": [5, "x", torch.ones(2), {}, [None]],
            "rtol": NO_TOLERANCE, "atol": NO_TOLERANCE, "check": NO_FLAG,
            "bytes": ["x", -1, True, [], math.nan], "flops": ["x", -1, True, [], math.nan],
            "baselines": [5, "x", [], {"a": 5}], "gpus": [*NOTHING, 5, "x", True],
            "workers": [one for one in NO_COUNT if one is not None], "seconds": NO_TIME,
            "cache": NO_FLAG, "progress": NO_FLAG, "recorded": [5, "x\0", object(), math.nan],
        },
    ),
    "interpreted": (
        kernellab.interpreted,
        {
            **TARGET, **{name: one for name, one in ORDER.items() if name != "options"},
            "answers": NO_CHOICE,
        },
    ),
    "on_launch": (
        lambda **v: kernellab.on_launch(**v).remove(),
        {name: [*(one for one in NOTHING if one is not int), 5, "x"] for name in ("enter", "exit")},
    ),
    "load": (kernellab.load, {"path": NO_PATH}),
    "graph": (
        lambda **v: kernellab.graph(v.pop("function", torch.sin), torch.ones(2), **v),
        {
            "function": [*(one for one in NOTHING if one is not None), 5, "x", None, []],
            "gpu": NO_CHOICE,
            "backward": NO_FLAG,
            "dynamic": [one for one in NO_FLAG if one is not None],
            "mode": NO_CHOICE,
            "fullgraph": NO_FLAG,
            "options": NO_MAPPING,
            "levels": NO_FLAG,
            "backend": NO_CHOICE,
        },
    ),
    "exercise": (
        lambda **v: kernellab.exercise(v.pop("name", "add"), v.pop("kernel", None), **v),
        {
            "name": NO_CHOICE,
            "kernel": [],  # whatever it is, what it lacks is an answer
            "seed": [one for one in NO_WHOLE_NUMBER if one is not None],
        },
    ),
    "tracers": (
        lambda **v: kernellab.tracers(v.pop("function", torch.sin), torch.ones(2), **v),
        {
            "function": [*(one for one in NOTHING if one is not None), 5, "x", None, []],
            "again": [object(), torch.ones(2), {"a": 1}, 5, "x"],
        },
    ),
    "read_ncu": (
        lambda **asked: kernellab.read_ncu(**{"path": "no such file", **asked}),
        {"path": NO_PATH, "kernel": NO_TEXT, "launch": NO_COUNT, "gpu": NO_TEXT},
    ),
    "show": (
        lambda **asked: kernellab.show(*asked.values()),
        {"record": [*NOTHING, 5, "x", None], "annotations": []},
    ),
    "device_function": (kernellab.device_function, {"symbol": [*NO_TEXT, ""]}),
    "inline_assembly": (kernellab.inline_assembly, {"text": [*NO_TEXT, ""]}),
    "tunings": (kernellab.tunings, {"kernel": NO_OBJECT}),
    "uninitialized": (kernellab.uninitialized, {"tensor": [object(), 5, "x", None, [None], int]}),
    "TileKernel": (
        lambda **asked: kernellab.TileKernel(asked.pop("function", double), **asked),
        {
            "function": [*NO_OBJECT, lambda: 1], "debug": NO_FLAG, "noinline": NO_FLAG,
            "repr": [5, "x"], "launch_metadata": [5, "x"], "no_such_setting": [1],
            "do_not_specialize": [5, "x", b"x", ["x"], [99], {"a": 1}, object(), int],
            "do_not_specialize_on_alignment": [5, "x", b"x", ["x"], torch.ones(2)],
        },
    ),
}  # fmt: skip

METHODS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "Compilation.can_answer": (lambda v: compilation().can_answer(v), NO_CHOICE),
    "Compilation.layouts": (lambda v: compilation().layouts(v), NO_CHOICE),
    "Compilation.conversions": (lambda v: compilation().conversions(v), NO_CHOICE),
    "Compilation.module": (lambda v: compilation().module(v), NO_CHOICE),
    "Compilation.stages": (lambda v: compilation().stages[v], NO_CHOICE),
    "Compilation.explore": (lambda v: compilation().explore(v), NO_OBJECT),
    "Compilation.save": (lambda v: compilation().save(v), NO_PATH),
    "Compilation.occupancy registers": (
        lambda v: compilation().occupancy(registers=v),
        [one for one in NO_WHOLE_NUMBER if one is not None],
    ),
    "Compilation.occupancy shared_bytes": (
        lambda v: compilation().occupancy(shared_bytes=v),
        [one for one in NO_WHOLE_NUMBER if one is not None],
    ),
    "Compilation.occupancy warps": (
        lambda v: compilation().occupancy(warps=v),
        [one for one in NO_COUNT if one is not None],
    ),
    "Compilation.estimate grid": (
        lambda v: compilation().estimate(v, torch.ones(64), torch.ones(64), 64), LAUNCH["grid"],
    ),
    "Compilation.estimate gpu": (
        lambda v: compilation().estimate((1,), torch.ones(64), torch.ones(64), 64, gpu=v),
        NO_CHOICE,
    ),
    "Compilation.roofline microseconds": (
        lambda v: compilation().roofline(
            (1,), torch.ones(64), torch.ones(64), 64, microseconds=v
        ),
        [one for one in NO_TIME if one is not None],
    ),
    "Tuning.candidates": (
        lambda v: tuning().candidates(v), [one for one in NO_COUNT if one is not None],
    ),
    "Trace.at": (lambda v: trace().at(v), [*NO_TEXT[:6], "x", 10**12, 1.5]),
    "Trace.show": (lambda v: trace().show(v), [*NOTHING, "x", 10**12]),
    "Trace.find": (lambda v: trace().find(v), [*NOTHING, "x", lambda: True]),
    "Trace.find after": (lambda v: trace().find(lambda s: False, after=v), [*NOTHING, "x", None]),
    "Trace.find backwards": (lambda v: trace().find(lambda s: False, backwards=v), NO_FLAG),
    "Trace.history": (lambda v: trace().history(v), [*NO_TEXT, "y", ""]),
    "Trace.history program": (
        lambda v: trace().history("offsets", v),
        [*NOTHING, "x", "all", -1, 5, []],
    ),
    "Trace.memory": (lambda v: trace().memory(v), NO_CHOICE),
    "Trace.memory step": (lambda v: trace().memory("x_ptr", v), [*NOTHING, "x", 10**12]),
    "Trace.final_memory": (lambda v: trace().final_memory(v), NO_CHOICE),
    "Trace.diff": (lambda v: trace().diff(v), [*NOTHING, 5, "x", None]),
    "Trace.diff rtol": (lambda v: trace().diff(trace(), rtol=v), NO_TOLERANCE),
    "Trace.diff atol": (lambda v: trace().diff(trace(), atol=v), NO_TOLERANCE),
    "Trace.save": (lambda v: trace().save(v), NO_PATH),
    "Tuning.trial": (lambda v: tuning().trial(v), [*NOTHING, "x", -1, 99, True]),
    "Tuning.plot": (lambda v: tuning().plot(v), NO_CHOICE),
    "Tuning.plot options": (lambda v: tuning().plot(width=v), [5]),
    "Tuning.show": (lambda v: tuning().show(plot=v), NO_CHOICE),
    "Tuning.show compilations": (lambda v: tuning().show(compilations=v), NOTHING),
    "Tuning.show options": (lambda v: tuning().show(width=v), [5]),
    "Tuning.merged": (lambda v: tuning().merged(v), NO_OBJECT),
    "Tuning.with_kernel": (
        lambda v: tuning().with_kernel(v),
        [Unwilling(), *(one for one in NO_OBJECT if one is not None)],
    ),
    "Tuning.with_kernel run_source": (
        lambda v: tuning().with_kernel(double, run_source=v),
        NO_FLAG,
    ),
    "Tuning.save": (lambda v: tuning().save(v), NO_PATH),
    "Tuning.load": (kernellab.Tuning.load, NO_PATH),
    "Tunings.save": (lambda v: kernellab.tunings(double).save(v), NO_PATH),
    "Tunings.load": (kernellab.Tunings.load, NO_PATH),
    "Profile.table": (lambda v: made_profile().table(v), [*NO_CHOICE, {"a": 1}]),
    "Profile.table include": (lambda v: made_profile().table(include=v), [*NO_TEXT, "("]),
    "Profile.table exclude": (lambda v: made_profile().table(exclude=v), [*NO_TEXT, "("]),
    "Profile.tree": (lambda v: made_profile().tree(v), NO_CHOICE),
    "Profile.tree threshold": (lambda v: made_profile().tree(threshold=v), [*NOTHING, "x", True]),
    "Profile.tree depth": (
        lambda v: made_profile().tree(depth=v),
        [one for one in NO_WHOLE_NUMBER if one is not None],
    ),
    "Profile.filter metric": (lambda v: made_profile().filter(metric=v), NO_CHOICE),
    "Profile.timeline": (lambda v: made_profile().timeline(v), [*NOTHING, "x", -1, 99, True]),
    "Profile.diff": (lambda v: made_profile().diff(v), NO_OBJECT),
    "Profile.plot": (lambda v: made_profile().plot(v), NO_CHOICE),
    "Profile.save": (lambda v: made_profile().save(v), NO_PATH),
    "Level.diff": (lambda v: Level("aten", "", ()).diff(v), [Unwilling(), *NO_OBJECT]),
    "Layout.plot": (lambda v: layout().plot(by=v), NO_CHOICE),
    "Layout.plot at": (lambda v: layout().plot(at=v), [*NOTHING, 5, "x"]),
    "Layout.plot hardware": (lambda v: layout().plot(hardware=v), NO_FLAG),
    "Layout.plot element_bits": (lambda v: layout().plot(element_bits=v), NO_COUNT),
    "Layout.plot.save": (lambda v: layout().plot().save(v), [*NO_PATH, "a.zip"]),
    "Layout.show": (lambda v: layout().show(by=v), [*NO_CHOICE, pandas.NA]),
    "Layout.show to": (lambda v: layout().show(v), [*NOTHING, 5, "x"]),
    "Layout.show.to_html": (lambda v: layout().show().to_html(v), NO_PATH),
    "Layout.moves_to": (lambda v: layout().moves_to(v), NO_OBJECT),
    "Layout.vector_width": (lambda v: layout().vector_width(v), NO_COUNT),
    "Layout.holders": (
        lambda v: layout().holders(v),
        [object(), "x", None, 5, (99, 0), int, torch.eye(2).to_sparse(), MagicMock(), pandas.NA],
    ),
    "Layout.padded_shared": (
        lambda v: kernellab.Layout.padded_shared(shape=(8, 8), paddings=v, order=(1, 0)),
        [*NOTHING, 5, "x", [(1,)], [5]],
    ),
}  # fmt: skip


def blocked(**changed: Any) -> Any:
    return kernellab.Layout.blocked(
        **{
            "shape": (16, 16), "size_per_thread": (1, 1), "threads_per_warp": (4, 8),
            "warps_per_cta": (2, 2), "order": (1, 0), **changed,
        }
    )  # fmt: skip


LISTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "run extern_libs": (lambda v: launched(kernellab.run)(extern_libs=v), "extern_libs"),
    "check outputs": (lambda v: launched(kernellab.check)(outputs=v), "outputs"),
    "bisect skip": (lambda v: launched(kernellab.bisect)(skip=v), "skip"),
    "bisect pipeline": (lambda v: launched(kernellab.bisect)(pipeline=v), "pipeline"),
    "trace programs": (lambda v: launched(kernellab.trace)(programs=v), "programs"),
    "debug program": (lambda v: launched(kernellab.debug)(program=v), "program"),
    "debug breakpoints": (lambda v: launched(kernellab.debug)(breakpoints=v), "breakpoints"),
    "tune space": (lambda v: tuned(space=v), "space"),
    "tune space values": (lambda v: tuned(space={"BLOCK": v}), "BLOCK"),
    "tune key": (lambda v: tuned(key=v), "key"),
    "tune recorded": (lambda v: tuned(recorded=v), "recorded"),
    "Tunings": (kernellab.Tunings, "tunings"),
    "Tunings.show others": (
        lambda v: kernellab.Tunings([tuning()]).show(others=v), "others",
    ),
    "Tunings.show compilations": (
        lambda v: kernellab.Tunings([tuning()]).show(compilations=v), "compilations",
    ),
    "Tunings.plot others": (lambda v: kernellab.Tunings([tuning()]).plot(others=v), "others"),
    "Tuning.show compilations": (lambda v: tuning().show(compilations=v), "compilations"),
    "Layout.blocked shape": (lambda v: blocked(shape=v), "shape"),
    "Layout.blocked order": (lambda v: blocked(order=v), "list of whole numbers"),
    "Layout.padded_shared": (
        lambda v: kernellab.Layout.padded_shared(shape=(8, 8), paddings=v, order=(1, 0)),
        "paddings",
    ),
    "Layout.holders": (lambda v: layout().holders(v), "element"),
    "Layout.plot at": (lambda v: layout().plot(at=v), "at="),
    "Trace.of_programs": (lambda v: trace().of_programs(v), "programs"),
    "View.to_html rooms": (lambda v: trace().show().to_html("a.html", rooms=v), "rooms="),
}  # fmt: skip
"""Where a list is wanted, and what the error names."""


class EndlessList(list[int]):
    """A list with one item, by its length."""

    def __init__(self) -> None:
        super().__init__([1])

    def __iter__(self) -> Iterator[int]:
        return itertools.repeat(1)


ENDLESS: dict[str, Callable[[], Any]] = {
    "count": itertools.count,
    "repeat": lambda: itertools.repeat("x"),
    "range": lambda: range(10**12),
    "list": EndlessList,
    "generator": lambda: (1 for _ in itertools.count()),
}


def written(value: Any) -> str:
    words = repr(value) if type(value) in (str, int, float, list) else type(value).__name__
    return words[:20]


def cases() -> Iterator[Any]:
    for name, (_, parameters) in TABLE.items():
        for parameter in parameters:
            yield pytest.param(name, parameter, id=f"{name} {parameter}")


def refused(call: Callable[[], Any], where: str, value: Any) -> str:
    """What the error says; fails where there is none, or one from the inside."""
    try:
        call()
    except KernelLabError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"{where} of {written(value)}: {error!r}") from error
    raise AssertionError(f"{where} of {written(value)} is accepted")


@pytest.mark.parametrize(("function", "parameter"), list(cases()))
def test_what_means_nothing_is_refused(function: str, parameter: str) -> None:
    call, parameters = TABLE[function]
    for value in parameters[parameter]:
        said = refused(partial(call, **{parameter: value}), f"{function}({parameter}=)", value)
        assert len(said) < 3000


@pytest.mark.parametrize("function", TABLE)
def test_mocks_and_odd_objects_never_cause_an_error_from_the_inside(function: str) -> None:
    call, parameters = TABLE[function]
    for parameter in parameters:
        for value in (MagicMock(spec=str), Mock(), numpy.array(3), 10**5000):
            with suppress(KernelLabError):
                call(**{parameter: value})


@pytest.mark.parametrize("door", LISTS)
def test_lists_without_an_end_are_refused_with_the_arguments_name(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, words = LISTS[door]
    for name, endless in ENDLESS.items():
        assert words in refused(partial(call, endless()), f"{door} of {name}", endless)


def test_a_space_of_more_configs_than_anybody_tries_is_refused() -> None:
    space = {"BLOCK": range(1000), "num_warps": range(1000), "num_stages": range(1000)}
    assert "1,000,000,000 configs" in refused(lambda: tuned(space=space), "space", 0)


def test_an_argument_that_raises_is_told_by_its_name() -> None:
    said = refused(lambda: launched(kernellab.check)(expect=Unclassed()), "", 0)
    assert "argument 'expect' is a Unclassed, whose __class__ raises RuntimeError: no class" in said
    said = refused(lambda: tuned(bytes=10**5000), "", 0)
    assert "argument 'bytes' is an integer of 16,610 bits" in said


def test_what_a_launch_takes_by_position_has_the_kernels_name_for_it() -> None:
    said = refused(lambda: kernellab.run(double, (1,), torch.ones(2), Unclassed(), 2), "", 0)
    assert "argument 'z_ptr' is a Unclassed, whose __class__ raises" in said


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_results_refuse_what_means_nothing(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a path that is taken after all is written here
    call, values = METHODS[method]
    for value in values:
        refused(partial(call, value), method, value)


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        ("compile", {"enable_fp_fusion": "yes"}, "must be True or False, and 'yes'"),
        ("compile", {"seconds": "x"}, "seconds='x' is no time in seconds"),
        ("compile", {"constants": 5}, "constants=5 is no mapping"),
        ("compile", {"language": "ptx"}, "language='ptx' is said of an IR text"),
        ("run", {"debug": "x"}, "debug must be True or False, and 'x'"),
        ("run", {"num_ctas": 3}, "num_ctas=3 is no power of two"),
        ("run", {"num_stages": 1000}, "num_stages=1000 is out of range"),
        ("run", {"num_warps": True}, "num_warps must be an integer, and True"),
        ("run", {"order": "shufled"}, "Did you mean 'shuffled'"),
        ("run", {"default_dot_input_precision": "tf32x4"}, "Did you mean 'tf32x3'"),
        ("trace", {"operations": "yes"}, "operations='yes' says neither yes nor no"),
        ("tune", {"progress": "x"}, "progress='x' says neither yes nor no"),
    ],
)  # fmt: skip
def test_the_error_says_the_argument_the_value_and_what_is_accepted(
    function: str, given: dict[str, Any], words: str
) -> None:
    call, _ = TABLE[function]
    assert words in refused(lambda: call(**given), function, given)


def test_names_of_a_stage_and_a_question_have_a_nearest_one() -> None:
    assert "Did you mean 'ttgir'" in refused(lambda: compilation().stages["tgir"], "stages", "tgir")
    asked = refused(lambda: compilation().can_answer("remark"), "can_answer", "remark")
    assert "Did you mean 'remarks'" in asked
    assert compilation().stages.get("no such stage") is None


def test_every_argument_of_every_public_function_is_in_the_table() -> None:
    functions = {
        name: getattr(kernellab, name)
        for name in kernellab.__all__
        if inspect.isfunction(getattr(kernellab, name)) and "ipython" not in name
    }
    functions["interpreted"] = kernellab.interpreted
    missing = [
        (name, parameter)
        for name, function in functions.items()
        for parameter, one in inspect.signature(function).parameters.items()
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        if name not in TABLE or parameter not in TABLE[name][1]
    ]
    assert not missing


def test_flags_and_numbers_of_numpy_are_taken() -> None:
    run = launched(kernellab.run)
    run(num_warps=numpy.int64(8), enable_fp_fusion=numpy.bool_(False))
    launched(kernellab.trace)(operations=numpy.True_, exact_bytes=numpy.int32(10))


def test_every_public_error_is_one_of_the_package() -> None:
    assert kernellab.MachineError is kernellab.errors.MachineError
