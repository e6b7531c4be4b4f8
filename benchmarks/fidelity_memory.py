"""What Nsight Compute counts while the kernels of `memory_cases` run,
and what is predicted with no GPU.

On a machine with an NVIDIA GPU and ncu, `python -m benchmarks.fidelity_memory --record FOLDER`
writes FOLDER/memory_h200.json: per kernel its counters, the TTGIR that was compiled, and the
machine and versions. Clocks are left alone: nothing here is a time. Anywhere,
`python -m benchmarks.fidelity_memory` predicts the counters and prints both: a table of
docs/fidelity.md, which the tests replay.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import torch
import triton

from benchmarks.fidelity_outputs import machine
from benchmarks.harness import ROOT, print_report
from benchmarks.memory_cases import MEMORY_CASES, MemoryCase
from kernellab import triton_api
from kernellab.compiler.binding import bind
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.targets import parse_target
from kernellab.profiling.accesses.counts import accesses_of_text
from kernellab.profiling.accesses.records import Accesses, SharedKind

FILE = "memory_h200.json"
RECORDED = ROOT / "notebooks/recorded" / FILE

_GLOBAL = "l1tex__t_{what}_pipe_lsu_mem_global_op_{kind}.sum"
_ASYNC = "sm__sass_l1tex_t_{what}_pipe_lsu_mem_global_op_ldgsts.sum"
_SHARED = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{kind}.sum"

METRICS = {
    **{
        f"{name}_{what}": _GLOBAL.format(what=what, kind=kind)
        for name, kind in (
            ("load", "ld"),
            ("store", "st"),
            ("atomic", "atom"),
            ("reduction", "red"),
        )
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
            ("load", "ld"),
            ("store", "st"),
            ("ldmatrix", "ldsm"),
            ("stmatrix", "stsm"),
            ("async", "ldgsts"),
            ("wgmma", "gmma"),
            ("atomic", "atom"),
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
}
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
        lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda")
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
    """A module with the names of files from their package on:
    where that stands is the machine's own affair.
    """
    for folder in (ROOT, Path(triton.__file__).parent.parent):
        text = text.replace(f"{folder}/", "")
    return text


def profile(folder: Path) -> dict[str, Any]:
    """The counters of every case, by its name."""
    facts = folder / "facts.json"
    names = sorted({case.kernel.__name__ for case in MEMORY_CASES})
    command = [
        "ncu",
        "--clock-control",
        "none",
        "--cache-control",
        "all",
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--kernel-name-base",
        "function",
        "--kernel-name",
        f"regex:^({'|'.join(names)})$",
        "--metrics",
        ",".join(METRICS.values()),
        sys.executable,
        "-m",
        "benchmarks.fidelity_memory",
        "--launch",
        str(facts),
    ]
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


# Predictions


TARGET = "sm_90"
FEWEST_REGISTERS = 16
"""A launch gives a thread at least so many, whatever the compiled kernel needs."""


@dataclass(frozen=True)
class Counter:
    """One of the counters, and how it is predicted from accesses.

    Attributes:
        name: ours; see `METRICS`.
        field: of `GlobalAccess`: "requests" or "sectors".
        actions: of the accesses that it counts.
        by_warp: whether each warp of a program counts, as it does for an instruction that one
            thread carries out.
    """

    name: str
    field: str
    actions: tuple[str, ...]
    by_warp: bool = False

    def predict(self, found: Accesses, warps: int) -> int:
        """What it should count."""
        total = sum(getattr(one, self.field) for one in found if one.action in self.actions)
        return int(total) * (warps if self.by_warp else 1)


@dataclass(frozen=True)
class SharedCounter:
    """One of the counters of shared memory, and how it is predicted from accesses.

    Attributes:
        name: ours; see `METRICS`.
        field: of `SharedAccess`: "wavefronts" or "conflicts".
        kind: of the instructions that it counts.
    """

    name: str
    field: str
    kind: SharedKind

    def predict(self, found: Accesses, warps: int) -> int:
        """What it should count."""
        del warps
        return sum(getattr(one, self.field) for one in found.shared if one.kind == self.kind)


_COUNTED = (
    ("load", ("load", "async copy")),
    ("store", ("store",)),
    ("atomic", ("atomic", "tensor map")),
    ("async", ("async copy",)),
)
COUNTERS = (
    *(
        Counter(f"{kind}_{what}", what, actions)
        for kind, actions in _COUNTED
        for what in ("requests", "sectors")
    ),
    Counter("tma_load_instructions", "requests", ("TMA load",), by_warp=True),
    Counter("tma_load_sectors", "sectors", ("TMA load",)),
    Counter("tma_store_instructions", "requests", ("TMA store",), by_warp=True),
)
_SHARED_KINDS: Mapping[str, SharedKind] = {
    "load": "load",
    "store": "store",
    "ldmatrix": "ldmatrix",
    "stmatrix": "stmatrix",
    "atomic": "atomic",
    "wgmma": "wgmma",
    "async": "async copy",
}
SHARED_COUNTERS = (
    *(
        SharedCounter(f"shared_wavefronts_{name}", "wavefronts", kind)
        for name, kind in _SHARED_KINDS.items()
    ),
    SharedCounter("shared_conflicts_load", "conflicts", "load"),
    SharedCounter("shared_conflicts_store", "conflicts", "store"),
)

_PLACES_OF_COPIES = (
    "rows of shared memory take pieces whose places within 128 bytes change in more than one way"
)
_OTHER_PTX = "Triton 3.7.1 writes other PTX for the same TTGIR; with 3.6.0 it is {} here too"
EXPLAINED = {
    ("histogram", "shared_wavefronts_load"): (
        "ptxas lets two of the four warps, whose bins the other two store, leave before they load"
    ),
    **{
        (case, "shared_wavefronts_async"): f"by the rule of the isolated copies {count}"
        for case, count in {
            "matmul fp16, 3 stages": "14,336 to 15,360, as lanes that are off count",
            "matmul fp16, 16 rows": "29,696 to 30,720, as lanes that are off count",
            "matmul fp32, tf32": "174,080",
            "matmul bf16, 8 warps": "7,168 to 7,680, as lanes that are off count",
        }.items()
    },
    **{
        (f"async copies, {case}", "shared_wavefronts_async"): _PLACES_OF_COPIES
        for case in (
            "16 bytes, rows of 64, apart",
            "16 bytes, rows of 64, apart and swizzled by 4",
            "16 bytes, rows of 64, swizzled by 4",
            "16 bytes, rows of 32, apart",
            "4 bytes, rows of 32 apart",
        )
    },
    ("matmul bf16, 8 warps", "async_sectors"): (
        "two counters of one thing: load_sectors, which has the asynchronous copies and nothing "
        "else in this kernel, is 16,384 in the same run"
    ),
    ("matmul fp16, descriptors", "tma_load_instructions"): (
        "the counter has the pipelined loop's last loads too, two for each tensor, which a "
        "predicate switches off: 512 + 256"
    ),
    **{
        (case, "registers"): _OTHER_PTX.format(count)
        for case, count in {
            "softmax fp32": 38,
            "matmul fp16, 16 rows": 55,
            "async copies, 4 bytes": 19,
            "async copies, 4 bytes, rows of 32 apart": 31,
            "async copies, 4 bytes, half of them off": 19,
        }.items()
    },
    ("softmax fp32", "occupancy"): "as its registers; with Triton 3.6.0 it is 12 here too",
}
"""(case, counter) -> why the prediction is another number."""


@dataclass(frozen=True)
class Prediction:
    """One case's predictions beside what was counted.

    Attributes:
        case: its name.
        predicted, counted: by counter; "registers" and "occupancy" where this machine's compiler
            makes the TTGIR that ran.
        compiled_here: whether it does; else the recorded TTGIR was run.
    """

    case: str
    predicted: dict[str, int]
    counted: dict[str, int]
    compiled_here: bool

    @property
    def unequal(self) -> tuple[str, ...]:
        """The counters that are predicted wrong."""
        return tuple(
            name for name, number in self.predicted.items() if number != self.counted[name]
        )


def predict(case: MemoryCase, row: Mapping[str, Any]) -> Prediction:
    """Predict what was counted for a case, on this machine, with no GPU."""
    counters = row["counters"]
    tensors = case.tensors()
    target = parse_target(TARGET)
    call = bind(case.kernel, (), {**tensors, **case.settings}, target)
    compiled = compile_bound(case.kernel, call, target, record="stages")
    here = without_locations(compiled.stages["ttgir"].text) == without_locations(row["ttgir"])
    text = compiled.stages["ttgir"].text if here else row["ttgir"]
    generic = triton_api.generic_form(text, target)
    found = accesses_of_text(case.kernel, case.grid, call, target, generic)
    warps = case.options["num_warps"]
    all_counters: tuple[Counter | SharedCounter, ...] = (*COUNTERS, *SHARED_COUNTERS)
    predicted = {counter.name: counter.predict(found, warps) for counter in all_counters}
    counted = {name: int(counters[name]) for name in predicted}
    for what in (
        "requests",
        "sectors",
    ):  # atomics whose result no one wants have counters of their own
        counted[f"atomic_{what}"] += int(counters[f"reduction_{what}"])
    if here:
        predicted["registers"] = max(compiled.resources.registers or 0, FEWEST_REGISTERS)
        predicted["occupancy"] = compiled.occupancy().blocks
        counted["registers"] = int(counters["registers"])
        limits = [number for name, number in counters.items() if name.startswith("occupancy_limit")]
        counted["occupancy"] = int(min(limits))
    return Prediction(case.name, predicted, counted, here)


_LOCATION = re.compile(r'\s*loc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*")*\))*\)')


def without_locations(text: str) -> str:
    """A module's text with nothing that says where its operations come from."""
    return _LOCATION.sub("", re.sub(r"^#loc.*\n", "", text, flags=re.MULTILINE))


def predictions() -> Iterator[Prediction]:
    """Every case's."""
    rows = json.loads(RECORDED.read_text())["rows"]
    return (predict(case, rows[case.name]) for case in MEMORY_CASES)


SHOWN = {
    "loads": ("load_requests", "load_sectors"),
    "stores": ("store_requests", "store_sectors"),
    "atomics": ("atomic_requests", "atomic_sectors"),
    "asynchronous copies": ("async_requests", "async_sectors"),
    "TMA loads": ("tma_load_instructions", "tma_load_sectors"),
    "registers": ("registers",),
    "programs at once": ("occupancy",),
}
"""Column of the table -> its counters."""


SHOWN_SHARED = {
    **{
        {"async": "asynchronous copies"}.get(
            name, f"{name}s" if name in ("load", "store", "atomic") else name
        ): (f"shared_wavefronts_{name}",)
        for name in _SHARED_KINDS
    },
    "conflicts of loads, stores": ("shared_conflicts_load", "shared_conflicts_store"),
}
"""The same of the table of shared memory."""


def table(
    found: Sequence[Prediction], shown: Mapping[str, Sequence[str]] = SHOWN
) -> pandas.DataFrame:
    """What docs/fidelity.md shows: one number where prediction and counter agree, else both."""
    return pandas.DataFrame(
        {
            "kernel": one.case,
            **{
                column: " / ".join(_shown(one, name) for name in names)
                if any(one.counted.get(name) or one.predicted.get(name) for name in names)
                else ""
                for column, names in shown.items()
            },
            "TTGIR": "compiled here" if one.compiled_here else "recorded",
        }
        for one in found
    )


def _shown(one: Prediction, name: str) -> str:
    predicted, counted = one.predicted[name], one.counted[name]
    return f"{counted:,}" if predicted == counted else f"{predicted:,} (counted {counted:,})"


def report() -> bool:
    """Print both tables, and what is not equal; whether all of that is explained."""
    found = list(predictions())
    facts = json.loads(RECORDED.read_text())["machine"]
    recorded = (
        f"Recorded on: {facts['gpu']}, Triton {facts['triton']}, torch {facts['torch']}. Not equal:"
    )
    shared = {counter.name for counter in SHARED_COUNTERS}
    copies = {"shared_wavefronts_async"}
    print_report(
        "Accesses to global memory",
        table(_wrong_in(found, lambda name: name not in shared)),
        f"Requests and sectors of {_equal(found, COUNTERS)} of {len(found)} kernels are all "
        f"equal. {recorded}",
        "\n".join(_reasons(found, lambda name: name not in shared)),
    )
    using = [one for one in found if any(one.counted[name] for name in shared)]
    by_warps = [counter for counter in SHARED_COUNTERS if counter.name not in copies]
    print_report(
        "Accesses to shared memory",
        table(_wrong_in(found, lambda name: name in shared), SHOWN_SHARED),
        f"Wavefronts and conflicts of {_equal(found, by_warps)} of {len(found)} kernels are all "
        f"equal ({_equal(using, by_warps)} of the {len(using)} that use shared memory), of "
        f"{_equal(found, SHARED_COUNTERS)} ({_equal(using, SHARED_COUNTERS)}) with asynchronous "
        f"copies counted in. {recorded}",
        "\n".join(_reasons(found, lambda name: name in shared)),
        f"The kernels: {', '.join(prediction.case for prediction in found)}.",
    )
    return all((one.case, name) in EXPLAINED for one in found for name in one.unequal)


def _equal(found: Sequence[Prediction], counters: Sequence[Counter | SharedCounter]) -> int:
    """How many cases have all of some counters right."""
    names = {counter.name for counter in counters}
    return sum(names.isdisjoint(one.unequal) for one in found)


def _wrong_in(found: Sequence[Prediction], belongs: Callable[[str], bool]) -> Sequence[Prediction]:
    """Return the cases with a wrong counter among those that belong to a table."""
    return [prediction for prediction in found if any(map(belongs, prediction.unequal))]


def _reasons(found: Sequence[Prediction], is_asked: Callable[[str], bool]) -> Iterator[str]:
    for one in found:
        for name in filter(is_asked, one.unequal):
            yield f"- {one.case}, {name}: {EXPLAINED.get((one.case, name), 'not explained')}."


def main() -> None:
    """Record, or print the table; exits with 1 where a prediction is wrong and nothing explains it.

    The profiler starts this file again, only to launch.
    """
    arguments = argparse.ArgumentParser(description=__doc__)
    does = arguments.add_mutually_exclusive_group()
    does.add_argument(
        "--record",
        type=Path,
        help="profile on this machine's GPU and write the counters to this folder",
    )
    does.add_argument(
        "--launch",
        type=Path,
        help="only launch every case, and write what was compiled to this file",
    )
    given = arguments.parse_args()
    if given.launch is not None:
        launch_all(given.launch)
        return
    if given.record is None:
        raise SystemExit(not report())
    with tempfile.TemporaryDirectory() as folder:
        found = profile(Path(folder))
    (given.record / FILE).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
