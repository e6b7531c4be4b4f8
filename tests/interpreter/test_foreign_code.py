"""What users say of code that the interpreter does not know, and the error that asks them to."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

import kernellab
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter import foreign_code
from tests.kernels.interp import foreign


def test_a_users_own_assembly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_code, "_ASSEMBLY", {})
    x, out = torch.arange(8.0), torch.zeros(2, 8)
    with pytest.raises(UnsupportedOperation, match="inline_assembly"):
        kernellab.run(foreign.of_the_users_own, (1,), x, out, N=8)

    @kernellab.inline_assembly("wonder.f32\n $0, $1, $2;   // no one knows")
    def wonder(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x - 1, x + 1

    kernellab.run(foreign.of_the_users_own, (1,), x, out, N=8)
    assert torch.equal(out, torch.stack([x - 1, x + 1]))


def test_a_users_own_device_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_code, "_SYMBOLS", {})
    x = torch.ones(16)
    with pytest.raises(UnsupportedOperation, match="device_function"):
        kernellab.run(foreign.of_the_users_own_library, (1,), x, N=8)
    kernellab.device_function("__mine_thrice")(lambda x: 3 * x)
    kernellab.run(foreign.of_the_users_own_library, (1,), x, N=8)
    assert x.tolist() == [3.0] * 8 + [1.0] * 8


def test_time_passes() -> None:
    out = torch.zeros(2, dtype=torch.int64)
    before = time.time_ns()
    kernellab.run(foreign.timed, (1,), out)
    assert before <= out[1].item() <= time.time_ns()
    assert out[0].item() >= 0
