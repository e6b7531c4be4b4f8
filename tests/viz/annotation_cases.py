"""A kernel with all that is known of it: compiled, checked, counted, profiled as if on a GPU."""

import csv
import functools
import io
import linecache
from collections.abc import Iterable
from typing import Any

import torch

import kernellab
from kernellab.checker.records import Findings
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.records import Instruction
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.profiles.nsight import SampledCode, launch_pages
from tests.kernels import evidenced
from tests.support.compiled import compiled

FILE = evidenced.__file__
GRID = (4,)
GPU = "NVIDIA H200"


def line_of(words: str) -> int:
    """The only line of the kernels' file with some words."""
    lines = linecache.getlines(FILE)
    (number,) = [number for number, line in enumerate(lines, 1) if words in line]
    return number


def launch(step: int = 4) -> dict[str, Any]:
    """Arguments of `thinned`; with a step of 4 the last programs read beyond their tensor."""
    return {
        "x_ptr": torch.zeros(1600),
        "y_ptr": torch.zeros(512),
        "n": 512,
        "STEP": step,
        "BLOCK": 128,
    }


@functools.cache
def compilation() -> Compilation:
    """The kernel as it is launched, every pass recorded."""
    return compiled(evidenced.thinned, **launch())


@functools.cache
def checked() -> Findings:
    return kernellab.check(evidenced.thinned, GRID, **launch())


@functools.cache
def counted() -> Accesses:
    arguments = {**launch(), "x_ptr": torch.zeros(4096)}
    return kernellab.accesses(evidenced.thinned, GRID, **arguments)


def ncu_page(instructions: Iterable[Instruction], kernel: str) -> str:
    """A source page as ncu prints it for these instructions, with numbers that follow
    from their places: no GPU was asked.

    Instruction number i has 10 executions, and as many samples of stall_long_sb as i % 7,
    of stall_wait as i % 3, of stall_selected 1.
    """
    text = io.StringIO()
    write = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
    write(["Kernel Name", kernel])
    reasons = ["stall_long_sb", "stall_wait", "stall_selected", "stall_wait (Not Issued)"]
    write(
        [
            "Address", "Source", "Warp Stall Sampling (All Samples)", "# Samples",
            "Instructions Executed", *reasons,
        ]
    )  # fmt: skip
    for i, one in enumerate(instructions):
        samples = (i % 7, i % 3, 1)
        operands = ["0x7f2a3cfa0a10"] if one.opcode.startswith(("BRA", "BSSY")) else one.operands
        words = " ".join(word for word in (one.predicate, one.opcode, ", ".join(operands)) if word)
        write(
            [
                f"0x7f2a3c{one.address:06x}", f"      {words} ", sum(samples), sum(samples), 10,
                *samples, samples[1],
            ]
        )  # fmt: skip
    return text.getvalue()


@functools.cache
def profiled() -> SampledCode:
    (page,) = launch_pages(ncu_page(compilation().instructions, "thinned"))
    return SampledCode(page.kernel, GPU, "Nsight Compute", page.instructions)
