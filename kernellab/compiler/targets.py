"""The GPUs that kernels are compiled for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from kernellab import triton_api
from kernellab.common.arguments import listed
from kernellab.common.text import shown
from kernellab.compiler.gpus import usual_gpu
from kernellab.errors import TargetError
from kernellab.errors.exceptions import nearest
from kernellab.records import Target

_KIB = 1024


@dataclass(frozen=True)
class _Architecture:
    """What all GPUs of one architecture have in common."""

    backend: Literal["cuda", "hip"]
    shared_bytes: int
    """The maximum of shared memory per program."""
    products: str
    """The names of its GPUs: a target may be given by any of them. `compiler/gpus.py` has the
    numbers of the first."""


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
"""The target that is compiled for and emulated by default, without a GPU:
Hopper (H100, H200)."""


def shared_limit(target: Target) -> int | None:
    """The most shared memory that one program may have on this GPU, in bytes;
    None for a GPU not listed here.
    """
    architecture = _ARCHITECTURES.get(target.arch)
    return None if architecture is None else architecture.shared_bytes


def has_tensor_memory(target: Target) -> bool:
    """Whether the GPU has tensor memory: data-center Blackwell,
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
    gpu = usual_gpu(target.arch)
    return None if gpu is None else gpu.multiprocessors


def device_name(target: Target) -> str:
    """A usual product of this architecture, as its driver names it: "NVIDIA H100 80GB HBM3"; the
    target's own name where none is known.
    """
    gpu = usual_gpu(target.arch)
    return target.name if gpu is None else gpu.driver_name


def memory_size(target: Target) -> int | None:
    """Bytes of that product's memory, as its driver says; None for a GPU not listed here."""
    gpu = usual_gpu(target.arch)
    return None if gpu is None else gpu.memory_bytes


def cache_size(target: Target) -> int | None:
    """Bytes of that product's second-level cache; None where it is not known here."""
    gpu = usual_gpu(target.arch)
    return None if gpu is None else gpu.cache_bytes


def parse_target(name: str | Target) -> Target:
    """The target of that name: "sm_90" (or "sm90", "sm_90a", "cuda:90"), "gfx942" (or
    "hip:gfx942"), or that of a GPU: "h100", "RTX 4090", "MI300X".

    Raises:
        TargetError: no such target; the message has the nearest name and the list.
    """
    if isinstance(name, Target):
        return name
    known = {target.name: target for target in SUPPORTED_TARGETS}
    given: Any = name  # whatever a user gives
    plain = _vendor_name(given if isinstance(given, str) else shown(given))
    if target := known.get(plain) or _products().get(_product_name(plain)):
        return target
    guess = nearest(plain, known) or nearest(_product_name(plain), _products())
    listed = ", ".join(f"{target} ({gpu_name(target)})" for target in SUPPORTED_TARGETS)
    raise TargetError(
        f"{shown(name)} is not a target that KernelLab knows.",
        advice=f"{guess} Targets: {listed}.".lstrip(),
    )


def gpu_name(target: Target) -> str:
    """A usual GPU of an architecture, "H100"; the target's own name where none is known."""
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
    """The plainest spelling of a GPU's name: "NVIDIA GeForce RTX 4090" is "4090",
    "H100-SXM5-80GB" is "h100".
    """
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
    """Several targets, from a list of names or from one string with commas; doubles are dropped.

    Raises:
        TargetError: an unknown name, or no name at all.
    """
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
    """This machine's GPU, as Triton sees it, or None where there is none."""
    gpu = triton_api.current_gpu()
    if gpu is None:
        return None
    backend, arch = gpu
    return Target("hip" if backend == "hip" else "cuda", arch)
