"""Write docs/tuning_h200.md and its pictures from the sweeps recorded on an H200:
python tools/tuning_page.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernellab
from kernellab.tuning.records import MICROSECONDS, achieved

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "benchmarks/data"
SWEEPS = ROOT / "notebooks/recorded"
PAGE = ROOT / "docs/tuning_h200.md"
PICTURES = ROOT / "docs/images"

CASES = {
    "vector_add": "Vector add, 16 Mi fp32",
    "softmax": "Softmax, 32768 rows of 1024 fp32",
    "matmul": "Matmul, 4096 x 4096 x 4096 in fp16",
    "layer_norm": "Layer norm, 4096 rows of 8192 fp16",
    "attention": "Attention forward, causal, 32 heads of 64, 4096 tokens, fp16",
}
SIZES = {"vector_add": "GB/s", "matmul": "TFLOP/s"}


def recorded_numbers() -> dict[str, Any]:
    """What `benchmarks.tuning_on_gpu` measured."""
    found: dict[str, Any] = json.loads((DATA / "tuning_h200_numbers.json").read_text())
    return found


def page() -> str:
    """The whole page."""
    numbers = recorded_numbers()
    machine = kernellab.Tuning.load(SWEEPS / "tuning_h200_matmul.json").machine
    lines = [
        "# Five sweeps on an H200",
        "",
        "Written by `python tools/tuning_page.py` from `notebooks/recorded/tuning_h200_*.json`, "
        "which `python -m benchmarks.tuning_on_gpu --out FOLDER` records. "
        f"{machine}. [How a sweep is made](tuning.md).",
        "",
        *_beside_triton(numbers),
        *_compiling(numbers),
        *_on_two_gpus(),
    ]
    lines += _fastest()
    lines += [
        "## Over sizes",
        "",
        "The fastest of a few configs for each size, and torch. Hollow points are timed by a CUDA "
        "graph, with a warm L2 cache.",
        "",
    ]
    for name, unit in SIZES.items():
        lines.append(f"![{name}: {unit} over sizes](images/tuning_{name}_sizes.png)")
    return "\n".join(lines).rstrip() + "\n"


def _beside_triton(numbers: dict[str, Any]) -> Iterator[str]:
    yield "## Compared with Triton's own autotuner"
    yield ""
    yield (
        "The same configs, without caches, on 16 cores. The two winners are timed in turns, "
        "seven times, each time with tensors at other addresses; the last column is the median "
        "ratio, with the least and the largest. If both chose the same config, it shows the noise."
    )
    yield ""
    yield (
        "| kernel | configs | KernelLab's sweep, s | Triton's, s | ratio | KernelLab's winner "
        "over Triton's |"
    )
    yield "|---|---|---|---|---|---|"
    for name in CASES:
        found = numbers[name]
        ratio = found["sweep's time over triton's"]
        ours, theirs = found["lab"]["seconds"], found["triton"]["seconds"]
        yield (
            f"| {name} | {found['lab']['configs']} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} | "
            f"{_spread(found)} |"
        )
    yield ""
    starts = numbers["starting the processes"]
    yield (
        "The first sweep of a session also starts the processes that compile and time, which "
        f"takes {starts['first sweep'] - starts['same again']:.1f} s and is not in the table."
    )
    yield ""


def same_winner(found: dict[str, Any]) -> bool:
    """Whether KernelLab and Triton chose the same config of a case: their ratio is noise then."""
    ours, theirs = found["lab"]["best"], found["triton"]["best"]
    return all(theirs.get(name) == value for name, value in ours.items())


def _spread(found: dict[str, Any]) -> str:
    winners = found["winners"]
    ratios = winners["in each round"]
    words = f"{winners['lab over triton']:.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
    return f"{words}, the same config" if same_winner(found) else words


def _compiling(numbers: dict[str, Any]) -> Iterator[str]:
    found = numbers["compiling matmul"]
    yield (
        f"The {found['configs']} configs of the matmul compile in {found['serial']:.1f} s "
        f"one after the other, as in Triton, in {found['2 processes']:.1f} s with 2 processes "
        f"({found['times faster on 2']:.1f} times faster) and in {found['8 processes']:.1f} s with "
        f"8 ({found['times faster on 8']:.1f} times)."
    )
    yield ""


def _on_two_gpus() -> Iterator[str]:
    found = json.loads((DATA / "tuning_h200_numbers_2_gpus.json").read_text())
    ratios = found["two GPUs"]["two over one"]
    each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    # T1 = fixed + work, T2 = fixed + work / 2.
    fixed = [
        2 * min(taken["2"]) - min(taken["1"]) for taken in found["two GPUs"]["seconds"].values()
    ]
    yield (
        f"A sweep on two GPUs takes this fraction of the time on one GPU: {each}. "
        f"{min(fixed):.1f} to {max(fixed):.1f} s do not depend on the number of GPUs: sending the "
        "arguments, and compiling and running the first config."
    )
    yield ""


def _fastest() -> Iterator[str]:
    """Yield the fastest config of each sweep, and the pictures of all configs."""
    yield "## The fastest configs"
    yield ""
    yield "No config was dropped. Timed by do_bench, with a cold L2."
    yield ""
    columns = ["sweep", "fastest config", "ties", "us", "torch, us", "slowest, us", "GB/s"]
    columns += ["TFLOP/s", "registers", "shared bytes", "occupancy"]
    yield _line(columns)
    yield "|---" * len(columns) + "|"
    for name, title in CASES.items():
        yield _line(_row(title, kernellab.Tuning.load(SWEEPS / f"tuning_h200_{name}.json")))
    yield ""
    for name, title in CASES.items():
        yield f"![{title}: times of all configs](images/tuning_{name}.png)"
    yield ""


def _row(title: str, tuning: kernellab.Tuning) -> list[str]:
    assert not any(trial.is_dropped for trial in tuning.trials)
    first, *_, last = tuning.ranked
    compiled = first.outcome.compiled
    assert first.timing is not None
    assert first.timing.how == "do_bench, cold L2"
    assert last.timing is not None
    assert compiled is not None
    times = (first.timing, tuning.baselines["torch"], last.timing)
    rates = achieved(tuning, first.timing)
    return [
        title,
        str(first.candidate),
        str(len(tuning.ties)),
        *(f"{timing.median * MICROSECONDS:.1f}" for timing in times),
        f"{rates['GB/s']:,.0f}",
        f"{rates['TFLOP/s']:.3g}" if "TFLOP/s" in rates else "",
        str(compiled.resources.registers),
        f"{compiled.resources.shared_bytes:,}",
        f"{compiled.occupancy:.0%}",
    ]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write the page and its pictures."""
    PAGE.write_text(page())
    for name in CASES:
        tuning = kernellab.Tuning.load(SWEEPS / f"tuning_h200_{name}.json")
        (PICTURES / f"tuning_{name}.png").write_bytes(tuning.plot("times").png(80))
    for name, unit in SIZES.items():
        sizes = kernellab.Tunings.load(SWEEPS / f"tuning_h200_{name}_sizes.json")
        (PICTURES / f"tuning_{name}_sizes.png").write_bytes(sizes.plot(y=unit).png(80))
    matmul = kernellab.Tuning.load(SWEEPS / "tuning_h200_matmul.json")
    (PICTURES / "tuning_matmul_heatmap.png").write_bytes(matmul.plot("heatmap").png(80))


if __name__ == "__main__":
    main()
