"""tl.device_print, tl.static_assert: what a person who looks inside a kernel sees."""

from __future__ import annotations

import torch

import kernellab
from tests.kernels.interp import control, pointers


def test_device_print(capsys) -> None:
    """Every program that takes part, in order; unsigned numbers as such,
    hexadecimal where asked for.
    """
    x = torch.arange(12).to(torch.uint32)
    x[3] = 2**32 - 1
    kernellab.run(control.printing, (3,), x, 7)
    assert capsys.readouterr().out.splitlines() == [
        "pid (0, 0, 0) x: [         0          1          2 4294967295], 7",
        "pid (2, 0, 0) x: [ 8  9 10 11], 7",
        "pid (0, 0, 0) bits: 0x00000000",
        "pid (1, 0, 0) bits: 0x00000004",
        "pid (2, 0, 0) bits: 0x00000008",
    ]


def test_a_pointer_is_printed_as_its_address(capsys) -> None:
    x = torch.zeros(3)
    kernellab.run(pointers.printing, (1,), x)
    first, second = (f"0x{x.data_ptr() + offset:016x}" for offset in (4, 8))
    assert capsys.readouterr().out == f"pid (0, 0, 0) at: [{first} {second}], 7\n"
