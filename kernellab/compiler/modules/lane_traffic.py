"""How many bytes an operation hands from lane to lane:
counted in the machine code, or estimated by how Triton lowers it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernellab.records.layouts import RegisterLayout
from kernellab.triton_api.versions import TURNS_WARPS_AT_ONCE

WORD = 4
"""Bytes that one lane hands on in one shuffle: a register, however much of it the value fills."""
_HANDING = ("SHFL", "REDUX", "CREDUX")
"""How the opcodes begin of NVIDIA's instructions that hand a register of every lane to others."""


@dataclass(frozen=True)
class AlongAxis:
    """A reduction or scan of a tile.

    Attributes:
        layout: of the tile.
        axis: that goes, or along which it scans.
        sizes: bytes of an element of each operand.
        scans: whether it is a scan.
        reverse: whether it begins at the axis's end.
    """

    layout: RegisterLayout
    axis: int
    sizes: Sequence[int]
    scans: bool
    reverse: bool

    def bits(self, level: str) -> int:
        """How many bits of an input lead along the axis."""
        return sum(1 for vector in self.layout.bases[level] if vector[self.axis])

    def estimated_bytes(self) -> int:
        """What all threads hand on, by the steps of Triton's lowering;
        no loop and no branch of it is left out by LLVM.
        """
        numbers = self._of_scan() if self.scans else self._of_reduction()
        return numbers * threads(self.layout) * sum(map(in_words, self.sizes))

    def _of_reduction(self) -> int:
        """Numbers that each thread hands on: one for each of its runs and step between lanes,
        then the partial results of warps.
        """
        runs = self.layout.registers_per_thread >> self.bits("register")
        between_warps = self.bits("warp")
        partial_results = (
            self.layout.element_count // self.layout.shape[self.axis]
        ) << between_warps
        each = max(1, partial_results // threads(self.layout))
        return runs * self.bits("lane") + each * between_warps

    def _of_scan(self) -> int:
        """One for each run of neighbors and step between lanes, and one more that the next lane
        begins with; a scan from the end turns every value of a warp round, before and after."""
        neighbors = self.layout.contiguous[self.axis]
        runs = self.layout.registers_per_thread // neighbors
        steps = self.bits("lane")
        steps += 1 if steps and neighbors > 1 else 0
        exchanges = 1 if TURNS_WARPS_AT_ONCE else int(math.log2(self.layout.lanes))
        turning = 2 * exchanges * self.layout.registers_per_thread
        return runs * steps + (turning if self.reverse else 0)


def threads(layout: RegisterLayout) -> int:
    """The threads of a program that hold a tile."""
    return layout.lanes * layout.warps * layout.blocks


def in_words(size: int) -> int:
    """Bytes of the registers that a value of so many bytes fills."""
    return -(-size // WORD) * WORD


def counted_bytes(opcodes: Mapping[str, int], layout: RegisterLayout) -> int:
    """What the machine code's instructions hand on when each runs once in every thread;
    0 where it has none, as AMD's.
    """
    instructions = sum(many for opcode, many in opcodes.items() if opcode.startswith(_HANDING))
    return instructions * threads(layout) * WORD


def settled(counted: int, estimated: int, in_loop: bool) -> tuple[int, bool]:
    """The bytes of one execution, and whether they are counted.

    The compiler may unroll a loop, and then the machine code has an operation several times: what
    is counted is taken for the bytes of one execution outside loops only, and inside them where it
    is a multiple of the estimate.
    """
    if counted and not in_loop:
        return counted, True
    if not estimated:
        return 0, not counted
    return estimated, counted > 0 and counted % estimated == 0
