"""The key of a sweep: the arguments whose values choose the config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernellab import triton_api
from kernellab.common.argument_checks import listed
from kernellab.errors import ArgumentError, suggestion
from kernellab.launch.preparation import innermost
from kernellab.tuning.results.records import Candidate
from kernellab.tuning.sweep.calls import has_memory
from kernellab.tuning.sweep.spaces import autotuner_in

Key = str | Sequence[str] | None
"""One name, or several; None means the key of the autotuner around the kernel, if it has one."""


def checked_key(
    kernel: Any, key: Key, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the names of the arguments that choose the config.

    Args:
        kernel: of any kind.
        key: as it was given.
        args, keywords: the launch's.

    Raises:
        ArgumentError: a name is not an argument of the kernel, or is a tensor's, which no other
            launch has.
    """
    plain = innermost(kernel)
    given = {**dict(zip(plain.arg_names, args)), **keywords}
    if key is None:
        own = getattr(autotuner_in(kernel), "keys", None) or ()
        return tuple(name for name in own if name in given and not has_memory(given[name]))
    if not isinstance(key, str | Sequence):
        raise ArgumentError(
            f"key must be a name or a list of names, got {key!r}",
            advice='Write key="n", or key=["M", "N"].',
        )
    names = (key,) if isinstance(key, str) else tuple(listed("key", key))
    for name in names:
        _check_name(plain, name, given)
    return names


def _check_name(kernel: Any, name: Any, given: Mapping[str, Any]) -> None:
    possible = [
        parameter
        for parameter in kernel.arg_names
        if parameter in given and not has_memory(given[parameter])
    ]
    advice = f"Possible are {', '.join(possible)}." if possible else ""
    if name not in kernel.arg_names:
        raise ArgumentError(
            f"the key names {name!r}, which is not an argument of {kernel.__name__!r}",
            advice=suggestion(str(name), possible, "Possible are") if possible else "",
            position=triton_api.definition_of(kernel),
        )
    if has_memory(given.get(name)):
        raise ArgumentError(
            f"the key names {name!r}, which is a tensor; a key must be a value that other launches "
            "can share, such as a size",
            advice=advice,
            position=triton_api.definition_of(kernel),
        )


def check_key_is_not_tried(key: Sequence[str], configs: Iterable[Candidate]) -> None:
    """Check that no config has a value for a name of the key, since the key chooses the config.

    Raises:
        ArgumentError: a config has one.
    """
    tried = {name for config in configs for name in config.values}
    for name in key:
        if name in tried:
            raise ArgumentError(
                f"the key names {name!r}, which is part of the configs, but the key's values "
                "choose the config",
                advice="Name arguments of the launch.",
            )
