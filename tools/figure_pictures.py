"""Draw the figures of the pages, of kernels of the test corpus: python -m tools.figure_pictures"""

from __future__ import annotations

from pathlib import Path

from kernellab.viz.figures import FigurePicture
from tests.compiled import of_corpus

IMAGES = Path(__file__).resolve().parent.parent / "docs/images"


def figures() -> dict[str, FigurePicture]:
    """File name -> figure."""
    return {
        "shared_memory_matmul": of_corpus("matmul", "sm_90").shared_memory().plot(),
        "shared_memory_attention": of_corpus("attention_forward", "sm_90").shared_memory().plot(),
    }


def main() -> None:
    """Write every figure."""
    for name, figure in figures().items():
        print(figure.save(IMAGES / f"{name}.png"))


if __name__ == "__main__":
    main()
