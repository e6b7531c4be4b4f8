"""Record the verdicts of the scoreboard: on hand-written answers to ten tasks, right and wrong.

python -m benchmarks.scoreboard    writes notebooks/recorded/verdicts.json
"""

from __future__ import annotations

import json
import os

import torch

import kernellab
from benchmarks.harness import ROOT
from tests.judging.test_judge import REFERENCES, SIZES

ANSWERS = {
    "other_kernels.py": (
        "matmul_by_tiles", "matmul_in_tf32", "norm_by_two_kernels",
        "norm_with_statistics_of_torch", "total_of_parts", "total_in_a_race",
        "relu_of_flat_memory", "relu_by_torch", "double_by_descriptors", "double_without_the_end",
    ),
    "unusual.py": (
        "softmax_by_a_queue_of_rows", "attention_in_one_pass", "loss_of_labels",
        "scan_that_looks_back", "best_with_indices",
    ),
}  # fmt: skip


def main() -> None:
    """Judge the answers, and write the file."""
    os.chdir(ROOT)  # so that verdicts name files in the repository
    verdicts = []
    for file, names in ANSWERS.items():
        for name in names:
            task = name.partition("_")[0]
            generator = torch.Generator().manual_seed(3)
            case = tuple(
                torch.randn(size, generator=generator) if isinstance(size, tuple) else size
                for size in SIZES[task]
            )
            submission = f"tests/judging/{file}::{name}"
            verdicts.append(kernellab.judge(submission, REFERENCES[task], [case]))
            print(verdicts[-1], flush=True)
    text = json.dumps([verdict.to_dict() for verdict in verdicts], indent=1)
    (ROOT / "notebooks/recorded/verdicts.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
