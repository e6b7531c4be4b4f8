"""What bounds a launch as a whole, and what the target has that the kernel does not use."""

from __future__ import annotations

from collections.abc import Iterator

from kernellab.compiler.modules.structure import position_of
from kernellab.compiler.targets import has_copy_engine, has_tensor_memory
from kernellab.profiling.diagnosis import weights
from kernellab.profiling.diagnosis.evidence import Evidence
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.profiling.diagnosis.rule import finding, rule
from kernellab.profiling.estimates.calibration import CALIBRATION

_SOURCE = "the sum of what its accesses and its arithmetic take, at the target's rates"
_MOSTLY = 0.5

_BOUNDS = {
    "DRAM": ("memory-bound", "the bytes of DRAM"),
    "L2": ("memory-bound", "the bytes of the L2 cache"),
    "loads and stores (L1)": ("memory-bound", "the load and store units"),
    "instruction issue": ("compute-bound", "instructions outside of the tensor cores"),
    "integer and logic units": ("compute-bound", "integer and logic instructions"),
    "floating-point units": ("compute-bound", "floating-point instructions"),
    "special functions": ("compute-bound", "special functions and conversions"),
    "tensor cores": ("compute-bound", "matrix instructions"),
    "latency": ("latency-bound", "waiting for results, with too little else to do"),
    "starting programs": ("latency-bound", "starting programs"),
    "atomics": ("memory-bound", "atomic updates that take turns"),
}


@rule("launch-bound")
def launch_bound(evidence: Evidence) -> Iterator[CostFinding]:
    """The launch itself takes longer than what it does."""
    costs = evidence.costs
    share = costs.launch / costs.microseconds
    if evidence.grid is None or share < _MOSTLY:
        return
    yield finding(
        "launch-bound",
        f"a launch takes about {costs.launch:.2g} us whatever it does, and this one has work for "
        f"{costs.microseconds - costs.launch:.2g} us",
        share,
        None,
        "Do more in one launch: fuse it with its neighbors, or launch once for a whole batch; "
        "a CUDA graph makes what stays cheaper.",
        {
            "launch us": round(costs.launch, 3),
            "work us": round(costs.microseconds - costs.launch, 3),
        },
        _SOURCE,
        severe_from=2.0,
    )


@rule("memory-bound", "compute-bound", "latency-bound", "shared-memory-bound")
def bound(evidence: Evidence) -> Iterator[CostFinding]:
    """Which resource takes longest."""
    costs = evidence.costs
    kind, words = _BOUNDS[costs.bound]
    if costs.bound == "loads and stores (L1)" and _is_shared_first(evidence):
        kind, words = "shared-memory-bound", "the wavefronts of shared memory"
    longest = costs.parts[costs.bound]
    if evidence.grid is None or longest < costs.launch:
        return
    roof = max(costs.parts["DRAM"], costs.parts["tensor cores"], costs.launch)
    yield finding(
        kind,
        f"what takes longest is {words}: {longest:.3g} us of {costs.microseconds:.3g}",
        0.0,
        None,
        "",
        {
            f"{costs.bound} us": round(longest, 3),
            "together us": round(costs.microseconds, 3),
            "DRAM and matrix units alone us": round(roof, 3),
        },
        f"{_SOURCE}: estimated, not measured",
    )


def _is_shared_first(evidence: Evidence) -> bool:
    """Whether shared memory takes more of the load and store units than global memory."""
    counts = evidence.costs.counts
    wavefronts = CALIBRATION.wavefronts * counts.wavefronts
    exchanged = CALIBRATION.lanes * counts.instructions.get("shared", 0.0)
    return wavefronts + exchanged > CALIBRATION.lines * max(counts.lines, counts.sectors / 4)


@rule("tma-unused")
def copy_engine_unused(evidence: Evidence) -> Iterator[CostFinding]:
    """Operands that threads copy, where the GPU has an engine for it."""
    target = evidence.compilation.target
    if not has_copy_engine(target):
        return
    copies = [
        access
        for access in evidence.accesses
        if access.action == "async copy" and access.loop is not None and len(access.shape) == 2
    ]
    newest = [op for op in evidence.dots if weights.generation(op) in ("wgmma", "tcgen05")]
    if not copies or not newest:
        return
    instructions = sum(copy.requests * 2 for copy in copies)
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
