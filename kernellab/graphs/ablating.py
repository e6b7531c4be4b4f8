"""A call compiled without some optimisations of Inductor's (`report.ablation()`): what runs in the
processes that capture and time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from kernellab.graphs.in_worker import capture
from kernellab.graphs.speedups import EAGER, Way, speedups_of_call
from kernellab.records.graph_measures import AblationRow, Speedups
from kernellab.records.graphs import GraphCapture
from kernellab.torch_api.optimisations import UNFUSED, caches_off, nothing_inlined


@dataclass(frozen=True)
class Variant:
    """What is left on."""

    fuses: bool
    inlines: bool

    def of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Inductor's options for it, beside the call's own."""
        return {**options, **({} if self.fuses else UNFUSED)}

    def compiling(self) -> AbstractContextManager[None]:
        """While active, a graph is compiled so."""
        return nullcontext() if self.inlines else nothing_inlined()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """While active, a graph is compiled so, and anew."""
        with caches_off(), self.compiling():
            yield


VARIANTS = {
    "all": Variant(fuses=True, inlines=True),
    "no fusion": Variant(fuses=False, inlines=True),
    "no inlining": Variant(fuses=True, inlines=False),
    "neither": Variant(fuses=False, inlines=False),
}


def counted(shipped: bytes, request: Mapping[str, Any]) -> tuple[AblationRow, ...]:
    """What each variant of a pickled call launches; no times."""
    return tuple(_row(name, _captured(one, shipped, request)) for name, one in VARIANTS.items())


def _captured(variant: Variant, shipped: bytes, request: Mapping[str, Any]) -> GraphCapture:
    options = variant.of(request["options"])
    with variant.compiling():
        return capture(shipped, {**request, "options": options, "levels": False})


def _row(name: str, made: GraphCapture) -> AblationRow:
    launches = [one for graph in made.lowered for one in graph.launches]
    errors = [made.error, *(graph.error for graph in made.lowered)]
    return AblationRow(
        optimisations=name,
        kernels=sum(len(graph.kernels) for graph in made.lowered),
        launches=len([one for one in launches if one.is_generated]),
        calls=len([one for one in launches if not one.is_generated]),
        moved_bytes=sum(one.moved_bytes or 0 for one in launches),
        milliseconds=None,
        error=next((one for one in errors if one), ""),
    )


def timed(shipped: bytes, request: Mapping[str, Any], rounds: int) -> Speedups:
    """In the process with the GPU: the time of each variant, and of eager torch."""
    options = request["options"]
    ways = {name: Way({"options": one.of(options)}, one.timing) for name, one in VARIANTS.items()}
    return speedups_of_call(shipped, request, rounds, {"eager": EAGER, **ways})
