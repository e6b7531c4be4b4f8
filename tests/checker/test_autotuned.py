"""What an autotuner does to the arguments of a kernel between the trials of its configs."""

import inspect
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from tests.support.compiled import compiled

CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})]


@triton.jit
def scales(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 3, mask=i < n)  # WRITES


@triton.jit
def adds_up(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + i % 4, i * 1.0, mask=i < n)  # WRITES


@triton.jit
def fills(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, i * 2.0, mask=i < n)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


def tuned(kernel: Any, configs: Any = None, **settings: Any) -> Any:
    return triton.autotune(configs or CONFIGS, **{"key": ["n"], **settings})(kernel)


def grid(constants: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(50, constants["BLOCK"]),)


def line_of(kernel: Any, mark: str) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return next(number for number, line in enumerate(lines, first) if mark in line)


@pytest.mark.parametrize("kernel", [scales, adds_up])
def test_an_argument_that_trials_change_is_found(kernel, messages) -> None:
    (one,) = kernellab.check(tuned(kernel), grid, torch.ones(50), 50)
    assert (one.kind, one.argument, one.line) == ("autotune", "x_ptr", line_of(kernel, "WRITES"))
    assert one.verified
    assert one == messages


@triton.jit
def clamps(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0), mask=i < n)


def test_trials_that_change_nothing_are_a_note() -> None:
    (one,) = kernellab.check(tuned(clamps), grid, torch.randn(50), 50)
    assert (one.kind, one.severity, one.verified) == ("autotune", "note", False)


@pytest.mark.parametrize(
    ("kernel", "x", "configs", "settings"),
    [
        (scales, torch.ones(50), None, {"restore_value": ["x_ptr"]}),
        (scales, torch.ones(50), None, {"pre_hook": lambda values, reset_only=False: None}),
        (scales, torch.ones(50), CONFIGS[:1], {}),
        (adds_up, torch.zeros(50), None, {"reset_to_zero": ["x_ptr"]}),
        (fills, torch.ones(50), None, {}),
    ],
)
def test_what_is_restored_or_not_read_is_right(kernel, x, configs, settings) -> None:
    assert not kernellab.check(tuned(kernel, configs, **settings), grid, x, 50)


@triton.jit
def copies_block(x_desc, y_desc, BLOCK: tl.constexpr):
    y_desc.store([tl.program_id(0) * BLOCK], x_desc.load([tl.program_id(0) * BLOCK]))


def test_the_hook_of_a_config_sets_the_block_of_descriptors() -> None:
    def set_block(values: dict[str, Any]) -> None:
        for name in ("x_desc", "y_desc"):
            values[name].block_shape = [values["BLOCK"]]

    kernel = tuned(copies_block, [triton.Config({"BLOCK": 32}, pre_hook=set_block)], key=[])
    x, y = (TensorDescriptor.from_tensor(torch.rand(64), [1]) for _ in range(2))
    assert "32xf32" in compiled(kernel, x, y).stages["ttir"].text
    x, y = (TensorDescriptor.from_tensor(torch.rand(64), [1]) for _ in range(2))
    assert not kernellab.check(kernel, (2,), x, y, expect={"y_desc": x.base})


@pytest.mark.usefixtures("no_fixes")
def test_run_and_check_agree_on_what_is_reset() -> None:
    kernel = tuned(scales, reset_to_zero=["x_ptr"])
    x = torch.ones(50)
    kernellab.run(kernel, grid, x, 50)
    assert not x.any()
    found = kernellab.check(kernel, grid, torch.ones(50), 50, expect={"x_ptr": torch.ones(50) * 3})
    assert set(found.kinds) == {"autotune", "wrong-result"}
    (one,) = found.of_kind("autotune")
    assert one.verified
    assert "in place of reset_to_zero" in one.advice
    assert not kernellab.check(
        tuned(scales, restore_value=["x_ptr"]), grid, torch.ones(50), 50,
        expect={"x_ptr": torch.ones(50) * 3},
    )  # fmt: skip


def test_a_key_that_is_not_a_parameter_is_found() -> None:
    try:
        kernel = tuned(scales, key=["N"], restore_value=["x_ptr"])
    except ValueError:
        pytest.skip("this version of Triton refuses the name itself")
    (one,) = kernellab.check(kernel, grid, torch.ones(50), 50)
    assert (one.kind, one.line) == ("autotune", line_of(scales, "def scales"))
