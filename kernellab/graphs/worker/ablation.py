"""Compile and time a call without some of Inductor's optimizations (`report.ablation()`), in the
processes that capture and time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from kernellab.graphs.given_calls import GivenCall
from kernellab.graphs.worker.capture import capture
from kernellab.graphs.worker.speedups import EAGER, Way, speedups_of_call
from kernellab.records.graph_results import AblationRow, Speedups
from kernellab.records.graphs import GraphCapture
from kernellab.torch_api.optimizations import UNFUSED, caches_off, nothing_inlined


@dataclass(frozen=True)
class Variant:
    """Which optimizations are on."""

    fuses: bool
    inlines: bool

    def of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return Inductor's options for the variant, added to the call's own."""
        return {**options, **({} if self.fuses else UNFUSED)}

    def compiling(self) -> AbstractContextManager[None]:
        """Return a context in which graphs are compiled as this variant."""
        return nullcontext() if self.inlines else nothing_inlined()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Compile graphs as this variant while active, without caches."""
        with caches_off(), self.compiling():
            yield


VARIANTS = {
    "all": Variant(fuses=True, inlines=True),
    "no fusion": Variant(fuses=False, inlines=True),
    "no inlining": Variant(fuses=True, inlines=False),
    "neither": Variant(fuses=False, inlines=False),
}


def counted(call: GivenCall, name: str) -> AblationRow:
    """Count what a variant of a call launches, without times."""
    variant = VARIANTS[name]
    options = variant.of(call.request["options"])
    with variant.compiling():
        request = {**call.request, "options": options, "levels": False}
        return _row(name, capture(replace(call, request=request)))


def _row(name: str, made: GraphCapture) -> AblationRow:
    launches = [launch for graph in made.lowered for launch in graph.launches]
    errors = [made.error, *(graph.error for graph in made.lowered)]
    return AblationRow(
        optimizations=name,
        kernels=sum(len(graph.kernels) for graph in made.lowered),
        launches=sum(launch.is_generated for launch in launches),
        calls=sum(not launch.is_generated for launch in launches),
        moved_bytes=sum(launch.moved_bytes or 0 for launch in launches),
        milliseconds=None,
        error=next(filter(None, errors), ""),
    )


def timed(call: GivenCall, rounds: int) -> Speedups:
    """In the process with the GPU: time each variant, and eager torch."""
    options = call.request["options"]
    ways = {
        name: Way({"options": variant.of(options)}, variant.timing)
        for name, variant in VARIANTS.items()
    }
    return speedups_of_call(call, rounds, {"eager": EAGER, **ways})
