"""Autotuned launches leave their timings behind, as a GPU's would."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab.launch.autotuners import take_autotuned_launches
from kernellab.tuning.tunings import NOTE


def autotuned_kernel(times, blocks=(32, 64, 128), **options):
    """An autotuned kernel whose times are made up, and whose launches do nothing."""

    @triton.autotune(
        [triton.Config({"BLOCK": block}, num_warps=2) for block in blocks],
        key=["n"],
        do_bench=lambda _launch, quantiles: next(times, [0.5, 0.5, 0.5]),
        **options,
    )
    @triton.jit
    def scale(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

    scale.fn.run = lambda *_args, **_keywords: None
    take_autotuned_launches()  # those of other tests
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


def test_hooks_heuristics_and_descriptors_are_noted_with_their_configs() -> None:
    def set_block(arguments):
        arguments["rows"].block_shape = [arguments["ROWS"], 64]
        arguments["z_ptr"].zero_()

    times = iter([[2.0, 1.9, 2.1], [1.0, 0.9, 1.1]])

    @triton.autotune(
        [triton.Config({"ROWS": rows}, num_warps=2, pre_hook=set_block) for rows in (16, 32)],
        key=["n", "z_ptr"],
        do_bench=lambda _launch, quantiles: next(times),
    )
    @triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["ROWS"] == 0})
    @triton.jit
    def copied(rows, z_ptr, n, ROWS: tl.constexpr, EVEN: tl.constexpr):
        tl.store(z_ptr + tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64), rows.load([0, 0]))

    take_autotuned_launches()
    copied.fn.run = lambda *_args, **_keywords: None
    z = torch.ones(80, 64)
    rows = TensorDescriptor.from_tensor(torch.ones(80, 64), [1, 64])
    copied[(1,)](rows, z, 80)
    (found,) = kernellab.tunings(copied)
    assert found.key == {"n": 80}  # a tensor in the key stands for its dtype
    assert found.best.candidate.values["ROWS"] == 32
    for number, block in enumerate((16, 32)):
        kept = found.compilation(number).specialization
        assert kept.signature["rows"].replace(" ", "") == f"tensordesc<fp32[{block},64]>"
        assert kept.constants[(4,)] is (block == 16)


def test_a_key_for_which_nothing_was_timed_takes_no_times_from_another() -> None:
    times = iter([[2.0, 1.9, 2.1], [1.0, 0.9, 1.1]])

    def large_enough(configs, named, **_others):
        return [one for one in configs if one.kwargs["BLOCK"] <= named["n"]]

    pruning = {"early_config_prune": large_enough}
    scale = autotuned_kernel(times, (32, 64), prune_configs_by=pruning)
    for n in (100, 40):  # for 40 pruning leaves one config, which Triton times up to 3.7
        scale[(1,)](torch.zeros(n), n)
    first, *others = kernellab.tunings(scale)
    assert (first.key, len(first.trials)) == ({"n": 100}, 2)
    assert [(one.key, len(one.trials)) for one in others] in ([], [({"n": 40}, 1)])


def test_nothing_is_noted_where_nothing_was_timed() -> None:
    scale = autotuned_kernel(iter([]))
    with kernellab.interpreted():
        scale[(8,)](torch.zeros(1000), 1000)
    assert len(kernellab.tunings(scale)) == 0


def test_a_function_that_is_no_kernel_is_refused(raised) -> None:
    raised(kernellab.ArgumentError, kernellab.tunings, len)
