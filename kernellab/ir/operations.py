"""The common parts of the operations of all dialects: traits, shapes, names, and their places in
the user's source.

A trait is a fact about operations that several packages need, stated once on the class.
An operation's effects on memory are traits, as in MLIR:
`NoMemoryEffect`, or reads and writes of a kind of memory. A class without any may do everything.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Literal, TypeVar, cast

from xdsl import irdl
from xdsl.dialects import builtin
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, SSAValue
from xdsl.traits import (
    EffectInstance,
    MemoryEffect,
    MemoryEffectKind,
    NoMemoryEffect,
    OpTrait,
    RecursiveMemoryEffect,
    Resource,
    get_effects,
)

from kernellab import triton_api
from kernellab.errors import SourcePosition

Trait = TypeVar("Trait", bound=OpTrait)
Effect = Literal["load", "store", "atomic"]


def trait_of(op: Operation, trait: type[Trait]) -> Trait | None:
    """The trait of that kind that an operation's class has, or None; looked up once per class."""
    return cast("Trait | None", _trait_of(op.__class__, trait))


def has(op: Operation, *traits: type[OpTrait]) -> bool:
    """Whether an operation's class has one of these traits; False for an unregistered operation."""
    return any(_trait_of(op.__class__, trait) is not None for trait in traits)


_known: dict[tuple[type[Operation], type[OpTrait]], OpTrait | None] = {}


def _trait_of(kind: type[Operation], trait: type[OpTrait]) -> OpTrait | None:
    key = kind, trait
    if key not in _known:
        _known[key] = kind.get_trait(trait)
    return _known[key]


# What it computes


class Elementwise(OpTrait):
    """Each element of a result is computed only from the operands' elements at its place."""


class DotLike(OpTrait):
    """A matmul, a @ b + c."""


class RegionsOfElements(OpTrait):
    """Its regions are functions of single elements: they run for elements, not for programs."""


class VariesByProgram(OpTrait):
    """Its results may differ between programs even if its operands do not."""


@dataclass(frozen=True)
class ReadsIntegers(OpTrait):
    """Interprets the integers among its operands as signed or unsigned: integers of the IR are
    neither.
    """

    signed: bool


class KeepsSign(OpTrait):
    """Returns the same bits for signed and unsigned integers; its result is signed if they are."""


@dataclass(frozen=True)
class MovesElements(OpTrait):
    """Each element of a result is an element of an operand, unchanged.

    Attributes:
        sources: names of these operands.
    """

    sources: tuple[str, ...] = ("operand",)

    def sources_of(self, op: Operation) -> tuple[SSAValue, ...]:
        """The operands whose elements the results of `op` have."""
        return _operands(op, self.sources)


@dataclass(frozen=True)
class KeepsElements(MovesElements):
    """Moves all elements of its only operand: the same tile in another shape or layout."""


# Memory


@dataclass(frozen=True)
class Memory(Resource):
    """A kind of memory: "global memory", which tensors are in and all programs of a launch see;
    "shared memory", a program's own on the chip, mbarriers in it; "tensor memory", Blackwell's for
    accumulators.
    """

    kind: str

    def name(self) -> str:
        return self.kind


class _EffectOnResource(MemoryEffect):
    effects: ClassVar[frozenset[EffectInstance]]

    @classmethod
    def get_effects(cls, _op: Operation) -> Set[EffectInstance]:
        return cls.effects


def _one(effect: MemoryEffectKind, memory: str) -> frozenset[EffectInstance]:
    return frozenset((EffectInstance(effect, resource=Memory(memory)),))


class GlobalRead(_EffectOnResource):
    effects = _one(MemoryEffectKind.READ, "global memory")


class GlobalWrite(_EffectOnResource):
    effects = _one(MemoryEffectKind.WRITE, "global memory")


class SharedRead(_EffectOnResource):
    effects = _one(MemoryEffectKind.READ, "shared memory")


class SharedWrite(_EffectOnResource):
    effects = _one(MemoryEffectKind.WRITE, "shared memory")


class TensorRead(_EffectOnResource):
    effects = _one(MemoryEffectKind.READ, "tensor memory")


class TensorWrite(_EffectOnResource):
    effects = _one(MemoryEffectKind.WRITE, "tensor memory")


class Ordered(_EffectOnResource):
    """Accesses no memory, and must stay in its place: a barrier, a wait, a fence, a print,
    an assertion.
    """

    effects = _one(MemoryEffectKind.WRITE, "order")


class PureWhenMarked(MemoryEffect):
    """Code from elsewhere: unless its property `pure` says otherwise, it may do
    everything.
    """

    @classmethod
    def get_effects(cls, op: Operation) -> Set[EffectInstance] | None:
        says_so = op.properties.get("pure") == builtin.BoolAttr.from_bool(True)
        return frozenset() if says_so else None


Queue = Literal["copies", "loads", "stores", "products", "tcgen05"]
"""Asynchronous operations that are waited for together: `cp.async` and direct loads to LDS, TMA
loads, TMA stores, wgmma, tcgen05's products and copies."""


@dataclass(frozen=True)
class OfQueue(OpTrait):
    """Concerns the operations of a queue."""

    queue: Queue


class Asynchronous(OfQueue):
    """Continues in the queue after its issue, until something waits for it."""


class Commits(OfQueue):
    """Makes one group of the operations issued before it."""


class Counts(OfQueue):
    """Lets an mbarrier count the operations issued before it."""


class WaitsFor(OfQueue):
    """Waits until at most the last groups of the queue are in flight."""


class OrdersWarpGroups(OpTrait):
    """Orders the work of groups of warps that run separate code."""


class Atomic(OpTrait):
    """Accesses memory in one step, in an order with other programs' atomics."""


@dataclass(frozen=True)
class GlobalAccess(OpTrait):
    """Accesses global memory at its operands' addresses; `GlobalRead` and `GlobalWrite` say whether
    it reads, writes or both.

    Attributes:
        base: name of the operand that is the pointer, the tile of pointers, or the descriptor.
        where: names of the operands that select the elements: pointers, offsets from one, or
            indices of a descriptor.
        mask: name of the operand that switches lanes off, if there is one.
        value: name of the operand that is written, or combined with what is there.
    """

    base: str = ""
    where: tuple[str, ...] = ()
    mask: str | None = None
    value: str | None = None

    def base_of(self, op: Operation) -> SSAValue:
        """The pointer, the tile of pointers, or the descriptor."""
        return cast(SSAValue, getattr(op, self.base))

    def indices_of(self, op: Operation) -> tuple[SSAValue, ...]:
        """The operands that select the elements; both a pointer and its offsets."""
        return _operands(op, self.where)

    def mask_of(self, op: Operation) -> SSAValue | None:
        """The mask, or None if all lanes are on."""
        return cast("SSAValue | None", getattr(op, self.mask)) if self.mask else None

    def value_of(self, op: Operation) -> SSAValue | None:
        """The value that is written, or None for a load."""
        return cast(SSAValue, getattr(op, self.value)) if self.value else None


@dataclass(frozen=True)
class PointerAccess(GlobalAccess):
    """Accesses global memory by a pointer, a tile of pointers, or one pointer and a tile of
    offsets.
    """

    base: str = "pointer"
    where: tuple[str, ...] = ("pointer",)

    @property
    def has_offsets(self) -> bool:
        """True for one pointer and a tile of offsets."""
        return len(self.where) > 1


@dataclass(frozen=True)
class DescriptorAccess(GlobalAccess):
    """Accesses a block, or rows, of a descriptor's tensor."""

    base: str = "descriptor"
    where: tuple[str, ...] = ("indices",)


def _operands(op: Operation, names: Iterable[str]) -> tuple[SSAValue, ...]:
    """The operands of these names; some names have several."""
    values: list[SSAValue] = []
    for name in names:
        operand = getattr(op, name)
        values += [operand] if isinstance(operand, SSAValue) else operand
    return tuple(values)


# What is derived from them


def global_effect(op: Operation) -> Effect | None:
    """What an operation does to global memory: "load", "store", or "atomic", which is both;
    None if it does nothing that is known.
    """
    if has(op, GlobalRead):
        return "atomic" if has(op, GlobalWrite) else "load"
    return "store" if has(op, GlobalWrite) else None


def may_do_anything(op: Operation) -> bool:
    """Return whether an operation's own effects on memory are unknown, without those of operations
    in its regions.
    """
    return not has(op, RecursiveMemoryEffect) and get_effects(op) is None


def touches_memory(op: Operation) -> bool:
    """Whether an operation itself reads or writes any memory, or may."""
    return has(op, *_TOUCHES) or may_do_anything(op)


_TOUCHES = (GlobalRead, GlobalWrite, SharedRead, SharedWrite, TensorRead, TensorWrite)


def stays_where_it_is(kind: type[Operation]) -> bool:
    """Whether operations of a class have effects, so that they may not be moved or left out."""
    return any(isinstance(trait, _EffectOnResource) for trait in kind.traits)


def parents(op: Operation) -> Iterator[Operation]:
    """The operations around an operation, the innermost first."""
    parent = op.parent_op()
    while parent is not None:
        yield parent
        parent = parent.parent_op()


def function_of_elements(op: Operation) -> Operation | None:
    """Return the operation whose `RegionsOfElements` contain another one."""
    return next((parent for parent in parents(op) if has(parent, RegionsOfElements)), None)


def in_region_of_elements(op: Operation) -> bool:
    """Return whether an operation is in a function of single elements."""
    return function_of_elements(op) is not None


# Base classes for common shapes (one operand, two operands), the names of operations, and how a
# dialect is collected.  xDSL puts the operands of a base class after those of the class itself: a
# class with operands inherits none.


class UnaryOperation(irdl.IRDLOperation, ABC):
    """One operand, one result."""

    operand = irdl.operand_def()
    result = irdl.result_def()


class BinaryOperation(irdl.IRDLOperation, ABC):
    """Two operands, one result."""

    lhs = irdl.operand_def()
    rhs = irdl.operand_def()
    result = irdl.result_def()


class ElementwiseUnary(UnaryOperation, ABC):
    """A function of one number, for each element."""

    traits = irdl.traits_def(NoMemoryEffect(), Elementwise())


class ElementwiseBinary(BinaryOperation, ABC):
    """A function of two numbers, for each element."""

    traits = irdl.traits_def(NoMemoryEffect(), Elementwise())


class WrappingOperation(ElementwiseBinary, ABC):
    """Integer arithmetic that wraps, unless its flags promise that it does not."""

    traits = irdl.traits_def(KeepsSign())
    overflow_flags = irdl.opt_prop_def(prop_name="overflowFlags")


class ExactOperation(ElementwiseBinary, ABC):
    """A division or right shift, that may promise to leave no remainder."""

    is_exact = irdl.opt_prop_def(prop_name="isExact")


class FloatUnaryOperation(ElementwiseUnary, ABC):
    """A function of one floating-point number; `fastmath` says what a compiler may assume."""

    fastmath = irdl.opt_prop_def()


class FloatBinaryOperation(ElementwiseBinary, ABC):
    """A function of two floating-point numbers; `fastmath` says what a compiler may assume."""

    fastmath = irdl.opt_prop_def()


def operation_name(op: Operation) -> str:
    """An operation's name, "tt.load"; also of one without a class here."""
    return op.op_name.data if isinstance(op, builtin.UnregisteredOp) else op.name


def dialect(name: str, module: ModuleType, attributes: Sequence[type[Attribute]] = ()) -> Dialect:
    """The dialect of every operation class that `module` defines under the prefix `name.`,
    and of the attributes and types given. Makes the classes definitions, as the decorator
    `irdl_op_definition` does.
    """
    return Dialect(name, list(_operations(name, module)), list(attributes))


def _operations(name: str, module: ModuleType) -> Iterator[type[Operation]]:
    for member in vars(module).values():
        if isinstance(member, type) and issubclass(member, irdl.IRDLOperation):
            if getattr(member, "name", "").startswith(f"{name}."):
                is_defined = "get_irdl_definition" in vars(member)
                yield member if is_defined else irdl.irdl_op_definition(member)


# Where operations come from


@dataclass(frozen=True)
class Location:
    """An operation's origin: the name it was assigned to, and the chain of positions
    that leads to it.
    """

    name: str | None
    """The kernel's own name for the result ("acc"), or None."""
    frames: tuple[SourcePosition, ...]
    """The operation's own position first, then its caller's, where helper functions
    were inlined."""
    names: tuple[tuple[str, ...], ...] = ()
    """Of each frame, the names that were assigned there, the last one first: an operation with
    several results has a name of each."""


def locate(location: Attribute) -> Location:
    """Read an MLIR location: file, name, call site, or fused (whose first part counts)."""
    match location:
        case builtin.FileLineColLoc():
            column = triton_api.column_from_one(location.column.data)
            position = SourcePosition(location.filename.data, location.line.data, column)
            return Location(None, (position,), ((),))
        case builtin.NameLoc():
            named, name = locate(location.location), location.desc.data
            own, *outer = named.names or ((),)
            return Location(name, named.frames, ((name, *own), *outer))
        case builtin.CallSiteLoc():
            callee, caller = locate(location.callee), locate(location.caller)
            frames, names = callee.frames + caller.frames, callee.names + caller.names
            return Location(callee.name or caller.name, frames, names)
        case builtin.FusedLoc():
            parts = [
                locate(part) for part in cast(builtin.ArrayAttr[Attribute], location.locations)
            ]
            return next((part for part in parts if part.frames), Location(None, ()))
        case _:
            return Location(None, ())


def argument_name(argument: BlockArgument) -> str | None:
    """The kernel's name for a parameter or a loop's variable, or None.

    MLIR prints a name that is not ASCII otherwise (`%_CEB1` for "α"): its location has it as it is.
    What has none it calls `%arg3`. The variable of a loop that a pass has made anew is where the
    loop does, at the names of the loop's results: none is its own.
    """
    loop = argument.block.parent_op()
    if loop is not None and argument.index == 0 and argument.location == loop.location:
        return None
    name = locate(argument.location).name
    if name is not None and not name.isascii():
        return name
    hint = argument.name_hint
    return None if name is None and hint and re.fullmatch(r"arg\d+", hint) else hint
