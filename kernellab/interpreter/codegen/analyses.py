"""Facts about the IR that are computed before code is generated.

Which values differ between programs, what pointers lead to, and where programs wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy
from xdsl.dialects import builtin
from xdsl.dialects.builtin import CallSiteLoc, IntegerAttr, LocationAttr, ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from kernellab.ir import flow, mlir, tt, ttg
from kernellab.ir.flow import yielded
from kernellab.ir.operations import (
    Atomic,
    DescriptorAccess,
    DotLike,
    GlobalAccess,
    GlobalRead,
    GlobalWrite,
    KeepsElements,
    MovesElements,
    PointerAccess,
    RegionsOfElements,
    VariesByProgram,
    global_effect,
    has,
    parents,
    trait_of,
)
from kernellab.ir.types import PointerType, dtype, element_type, is_pointer, shape

# Functions that are still called: those under `@triton.jit(noinline=True)`, and helpers with a
# return in the middle that Triton could not inline into a loop or a combine function.


def inline_calls(function: tt.FuncOp) -> None:
    """Put the body of every function of the module that `function` calls in place
    of the call, in place.

    Locations then name the call, as those of functions that Triton inlined do. A function of
    elements into which Triton inlined jumps becomes a call too, so that every region except a
    function's has one block.
    """
    module = function.parent_op()
    if isinstance(module, ModuleOp):
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, tt.FuncOp)}
        _inline(function.body, functions)
    for op in list(function.walk()):
        if isinstance(op, tt.MapElementwiseOp) and len(op.function.blocks) > 1:
            _wrap_in_call(op)


def inline_calls_of_elements(
    function: tt.FuncOp, is_debug_record: Callable[[Operation], object | None]
) -> None:
    """Do so only inside functions of single elements, in place; their operations that
    `is_debug_record` accepts are removed.

    A call of a function without jumps becomes the function's operations.
    """
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, tt.FuncOp)}
    for op in list(function.walk()):
        if has(op, RegionsOfElements):
            for region in op.regions:
                _inline(region, functions)
                _take_out(region, is_debug_record)
            if isinstance(op, tt.MapElementwiseOp) and len(op.function.blocks) > 1:
                _wrap_in_call(op)


def _take_out(region: Region, is_debug_record: Callable[[Operation], object | None]) -> None:
    for op in list(region.walk()):
        if is_debug_record(op) is not None:
            Rewriter.erase_op(op)
    calls = [op for op in region.walk() if isinstance(op, tt.InlinedCallOp)]
    for call in reversed(calls):
        _dissolve(call)


def _dissolve(call: tt.InlinedCallOp) -> None:
    first = call.body.blocks[0]
    end = first.last_op
    if not isinstance(end, tt.ReturnOp):
        return
    returned = list(end.values)
    Rewriter.erase_op(end)
    given: dict[SSAValue, SSAValue] = dict(zip(first.args, call.arguments))
    for argument, value in given.items():
        argument.replace_all_uses_with(value)
    results = [given.get(value, value) for value in returned]
    for op in list(first.ops):
        first.detach_op(op)
        Rewriter.insert_op(op, InsertPoint.before(call))
    Rewriter.replace_op(call, [], results)


def _inline(region: Region, functions: Mapping[str, tt.FuncOp]) -> None:
    calls = [op for op in region.walk() if isinstance(op, tt.CallOp)]
    for call in calls:
        body = functions[call.callee.root_reference.data].body.clone()
        for op in body.walk():
            op.location = CallSiteLoc(op.location, call.location)
        _inline(body, functions)
        Rewriter.replace_op(call, _inlined(call.operands, call.result_types, body, call.location))


def _wrap_in_call(op: tt.MapElementwiseOp) -> None:
    """Move the blocks of a function into the body of a call, which becomes its only operation."""
    body = Region()
    op.function.move_blocks(body)
    results: Sequence[Attribute] = ()
    for block in body.blocks:
        if isinstance(end := block.last_op, tt.MapElementwiseReturnOp):
            results = end.operand_types
            Rewriter.replace_op(
                end, tt.ReturnOp.create(operands=end.operands, location=end.location)
            )
    block = Block(arg_types=[argument.type for argument in body.blocks[0].args])
    call = _inlined(block.args, results, body, op.location)
    end = tt.MapElementwiseReturnOp.create(operands=call.results, location=op.location)
    block.add_ops([call, end])
    op.function.add_block(block)


def _inlined(
    arguments: Sequence[SSAValue],
    results: Sequence[Attribute],
    body: Region,
    location: LocationAttr,
) -> tt.InlinedCallOp:
    return tt.InlinedCallOp.create(
        operands=arguments, result_types=results, regions=[body], location=location
    )


# Which values differ from program to program.
#
# A value that does not is computed once for a whole batch, and a branch on it is an ordinary
# branch.


def varying_values(function: tt.FuncOp) -> set[SSAValue]:
    """The values of `function` that may differ from program to program."""
    return _varying(list(function.walk()))


def varying_elements(function: tt.FuncOp) -> set[SSAValue]:
    """The values that may differ between elements inside functions of elements."""
    return _varying(
        [
            inside
            for op in function.walk()
            if has(op, RegionsOfElements)
            for inside in (op, *(o for region in op.regions for o in region.walk()))
        ]
    )


def _varying(operations: list[Operation]) -> set[SSAValue]:
    return set(flow.analyze(operations, _Varies()))


class _Varies:
    """True for a value that varies; there is no other state."""

    entry: Mapping[SSAValue, bool] = MappingProxyType({})

    def transfer(
        self, op: Operation, states: Mapping[SSAValue, bool]
    ) -> Iterator[tuple[SSAValue, bool]]:
        return ((value, True) for value in _varying_because_of(op, states))

    def join(self, left: bool, right: bool) -> bool:
        return left or right


def _varying_because_of(op: Operation, varying: Container[SSAValue]) -> Iterator[SSAValue]:
    """The values that vary because of the operands of `op`, or of the way that programs take."""
    match op:
        case mlir.ForOp():
            if _any((op.lower, op.upper, op.step), varying):
                yield from op.block.args
        case mlir.IfOp():
            if op.condition in varying:
                yield from op.results
        case mlir.WhileOp():
            if yielded(op.before.block)[0] in varying:
                yield from flow.arguments_inside(op)
        case mlir.BranchOp() | mlir.ConditionalBranchOp():
            # Programs may take different ways to a block, so what it is given varies.
            for block in op.successors:
                yield from block.args
        case tt.InlinedCallOp():
            if len(op.body.blocks) > 1:
                yield from op.results
        case _ if has(op, RegionsOfElements):
            # Their regions run with an element in each program's place.
            yield from flow.arguments_inside(op)
            if _any(op.operands, varying):
                yield from op.results
        case _:
            # Of atomics, each update finds what another one left.
            differs_by_itself = has(op, VariesByProgram) or global_effect(op) == "atomic"
            if differs_by_itself or _any(op.operands, varying):
                yield from op.results


def _any(values: Iterable[SSAValue], varying: Container[SSAValue]) -> bool:
    return any(value in varying for value in values)


# How each pointer of a kernel is represented.
#
# Most pointers can only point into one argument, known before anything runs: that is their
# underlying object, and the value is an offset, in elements. Any other pointer (chosen between
# arguments, loaded from memory, made from an integer, cast to elements of another size) is an
# address: 64 bits, in bytes.


ADDRESS = None
"""In place of an underlying object: the pointer is an address."""

UnderlyingObject = BlockArgument | None


PointsInto = Callable[[tt.CallOp], tuple[int | None, ...]]
"""For each result of a call the argument that it points into, or None."""


def underlying_objects(
    function: tt.FuncOp, addresses: Sequence[bool] = (), points_into: PointsInto | None = None
) -> dict[SSAValue, UnderlyingObject]:
    """The argument that each pointer of `function` points into, or ADDRESS.

    Args:
        addresses: for each argument whether it is an address itself; none is by default.
        points_into: what is known about the results of calls.
    """
    arguments = function.body.blocks[0].args
    entry: dict[SSAValue, UnderlyingObject] = {a: a for a in arguments if is_pointer(a.type)}
    entry |= {a: ADDRESS for a, is_address in zip(arguments, addresses) if is_address}
    operations = list(function.walk())
    values = (value for op in operations for value in (*op.results, *flow.arguments_inside(op)))
    unknown = {value: ADDRESS for value in values if is_pointer(value.type)}
    return unknown | flow.analyze(operations, _PointsInto(entry, points_into))


@dataclass(frozen=True)
class _PointsInto:
    """The underlying object of each pointer, as far as its sources are known."""

    entry: Mapping[SSAValue, UnderlyingObject]
    of_call: PointsInto | None

    def transfer(
        self, op: Operation, states: Mapping[SSAValue, UnderlyingObject]
    ) -> Iterator[tuple[SSAValue, UnderlyingObject]]:
        known = self.of_call(op) if self.of_call and isinstance(op, tt.CallOp) else None
        for number, result in enumerate(op.results):
            if not is_pointer(result.type):
                continue
            made_from = _made_from(op)
            if known is not None and (argument := known[number]) is not None:
                made_from = (op.operands[argument],)
            for origin in made_from:
                if origin is ADDRESS:
                    yield result, ADDRESS
                elif origin in states:
                    yield result, states[origin]

    def join(self, left: UnderlyingObject, right: UnderlyingObject) -> UnderlyingObject:
        return left if left is right else ADDRESS


def _made_from(op: Operation) -> tuple[SSAValue | None, ...]:
    """The pointers whose underlying objects the results of `op` have; ADDRESS for none."""
    if (moved := trait_of(op, MovesElements)) is not None:
        return moved.sources_of(op)
    match op:
        case tt.AddPtrOp():
            return (op.pointer,)
        case tt.BitcastOp():
            same = pointee_dtype(op.operand).itemsize == pointee_dtype(op.result).itemsize
            return (op.operand,) if same else (ADDRESS,)
        case mlir.PoisonOp():
            return ()  # it may point anywhere, so also where the pointers that it meets do
        case mlir.ForOp() | mlir.IfOp() | mlir.WhileOp() | tt.InlinedCallOp():
            return ()
        case _:
            return (ADDRESS,)


def pointee_dtype(pointer: SSAValue) -> numpy.dtype:
    """The dtype of the elements that `pointer` points to; pointers in memory are int64."""
    kind = element_type(pointer.type)
    assert isinstance(kind, PointerType)
    return dtype(kind.pointee)


# Pointers to the first element of an argument's tensor, where most accesses begin.
#
# Such a pointer's offset is 0, so a pointer that is `offsets` further has these offsets, and
# nothing needs to be added; accesses of several tensors at the same offsets then share one tile.


def starts(function: tt.FuncOp) -> set[SSAValue]:
    """The pointers, and tiles of pointers, that are an argument as it was given."""
    entry = function.body.blocks[0]
    pointers: set[SSAValue] = {argument for argument in entry.args if is_pointer(argument.type)}
    for op in function.walk():
        if has(op, KeepsElements) and op.operands[0] in pointers and shape(op.results[0].type):
            pointers.update(op.results)
    return pointers


def widen_offsets(function: tt.FuncOp, of: set[SSAValue]) -> None:
    """Give the pointers `of` offsets of 64 bits, in place, each widened once."""
    wide: dict[SSAValue, SSAValue] = {}
    for op in list(function.walk()):
        if isinstance(op, tt.AddPtrOp) and op.pointer in of and _is_narrow(op.offset):
            if op.offset not in wide:
                wide[op.offset] = _widened(op.offset, op)
            op.operands[1] = wide[op.offset]


def _is_narrow(offset: SSAValue) -> bool:
    kind = dtype(offset.type)
    return kind.kind == "i" and kind.itemsize < 8


def _widened(offset: SSAValue, user: Operation) -> SSAValue:
    """The offset in 64 bits, made right after it, at the place in the source of who needs it so."""
    wide: Attribute = builtin.i64
    if isinstance(offset.type, builtin.TensorType):
        wide = builtin.TensorType(builtin.i64, offset.type.shape, offset.type.encoding)
    op = mlir.ExtSIOp.create(operands=[offset], result_types=[wide], location=user.location)
    owner = offset.owner
    place = InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
    Rewriter.insert_op(op, place)
    return op.results[0]


# After which operations of a kernel another program may continue, so that all that programs can
# learn of each other shows: after atomics, volatile loads, and loads of what atomics write.
#
# Between two of them a program touches what is its own, or what such operations order; else
# there is a race, which is found by other means (M. Musuvathi and others, Finding and
# Reproducing Heisenbugs in Concurrent Programs, OSDI 2008).


def switch_points(function: tt.FuncOp) -> frozenset[Operation]:
    """The operations of a kernel after which others may continue; none in functions of elements,
    and in groups of warps, which take turns by themselves.
    """
    objects = underlying_objects(function)

    def goes_to(op: Operation) -> SSAValue | None:
        access = trait_of(op, GlobalAccess)
        if access is None:
            return ADDRESS
        base = access.base_of(op)
        return objects.get(base, base)

    updated = {goes_to(op) for op in function.walk() if has(op, Atomic) and has(op, GlobalWrite)}

    def is_one(op: Operation) -> bool:
        if has(op, Atomic) or is_volatile(op):
            return True
        if global_effect(op) != "load":
            return False
        target = goes_to(op)
        known = target is not ADDRESS and ADDRESS not in updated
        return target in updated if known else bool(updated)

    return frozenset(op for op in function.walk() if is_one(op) and not _is_nested(op))


def is_volatile(op: Operation) -> bool:
    """Whether an operation is a load that the source calls volatile."""
    return (
        isinstance(op, tt.LoadOp) and op.is_volatile is not None and bool(op.is_volatile.value.data)
    )


def _is_nested(op: Operation) -> bool:
    return any(
        isinstance(parent, ttg.WarpSpecializeOp) or has(parent, RegionsOfElements)
        for parent in parents(op)
    )


# Which kernels' programs wait for each other: for a lock, a flag, a ticket, a barrier across the
# grid.
#
# Programs of one batch run in step, so one that waits for another of its batch would wait for
# ever. The programs of such a kernel run one by one, as coroutines: where a spin loop turns
# back, its program lets the others continue (`scheduler.py`).


def has_spin_loop(function: tt.FuncOp) -> bool:
    """True if a kernel has a spin loop, or an operation that is one."""
    return any(
        isinstance(op, tt.AtomicPollOp) or (isinstance(op, mlir.WhileOp) and is_spin_loop(op))
        for op in function.walk()
    )


def is_spin_loop(loop: mlir.WhileOp) -> bool:
    """True if what another program does may end the loop.

    Such a loop reads memory by an atomic or a volatile load;
    or its condition depends on a plain load from an address that is the same in every iteration.
    """
    return any(is_volatile(op) or (op.results and has(op, Atomic)) for op in loop.walk()) or any(
        _loads_the_same_place(op, loop) for op in _deciding(loop)
    )


def _loads_the_same_place(op: Operation, loop: mlir.WhileOp) -> bool:
    access = trait_of(op, PointerAccess)
    if access is None or global_effect(op) != "load":
        return False
    return all(_is_loop_invariant(value, loop) for value in access.indices_of(op))


def _deciding(loop: mlir.WhileOp) -> Iterator[Operation]:
    for value in deciding_values(loop):
        yield from inside_of(value, loop)


def deciding_values(loop: mlir.WhileOp) -> Iterator[SSAValue]:
    """The values that the condition of a loop is made of, in any iteration; those from outside,
    and what the loop begins with, included.
    """

    def step(value: SSAValue) -> Iterable[SSAValue]:
        if isinstance(value, BlockArgument):
            return flow.sources(value) if value.block.parent_op() is loop else ()
        return taken_inside(value, loop)

    return flow.reached([yielded(loop.before.block)[0]], step)


def taken_inside(value: SSAValue, loop: Operation) -> Iterator[SSAValue]:
    """The operands of the operations that make a value inside a loop."""
    return (operand for op in inside_of(value, loop) for operand in op.operands)


def inside_of(value: SSAValue, loop: Operation) -> Iterator[Operation]:
    """The operation inside a loop that makes a value, and those in its regions."""
    if isinstance(value, OpResult) and loop.is_ancestor(value.op):
        yield from value.op.walk()


def _is_loop_invariant(value: SSAValue, loop: mlir.WhileOp) -> bool:
    """True for a value from outside the loop, and for one computed from such values alone."""
    sources = flow.reached([value], lambda source: taken_inside(source, loop))
    return not any(_changes_in(source, loop) for source in sources)


def _changes_in(value: SSAValue, loop: mlir.WhileOp) -> bool:
    """True for an argument of a block in the loop, and for what the loop reads or branches for."""
    if isinstance(value, BlockArgument):
        owner = value.block.parent_op()
        return owner is not None and loop.is_ancestor(owner)
    made = next(inside_of(value, loop), None)
    return made is not None and (bool(made.regions) or has(made, GlobalRead))


# How large a kernel's tiles are, which bounds the shared memory that it may need.


@dataclass(frozen=True)
class TileBytes:
    """Sizes of tiles in bytes.

    Attributes:
        exchanged: of the largest tile, or of all tiles of the largest reduction or scan.
        loaded: of all tiles that are loaded in loops, together.
        held: of all factors of matmuls, and of all tiles of descriptors, together.
        stages: the most pipeline stages that a loop asks for; 0 if none does.
    """

    exchanged: int
    loaded: int
    held: int
    stages: int

    def most_shared(self, stages: int) -> int:
        """Return more bytes of shared memory than the compiler should ever need: buffers of each
        loaded tile for all stages, two of each held tile, and scratch for exchanging a tile.

        Without a matmul, Triton pipelines only loops that ask for it (AssignLatencies.cpp).

        Args:
            stages: the launch's num_stages.
        """
        pipelined = self.loaded if self.held or self.stages else 0
        return (max(stages, self.stages) + 1) * pipelined + 2 * self.held + 2 * self.exchanged


def tile_bytes(module: ModuleOp) -> TileBytes:
    """The sizes of the tiles of a module in TTIR."""
    exchanged = loaded = stages = 0
    held: set[SSAValue] = set()
    for op in module.walk():
        stages = max(stages, _stages_of(op))
        operands = [_bytes(value) for value in op.operands]
        results = [_bytes(value) for value in op.results]
        together = sum(operands) if isinstance(op, tt.ReduceOp | tt.ScanOp) else 0
        exchanged = max(exchanged, together, *operands, *results)
        if has(op, GlobalRead) and any(isinstance(around, _LOOPS) for around in parents(op)):
            loaded += sum(results)
        if has(op, DotLike):
            held |= {*op.operands} - {op.operands[2]}  # the accumulator
        elif has(op, DescriptorAccess):
            held |= {*op.operands, *op.results}
    return TileBytes(exchanged, loaded, sum(map(_bytes, held)), stages)


_LOOPS = (mlir.ForOp, mlir.WhileOp)


def _stages_of(op: Operation) -> int:
    stages = op.attributes.get("tt.num_stages")
    return stages.value.data if isinstance(stages, IntegerAttr) else 0


def _bytes(value: SSAValue) -> int:
    shape = getattr(value.type, "get_shape", None)
    if shape is None:
        return 0
    return int(math.prod(shape())) * dtype(value.type).itemsize
