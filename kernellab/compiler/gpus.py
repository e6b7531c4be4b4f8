"""The numbers of each GPU, with the source of every one: the only table of hardware rates in
KernelLab. Occupancy's rules and limits are per architecture, in `machine_code/resources.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_MIB = 1024 * 1024
_GIB = 1024 * _MIB


@dataclass(frozen=True)
class Gpu:
    """One product. A number without a source is None: what needs it says that it left it out.

    Attributes:
        name: the usual short name, "H200".
        backend, arch: of the target that it runs, "cuda" and "90".
        driver_name: the name that its driver reports.
        multiprocessors: streaming multiprocessors (AMD: compute units; RDNA: workgroup processors).
        memory_bytes: the size of its memory that its driver reports.
        clock: GHz at which the data sheet's peak rates are reached: the rate, over the
            multiprocessors times the operations a clock.
        highest_clock: GHz that it may reach, where that is more.
        dram: peak bandwidth of its memory in bytes per microsecond.
        bus_bits: width of the interface to its memory.
        cache_bytes: size of the L2 cache (AMD: of one XCD).
        cache_rate: peak bandwidth of the L2 cache in bytes per clock of the whole GPU.
        fp32, double: fused multiply-adds per clock and multiprocessor, outside of the tensor cores.
        tensor: multiply-adds of 16-bit operands with fp32 sums, without sparsity, of the tensor
            cores (AMD: matrix cores) per clock and multiprocessor.
        by_warps: the share of `tensor` that instructions of one warp reach (mma.sync), where the
            full rate needs wgmma or tcgen05.
        sources: the source of each number that is not None.
    """

    name: str
    backend: Literal["cuda", "hip"]
    arch: str
    driver_name: str
    multiprocessors: int
    memory_bytes: int
    clock: float
    dram: float
    cache_bytes: int | None
    cache_rate: float | None
    fp32: int
    double: int
    tensor: int
    bus_bits: int
    by_warps: float = 1.0
    highest_clock: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def clocks(self) -> float:
        """Clock cycles per microsecond."""
        return self.clock * 1e3

    @property
    def memory_clock(self) -> float:
        """GHz of its memory, which moves data twice a cycle, as drivers report it."""
        return self.dram / 1e3 * 8 / (2 * self.bus_bits)

    @property
    def cache_peak(self) -> float | None:
        """Peak bandwidth of the L2 cache in bytes per microsecond; None if it is unknown."""
        return None if self.cache_rate is None else self.cache_rate * self.clocks

    def peak(self, kind: str) -> float:
        """Operations per microsecond, where a multiply-add counts as two.

        Args:
            kind: "fp32", "fp64", or the width of the tensor cores' operands: "16", "8",
                "32" (tf32).
        """
        if kind == "fp32":
            each = float(self.fp32)
        elif kind == "fp64":
            each = float(self.double)
        else:
            each = self.tensor * 16 / float(kind)
        return 2 * each * self.multiprocessors * self.clocks

    def __str__(self) -> str:
        return f"{'NVIDIA' if self.backend == 'cuda' else 'AMD'} {self.name}"


_GUIDE = (
    'CUDA C++ Programming Guide, "Arithmetic Instructions", Throughput of Native Arithmetic '
    "Instructions"
)
_DRIVER = "total_memory that torch prints on this GPU; drivers differ by a few MB"
_TENSOR = "the data sheet's dense fp16 rate over multiprocessors and clock"
_WARP_LEVEL = "the tensor cores have only instructions of one warp"
_BLACKWELL_WARPS = "assumed: half the rate of Hopper's wgmma per multiprocessor"
_ROCM = "ROCm documentation, reference/gpu-specs, of one XCD where there are several"


def _nvidia(sheet: str, **others: str) -> dict[str, str]:
    """Return the sources of an NVIDIA GPU: its data sheet, and those that `others` names."""
    return {
        **dict.fromkeys(("multiprocessors", "clock", "dram", "bus_bits"), sheet),
        **dict.fromkeys(("fp32", "double"), _GUIDE),
        "memory_bytes": _DRIVER,
        "tensor": f"{sheet}: {_TENSOR}",
        "by_warps": _WARP_LEVEL,
        **others,
    }


def _amd(sheet: str, **others: str) -> dict[str, str]:
    """Return the sources of an AMD GPU, likewise."""
    rates = "the data sheet's rate over multiprocessors and clock"
    return {
        **dict.fromkeys(("multiprocessors", "clock", "dram", "bus_bits"), sheet),
        **dict.fromkeys(("fp32", "double", "tensor"), f"{sheet}: {rates}"),
        "memory_bytes": _DRIVER,
        "cache_bytes": _ROCM,
        "by_warps": "the matrix cores have only instructions of one wave",
        **others,
    }


_HOPPER: dict[str, Any] = {
    "backend": "cuda", "arch": "90", "multiprocessors": 132, "clock": 1.83,
    "cache_bytes": 50 * _MIB, "cache_rate": 64.0 * 132, "fp32": 128, "double": 64,
    "tensor": 2048, "by_warps": 0.62, "highest_clock": 1.98,
}  # fmt: skip
_HOPPER_SOURCES = {
    "cache_bytes": "NVIDIA H100 Tensor Core GPU Architecture whitepaper",
    "highest_clock": "the highest clock of the multiprocessors that nvidia-smi -q -d CLOCK reports",
    "cache_rate": "no data sheet has it: 64 bytes per clock and multiprocessor, of which the "
    "estimate's calibration takes the share that fits sweeps recorded on an H200",
    "by_warps": 'Luo et al., "Dissecting the NVIDIA Hopper Architecture through '
    'Microbenchmarking" (2024): mma.sync reaches 62 % of the peak',
}

_ALL = (
    Gpu(
        "T4", "cuda", "75", "Tesla T4", 40, 15102 * _MIB, 1.59, 0.32e6, 4 * _MIB, None,
        fp32=64, double=2, tensor=512, bus_bits=256,
        sources=_nvidia("NVIDIA T4 data sheet", cache_bytes="NVIDIA Turing whitepaper"),
    ),
    Gpu(
        "A100", "cuda", "80", "NVIDIA A100-SXM4-80GB", 108, 81153 * _MIB, 1.41, 2.039e6, 40 * _MIB,
        5120.0, fp32=64, double=32, tensor=1024, bus_bits=5120,
        sources=_nvidia(
            "NVIDIA A100 80GB SXM data sheet",
            cache_bytes="NVIDIA A100 Tensor Core GPU Architecture whitepaper",
            cache_rate="NVIDIA A100 Tensor Core GPU Architecture whitepaper: 5,120 bytes per clock",
        ),
    ),
    Gpu(
        "A40", "cuda", "86", "NVIDIA A40", 84, 45416 * _MIB, 1.74, 0.696e6, 6 * _MIB, None,
        fp32=128, double=2, tensor=512, bus_bits=384,
        sources=_nvidia("NVIDIA A40 data sheet", cache_bytes="NVIDIA Ampere GA102 whitepaper"),
    ),
    Gpu(
        "L40S", "cuda", "89", "NVIDIA L40S", 142, 45589 * _MIB, 2.52, 0.864e6, 96 * _MIB, None,
        fp32=128, double=2, tensor=512, bus_bits=384,
        sources=_nvidia("NVIDIA L40S data sheet", cache_bytes="NVIDIA Ada GPU whitepaper"),
    ),
    Gpu(
        name="H100", driver_name="NVIDIA H100 80GB HBM3", memory_bytes=81089 * _MIB, dram=3.35e6,
        bus_bits=5120, **_HOPPER, sources=_nvidia("NVIDIA H100 SXM data sheet", **_HOPPER_SOURCES),
    ),
    Gpu(
        name="H200", driver_name="NVIDIA H200", memory_bytes=141 * 10**9, dram=4.8e6, bus_bits=6144,
        **_HOPPER,
        sources=_nvidia(
            "NVIDIA H200 SXM data sheet", memory_bytes="NVIDIA H200 SXM data sheet",
            **_HOPPER_SOURCES,
        ),
    ),
    Gpu(
        "B200", "cuda", "100", "NVIDIA B200", 148, 182642 * _MIB, 1.86, 8.0e6, 126 * _MIB, None,
        fp32=128, double=64, tensor=4096, bus_bits=8192, by_warps=0.25,
        sources=_nvidia(
            "NVIDIA DGX B200 data sheet", cache_bytes="NVIDIA Blackwell Tuning Guide",
            by_warps=_BLACKWELL_WARPS,
        ),
    ),
    Gpu(
        "B300", "cuda", "103", "NVIDIA B300 SXM6 AC", 148, 288 * 10**9, 1.86, 8.0e6, None, None,
        fp32=128, double=2, tensor=4096, bus_bits=8192, by_warps=0.25,
        sources=_nvidia(
            "NVIDIA HGX B300 data sheet", memory_bytes="NVIDIA HGX B300 data sheet",
            by_warps=_BLACKWELL_WARPS,
        ),
    ),
    Gpu(
        "RTX 5090", "cuda", "120", "NVIDIA GeForce RTX 5090", 170, 32102 * _MIB, 2.407, 1.792e6,
        96 * _MIB, None, fp32=128, double=2, tensor=256, bus_bits=512,
        sources=_nvidia(
            "NVIDIA RTX Blackwell whitepaper", cache_bytes="NVIDIA RTX Blackwell whitepaper",
        ),
    ),
    Gpu(  # one of its two dies
        "MI250", "hip", "gfx90a", "AMD Instinct MI250", 104, 65520 * _MIB, 1.7, 1.638e6, 8 * _MIB,
        None, fp32=64, double=64, tensor=512, bus_bits=4096,
        sources=_amd(
            "AMD Instinct MI250 data sheet",
            memory_bytes=f"{_DRIVER}; of an MI250X, one die",
        ),
    ),
    Gpu(
        "MI300X", "hip", "gfx942", "AMD Instinct MI300X", 304, 196592 * _MIB, 2.1, 5.3e6, 4 * _MIB,
        None, fp32=128, double=64, tensor=1024, bus_bits=8192,
        sources=_amd("AMD Instinct MI300X data sheet"),
    ),
    Gpu(
        "MI355X", "hip", "gfx950", "AMD Instinct MI355X", 256, 288 * _GIB, 2.4, 8.0e6, 4 * _MIB,
        None, fp32=128, double=64, tensor=2048, bus_bits=8192,
        sources=_amd(
            "AMD Instinct MI355X data sheet", memory_bytes="AMD Instinct MI355X data sheet",
        ),
    ),
    Gpu(
        "RX 7900 XTX", "hip", "gfx1100", "AMD Radeon RX 7900 XTX", 48, 24560 * _MIB, 2.5, 0.96e6,
        6 * _MIB, None, fp32=256, double=8, tensor=512, bus_bits=384,
        sources=_amd("AMD Radeon RX 7900 XTX specifications"),
    ),
    Gpu(
        "RX 9070 XT", "hip", "gfx1201", "AMD Radeon RX 9070 XT", 32, 16304 * _MIB, 2.97, 0.64e6,
        8 * _MIB, None, fp32=256, double=8, tensor=1024, bus_bits=256,
        sources=_amd("AMD Radeon RX 9070 XT specifications"),
    ),
)  # fmt: skip

GPUS: Mapping[str, Gpu] = {gpu.name.lower(): gpu for gpu in _ALL}
"""Every GPU of the table by its name in lower case: "h200"."""


def usual_gpu(arch: str) -> Gpu | None:
    """Return the first GPU of an architecture; None for an architecture that has no row."""
    return next((gpu for gpu in _ALL if gpu.arch == arch), None)
