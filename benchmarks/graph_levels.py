"""How long torch.compile takes to open: a GPT of six layers, forward and backward, every level,
then its kernels to SASS; and an MLP through its generated kernels on the interpreter, beside eager.

    python -m benchmarks.graph_levels [--layers 6] [--profile]

All in this process, which has imported everything before, and in copies of it, in which large
graphs are lowered: wall time, and process time of all of them, which other work on the machine
changes less.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from benchmarks.graph_models import Gpt
from benchmarks.harness import machine_facts
from kernellab.graphs.backend import kernellab_backend
from kernellab.graphs.graph import GraphOptions
from kernellab.graphs.jobs import capture
from kernellab.graphs.processes import GivenCall
from kernellab.graphs.report import GraphReport


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)  # as in a copy of a user's process, where captures run
    _captured(nn.Linear(8, 8), torch.rand(4, 8))  # imports, and what torch traces once

    torch.manual_seed(0)
    model = Gpt(chosen.layers, 256, 8, 1000, 128)
    tokens = torch.randint(0, 1000, (2, 128))
    with cProfile.Profile() if chosen.profile else nullcontext() as profile:
        report, levels = _timed(lambda: _captured(model, tokens))
    if profile is not None:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
    print(f"{chosen.layers} layers, every level: {_said(levels)}; {len(report.kernels)} kernels")

    def to_sass() -> int:
        return sum(len(one.compilation.stages["sass"].text) for one in report.kernels)

    print(f"kernels to SASS: {_said(_timed(to_sass)[1])}")
    print(_interpreted())
    print(machine_facts())


def _captured(model: nn.Module, *args: Any) -> GraphReport:
    request = {**vars(GraphOptions(backward=True)), "name": type(model).__name__}
    return GraphReport(capture(GivenCall(model, args, {}, request)), is_captured_here=True)


def _timed(call: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """Its result; seconds of wall time and of process time."""
    start, spent = time.perf_counter(), _spent()
    result = call()
    return result, (time.perf_counter() - start, _spent() - spent)


def _spent() -> float:
    """Process time so far, that of processes that have ended here too."""
    return sum(os.times()[:4])


def _said(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:.1f} s, {seconds[1]:.1f} s of process time"


def _interpreted() -> str:
    """Forward and backward of an MLP, eager and through generated kernels, by turns."""
    torch._dynamo.reset()
    model = nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))
    x = torch.randn(256, 512, requires_grad=True)
    compiled = torch.compile(model, backend=kernellab_backend, options={"run": "triton"})

    def step(made: Callable[..., Any]) -> float:
        start = time.process_time()
        made(x).square().mean().backward()
        return time.process_time() - start

    for made in (model, compiled, model, compiled):
        step(made)
    pairs = [(step(model), step(compiled)) for _ in range(5)]
    eager, ours = (statistics.median(one) for one in zip(*pairs, strict=True))
    return (
        f"MLP, forward and backward, generated kernels interpreted: {ours * 1e3:.0f} ms, eager "
        f"{eager * 1e3:.0f} ms on one thread: {ours / eager:.1f} times"
    )


if __name__ == "__main__":
    main()
