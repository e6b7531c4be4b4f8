"""What Nsight Compute counts while the kernels of `memory_cases` run.

On a machine with an NVIDIA GPU and ncu, `python -m benchmarks.fidelity_memory --record FOLDER` writes FOLDER/memory_h200.json:
per kernel its counters, the TTGIR that was compiled, and the machine and versions. Clocks are left alone: nothing here is a time.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton

from benchmarks.fidelity_outputs import machine
from benchmarks.harness import ROOT
from benchmarks.memory_cases import MEMORY_CASES, MemoryCase

FILE = "memory_h200.json"

_GLOBAL = "l1tex__t_{what}_pipe_lsu_mem_global_op_{kind}.sum"
_ASYNC = "sm__sass_l1tex_t_{what}_pipe_lsu_mem_global_op_ldgsts.sum"
_SHARED = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{kind}.sum"

METRICS = {
    **{
        f"{name}_{what}": _GLOBAL.format(what=what, kind=kind)
        for name, kind in (("load", "ld"), ("store", "st"), ("atomic", "atom"), ("reduction", "red"))
        for what in ("requests", "sectors")
    },
    "async_requests": _ASYNC.format(what="requests"),
    "async_sectors": _ASYNC.format(what="sectors"),
    "tma_load_instructions": "smsp__inst_executed_op_tma_ld.sum",
    "tma_store_instructions": "smsp__inst_executed_op_tma_st.sum",
    "tma_load_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    **{
        f"shared_wavefronts_{name}": _SHARED.format(kind=kind)
        for name, kind in (
            ("load", "ld"), ("store", "st"), ("ldmatrix", "ldsm"), ("stmatrix", "stsm"), ("async", "ldgsts"),
            ("wgmma", "gmma"), ("atomic", "atom"),
        )
    },
    "shared_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "shared_conflicts_load": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_conflicts_store": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "shared_load_instructions": "smsp__inst_executed_op_shared_ld.sum",
    "shared_store_instructions": "smsp__inst_executed_op_shared_st.sum",
    "ldmatrix_instructions": "smsp__inst_executed_op_ldsm.sum",
    "registers": "launch__registers_per_thread",
    "occupancy_limit_blocks": "launch__occupancy_limit_blocks",
    "occupancy_limit_registers": "launch__occupancy_limit_registers",
    "occupancy_limit_shared": "launch__occupancy_limit_shared_mem",
    "occupancy_limit_warps": "launch__occupancy_limit_warps",
    "dram_bytes_read": "dram__bytes_read.sum",
}  # fmt: skip
"""Our name -> Nsight Compute's metric."""


def launch(case: MemoryCase) -> Any:
    """Run a case on the GPU, once; returns Triton's compiled kernel."""
    tensors = {name: tensor.cuda() for name, tensor in case.tensors().items()}
    compiled = case.kernel[case.grid](**tensors, **case.settings)
    torch.cuda.synchronize()
    return compiled


def launch_all(facts: Path) -> None:
    """Every case in order, for a profiler to watch; writes what was compiled."""
    triton.set_allocator(
        lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")  # noqa: ARG005
    )
    compiled = {}
    for case in MEMORY_CASES:
        found = launch(case)
        compiled[case.name] = {
            "kernel": case.kernel.__name__,
            "ttgir": without_folders(found.asm["ttgir"]),
            "shared_bytes": found.metadata.shared,
        }
    facts.write_text(json.dumps({"machine": machine(), "compiled": compiled}))


def without_folders(text: str) -> str:
    """A module with the names of files from their package on: where that stands is the machine's own affair."""
    for folder in (ROOT, Path(triton.__file__).parent.parent):
        text = text.replace(f"{folder}/", "")
    return text


def profile(folder: Path) -> dict[str, Any]:
    """The counters of every case, by its name."""
    facts = folder / "facts.json"
    names = sorted({case.kernel.__name__ for case in MEMORY_CASES})
    command = [
        "ncu", "--clock-control", "none", "--cache-control", "all", "--csv", "--page", "raw", "--print-units", "base",
        "--kernel-name-base", "function", "--kernel-name", f"regex:^({'|'.join(names)})$",
        "--metrics", ",".join(METRICS.values()),
        sys.executable, "-m", "benchmarks.fidelity_memory", "--launch", str(facts),
    ]  # fmt: skip
    printed = subprocess.run(command, capture_output=True, text=True, check=False)
    if printed.returncode or not facts.exists():
        raise SystemExit(f"{printed.stdout[-3000:]}\n{printed.stderr[-3000:]}")
    found = json.loads(facts.read_text())
    rows = {}
    for case, counters in zip(MEMORY_CASES, launches(printed.stdout), strict=True):
        rows[case.name] = {**found["compiled"][case.name], "counters": counters}
    return {"machine": found["machine"], "rows": rows}


def launches(printed: str) -> Iterator[dict[str, float]]:
    """The counters of each launch in ncu's CSV, under our names."""
    lines = [line for line in printed.splitlines() if line.startswith('"')]
    for row in csv.DictReader(lines):
        if row["ID"]:  # the line under the heading holds units
            yield {name: float(row[metric].replace(",", "")) for name, metric in METRICS.items()}


def main() -> None:
    """Profile every case; the profiler starts this file again, only to launch."""
    arguments = argparse.ArgumentParser(description=__doc__)
    does = arguments.add_mutually_exclusive_group(required=True)
    does.add_argument("--record", type=Path, help="profile on this machine's GPU and write the counters to this folder")  # fmt: skip
    does.add_argument("--launch", type=Path, help="only launch every case, and write what was compiled to this file")  # fmt: skip
    given = arguments.parse_args()
    if given.launch is not None:
        launch_all(given.launch)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = profile(Path(folder))
    (given.record / FILE).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
