"""Which keywords are a kernel's and which are a function's own, and launches that are bound."""

import inspect
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.common.arguments import parameters_first
from kernellab.errors import ArgumentError
from kernellab.records import BoundLaunch
from tests.kernels import launched

pytestmark = pytest.mark.usefixtures("goes_on")

N = 64


def estimate(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> Any:
    return compile_kernel(kernel, grid, *args, **keywords).estimate(grid, *args, **keywords)


def roofline(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> Any:
    return compile_kernel(kernel, grid, *args, **keywords).roofline(grid, *args, **keywords)


def diagnose(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> Any:
    return kernellab.diagnose(kernel, *args, grid=grid, **keywords)


def compile_kernel(kernel: Any, _grid: Any, *args: Any, **keywords: Any) -> Any:
    return kernellab.compile(kernel, *args, **keywords)


def tune(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> Any:
    return kernellab.tune(kernel, grid, *args, space=[{"num_warps": 4}], **keywords)


FUNCTIONS: dict[str, tuple[Callable[..., Any], str, Any]] = {
    "run": (kernellab.run, "config", None), "check": (kernellab.check, "outputs", ()),
    "trace": (kernellab.trace, "in_place", False), "debug": (kernellab.debug, "in_place", False),
    "accesses": (kernellab.accesses, "target", None), "bisect": (kernellab.bisect, "rtol", 0.0),
    "tune": (tune, "cache", True), "profile": (kernellab.profile, "name", ""),
    "diagnose": (diagnose, "counts", None), "counters": (kernellab.counters, "seconds", 300.0),
    "compile": (compile_kernel, "record", "passes"), "estimate": (estimate, "gpu", None),
    "roofline": (roofline, "microseconds", None),
}  # fmt: skip
"""Function -> one of its own options, and the option's default."""


def kernel_with(option: str, folder: Path) -> Any:
    file = folder / "kernels.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        f"def kernel(x_ptr, n, {option}: tl.constexpr, BLOCK: tl.constexpr):\n"
        "    offsets = tl.arange(0, BLOCK)\n"
        "    tl.store(x_ptr + offsets, offsets, mask=offsets < n)\n"
    )
    return runpy.run_path(str(file))["kernel"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_parameter_wins_also_with_the_value_that_the_option_has_by_default(
    name, tmp_path, monkeypatch, raised
) -> None:
    function, option, default = FUNCTIONS[name]
    if name == "counters":  # ncu takes long, where there is one
        monkeypatch.setattr(shutil, "which", lambda _name: None)
    kernel = kernel_with(option, tmp_path)
    x = torch.zeros(N, dtype=torch.int32)
    function(kernel, (1,), x, N, **{option: default}, BLOCK=N)
    raised(ArgumentError, function, kernel, (1,), x, N, BLOCK=N, match=option)


@parameters_first(lambda subject: subject)
def with_options(
    subject: Any, extra: Any, args: Any, keywords: Any, *, a: int = 1, b: int = 2
) -> Any:
    return extra, args, keywords, a, b


def test_keywords_are_split_by_the_subjects_names(raised) -> None:
    assert with_options([], 5, 6, a=7, c=8) == (5, (6,), {"c": 8}, 7, 2)
    assert with_options(["a"], 5, a=1) == (5, (), {"a": 1}, 1, 2)
    assert with_options(["a"], 5, 6, a=7) == (5, (6,), {}, 7, 2)
    assert with_options(["x", "b", "extra"], 5, 6, b=2, extra=3) == (
        5, (6,), {"b": 2, "extra": 3}, 1, 2,
    )  # fmt: skip
    assert with_options(subject=["b"], extra=4, b=3) == (4, (), {"b": 3}, 1, 2)
    raised(TypeError, with_options, [], match="with_options")
    names = list(inspect.signature(with_options).parameters)
    assert names == ["subject", "extra", "args", "a", "b", "keywords"]


def bound() -> BoundLaunch:
    x = torch.arange(float(N))
    return kernellab.bind(launched.add, (1,), x, torch.ones(N), torch.zeros(N), N, BLOCK=N)


@pytest.mark.slow
def test_a_bound_launch_is_given_in_place_of_its_parts() -> None:
    launch = bound()
    z = launch.args[2]
    assert not kernellab.check(launch, outputs="z_ptr", expect=torch.add)
    assert kernellab.trace(launch, programs=0).facts.kernel == "add"
    kernellab.debug(launch)
    assert len(kernellab.accesses(launch)) == 3
    assert kernellab.bisect(launch).label is None
    diagnosis: Any = kernellab.diagnose(launch)
    assert diagnosis.grid == (1, 1, 1)
    sweep = kernellab.tune(launch, space=[{"num_warps": 2}], check=False, cache=False)
    assert len(sweep.trials) == 1
    assert (z == 0).all()
    assert kernellab.profile(launch).kernels[0].launches == 1
    assert torch.equal(z, launch.args[0] + 1)
    z.zero_()
    assert kernellab.run(launch).launch.kernel == "add"
    assert torch.equal(z, launch.args[0] + 1)


def test_a_records_launch_is_a_bound_launch_for_its_target() -> None:
    findings = kernellab.check(bound(), target="sm_80")
    assert findings.launch is not None
    assert kernellab.trace(findings.launch).facts.target == "sm_80"
    assert kernellab.accesses(findings.launch, target="sm_90").target == "sm_90"


def test_a_bound_launch_takes_no_more_arguments(raised) -> None:
    raised(ArgumentError, kernellab.check, bound(), (2,), match="add")
    raised(ArgumentError, kernellab.trace, bound(), num_warps=8, match="add")
