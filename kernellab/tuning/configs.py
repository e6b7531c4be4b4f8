"""The configs that a sweep tries, a prepared launch for each, and the key of the sweep."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.common.arguments import MOST_ITEMS, listed, plain_scalar
from kernellab.common.text import what_it_raised
from kernellab.compiler.arguments import tensor_of
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.kernels import as_triton_kernel
from kernellab.errors import ArgumentError, GridError, OptionError, nearest, suggestion
from kernellab.interpreter.execution.grid import check_grid, check_has_length
from kernellab.launch.preparation import EntryPoint, Grid, innermost, prepare
from kernellab.records import Target
from kernellab.triton_api import Autotuner, Config
from kernellab.tuning.assignments import Arguments, Shipment, Task, ship
from kernellab.tuning.records import Candidate, Dropped

Space = Mapping[str, Iterable[Any]] | Iterable[Config | Mapping[str, Any]]
"""Values to try by name, all combinations of them; or the configs themselves."""

Prune = Callable[[dict[str, Any]], Any]
"""Takes all arguments of a launch by name, a config's included; whether to leave it out."""


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
        kernel: of any kind; without a space, its autotuner's configs, pruned by it.
        target: the target whose options configs may set.
        args, keywords: the launch's, for the autotuner's pruning.

    Raises:
        ArgumentError: there is nothing to try.
        OptionError: a name is unknown to kernel and target, or the launch gives it a value too.
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
            f"space must be a dict of values by name or a list of configs, got {space!r}.",
            advice=_SPACES,
        )
    if not configs:
        raise ArgumentError(
            f"The list of configs for {plain.__name__!r} is empty.",
            advice=_what_was_pruned(kernel, space),
        )
    _check_names(plain, configs, target, args, keywords)
    return _each_once(configs)


_SPACES = 'Pass space={"BLOCK": [128, 256], "num_warps": [4, 8]}, or a list of triton.Config.'


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
            f"There are no configs to try: {plain.__name__!r} has no @triton.autotune, and no "
            "space was given.",
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
                f"The space is empty: {name!r} has no values.",
                advice=f"Pass at least one: {name}=[...].",
            )
    if (count := math.prod(map(len, values.values()))) > MOST_ITEMS:
        raise ArgumentError(
            f"The space must have at most {MOST_ITEMS:,} configs, got {count:,}.",
            advice="Pass fewer values of each name, or a list of configs.",
        )
    return itertools.product(*values.values()) if values else ()


def _values(name: str, given: Any) -> list[Any]:
    if not isinstance(name, str):
        raise ArgumentError(
            f"The names of the space must be strings, got {name!r}.", advice=_SPACES
        )
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentError(
            f"The space's {name!r} must be a list of values, got {given!r}.",
            advice=f'Write "{name}": [{given!r}].',
        )
    return listed(f"space[{name!r}]", given)


def of_config(kernel: Any, config: Config | Mapping[str, Any]) -> Candidate:
    """Return a triton.Config or a dict as a candidate. Raises ArgumentError: it is neither."""
    if isinstance(config, Config):
        made = _candidate(kernel, config.all_kwargs())
        return Candidate(made.constants, made.options, config.pre_hook)
    if isinstance(config, Mapping):
        return _candidate(kernel, config)
    raise ArgumentError(
        f"A config must be a triton.Config or a dict, got {config!r}.",
        advice='Pass a triton.Config, or a dict such as {"BLOCK": 128, "num_warps": 4}.',
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
                f"{name!r} of {kernel.__name__!r} is given by the launch and by the configs.",
                advice=f"Remove {name!r} from the launch, or from the configs.",
            )
        if name not in kernel.arg_names and name not in known:
            close = nearest(name, [*kernel.arg_names, *known])
            raise OptionError(
                f"{name!r} is not a parameter of {kernel.__name__!r} or an option of {target}.",
                advice=f"{close} Its parameters are {', '.join(kernel.arg_names)}.".lstrip(),
                position=triton_api.definition_of(kernel),
            )


def _each_once(configs: Sequence[Candidate]) -> list[Candidate]:
    kept: dict[Any, Candidate] = {}
    for config in configs:
        kept.setdefault((config.written, config.pre_hook), config)
    return list(kept.values())


# Prepare one launch per config of a sweep: bind, specialize, and compute the grid.


def without_autotuner(kernel: Any) -> Any:
    """Return the kernel with its heuristics but without any autotuner."""
    if isinstance(kernel, Autotuner):
        return without_autotuner(kernel.fn)
    if isinstance(kernel, triton_api.Heuristics):
        inside = without_autotuner(kernel.fn)
        if inside is not kernel.fn:
            kernel = copy.copy(kernel)
            kernel.fn = inside
    return kernel


@dataclass(frozen=True)
class PreparedCall:
    """A launch with one config."""

    call: BoundCall
    task: Task
    shipment: Shipment | None
    """The arguments with memory that its `pre_hook` changed; None if it uses the shared ones."""


class Calls:
    """Makes the launches of a sweep.

    Attributes:
        runs: whether there are values to run with; types alone can only be compiled.
        shared: the arguments with memory for configs without `pre_hook`; None without values.
    """

    def __init__(
        self,
        kernel: Any,
        grid: Grid,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        target: Target,
        ships: bool = True,
        is_timed: bool = False,
    ) -> None:
        """Prepare for the launches of a kernel.

        Args:
            grid, args, keywords: the launch's, without the configs' parameters.
            ships: whether the launches run, so that memory is sent to other processes.
        """
        self._is_timed = is_timed
        self._ships = ships
        self._kernel = without_autotuner(kernel)
        self._grid = grid
        self._args = args
        self._keywords = keywords
        self._target = target
        autotuner = autotuner_in(kernel)
        self._zeroed: Sequence[str] = getattr(autotuner, "reset_to_zero", None) or ()
        # The user's hook for all configs, which replaces `reset_to_zero`.
        users = autotuner is not None and autotuner.user_defined_pre_hook
        self._hook = autotuner.pre_hook if autotuner is not None and users else None
        self.plain = innermost(kernel)
        self.runs = grid is not None and any(map(has_memory, (*args, *keywords.values())))
        self.shared: Shipment | None = None
        self._grid_raised: list[str] = []
        """The errors of the grid function, one message per config."""

    def prepare_all(self, candidates: Sequence[Candidate]) -> list[PreparedCall | Dropped]:
        """Return the launches with all configs, by number. Raises ArgumentError: the arguments fit
        no config, or the grid function fails for every config.
        """
        prepared = [self.prepare(number, candidate) for number, candidate in enumerate(candidates)]
        if candidates and len(self._grid_raised) == len(candidates):
            several = (
                "the only config" if len(candidates) == 1 else f"all {len(candidates)} configs"
            )
            raise ArgumentError(
                self._grid_raised[0],
                advice=f"It fails for {several}. It is called with one dict of all arguments by "
                f"name. Use only these names: {', '.join(self.plain.arg_names)}.",
            )
        return prepared

    def prepare(self, number: int, candidate: Candidate) -> PreparedCall | Dropped:
        """Return the launch with a config, or why the config cannot be launched. Raises
        ArgumentError: the arguments fit no config.
        """
        shipment = None
        args, keywords = self._args, {**self._keywords, **candidate.constants}
        hooks = [hook for hook in (candidate.pre_hook, self._hook) if hook is not None]
        try:
            if (hooks or self.plain.pre_run_hooks) and self.runs:
                args, keywords, shipment = self._after_hooks(hooks, candidate)
            # Heuristics see the options too, as in Triton's own launch.
            keywords = {**keywords, **candidate.options}
            entry_point = _TUNE if self.runs else _COMPILE_ONLY
            launch = prepare(self._kernel, self._grid, args, keywords, self._target, entry_point)
            call = launch.call
            grid = self._grid_of(call) if self.runs else (1, 1, 1)
        except OptionError as error:
            return Dropped("compile error", str(error))
        except (GridError, _UsersError) as error:
            return Dropped("fault", str(error))
        with_memory, others = _apart(call.values)
        if shipment is not None:
            shipment = ship(with_memory) if self._ships else None
        elif self.shared is None and self.runs and self._ships:
            self.shared = self._ship(with_memory)
        tensors = _described(with_memory) if self.runs else None
        task = Task(
            number, call.specialization, call.options, grid, others, tensors, self._is_timed
        )
        return PreparedCall(call, task, shipment)

    def _ship(self, with_memory: Mapping[str, Any]) -> Shipment:
        shipment = ship(with_memory)
        if not self._zeroed:
            return shipment
        copies = Arguments(shipment, torch.device("cpu")).values
        for name in self._zeroed:
            if name in copies:  # an optional tensor may be None
                copies[name].zero_()
        return ship(copies)

    def _grid_of(self, call: BoundCall) -> tuple[int, int, int]:
        try:
            sizes = self._grid(call.values) if callable(self._grid) else self._grid
        except Exception as error:  # a function of the user
            self._grid_raised.append(what_it_raised("The grid function", error))
            raise _UsersError(self._grid_raised[-1]) from error
        check_has_length(sizes, is_asked=callable(self._grid))
        return check_grid(sizes, call.values)

    def _after_hooks(
        self, hooks: Sequence[Callable[[dict[str, Any]], Any]], candidate: Candidate
    ) -> tuple[tuple[Any, ...], dict[str, Any], Shipment]:
        """Return copies of all arguments as the hooks before a launch leave them."""
        positional = self.plain.arg_names[: len(self._args)]
        given = {**dict(zip(positional, self._args)), **self._keywords}
        given = {
            name: tensor_of(value) if isinstance(value, numpy.ndarray) else value
            for name, value in given.items()
        }
        with_memory, others = _apart(given)
        first = self._ship(with_memory)
        copies = Arguments(first, torch.device("cpu")).values
        everything = {**others, **copies, **candidate.values}
        for hook in hooks:
            try:
                hook(everything)
            except Exception as error:  # a function of the user
                raise _UsersError(what_it_raised("The pre_hook", error)) from error
        args = (*map(everything.pop, positional), *self._args[len(positional) :])
        return args, {n: v for n, v in everything.items() if n not in candidate.options}, first


_TUNE = EntryPoint("tune", on_gpu="bound")
_COMPILE_ONLY = EntryPoint("tune", on_gpu="bound", runs_hooks=False)


class _UsersError(Exception):
    """A user's function in a launch raised an error; the message has its name and line."""


def _apart(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    with_memory = {name: value for name, value in values.items() if has_memory(value)}
    return with_memory, {name: value for name, value in values.items() if name not in with_memory}


def has_memory(value: Any) -> bool:
    """Whether an argument is a tensor, an array, a descriptor, or a tuple with one of them."""
    if isinstance(value, tuple):
        return any(has_memory(item) for item in value)
    if isinstance(value, torch.Tensor | numpy.ndarray):
        return True
    return isinstance(getattr(value, "base", None), torch.Tensor)


def _described(values: Mapping[str, Any]) -> dict[str, torch.Tensor] | None:
    """Return each tensor without its memory; None if a value is not a plain tensor."""
    if any(type(value) is not torch.Tensor for value in values.values()):
        return None
    return {
        name: torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        for name, value in values.items()
    }


Key = str | Sequence[str] | None
"""One name, or several; None means the key of the autotuner around the kernel, if it has one."""


def checked_key(
    kernel: Any, key: Key, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the names of the arguments that choose the config. Raises ArgumentError: a name is not
    an argument of the kernel, or is a tensor's, which no other launch has.
    """
    plain = innermost(kernel)
    given = {**dict(zip(plain.arg_names, args)), **keywords}
    if key is None:
        own = getattr(autotuner_in(kernel), "keys", None) or ()
        return tuple(name for name in own if name in given and not has_memory(given[name]))
    if not isinstance(key, str | Sequence):
        raise ArgumentError(
            f"key must be a name or a list of names, got {key!r}.",
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
    advice = f"Possible names are {', '.join(possible)}." if possible else ""
    if name not in kernel.arg_names:
        raise ArgumentError(
            f"The key names {name!r}, which is not an argument of {kernel.__name__!r}.",
            advice=suggestion(str(name), possible, "Possible names are") if possible else "",
            position=triton_api.definition_of(kernel),
        )
    if has_memory(given.get(name)):
        raise ArgumentError(
            f"The key names {name!r}, which is a tensor; a key must be a value that other launches "
            "can share, such as a size.",
            advice=advice,
            position=triton_api.definition_of(kernel),
        )


def check_key_is_not_tried(key: Sequence[str], configs: Iterable[Candidate]) -> None:
    """Check that no config has a value for a name of the key, since the key chooses the config.
    Raises ArgumentError: a config has one.
    """
    tried = {name for config in configs for name in config.values}
    for name in key:
        if name in tried:
            raise ArgumentError(
                f"The key names {name!r}, which is part of the configs, but the key's values "
                "choose the config.",
                advice="Name arguments of the launch.",
            )
