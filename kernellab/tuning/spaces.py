"""Which configs a sweep tries: a space, a list of triton.Config, or what `@triton.autotune` carries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kernellab import triton_api
from kernellab.errors import ArgumentError, OptionError, nearest
from kernellab.launching import innermost
from kernellab.records import Target
from kernellab.triton_api import Autotuner, Config
from kernellab.tuning.records import Candidate

Space = Mapping[str, Iterable[Any]] | Sequence[Config | Mapping[str, Any]]
"""Values to try by name, all combinations of them; or the configs themselves."""

Prune = Callable[[dict[str, Any]], Any]
"""Given all arguments of a launch by name, a config's constants and options among them: whether to leave that config out."""


def autotuner_in(kernel: Any) -> Autotuner | None:
    """The autotuner around a kernel, the outermost one; None where there is none."""
    inside = kernel
    while not isinstance(inside, triton_api.JITFunction):
        if isinstance(inside, Autotuner):
            return inside
        inside = getattr(inside, "fn", None)
        if inside is None:
            return None
    return None


def candidates(
    kernel: Any,
    space: Space | None,
    target: Target,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> list[Candidate]:
    """The configs to try, each once, in order.

    Args:
        kernel: of any kind; without a space, the autotuner around it says which configs there are, after its own pruning.
        space: the space or the configs.
        target: whose options count.
        args, keywords: the launch's, for the autotuner's pruning.

    Raises:
        ArgumentError: nothing to try.
        OptionError: a name that is neither a parameter of the kernel nor an option of the target; a value that the launch gives too.
    """
    plain = innermost(kernel)
    if space is None:
        found = _of_autotuner(kernel, args, keywords)
    elif isinstance(space, Mapping):
        found = [_candidate(plain, dict(zip(space, values))) for values in _combinations(space)]
    else:
        found = [_of_config(plain, one) for one in space]
    if not found:
        raise ArgumentError(
            f"the list of configs for {plain.__name__!r} is empty",
            advice='Give a space={"BLOCK": [128, 256], "num_warps": [4, 8]}, or a list of triton.Config.',
        )
    _check_names(plain, found, target, args, keywords)
    return _each_once(found)


def _of_autotuner(kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Candidate]:
    autotuner = autotuner_in(kernel)
    plain = innermost(kernel)
    if autotuner is None:
        raise ArgumentError(
            f"there are no configs to try: {plain.__name__!r} is not under @triton.autotune, and no space was given",
            advice='Give a space={"BLOCK": [128, 256], "num_warps": [4, 8]}, or a list of triton.Config.',
            position=triton_api.definition_of(plain),
        )
    configs = triton_api.pruned_configs(autotuner, args, keywords)
    return [_of_config(plain, config) for config in configs]


def _combinations(space: Mapping[str, Iterable[Any]]) -> Iterable[tuple[Any, ...]]:
    values = {name: _values(name, given) for name, given in space.items()}
    for name, given in values.items():
        if not given:
            raise ArgumentError(
                f"the space is empty: {name!r} has no values",
                advice=f"Give at least one: {name}=[...].",
            )
    return itertools.product(*values.values()) if values else ()


def _values(name: str, given: Any) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentError(
            f"the space has {given!r} for {name!r}, which is no list of values",
            advice=f'Write "{name}": [{given!r}].',
        )
    return list(given)


def _of_config(kernel: Any, config: Config | Mapping[str, Any]) -> Candidate:
    if isinstance(config, Config):
        made = _candidate(kernel, config.all_kwargs())
        return Candidate(made.constants, made.options, config.pre_hook)
    if isinstance(config, Mapping):
        return _candidate(kernel, config)
    raise ArgumentError(
        f"{config!r} is no config",
        advice='Give a triton.Config, or a dict such as {"BLOCK": 128, "num_warps": 4}.',
    )


def _candidate(kernel: Any, values: Mapping[str, Any]) -> Candidate:
    constants = {name: value for name, value in values.items() if name in kernel.arg_names}
    options = {name: value for name, value in values.items() if name not in constants}
    return Candidate(constants, options)


def _check_names(
    kernel: Any,
    found: Iterable[Candidate],
    target: Target,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> None:
    by_position = set(kernel.arg_names[: len(args)])
    known = triton_api.option_names(target)
    tried = {name: value for one in found for name, value in one.values.items()}
    for name in tried:
        if name in by_position or name in keywords:
            raise OptionError(
                f"{name!r} of {kernel.__name__!r} is part of the configs, and the launch gives it too",
                advice="Leave it out of the launch, or of the configs.",
            )
        if name not in kernel.arg_names and name not in known:
            close = nearest(name, [*kernel.arg_names, *known])
            raise OptionError(
                f"{name!r} is neither a parameter of {kernel.__name__!r} nor an option of {target}",
                advice=close or f"Its parameters are {', '.join(kernel.arg_names)}.",
                position=triton_api.definition_of(kernel),
            )


def _each_once(found: Sequence[Candidate]) -> list[Candidate]:
    kept: list[Candidate] = []
    seen = set()
    for one in found:
        key = (tuple(sorted((name, repr(value)) for name, value in one.values.items())), one.pre_hook)  # fmt: skip
        if key not in seen:
            seen.add(key)
            kept.append(one)
    return kept


def check_key(kernel: Any, key: str | Sequence[str]) -> tuple[str, ...]:
    """The names by whose values configs are chosen; each must be a parameter of the kernel.

    Raises:
        ArgumentError: one is not.
    """
    names = (key,) if isinstance(key, str) else tuple(key)
    for name in names:
        if name not in kernel.arg_names:
            close = nearest(str(name), kernel.arg_names)
            raise ArgumentError(
                f"the key names {name!r}, which is no argument of {kernel.__name__!r}",
                advice=close or f"Its arguments are {', '.join(kernel.arg_names)}.",
                position=triton_api.definition_of(kernel),
            )
    return names
