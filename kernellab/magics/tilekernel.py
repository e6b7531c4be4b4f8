"""`%%tilekernel`: an ordinary cell whose Triton kernels run with or without a GPU,
and are shown compiled.
"""

from __future__ import annotations

from kernellab.common.arguments import (
    later,
    names_in,
    read_constexprs,
    read_warps,
    read_whole_number,
)
from kernellab.magics.ipython_api import RunningCell
from kernellab.magics.magic import cell_magic
from kernellab.magics.options import Option, Options

COMPILING = (
    Option(
        "--target",
        "GPU",
        "The GPU to compile for, and to emulate when a launch runs on the CPU: sm_90 (the "
        "default), sm_80, gfx942, ...",
        later("kernellab.compiler.targets:parse_target"),
        names_in("kernellab.compiler.targets:SUPPORTED_TARGETS"),
    ),
    Option(
        "--sig",
        "TYPES",
        'Argument types for kernels that the cell does not launch: "*fp32:16, *fp32, i32". ":16" '
        'promises that a pointer or integer is divisible by 16. An entry may be named: "n=i32".',
        later("kernellab.compiler.arguments:parse_signature"),
    ),
    Option(
        "--constexpr",
        "NAME=VALUE",
        "The value of a tl.constexpr parameter, for kernels that the cell does not launch: an int, "
        "a float, True or False, a string, or a type such as tl.float16. Several with commas "
        "between them: BM=64,BN=32.",
        read_constexprs,
        repeated=True,
    ),
    Option(
        "--num-warps",
        "N",
        "Warps per program to compile with, where the launch does not say.",
        read_warps,
        lambda: ["1", "2", "4", "8", "16"],
    ),
    Option(
        "--num-stages",
        "N",
        "Stages of the software pipeline to compile with, where the launch does not say.",
        read_whole_number,
        lambda: ["1", "2", "3", "4", "5"],
    ),
)
"""The options that say what a kernel is compiled for."""

OPTIONS = Options(
    "tilekernel", (*COMPILING, Option("--no-compile", "", "Run the cell and show no cards."))
)

_HELP = """Run the cell; its Triton kernels run on the CPU as on a GPU, and are shown compiled.

The cell is an ordinary cell: any Python, any number of kernels and helper functions, everything it
defines is in your namespace afterwards. Functions decorated with @triton.jit or @gluon.jit become
TileKernels: a launch with CPU tensors or NumPy arrays runs in KernelLab's interpreter, in place;
with CUDA tensors it runs on the GPU. After the cell, a card for each kernel says what the
compiler made of it.

The types that a card is compiled for come from the cell's launch of the kernel; without one, from
--sig; else from annotations (x_ptr: "*fp32"); else they are assumed, and the card says so.

Options:

{options}

Examples:

  %%tilekernel
      Run the cell for the default GPU, sm_90; no GPU is needed.

  %%tilekernel --target gfx942 --num-warps 8
      Emulate an AMD MI300 and compile for it, with 8 warps per program.

  %%tilekernel --sig "*fp16:16, *fp16:16, n=i32" --constexpr BLOCK=1024
      Compile a kernel that the cell defines and does not launch.
"""


@cell_magic(OPTIONS, _HELP.format(options=OPTIONS.help()))
def tilekernel(running: RunningCell, line: str, body: str) -> None:
    """Run a cell, and show the cards of its kernels."""
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.magics.tile_cell import run_tile_cell

    run_tile_cell(running, OPTIONS.parse(line, running.position), body)
