"""Marks between the operations of a kernel's final TTGIR, where the clock is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from kernellab import triton_api
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.resources import has_limits, occupancy, resource_reader
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.records import Resources
from kernellab.errors import UnsupportedOperation
from kernellab.ir import flow, mlir, tt, ttg
from kernellab.ir.operations import locate, operation_name
from kernellab.ir.syntax import read_module, write_module
from kernellab.ir.ttg import RecordOp
from kernellab.records import Target
from kernellab.triton_api.proton import ReadingMemory, compile_marked

LIGHT = "index arithmetic"
"""Of operations that cost little by themselves: addresses, masks, views, changes of shape."""
COMPUTE = "compute"

HEAVY: Mapping[str, str] = {
    "tt.load": "load",
    "tt.gather": "gather",
    "tt.descriptor_load": "load",
    "tt.descriptor_gather": "load",
    "ttg.async_copy_global_to_local": "async copy",
    "ttng.async_tma_copy_global_to_local": "async copy",
    "ttng.async_tma_gather": "async copy",
    "ttg.async_wait": "wait",
    "ttng.wait_barrier": "wait",
    "ttng.async_tma_store_wait": "wait",
    "ttng.warp_group_dot_wait": "wait for dot",
    "tt.dot": "dot",
    "tt.dot_scaled": "dot",
    "ttng.warp_group_dot": "dot",
    "ttng.tc_gen5_mma": "dot",
    "ttng.tc_gen5_mma_scaled": "dot",
    "tt.store": "store",
    "tt.descriptor_store": "store",
    "tt.descriptor_reduce": "store",
    "ttng.async_tma_copy_local_to_global": "store",
    "ttng.async_tma_reduce": "store",
    "ttng.async_tma_scatter": "store",
    "ttg.convert_layout": "conversion",
    "ttg.local_load": "shared load",
    "ttg.local_gather": "shared load",
    "ttg.local_store": "shared store",
    "ttg.local_scatter": "shared store",
    "ttng.tmem_load": "tensor memory load",
    "ttng.tmem_store": "tensor memory store",
    "ttng.tmem_copy": "tensor memory store",
    "tt.reduce": "reduction",
    "tt.scan": "scan",
    "tt.histogram": "histogram",
    "tt.atomic_rmw": "atomic",
    "tt.atomic_cas": "atomic",
    "ttg.barrier": "barrier",
    "ttg.local_barrier": "barrier",
    "gpu.barrier": "barrier",
    "ttng.cluster_wait": "barrier",
    "ttng.arrive_barrier": "arrival",
    "tt.map_elementwise": COMPUTE,
    "tt.extern_elementwise": COMPUTE,
    "tt.elementwise_inline_asm": COMPUTE,
    "tt.fp_to_fp": COMPUTE,
    "tt.mulhiui": COMPUTE,
    "tt.call": "call",
}
"""Operation -> its purpose, as in the pipeline: copies in, waits, products, copies out, moves."""

_COSTLY_INTEGERS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "xori", "shrui")
)
"""Operations that addresses seldom contain: random numbers, packed integers, divisions."""

_NO_CODE = frozenset(("arith.constant", "ttg.local_dealloc", "ub.poison"))

DATA_COMES_LATER = frozenset(("load", "gather", "shared load", "tensor memory load", "atomic"))
"""Kinds that return before their value is there."""


def makes_code(op: Operation) -> bool:
    """Whether there may be an instruction for it."""
    return operation_name(op) not in _NO_CODE


def kind_of(op: Operation) -> str:
    """The purpose of an operation: one of `HEAVY`'s values, `COMPUTE` or `LIGHT`."""
    name = operation_name(op)
    if name in HEAVY:
        return HEAVY[name]
    if name == "ttg.local_alloc":
        return "shared store" if op.operands else LIGHT
    if not is_tile_wide(op):
        return LIGHT
    if name in _COSTLY_INTEGERS or (name.startswith(("arith.", "math.")) and _is_of_floats(op)):
        return COMPUTE
    return LIGHT


def is_tile_wide(op: Operation) -> bool:
    """Whether it makes a tile: work for each lane."""
    return any(isinstance(result.type, TensorType) for result in op.results)


def _is_of_floats(op: Operation) -> bool:
    values = (*op.operands, *op.results)
    return any(
        isinstance(value.type, TensorType) and isinstance(value.type.element_type, AnyFloat)
        for value in values
    )


# Where the clock is read: a module of TTGIR cut into scopes, one after the other.
#
# The code from one mark to the next is one scope, so that the scopes of a program add up to all of
# it, and a scope costs one reading of the clock, not two. Proton only has pairs, a start and an end
# of each name: they alternate, and only their places matter.


@dataclass(frozen=True)
class Scope:
    """Consecutive operations of one line: what a warp executes between two clock readings."""

    number: int
    """From 0, in the order of the code."""
    line: int
    """Of the kernel's file; 0 if the compiler names none."""
    operation: str
    """Its purpose: "load", "dot", "compute", ... (`kind_of`)."""
    part: str
    """Where it is: "before the loop of line 7", "loop of line 7", ...; "" without loops."""
    waits_for: tuple[int, ...] = ()
    """Lines whose loads are used here first, which wait for them."""
    names: tuple[str, ...] = ()
    """The operations of the TTGIR, without constants."""


@dataclass(frozen=True)
class MarkedModule:
    """A module in which the clock is read, and what its readings mean."""

    text: str
    """In MLIR's generic form."""
    scopes: tuple[Scope, ...]
    marks: tuple[int | None, ...]
    """Number of a mark (twice that of its record, plus 1 if it is an end) -> the scope that
    begins there; None if the program ends."""


Detail = Literal["lines", "operations", "loops", "program"]
DETAILS: tuple[Detail, ...] = ("lines", "operations", "loops", "program")
"""From the finest: every line that computes; memory, dots, waits and what crosses threads; these
where no loop is around them, and each loop as one; the program as one."""

MOST_MARKS = 512
"""Proton has eight bits for the name of a pair of marks."""

_FEW = 4
"""Up to so many operations of index arithmetic are grouped with what follows them."""

_LOOP = "loop"
_BRANCH = "branch"
_END = "end"
_PROGRAM = "program"
_ENTERED = (*flow.LOOPS, mlir.IfOp, ttg.WarpSpecializeOp, ttg.WarpSpecializePartitionsOp)
"""Operations whose regions have separate marks; the others' belong to their operation."""


@dataclass
class _Group:
    """A scope in the making."""

    operations: list[Operation] = field(default_factory=list)
    main: Operation | None = None
    kind: str = LIGHT

    @property
    def weight(self) -> int:
        return sum(map(is_tile_wide, self.operations))

    @property
    def line(self) -> int:
        """Of what it is there for, or else most of its operations."""
        if self.main is not None:
            return line_of(self.main)
        lines = [line for line in map(line_of, self.operations) if line]
        return max(lines, key=lines.count, default=0)


@dataclass
class _Marks:
    """Where marks go: before an operation, each with its scope (None: the program ends)."""

    places: list[tuple[Operation, _Group | None]] = field(default_factory=list)
    groups: list[_Group] = field(default_factory=list)


def line_of(op: Operation) -> int:
    """The line of an operation, or of the call for Triton's own helpers; 0 for none."""
    for frame in locate(op.location).frames:
        if not triton_api.is_in_library(frame.file):
            return frame.line
    return 0


def mark(module: ModuleOp, detail: Detail) -> MarkedModule:
    """Put marks into a module of TTGIR, which is changed. Raises UnsupportedOperation: the module
    has several functions, or more scopes than there are names.
    """
    functions = [op for op in module.body.block.ops if isinstance(op, tt.FuncOp)]
    if len(functions) != 1:
        raise UnsupportedOperation(
            f"Cycles by line are counted in one function, and this kernel has {len(functions)}: "
            "it calls helpers that are compiled separately.",
            advice="Remove noinline=True from its helpers.",
        )
    marks = _Marks()
    _cut_region(functions[0].body, detail, marks)
    if len(marks.places) > MOST_MARKS:
        raise UnsupportedOperation(
            f"Cycles by line need {len(marks.places):,} marks in this kernel, but at most "
            f"{MOST_MARKS} are available.",
            advice='detail="operations" needs fewer.',
        )
    waits = _first_uses(marks.groups)
    numbers = {id(group): number for number, group in enumerate(marks.groups)}
    by_mark: list[int | None] = [None] * len(marks.places)
    for mark_number, (op, group) in zip(_numbered(marks.places), marks.places, strict=True):
        by_mark[mark_number] = None if group is None else numbers[id(group)]
        block = op.parent_block()
        assert block is not None, "an operation of a function is in a block"
        record = RecordOp(str(mark_number // 2), mark_number % 2 == 0, op.location)
        block.insert_op_before(record, op)
    scopes = tuple(
        Scope(
            number,
            group.line,
            group.kind,
            part,
            tuple(sorted(waits.get(number, ()))),
            tuple(operation_name(op) for op in group.operations if makes_code(op)),
        )
        for number, (group, part) in enumerate(
            zip(marks.groups, _parts(marks.groups, detail), strict=True)
        )
    )
    return MarkedModule(write_module(module), scopes, tuple(by_mark))


def _numbered(places: Sequence[tuple[Operation, object]]) -> Iterator[int]:
    """A number for each mark, in pairs, in the code's order, as Proton numbers its scopes."""
    open_pairs: dict[int, int] = {}
    pairs = 0
    for op, _ in places:
        block = id(op.parent_block())
        if block in open_pairs:
            yield 2 * open_pairs.pop(block) + 1
        else:
            open_pairs[block] = pairs
            yield 2 * pairs
            pairs += 1
    assert not open_pairs, "a block has an even number of marks"


# Cutting


def _cut_region(region: Region, detail: Detail, marks: _Marks) -> None:
    for block in region.blocks:
        _cut_block(block, detail, marks)


def _cut_block(block: Block, detail: Detail, marks: _Marks) -> None:
    """Cut a block into groups, each with a mark before it; and so what is inside of them."""
    terminator = block.last_op
    assert terminator is not None, "a block that the compiler made has an end"
    count = 0
    for group in _groups(block, detail):
        marks.groups.append(group)
        marks.places.append((group.operations[0], group))
        count += 1
        last = group.operations[-1]
        if detail in ("lines", "operations") and _is_entered(last):
            for region in last.regions:
                _cut_region(region, detail, marks)
    ends = isinstance(terminator, tt.ReturnOp)
    if (count + ends) % 2:
        tail = _Group([terminator], block.parent_op(), _kind_of_end(block))
        marks.groups.append(tail)
        marks.places.append((terminator, tail))
    if ends:
        marks.places.append((terminator, None))


def _groups(block: Block, detail: Detail) -> list[_Group]:
    """The operations of a block as groups of one line and one thing that they are there for."""
    inside = [op for op in block.ops if op is not block.last_op and makes_code(op)]
    if detail == "program":
        function = block.parent_op()
        is_first = isinstance(function, tt.FuncOp) and block is function.body.blocks[0]
        return [_Group(inside, None, _PROGRAM)] if inside and is_first else []
    groups: list[_Group] = []
    is_open = False
    for op in inside:
        if is_open and _belongs(op, groups[-1], detail):
            groups[-1].operations.append(op)
        else:
            groups.append(_Group([op]))
        is_open = not _is_entered(op)
        kind = _kind_of(op, detail)
        if groups[-1].main is None and kind != LIGHT:
            groups[-1].main, groups[-1].kind = op, kind
    if len(groups) > 1 and is_open and groups[-1].main is None and groups[-1].weight < _FEW:
        if not _is_entered(groups[-2].operations[-1]):
            light = groups.pop()
            groups[-1].operations += light.operations
    return groups


def _belongs(op: Operation, group: _Group, detail: Detail) -> bool:
    kind = _kind_of(op, detail)
    line = line_of(op)
    if detail == "loops" and _is_entered(op):
        return group.main is None and group.weight < _FEW
    if group.main is not None:
        return (kind in (LIGHT, COMPUTE) and line in (group.line, 0)) or _is_entered(op)
    if kind in (LIGHT, _LOOP, _BRANCH) or group.weight < _FEW:
        return True
    return _loop_around(op) is not None or line == group.line


def _kind_of(op: Operation, detail: Detail) -> str:
    if _is_entered(op):
        return _LOOP if isinstance(op, flow.LOOPS) else _BRANCH
    kind = kind_of(op)
    return LIGHT if kind == COMPUTE and detail != "lines" else kind


def _kind_of_end(block: Block) -> str:
    around = block.parent_op()
    if isinstance(around, flow.LOOPS):
        return _LOOP
    return _END if isinstance(around, tt.FuncOp) else _BRANCH


def _is_entered(op: Operation) -> bool:
    if isinstance(op, flow.LOOPS):
        return True
    if not isinstance(op, _ENTERED):
        return False
    return any(
        kind_of(nested) != LIGHT or isinstance(nested, flow.LOOPS)
        for nested in op.walk()
        if nested is not op
    )


def _loop_around(op: Operation) -> Operation | None:
    return next(iter(flow.loops_around(op)), None)


def _parts(groups: Sequence[_Group], detail: Detail) -> list[str]:
    """Return where each group is among the loops of the kernel."""
    outer = [
        number
        for number, group in enumerate(groups)
        if isinstance(group.operations[-1], flow.LOOPS)
        or _loop_around(group.operations[0]) is not None
    ]
    if not outer or detail == "program":
        return [""] * len(groups)
    parts = []
    for number, group in enumerate(groups):
        loop = _loop_around(group.operations[0])
        if detail == "loops" and isinstance(group.operations[-1], flow.LOOPS):
            loop = group.operations[-1]
        if loop is not None:
            parts.append(f"loop of line {line_of(loop)}")
        elif number <= outer[0]:
            parts.append("prologue")
        else:
            parts.append("epilogue" if number > outer[-1] else "between loops")
    return parts


def _first_uses(groups: Sequence[_Group]) -> dict[int, set[int]]:
    """Group -> lines of the loads of other groups whose values it uses first."""
    waiting: dict[SSAValue, tuple[int, int]] = {
        result: (number, line_of(op))
        for number, group in enumerate(groups)
        for op in group.operations
        if kind_of(op) in DATA_COMES_LATER
        for result in op.results
    }
    waits: dict[int, set[int]] = {}
    for number, group in enumerate(groups):
        for op in group.operations:
            for operand in op.operands:
                if operand in waiting and waiting[operand][0] != number:
                    waits.setdefault(number, set()).add(waiting.pop(operand)[1])
    return waits


# Compile again with marks: the same passes until TTGIR, then marks, then Triton's own stages to the
# end.


@dataclass(frozen=True)
class PlainKernel:
    """A kernel as it is launched, before there are marks."""

    kernel: Any
    call: BoundCall
    compilation: Compilation
    generic: str
    """Its TTGIR in MLIR's generic form."""
    warps: int
    """Of a program, those of its partitions too."""


@dataclass(frozen=True)
class MarkedKernel:
    """A kernel with marks, compiled."""

    plain: PlainKernel
    detail: Detail
    module: MarkedModule
    memory: ReadingMemory
    compiled: Any
    """Triton's own CompiledKernel, not yet loaded."""
    resources: Resources

    @property
    def changes(self) -> tuple[str, ...]:
        """The resources of a program that marks change, in words."""
        before, after = self.plain.compilation.resources, self.resources
        pairs = (
            ("registers", before.registers, after.registers),
            ("bytes of shared memory", before.shared_bytes, after.shared_bytes),
            ("spilled registers", before.spills, after.spills),
        )
        return tuple(f"{new:,} {what} instead of {old:,}" for what, old, new in pairs if old != new)

    def programs_at_once(self) -> tuple[int, int] | None:
        """How many programs an SM holds without and with marks; None if limits are unknown."""
        target = self.plain.compilation.target
        if not has_limits(target):
            return None
        both = self.plain.compilation.resources, self.resources
        before, after = (
            occupancy(resources, target, self.plain.warps).blocks for resources in both
        )
        return before, after


def plain_kernel(kernel: Any, call: BoundCall, target: Target) -> PlainKernel:
    """Compile a call as a launch would.

    Raises:
        CompileError: the compiler refused the kernel.
        UnsupportedOperation: the target has no TTGIR that marks could be put into.
    """
    compilation = compile_bound(kernel, call, target, for_launch=True)
    if "ttgir" not in compilation.stages or call.options.get("ir_override"):
        raise UnsupportedOperation(
            f"{kernel.__name__!r} cannot be profiled by line: marks go into its TTGIR, and the "
            "compiler produced none."
        )
    text = compilation.stages["ttgir"].text
    generic = triton_api.generic_form(text, target)
    warps = int(compilation.options["num_warps"])  # by now with those of its partitions
    return PlainKernel(kernel, call, compilation, generic, warps)


def within_occupancy(marked: MarkedKernel) -> MarkedKernel:
    """The same marks with as few registers as it takes for a multiprocessor to hold as many
    programs as without them, where it holds fewer; that may still not be enough.
    """
    at_once = marked.programs_at_once()
    if at_once is None or at_once[1] >= at_once[0]:
        return marked
    plain = marked.plain
    target = plain.compilation.target
    most = plain.compilation.resources.registers
    for registers in range(most, marked.resources.registers):
        resources = replace(marked.resources, registers=registers)
        if occupancy(resources, target, plain.warps).blocks >= at_once[0]:
            most = registers
    memory = marked.memory
    return marked_kernel(plain, marked.detail, memory.readings, memory.noting, most_registers=most)


def marked_kernel(
    plain: PlainKernel,
    detail: Detail,
    readings: int,
    noting: tuple[int, ...] = (),
    *,
    most_registers: int | None = None,
) -> MarkedKernel:
    """Compile a kernel with marks.

    Args:
        plain: without.
        detail: how many marks there are.
        readings: how many fit for each warp; rounded up to a power of two.
        noting: the warps that note the clock; none for all.
        most_registers: of a thread; what needs more spills.

    Raises:
        UnsupportedOperation: the kernel cannot have marks.
        CompileError: the compiler refused it with them.
    """
    compilation, call = plain.compilation, plain.call
    module = read_module(plain.generic)
    if most_registers is not None:
        module.attributes["ttg.maxnreg"] = IntegerAttr(most_registers, 32)
    marked = mark(module, detail)
    memory = ReadingMemory(1 << max(readings - 1, 1).bit_length(), plain.warps, noting)
    compiled = compile_marked(
        plain.kernel, call.specialization, compilation.target, call.options, marked.text, memory
    )
    made = triton_api.CompiledKernel(dict(compiled.asm), compiled.metadata._asdict())
    read = resource_reader(made, compilation.target)
    assert read is not None, "there is machine code of a kernel for NVIDIA's GPUs"
    return MarkedKernel(plain, detail, marked, memory, compiled, read())
