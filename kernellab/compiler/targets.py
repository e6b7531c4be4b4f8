"""The GPUs that kernels are compiled for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from kernellab import triton_api
from kernellab.errors import TargetError, suggestion
from kernellab.records import Target

_NVIDIA = ("75", "80", "86", "89", "90", "100", "103", "120")
_AMD = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")

SUPPORTED_TARGETS: tuple[Target, ...] = (
    *(Target("cuda", arch) for arch in _NVIDIA),
    *(Target("hip", arch) for arch in _AMD),
)
"""Every GPU that KernelLab is tested for."""

DEFAULT_TARGET = Target("cuda", "90")
"""What is compiled for and emulated where nothing is said and no GPU is there:
Hopper (H100, H200)."""

_KIB = 1024
_SHARED_LIMITS = {
    "75": 64 * _KIB,
    "80": 163 * _KIB,
    "86": 99 * _KIB,
    "89": 99 * _KIB,
    "90": 227 * _KIB,
    "100": 227 * _KIB,
    "103": 227 * _KIB,
    "120": 99 * _KIB,
    "gfx90a": 64 * _KIB,
    "gfx942": 64 * _KIB,
    "gfx950": 160 * _KIB,
    "gfx1100": 64 * _KIB,
    "gfx1201": 64 * _KIB,
}
# NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", maximum
# amount of shared memory per thread block. AMD: the LDS size per workgroup in LLVM's "User Guide
# for AMDGPU Backend" and the CDNA 4 ISA manual.


def shared_limit(target: Target) -> int | None:
    """The most shared memory that one program may have on this GPU, in bytes;
    None for a GPU not listed here.
    """
    return _SHARED_LIMITS.get(target.arch)


def has_tensor_memory(target: Target) -> bool:
    """Whether the GPU has tensor memory: data-centre Blackwell,
    compute capability 10 (PTX ISA, tcgen05).
    """
    return target.backend == "cuda" and target.arch.startswith("10")


def has_copy_engine(target: Target) -> bool:
    """Whether the GPU has the copy engine for tiles, TMA: compute capability 9 and later."""
    return target.backend == "cuda" and int(target.arch) >= 90


_MULTIPROCESSORS = {
    "75": 40,  # T4
    "80": 108,  # A100
    "86": 84,  # A40
    "89": 142,  # L40S
    "90": 132,  # H100 SXM, H200
    "100": 148,  # B200
    "103": 148,  # B300
    "120": 170,  # RTX 5090
    "gfx90a": 104,  # MI250: one of its two dies
    "gfx942": 304,  # MI300X
    "gfx950": 256,  # MI355X
    "gfx1100": 48,  # RX 7900 XTX: workgroup processors
    "gfx1201": 32,  # RX 9070 XT: workgroup processors
}
# From the vendors' data sheets of the product named: an architecture comes in several sizes.


def multiprocessor_count(target: Target) -> int | None:
    """Streaming multiprocessors (AMD: compute units, or RDNA's workgroup processors,
    as HIP counts them) of a usual product of this architecture.

    None for a GPU not listed here.
    """
    return _MULTIPROCESSORS.get(target.arch)


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
    if isinstance(names, str):
        names = [name for name in names.split(",") if name.strip()]
    elif isinstance(names, Target):
        names = [names]
    targets = list(dict.fromkeys(parse_target(name) for name in names))
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
