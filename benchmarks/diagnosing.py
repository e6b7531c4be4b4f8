"""What a diagnosis takes: a matrix product, from its compilation.

python -m benchmarks.diagnosing
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import kernellab
from benchmarks.diagnosed.product_kernels import matmul

_TYPES: dict[str, Any] = {
    "a": "*fp16:16",
    "b": "*fp16:16",
    "c": "*fp16:16",
    "M": 4096,
    "N": 4096,
    "K": 4096,
}
_ROUNDS = 5


def seconds() -> list[float]:
    """Processor seconds of a diagnosis, each of a compilation of its own."""
    taken = []
    for _ in range(_ROUNDS):
        compilation = kernellab.compile(
            matmul, **_TYPES, BM=128, BN=128, BK=64, num_warps=8, target="sm_90", record="stages"
        )
        began = time.process_time()
        kernellab.diagnose(compilation, grid=(32, 32), M=4096, N=4096, K=4096)
        taken.append(time.process_time() - began)
    return taken


def main() -> None:
    """Print the first, which imports what it needs, and the median of all."""
    taken = seconds()
    print(f"diagnosis of a matmul: {median(taken):.2f} s (first {taken[0]:.2f} s)")


if __name__ == "__main__":
    main()
