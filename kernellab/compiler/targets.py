"""The GPUs that kernels are compiled for, and the numbers of each with the source of every one, in
gpus.toml: the only table of hardware rates in KernelLab. Occupancy's rules and limits are per
architecture, in `machine_code/resources.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kernellab import triton_api
from kernellab.common.arguments import listed
from kernellab.common.data_files import read_data_file
from kernellab.common.text import shown
from kernellab.errors import TargetError
from kernellab.errors.exceptions import nearest
from kernellab.records import Target


@dataclass(frozen=True)
class _Architecture:
    """What all GPUs of one architecture have in common.

    Attributes:
        shared_bytes: the maximum of shared memory per program.
        products: its GPUs' names, any of which gives the target; `GPUS` has the first one's
            numbers.
    """

    backend: Literal["cuda", "hip"]
    shared_bytes: int
    products: str


@dataclass(frozen=True)
class Gpu:
    """One product. A number without a source is None: what needs it says that it left it out.

    Attributes:
        name: the usual short name, "H200".
        backend, arch: of the target that it runs, "cuda" and "90".
        multiprocessors: streaming multiprocessors (AMD: compute units; RDNA: workgroup processors).
        clock: GHz at which the data sheet's peaks are reached: rate / SMs / operations a clock.
        highest_clock: GHz that it may reach, where that is more.
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
    fp32: int
    double: int
    tensor: int
    bus_bits: int
    cache_bytes: int | None = None
    cache_rate: float | None = None
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


@dataclass(frozen=True)
class _Tables:
    """The tables in gpus.toml.

    Attributes:
        sources: by backend, those of numbers for which a GPU names none.
    """

    architectures: Mapping[str, _Architecture]
    sources: Mapping[str, Mapping[str, str]]
    gpus: tuple[Gpu, ...]


_TABLES: _Tables = read_data_file(Path(__file__).with_name("gpus.toml"), _Tables)
_ARCHITECTURES = _TABLES.architectures


def _with_sources(gpu: Gpu) -> Gpu:
    """Return a GPU of the file with the source of each of its numbers."""
    own = {**gpu.sources}
    sheet = own.pop("sheet")
    usual = {
        name: source.format(sheet=sheet)
        for name, source in _TABLES.sources[gpu.backend].items()
        if getattr(gpu, name) is not None
    }
    return replace(gpu, sources={**usual, **own})


GPUS: Mapping[str, Gpu] = {gpu.name.lower(): _with_sources(gpu) for gpu in _TABLES.gpus}
"""Every GPU of the table by its name in lower case: "h200"."""


def usual_gpu(arch: str) -> Gpu | None:
    """Return the first GPU of an architecture; None for an architecture that has no row."""
    return next((gpu for gpu in GPUS.values() if gpu.arch == arch), None)


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
