"""How much of a kernel's code is kept: that of the latest specializations."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.common.containers import Latest
from kernellab.interpreter.execution import program, stepping_code


@triton.jit
def plus(x_ptr, N: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + N)


@triton.jit
def minus(x_ptr, N: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(x_ptr + i, tl.load(x_ptr + i) - N)


def made(module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """References to all that a function makes from now on."""
    make: Callable[..., Any] = getattr(module, name)
    found = []

    def noting(*args: Any) -> Any:
        result = make(*args)
        found.append(weakref.ref(result))
        return result

    monkeypatch.setattr(module, name, noting)
    return found


def test_the_code_of_the_latest_specializations_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_KEPT", 3)
    codes = made(program, "make_program", monkeypatch)
    x = torch.zeros(8)
    for number in [1, 2, 3, 1, 4, 1, 4, 5]:
        kernellab.run(plus, (1,), x, number)
    assert x.tolist() == [21.0] * 8
    gc.collect()
    assert [one() is not None for one in codes] == [True, False, False, True, True]
    kernellab.run(plus, (1,), x, 2)
    assert x.tolist() == [23.0] * 8
    assert len(codes) == 6


def test_so_is_the_code_for_stepping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_KEPT", 2)
    monkeypatch.setattr(stepping_code, "MOST_KEPT", 2)
    codes = made(program, "make_program", monkeypatch)
    for number in range(4):
        trace = kernellab.trace(minus, (1,), torch.zeros(8), number)
        assert trace.final_memory("x_ptr").tolist() == [-number] * 8
    del trace
    gc.collect()
    assert [one() is not None for one in codes] == [False, False, True, True]


def test_what_is_asked_for_stays() -> None:
    latest: Latest[str] = Latest(2)
    latest.keep(1, "one")
    latest.keep(2, "two")
    assert latest.get(1) == "one"
    latest.keep(3, "three")
    assert [latest.get(key) for key in (1, 2, 3)] == ["one", None, "three"]
    latest.keep(3, "new")
    assert (len(latest), latest.get(3)) == (2, "new")
