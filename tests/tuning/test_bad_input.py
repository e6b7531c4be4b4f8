"""Bad input of a sweep, through its entry_point: what is said, and that the sweep goes on."""

from __future__ import annotations

import numpy
import pytest
import torch
import triton

import kernellab
from kernellab.errors import ArgumentError, GridError, OptionError
from tests.kernels.tuned import (
    add_one,
    counts_up,
    double,
    hard_to_compile,
    unknown_to_the_interpreter,
)

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
    ("options", "error", "words"),
    [
        ({"space": {}}, ArgumentError, "the list of configs for 'double' is empty"),
        (
            {"space": {"BLOCK": 64}},
            ArgumentError,
            r'must be a list of values, got 64\nWrite "BLOCK": \[64\]',
        ),
        (
            {"space": 64},
            ArgumentError,
            "space must be a dict of values by name or a list of configs, got 64",
        ),
        (
            {"space": "BLOCK"},
            ArgumentError,
            "space must be a dict of values by name or a list of configs, got 'BLOCK'",
        ),
        ({"space": {5: [1]}}, ArgumentError, "the names of the space must be strings, got 5"),
        (
            {"space": {"BLOK": [64]}},
            OptionError,
            "neither a parameter of 'double' nor an option of sm_90",
        ),
        ({"space": [{"num_warps": 4}]}, ArgumentError, "'double' was not given 'BLOCK'"),
        (
            {"BLOCK": 64},
            OptionError,
            "'BLOCK' of 'double' is given twice: by the launch and by the configs",
        ),
        ({"refrence": X}, OptionError, "nor of kernellab.tune(.|\n)*Did you mean 'reference'"),
        (
            {"key": "m"},
            ArgumentError,
            "the key names 'm', which is not an argument(.|\n)*Possible are n",
        ),
        ({"key": "x_ptr"}, ArgumentError, "the key names 'x_ptr', which is a tensor"),
        ({"key": "BLOCK"}, ArgumentError, "the key names 'BLOCK', which is part of the configs"),
        ({"key": 5}, ArgumentError, 'Write key="n"'),
        ({"prune": 5}, ArgumentError, "prune must be a function, got 5"),
        (
            {"reference": 2 * X},
            ArgumentError,
            "reference must give results by .*, got a Tensor(.|\n)*For example reference=",
        ),
        ({"reference": {}}, ArgumentError, "reference must give results by .*, got nothing"),
        (
            {"reference": {"n": X}},
            ArgumentError,
            "reference must name tensor arguments .*, got 'n'",
        ),
        (
            {"reference": {"z_ptr": X[:5]}},
            ArgumentError,
            r"'z_ptr' the shape \[100\] of the argument, got the shape \[5\]",
        ),
        ({"reference": lambda x: {"z_ptr": x}}, ArgumentError, "reference raised TypeError"),
        (
            {"prune": lambda one: one["K"] > 8},
            ArgumentError,
            "prune, called for BLOCK=64, raised KeyError(.|\n)*x_ptr, z_ptr, n, BLOCK",
        ),
        (
            {"prune": lambda **one: one["n"] > 8},
            ArgumentError,
            (
                "It is called with one dict of all arguments \\(x_ptr, z_ptr, n, BLOCK\\): "
                "prune=lambda a: a\\['BLOCK'\\] > a\\['n'\\]. Here it takes keywords only"
            ),
        ),
        (
            {"prune": lambda BLOCK: BLOCK > 8},
            ArgumentError,
            "Here 'BLOCK' is that dict, not the argument of this name",
        ),
        (
            {"bytes": lambda **one: one["n"]},
            ArgumentError,
            (
                "bytes=(.|\n"
                ")*with one dict of all arguments(.|\n"
                ")*bytes=lambda a: 4 \\* a\\['n'\\]. Here it takes keywords only"
            ),
        ),
        ({"flops": lambda n: 8.0 * n}, ArgumentError, "Here 'n' is that dict"),
        (
            {"the_grid": lambda one: (one["N"],)},
            ArgumentError,
            (
                "the grid function raised KeyError: 'N'\n  at .*test_bad_input.py(.|\n"
                ")*The grid function fails for the only config. It is called with one dict"
            ),
        ),
        ({"prune": lambda one: True}, ArgumentError, "prune leaves out all 1 configs"),
        (
            {"the_grid": X},
            ArgumentError,
            "the grid must be .* got a Tensor(.|\n)*after the kernel and before the arguments",
        ),
        ({"the_grid": (4, 0)}, GridError, r"the grid is \(4, 0\); size 1 must be from 1"),
        (
            {"reference": lambda x, z, n: x / zero()},
            ArgumentError,
            (
                "reference raised KeyError(.|\n"
                ")*test_bad_input.py:(.|\n"
                ")*as the kernel is, with \\(x_ptr, z_ptr, n\\)"
            ),
        ),
        ({"bytes": "8"}, ArgumentError, "bytes= must give a number from 0, got '8'"),
        ({"flops": lambda one: one["K"]}, ArgumentError, "the function flops= raised KeyError"),
        (
            {"baselines": {"torch": X}},
            ArgumentError,
            "the baseline 'torch' must be a function, got",
        ),
        (
            {"baselines": [lambda: X]},
            ArgumentError,
            "baselines must be a dict of functions by name",
        ),
        (
            {"executor": 3},
            ArgumentError,
            r"must be a concurrent.futures.Executor, got 3(.|\n)*client.get_executor\(\)",
        ),
        ({"workers": 0}, ArgumentError, "workers must be a whole number from 1 to 1,024, got 0"),
        ({"workers": 10**9}, ArgumentError, "workers must be a whole number .* got 1000000000"),
        ({"seconds": 0}, ArgumentError, "seconds must be a number above 0, .* got 0"),
        ({"gpus": "all"}, ArgumentError, "gpus='all' needs tensors on a GPU"),
        ({"recorded": "nowhere.json"}, kernellab.KernelLabError, "There is no file 'nowhere.json'"),
    ],
)
def test_what_cannot_be_swept_is_said_before_anything_is_compiled(options, error, words) -> None:
    with pytest.raises(error, match=words):
        swept(**options)


@pytest.mark.slow
def test_values_of_wrong_types_drop_their_configs_and_no_others() -> None:
    values = [64, "64", None, 63, 0, 64.5, numpy.int64(32), torch.tensor(16)]
    table = swept(space={"BLOCK": values}).table
    assert list(table["BLOCK"].fillna("none")) == [
        "64",
        "64",
        "none",
        "63",
        "0",
        "64.5",
        "32",
        "16",
    ]
    assert list(table["dropped"]) == [
        "", "fault", "fault", "compile error", "fault", "fault", "", "",
    ]  # fmt: skip
    assert table["why"][1].startswith("the grid function raised TypeError")
    assert "power of 2" in table["why"][3]
    table = swept(space=[{"BLOCK": 64, "num_warps": number} for number in (4, 3, "4")]).table
    assert list(table["dropped"]) == ["", "compile error", "compile error"]
    assert "num_warps must be an integer, got '4'" in table["why"][2]


@pytest.mark.slow
def test_a_config_that_ends_the_compiler_is_dropped_and_the_next_compiles() -> None:
    values = ["compiles", "segfaults", "compiles too"]
    sweep = swept(hard_to_compile, BLOCK=64, space={"HOW": values}, seconds=600)
    assert list(sweep.table["dropped"]) == ["", "crash", ""]
    why = sweep.table["why"][1]
    assert why == "compiling it ended the process (signal SIGSEGV), which printed nothing"
    assert sweep.trial(2).outcome.checked == "the first config"
    with pytest.raises(
        ArgumentError, match="was not compiled again"
    ):  # it would end this process too
        sweep.compilation(1)


@pytest.mark.slow
def test_a_config_that_hangs_the_compiler_is_dropped() -> None:
    sweep = swept(hard_to_compile, BLOCK=64, space={"HOW": ["hangs"]}, seconds=2)
    assert list(sweep.table["dropped"]) == ["time-out"]
    assert sweep.table["why"][0] == "compiling it took longer than 2 seconds, and was stopped"
    with pytest.raises(ArgumentError, match="was not compiled again"):
        sweep.compilation(0)


@pytest.mark.slow
def test_a_config_that_hangs_on_the_interpreter_is_told_and_not_dropped() -> None:
    space = {"STOP": [7]}
    # So that compiling it again, which the same limit holds for, finds it in Triton's cache.
    assert not any(
        swept(counts_up, BLOCK=64, space=space, check=False, seconds=600).table["dropped"]
    )
    sweep = swept(counts_up, BLOCK=64, space=space, check=True, seconds=12)
    assert list(sweep.table["same result as"]) == [""]
    assert sweep.table["why"][0] == (
        "not checked: the interpreter did not finish within 12 seconds: the config hangs "
        "or is slow there"
    )
    assert not sweep.trial(0).is_dropped


@pytest.mark.slow
def test_what_the_interpreter_does_not_know_is_compiled_and_said_to_be_unchecked() -> None:
    sweep = swept(unknown_to_the_interpreter, X.int(), space={"BLOCK": [32, 64]})
    assert all(one.outcome.compiled and not one.is_dropped for one in sweep.trials)
    assert "does not know the PTX instruction 'match.any.sync.b32'" in sweep.table["why"][1]


def test_a_grid_that_fails_for_one_config_drops_that_one() -> None:
    sweep = swept(space={"BLOCK": [64, 0]})
    why = sweep.trial(1).outcome.dropped.why
    assert why.startswith("the grid function raised ZeroDivisionError")
    assert "test_bad_input.py" not in why.partition("\n")[0]
    assert swept(the_grid=lambda one: (0,)).table["why"][0].startswith("the grid is (0,)")


def test_a_kernel_that_works_in_place_starts_from_the_same_each_time() -> None:
    x = torch.zeros(N)
    ones = {"x_ptr": torch.ones(N)}
    sweep = kernellab.tune(
        add_one, grid, x, N, space={"BLOCK": [32, 64]}, reference=ones, workers=1
    )
    assert not any(one.is_dropped for one in sweep.trials)
    assert not x.any()


def test_a_grid_that_fails_for_every_config_is_an_error_and_no_table_of_faults() -> None:
    with pytest.raises(ArgumentError, match=r"raised TypeError(.|\n)*for all 3 configs"):
        swept(the_grid=lambda **one: (one["n"],), space={"BLOCK": [16, 32, 64]})


def test_one_second_is_no_seconds() -> None:
    sweep = swept(hard_to_compile, BLOCK=64, space={"HOW": ["hangs"]}, seconds=1)
    assert sweep.table["why"][0] == "compiling it took longer than 1 second, and was stopped"
