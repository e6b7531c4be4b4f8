"""Which configs a sweep tries, and its table: plain columns, whatever the parameters are."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pandas
import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab.errors import ArgumentError
from kernellab.launch.autotuners import take_autotuned_launches
from kernellab.records import Target
from kernellab.tuning.configs import candidates
from kernellab.tuning.records import Candidate, Dropped
from kernellab.tuning.tunings import NOTE
from kernellab.viz.performance import tuning_card
from tests.kernels.tuned import autotuned_double, double, scaled
from tests.support.sweeps import sweep, trial

SM_90 = Target("cuda", "90")


def values(found):
    return [one.values for one in found]


def test_a_space_is_all_combinations_constants_apart_from_options() -> None:
    found = candidates(double, {"BLOCK": [64, 128], "num_warps": [2, 4]}, SM_90, (), {})
    assert values(found) == [
        {"BLOCK": 64, "num_warps": 2}, {"BLOCK": 64, "num_warps": 4},
        {"BLOCK": 128, "num_warps": 2}, {"BLOCK": 128, "num_warps": 4},
    ]  # fmt: skip
    assert (found[0].constants, found[0].options) == ({"BLOCK": 64}, {"num_warps": 2})


def test_tritons_configs_and_dicts_are_taken_as_they_are_and_each_once() -> None:
    config = triton.Config({"BLOCK": 64}, num_warps=2, num_stages=5)
    found = candidates(double, [config, config, {"BLOCK": 32}], SM_90, (), {})
    assert found[0].values == {"BLOCK": 64, "num_warps": 2, "num_ctas": 1, "num_stages": 5}
    assert found[1].values == {"BLOCK": 32}
    assert len(found) == 2


def test_without_a_space_the_autotuners_configs_count() -> None:
    found = candidates(autotuned_double, None, SM_90, (), {})
    assert [one.constants["BLOCK"] for one in found] == [64, 128]
    assert [one.options["num_warps"] for one in found] == [2, 4]


def test_an_autotuners_own_pruning_counts(raised) -> None:
    @triton.autotune(
        [triton.Config({"BLOCK": size}) for size in (64, 128, 256)],
        key=["n"],
        prune_configs_by={
            "early_config_prune": lambda configs, named, **_: [
                one for one in configs if one.kwargs["BLOCK"] <= named["n"]
            ]
        },
    )
    @triton.jit
    def pruned(x_ptr, n, BLOCK: triton.language.constexpr):
        pass

    found = candidates(pruned, None, SM_90, ("x", 128), {})
    assert [one.constants["BLOCK"] for one in found] == [64, 128]
    raised(ArgumentError, candidates, pruned, None, SM_90, ("x", 1), {}, match="pruned")


VALUES: dict[str, list[Any]] = {
    "BLOCK": [64, None, 128], "FAST": [True, False, None], "EXACT": [True, False, True],
    "FACTOR": [0.5, 2, None], "DTYPE": [tl.float16, tl.bfloat16, tl.float32],
    "MODE": ["wide", "narrow", None], "FUNCTION": [scaled, scaled, None],
    "SHAPE": [(1, 2), (3, 4), (5, 6)], "MIXED": [1, "one", None], "SEED": [2**70, 1, 2],
}  # fmt: skip
KINDS = {
    "BLOCK": "Int64", "FAST": "boolean", "EXACT": "bool", "FACTOR": "float64", "DTYPE": "string",
    "MODE": "string", "FUNCTION": "string", "SHAPE": "string", "MIXED": "string", "SEED": "string",
}  # fmt: skip
PLAIN = {"int64", "Int64", "float64", "bool", "boolean", "string"}


def of_every_kind(us: float | None) -> kernellab.Tuning:
    """A sweep of parameters of all kinds; the second config, with only some, was dropped."""
    trials = []
    for number in range(3):
        values = {name: column[number] for name, column in VALUES.items()}
        given = {name: value for name, value in values.items() if value is not None}
        made = trial(number, us, Dropped("compile error", "no") if number == 1 else None)
        if number == 1:
            made = replace(made, outcome=replace(made.outcome, compiled=None, timing=None))
        trials.append(replace(made, candidate=Candidate(given, {"num_warps": 4})))
    return sweep(trials=tuple(trials))


@pytest.mark.parametrize("us", [100.0, None], ids=["timed", "not timed"])
def test_columns_are_of_plain_kinds_and_are_written_as_they_are(us) -> None:
    table = of_every_kind(us).table
    assert {str(kind) for kind in table.dtypes} <= PLAIN
    assert {name: str(table.dtypes[name]) for name in VALUES} == KINDS
    assert list(table["DTYPE"]) == ["fp16", "bf16", "fp32"]
    assert list(table["FUNCTION"].dropna()) == ["scaled", "scaled"]
    assert table["BLOCK"][2] == 128
    assert pandas.isna(table["registers"][1])
    assert table["why"][1] == "no"
    records = json.loads(table.to_json(orient="records"))
    assert [one["FAST"] for one in records] == [True, False, None]
    assert [one["SEED"] for one in records] == [str(2**70), "1", "2"]
    assert [one["registers"] for one in records] == [32, None, 34]
    lines = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [one["config"] for one in lines] == ["0", "1", "2"]
    assert [one["MODE"] for one in lines] == ["wide", "narrow", ""]
    assert [one["SHAPE"] for one in lines] == ["(1, 2)", "(3, 4)", "(5, 6)"]


def test_the_table_of_several_sweeps_is_plain_too() -> None:
    several = kernellab.Tunings([sweep(), sweep(key={"n": 10**6}, trials=())])
    table = several.table
    assert {str(kind) for kind in table.dtypes} <= PLAIN
    assert (list(table["n"]), list(table["ties"].dropna())) == ([1000, 10**6], [1])


def test_parameters_that_are_called_as_results_have_columns_of_their_own() -> None:
    trials = tuple(trial(n, 10.0 + n, runs=n + 1, registers=7 * n, GPU=n) for n in range(2))
    tuning = sweep(trials=trials, key={"runs": 5})
    table = tuning.table
    assert list(table["runs (parameter)"]) == [1, 2]
    assert list(table["registers (parameter)"]) == [0, 7]
    assert (list(table["registers"]), list(table["runs"])) == ([32, 33], [21, 21])
    columns = tuple(tuning_card(tuning).tables[0].columns)
    assert columns[1:4] == ("runs", "registers (parameter)", "GPU")
    best = kernellab.Tunings([tuning]).table
    assert (list(best["GPU"]), list(best["registers (parameter)"])) == (["NVIDIA H200"], [0])


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
    first: Any = found[0]
    assert first.best.candidate.values["BLOCK"] == 64
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
