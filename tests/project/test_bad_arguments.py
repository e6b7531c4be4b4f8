"""Every argument of every public function, given what means nothing: an error of KernelLab's that
names the argument, never one from the inside, and never silence.
"""

from __future__ import annotations

import inspect
import io
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

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


NOTHING = [object(), torch.ones(2), [None], {"a": 1}, int, math.nan]
"""What hardly anything may be."""

NO_FLAG = [*NOTHING, "yes", "x", "", 5, -1, [], b"x"]
NO_WHOLE_NUMBER = [*NOTHING, True, "4", "x", 1.5, -1, [], None]
NO_COUNT = [*NO_WHOLE_NUMBER, 0]
NO_TEXT = [*NOTHING, 5, True, [], b"x", ["x"], 1.5]
NO_PATH = [*NO_TEXT, None, "a\0b", ("a",), "x" * 300]
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


def compared(**asked: Any) -> Any:
    x, z = torch.ones(64), torch.zeros(64)
    first, second = asked.pop("first", double), asked.pop("second", double)
    return kernellab.equal(first, second, asked.pop("grid", (1,)), x, z, 64, BLOCK=64, **asked)


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
    "bind": (
        launched(kernellab.bind),
        {**LAUNCH},
    ),
    "equal": (
        compared,
        {
            **TARGET, "first": NO_OBJECT, "second": NO_OBJECT, "grid": LAUNCH["grid"],
            "seeds": [one for one in NO_COUNT if one is not None],
        },
    ),
    "validate": (
        launched(kernellab.validate),
        {
            **LAUNCH, **TARGET, "seeds": [one for one in NO_COUNT if one is not None],
            "skip": [*NO_NAMES, "no_such_pass"], "pipeline": [*NOTHING, 5, "x"],
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
            "answers": NO_CHOICE, "on_fault": NO_CHOICE,
        },
    ),
    "on_launch": (
        lambda **v: kernellab.on_launch(**v).remove(),
        {name: [*(one for one in NOTHING if one is not int), 5, "x"] for name in ("enter", "exit")},
    ),
    "load": (
        lambda **v: kernellab.load(**{"path": __file__, **v}),
        {"path": NO_PATH, "trust": NO_FLAG},
    ),
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
            "kwargs": NO_MAPPING,
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
        [*(one for one in NO_OBJECT if one is not None)],
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
    "Level.diff": (lambda v: Level("aten", "", ()).diff(v), [*NO_OBJECT]),
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
        [object(), "x", None, 5, (99, 0), int, torch.eye(2).to_sparse(), pandas.NA],
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
    "Layout.blocked order": (lambda v: blocked(order=v), "list of integers"),
    "Layout.padded_shared": (
        lambda v: kernellab.Layout.padded_shared(shape=(8, 8), paddings=v, order=(1, 0)),
        "paddings",
    ),
    "Layout.holders": (lambda v: layout().holders(v), "element"),
    "Layout.plot at": (lambda v: layout().plot(at=v), "at must be"),
    "Trace.of_programs": (lambda v: trace().of_programs(v), "programs"),
    "View.to_html tabs": (lambda v: trace().show().to_html("a.html", tabs=v), "tabs="),
}  # fmt: skip
"""Where a list is wanted, and what the error names."""


ENDLESS: dict[str, Callable[[], Any]] = {
    "count": itertools.count,
    "range": lambda: range(10**12),
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


@pytest.mark.slow
@pytest.mark.parametrize(("function", "parameter"), list(cases()))
def test_what_means_nothing_is_refused(function: str, parameter: str) -> None:
    call, parameters = TABLE[function]
    for value in parameters[parameter]:
        said = refused(partial(call, **{parameter: value}), f"{function}({parameter}=)", value)
        assert len(said) < 3000


@pytest.mark.slow
@pytest.mark.parametrize("entry_point", LISTS)
def test_lists_without_an_end_are_refused_with_the_arguments_name(
    entry_point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, words = LISTS[entry_point]
    for name, endless in ENDLESS.items():
        assert words in refused(partial(call, endless()), f"{entry_point} of {name}", endless)


def test_a_space_of_more_configs_than_anybody_tries_is_refused() -> None:
    space = {"BLOCK": range(1000), "num_warps": range(1000), "num_stages": range(1000)}
    assert "at most 100,000 configs, got 1,000,000,000" in refused(
        lambda: tuned(space=space), "space", 0
    )


@pytest.mark.slow
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
        ("compile", {"enable_fp_fusion": "yes"}, "must be True or False, got 'yes'"),
        ("compile", {"seconds": "x"}, "seconds must be a time in seconds above 0"),
        ("compile", {"constants": 5}, "constants must be a dict whose keys are names, got 5."),
        ("compile", {"language": "ptx"}, "language='ptx' applies to an IR text"),
        ("run", {"debug": "x"}, "debug must be True or False, got 'x'"),
        ("run", {"num_ctas": 3}, "num_ctas must be a power of two, got 3"),
        ("run", {"num_stages": 1000}, "num_stages=1000 is out of range"),
        ("run", {"num_warps": True}, "num_warps must be an integer, got True"),
        ("run", {"order": "shufled"}, "Did you mean 'shuffled'"),
        ("run", {"default_dot_input_precision": "tf32x4"}, "Did you mean 'tf32x3'"),
        ("trace", {"operations": "yes"}, "operations must be True or False, got 'yes'."),
        ("tune", {"progress": "x"}, "progress must be True or False, got 'x'."),
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


SCALARS: dict[str, Callable[[int], Any]] = {
    "NumPy scalar": numpy.int64,
    "NumPy array": numpy.array,
    "tensor": torch.tensor,
}
"""Integers that are not Python's."""


@pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS)
def test_integers_of_numpy_and_torch_are_accepted(scalar: Callable[[int], Any]) -> None:
    launched(kernellab.run)(num_warps=scalar(8), enable_fp_fusion=numpy.bool_(False))
    launched(kernellab.run)(order="shuffled", seed=scalar(3))
    launched(kernellab.check)(most_turns=scalar(100))
    traced = launched(kernellab.trace)(operations=numpy.True_, exact_bytes=scalar(10))
    assert traced.facts.grid == (1, 1, 1)
    compiled(num_warps=scalar(8), num_stages=scalar(2), seconds=scalar(30))
    assert tuning().candidates(scalar(1)) == tuning().candidates(1)
    assert compilation().occupancy(registers=scalar(32)) == compilation().occupancy(registers=32)
    assert layout().vector_width(scalar(32)) == layout().vector_width(32)
    assert layout().holders((scalar(3), 5)) == layout().holders((3, 5))
    assert made_profile().tree(depth=scalar(1)) == made_profile().tree(depth=1)


ODD_KINDS: dict[str, Callable[[], Any]] = {
    "NumPy integer": lambda: numpy.int64(4),
    "negative NumPy integer": lambda: numpy.int64(-3),
    "NumPy float": lambda: numpy.float32(1.5),
    "NumPy bool": lambda: numpy.bool_(True),
    "NumPy string": lambda: numpy.str_("sm_90"),
    "array without axes": lambda: numpy.array(4),
    "array": lambda: numpy.array([1, 2]),
    "tensor without axes": lambda: torch.tensor(4),
    "bool tensor without axes": lambda: torch.tensor(True),
    "sparse tensor": lambda: torch.eye(3).to_sparse(),
    "quantized tensor": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "meta tensor": lambda: torch.empty(4, device="meta"),
    "Tensor, the class": lambda: torch.Tensor,
    "torch dtype": lambda: torch.float32,
    "generator": lambda: (number for number in (1, 2)),
    "Series": lambda: pandas.Series([1, 2]),
    "DataFrame": lambda: pandas.DataFrame({"a": [1]}),
    "NaT": lambda: pandas.NaT,
    "lone surrogate": lambda: "\ud800",
    "text with a NUL": lambda: "a\0b",
    "integer of 400 digits": lambda: 10**400,
    "negative integer of 400 digits": lambda: -(10**400),
    "complex": lambda: 1 + 2j,
    "Fraction": lambda: Fraction(1, 2),
    "Decimal": lambda: Decimal(4),
    "range": lambda: range(3),
    "frozenset": lambda: frozenset({1}),
    "memoryview": lambda: memoryview(b"abc"),
    "Path": lambda: Path("x"),
    "Ellipsis": lambda: ...,
    "slice": lambda: slice(1),
    "nested lists": lambda: [[[]]],
    "dict of integers": lambda: {1: 2},
    "tuple without items": tuple,
    "strings": lambda: ["a", "b"],
}
"""Kinds of values that arrive by accident, from a data frame or a file, say."""

SLOW_FUNCTIONS = ("graph", "counters", "tracers")
"""Each call of them starts a process."""


def called_with(call: Callable[..., Any], parameter: str, value: Any) -> Any:
    return call(**{parameter: value})


def odd_calls() -> Iterator[Any]:
    calls: dict[str, Callable[[Any], Any]] = {
        f"{name} {parameter}": partial(called_with, call, parameter)
        for name, (call, parameters) in TABLE.items()
        if name not in SLOW_FUNCTIONS
        for parameter in parameters
    }
    calls |= {name: call for name, (call, _) in METHODS.items()}
    calls |= {f"{name}, a list": call for name, (call, _) in LISTS.items()}
    yield from (pytest.param(call, id=name) for name, call in calls.items())


@pytest.mark.slow
@pytest.mark.parametrize("call", list(odd_calls()))
def test_odd_kinds_of_values_are_accepted_or_refused_clearly(
    call: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    inside = {}
    for kind, make in ODD_KINDS.items():
        try:
            call(make())
        except KernelLabError:
            continue
        except Exception as error:
            inside[kind] = repr(error)
    assert not inside


def test_every_public_error_is_one_of_the_package() -> None:
    assert kernellab.MachineError is kernellab.errors.MachineError
