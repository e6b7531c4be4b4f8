"""Optimizations of Inductor's, switched off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch._inductor.config
import torch._inductor.graph
import torch._inductor.ir

from kernellab.common.patches import replaced

_config: Any = torch._inductor.config
_graph: Any = torch._inductor.graph
_ir: Any = torch._inductor.ir

UNFUSED: dict[str, Any] = {"max_fusion_size": 1}
"""Options with which the scheduler fuses nothing: every pair "exceeds max fusion"."""


@contextmanager
def caches_off() -> Iterator[None]:
    """While active, every graph is compiled anew: one in Inductor's cache would be found whatever
    is switched off. Not every torch takes this as an option of torch.compile.
    """
    with _config.patch(force_disable_caches=True):
        yield


@contextmanager
def nothing_inlined() -> Iterator[None]:
    """While active, what a node computes from other values is stored, and not written into the
    loops of its users.

    Inductor has options for values with several users (`realize_reads_threshold`), and none for
    those with one.
    """
    lowering = _graph.GraphLowering
    original = lowering.run_node

    def run_node(graph: Any, node: Any) -> Any:
        result = original(graph, node)
        box: Any = getattr(result, "data", None)
        is_computed = isinstance(box, _ir.StorageBox) and isinstance(
            box.data, _ir.Pointwise | _ir.Reduction
        )
        if is_computed and box.num_reads() > 0:
            result.realize()
        return result

    with replaced(lowering, run_node=run_node):
        yield
