"""Bad input of a sweep, through its entry_point: what is said, and that the sweep goes on."""

import numpy
import pytest
import torch
import triton

import kernellab
from kernellab.errors import ArgumentError, GridError, OptionError
from tests.kernels.tuned import counts_up, double, hard_to_compile, unknown_to_the_interpreter

N = 100
X = torch.arange(N, dtype=torch.float32)


def grid(values):
    return (triton.cdiv(values["n"], values["BLOCK"]),)


def swept(kernel=double, x=X, the_grid=grid, **options):
    options.setdefault("space", {"BLOCK": [64]})
    options.setdefault("workers", 1)
    return kernellab.tune(kernel, the_grid, x, torch.zeros_like(x), N, **options)


def zero():
    raise KeyError("zero")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"space": {}}, ArgumentError), ({"space": []}, ArgumentError),
        ({"space": None}, ArgumentError), ({"space": [64]}, ArgumentError),
        ({"space": {"BLOCK": []}}, ArgumentError), ({"space": {"num_warp": [4]}}, OptionError),
        ({"space": {"n": [4]}}, OptionError), ({"space": {"BLOCK": 64}}, ArgumentError),
        ({"space": 64}, ArgumentError), ({"space": "BLOCK"}, ArgumentError),
        ({"space": {5: [1]}}, ArgumentError), ({"space": {"BLOK": [64]}}, OptionError),
        ({"space": [{"num_warps": 4}]}, ArgumentError), ({"BLOCK": 64}, OptionError),
        ({"refrence": X}, OptionError), ({"key": "m"}, ArgumentError),
        ({"key": "x_ptr"}, ArgumentError), ({"key": "BLOCK"}, ArgumentError),
        ({"key": 5}, ArgumentError), ({"prune": 5}, ArgumentError),
        ({"reference": 2 * X}, ArgumentError), ({"reference": {}}, ArgumentError),
        ({"reference": {"q_ptr": X}}, ArgumentError), ({"reference": {"n": X}}, ArgumentError),
        ({"reference": {"z_ptr": X[:5]}}, ArgumentError),
        ({"reference": lambda x: {"z_ptr": x}}, ArgumentError),
        ({"prune": lambda one: one["K"] > 8}, ArgumentError),
        ({"prune": lambda **one: one["n"] > 8}, ArgumentError),
        ({"prune": lambda BLOCK: BLOCK > 8}, ArgumentError),
        ({"bytes": lambda **one: one["n"]}, ArgumentError),
        ({"flops": lambda n: 8.0 * n}, ArgumentError),
        ({"the_grid": lambda one: (one["N"],)}, ArgumentError),
        ({"prune": lambda one: True}, ArgumentError), ({"the_grid": X}, ArgumentError),
        ({"the_grid": (4, 0)}, GridError),
        ({"reference": lambda x, z, n: x / zero()}, ArgumentError), ({"bytes": "8"}, ArgumentError),
        ({"flops": lambda one: one["K"]}, ArgumentError),
        ({"baselines": {"torch": X}}, ArgumentError), ({"baselines": [lambda: X]}, ArgumentError),
        ({"executor": 3}, ArgumentError), ({"workers": 0}, ArgumentError),
        ({"workers": 10**9}, ArgumentError), ({"seconds": 0}, ArgumentError),
        ({"gpus": "all"}, ArgumentError), ({"recorded": "nowhere.json"}, kernellab.KernelLabError),
    ],
)  # fmt: skip
def test_what_cannot_be_swept_is_said_before_anything_is_compiled(options, error, raised) -> None:
    raised(error, swept, **options)


@pytest.mark.slow
def test_values_of_wrong_types_drop_their_configs_and_no_others(messages) -> None:
    values = [64, "64", None, 63, 0, 64.5, numpy.int64(32), torch.tensor(16)]
    table = swept(space={"BLOCK": values}).table
    assert list(table["BLOCK"].fillna("none")) == [
        "64", "64", "none", "63", "0", "64.5", "32", "16",
    ]  # fmt: skip
    assert list(table["dropped"]) == [
        "", "fault", "fault", "compile error", "fault", "fault", "", "",
    ]  # fmt: skip
    assert table["why"][1].startswith("The grid function raised TypeError")
    assert "power of 2" in table["why"][3]
    table = swept(space=[{"BLOCK": 64, "num_warps": number} for number in (4, 3, "4")]).table
    assert list(table["dropped"]) == ["", "compile error", "compile error"]
    assert "num_warps" in table["why"][2]
    assert table["why"][2] == messages


@pytest.mark.slow
def test_a_config_that_ends_the_compiler_is_dropped_and_the_next_compiles(messages) -> None:
    values = ["compiles", "segfaults", "compiles too"]
    sweep = swept(hard_to_compile, BLOCK=64, space={"HOW": values}, seconds=600)
    assert list(sweep.table["dropped"]) == ["", "crash", ""]
    assert sweep.table["why"][1] == messages
    assert sweep.trial(2).outcome.checked == messages
    with pytest.raises(ArgumentError) as refused:  # it would end this process too
        sweep.compilation(1)
    assert refused.value == messages


@pytest.mark.slow
def test_a_config_that_hangs_the_compiler_is_dropped(messages, raised) -> None:
    sweep = swept(hard_to_compile, BLOCK=64, space={"HOW": ["hangs"]}, seconds=2)
    assert list(sweep.table["dropped"]) == ["time-out"]
    assert sweep.table["why"][0] == messages
    raised(ArgumentError, sweep.compilation, 0)


@pytest.mark.slow
def test_a_config_that_hangs_on_the_interpreter_is_told_and_not_dropped(messages) -> None:
    space = {"STOP": [7]}
    # So that compiling it again, which the same limit holds for, finds it in Triton's cache.
    assert not any(
        swept(counts_up, BLOCK=64, space=space, check=False, seconds=600).table["dropped"]
    )
    sweep = swept(counts_up, BLOCK=64, space=space, check=True, seconds=12)
    assert list(sweep.table["same result as"]) == [""]
    assert sweep.table["why"][0] == messages
    assert not sweep.trial(0).is_dropped


@pytest.mark.slow
def test_what_the_interpreter_does_not_know_is_compiled_and_said_to_be_unchecked(messages) -> None:
    sweep = swept(unknown_to_the_interpreter, X.int(), space={"BLOCK": [32, 64]})
    assert all(one.outcome.compiled and not one.is_dropped for one in sweep.trials)
    assert "PTX" in sweep.table["why"][1]
    assert sweep.table["why"][1] == messages


@pytest.mark.slow
def test_a_grid_that_fails_for_one_config_drops_that_one(messages) -> None:
    sweep = swept(space={"BLOCK": [64, 0]})
    why = sweep.trial(1).outcome.dropped.why
    assert why.startswith("The grid function raised ZeroDivisionError")
    assert "test_bad_input.py" not in why.partition("\n")[0]
    assert swept(the_grid=lambda one: (0,)).table["why"][0] == messages


def test_a_grid_that_fails_for_every_config_is_an_error_and_no_table_of_faults(raised) -> None:
    raised(ArgumentError, swept, the_grid=lambda **one: (one["n"],), space={"BLOCK": [16, 32, 64]})
