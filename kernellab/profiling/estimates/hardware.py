"""Which GPU of `compiler/gpus.py` a launch is estimated for."""

from __future__ import annotations

from collections.abc import Mapping

from kernellab.common.argument_checks import check_choice
from kernellab.compiler.gpus import GPUS, Gpu, usual_gpu
from kernellab.errors import OptionError, TargetError
from kernellab.records import Target

CALIBRATED = "h200"
"""The GPU whose recorded times the calibration was fitted to; times of others are scaled by their
numbers."""

_ESTIMATED = {name: gpu for name, gpu in GPUS.items() if gpu.backend == "cuda"}
"""The GPUs whose machine code can be counted."""


def gpu_of(target: Target) -> Gpu:
    """Return the GPU that stands for a target: of sm_90 the calibrated one, of every other
    architecture its usual product.

    Raises:
        TargetError: the table of GPUs has no row for the architecture.
    """
    calibrated = GPUS[CALIBRATED]
    gpu = calibrated if target.arch == calibrated.arch else usual_gpu(target.arch)
    if gpu is None:
        raise TargetError(
            f"The hardware numbers of {target} are not known.",
            advice=f"Compile for one of {_listed(GPUS)}.",
        )
    return gpu


def estimated_gpu(target: Target, name: str | None = None) -> Gpu:
    """Return the GPU to estimate for: the one with this name, or the one that stands for a target.

    Raises:
        OptionError: there is no such GPU, or it has another architecture.
        TargetError: launches on this target cannot be estimated.
    """
    if target.backend != "cuda":
        raise TargetError(
            f"Launches on {target} are not calibrated: an estimate counts NVIDIA's machine code.",
            advice=f"Compile for one of {_listed(_ESTIMATED)}.",
        )
    if name is None:
        return gpu_of(target)
    wanted = str(name).lower().removeprefix("nvidia ")
    check_choice("gpu", name, _ESTIMATED, word=wanted)
    gpu = GPUS[wanted]
    if gpu.arch != target.arch:
        raise OptionError(
            f"gpu={name!r} is of sm_{gpu.arch}, and the kernel is compiled for {target}.",
            advice=f'Compile it with target="sm_{gpu.arch}".',
        )
    return gpu


def notes_on(gpu: Gpu) -> tuple[str, ...]:
    """Return what an estimate leaves out because the table has no number of the GPU for it."""
    notes = []
    if gpu.cache_rate is None:
        notes.append(
            f"No source has the L2 bandwidth of the {gpu.name}: the time of the L2 cache is left "
            "out."
        )
    if gpu.cache_bytes is None:
        notes.append(
            f"No source has the L2 size of the {gpu.name}: everything that programs load again is "
            "taken to be in it."
        )
    return tuple(notes)


def _listed(gpus: Mapping[str, Gpu]) -> str:
    names: dict[str, list[str]] = {}
    for gpu in gpus.values():
        arch = f"sm_{gpu.arch}" if gpu.backend == "cuda" else gpu.arch
        names.setdefault(arch, []).append(gpu.name)
    return ", ".join(f"{arch} ({', '.join(products)})" for arch, products in names.items())
