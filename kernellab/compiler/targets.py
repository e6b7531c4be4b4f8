"""The GPUs that kernels are compiled for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from kernellab import triton_api
from kernellab.errors import TargetError, suggestion
from kernellab.records import Target

_KIB = 1024


@dataclass(frozen=True)
class _Gpu:
    """What is known of an architecture, by data sheets."""

    backend: Literal["cuda", "hip"]
    shared_bytes: int
    """The most shared memory that one program may have."""
    multiprocessors: int
    """Of the product named beside it: an architecture comes in several sizes."""


_GPUS = {
    "75": _Gpu("cuda", 64 * _KIB, 40),  # T4
    "80": _Gpu("cuda", 163 * _KIB, 108),  # A100
    "86": _Gpu("cuda", 99 * _KIB, 84),  # A40
    "89": _Gpu("cuda", 99 * _KIB, 142),  # L40S
    "90": _Gpu("cuda", 227 * _KIB, 132),  # H100 SXM, H200
    "100": _Gpu("cuda", 227 * _KIB, 148),  # B200
    "103": _Gpu("cuda", 227 * _KIB, 148),  # B300
    "120": _Gpu("cuda", 99 * _KIB, 170),  # RTX 5090
    "gfx90a": _Gpu("hip", 64 * _KIB, 104),  # MI250: one of its two dies
    "gfx942": _Gpu("hip", 64 * _KIB, 304),  # MI300X
    "gfx950": _Gpu("hip", 160 * _KIB, 256),  # MI355X
    "gfx1100": _Gpu("hip", 64 * _KIB, 48),  # RX 7900 XTX: workgroup processors
    "gfx1201": _Gpu("hip", 64 * _KIB, 32),  # RX 9070 XT: workgroup processors
}
# Shared memory, NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability", maximum amount of shared memory per thread block. AMD: the LDS size per workgroup in
# LLVM's "User Guide for AMDGPU Backend" and the CDNA 4 ISA manual. Multiprocessors: the vendors'
# data sheets of the product named.

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


def parse_target(name: str | Target) -> Target:
    """The target of that name: "sm_90" (or "sm90", "sm_90a", "cuda:90"),
    "gfx942" (or "hip:gfx942").

    Raises:
        TargetError: no such target; the message has the nearest name and the list.
    """
    if isinstance(name, Target):
        return name
    known = {target.name: target for target in SUPPORTED_TARGETS}
    plain = _vendor_name(str(name))
    if plain in known:
        return known[plain]
    raise TargetError(
        f"{name!r} is not a target that KernelLab knows.",
        advice=suggestion(plain, known, "Targets:"),
    )


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
    targets = list(dict.fromkeys(parse_target(name) for name in given))
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
