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
    "matmul": "the demo's: through pointers, with masks",
    SHORT: "short: through tensor descriptors",
    "persistent_matmul": "the same, one program a multiprocessor",
    BEST: "Gluon: one warp copies, two groups of four multiply",
    "torch": "torch, by cuBLAS",
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
        "# Gallery: four kernels beside torch on an H200",
        "",
        "Written by `python -m tools.gallery_page` from `notebooks/recorded/gallery_h200.json`, "
        "which `python -m benchmarks.gallery FILE.json` records: "
        f"{machine['device']}, torch {machine['torch']}, Triton {machine['triton']}, Python "
        f"{machine['python']}. The same kernels run in the lab's interpreter on any machine.",
        "",
        "For each problem every config of a short list, written by hand, is checked against torch "
        "and timed; the best ones and torch's ways then take turns, "
        f"{machine['rounds']} rounds forth and back. Times are medians over the rounds, each with "
        "a cold L2 (`triton.testing.do_bench`); ratios are of one run, above 1 where ours is "
        "faster. Matrix product and vector add are of one run, softmax and attention of another, "
        "minutes apart.",
        "",
        *matmul_section(found["matmul"][0]),
        *softmax_section(found["softmax"]),
        *vector_section(found["vector add"]),
        *attention_section([*found["attention 64"], *found["attention 128"]]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def matmul_section(found: Mapping[str, Any]) -> Iterator[str]:
    """The matrix product: at full clocks, and with no rest."""
    size = found["size"]
    yield f"## Matrix product, {size} x {size} x {size} in fp16"
    yield ""
    clocks = {how: found[how]["times"]["torch"]["MHz"] for how in ("rested", "without rest")}
    yield (
        "Rested: 0.4 s of rest before 15 ms of products, so that the GPU has its full clock "
        f"({clocks['rested']:,} MHz just after torch's turns). Without rest it reaches its limit "
        f"of power and slows down ({clocks['without rest']:,} MHz); which kernel is a percent "
        "faster there, chance decides too."
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
        f"The hand's lists have {len(found['trials'])} configs in all; the best: "
        + "; ".join(f"`{found['best'][name]}`" for name in (SHORT, BEST))
        + ". Lines are those of code, helpers included. `warp_specialize=True` in the persistent "
        "loop changes nothing with 8 warps in Triton 3.6 on sm_90, and with 4 it does not compile. "
        "A form in Gluon whose eight warps multiply as one group was recorded too "
        f"(`specialized_matmul`: {found['rested']['over torch']['specialized_matmul']:.3f}); "
        "apart, one group multiplies while the other writes."
    )
    yield ""
    yield from sources("The short kernel", matmul_parts(SHORT))
    yield from sources("The kernel in Gluon", matmul_parts(BEST))


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
        "Eager torch is the softmax of five single operations that Triton's tutorial begins with; "
        "`torch.softmax` is one kernel, written by hand. 64 Mi elements each."
    )
    yield ""
    head = ["columns", "rows", "us", "GB/s", "over eager torch", "over torch.softmax", "config"]
    rows = [
        [
            f"{one['columns']:,}",
            f"{one['rows']:,}",
            f"{one['times']['ours']['us']:.0f}",
            f"{one['GB/s']:,.0f}",
            f"{one['over eager']:.2f}",
            f"{one['over torch.softmax']:.2f}",
            f"`{one['best'].partition(' ')[2]}`",
        ]
        for one in found
    ]
    yield from table(head, rows)
    yield from sources("The kernel", [demo.softmax])


def vector_section(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Element-wise: three streams."""
    yield "## Vector add, fp32"
    yield ""
    yield (
        "Beside `torch.add` into the same tensor, and torch's copy, which is what memory gives. "
        "Here a round takes the mean of its launches: events tick in steps of 0.6 us, and the time "
        "of a short launch jumps by one from round to round (least and largest round in "
        "brackets), so that at 1 Mi the ratio says nothing: another run gave 1.06."
    )
    yield ""
    head = ["elements", "us", "torch's us", "GB/s", "torch's", "copy's", "over torch", "config"]
    rows = []
    for one in found:
        ours, torchs = one["times"]["ours"], one["times"]["torch"]
        rates = one["GB/s"]
        rows.append(
            [
                f"{one['size'] >> 20} Mi",
                spread(ours),
                spread(torchs),
                *(f"{rates[name]:,.0f}" for name in ("ours", "torch", "copy")),
                f"{one['over torch']:.3f}",
                f"`{one['best'].partition(' ')[2]}`",
            ]
        )
    yield from table(head, rows)
    yield from sources("The kernel", [demo.vector_add])


def spread(times: Mapping[str, Any]) -> str:
    """A median with the least and the largest round."""
    least, largest = times["range"]
    return f"{times['us']:.1f} ({least:.1f} to {largest:.1f})"


def attention_section(found: list[Mapping[str, Any]]) -> Iterator[str]:
    """Forward and backward."""
    yield "## Attention, fp16"
    yield ""
    yield (
        "Beside two backends of `scaled_dot_product_attention`: torch's flash backend "
        "(FlashAttention-2, not written for Hopper), and cuDNN's, which is written for it and "
        "faster than ours. Rates count two products forward and five backward, half of each where "
        "causal. Ours computes seven: scores and their gradients for the keys, and again for the "
        "queries, so that nothing is added up by atomics."
    )
    yield ""
    for way in ("forward", "backward"):
        head = ["batch, heads, tokens, head", "causal", "ms", "TFLOP/s", "flash's", "cuDNN's"]
        head += ["over flash", "over cuDNN"]
        rows = []
        for one in found:
            numbers = one[way]
            rates = [f"{numbers['TFLOP/s'][name]:.0f}" for name in ("ours", "torch", "cuDNN")]
            over = [f"{numbers['over'][name]:.2f}" for name in ("torch", "cuDNN")]
            milliseconds = f"{numbers['times']['ours']['us'] / 1e3:.2f}"
            shape = ", ".join(f"{size:,}" for size in one["shape"])
            causal = "yes" if one["causal"] else "no"
            rows.append([shape, causal, milliseconds, *rates, *over])
        yield f"### {way.capitalize()}"
        yield ""
        yield from table(head, rows)
    largest = max(error for one in found for error in one["errors"]["ours"])
    torchs = max(error for one in found for error in one["errors"]["torch"])
    yield (
        "Output and gradients of one head beside fp32 mathematics, the norm of the difference over "
        f"the norm: at most {largest:.1e}, torch's {torchs:.1e}."
    )
    yield ""
    kernels = gallery_kernels
    yield from sources("Forward", [kernels.attend, kernels.attention_forward])
    yield from sources(
        "Backward",
        [
            kernels.attention_deltas,
            kernels.into_keys,
            kernels.attention_keys,
            kernels.into_queries,
            kernels.attention_queries,
        ],
    )


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


def sources(title: str, parts: Iterable[Any]) -> Iterator[str]:
    """Kernels as they stand, folded."""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield "```python"
    yield "\n\n\n".join(inspect.getsource(part.fn).rstrip() for part in parts)
    yield "```"
    yield ""
    yield "</details>"
    yield ""


def table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    """A table, and a blank line."""
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
