"""Models built from torch alone on a GPU: eager, aot_eager, Inductor without and with CUDA graphs.

    python -m benchmarks.graph_speedups FILE.json [--seconds 280] [--only MODEL ...]

The models are those of benchmarks/graph_models.py, forward (no gradient is kept) and training
(forward and backward, no optimizer). The four ways take turns; times are medians. The file is
written after each model, so that what was measured before an end is there. No model begins after
`--seconds`. `--device cpu` tries the script where no GPU is; its times say nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas
import torch

from benchmarks.graph_models import MODELS
from benchmarks.harness import geometric_mean, markdown_table
from kernellab.graphs.jobs import WAYS, speedups


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", choices=sorted(MODELS))
    parser.add_argument("--modes", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    chosen = parser.parse_args()
    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.exit(1, "torch sees no GPU on this machine; --device cpu tries the script alone\n")
    start = time.perf_counter()
    data: dict[str, Any] = {**machine(chosen.device), "rounds": chosen.rounds, "models": {}}
    for name in chosen.only or MODELS:
        if time.perf_counter() - start > chosen.seconds:
            data.setdefault("not_begun", []).append(name)
            continue
        found: dict[str, Any] = {"what": MODELS[name].__doc__}
        data["models"][name] = found
        for direction in ("forward", "training"):
            found[direction] = measured(name, direction == "training", chosen)
            print(line(name, direction, found[direction]), flush=True)
            data["means"] = means(data["models"])
            data["seconds"] = round(time.perf_counter() - start, 1)
            chosen.file.write_text(json.dumps(data, indent=1) + "\n")
    print(json.dumps(data.get("means"), indent=1))


def machine(device: str) -> dict[str, Any]:
    """What a reader of the table needs to know."""
    return {
        "device": torch.cuda.get_device_name(0) if device == "cuda" else platform.processor(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": importlib.metadata.version("triton"),
        "cuda": torch.version.cuda,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def measured(name: str, backward: bool, chosen: argparse.Namespace) -> dict[str, Any]:
    """One model's times one way; what failed says why."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    try:
        module, args = MODELS[name]()
        found = speedups(
            module.train(backward),
            args,
            {},
            name=name,
            backward=backward,
            rounds=chosen.rounds,
            device=chosen.device,
            ways={mode: WAYS[mode] for mode in chosen.modes},
        )
    except Exception:
        return {"error": traceback.format_exc()[-2000:]}
    finally:
        torch.cuda.empty_cache()
    return {one.mode: asdict(one) for one in found.modes}


def line(name: str, direction: str, found: dict[str, Any]) -> str:
    """What the terminal is told of one model."""
    if "error" in found:
        return f"{name:20} {direction:9} failed: {found['error'].strip().splitlines()[-1]}"
    parts = [
        f"{mode} {one['milliseconds']:.3f} ms ({one['speedup']:.2f})"
        if one["milliseconds"] is not None and one["speedup"] is not None
        else f"{mode}: {one['error']}"
        for mode, one in found.items()
    ]
    return f"{name:20} {direction:9} {'; '.join(parts)}"


def table(data: dict[str, Any]) -> str:
    """The markdown that docs/torch_compile.md holds, of a file's contents."""
    compiled = [mode for mode in WAYS if mode != "eager"]
    rows: list[dict[str, Any]] = []
    for direction in ("forward", "training"):
        for name, model in data["models"].items():
            found = model[direction]
            rows.append(
                {
                    "model": name.replace("_", " "),
                    "": direction,
                    "eager, ms": f"{found['eager']['milliseconds']:.2f}",
                    **{mode: f"{found[mode]['speedup']:.2f}" for mode in compiled},
                }
            )
        means = data["means"][direction]
        geometric = {mode: f"**{means[mode]['speedup']:.2f}**" for mode in compiled}
        rows.append({"model": "**geometric mean**", "": direction, "eager, ms": "", **geometric})
    return markdown_table(pandas.DataFrame(rows))


def means(models: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Geometric means of the speed-ups, by direction and mode, and of how many models."""
    result: dict[str, dict[str, Any]] = {}
    for direction in ("forward", "training"):
        for mode in WAYS:
            ratios = [
                one[direction][mode]["speedup"]
                for one in models.values()
                if one.get(direction, {}).get(mode, {}).get("speedup")
            ]
            if ratios:
                mean = {"speedup": round(geometric_mean(ratios), 3), "models": len(ratios)}
                result.setdefault(direction, {})[mode] = mean
    return result


if __name__ == "__main__":
    main()
