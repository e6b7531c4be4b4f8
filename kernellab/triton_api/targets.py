"""Targets, backends and their options, as Triton has them;
on machines with no GPU and no driver.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource

from kernellab.common.formatting import shown
from kernellab.errors import OptionError
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


def check_options(options: Mapping[str, Any], target: Target) -> None:
    """Let the backend judge option values.

    Raises:
        OptionError: a value that the backend refuses, in the backend's words.
    """
    whole_numbers = _integer_options(target)
    for name, value in options.items():
        if name in whole_numbers and value is not None and not isinstance(value, int):
            raise OptionError(f"{name} must be an integer, and {shown(value)} was given.")
        if name in _LEAST and isinstance(value, int) and not _LEAST[name] <= value < 2**31:
            raise OptionError(
                f"{name}={shown(value)} is out of range.",
                advice=f"Give a whole number from {_LEAST[name]}.",
            )
    try:
        backend_for(target).parse_options(dict(options))
    except Exception as error:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise OptionError(f"{target} does not accept {given}: {error}") from error


_LEAST = {"num_ctas": 1, "num_stages": 0, "maxnreg": 1, "waves_per_eu": 0}
"""Options that Triton passes on as they are, with the least value that means something."""


@functools.cache
def _integer_options(target: Target) -> frozenset[str]:
    hints = typing.get_type_hints(type(backend_for(target).parse_options({})))
    return frozenset(
        name for name, hint in hints.items() if int in (typing.get_args(hint) or (hint,))
    )


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
