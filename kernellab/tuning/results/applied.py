"""A kernel fixed to the best config of a sweep."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernellab.common.formatting import counted
from kernellab.errors import ArgumentError
from kernellab.launch.preparation import Grid, innermost
from kernellab.tuning.results.records import Candidate
from kernellab.tuning.sweep.calls import without_autotuner


class AppliedTuning:
    """A kernel whose config comes from sweeps: `tuned[grid](x, y, n)` takes no config constants.

    Attributes:
        fn: the kernel inside.
        arg_names: its parameters.
        configs: (key, config) of each sweep; a key is the arguments that choose the config, by
            name.
    """

    def __init__(self, kernel: Any, choices: Sequence[tuple[Mapping[str, Any], Candidate]]) -> None:
        self.fn = without_autotuner(kernel)
        self.arg_names: Sequence[str] = self.fn.arg_names
        self.configs = tuple(choices)
        parameters = inspect.signature(innermost(kernel).fn).parameters.values()
        self._defaults = {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.default is not parameter.empty
        }
        self._announced: set[tuple[Any, ...]] = set()

    def __getitem__(self, grid: Grid) -> Callable[..., Any]:
        """Return the kernel with a grid, ready to be called with the rest of its arguments."""
        return functools.partial(self.run, grid=grid, warmup=False)

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **keywords: Any) -> Any:
        """Launch with the config for these arguments; return what the kernel's own launch returns.

        Raises:
            ArgumentError: an argument of the key is missing, or a value of the config is given.
        """
        __tracebackhide__ = True
        given = {**self._defaults, **dict(zip(self.arg_names, args)), **keywords}
        candidate = self.choose(given)
        own = {*self.arg_names[: len(args)], *keywords}
        twice = sorted(own & candidate.values.keys())
        if twice:
            raise ArgumentError(
                f"{', '.join(twice)} is given twice: by the sweep and by the launch",
                advice="Leave it out of the launch.",
            )
        if candidate.pre_hook is not None:
            candidate.pre_hook({**given, **candidate.values})
        return self.fn.run(*args, grid=grid, warmup=warmup, **keywords, **candidate.values)

    def choose(self, given: Mapping[str, Any]) -> Candidate:
        """Return the config for arguments by name: that of the equal key, else of the nearest key.

        A message on stderr reports the first use of a nearest key.

        Raises:
            ArgumentError: an argument of the key is missing.
        """
        names = tuple(self.configs[0][0])
        missing = [name for name in names if name not in given]
        if missing:
            raise ArgumentError(
                f"the config depends on {missing[0]!r}, which is missing from the launch"
            )
        wanted = {name: given[name] for name in names}
        for key, candidate in self.configs:
            if key == wanted:
                return candidate
        key, candidate = min(self.configs, key=lambda choice: _distance(choice[0], wanted))
        self._announce(wanted, key)
        return candidate

    def _announce(self, wanted: Mapping[str, Any], key: Mapping[str, Any]) -> None:
        if tuple(wanted.values()) in self._announced:
            return
        self._announced.add(tuple(wanted.values()))
        words = [", ".join(f"{n}={v}" for n, v in values.items()) for values in (wanted, key)]
        print(
            f"{self.fn.__name__}: not tuned for {words[0]}; uses the config for {words[1]}",
            file=sys.stderr,
        )

    def __repr__(self) -> str:
        return f"AppliedTuning({self.fn!r}, {counted(len(self.configs), 'config')})"


def _distance(key: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """Return how far apart two keys are: sizes by their ratio, other values by being different."""
    total = 0.0
    for name, value in wanted.items():
        other = key[name]
        if _is_size(value) and _is_size(other):
            total += abs(math.log(value) - math.log(other))
        elif value != other:
            total += 100.0
    return total


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
