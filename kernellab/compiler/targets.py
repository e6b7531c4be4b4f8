"""The GPUs that kernels are compiled for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from kernellab import triton_api
from kernellab.common.argument_checks import listed
from kernellab.common.formatting import shown
from kernellab.errors import TargetError
from kernellab.errors.suggestions import nearest
from kernellab.records import Target

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB


@dataclass(frozen=True)
class _Device:
    """What a driver says of one product."""

    name: str
    memory_bytes: int
    cache_bytes: int | None = None
    """Of the second-level cache; None where no source is at hand."""


@dataclass(frozen=True)
class _Gpu:
    """What is known of an architecture, by data sheets."""

    backend: Literal["cuda", "hip"]
    shared_bytes: int
    """The most shared memory that one program may have."""
    multiprocessors: int
    """Of the first product named: an architecture comes in several sizes."""
    products: str
    """GPUs of this architecture, as people call them: a target may be given by any of them."""
    device: _Device
    """The first of them, as its driver names it."""


_GPUS = {
    "75": _Gpu(
        "cuda",
        64 * _KIB,
        40,
        "T4, RTX 2080, RTX 2080 Ti, RTX 2070, RTX 2060, GTX 1660",
        _Device("Tesla T4", 15102 * _MIB, 4 * _MIB),
    ),
    "80": _Gpu(
        "cuda",
        163 * _KIB,
        108,
        "A100, A800, A30",
        _Device("NVIDIA A100-SXM4-80GB", 81153 * _MIB, 40 * _MIB),
    ),
    "86": _Gpu(
        "cuda",
        99 * _KIB,
        84,
        "A40, A10, A10G, A16, A2, A6000, RTX 3090, RTX 3080, RTX 3070",
        _Device("NVIDIA A40", 45416 * _MIB, 6 * _MIB),
    ),
    "89": _Gpu(
        "cuda",
        99 * _KIB,
        142,
        "L40S, L40, L4, RTX 4090, RTX 4080, RTX 4070, RTX 6000 Ada",
        _Device("NVIDIA L40S", 45589 * _MIB, 96 * _MIB),
    ),
    "90": _Gpu(
        "cuda",
        227 * _KIB,
        132,
        "H100, H200, H800, H20, GH200",
        _Device("NVIDIA H100 80GB HBM3", 81089 * _MIB, 50 * _MIB),
    ),
    "100": _Gpu(
        "cuda",
        227 * _KIB,
        148,
        "B200, B100, GB200",
        _Device("NVIDIA B200", 182642 * _MIB, 126 * _MIB),
    ),
    "103": _Gpu(
        "cuda", 227 * _KIB, 148, "B300, GB300", _Device("NVIDIA B300 SXM6 AC", 288 * 10**9)
    ),
    "120": _Gpu(
        "cuda",
        99 * _KIB,
        170,
        "RTX 5090, RTX 5080, RTX 5070, RTX PRO 6000",
        _Device("NVIDIA GeForce RTX 5090", 32102 * _MIB, 96 * _MIB),
    ),
    "gfx90a": _Gpu(  # one of its two dies
        "hip",
        64 * _KIB,
        104,
        "MI250, MI250X, MI210",
        _Device("AMD Instinct MI250", 65520 * _MIB, 8 * _MIB),
    ),
    "gfx942": _Gpu(
        "hip",
        64 * _KIB,
        304,
        "MI300X, MI300A, MI300, MI325X",
        _Device("AMD Instinct MI300X", 196592 * _MIB, 4 * _MIB),
    ),
    "gfx950": _Gpu(
        "hip",
        160 * _KIB,
        256,
        "MI355X, MI355, MI350X, MI350",
        _Device("AMD Instinct MI355X", 288 * _GIB, 4 * _MIB),
    ),
    # RDNA: workgroup processors.
    "gfx1100": _Gpu(
        "hip",
        64 * _KIB,
        48,
        "RX 7900 XTX, RX 7900 XT, W7900",
        _Device("AMD Radeon RX 7900 XTX", 24560 * _MIB, 6 * _MIB),
    ),
    "gfx1201": _Gpu(
        "hip",
        64 * _KIB,
        32,
        "RX 9070 XT, RX 9070",
        _Device("AMD Radeon RX 9070 XT", 16304 * _MIB, 8 * _MIB),
    ),
}
# Shared memory, NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability", maximum amount of shared memory per thread block. AMD: the LDS size per workgroup in
# LLVM's "User Guide for AMDGPU Backend" and the CDNA 4 ISA manual. Multiprocessors: the vendors'
# data sheets of the product named first. Second-level cache: NVIDIA's architecture whitepapers
# (Turing, Ampere GA100 and GA102, Ada, Hopper, RTX Blackwell) and its Blackwell tuning guide; AMD's
# specifications of GPUs in the ROCm documentation (rocm.docs.amd.com, reference/gpu-specs), of one
# XCD where there are several.
# Memory: what a driver leaves of what the data sheet names, as torch and ultralytics print it in
# people's logs (`total_memory=81089MB`): drivers differ by a few MB. Of MI250 as MI250X, one die.
# Of B300 (whose GB are 10**9 each) and MI355X, of which none was found, it is the data sheet's.

SUPPORTED_TARGETS: tuple[Target, ...] = tuple(
    Target(gpu.backend, arch) for arch, gpu in _GPUS.items()
)
"""Every GPU that KernelLab is tested for."""

DEFAULT_TARGET = Target("cuda", "90")
"""What is compiled for and emulated where nothing is said and no GPU is there:
Hopper (H100, H200)."""


def shared_limit(target: Target) -> int | None:
    """The most shared memory that one program may have on this GPU, in bytes;
    None for a GPU not listed here.
    """
    gpu = _GPUS.get(target.arch)
    return None if gpu is None else gpu.shared_bytes


def has_tensor_memory(target: Target) -> bool:
    """Whether the GPU has tensor memory: data-centre Blackwell,
    compute capability 10 (PTX ISA, tcgen05).
    """
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
    gpu = _GPUS.get(target.arch)
    return None if gpu is None else gpu.multiprocessors


def device_name(target: Target) -> str:
    """A usual product of this architecture, as its driver names it: "NVIDIA H100 80GB HBM3"; the
    target's own name where none is known.
    """
    gpu = _GPUS.get(target.arch)
    return target.name if gpu is None else gpu.device.name


def memory_size(target: Target) -> int | None:
    """Bytes of that product's memory, as its driver says; None for a GPU not listed here."""
    gpu = _GPUS.get(target.arch)
    return None if gpu is None else gpu.device.memory_bytes


def cache_size(target: Target) -> int | None:
    """Bytes of that product's second-level cache; None where it is not known here."""
    gpu = _GPUS.get(target.arch)
    return None if gpu is None else gpu.device.cache_bytes


def parse_target(name: str | Target) -> Target:
    """The target of that name: "sm_90" (or "sm90", "sm_90a", "cuda:90"), "gfx942" (or
    "hip:gfx942"), or that of a GPU: "h100", "RTX 4090", "MI300X".

    Raises:
        TargetError: no such target; the message has the nearest name and the list.
    """
    if isinstance(name, Target):
        return name
    known = {target.name: target for target in SUPPORTED_TARGETS}
    plain = _vendor_name(str(name))
    if found := known.get(plain) or _products().get(_product_name(plain)):
        return found
    guess = nearest(plain, known) or nearest(_product_name(plain), _products())
    listed = ", ".join(f"{target} ({gpu_name(target)})" for target in SUPPORTED_TARGETS)
    raise TargetError(
        f"{shown(name)} is not a target that KernelLab knows.",
        advice=f"{guess} Targets: {listed}.".lstrip(),
    )


def gpu_name(target: Target) -> str:
    """A usual GPU of an architecture, "H100"; the target's own name where none is known."""
    gpu = _GPUS.get(target.arch)
    return target.name if gpu is None else gpu.products.split(", ")[0]


@cache
def _products() -> dict[str, Target]:
    """Every GPU's name, in the plainest spelling, and its target."""
    return {
        _product_name(product): Target(gpu.backend, arch)
        for arch, gpu in _GPUS.items()
        for product in gpu.products.split(", ")
    }


_MAKERS = ("nvidia", "amd", "geforce", "rtx", "gtx", "quadro", "instinct", "radeon", "tesla", "rx")
_FORMS = ("sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "pcie", "nvl", "hbm3", "hbm3e", "hbm2e")


def _product_name(name: str) -> str:
    """The plainest spelling of a GPU's name: "NVIDIA GeForce RTX 4090" is "4090",
    "H100-SXM5-80GB" is "h100".
    """
    words = re.split(r"[\s_-]+", name.strip().lower())
    words = [word for word in words if word not in _MAKERS and word not in _FORMS]
    return "".join(re.sub(r"^(?:rtx|gtx|rx)(?=\d)", "", w) for w in words if not _is_size(w))


def _is_size(word: str) -> bool:
    return re.fullmatch(r"\d+gb", word) is not None


def _vendor_name(name: str) -> str:
    """The vendor's spelling of whatever spelling was given; an unknown one comes back as it is."""
    plain = name.strip().lower()
    if match := re.fullmatch(r"(?:sm_?|cuda:(?:sm_?)?)(\d+)a?", plain):
        return f"sm_{match[1]}"
    return plain.removeprefix("hip:")


def parse_targets(names: str | Target | Iterable[str | Target]) -> list[Target]:
    """Several targets, from a list of names or from one string with commas; doubles are dropped.

    Raises:
        TargetError: an unknown name, or no name at all.
    """
    given: Any = names  # whatever somebody wrote: parse_target refuses what is no name
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
    """This machine's GPU, as Triton sees it, or None where there is none."""
    found = triton_api.current_gpu()
    if found is None:
        return None
    backend, arch = found
    return Target("hip" if backend == "hip" else "cuda", arch)
