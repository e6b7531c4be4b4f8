"""Draw the figures of the pages, of kernels of the test corpus: python -m tools.figure_pictures"""

from __future__ import annotations

from pathlib import Path

from kernellab.records.layouts import Layout
from kernellab.viz.kit.figure import FigurePicture
from tests.support.compiled import of_corpus

IMAGES = Path(__file__).resolve().parent.parent / "docs/images"


def figures() -> dict[str, FigurePicture]:
    """File name -> figure."""
    mma = Layout.nvidia_mma(
        shape=(16, 8), version=2, warps_per_cta=[1, 1], instruction_shape=[16, 8]
    )
    swizzled = Layout.swizzled_shared(
        shape=(16, 32), vector=8, per_phase=2, max_phase=4, order=[1, 0]
    )
    return {
        "layout_figure": mma.plot(),
        "layout_figure_shared": swizzled.plot(),
        "shared_memory_matmul": of_corpus("matmul", "sm_90").shared_memory().plot(),
        "tensor_memory_attention": of_corpus("attention_forward", "sm_100").tensor_memory().plot(),
        "shared_memory_attention": of_corpus("attention_forward", "sm_90").shared_memory().plot(),
    }


def main() -> None:
    """Write every figure."""
    for name, figure in figures().items():
        print(figure.save(IMAGES / f"{name}.png"))


if __name__ == "__main__":
    main()
