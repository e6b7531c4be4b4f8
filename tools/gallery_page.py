"""Write docs/gallery.md from what `benchmarks.gallery` recorded on an H200, and from the kernels:
python -m tools.gallery_page
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import gallery_kernels
from kernellab.cli.demo import kernels as demo

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "notebooks/recorded/gallery_h200.json"
PAGE = ROOT / "docs/gallery.md"

SHORT, BEST = "short_matmul", "halves_matmul"
MATMULS = {
    "matmul": "the demo's: pointers and masks",
    SHORT: "short: tensor descriptors",
    "persistent_matmul": "the same, one program per multiprocessor",
    BEST: "Gluon: one warp copies, two groups of four warps multiply",
    "torch": "torch (cuBLAS)",
}
"""The rows of the table; what else was recorded did not stay."""


def recorded() -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def page() -> str:
    """The whole page."""
    found = recorded()
    machine = found["machine"]
    lines = [
        "# Gallery: four kernels and torch on an H200",
        "",
        "Written by `python -m tools.gallery_page` from `notebooks/recorded/gallery_h200.json`, "
        "which `python -m benchmarks.gallery FILE.json` records: "
        f"{machine['device']}, torch {machine['torch']}, Triton {machine['triton']}, Python "
        f"{machine['python']}. The kernels are in `benchmarks/gallery_kernels.py` and "
        "`kernellab/cli/demo/kernels.py`; they run in KernelLab's interpreter on any machine.",
        "",
        "Every config of a short list is compared with torch and timed; the best configs and "
        f"torch then take turns, {machine['rounds']} rounds. Times are medians with a cold "
        "L2 (`triton.testing.do_bench`). A ratio above 1 means that ours is faster.",
        "",
        *matmul_section(found["matmul"][0]),
        *softmax_section(found["softmax"]),
        *vector_section(found["vector add"]),
        *attention_section([*found["attention 64"], *found["attention 128"]]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def matmul_section(found: Mapping[str, Any]) -> Iterator[str]:
    """The matmul: at full clocks, and with no rest."""
    size = found["size"]
    yield f"## Matmul, {size} x {size} x {size} in fp16"
    yield ""
    clocks = {how: found[how]["times"]["torch"]["MHz"] for how in ("rested", "without rest")}
    yield (
        "Rested: 0.4 s of rest before 15 ms of matmuls, so that the GPU has its full clock "
        f"({clocks['rested']:,} MHz just after torch's turns). Without rest it reaches its power "
        f"limit and slows down ({clocks['without rest']:,} MHz); differences of a percent are "
        "noise there."
    )
    yield ""
    head = ["kernel", "lines", "rested, TFLOP/s", "over cuBLAS", "without rest", "over cuBLAS"]
    rows = []
    for name, words in MATMULS.items():
        numbers = []
        for how in ("rested", "without rest"):
            ratio = found[how]["over torch"].get(name)
            rate = f"{found[how]['TFLOP/s'][name]:.0f}"
            numbers += [rate, "" if ratio is None else f"{ratio:.3f}"]
        lines = "" if name == "torch" else str(line_count(matmul_parts(name)))
        rows.append([words, lines, *numbers])
    yield from table(head, rows)
    yield (
        f"The lists have {len(found['trials'])} configs in all; the best: "
        + "; ".join(f"`{found['best'][name]}`" for name in (SHORT, BEST))
        + ". Lines of code include helpers."
    )
    yield ""


def matmul_parts(name: str) -> list[Any]:
    """A product's kernel and what it calls."""
    return {
        "matmul": [demo.grouped_tile, demo.matmul],
        SHORT: [gallery_kernels.short_matmul],
        "persistent_matmul": [gallery_kernels.corner, gallery_kernels.persistent_matmul],
        BEST: [
            gallery_kernels.gluon_corner,
            gallery_kernels.load_halves,
            gallery_kernels.multiply_half,
            gallery_kernels.halves_matmul,
        ],
    }[name]


def softmax_section(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Softmax of rows."""
    yield "## Softmax of rows, fp32"
    yield ""
    yield (
        "Eager torch is the softmax of five separate operations in Triton's tutorial; "
        "`torch.softmax` is one kernel, written by hand. 64 Mi elements each."
    )
    yield ""
    head = ["columns", "rows", "us", "GB/s", "over eager torch", "over torch.softmax"]
    rows = [
        [
            f"{one['columns']:,}",
            f"{one['rows']:,}",
            f"{one['times']['ours']['us']:.0f}",
            f"{one['GB/s']:,.0f}",
            f"{one['over eager']:.2f}",
            f"{one['over torch.softmax']:.2f}",
        ]
        for one in found
    ]
    yield from table(head, rows)


def vector_section(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Element-wise: three streams."""
    yield "## Vector add, fp32"
    yield ""
    yield (
        "Compared with `torch.add` into the same tensor, and with torch's copy, which shows the "
        "bandwidth of the memory. The clock has steps of 0.6 us, so the ratio at 1 Mi is noise."
    )
    yield ""
    head = ["elements", "us", "torch's us", "GB/s", "torch's", "copy's", "over torch"]
    rows = []
    for one in found:
        ours, torchs = one["times"]["ours"], one["times"]["torch"]
        rates = one["GB/s"]
        rows.append(
            [
                f"{one['size'] >> 20} Mi",
                f"{ours['us']:.1f}",
                f"{torchs['us']:.1f}",
                *(f"{rates[name]:,.0f}" for name in ("ours", "torch", "copy")),
                f"{one['over torch']:.3f}",
            ]
        )
    yield from table(head, rows)


def attention_section(found: list[Mapping[str, Any]]) -> Iterator[str]:
    """Forward and backward."""
    yield "## Attention, fp16"
    yield ""
    yield (
        "Compared with two backends of `scaled_dot_product_attention`: torch's flash backend "
        "(FlashAttention-2, not written for Hopper), and cuDNN's, which is written for Hopper and "
        "faster than ours. Rates count two matmuls forward and five backward, half of each if "
        "causal. Ours computes seven backward, without atomics: scores and their gradients for the "
        "keys, and again for the queries."
    )
    yield ""
    head = ["batch, heads, tokens, head", "causal"]
    head += [
        f"{way}{what}"
        for way in ("forward", "backward")
        for what in (", TFLOP/s", "/flash", "/cuDNN")
    ]
    rows = []
    for problem in found:
        cells = [", ".join(f"{size:,}" for size in problem["shape"])]
        cells.append("yes" if problem["causal"] else "no")
        for way in ("forward", "backward"):
            cells.append(f"{problem[way]['TFLOP/s']['ours']:.0f}")
            cells += [f"{problem[way]['over'][name]:.2f}" for name in ("torch", "cuDNN")]
        rows.append(cells)
    yield from table(head, rows)
    largest = max(error for one in found for error in one["errors"]["ours"])
    torchs = max(error for one in found for error in one["errors"]["torch"])
    yield (
        "The error of the output and gradients of one head (the norm of the difference from an "
        f"fp32 reference, over its norm) is at most {largest:.1e}, torch's {torchs:.1e}."
    )
    yield ""


def line_count(parts: Iterable[Any]) -> int:
    """Lines of code: no decorators, docstrings, comments or blank lines."""
    count = 0
    for part in parts:
        documented = inspect.getdoc(part.fn)
        assert documented is not None
        lines = [line for line in inspect.getsource(part.fn).splitlines() if line.strip()]
        lines = [line for line in lines if not line.lstrip().startswith(("@", "#"))]
        count += len(lines) - len([line for line in documented.splitlines() if line.strip()])
        # A docstring of several lines closes on one of its own.
        count -= "\n" in documented
    return count


def table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    """A table, and a blank line."""
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    yield from (f"| {' | '.join(cells)} |" for cells in rows)
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
