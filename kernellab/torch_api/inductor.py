"""Kernels that Inductor generates (`torch.compile`): what a `CachingAutotuner` holds.

Inductor is never imported here, which takes seconds: who has such a kernel has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_HEURISTICS = "torch._inductor.runtime.triton_heuristics"


def is_inductor_kernel(thing: Any) -> bool:
    """Whether it is a kernel as Inductor makes them."""
    module = sys.modules.get(_HEURISTICS)
    made = getattr(module, "CachingAutotuner", None)
    return made is not None and isinstance(thing, made)


@dataclass(frozen=True)
class Generated:
    """The decisions of Inductor when it generated a kernel.

    Attributes:
        function: the Python function under `@triton.jit`; None if it stayed in the process that
            compiled it.
        configs: the `triton.Config`s that it would time, the one that it chose alone once it has.
        signature: parameter -> its type, "*fp32", "i64", "constexpr".
        constants: parameter -> what is compiled in, besides the configs' own.
        divisible: parameters that are divisible by 16, whatever the launch.
        options: options of the backend that every config is compiled with.
        backend, architecture: the GPU that it is for: "cuda" and "90", "hip" and "gfx942".
        meta: what its grid is computed from.
    """

    function: Any
    configs: Sequence[Any]
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    divisible: frozenset[str]
    options: Mapping[str, Any]
    backend: str
    architecture: str
    meta: Mapping[str, Any]


def generated(kernel: Any) -> Generated:
    """The facts about one of Inductor's kernels."""
    meta, inductor_meta, device = kernel.triton_meta, kernel.inductor_meta, kernel.device_props
    if kernel.fn.fn is None and callable(getattr(kernel, "_reload_kernel", None)):
        kernel._ensure_kernel_loaded()  # it was compiled in another process
    names = list(kernel.fn.arg_names)
    (attributes,) = meta["configs"] or ({},)
    promised = [
        place[0]
        for place, facts in attributes.items()
        if len(place) == 1 and ["tt.divisibility", 16] in [list(fact) for fact in facts]
    ]
    # As `_create_compile_options` has it: assertions are kept, checks of overflow are not.
    options = {
        "debug": bool(inductor_meta.get("assert_indirect_indexing", True)) and device.type != "hip",
        "sanitize_overflow": False,
    }
    if not meta.get("enable_fp_fusion", True):
        options["enable_fp_fusion"] = False
    if device.type == "cuda" and meta.get("disable_ftz"):
        options["enable_reflect_ftz"] = False
    return Generated(
        function=kernel.fn.fn,
        configs=_configs(kernel),
        signature=dict(meta["signature"]),
        constants=dict(meta["constants"]),
        divisible=frozenset(names[number] for number in promised),
        options=options,
        backend=str(device.type),
        architecture=str(device.cc),
        meta=inductor_meta,
    )


def _configs(kernel: Any) -> list[Any]:
    """Return the configs, which are in another place once the kernel has been compiled."""
    if kernel.launchers:
        return [launcher.config for launcher in kernel.launchers]
    return list(kernel.configs or [result.config for result in kernel.compile_results])


def has_grid(meta: Mapping[str, Any]) -> bool:
    """Whether a kernel's grid follows from its arguments; otherwise each launch has one."""
    return "grid_type" in meta and not meta.get("extra_launcher_args")


def parted(kernel: Any, args: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """The grid and the arguments of a launch in generated code: of the user's own kernels and of
    templates the grid comes after the arguments, or, of an autotuned kernel, the sizes that it
    follows from; of others it follows from the arguments, and is None.
    """
    meta = kernel.inductor_meta
    extra = meta.get("extra_launcher_args") or ()
    if not extra:
        return None, args
    last, args = args[-len(extra) :], args[: -len(extra)]
    if _grids_by_config(meta):
        sizes = dict(zip(extra, last, strict=True))
        return lambda values: grid_of(meta, {**values, **sizes}), args
    return tuple(map(int, last)), args


def launch_grid(kernel: Any, args: Sequence[Any]) -> tuple[int, int, int]:
    """The grid of a launch in generated code that follows from the launch's arguments."""
    constants = kernel.triton_meta["constants"]
    names = [name for name in kernel.triton_meta["signature"] if name not in constants]
    values = {**constants, **dict(zip(names, args, strict=False)), **kernel.configs[0].kwargs}
    return grid_of(kernel.inductor_meta, values)


def users_arguments(kernel: Any, args: Sequence[Any]) -> dict[str, Any] | None:
    """The arguments by name of a launch in generated code of a kernel of the user; None for a
    kernel of Inductor.
    """
    if not kernel.custom_kernel:
        return None
    constants = {parameter.name for parameter in kernel.fn.params if parameter.is_constexpr}
    names = [name for name in kernel.triton_meta["signature"] if name not in constants]
    return dict(zip(names, args, strict=False))


def grid_of(meta: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[int, int, int]:
    """The grid that Inductor launches a kernel on, from its parameters' values by name.

    Of an autotuned kernel of the user's it has a grid for each config. Options of a launch are not
    among the values, so that the first config with these values of parameters counts.
    """
    for candidate in _grids_by_config(meta):
        config = candidate["config"]
        if all(values.get(name, value) == value for name, value in config.items()):
            values = {**config, **values}
            break
    expression: Any = vars(sys.modules[_HEURISTICS])["GridExpr"]
    grid: tuple[int, int, int] = expression.from_meta(dict(meta), dict(values)).eval_slow(values)
    return grid


def _grids_by_config(meta: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return meta.get("precomputed_grids") or ()
