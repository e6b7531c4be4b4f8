"""What GPUs can do at most: the numbers behind rooflines and estimates.

Sources: NVIDIA's data sheets of A100 80GB SXM, L40S, H100 SXM, H200 SXM and DGX B200 (memory
bandwidth, peak rates); the whitepapers of the A100 (GA102 for L40S' generation: Ada), Hopper and
Blackwell architectures (multiprocessors, L2, tensor cores' rates a clock); CUDA C++ Programming
Guide, "Throughput of Native Arithmetic Instructions" (operations a clock of each multiprocessor).
Clocks are those at which the data sheet's peaks come out: rate / (multiprocessors x operations a
clock). Bandwidth of L2 is in no data sheet: it is 64 bytes a clock and multiprocessor (the A100
whitepaper's 5,120 bytes a clock, over its 80 ports), and what is reached of it is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.common.argument_checks import check_choice, is_text
from kernellab.errors import OptionError, TargetError
from kernellab.records import Target


@dataclass(frozen=True)
class Gpu:
    """One product.

    Attributes:
        name: as people call it.
        arch: its compute capability, as targets have it.
        multiprocessors: streaming multiprocessors.
        clock: GHz.
        dram: bytes of memory a microsecond, at most.
        cache: bytes of L2.
        cache_rate: bytes of L2 a clock and multiprocessor.
        fp32, double: fused multiply-adds of the plain units a clock and multiprocessor.
        tensor: multiply-adds of 16 bits of its tensor cores a clock and multiprocessor.
        by_groups: whether the full rate needs instructions of warp groups (wgmma) or of the tensor
            memory (tcgen05); those of one warp (mma.sync) then reach `by_warps` of it.
        by_warps: the part that mma.sync reaches.
    """

    name: str
    arch: str
    multiprocessors: int
    clock: float
    dram: float
    cache: float
    fp32: int
    double: int
    tensor: int
    by_warps: float = 1.0
    cache_rate: float = 64.0

    @property
    def clocks(self) -> float:
        """In a microsecond."""
        return self.clock * 1e3

    @property
    def cache_peak(self) -> float:
        """Bytes of L2 a microsecond, at most."""
        return self.cache_rate * self.multiprocessors * self.clocks

    def peak(self, kind: str) -> float:
        """Operations a microsecond: a multiply-add is two. Of "fp32", "fp64", or of tensor cores
        with operands of so many bits: "16", "8", "32" (tf32).
        """
        if kind == "fp32":
            each = float(self.fp32)
        elif kind == "fp64":
            each = float(self.double)
        else:
            each = self.tensor * 16 / float(kind)
        return 2 * each * self.multiprocessors * self.clocks

    def __str__(self) -> str:
        return f"NVIDIA {self.name}"


_MIB = 1024.0 * 1024.0
GPUS = {
    one.name.lower(): one
    for one in (
        Gpu("A100", "80", 108, 1.41, 2.039e6, 40 * _MIB, fp32=64, double=32, tensor=1024),
        Gpu("L40S", "89", 142, 2.52, 0.864e6, 96 * _MIB, fp32=128, double=1, tensor=512),
        Gpu(
            "H100", "90", 132, 1.83, 3.35e6, 50 * _MIB,
            fp32=128, double=64, tensor=2048, by_warps=0.62,
        ),
        Gpu(
            "H200", "90", 132, 1.83, 4.8e6, 50 * _MIB,
            fp32=128, double=64, tensor=2048, by_warps=0.62,
        ),
        Gpu(
            "B200", "100", 148, 1.86, 8.0e6, 126 * _MIB,
            fp32=128, double=64, tensor=4096, by_warps=0.25,
        ),
    )
}  # fmt: skip
"""By its name in small letters. `by_warps` of Hopper: Luo et al., "Dissecting the NVIDIA Hopper
Architecture through Microbenchmarking" (2024), where mma.sync reaches 62 % of the peak; of
Blackwell it is taken to be half the rate of Hopper's wgmma."""

CALIBRATED = "h200"
"""The GPU whose recorded times the estimate was fitted to; others scale by their numbers."""

_OF_ARCH = {"80": "a100", "89": "l40s", "90": "h200", "100": "b200"}


def gpu_of(target: Target, name: str | None = None) -> Gpu:
    """The GPU that is meant: by its name, or the one of a target's architecture.

    Raises:
        OptionError: no such GPU here, or one of another architecture.
        TargetError: an architecture whose numbers are not here.
    """
    if name is not None:
        wanted = name.lower().removeprefix("nvidia ") if is_text(name) else name
        check_choice("gpu", wanted, GPUS)
        found = GPUS[wanted]
        if found.arch != target.arch or target.backend != "cuda":
            raise OptionError(
                f"gpu={name!r} is of sm_{found.arch}, and the kernel is compiled for {target}",
                advice=f'Compile it with target="sm_{found.arch}".',
            )
        return found
    known = _OF_ARCH.get(target.arch) if target.backend == "cuda" else None
    if known is None:
        raise TargetError(
            f"{target} is not calibrated: rates of its units and of its memory are not known here.",
            advice="There are sm_80 (A100), sm_89 (L40S), sm_90 (H100, H200) and sm_100 (B200).",
        )
    return GPUS[known]
