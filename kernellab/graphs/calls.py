"""The call of a report, repeated in other processes: `report.compare`, `.ablation`, `.speedup`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.common.argument_checks import check_choice, check_mapping, check_whole
from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError, NoGpu, NotRecorded, OptionError, suggestion
from kernellab.graphs.generated import GeneratedKernel
from kernellab.graphs.given_calls import GivenCall
from kernellab.graphs.processes import (
    SECONDS,
    call_in_copy,
    can_copy_this_process,
    compiler_process,
    gpu_process,
)
from kernellab.graphs.shipping import shipped
from kernellab.records.graph_results import Ablation, Speedups

if TYPE_CHECKING:
    from kernellab.common.worker import Worker
    from kernellab.graphs.comparison import GraphComparison

RUNS = ("triton", "aten")

VARIANTS = ("all", "no fusion", "no inlining", "neither")
"""Which optimizations an ablation compiles with."""


class CapturedCall(GivenCall):
    """A call that was captured, and can be again."""

    def send(self, function: str, *more: Any) -> Any:
        """Call "module:function" with this call in another process, and return its result."""
        from kernellab.torch_api.capturing import prepare

        prepare()
        if can_copy_this_process():
            return call_in_copy(function, self, *more)
        return self._ship(compiler_process(), function, *more)

    def _ship(self, process: Worker, function: str, *more: Any) -> Any:
        sent = shipped(self.function, (self, *more), self.request["name"])
        return process.call("kernellab.graphs.shipping:call", function, sent, seconds=SECONDS)

    def compare(
        self,
        generated: tuple[GeneratedKernel, ...],
        run: str,
        kernels: Mapping[str, str] | None,
        decompositions: Mapping[Any, Callable[..., Any]] | None,
    ) -> GraphComparison:
        """See `GraphReport.compare`; `generated` are the report's kernels."""
        check_choice("run", run, RUNS)
        if kernels is not None:
            check_mapping("kernels", kernels, "{report.kernels[0].name: source}")
        sources = dict(kernels or {})
        _check_kernels(sources, {kernel.name for kernel in generated})
        functions = _checked_decompositions({} if decompositions is None else decompositions)
        comparison: GraphComparison = self.send(
            "kernellab.graphs.worker.compare:compare", run, sources, functions
        )
        return comparison

    def ablation(self, rounds: int) -> Ablation:
        """See `GraphReport.ablation`."""
        import torch

        check_whole("rounds", rounds, 1, meaning="number of turns")
        counted = "kernellab.graphs.worker.ablation:counted"
        rows = tuple(self.send(counted, variant) for variant in VARIANTS)
        device, eager = "", None
        if torch.cuda.is_available():
            times = self._timed("kernellab.graphs.worker.ablation:timed", rounds)
            device, eager = times.device, times["eager"].milliseconds
            timed = [(row, times[row.optimizations]) for row in rows]
            rows = tuple(
                replace(row, milliseconds=time.milliseconds, error=row.error or time.error)
                for row, time in timed
            )
        return Ablation(
            name=self.request["name"],
            gpu=self.request["gpu"],
            direction="forward and backward" if self.request["backward"] else "forward",
            device=device,
            eager_milliseconds=eager,
            rows=rows,
        )

    def speedup(self, rounds: int) -> Speedups:
        """See `GraphReport.speedup`."""
        import torch

        check_whole("rounds", rounds, 1, meaning="number of turns")
        if not torch.cuda.is_available():
            raise NoGpu(
                "speedup times the call on a GPU, but torch finds no GPU on this machine",
                advice=(
                    "Use report.ablation(), which counts kernels, launches and bytes without a "
                    "GPU, or a machine with a GPU."
                ),
            )
        return self._timed("kernellab.graphs.worker.speedups:speedups_of_call", rounds)

    def _timed(self, function: str, rounds: int) -> Speedups:
        times: Speedups = self._ship(gpu_process(), function, rounds)
        return times


def call_of(call: CapturedCall | None, what: str) -> CapturedCall:
    """Return the call of a report, which Inductor must have compiled.

    Args:
        call: the report's call, if it has one.
        what: the report's method that needs it.

    Raises:
        NotRecorded: the report has no call, as it was read from a file or left by a backend.
        ArgumentError: another backend compiled the call.
    """
    if call is not None and call.request.get("backend") is not None:
        raise ArgumentError(
            f"{what} needs a report of Inductor, but this report is of another backend",
            advice="Call kernellab.graph(function, *args) without backend=.",
        )
    if call is not None:
        return call
    raise NotRecorded(
        f"{what} calls the function again, but this report does not contain it: it was read from a "
        "file, or left by a backend of torch.compile",
        advice=f"Call kernellab.graph(function, *args).{what}().",
    )


def _check_kernels(sources: Mapping[str, str], known: set[str]) -> None:
    for name, source in sources.items():
        if name not in known:
            raise ArgumentError(
                f"the report has no kernel {name!r}",
                advice=suggestion(str(name), sorted(known), "Its kernels are"),
            )
        if not isinstance(source, str):
            raise ArgumentError(
                f"the source of kernel {name!r} must be a str, got {shown(source)}",
                advice="Pass report.kernels[0].source with a change.",
            )


def _checked_decompositions(decompositions: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions by the names of their operations."""
    from kernellab.torch_api.fx_graphs import operation_named

    if not isinstance(decompositions, Mapping):
        raise OptionError(
            f"decompositions must map operations to functions, got {shown(decompositions)}.",
            advice='Write decompositions={"aten.gelu.default": function}.',
        )
    functions = {str(operation): function for operation, function in decompositions.items()}
    for name, function in functions.items():
        try:
            operation_named(name)
        except LookupError as error:
            advice = 'Name it as nodes do: "aten.gelu.default".'
            raise ArgumentError(str(error), advice=advice) from None
        if not callable(function):
            raise ArgumentError(
                f"the decomposition of {name} must be a function, got {shown(function)}"
            )
    return functions
