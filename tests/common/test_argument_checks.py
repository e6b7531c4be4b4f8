"""Wrong types and values of arguments: one clear error by one check for each kind of argument."""

import itertools
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy
import pytest
import torch

import kernellab
from kernellab.common import arguments
from kernellab.common.text import shown
from kernellab.errors import KernelLabError, OptionError
from tests.kernels.tuned import double
from tests.support.layouts import blocked
from tests.support.made_profiles import made_profile

TYPES = ("*fp32:16", "*fp32:16", "i32")


def flag(value: Any) -> Any:
    return arguments.check_flags(name=value)


CHECKS: dict[str, tuple[Callable[[Any], Any], list[Any], list[Any]]] = {
    # kind of argument -> its check, values that it takes, and others
    "a flag": (flag, [True, 0, numpy.False_], ["yes", 2, None, [], 0.5]),
    "a whole number": (
        partial(arguments.check_whole, "name"),
        [0, 7, numpy.int64(3)],
        [-1, True, "4", 1.5, None, math.nan],
    ),
    "a whole number of a range": (
        partial(arguments.check_whole, "name", least=1, most=64),
        [1, 64],
        [0, 65, 10**30],
    ),
    "a time": (
        partial(arguments.check_duration, "name"),
        [0.5, 30, numpy.float32(2.0)],
        [0, -1, math.inf, math.nan, 10**30, "x", True, None],
    ),
    "a tolerance": (
        partial(arguments.check_tolerance, "name"),
        [0, 1e-3, None],
        [-1, math.inf, math.nan, "x", True, []],
    ),
    "a choice": (
        lambda value: arguments.check_choice("name", value, ("shuffled", "sequential")),
        ["shuffled"],
        ["shufled", "", 5, None, ["shuffled"], b"shuffled"],
    ),
    "a list": (
        lambda value: arguments.listed("name", value, most=10),
        [[1, 2], range(10), iter([1])],
        [5, None, numpy.array(4), range(11), itertools.count()],
    ),
    "a mapping": (
        lambda value: arguments.check_mapping("name", value, '{"BLOCK": 64}'),
        [{}, {"a": 1}],
        [5, "x", [], {5: 1}],
    ),
}


@pytest.mark.parametrize("kind", CHECKS)
def test_a_check_names_the_argument_and_the_value(kind, raised) -> None:
    check, taken, others = CHECKS[kind]
    for value in taken:
        check(value)
    for value in others:
        refused = raised(OptionError, check, value, match="name must ")
        assert shown(value) in refused.problem


@cache
def compilation() -> Any:
    return kernellab.compile(double, *TYPES, BLOCK=64, target="sm_90")


@cache
def tuning() -> Any:
    return tuned()


def compiled(**options: Any) -> Any:
    return kernellab.compile(double, *TYPES, BLOCK=64, **{"record": "stages", **options})


def launched(function: Callable[..., Any], **options: Any) -> Any:
    return function(double, (1,), torch.ones(64), torch.zeros(64), 64, BLOCK=64, **options)


def tuned(**options: Any) -> Any:
    given = {"space": {"BLOCK": [64]}, "workers": 1, "check": False, "progress": False}
    return kernellab.tune(double, (1,), torch.ones(64), torch.zeros(64), 64, **{**given, **options})


@cache
def trace() -> Any:
    return launched(kernellab.trace)


def occupancy(**given: Any) -> Any:
    return compilation().occupancy(**given)


def candidates(**given: Any) -> Any:
    return tuning().candidates(**given)


def find(**given: Any) -> Any:
    return trace().find(lambda step: False, **given)


def chain(**given: Any) -> Any:
    return compilation().source_map.chain(**{"stage": "ttir", "line": 1, **given})


def exact(**given: Any) -> Any:
    return trace().exact(**{"frame": trace()[0].frame, "name": "n", "step": 0, **given})


def save_diagnosis(**given: Any) -> Any:
    diagnosis: Any = kernellab.diagnose(compilation())
    return diagnosis.save(**given)


class Unprintable:
    def __repr__(self) -> str:
        raise TypeError("no words for it")


def name_of(function: Any) -> str:
    """Return the name of the public function that a call of `CALLS` leads to."""
    if isinstance(function, partial):
        inner = function.func
        return str((function.args[0] if inner is launched else inner).__name__)
    return str(function.__name__)


steered = partial(kernellab.compile, double, *TYPES, BLOCK=64, target="sm_90")
NO_NAMES = (5, 1.5, None, [5], b"z_ptr", torch.ones(2))
CALLS: list[tuple[Callable[..., Any], str, Any]] = [
    # a public function, its argument, and a value of a kind that it does not take
    (compiled, "enable_fp_fusion", "yes"),
    (compiled, "seconds", "x"),
    (compiled, "constants", 5),
    (compiled, "record", "x"),
    (compiled, "num_warps", "4"),
    (compiled, "target", 5),
    (partial(launched, kernellab.run), "debug", "x"),
    (partial(launched, kernellab.run), "num_ctas", 3),
    (partial(launched, kernellab.run), "num_stages", 1000),
    (partial(launched, kernellab.run), "num_warps", True),
    (partial(launched, kernellab.run), "order", "shufled"),
    (partial(launched, kernellab.run), "seed", 1.5),
    (partial(launched, kernellab.run), "options", 5),
    (partial(launched, kernellab.check), "most_turns", 0),
    (partial(launched, kernellab.check), "rtol", -1),
    (partial(launched, kernellab.check), "outputs", itertools.count()),
    (partial(launched, kernellab.bisect), "atol", "x"),
    (partial(launched, kernellab.bisect), "skip", itertools.count()),
    (partial(launched, kernellab.validate), "seeds", 0),
    (partial(launched, kernellab.trace), "operations", "yes"),
    (partial(launched, kernellab.trace), "in_place", 5),
    (partial(launched, kernellab.trace), "exact_bytes", "x"),
    (partial(launched, kernellab.trace), "programs", range(10**12)),
    (partial(launched, kernellab.debug), "breakpoints", 1.5),
    (partial(launched, kernellab.profile), "backend", "x"),
    (partial(launched, kernellab.profile), "programs", 0),
    (tuned, "progress", "x"),
    (tuned, "cache", "x"),
    (tuned, "workers", 0),
    (tuned, "seconds", math.inf),
    (tuned, "rtol", "x"),
    (tuned, "space", itertools.count()),
    (kernellab.interpreted, "answers", "torch"),
    (kernellab.interpreted, "on_fault", 5),
    (partial(kernellab.graph, torch.sin, torch.ones(2)), "fullgraph", "x"),
    (partial(kernellab.exercise, "add", None), "seed", "x"),
    (kernellab.device_function, "symbol", 5),
    (occupancy, "registers", -1),
    (occupancy, "warps", 0),
    (candidates, "count", 0),
    (find, "backwards", "x"),
    *((partial(launched, kernellab.check), "outputs", one) for one in NO_NAMES),
    (partial(launched, kernellab.bisect), "rtol", True),
    (tuned, "atol", math.nan),
    *((steered, "target", one) for one in (90, 9.0, b"sm_90", Unprintable())),
    *((chain, "stage", one) for one in (0, [1], numpy.arange(2))),
    *((chain, "line", one) for one in ("1", numpy.arange(2), None)),
    *((exact, name, 1.5) for name in ("frame", "step")),
    (save_diagnosis, "path", 5),
    (partial(launched, kernellab.run), "maxnreg", numpy.dtype("f4")),
    (partial(launched, kernellab.run), "stage", Unprintable()),
    *((steered, "num_ctas", one) for one in (0, 10**50)),
    *((steered, name, -1) for name in ("num_stages", "maxnreg")),
    *((steered, name, 5) for name in ("skip", "stop_after", "pipeline")),
    *((steered, name, one) for name, one in (("skip", [5]), ("pipeline", [()]))),
]


@pytest.mark.parametrize(
    ("call", "name", "value"), CALLS, ids=[f"{name_of(call)} {name}" for call, name, _ in CALLS]
)
def test_a_public_function_refuses_a_value_of_another_kind(call, name, value, raised) -> None:
    error = raised(KernelLabError, call, match=name, **{name: value})
    if call is steered:
        assert getattr(error, "advice", "")


def test_a_space_of_more_configs_than_are_tried_is_refused() -> None:
    space = {"BLOCK": range(1000), "num_warps": range(1000), "num_stages": range(1000)}
    with pytest.raises(KernelLabError, match=r"100,000 .*1,000,000,000"):
        tuned(space=space)


def test_names_of_a_stage_and_a_question_have_a_nearest_one() -> None:
    with pytest.raises(KernelLabError, match="'ttgir'"):
        compilation().stages["tgir"]
    with pytest.raises(KernelLabError, match="'remarks'"):
        compilation().can_answer("remark")
    assert compilation().stages.get("no such stage") is None


SCALARS: dict[str, Callable[[int], Any]] = {
    "NumPy scalar": numpy.int64,
    "NumPy array": numpy.array,
    "tensor": torch.tensor,
}
"""Integers that are not Python's."""


@pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS)
def test_integers_of_numpy_and_torch_are_accepted(scalar) -> None:
    launched(kernellab.run, num_warps=scalar(8), enable_fp_fusion=numpy.bool_(False))
    launched(kernellab.run, order="shuffled", seed=scalar(3))
    launched(kernellab.check, most_turns=scalar(100))
    traced = launched(kernellab.trace, operations=numpy.True_, exact_bytes=scalar(10))
    assert traced.facts.grid == (1, 1, 1)
    compiled(num_warps=scalar(8), num_stages=scalar(2), seconds=scalar(30))
    assert tuning().candidates(scalar(1)) == tuning().candidates(1)
    assert compilation().occupancy(registers=scalar(32)) == compilation().occupancy(registers=32)
    layout = blocked((16, 16), (1, 1), (4, 8), (2, 2), (1, 0))
    assert layout.vector_width(scalar(32)) == layout.vector_width(32)
    assert layout.holders((scalar(3), 5)) == layout.holders((3, 5))
    assert made_profile().tree(depth=scalar(1)) == made_profile().tree(depth=1)
