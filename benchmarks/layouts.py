"""How long the layouts of all tiles of a finished TTGIR take.

One side is `compilation.layouts()`: the module read into xDSL, names and lines, every layout asked
of Triton and made ready to evaluate. The other side is Triton alone: MLIR reads the text, and is
asked for the layout of every tensor that it walks past, one by one. Goal: a matmul's in at most 0.2
s. Both sides must find the same basis vectors.
"""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.harness import ONE_THREAD, print_report, take_turns, timed

os.environ |= ONE_THREAD

import pandas
from triton._C.libtriton import gluon_ir

from kernellab import triton_api
from kernellab.compiler.analyses.layouts import layouts_of_tiles
from kernellab.compiler.analyses.records import Layouts
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.modules import OpenedModules
from kernellab.records.layouts import RegisterLayout
from tests.corpus.loader import compile_entry, entry

ROUNDS = 9
GOAL_SECONDS = 0.2
GOAL_ENTRY = "matmul"
CASES = [
    (GOAL_ENTRY, "sm_80"),
    (GOAL_ENTRY, "sm_90"),
    (GOAL_ENTRY, "sm_100"),
    (GOAL_ENTRY, "gfx950"),
    ("attention_forward", "sm_90"),
]

Found = set[tuple[Any, ...]]
"""Shape and basis vectors of each layout of registers:
of registers (without those that repeat), lanes, warps and blocks."""


def ask_everything(compilation: Compilation) -> Layouts:
    """All layouts, nothing kept from before."""
    return layouts_of_tiles(OpenedModules(compilation), "ttgir")


def triton_alone(compilation: Compilation) -> Found:
    """The layouts of all tensors that operations give, by Triton's own calls."""
    module = triton_api.parse_mlir(compilation.stages["ttgir"].text, compilation.target)
    builder = gluon_ir.GluonOpBuilder(module.context)
    found: Found = set()

    def look(op: Any) -> None:
        for number in range(op.get_num_results()):
            value = op.get_result(number)
            words = str(value.get_type())
            if not words.startswith("tensor<") or "#" not in words:
                continue
            shape = [int(size) for size in words[len("tensor<") :].split("x") if size.isdigit()]
            layout = builder.get_gluon_layout_from_tensor(value)
            linear = builder.to_linear_layout(layout._to_ir(builder), shape)
            held = [vector for vector in linear.reg_bases if any(vector)]
            every = (held, linear.lane_bases, linear.warp_bases, linear.block_bases)
            found.add((tuple(shape), *(tuple(map(tuple, vectors)) for vectors in every)))

    module.walk(look)
    return found


def bases_of(layouts: Layouts) -> Found:
    """Our side's answers in the same form."""
    return {
        (one.shape, one.register, one.lane, one.warp, one.block)
        for one in (tile.layout for tile in layouts)
        if isinstance(one, RegisterLayout)
    }


def evaluate(layouts: Layouts) -> int:
    """The holders of every element of every tile of registers, as arrays;
    gives how many there are.
    """
    return sum(
        tile.layout.all_holders().size
        for tile in layouts
        if isinstance(tile.layout, RegisterLayout)
    )


def row(name: str, compilation: Compilation) -> tuple[float, dict[str, Any]]:
    """Seconds for all layouts, and the row of the table."""
    turns = take_turns(
        lambda: timed(lambda: ask_everything(compilation), time.process_time),
        lambda: timed(lambda: triton_alone(compilation), time.process_time),
        rounds=ROUNDS,
    )
    evaluation = timed(lambda: evaluate(turns.last_ours), time.process_time)
    return turns.our_median, {
        "kernel": name,
        "target": compilation.target.name,
        "tiles": len(turns.last_ours),
        "layouts(), ms": f"{turns.our_median * 1e3:.0f}",
        "Triton alone, ms": f"{turns.their_median * 1e3:.0f}",
        "every holder, ms": f"{evaluation.seconds * 1e3:.0f}",
        "same vectors": "yes" if bases_of(turns.last_ours) >= turns.last_theirs else "NO",
    }


def main() -> None:
    """Print the table; exit with 1 where the goal is missed or the answers differ."""
    rows = [
        row(name, compile_entry(entry(name), target, record="stages")) for name, target in CASES
    ]
    print_report(
        "Layouts of a finished TTGIR",
        pandas.DataFrame([columns for _, columns in rows]),
        f"One thread, CPU time; medians of {ROUNDS}, in turns; every holder: arrays of the holders "
        f"of all elements of all tiles, once. Goal: {GOAL_ENTRY} in at most {GOAL_SECONDS} s.",
    )
    slow = any(seconds > GOAL_SECONDS for seconds, one in rows if one["kernel"] == GOAL_ENTRY)
    raise SystemExit(1 if slow or any(one["same vectors"] == "NO" for _, one in rows) else 0)


if __name__ == "__main__":
    main()
