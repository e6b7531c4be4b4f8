"""Configs with a `pre_hook`: each has arguments of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab


@triton.jit
def summed(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0), 0))


@pytest.mark.slow
def test_the_reference_counts_where_every_config_has_a_hook() -> None:
    x, out = torch.arange(100.0), torch.ones(1)

    def clear(names: dict[str, Any]) -> None:
        names["out_ptr"].zero_()

    configs = [triton.Config({"BLOCK": block}, pre_hook=clear) for block in (32, 64)]
    for right, dropped in ((x.sum(), ""), (x.sum() + 100, "wrong result")):
        sweep = kernellab.tune(
            summed,
            lambda meta: (triton.cdiv(100, meta["BLOCK"]),),
            x,
            out,
            100,
            space=configs,
            key="n",
            reference={"out_ptr": right.reshape(1)},
            check=True,
            cache=False,
        )
        assert list(sweep.table["dropped"]) == [dropped] * 2
    assert list(sweep.table["same result as"]) == ["", ""]
    assert out == 1


def test_the_key_is_known_where_no_config_could_be_launched() -> None:
    def fails(names: dict[str, Any]) -> None:
        raise KeyError("nothing")

    x, out = torch.arange(100.0), torch.ones(1)
    configs = [triton.Config({"BLOCK": 64}, pre_hook=fails)]
    sweep = kernellab.tune(summed, (2,), x, out, 100, space=configs, key="n", cache=False)
    assert sweep.key == {"n": 100}
    dropped = sweep.trials[0].outcome.dropped
    assert dropped is not None
    assert dropped.line == "the pre_hook raised KeyError: 'nothing'"
