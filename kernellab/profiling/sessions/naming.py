"""What a launch is called in a profile, and what its metrics are said to be: by the kernel's own
`launch_metadata`, as Triton has it, or by a hook of the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from types import SimpleNamespace
from typing import Any

from kernellab.launch.callbacks import what_it_raised

LaunchMetadata = Callable[[Any, Any, Mapping[str, Any]], Mapping[str, Any]]
"""Takes grid, metadata and arguments by name, and gives "name" and metrics: "flops16", "bytes"."""


@dataclass
class NamedLaunch:
    """What a launch is called."""

    name: str
    metrics: dict[str, float] = field(default_factory=dict)
    trouble: str = ""
    """What went wrong in the function that was asked; "" for nothing."""


def named(
    kernel: Any,
    metadata_of: LaunchMetadata | None,
    grid: Any,
    options: Mapping[str, Any],
    values: Mapping[str, Any],
) -> NamedLaunch:
    """Ask the kernel's own `launch_metadata`, else the session's hook."""
    name = str(kernel.__name__)
    ask = getattr(kernel, "launch_metadata", None) or metadata_of
    if ask is None:
        return NamedLaunch(name)
    metadata = SimpleNamespace(**{**options, "name": name})
    try:
        said = dict(ask(grid, metadata, dict(values)))
        metrics = {str(key): float(one) for key, one in said.items() if isinstance(one, Real)}
        return NamedLaunch(str(said.get("name", name)), metrics)
    except Exception as error:  # a function of the user's
        words = what_it_raised(f"launch_metadata of {name}", error)
        return NamedLaunch(name, trouble=f"{words}; its launches are profiled without it")
