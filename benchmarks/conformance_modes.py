"""What each mode of `benchmarks.conformance` puts in the place of a GPU, for all of a process.

Modes: "interpreter", "gpu" and "null"; see there.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy
import torch
from torch.overrides import TorchFunctionMode

import kernellab
from kernellab import interpreter
from kernellab.compiler.targets import multiprocessor_count, parse_target
from kernellab.interpreter.execution.program import program_code
from kernellab.records import Launch, Run

TARGET = "sm_90"

MODE_VARIABLE = "KERNELLAB_CONFORMANCE_MODE"
"""Tells the mode to a Python that a test starts; see `conformance_child`."""

inside = ExitStack()
"""Leaves the mode when it is closed."""


def enter(mode: str) -> None:
    """Put the mode into force, until `inside` is closed or the process ends."""
    stand_in_for_scipy()
    inside.enter_context(kernellab.interpreted(target=TARGET))
    inside.enter_context(answers_of_cuda())
    if mode == "gpu":
        inside.enter_context(_CudaOnCpu())
    else:
        say_interpreter()
    if mode == "null":
        inside.enter_context(patch.object(interpreter, "launch", launch_nothing))


def say_interpreter() -> None:
    """Let test files believe that an interpreter runs:
    they ask a function, which asks the environment.
    """
    with patch.dict(os.environ, {"TRITON_INTERPRET": "1"}):
        helpers = importlib.import_module("triton._internal_testing")
    vars(helpers)["is_interpreter"] = lambda: True


def launch_nothing(kernel: Any, _grid: Any, call: Any, target: Any, *_options: Any) -> Run:
    """The null control's launch: the kernel is compiled for the interpreter, and does not run."""
    program_code(kernel, call, target)
    launch = Launch(kernel.__name__, (1, 1, 1), call.specialization, {}, call.options)
    return Run(launch, "interpreter", target)


def stand_in_for_scipy() -> None:
    """Where SciPy is not installed, the one function that a test file takes from it."""
    if importlib.util.find_spec("scipy") is not None:
        return
    scipy, stats = ModuleType("scipy"), ModuleType("scipy.stats")
    vars(stats)["kstest"] = kolmogorov_smirnov
    vars(scipy)["stats"] = stats
    sys.modules |= {"scipy": scipy, "scipy.stats": stats}


def kolmogorov_smirnov(sample: list[float], _name: str, args: tuple[float, float]) -> Any:
    """The largest distance between the distribution of a sample and the uniform one
    from args[0] on, args[1] wide.
    """
    x = numpy.sort(numpy.asarray(sample))
    expected = numpy.clip((x - args[0]) / args[1], 0, 1)
    above = numpy.arange(1, len(x) + 1) / len(x) - expected
    below = expected - numpy.arange(len(x)) / len(x)
    return SimpleNamespace(statistic=max(above.max(), below.max()))


@contextlib.contextmanager
def answers_of_cuda() -> Iterator[None]:
    """What `torch.cuda` says where the emulated GPU is, as far as test files ask."""
    target = parse_target(TARGET)
    capability = int(target.arch[:-1]), int(target.arch[-1])
    properties = SimpleNamespace(
        name=f"emulated {target}",
        major=capability[0],
        minor=capability[1],
        multi_processor_count=multiprocessor_count(target),
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "set_device": None,
        "synchronize": None,
        "current_stream": SimpleNamespace(cuda_stream=0),
        "device": contextlib.nullcontext(),
        "get_device_capability": capability,
        "get_device_properties": properties,
        "get_device_name": properties.name,
    }
    with ExitStack() as changed:
        for name, answer in answers.items():
            changed.enter_context(patch.object(torch.cuda, name, _answering(answer)))
        yield


def _answering(answer: Any) -> Callable[..., Any]:
    """A function that always gives this; a Mock would keep every call."""

    def function(*_: Any, **__: Any) -> Any:
        return answer

    return function


class _CudaOnCpu(TorchFunctionMode):
    """torch's functions, with "cpu" for "cuda" wherever a device is named."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if func is torch.matmul:
            return _matmul_of_cuda(*args, **(kwargs or {}))
        keywords = {name: _on_cpu(value) for name, value in (kwargs or {}).items()}
        if keywords.get("pin_memory"):
            del keywords["pin_memory"]
        return func(*map(_on_cpu, args), **keywords)


def _matmul_of_cuda(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """References add up in fp32, as a GPU's products do;
    a CPU's of 16-bit types are less exact than what they are to judge.
    """
    if a.element_size() == 2:
        return torch.matmul(a.float(), b.float()).to(a.dtype)
    return torch.matmul(a, b)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return value
