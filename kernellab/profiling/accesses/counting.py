"""`kernellab.accesses`: what every access of a launch to global and to shared memory costs."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.compiler.modules.layout_flow import entering, leaving
from kernellab.compiler.modules.pointers import pointee, pointers_of, underlying_argument
from kernellab.compiler.modules.structure import kind, position_of
from kernellab.compiler.modules.warp_accesses import WarpAccess, WarpAccesses
from kernellab.compiler.passes.snapshots import LoweredText, lowered, lowered_text
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.compiler.subjects import subject_of
from kernellab.errors import KernelFault, TargetError
from kernellab.interpreter.codegen.analyses import is_spin_loop
from kernellab.interpreter.codegen.emitter import emit_entry_events
from kernellab.interpreter.execution.grid import check_grid
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import (
    ProgramCode,
    entry_of,
    per_code,
    program_code,
    program_of_text,
)
from kernellab.interpreter.memory.observers import DESCRIPTOR_BYTES, AccessObserver, ObservedAccess
from kernellab.ir import mlir, tt, ttng
from kernellab.ir.locations import argument_name
from kernellab.ir.operations import (
    DescriptorAccess,
    Effect,
    PointerAccess,
    SharedWrite,
    global_effect,
    has,
)
from kernellab.ir.types import TensorDescType, bit_width, shape
from kernellab.launch.argument_copies import copied
from kernellab.launch.bound_launches import takes_launch
from kernellab.launch.dispatch import interpret
from kernellab.launch.preparation import EntryPoint, Grid, prepare_bound
from kernellab.profiling.accesses.copy_engine import Messages, messages_of
from kernellab.profiling.accesses.occurrences import occurrences, phases_of
from kernellab.profiling.accesses.records import Accesses, Action, GlobalAccess
from kernellab.profiling.accesses.sectors import SECTOR, SectorSet
from kernellab.profiling.accesses.shared_costs import (
    SharedCost,
    may_share,
    shared_accesses,
    shared_costs,
)
from kernellab.profiling.accesses.shared_records import Phase, SharedAccess
from kernellab.profiling.accesses.tallying import Tally
from kernellab.records import BoundLaunch, Target
from kernellab.records.run_options import DEFAULT
from kernellab.triton_api.layouts import layouts_of

_BY_ENGINE: Mapping[Effect | None, Action] = {
    "load": "TMA load",
    "store": "TMA store",
    "atomic": "TMA reduction",
}


@takes_launch
def accesses(launch: BoundLaunch, *, target: str | Target | None = None) -> Accesses:
    """Count what the accesses of a launch to global memory cost, with no GPU.

    The kernel is compiled to TTGIR for the target, and that runs on the interpreter, on copies of
    the arguments; tensors on a GPU, up to 1 GiB, are copied to the CPU, and a note of the result
    says so. Which thread of which warp accesses which element comes from the layouts in the TTGIR;
    addresses and masks come from the run.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch; of an
            autotuned kernel, the first config counts.
        target: an NVIDIA GPU, "sm_90", ...; None means the one that a launch would emulate.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Returns:
        The Accesses: one GlobalAccess for each operation of the TTGIR that accesses global memory.

    Raises:
        ArgumentError: arguments that do not fit, or more than 1 GiB on a GPU.
        OptionError: an option that no one takes, or one of the interpreter's.
        GridError, CompileError, UnsupportedOperation, KernelFault: as `kernellab.run`.
        TargetError: the target is not an NVIDIA GPU.
    """
    prepared = prepare_bound(launch, target, _ACCESSES)
    plain, call, chosen = prepared.kernel, prepared.call, prepared.target
    _check_target(chosen)
    sizes = prepared.sizes(may_be_empty=True)
    code = program_code(plain, call, chosen, "ttgir", after=emit_entry_events)
    try:
        accesses_counted = _counted(
            plain, sizes, call, chosen, code, lambda: lowered(plain, call, chosen)
        )
    except KernelFault as error:
        fault = error
    else:
        subject, again = subject_of(plain, call, chosen), replace(launch, target=chosen)
        notes = (*prepared.notes, *([_NOTHING_RAN] if 0 in sizes else []))
        return replace(accesses_counted, subject=subject, launch=again, notes=notes)
    # In the words of a plain run: passes have left few of the kernel's names in the TTGIR.
    interpret(plain, sizes, replace(call, values=copied(call.values)), chosen, DEFAULT)
    raise fault


_NOTHING_RAN = "The grid has no programs: nothing ran, and nothing was counted."


_ACCESSES = EntryPoint(
    "accesses",
    {
        "stage": "accesses runs the TTGIR that the compiler ends with",
        "order": (why := "accesses counts what the programs do in the order of their ids"),
        "seed": why,
        "bounds": "accesses checks that they stay inside the storage",
    },
)


def accesses_of_text(
    kernel: Any, grid: Grid, call: BoundCall, target: Target, text: str
) -> Accesses:
    """As `accesses`, of TTGIR in MLIR's generic form that `kernel` became for this call."""
    _check_target(target)
    code = program_of_text(text, kernel, after=emit_entry_events)
    return _counted(kernel, grid, call, target, code, lambda: lowered_text(text, target))


_MOST_PROGRAMS = 1 << 17
"""The maximum number of programs in a batch. An access to a scalar is counted for the 32 lanes of a
warp, whose addresses take 32 MiB for this many programs."""


def _check_target(target: Target) -> None:
    if target.backend != "cuda":
        raise TargetError(
            "accesses counts the sectors and requests of NVIDIA's GPUs, and "
            f"{target} is a GPU of another vendor.",
            advice='Take an NVIDIA target: target="sm_90".',
        )


def _counted(
    kernel: Any,
    grid: Grid,
    call: BoundCall,
    target: Target,
    code: ProgramCode,
    lower: Callable[[], LoweredText],
) -> Accesses:
    numbers = occurrences(code.module)
    if code.batch > _MOST_PROGRAMS:  # what is kept for this code is not found for its replacement
        code = replace(code, batch=_MOST_PROGRAMS)
    counted = Counting(accesses_in(code, target), numbers, in_turns=code.watched is not None)
    costs = _shared_costs_of(code, lower)
    observer = AccessObserver(counted.see)
    with ProgressBar(f"accesses of {kernel.__name__}", None, "programs", UNTOUCHED):
        launch_observed(kernel, grid, replace(call, values=copied(call.values)), code, observer)
    counted.end_batch()
    sizes = check_grid(grid, call.values, may_be_empty=True)
    shared = shared_accesses(costs, observer.entries, math.prod(sizes))
    return counted.result(kernel.__name__, str(target), sizes, shared)


Found = Mapping[Operation, WarpAccess | Messages]
"""The operations of a kernel that access global memory, in its order,
and how lanes or the copy engine do."""


@per_code
def accesses_in(code: ProgramCode, target: Target) -> Found:
    """The accesses in a kernel's code."""
    by_lanes = WarpAccesses(code.module, layouts_of, target)
    return {
        op: by_lanes[op] if has(op, PointerAccess) else messages_of(op)
        for op in entry_of(code.module).walk()
        if has(op, PointerAccess, DescriptorAccess) or isinstance(op, ttng.TensormapCreateOp)
    }


_kept_costs: weakref.WeakKeyDictionary[ProgramCode, tuple[SharedCost, ...]] = (
    weakref.WeakKeyDictionary()
)


def _shared_costs_of(code: ProgramCode, lower: Callable[[], LoweredText]) -> tuple[SharedCost, ...]:
    """What the operations of a kernel's code cost in shared memory, found once."""
    if code not in _kept_costs:
        _kept_costs[code] = shared_costs(code.module, lower()) if may_share(code.module) else ()
    return _kept_costs[code]


class Counting:
    """The tally of every operation that accesses global memory, in the order of the module."""

    def __init__(self, accesses: Found, numbers: Mapping[Operation, int], in_turns: bool) -> None:
        self._numbers = numbers
        """Operation -> its occurrence; see `GlobalAccess`."""
        self._tallies = {
            op: Tally(access, takes_turns=_action(op) == "atomic")
            for op, access in accesses.items()
        }
        self._batch: Any = None
        self._in_turns = in_turns
        """Whether programs that others ran after may run again."""

    def see(self, seen: ObservedAccess) -> None:
        """Count an access."""
        if seen.programs is not self._batch and not self._in_turns:
            self.end_batch()
            self._batch = seen.programs
        self._tallies[seen.operation].add(
            seen, seen.shape or shape(pointers_of(seen.operation).type)
        )

    def end_batch(self) -> None:
        """The programs that were seen are done."""
        for tally in self._tallies.values():
            tally.end_batch()

    def fresh(self) -> dict[Operation, float]:
        """Of each access, the part of its different sectors that no access before it in the module
        goes to.
        """
        seen: list[SectorSet] = []
        shares, before = {}, 0
        for op, tally in self._tallies.items():
            seen = [SectorSet.union([*seen, tally.different])]
            now, own = len(seen[0]), len(tally.different)
            shares[op] = (now - before) / own if own else 1.0
            before = now
        return shares

    def result(
        self,
        kernel: str,
        target: str,
        grid: tuple[int, int, int],
        shared: tuple[SharedAccess, ...],
    ) -> Accesses:
        """Everything that was counted."""
        phases = phases_of(self._tallies)
        results = tuple(
            _access(op, tally, self._numbers.get(op, 0), phases.get(op, ""))
            for op, tally in self._tallies.items()
        )
        sectors = [tally.different for tally in self._tallies.values()]
        read = [sector_set for sector_set, access in zip(sectors, results) if access.reads]
        written = [sector_set for sector_set, access in zip(sectors, results) if access.writes]
        return Accesses(
            kernel, target, grid, results, _bytes(sectors), _bytes(read), _bytes(written), shared
        )


def _access(op: Operation, tally: Tally, occurrence: int, phase: Phase) -> GlobalAccess:
    part = _by_lanes(op) if has(op, PointerAccess) else _by_engine(op)
    by_lanes = tally.access if isinstance(tally.access, WarpAccess) else None
    different = len(tally.different)
    return GlobalAccess(
        operation=kind(op),
        action=_action(op),
        argument=part.argument,
        position=position_of(op),
        shape=part.shape,
        element=str(part.element),
        element_bytes=max(bit_width(part.element) // 8, 1),
        encoding=part.encoding,
        vector_width=by_lanes.width if by_lanes else 1,
        held=by_lanes.held if by_lanes else 1,
        dimension=by_lanes.dimension if by_lanes else None,
        steps=tally.steps,
        executions=tally.executions,
        **tally.counts,
        different_sectors=different,
        reuse_between_programs=tally.touched / different if different else 0.0,
        waits=_waits(op),
        occurrence=occurrence,
        phase=phase,
    )


def _action(op: Operation) -> Action:
    if isinstance(op, ttng.TensormapCreateOp):
        return "tensor map"
    effect = global_effect(op)
    if has(op, DescriptorAccess):
        return _BY_ENGINE[effect]
    assert effect is not None
    return "async copy" if has(op, SharedWrite) else effect


def _waits(op: Operation) -> bool:
    """Whether an operation is in a loop that waits for other programs, or is one."""
    loop = op.parent_op()
    while loop is not None and not (isinstance(loop, mlir.WhileOp) and is_spin_loop(loop)):
        loop = loop.parent_op()
    return loop is not None or isinstance(op, tt.AtomicPollOp)


class _Described(NamedTuple):
    """What an access goes to."""

    argument: str
    shape: tuple[int, ...]
    element: Attribute
    encoding: str = ""


def _by_lanes(op: Operation) -> _Described:
    pointers = pointers_of(op)
    type = pointers.type
    encoding = str(type.encoding) if isinstance(type, builtin.TensorType) else ""
    return _Described(underlying_argument(pointers), shape(type), pointee(pointers), encoding)


def _by_engine(op: Operation) -> _Described:
    if isinstance(op, ttng.TensormapCreateOp):
        return _Described(underlying_argument(op.global_address), (DESCRIPTOR_BYTES,), builtin.i8)
    descriptor = op.operands[0]
    block = cast(TensorDescType, descriptor.type).block
    return _Described(_argument_behind(descriptor), block.get_shape(), block.get_element_type())


def _argument_behind(descriptor: SSAValue) -> str:
    """The parameter that a descriptor is, or is of; "" where none is found."""
    seen: set[SSAValue] = set()
    while descriptor not in seen:
        seen.add(descriptor)
        match descriptor:
            case OpResult(op=ttng.ReinterpretTensorDescriptorOp(pointer=pointer)):
                makers = [use.operation for use in pointer.uses]
                made = [maker for maker in makers if isinstance(maker, ttng.TensormapCreateOp)]
                return underlying_argument(made[0].global_address) if made else ""
            case BlockArgument() if isinstance(descriptor.block.parent_op(), tt.FuncOp):
                return argument_name(descriptor) or ""
            case BlockArgument():
                before = entering(descriptor)
            case OpResult():
                before = leaving(descriptor)
            case _:
                before = []
        if not before:
            return ""
        descriptor = before[0]
    return ""


def _bytes(sectors: Sequence[SectorSet]) -> int:
    """Of the different sectors among several accesses'."""
    return SECTOR * len(SectorSet.union(sectors))
