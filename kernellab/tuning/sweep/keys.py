"""The arguments by whose values a config is chosen."""

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
"""One name, or several; None is the key of the autotuner around the kernel, where there is one."""


def checked_key(
    kernel: Any, key: Key, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[str, ...]:
    """The names of the arguments that choose.

    Args:
        kernel: of any kind.
        key: as it was given.
        args, keywords: the launch's.

    Raises:
        ArgumentError: a name is no argument of the kernel, or a tensor's: no other launch
            would have the same.
    """
    plain = innermost(kernel)
    given = {**dict(zip(plain.arg_names, args)), **keywords}
    if key is None:
        own = getattr(autotuner_in(kernel), "keys", None) or ()
        return tuple(name for name in own if name in given and not has_memory(given[name]))
    if not isinstance(key, str | Sequence):
        raise ArgumentError(
            f"key={key!r} names no arguments", advice='Write key="n", or key=["M", "N"].'
        )
    names = (key,) if isinstance(key, str) else tuple(listed("key", key))
    for name in names:
        _check_name(plain, name, given)
    return names


def _check_name(kernel: Any, name: Any, given: Mapping[str, Any]) -> None:
    possible = [one for one in kernel.arg_names if one in given and not has_memory(given[one])]
    advice = f"Possible are {', '.join(possible)}." if possible else ""
    if name not in kernel.arg_names:
        raise ArgumentError(
            f"the key names {name!r}, which is no argument of {kernel.__name__!r}",
            advice=suggestion(str(name), possible, "Possible are") if possible else "",
            position=triton_api.definition_of(kernel),
        )
    if has_memory(given.get(name)):
        raise ArgumentError(
            f"the key names {name!r}, which is a tensor; a key is what other launches may have "
            "too, such as a size",
            advice=advice,
            position=triton_api.definition_of(kernel),
        )


def check_key_is_not_tried(key: Sequence[str], found: Iterable[Candidate]) -> None:
    """The key chooses the config, so no config may have a value for it.

    Raises:
        ArgumentError: one has.
    """
    tried = {name for one in found for name in one.values}
    for name in key:
        if name in tried:
            raise ArgumentError(
                f"the key names {name!r}, which is part of the configs; the key's values are what "
                "chooses the config",
                advice="Name arguments of the launch.",
            )
