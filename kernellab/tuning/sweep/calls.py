"""Prepare one launch per config of a sweep: bind, specialize, and compute the grid."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.compiler.specialization.argument_values import tensor_of
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import ArgumentError, GridError, OptionError
from kernellab.interpreter.execution.grid import check_grid, check_has_length
from kernellab.launch.callbacks import what_it_raised
from kernellab.launch.preparation import EntryPoint, Grid, innermost, prepare
from kernellab.records import Target
from kernellab.triton_api import Autotuner
from kernellab.tuning.pool.arguments import Arguments, Shipment, ship
from kernellab.tuning.pool.assignments import Task
from kernellab.tuning.results.records import Candidate, Dropped
from kernellab.tuning.sweep.spaces import autotuner_in


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
    """The arguments with memory if this config has its own, because its `pre_hook` changed them;
    None if it uses those that all configs share."""


class Calls:
    """Makes the launches of a sweep.

    Attributes:
        plain: the JIT function inside the kernel.
        runs: whether there are values to run with; types alone can only be compiled.
        shared: the arguments with memory for every config that has no `pre_hook`;
            None without values.
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
            kernel: of any kind.
            grid, args, keywords: the launch's, without the configs' parameters.
            target: to compile for.
            ships: whether the launches run, so that memory is sent to other processes.
            is_timed: whether the launches are timed on a GPU.
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
        """What the grid function raised, one message per config."""

    def prepare_all(self, candidates: Sequence[Candidate]) -> list[PreparedCall | Dropped]:
        """Return the launches with all configs, by number.

        Raises:
            ArgumentError: the arguments fit no config, or the grid function fails for every config.
        """
        prepared = [self.prepare(number, candidate) for number, candidate in enumerate(candidates)]
        if candidates and len(self._grid_raised) == len(candidates):
            number = len(candidates)
            raise ArgumentError(
                self._grid_raised[0],
                advice=(
                    "The grid function fails for "
                    f"{'the only config' if number == 1 else f'all {number} configs'}. It is "
                    "called with one dict of all arguments by name: "
                    f"{', '.join(self.plain.arg_names)}."
                ),
            )
        return prepared

    def prepare(self, number: int, candidate: Candidate) -> PreparedCall | Dropped:
        """Return the launch with a config, or why the config cannot be launched.

        Raises:
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
        except GridError as error:
            return Dropped("fault", str(error))
        except _UsersError as error:
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
        except Exception as error:
            self._grid_raised.append(what_it_raised("the grid function", error))
            raise _UsersError(self._grid_raised[-1]) from error
        check_has_length(sizes, is_asked=callable(self._grid))
        return check_grid(sizes, call.values)

    def _after_hooks(
        self, hooks: Sequence[Callable[[dict[str, Any]], Any]], candidate: Candidate
    ) -> tuple[tuple[Any, ...], dict[str, Any], Shipment]:
        """Return all arguments as the hooks before a launch leave them.

        The tensors are copies, so that neither these hooks nor the kernel's change the caller's.
        """
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
            except Exception as error:
                raise _UsersError(what_it_raised("the pre_hook", error)) from error
        args = (*map(everything.pop, positional), *self._args[len(positional) :])
        return args, {n: v for n, v in everything.items() if n not in candidate.options}, first


_TUNE = EntryPoint("tune", on_gpu="bound")
_COMPILE_ONLY = EntryPoint("tune", on_gpu="bound", runs_hooks=False)


class _UsersError(Exception):
    """A function of the user's that a launch calls raised an error; the message names the function
    and the line.
    """


def _apart(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the arguments with memory from all others."""
    with_memory = {name: value for name, value in values.items() if has_memory(value)}
    return with_memory, {name: value for name, value in values.items() if name not in with_memory}


def has_memory(value: Any) -> bool:
    """Whether an argument is a tensor, an array, a descriptor, or a tuple with one of them."""
    if isinstance(value, tuple):
        return any(has_memory(item) for item in value)
    if isinstance(value, torch.Tensor | numpy.ndarray):
        return True
    return isinstance(getattr(value, "base", None), torch.Tensor)


def _described(
    values: Mapping[str, Any],
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], str]] | None:
    """Return each tensor's shape, strides and dtype; None if a value is not a plain tensor."""
    described = {}
    for name, value in values.items():
        if type(value) is not torch.Tensor:
            return None
        dtype = str(value.dtype).removeprefix("torch.")
        described[name] = (tuple(value.shape), tuple(value.stride()), dtype)
    return described
