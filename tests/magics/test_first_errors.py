"""Errors of the first hour in a real notebook, and that following the advice helps."""

import pytest
import torch

from tests.support.first_cells import PLAIN, advice, succeeds

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


CELLS = (
    "%load_ext kernellab",
    "import torch, triton, triton.language as tl\nx, y = torch.ones(16), torch.zeros(16)",
)


@pytest.mark.slow
@NO_GPU
@pytest.mark.parametrize("cell", ["x.cuda()", 'torch.zeros(3, device="cuda")'])
def test_without_a_gpu(lab, cell, messages):
    assert advice(lab, cell) == messages


@pytest.mark.slow
@NO_GPU
def test_tensors_of_the_cpu_where_triton_launches_itself(lab, messages):
    succeeds(lab, f"@triton.jit\n{PLAIN}")
    words = "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"
    told = advice(lab, f"def launched():\n    raise ValueError({words!r})\nlaunched()")
    assert told == messages


def test_a_forgotten_decorator(lab, messages):
    succeeds(lab, PLAIN)
    told = advice(lab, "\nscale[(1,)](x, y, BLOCK=16)")
    assert told == messages
    assert ", line 1)" in told


def test_a_call_without_a_grid(lab):
    succeeds(lab, f"@triton.jit\n{PLAIN}")
    told = advice(lab, "scale(x, y,\n    BLOCK=16)")
    assert "scale[(programs,)](x, y,\n" in told or "scale[(programs,)](x, y," in told


def test_a_call_of_a_tile_kernel_without_a_grid(lab, messages):
    succeeds(lab, f"%%tilekernel --no-compile\n@triton.jit\n{PLAIN}")
    outcome = lab.run("scale(x, y, BLOCK=16)")
    assert outcome.error == "NoGrid"
    assert outcome.message == messages
    succeeds(lab, "scale[(1,)](x, y, BLOCK=16)")


def test_lines_of_a_generated_kernel_that_a_cell_does_not_take(lab, messages):
    words = "Could not find an active GPU backend"
    told = advice(lab, f"def set_driver():\n    raise RuntimeError({words!r})\nset_driver()")
    assert "triton_helpers" in told
    assert told == messages
    assert advice(lab, "print(__file__)") == messages


def test_a_kernel_from_exec(lab, messages):
    assert advice(lab, f"exec({f'@triton.jit{chr(10)}{PLAIN}'!r})") == messages


def test_a_missing_import(lab, messages):
    assert advice(lab, "np.zeros(3)") == messages


def test_a_slip_in_a_name(lab, messages):
    assert advice(lab, "trition.jit") == messages
    assert "tl.constexpr" in advice(lab, "constexpr")


def test_what_is_asked_of_a_launch_and_of_a_kernel(lab, messages):
    succeeds(lab, f"%%tilekernel --no-compile\n@triton.jit\n{PLAIN}")
    assert advice(lab, "scale[(1,)](x, y, BLOCK=16) + 1") == messages
    assert "kernellab.compile(scale, ...).explore" in advice(lab, "scale.explore()")
    assert "kernellab.check(scale, ...)" in advice(lab, "scale.check(x)")


def test_other_errors_get_no_advice(lab):
    assert (advice(lab, "1 / 0"), advice(lab, "(lambda: 3)[0]")) == ("", "")
    assert advice(lab, "undefined_name") == ""


def test_without_the_extension_there_is_no_advice(notebook):
    lab = notebook("%load_ext kernellab", "%unload_ext kernellab")
    assert advice(lab, "np.zeros(3)") == ""
