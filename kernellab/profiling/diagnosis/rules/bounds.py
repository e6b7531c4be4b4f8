"""What bounds a launch as a whole, and what the target has that the kernel does not use."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.compiler.modules.structure import position_of
from kernellab.compiler.targets import has_copy_engine, has_tensor_memory
from kernellab.profiling.diagnosis import weights
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule

_SOURCE = "the sum of what its accesses and its arithmetic take, at the target's rates"
_MOSTLY = 0.5

_BOUNDS = {
    "dram": ("memory-bound", "the bytes of DRAM"),
    "cache": ("memory-bound", "the bytes of the second-level cache"),
    "requests": ("memory-bound", "the requests of its loads and stores"),
    "shared": ("shared-memory-bound", "the wavefronts of shared memory"),
    "issue": ("compute-bound", "instructions outside of the tensor cores"),
    "matrix": ("compute-bound", "matrix instructions"),
    "latency": ("latency-bound", "waiting for loads, with too little else to do"),
    "atomics": ("memory-bound", "atomic updates that take turns"),
}


@rule("launch-bound", needs=("ttgir", "grid"))
def launch_bound(evidence: Evidence) -> Iterator[CostFinding]:
    """The launch itself takes longer than what it does."""
    parts = evidence.parts
    share = parts.launch / parts.total
    if share < _MOSTLY:
        return
    yield finding(
        "launch-bound",
        f"a launch takes about {parts.launch:g} us whatever it does, and this one has work for "
        f"{parts.total - parts.launch:.2g} us",
        share,
        None,
        "Do more in one launch: fuse it with its neighbours, or launch once for a whole batch; "
        "a CUDA graph makes what stays cheaper.",
        {"launch us": parts.launch, "work us": round(parts.total - parts.launch, 3)},
        _SOURCE,
        severe_from=2.0,
    )


@rule(
    "memory-bound", "compute-bound", "latency-bound", "shared-memory-bound", needs=("ttgir", "grid")
)
def bound(evidence: Evidence) -> Iterator[CostFinding]:
    """Which resource takes longest."""
    parts = evidence.parts
    if parts.bound not in _BOUNDS:
        return
    kind, words = _BOUNDS[parts.bound]
    longest = getattr(parts, parts.bound)
    roof = max(parts.dram, parts.matrix, parts.launch)
    yield finding(
        kind,
        f"what takes longest is {words}: {longest:.3g} us of {parts.total:.3g}",
        0.0,
        None,
        "",
        {
            f"{parts.bound} us": round(longest, 3),
            "together us": round(parts.total, 3),
            "DRAM and matrix units alone us": round(roof, 3),
        },
        f"{_SOURCE}: weighed, not measured",
    )


@rule("tma-unused")
def copy_engine_unused(evidence: Evidence) -> Iterator[CostFinding]:
    """Operands that threads copy, where the GPU has an engine for it."""
    target = evidence.compilation.target
    if not has_copy_engine(target):
        return
    copies = [
        one
        for one in evidence.accesses
        if one.action == "async copy" and one.loop is not None and len(one.shape) == 2
    ]
    newest = [op for op in evidence.dots if weights.generation(op) in ("wgmma", "tcgen05")]
    if not copies or not newest:
        return
    instructions = sum(one.requests * 2 for one in copies)
    yield finding(
        "tma-unused",
        f"threads copy the operands of this product, about {instructions:,.0f} instructions an "
        f"iteration, where {target}'s copy engine (TMA) would take one a tile",
        0.0,
        copies[0].position,
        "Load through a descriptor: tl.make_tensor_descriptor(...).load([...]), for tensors whose "
        "last stride is 1 and whose rows are multiples of 16 bytes.",
        {"copies": len(copies), "instructions an iteration": round(instructions)},
        "the TTGIR",
    )


@rule("warp-specialization-unused")
def specialization_unused(evidence: Evidence) -> Iterator[CostFinding]:
    """A loop on Blackwell whose warps all do everything."""
    if not has_tensor_memory(evidence.compilation.target):
        return
    if any(True for _ in evidence.of_kind("ttg.warp_specialize")):
        return
    for op in evidence.dots:
        loop = evidence.loop_of(op)
        if weights.generation(op) != "tcgen05" or loop is None:
            continue
        yield finding(
            "warp-specialization-unused",
            "all warps of this loop load, start products and compute in turn",
            0.0,
            loop.position or position_of(op),
            "Try tl.range(..., warp_specialize=True): some warps then load and start products "
            "while the others compute.",
            {"instruction": "tcgen05", "num_warps": evidence.warps},
            "the TTGIR",
        )
        return
