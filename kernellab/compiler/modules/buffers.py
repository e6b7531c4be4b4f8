"""The buffers in shared memory that a TTGIR module allocates,
for the error that says there are too many.
"""

from __future__ import annotations

import math
import re
from typing import Any

from kernellab import triton_api
from kernellab.common.text import joined_sizes
from kernellab.compiler.source_map import module_frames

_ALLOCATION = re.compile(
    r"^\s*(?P<name>%[\w$.-]+) = ttg\.local_alloc\b.*!ttg\.memdesc<(?P<shape>(?:\d+x)+)"
    r"(?P<element>[a-z]\w*)"
)
_BITS = re.compile(r"^[a-zA-Z]+(\d+)")
_POINTER_BITS = 64


def buffer_report(kernel: Any, compiled: triton_api.CompiledKernel) -> str:
    """One line per `local_alloc` of a kernel's TTGIR, the largest first:
    its bytes, its shape, the kernel's line.

    Padding, scratch memory of reductions and layout conversions,
    and buffers that share memory are left out: the sum differs from what the allocator requests.
    """
    text = str(compiled.stages.get("ttgir", ""))
    frames = module_frames(text)
    buffers = []
    for at, line in enumerate(text.splitlines()):
        if match := _ALLOCATION.match(line):
            sizes = [int(size) for size in match["shape"].rstrip("x").split("x")]
            count, bits = math.prod(sizes), _element_bits(match["element"])
            shape = joined_sizes(sizes)
            place = _kernel_place(kernel, frames[at])
            buffers.append((count * bits // 8, f"{shape} {match['element']}{place}"))
    if not buffers:
        return ""
    buffers.sort(key=lambda buffer: -buffer[0])
    lines = [f"  {size:>9,} bytes  {what}" for size, what in buffers]
    return "Its largest buffers, as TTGIR allocates them:\n" + "\n".join(lines[:8])


def _element_bits(element: str) -> int:
    if element.startswith("f8"):
        return 8
    match = _BITS.match(element)
    return int(match[1]) if match else _POINTER_BITS


def _kernel_place(kernel: Any, chains: Any) -> str:
    for chain in chains:
        for file, line, column in chain:
            if position := triton_api.position_in_kernel(kernel, file, line, column):
                return f", for line {position.line}"
    return ""
