"""The GPUs that kernels are compiled for, and the numbers of each with the source of every one: the
only table of hardware rates in KernelLab. Occupancy's rules and limits are per architecture, in
`machine_code/resources.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from kernellab import triton_api
from kernellab.common.arguments import listed
from kernellab.common.text import shown
from kernellab.errors import TargetError
from kernellab.errors.exceptions import nearest
from kernellab.records import Target

_KIB = 1024


@dataclass(frozen=True)
class _Architecture:
    """The facts that all GPUs of one architecture share."""

    backend: Literal["cuda", "hip"]
    shared_bytes: int
    """The maximum of shared memory per program."""
    products: str
    """Its GPUs' names, any of which gives the target; `GPUS` has the first one's numbers."""


_ARCHITECTURES = {
    "75": _Architecture(
        "cuda", 64 * _KIB, "T4, RTX 2080, RTX 2080 Ti, RTX 2070, RTX 2060, GTX 1660"
    ),
    "80": _Architecture("cuda", 163 * _KIB, "A100, A800, A30"),
    "86": _Architecture(
        "cuda", 99 * _KIB, "A40, A10, A10G, A16, A2, A6000, RTX 3090, RTX 3080, RTX 3070"
    ),
    "89": _Architecture(
        "cuda", 99 * _KIB, "L40S, L40, L4, RTX 4090, RTX 4080, RTX 4070, RTX 6000 Ada"
    ),
    "90": _Architecture("cuda", 227 * _KIB, "H100, H200, H800, H20, GH200"),
    "100": _Architecture("cuda", 227 * _KIB, "B200, B100, GB200"),
    "103": _Architecture("cuda", 227 * _KIB, "B300, GB300"),
    "120": _Architecture("cuda", 99 * _KIB, "RTX 5090, RTX 5080, RTX 5070, RTX PRO 6000"),
    "gfx90a": _Architecture("hip", 64 * _KIB, "MI250, MI250X, MI210"),
    "gfx942": _Architecture("hip", 64 * _KIB, "MI300X, MI300A, MI300, MI325X"),
    "gfx950": _Architecture("hip", 160 * _KIB, "MI355X, MI355, MI350X, MI350"),
    "gfx1100": _Architecture("hip", 64 * _KIB, "RX 7900 XTX, RX 7900 XT, W7900"),
    "gfx1201": _Architecture("hip", 64 * _KIB, "RX 9070 XT, RX 9070"),
}
# Shared memory, NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability", maximum amount of shared memory per thread block. AMD: the LDS size per workgroup in
# LLVM's "User Guide for AMDGPU Backend" and the CDNA 4 ISA manual.

SUPPORTED_TARGETS: tuple[Target, ...] = tuple(
    Target(each.backend, arch) for arch, each in _ARCHITECTURES.items()
)
"""Every GPU that KernelLab is tested for."""

DEFAULT_TARGET = Target("cuda", "90")
"""The target to compile for and to emulate without a GPU: Hopper (H100, H200)."""


def shared_limit(target: Target) -> int | None:
    """The most shared memory of one program, in bytes; None for a GPU not listed here."""
    architecture = _ARCHITECTURES.get(target.arch)
    return None if architecture is None else architecture.shared_bytes


def has_tensor_memory(target: Target) -> bool:
    """Whether it has tensor memory: compute capability 10, data-center Blackwell (tcgen05)."""
    return target.backend == "cuda" and target.arch.startswith("10")


def has_copy_engine(target: Target) -> bool:
    """Whether the GPU has the copy engine for tiles, TMA: compute capability 9 and later."""
    return target.backend == "cuda" and int(target.arch) >= 90


def may_leave_masked_lanes_open(target: Target) -> bool:
    """Whether lanes that a mask switches off in a load without `other` may hold anything; else
    they hold zeros, because Triton clears the registers before such a load, and NVIDIA's
    asynchronous copies fill what they leave out with zeros (PTX ISA, cp.async, src-size).

    On CDNA 3 and 4, Triton may copy straight to shared memory (TRITON_HIP_USE_ASYNC_COPY): a
    lane that is off then leaves there what was there before.
    tests/checker/test_open_lanes.py reads both in the compiled code.
    """
    return target.backend == "hip" and target.arch in ("gfx942", "gfx950")


def multiprocessor_count(target: Target) -> int | None:
    """Streaming multiprocessors (AMD: compute units, or RDNA's workgroup processors,
    as HIP counts them) of a usual product of this architecture.

    None for a GPU not listed here.
    """
    gpu = usual_gpu(target.arch)
    return None if gpu is None else gpu.multiprocessors


def device_name(target: Target) -> str:
    """A usual product's name from its driver: "NVIDIA H100 80GB HBM3"; else the target's."""
    gpu = usual_gpu(target.arch)
    return target.name if gpu is None else gpu.driver_name


def parse_target(name: str | Target) -> Target:
    """The target of that name: "sm_90" (or "sm90", "sm_90a", "cuda:90"), "gfx942" (or
    "hip:gfx942"), or that of a GPU: "h100", "RTX 4090", "MI300X". Raises TargetError: no such
    target; the message has the nearest name and the list.
    """
    if isinstance(name, Target):
        return name
    known = {target.name: target for target in SUPPORTED_TARGETS}
    given: Any = name  # whatever a user gives
    plain = _vendor_name(given if isinstance(given, str) else shown(given))
    if target := known.get(plain) or _products().get(_product_name(plain)):
        return target
    number = plain.removeprefix("hip:")
    guess = nearest(f"sm_{number}" if number.isdecimal() else plain, known)
    guess = guess or nearest(_product_name(plain), _products())
    listed = ", ".join(f"{target} ({gpu_name(target)})" for target in SUPPORTED_TARGETS)
    kind = "a GPU that KernelLab supports" if isinstance(given, str) else 'a name such as "sm_90"'
    raise TargetError(
        f"The target must be {kind}, got {shown(name)}.",
        advice=f"{guess} Targets: {listed}.".lstrip(),
    )


def gpu_name(target: Target) -> str:
    """A usual GPU of an architecture, "H100"; the target's own name if none is known."""
    gpu = usual_gpu(target.arch)
    return target.name if gpu is None else gpu.name


@cache
def _products() -> dict[str, Target]:
    """Every GPU's name, in the plainest spelling, and its target."""
    return {
        _product_name(product): Target(each.backend, arch)
        for arch, each in _ARCHITECTURES.items()
        for product in each.products.split(", ")
    }


_MAKERS = ("nvidia", "amd", "geforce", "rtx", "gtx", "quadro", "instinct", "radeon", "tesla", "rx")
_FORMS = ("sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "pcie", "nvl", "hbm3", "hbm3e", "hbm2e")


def _product_name(name: str) -> str:
    """A GPU's plainest name: "NVIDIA GeForce RTX 4090" is "4090", "H100-SXM5-80GB" "h100"."""
    words = re.split(r"[\s_-]+", name.strip().lower())
    words = [word for word in words if word not in _MAKERS and word not in _FORMS]
    sizes = re.compile(r"\d+gb")
    return "".join(re.sub(r"^(?:rtx|gtx|rx)(?=\d)", "", w) for w in words if not sizes.fullmatch(w))


def _vendor_name(name: str) -> str:
    """The vendor's spelling of whatever spelling was given; an unknown one comes back as it is."""
    plain = name.strip().lower()
    if match := re.fullmatch(r"(?:sm_?|cuda:(?:sm_?)?)(\d+)a?", plain):
        return f"sm_{match[1]}"
    return plain.removeprefix("hip:")


def parse_targets(names: str | Target | Iterable[str | Target]) -> list[Target]:
    """Distinct targets of a list or a text with commas. Raises TargetError: unknown, or none."""
    given: Any = names  # any value: parse_target refuses what is not a name
    if isinstance(given, str):
        given = [name for name in given.split(",") if name.strip()]
    elif isinstance(given, Target | bytes) or not isinstance(given, Iterable):
        given = [given]
    targets = list(dict.fromkeys(parse_target(name) for name in listed("target", given)))
    if not targets:
        raise TargetError(
            "The list of targets is empty.", advice='Name one, as in target="sm_90,gfx942".'
        )
    return targets


@cache
def local_target() -> Target | None:
    """This machine's GPU, as Triton sees it, or None if there is none."""
    gpu = triton_api.current_gpu()
    if gpu is None:
        return None
    backend, arch = gpu
    return Target("hip" if backend == "hip" else "cuda", arch)


_MIB = 1024 * _KIB
_GIB = 1024 * _MIB


@dataclass(frozen=True)
class Gpu:
    """One product. A number without a source is None: what needs it says that it left it out.

    Attributes:
        name: the usual short name, "H200".
        backend, arch: of the target that it runs, "cuda" and "90".
        multiprocessors: streaming multiprocessors (AMD: compute units; RDNA: workgroup processors).
        clock: GHz at which the data sheet's peaks are reached: rate / SMs / operations a clock.
        highest_clock: GHz that it may reach, if that is more.
        dram: peak bandwidth of its memory in bytes per microsecond.
        bus_bits: width of the interface to its memory.
        cache_bytes: size of the L2 cache (AMD: of one XCD).
        cache_rate: peak bandwidth of the L2 cache in bytes per clock of the whole GPU.
        fp32, double: fused multiply-adds per clock and multiprocessor, outside of the tensor cores.
        tensor: dense 16-bit multiply-adds with fp32 sums per clock and SM, on tensor cores.
        by_warps: the share of `tensor` that mma.sync reaches, where the rest needs wgmma, tcgen05.
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
            kind: "fp32", "fp64", or the tensor cores' operand bits: "16", "8", "32" (tf32).
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
