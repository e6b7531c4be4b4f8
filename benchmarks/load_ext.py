"""What `%load_ext kernellab` adds to `import torch, triton`, each side in fresh processes
that already have IPython.

The extension loads most of itself at the first `%%tilekernel` cell,
so a second row has that cell's imports too.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys

import pandas

from benchmarks.harness import ROOT, Sample, print_report, take_turns

GOAL = 0.3
"""Seconds that loading the extension may add."""

IMPORTS = "import torch, triton"
LOAD = f"{IMPORTS}; shell.run_line_magic('load_ext', 'kernellab')"
FIRST_CELL = f"{LOAD}; import kernellab.magics.tile_cell, kernellab.interpreter"

_MEASURE = """
import json, sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
started = time.perf_counter()
{statements}
print(json.dumps([time.perf_counter() - started, sorted({{'torch', 'triton'}} & set(sys.modules))]))
"""


def in_fresh_process(statements: str) -> Sample:
    """Seconds that the statements take in a new process with an IPython shell; its output:
    the big modules that are loaded.
    """
    finished = subprocess.run(
        [sys.executable, "-c", _MEASURE.format(statements=statements)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, modules = json.loads(finished.stdout)
    return Sample(seconds, modules)


def main() -> None:
    """Print the table; exit status 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    rows = []
    added = {}
    for name, statements in (("%load_ext kernellab", LOAD), ("and a first cell", FIRST_CELL)):
        comparison = take_turns(
            functools.partial(in_fresh_process, statements),
            lambda: in_fresh_process(IMPORTS),
            rounds=rounds,
        )
        assert comparison.last_ours == comparison.last_theirs
        added[name] = comparison.our_median - comparison.their_median
        rows.append(
            {
                "": name,
                "import torch, triton (s)": f"{comparison.their_median:.2f}",
                "with it (s)": f"{comparison.our_median:.2f}",
                "added (s)": f"{added[name]:.2f}",
                "ratio": f"{comparison.overhead:.2f}",
            }
        )
    print_report(
        "Loading the extension",
        pandas.DataFrame(rows),
        f"Goal: the first row adds at most {GOAL} s.",
    )
    sys.exit(added["%load_ext kernellab"] > GOAL)


if __name__ == "__main__":
    main()
