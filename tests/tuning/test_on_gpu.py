"""Sweeps on a GPU that is there: kernels that break its context, hang on it, work in place; and Triton's own autotuner."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from tests.kernels.tuned import add_one, autotuned_double, double, product, wrong_in_some

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

N = 1 << 20


@triton.jit
def reaches_far(x_ptr, z_ptr, n, BLOCK: tl.constexpr, FAR: tl.constexpr):
    """z = x; with FAR, written to where no memory is."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets.to(tl.int64) + FAR, tl.load(x_ptr + offsets, mask=inside), mask=inside)


@triton.jit
def waits(x_ptr, z_ptr, n, BLOCK: tl.constexpr, FOR: tl.constexpr):
    """z = x, once an element of x is at least FOR."""
    while tl.atomic_add(x_ptr, 0.0) < FOR:
        pass
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside), mask=inside)


def programs(meta):
    return (triton.cdiv(N, meta["BLOCK"]),)


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")


def reasons(tuning: kernellab.Tuning) -> list[str | None]:
    dropped = [one.outcome.dropped for one in tuning.trials]
    return [None if one is None else one.reason for one in dropped]


def test_a_config_that_breaks_the_cuda_context_is_dropped_and_the_sweep_goes_on() -> None:
    x, z = tensors()
    space = [{"BLOCK": 256, "FAR": 0}, {"BLOCK": 512, "FAR": 1 << 44}, {"BLOCK": 1024, "FAR": 0}]
    tuning = kernellab.tune(reaches_far, programs, x, z, N, space=space, cache=False)
    assert reasons(tuning) == [None, "crash", None]
    why: Any = tuning.trials[1].outcome.dropped
    assert "illegal memory access" in why.why
    assert all(tuning.trials[number].timing is not None for number in (0, 2))
    assert float((x + 1).sum()) == 2 * N  # this process's own context is whole


def test_a_config_that_hangs_on_the_gpu_is_stopped_and_the_sweep_goes_on() -> None:
    x, z = tensors()
    space = [{"BLOCK": 256, "FOR": 0}, {"BLOCK": 512, "FOR": 2}, {"BLOCK": 1024, "FOR": 0}]
    tuning = kernellab.tune(waits, programs, x, z, N, space=space, seconds=6, cache=False)
    assert reasons(tuning) == [None, "time-out", None]
    assert all(tuning.trials[number].timing is not None for number in (0, 2))


def test_a_kernel_that_works_in_place_gets_its_inputs_back_and_leaves_ours_alone() -> None:
    x, _ = tensors()
    options = {"space": {"BLOCK": [256, 1024]}, "reference": {"x_ptr": x + 1}, "cache": False}
    tuning = kernellab.tune(add_one, programs, x, N, **options)
    assert reasons(tuning) == [None, None]
    assert float(x.sum()) == N
    tuning.apply()[programs](x, N)
    assert float(x.sum()) == 2 * N


def test_wrong_results_and_too_much_shared_memory_are_found_on_the_gpu_too(messages) -> None:
    x, z = tensors()
    tuning = kernellab.tune(
        wrong_in_some, programs, x, z, N, space={"BLOCK": [256], "BIAS": [0, 1]}, cache=False
    )
    assert reasons(tuning) == [None, "wrong result"]
    a = torch.zeros(128, 1024, device="cuda", dtype=torch.float16)
    c = torch.zeros(128, 128, device="cuda", dtype=torch.float16)
    space = {"BLOCK": [64], "BLOCK_K": [512], "num_stages": [1, 3]}
    arguments = a, a.T.contiguous(), c, 1024
    large = kernellab.tune(product, (1,), *arguments, space=space, check=False, cache=False)
    assert reasons(large)[1] == messages


def test_short_kernels_are_timed_by_graphs_and_longer_ones_with_a_cold_cache() -> None:
    x, z = tensors()
    options = {"space": {"BLOCK": [1024]}, "cache": False}
    short: Any = kernellab.tune(double, (1,), x[:1024], z[:1024], 1024, **options)
    large = torch.ones(1 << 26, device="cuda")
    arguments = large, torch.empty_like(large), 1 << 26
    longer: Any = kernellab.tune(double, (1 << 16,), *arguments, **options)
    assert (short.best.timing.method, longer.best.timing.method) == ("graph", "events")
    assert 0.3 < longer.table["us, estimated"][0] / longer.table["us"][0] < 3


def test_tritons_autotuner_leaves_its_timings_behind() -> None:
    x, z = tensors()
    autotuned_double[programs](x, z, N)
    torch.testing.assert_close(z, 2 * x)
    (found,) = [one for one in kernellab.tunings(autotuned_double) if one.key == {"n": N}]
    assert found.machine.gpu == torch.cuda.get_device_name()
    assert len(found.trials) == 2
    assert all(one.timing is not None for one in found.trials)
    best = autotuned_double.best_config
    assert found.best.candidate.values == {
        name: value for name, value in best.all_kwargs().items() if value is not None
    }


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_share_a_sweep() -> None:
    x, z = tensors()
    options = {"gpus": "all", "reference": {"z_ptr": 2 * x}, "cache": False}
    space = {"BLOCK": [128, 256, 512, 1024]}
    tuning = kernellab.tune(double, programs, x, z, N, space=space, **options)
    assert reasons(tuning) == [None] * 4
