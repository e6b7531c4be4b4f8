"""What a report does with its call again: `report.compare()`, `report.ablation()`,
`report.speedup()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kernellab.common.argument_checks import check_choice, check_mapping, check_whole
from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError, NoGpu, OptionError, suggestion
from kernellab.graphs.calls import CapturedCall, call_of, gpu_process
from kernellab.graphs.comparison import GraphComparison
from kernellab.graphs.generated import GeneratedKernel
from kernellab.graphs.shipping import shipped
from kernellab.records.graph_measures import Ablation, AblationRow, ModeTime, Speedups

RUNS = ("triton", "aten")


def compare(
    call: CapturedCall | None,
    generated: tuple[GeneratedKernel, ...],
    run: str,
    kernels: Mapping[str, str] | None,
    decompositions: Mapping[Any, Callable[..., Any]] | None,
) -> GraphComparison:
    """See `GraphReport.compare`."""
    call = call_of(call, "compare")
    check_choice("run", run, RUNS)
    sources = dict(kernels or {})
    if kernels is not None:
        check_mapping("kernels", kernels, "{report.kernels[0].name: source}")
        _check_kernels(sources, {one.name for one in generated})
    functions = {}
    if decompositions is not None:
        functions = {str(name): one for name, one in _mapping(decompositions).items()}
    edits = _shipped_edits(sources, functions)
    found = call.ask("kernellab.graphs.comparing:compare", run, *edits)
    assert isinstance(found, GraphComparison)
    return found


def _mapping(decompositions: Any) -> Mapping[Any, Any]:
    if isinstance(decompositions, Mapping):
        return decompositions
    raise OptionError(
        f"decompositions={shown(decompositions)} is no mapping from operations to functions.",
        advice='Write decompositions={"aten.gelu.default": function}.',
    )


def _check_kernels(sources: Mapping[str, str], known: set[str]) -> None:
    for name, source in sources.items():
        if name not in known:
            raise ArgumentError(
                f"the report has no kernel {name!r}",
                advice=suggestion(str(name), sorted(known), "Its kernels:"),
            )
        if not isinstance(source, str):
            raise ArgumentError(
                f"the source of kernel {name!r} is of type {type(source).__name__}",
                advice="Give text: report.kernels[0].source with a change.",
            )


def _shipped_edits(
    sources: Mapping[str, str], decompositions: Mapping[Any, Any]
) -> tuple[dict[str, str], bytes]:
    from kernellab.torch_api.fx_graphs import operation_named

    functions = {}
    for operation, function in decompositions.items():
        name = str(operation)
        try:
            operation_named(name)
        except LookupError as error:
            raise ArgumentError(
                str(error), advice='Give it as nodes name it, "aten.gelu.default".'
            ) from None
        if not callable(function):
            raise ArgumentError(f"the decomposition of {name} is no function")
        functions[name] = function
    if not functions:
        return dict(sources), b""
    return dict(sources), shipped(next(iter(functions.values())), functions, "decompositions")


def ablation(call: CapturedCall | None, rounds: int) -> Ablation:
    """See `GraphReport.ablation`."""
    import torch

    call = call_of(call, "ablation")
    check_whole("rounds", rounds, 1, meaning="number of turns")
    rows = call.ask("kernellab.graphs.ablating:counted")
    device, eager = "", None
    if torch.cuda.is_available():
        times = call.ask("kernellab.graphs.ablating:timed", rounds, process=gpu_process())
        assert isinstance(times, Speedups)
        device, eager = times.device, times["eager"].milliseconds
        rows = tuple(_with_time(row, times[row.optimisations]) for row in rows)
    return Ablation(
        name=call.request["name"],
        gpu=call.request["gpu"],
        direction="forward and backward" if call.request["backward"] else "forward",
        device=device,
        eager_milliseconds=eager,
        rows=rows,
    )


def _with_time(row: AblationRow, time: ModeTime) -> AblationRow:
    return replace(row, milliseconds=time.milliseconds, error=row.error or time.error)


def speedup(call: CapturedCall | None, rounds: int) -> Speedups:
    """See `GraphReport.speedup`."""
    import torch

    call = call_of(call, "speedup")
    check_whole("rounds", rounds, 1, meaning="number of turns")
    if not torch.cuda.is_available():
        raise NoGpu(
            "speedup times the call on a GPU, and torch sees none on this machine",
            advice=(
                "report.ablation() counts kernels, launches and bytes without one; on a machine "
                "with a GPU the same call gives times."
            ),
        )
    found = call.ask("kernellab.graphs.speedups:speedups_of_call", rounds, process=gpu_process())
    assert isinstance(found, Speedups)
    return found
