"""A kernel fixed to what a sweep found best."""

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
    """A kernel whose config is chosen already: `tuned[grid](x, y, n)` needs no
    constants of the config.

    Attributes:
        fn: the kernel inside.
        arg_names: its parameters.
        configs: (key, config) of each sweep; the key is the arguments that choose, by name.
    """

    def __init__(self, kernel: Any, choices: Sequence[tuple[Mapping[str, Any], Candidate]]) -> None:
        self.fn = without_autotuner(kernel)
        self.arg_names: Sequence[str] = self.fn.arg_names
        self.configs = tuple(choices)
        parameters = inspect.signature(innermost(kernel).fn).parameters.values()
        self._defaults = {
            one.name: one.default for one in parameters if one.default is not one.empty
        }
        self._announced: set[tuple[Any, ...]] = set()

    def __getitem__(self, grid: Grid) -> Callable[..., Any]:
        """The kernel with a grid, ready to be called with the rest of its arguments."""
        return functools.partial(self.run, grid=grid, warmup=False)

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **keywords: Any) -> Any:
        """Launch with the config for these arguments; gives what the kernel's own launch gives.

        Raises:
            ArgumentError: an argument of the key is missing, or one of the config's is given.
        """
        __tracebackhide__ = True
        given = {**self._defaults, **dict(zip(self.arg_names, args)), **keywords}
        candidate = self.choose(given)
        own = {*self.arg_names[: len(args)], *keywords}
        twice = sorted(own & candidate.values.keys())
        if twice:
            raise ArgumentError(
                f"{', '.join(twice)} comes from the sweep, and the launch gives it too",
                advice="Leave it out of the launch.",
            )
        if candidate.pre_hook is not None:
            candidate.pre_hook({**given, **candidate.values})
        return self.fn.run(*args, grid=grid, warmup=warmup, **keywords, **candidate.values)

    def choose(self, given: Mapping[str, Any]) -> Candidate:
        """The config for arguments by name: that of the equal key, else of the nearest,
        which is said once.

        Raises:
            ArgumentError: an argument of the key is missing.
        """
        names = tuple(self.configs[0][0])
        missing = [name for name in names if name not in given]
        if missing:
            raise ArgumentError(
                f"the config depends on {missing[0]!r}, which the launch does not give"
            )
        wanted = {name: given[name] for name in names}
        for key, candidate in self.configs:
            if key == wanted:
                return candidate
        key, candidate = min(self.configs, key=lambda one: _distance(one[0], wanted))
        self._announce(wanted, key)
        return candidate

    def _announce(self, wanted: Mapping[str, Any], key: Mapping[str, Any]) -> None:
        if tuple(wanted.values()) in self._announced:
            return
        self._announced.add(tuple(wanted.values()))
        words = [", ".join(f"{n}={v}" for n, v in one.items()) for one in (wanted, key)]
        print(
            f"{self.fn.__name__}: not tuned for {words[0]}; takes the config of {words[1]}",
            file=sys.stderr,
        )

    def __repr__(self) -> str:
        return f"AppliedTuning({self.fn!r}, {counted(len(self.configs), 'config')})"


def _distance(key: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """How far two keys are apart: sizes by their ratio, anything else by being another."""
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
