"""The configs that a sweep tries: a space, a list of triton.Config, or `@triton.autotune`'s."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kernellab import triton_api
from kernellab.common.argument_checks import MOST_ITEMS, listed, plain_scalar
from kernellab.compiler.specialization.inductor_kernels import as_triton_kernel
from kernellab.errors import ArgumentError, OptionError, nearest
from kernellab.launch.preparation import innermost
from kernellab.records import Target
from kernellab.triton_api import Autotuner, Config
from kernellab.tuning.results.records import Candidate

Space = Mapping[str, Iterable[Any]] | Iterable[Config | Mapping[str, Any]]
"""Values to try by name, all combinations of them; or the configs themselves."""

Prune = Callable[[dict[str, Any]], Any]
"""A function that returns whether to leave a config out. It is called with one dict of all
arguments of a launch by name, including the config's constants and options."""


def autotuner_in(kernel: Any) -> Autotuner | None:
    """Return the outermost autotuner around a kernel, or None."""
    inside = as_triton_kernel(kernel)
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
    """Return the configs to try, each once, in order.

    Args:
        kernel: of any kind; without a space, the configs are those of the autotuner around it,
            after its own pruning.
        space: the space or the configs.
        target: the target whose options configs may set.
        args, keywords: the launch's, for the autotuner's pruning.

    Raises:
        ArgumentError: there is nothing to try.
        OptionError: a name is neither a parameter of the kernel nor an option of the target, or
            the launch gives a value for it too.
    """
    plain = innermost(kernel)
    given: Any = space
    if space is None:
        configs = _of_autotuner(kernel, args, keywords)
    elif isinstance(space, Mapping):
        configs = [_candidate(plain, dict(zip(space, values))) for values in _combinations(space)]
    elif isinstance(given, Iterable) and not isinstance(given, str):
        configs = [of_config(plain, config) for config in listed("space", given)]
    else:
        raise ArgumentError(
            f"space must be a dict of values by name or a list of configs, got {space!r}",
            advice=_SPACES,
        )
    if not configs:
        raise ArgumentError(
            f"the list of configs for {plain.__name__!r} is empty",
            advice=_what_was_pruned(kernel, space),
        )
    _check_names(plain, configs, target, args, keywords)
    return _each_once(configs)


_SPACES = 'Give a space={"BLOCK": [128, 256], "num_warps": [4, 8]}, or a list of triton.Config.'


def _what_was_pruned(kernel: Any, space: Space | None) -> str:
    autotuner = autotuner_in(kernel)
    if space is not None or autotuner is None or not autotuner.configs:
        return _SPACES
    return (
        f"Its autotuner has {len(autotuner.configs)} configs and prunes all of them for these "
        "arguments (prune_configs_by)."
    )


def count_before_pruning(kernel: Any, space: Space | None, configs: Sequence[Candidate]) -> int:
    """Return how many configs there were before the autotuner's own pruning left `configs`."""
    autotuner = autotuner_in(kernel)
    if space is not None or autotuner is None:
        return len(configs)
    plain = innermost(kernel)
    return len(_each_once([of_config(plain, config) for config in autotuner.configs]))


def _of_autotuner(kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Candidate]:
    autotuner = autotuner_in(kernel)
    plain = innermost(kernel)
    if autotuner is None:
        raise ArgumentError(
            f"there are no configs to try: {plain.__name__!r} has no @triton.autotune, and no "
            "space was given",
            advice=_SPACES,
            position=triton_api.definition_of(plain),
        )
    configs = triton_api.pruned_configs(autotuner, args, keywords)
    return [of_config(plain, config) for config in configs]


def _combinations(space: Mapping[str, Iterable[Any]]) -> Iterable[tuple[Any, ...]]:
    values = {name: _values(name, given) for name, given in space.items()}
    for name, given in values.items():
        if not given:
            raise ArgumentError(
                f"the space is empty: {name!r} has no values",
                advice=f"Give at least one: {name}=[...].",
            )
    if (count := math.prod(map(len, values.values()))) > MOST_ITEMS:
        raise ArgumentError(
            f"the space must have at most {MOST_ITEMS:,} configs, got {count:,}",
            advice="Give fewer values of each name, or a list of configs.",
        )
    return itertools.product(*values.values()) if values else ()


def _values(name: str, given: Any) -> list[Any]:
    if not isinstance(name, str):
        raise ArgumentError(f"the names of the space must be strings, got {name!r}", advice=_SPACES)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentError(
            f"the space's {name!r} must be a list of values, got {given!r}",
            advice=f'Write "{name}": [{given!r}].',
        )
    return listed(f"space[{name!r}]", given)


def of_config(kernel: Any, config: Config | Mapping[str, Any]) -> Candidate:
    """Return a triton.Config or a dict of values as a candidate.

    Raises:
        ArgumentError: `config` is neither.
    """
    if isinstance(config, Config):
        made = _candidate(kernel, config.all_kwargs())
        return Candidate(made.constants, made.options, config.pre_hook)
    if isinstance(config, Mapping):
        return _candidate(kernel, config)
    raise ArgumentError(
        f"a config must be a triton.Config or a dict, got {config!r}",
        advice='Give a triton.Config, or a dict such as {"BLOCK": 128, "num_warps": 4}.',
    )


def _candidate(kernel: Any, values: Mapping[str, Any]) -> Candidate:
    plain = {name: plain_scalar(value) for name, value in values.items()}
    constants = {name: value for name, value in plain.items() if name in kernel.arg_names}
    options = {name: value for name, value in plain.items() if name not in constants}
    return Candidate(constants, options)


def _check_names(
    kernel: Any,
    configs: Iterable[Candidate],
    target: Target,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
) -> None:
    by_position = set(kernel.arg_names[: len(args)])
    known = triton_api.option_names(target)
    for name in {name for config in configs for name in config.values}:
        if name in by_position or name in keywords:
            raise OptionError(
                f"{name!r} of {kernel.__name__!r} is given twice: by the launch and by the configs",
                advice="Leave it out of the launch, or of the configs.",
            )
        if name not in kernel.arg_names and name not in known:
            close = nearest(name, [*kernel.arg_names, *known])
            raise OptionError(
                f"{name!r} is neither a parameter of {kernel.__name__!r} nor an option of {target}",
                advice=f"{close} Its parameters are {', '.join(kernel.arg_names)}.".lstrip(),
                position=triton_api.definition_of(kernel),
            )


def _each_once(configs: Sequence[Candidate]) -> list[Candidate]:
    kept: dict[Any, Candidate] = {}
    for config in configs:
        values = sorted((name, repr(value)) for name, value in config.values.items())
        kept.setdefault((tuple(values), config.pre_hook), config)
    return list(kept.values())
