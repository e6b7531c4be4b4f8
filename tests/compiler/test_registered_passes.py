"""Passes written in Python, inside Triton's pipeline; the page's own examples run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from xdsl.dialects.builtin import ModuleOp

import kernellab

PAGE = Path(__file__).parents[2] / "docs" / "passes.md"


@triton.jit
def divide(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    for _ in range(3):
        x = x / y
    tl.store(out_ptr + at, x, mask=at < n)


@pytest.fixture
def example() -> Callable[[str], Any]:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    namespace: dict[str, Any] = {"kernellab": kernellab}
    for text in examples:
        exec(re.sub(r"^kernellab\..*", "", text, flags=re.MULTILINE), namespace)  # noqa: S102
    return namespace.__getitem__


def compiled() -> Any:
    types = ("*fp32", "*fp32", "*fp32", "i32")
    return kernellab.compile(divide, *types, BLOCK=128, target="sm_90")


def validated() -> Any:
    x, y, out = torch.rand(100), torch.rand(100) + 1, torch.zeros(100)
    return kernellab.validate(divide, (1,), x, y, out, 100, BLOCK=128, target="sm_90")


def test_loops_are_counted(example, capsys) -> None:
    with kernellab.register_pass(example("trips"), after="ttir.loop_unroll", kernels=divide):
        compilation = compiled()
    assert capsys.readouterr().out == "3 turns\n"
    (run,) = (one for one in compilation.passes if one.name == "trips")
    assert (run.label, run.changed) == ("ttir.trips", False)
    assert "cubin" in compilation.stages


@pytest.mark.slow
def test_a_division_is_guarded(example) -> None:
    plain = compiled()
    with kernellab.register_pass(example("GuardDivision"), after="ttgir.coalesce"):
        guarded = compiled()
        validation = validated()
    (run,) = (one for one in guarded.passes if one.name == "GuardDivision")
    assert run.changed
    assert run.op_changes["arith.select"] == 1
    assert "setp.eq.f32" not in plain.stages["ptx"].text
    assert guarded.stages["ptx"].text != plain.stages["ptx"].text
    assert "ttgir.GuardDivision" in [one.label for one in validation.passes]
    assert compiled().stages["ptx"].text == plain.stages["ptx"].text, "it was removed"


def test_loads_are_swapped_and_nothing_changes(example) -> None:
    with kernellab.register_pass(example("swap_loads"), after="ttgir.coalesce", kernels="divide"):
        found = validated()
    assert found, found
    assert "ttgir.swap_loads" in [one.label for one in found.passes]


def raises(module: ModuleOp) -> None:
    raise ValueError(module.name)


def test_a_pass_for_another_kernel() -> None:
    with kernellab.register_pass(raises, after="coalesce", kernels="another"):
        assert compiled().passes
