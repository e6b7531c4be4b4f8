"""Targets, backends and their options, as Triton has them;
on machines with no GPU and no driver.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

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
    """What else Triton's compiler depends on, as it is part of its own cache's key: the versions of
    its tools, and the environment variables that it reads; "" as far as that cannot be said.
    """
    said: list[str] = []
    # A tool that is not there is said when it is needed.
    with suppress(Exception):
        said.append(str(backend_for(target).hash()))
    with suppress(Exception):
        said.append(repr(sorted(get_cache_invalidating_env_vars().items())))
    return " ".join(said)
