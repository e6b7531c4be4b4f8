"""What torch.compile writes for a GPU that is not there, beside what it writes on one.

    python -m benchmarks.graph_fidelity --record FILE     on a machine with a GPU
    python -m benchmarks.graph_fidelity --compare FILE    anywhere, with the torch of the record
    python -m benchmarks.graph_fidelity --both FILE       on a machine with a GPU: both, in turn

The graphs are those of tests/support/graph_corpus.py. A record holds each generated Triton kernel;
kernels are compared character by character, but for Inductor's metadata, which names the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from tests.support.generated_graphs import codes_here, differences, kernels_of
from tests.support.graph_corpus import CASES, Case


def main() -> None:
    """Record, compare, or both."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--record", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--both", type=Path)
    parser.add_argument("--gpu", default="h200", help="the GPU that is not there")
    parser.add_argument("--only", nargs="*", help="these graphs alone")
    parser.add_argument("--found", type=Path, help="write what was generated with no GPU there")
    chosen = parser.parse_args()
    names = chosen.only or list(CASES)
    if chosen.record or chosen.both:
        record(chosen.record or chosen.both, names)
    if chosen.both:
        command = [sys.executable, "-m", "benchmarks.graph_fidelity", "--compare", chosen.both]
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        extra = ["--gpu", chosen.gpu, *(["--found", chosen.found] if chosen.found else [])]
        subprocess.run([*command, *extra], env=hidden, check=True)
    if chosen.compare:
        compare(json.loads(chosen.compare.read_text()), chosen.gpu, names, chosen.found)


def record(file: Path, names: list[str]) -> None:
    """Compile every graph on this machine's GPU, and write down its kernels."""
    found: dict[str, Any] = {}
    for name in names:
        torch.manual_seed(0)
        torch._dynamo.reset()
        try:
            found[name] = kernels_of(_codes_on_gpu(CASES[name]))
        except Exception:
            found[name] = {"error": traceback.format_exc()[-2000:]}
            print(name, found[name]["error"][-300:])
    data = {
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "graphs": found,
    }
    file.write_text(json.dumps(data, indent=1) + "\n")
    print(f"{len(found)} graphs recorded on {data['gpu']}, torch {data['torch']}")


def _codes_on_gpu(case: Case) -> list[str]:
    from torch._inductor.utils import run_and_get_code

    function, args = case.make("cuda")

    def step() -> None:
        result = torch.compile(function, dynamic=case.dynamic)(*args)
        if case.backward:
            _differentiate(result)

    with torch._inductor.config.patch(force_disable_caches=True):
        _, codes = run_and_get_code(step)
    return [str(code) for code in codes]


def _differentiate(result: Any) -> None:
    parts = result if isinstance(result, tuple) else (result,)
    found = [one for one in parts if one.requires_grad]
    torch.autograd.backward(found, [torch.ones_like(one) for one in found])


def compare(recorded: dict[str, Any], gpu: str, names: list[str], found: Path | None) -> None:
    """Generate every graph's kernels with no GPU, and say which differ."""
    print(
        f"recorded on {recorded['gpu']}, torch {recorded['torch']}; here torch {torch.__version__}"
    )
    same, made = 0, {}
    for name in names:
        if name not in recorded["graphs"]:
            continue
        made[name], errors = codes_here(CASES[name], gpu)
        found_here = list(differences(recorded["graphs"][name], made[name]))
        same += not found_here
        if found_here or errors:
            print(f"{name}: {'; '.join(errors)}")
            print("\n".join(found_here[:40]))
    print(f"{same} of {len(made)} graphs are identical")
    if found is not None:
        found.write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
