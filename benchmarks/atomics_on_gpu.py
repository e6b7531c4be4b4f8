"""Atomics that go to few and to many elements, timed on the GPU of this machine.

    python -m benchmarks.atomics_on_gpu --json benchmarks/data/atomics_h200.json

`python -m benchmarks.atomics_on_gpu --estimates` prints the estimate of each launch beside its
recorded time, with no GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import kernellab
from benchmarks.diagnosed.memory_kernels import counts_in_any_order
from benchmarks.fidelity_outputs import DATA
from kernellab.profiling.estimates.estimate import Estimate

RECORDED = "atomics_h200.json"
UPDATES = 1 << 22
BLOCK = 1024
_DTYPES = {"int32": torch.int32, "float32": torch.float32}


@dataclass(frozen=True)
class Updates:
    """How a launch's atomics go to memory: random elements, or those of a row in turn."""

    type: str
    elements: int
    pattern: str

    def arguments(self, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        """The indices, and what is updated."""
        if self.pattern == "random":
            generator = torch.Generator().manual_seed(0)
            index = torch.randint(0, self.elements, (UPDATES,), generator=generator)
        else:
            index = torch.arange(UPDATES) % self.elements
        out = torch.zeros(max(self.elements, 64), dtype=_DTYPES[self.type])
        return index.to(device, torch.int32), out.to(device)

    def estimated(self) -> Estimate:
        """Its estimate, with no GPU."""
        index, out = self.arguments("cpu")
        compilation = kernellab.compile(
            counts_in_any_order, index, out, BLOCK=BLOCK, target="sm_90", record="stages"
        )
        assert isinstance(compilation, kernellab.Compilation)
        found = compilation.estimate((UPDATES // BLOCK,), index, out)
        assert isinstance(found, Estimate)
        return found


def every() -> Iterator[Updates]:
    """The launches that were timed."""
    for type in _DTYPES:
        for elements in (1, 8, 16, 64, 256, 2048, 1 << 16, 1 << 20):
            for pattern in ("random", "rows"):
                yield Updates(type, elements, pattern)


def recorded() -> dict[Updates, float]:
    """Their times on an H200, in microseconds."""
    launches = json.loads((DATA / RECORDED).read_text())["launches"]
    return {Updates(*launch): microseconds for *launch, microseconds in launches}


def measured() -> dict[str, Any]:
    """What this machine's GPU takes."""
    import triton
    from triton.testing import do_bench

    launches = []
    for one in every():
        index, out = one.arguments("cuda")

        def launch(index: Any = index, out: Any = out) -> None:
            counts_in_any_order[(UPDATES // BLOCK,)](index, out, BLOCK=BLOCK)

        took = 1e3 * do_bench(launch, warmup=4, rep=16, return_mode="median")
        launches.append([one.type, one.elements, one.pattern, round(took, 2)])
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "method": "do_bench, cold L2, median",
        "launches": launches,
    }


def main() -> None:
    """Time the launches, or print their estimates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="where to write the times")
    parser.add_argument("--estimates", action="store_true", help="estimate, with no GPU")
    given = parser.parse_args()
    if given.estimates:
        for one, microseconds in recorded().items():
            print(one, microseconds, round(one.estimated().microseconds, 1))
    elif given.json is not None:
        given.json.write_text(json.dumps(measured(), indent=0) + "\n")


if __name__ == "__main__":
    main()
