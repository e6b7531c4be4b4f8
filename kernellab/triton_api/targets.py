"""Targets, backends and their options, as Triton has them;
on machines with no GPU and no driver.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import triton.backends.amd
from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource

from kernellab.records import Target


def gpu_target(target: Target) -> Any:
    """Triton's own description of a target. Lanes per warp:
    32 on NVIDIA and RDNA (gfx10 and later), 64 on CDNA (gfx9).
    """
    if target.backend == "cuda":
        return GPUTarget("cuda", int(target.arch), 32)
    return GPUTarget("hip", target.arch, 64 if target.arch.startswith("gfx9") else 32)


def compute_capability(target: Target) -> tuple[int, int]:
    """(9, 0) for sm_90, and (9, 4) for gfx942: torch counts AMD's in the same way."""
    digits = target.arch.removeprefix("gfx")
    minor_at = len(digits) - (1 if target.backend == "cuda" else 2)
    return int(digits[:minor_at]), int(digits[minor_at], 16)


@functools.cache
def toolkit_version(target: Target) -> str:
    """The version of CUDA or HIP that Triton brings a part of:
    that of its ptxas, "12.8", or of its headers of HIP, "7.1".
    """
    if target.backend == "cuda":
        return str(knobs.nvidia.ptxas.version)
    header = Path(triton.backends.amd.__path__[0], "include", "hip", "hip_version.h").read_text()
    parts = (re.search(rf"HIP_VERSION_{part} +(\d+)", header) for part in ("MAJOR", "MINOR"))
    return ".".join(part[1] for part in parts if part is not None)


@functools.cache
def backend_for(target: Target) -> Any:
    """Triton's backend for a target: needs neither the GPU nor its driver."""
    return make_backend(gpu_target(target))


@functools.cache
def backend_options(target: Target) -> Mapping[str, Any]:
    """Option name -> default, as the target's backend declares them:
    num_warps, num_stages, maxnreg, ...
    """
    return dict(backend_for(target).parse_options({}).__dict__)


_CHOSEN_BY_TARGET = frozenset({"arch", "backend_name", "warp_size"})


def option_names(target: Target) -> list[str]:
    """The options that a launch may set on this target."""
    return [name for name in backend_options(target) if name not in _CHOSEN_BY_TARGET]


def nvidia_tool(name: str) -> str:
    """Path of one of the NVIDIA tools bundled with Triton: "nvdisasm", "cuobjdump", "ptxas".

    Raises:
        RuntimeError: it is missing, or does not run.
    """
    return str(getattr(knobs.nvidia, name).path)


@functools.cache
def type_spellings() -> Mapping[str, str]:
    """Every name of a scalar type that Triton knows -> its spelling in a signature:
    "float32" -> "fp32", "bool" -> "u1".
    """
    from triton._utils import type_canonicalisation_dict

    return {name: short for name, short in type_canonicalisation_dict.items() if short != "void"}


def triton_type(text: str) -> Any:
    """Triton's type object for a type string; raises whatever Triton raises for a string
    that it cannot read.
    """
    from triton.language import str_to_ty

    return str_to_ty(text, None)


def ast_source_class(kernel: Any) -> Any:
    return GluonASTSource if kernel.is_gluon() else ASTSource


def compiler_key(target: Target) -> str:
    """What else Triton's compiler depends on, as it is part of its cache's key: the versions of
    its tools, and the environment variables that it reads; "" if that is not known.
    """
    said: list[str] = []
    # A tool that is not there is said when it is needed.
    with suppress(Exception):
        said.append(str(backend_for(target).hash()))
    with suppress(Exception):
        said.append(repr(sorted(get_cache_invalidating_env_vars().items())))
    return " ".join(said)
