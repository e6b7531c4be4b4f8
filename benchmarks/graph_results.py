"""Graphs under torch.compile, run through the Triton kernels that Inductor writes for a GPU, on the
interpreter, beside eager torch on the CPU.

    python -m benchmarks.graph_results [GRAPH ...]

The graphs are those of tests/support/graph_corpus.py, forward and, where they have one, backward,
with the same random gradient coming in. A distance is the largest of any result or gradient,
relative to the largest right value of all of them: some gradients are nothing but rounding.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from tests.support.graph_corpus import CASES, Case

RANDOM = ("dropout", "dropout_residual", "random_noise")
"""Which draw other numbers than eager torch does."""

ALLOWED = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
"""By the type of the result."""


def main() -> None:
    """Run the graphs, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("graphs", nargs="*")
    names = parser.parse_args().graphs or [name for name in CASES if name not in RANDOM]
    near = 0
    for name in names:
        start = time.perf_counter()
        try:
            distance, is_near = _distance(CASES[name])
            near += is_near
            said = f"{distance:.1e}{'' if is_near else '  TOO FAR'}"
        except Exception as error:
            said = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
        print(f"{name:28} {said}  ({time.perf_counter() - start:.1f} s)", flush=True)
    print(f"{near} of {len(names)} graphs are near eager torch")


def _distance(case: Case) -> tuple[float, bool]:
    from kernellab.graphs.backend import kernellab_backend

    torch._dynamo.reset()
    torch.manual_seed(0)
    function, args = case.make("cpu")
    expected = _results(function, args, case.backward)
    compiled = torch.compile(
        function, backend=kernellab_backend, options={"run": "triton"}, dynamic=case.dynamic
    )
    farthest, is_near = 0.0, True
    size = max(float(one.float().abs().max()) for one in expected) or 1.0
    for one, right in zip(_results(compiled, args, case.backward), expected, strict=True):
        if not right.is_floating_point():
            is_near &= torch.equal(one, right)
            continue
        distance = float((one.float() - right.float()).abs().max()) / size
        farthest = max(farthest, distance)
        is_near &= distance <= ALLOWED[right.dtype]
    return farthest, is_near


def _results(function: Callable[..., Any], args: tuple[Any, ...], backward: bool) -> list[Any]:
    for one in args:
        one.grad = None
    result = function(*args)
    parts = list(result) if isinstance(result, tuple | list) else [result]
    if backward:
        wanted = [one for one in parts if one.requires_grad]
        torch.manual_seed(1)
        gradients = [torch.randn(one.shape).to(one.dtype) for one in wanted]
        torch.autograd.backward(wanted, gradients)
    return [one.detach() for one in (*parts, *(arg.grad for arg in args)) if one is not None]


if __name__ == "__main__":
    main()
