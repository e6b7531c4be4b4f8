"""Autotuned launches leave their timings behind, as a GPU's would."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.tuning.autotuned import NOTE


def autotuned_kernel(times):
    """An autotuned kernel whose benchmarker makes its times up, and whose launches do nothing: there is no GPU."""

    @triton.autotune(
        [triton.Config({"BLOCK": block}, num_warps=2) for block in (32, 64, 128)],
        key=["n"],
        do_bench=lambda _launch, quantiles: next(times),
    )
    @triton.jit
    def scale(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

    scale.fn.run = lambda *_args, **_keywords: None
    return scale


def test_each_new_key_of_an_autotuned_kernel_is_a_sweep() -> None:
    inf = float("inf")
    times = iter([[3.0, 2.9, 3.2], [1.0, 0.9, 1.2], [inf, inf, inf], [1.0, 0.9, 1.1], [2.0, 1.9, 2.1], [5.0, 4.9, 5.1]])  # fmt: skip
    scale = autotuned_kernel(times)
    assert len(kernellab.tunings(scale)) == 0
    for n in (1000, 1000, 50):
        scale[(1,)](torch.zeros(n), n)
    found = kernellab.tunings(scale)
    assert [one.key for one in found] == [{"n": 1000}, {"n": 50}]
    first = found[0]
    assert first.best.candidate.values["BLOCK"] == 64
    assert first.best.timing is not None
    assert (first.best.timing.lower, first.best.timing.upper) == (0.9, 1.2)
    assert first.trial(2).is_dropped
    assert first.notes == (NOTE,)
    assert first.arguments == {"x_ptr": "float32[1000]", "n": "1000"}
    assert found.apply().choose({"n": 40}).values["BLOCK"] == 32
    assert first.compilation(1).specialization.constants == {(2,): 64}
    assert list(found.table["BLOCK"]) == [64, 32]


def test_nothing_is_noted_where_nothing_was_timed() -> None:
    scale = autotuned_kernel(iter([]))
    with kernellab.interpreted():
        scale[(8,)](torch.zeros(1000), 1000)
    assert len(kernellab.tunings(scale)) == 0


def test_a_function_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(kernellab.ArgumentError, match="is no Triton kernel"):
        kernellab.tunings(len)
