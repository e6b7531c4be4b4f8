"""The interpreter's own options of a launch: how they are said, what they may be,
and whose a name is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.errors import ArgumentError, OptionError
from kernellab.launch import preparation
from kernellab.launch.tile_kernel import TileKernel
from kernellab.records.launches import DEFAULT, RunOptions, split_keywords
from tests.kernels.interp.order import seeded, write_program


def test_what_is_not_given_is_the_default() -> None:
    assert RunOptions() == RunOptions(stage="ttir", order="sequential", seed=0, bounds="storage")
    assert RunOptions().changed() == {}
    assert RunOptions(order="shuffled", seed=3).changed() == {"order": "shuffled", "seed": 3}
    assert RunOptions(stage="ttgir.coalesce").stage == "ttgir.coalesce"


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"stage": "llir"}, ""),
        ({"stage": "tgir"}, "'ttgir'"),
        ({"stage": None}, ""),
        ({"order": "shufled"}, "'shuffled'"),
        ({"order": 1}, ""),
        ({"bounds": "views"}, "'view'"),
        ({"seed": -1}, ""),
        ({"seed": True}, ""),
        ({"seed": 1.0}, ""),
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any], advice: str) -> None:
    with pytest.raises(OptionError) as caught:
        kernellab.run(write_program, (4,), torch.zeros(4), **{"order": "shuffled", **wrong})
    ((name, value),) = wrong.items()
    assert caught.value.problem.startswith(f"{name} must be ")
    assert f"got {value!r}." in caught.value.problem
    assert advice in caught.value.advice


def test_a_seed_needs_something_to_choose(messages: SnapshotAssertion) -> None:
    with pytest.raises(OptionError) as caught:
        kernellab.run(write_program, (4,), torch.zeros(4), seed=3)
    assert caught.value == messages
    assert 'order="shuffled"' in caught.value.advice


def test_keywords_that_say_no_option_stay_as_they_are() -> None:
    keywords = {"n": 3, "num_warps": 4}
    rest, outright, options = split_keywords(keywords, ("x_ptr", "n"))
    assert rest is keywords
    assert outright == {}
    assert options is DEFAULT


def test_a_parameter_goes_before_an_option_of_its_name() -> None:
    """And `options` says the option all the same."""
    out = torch.zeros(4, dtype=torch.int32)
    run = kernellab.run(seeded, (4,), out, seed=7)
    assert out.tolist() == [7, 8, 9, 10]
    assert run.launch.options == {}
    options = {"order": "sequential", "num_warps": 8}
    run = kernellab.run(seeded, (4,), out, seed=9, options=options)
    assert out.tolist() == [9, 10, 11, 12]
    assert run.launch.options == {"num_warps": 8}
    assert options == {"order": "sequential", "num_warps": 8}


def test_options_are_said_once_and_as_a_mapping(messages: SnapshotAssertion) -> None:
    with pytest.raises(OptionError, match="order") as refused:
        kernellab.run(
            write_program, (4,), torch.zeros(4), order="reversed", options={"order": "reversed"}
        )
    assert refused.value == messages
    with pytest.raises(OptionError) as caught:
        kernellab.run(write_program, (4,), torch.zeros(4), options="reversed")
    assert caught.value == messages
    assert "options={" in caught.value.advice
    with pytest.raises(OptionError, match="num_warp") as refused:
        kernellab.run(write_program, (4,), torch.zeros(4), options={"num_warp": 8})
    assert refused.value == messages
    with pytest.raises(ArgumentError, match="out_ptr"):
        kernellab.run(write_program, (4,), order="sequential")


def test_the_launch_line_takes_them_too() -> None:
    out = np.zeros(4, np.int32)
    run = TileKernel(write_program.fn)[(4,)](out, order="sequential", num_warps=2)
    assert out.tolist() == [0, 1, 2, 3]
    assert run.launch.options == {"num_warps": 2}


def test_a_launch_on_a_gpu_refuses_them(
    monkeypatch: pytest.MonkeyPatch, messages: SnapshotAssertion
) -> None:
    kernel = TileKernel(write_program.fn)
    monkeypatch.setattr(preparation, "_goes_to_gpu", lambda *_: True)
    with pytest.raises(OptionError, match="GPU") as refused:
        kernel[(4,)](torch.zeros(4), order="reversed")
    assert refused.value == messages
