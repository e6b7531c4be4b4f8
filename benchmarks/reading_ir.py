"""How long it takes to read a compiled kernel's module into xDSL, and to print it.

One side is the whole way from the stage's text to typed ops: MLIR parses the text and prints its
generic form, xDSL reads that. The other side is xDSL's own parser on the same generic form, with no
class of ours known to it. Goal: the TTGIR of attention forward in at most 0.25 s. Both sides must
find the same ops.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, UnregisteredOp
from xdsl.parser import Parser

from benchmarks.harness import print_report, take_turns, timed
from kernellab import triton_api
from kernellab.compiler.compilations import Compilation
from kernellab.ir.syntax import in_order_of_use, write_module
from tests.corpus.loader import compile_entry, entry

ROUNDS = 9
GOAL_SECONDS = 0.25
GOAL_ENTRY = "attention_forward"
CASES = [
    ("vector_add", "sm_90"),
    ("matmul", "sm_90"),
    ("matmul_tma_specialized", "sm_100"),
    (GOAL_ENTRY, "sm_80"),
    (GOAL_ENTRY, "sm_90"),
    (GOAL_ENTRY, "sm_100"),
    (GOAL_ENTRY, "gfx942"),
    ("attention_backward", "sm_90"),
]


def xdsl_alone(generic: str) -> ModuleOp:
    """xDSL's parser, which needs the aliases in the order of their use."""
    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    return Parser(context, in_order_of_use(generic)).parse_module()


def op_counts(module: ModuleOp) -> Counter[str]:
    """Op name -> how many, generic ops under their own names."""
    return Counter(
        op.op_name.data if isinstance(op, UnregisteredOp) else op.name for op in module.walk()
    )


def row(name: str, compilation: Compilation) -> tuple[float, dict[str, Any]]:
    """Seconds for the whole way, and the row of the table."""
    generic = triton_api.generic_form(compilation.stages["ttgir"].text, compilation.target)
    turns = take_turns(
        lambda: timed(lambda: compilation.module("ttgir")),
        lambda: timed(lambda: xdsl_alone(generic)),
        rounds=ROUNDS,
    )
    ours, theirs = turns.last_ours, turns.last_theirs
    printing = min(timed(lambda: write_module(ours)).seconds for _ in range(3))
    counts = op_counts(ours)
    return turns.our_median, {
        "kernel": name,
        "target": compilation.target.name,
        "ops": sum(counts.values()),
        'module("ttgir"), ms': f"{turns.our_median * 1e3:.0f}",
        "xDSL alone, ms": f"{turns.their_median * 1e3:.0f}",
        "printing, ms": f"{printing * 1e3:.0f}",
        "same ops": "yes" if counts == op_counts(theirs) else "NO",
    }


def main() -> None:
    """Print the table; exit with 1 where the goal is missed or ops differ."""
    rows = [
        row(name, compile_entry(entry(name), target, record="stages")) for name, target in CASES
    ]
    print_report(
        "Reading TTGIR into xDSL",
        pandas.DataFrame([columns for _, columns in rows]),
        f"Medians of {ROUNDS}, in turns; printing: the best of 3. Goal: {GOAL_ENTRY} in at most "
        f"{GOAL_SECONDS} s.",
    )
    slow = any(seconds > GOAL_SECONDS for seconds, one in rows if one["kernel"] == GOAL_ENTRY)
    raise SystemExit(1 if slow or any(one["same ops"] == "NO" for _, one in rows) else 0)


if __name__ == "__main__":
    main()
