"""What z3 proves for every size where intervals do not (the extra `proofs`).

A value of a tile is an expression at one position. What is not known of a value, such as what a
load returns, is a symbol that may be any integer, so that a formula without a solution is a proof,
and a solution is only a launch that is worth running.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import z3
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from kernellab.checker.sizes import Polynomial, Proof, Sizes, grid_of, parameter_name
from kernellab.common.arguments import is_whole
from kernellab.ir import mlir, operations, tt
from kernellab.ir.flow import yielded
from kernellab.ir.types import element_type, shape
from kernellab.launch.preparation import PreparedLaunch

Index = tuple[Any, ...]
"""A position in a tile: an expression for each axis."""

Key = tuple[SSAValue, Index]
Chosen = Mapping[str, int]
"""Sizes to launch with."""

_WORK, _LITTLE = 4_000_000, 400_000
"""Work for a formula, and for a fact that may help: about a second and a tenth, in z3's units,
which do not depend on the processor."""

_SIZES = (32, 128, 512, 2048)
"""Bounds for the sizes of a launch, tried in this order."""


def decide(prepared: PreparedLaunch, sizes: Sizes, proof: Proof) -> list[Chosen]:
    """Prove what is open in a proof; return the sizes of launches that may refute it."""
    with _own_context():
        return _decided(Solver(prepared, sizes), proof)


@contextmanager
def _own_context() -> Iterator[None]:
    """A context of z3 without earlier expressions, on whose numbering its search depends."""
    before, z3.z3._main_ctx = z3.main_ctx(), z3.Context()
    try:
        yield
    finally:
        z3.z3._main_ctx = before


def _decided(solver: Solver, proof: Proof) -> list[Chosen]:
    open_, launches = [], []
    for each in proof.open:
        ask = (None, solver.in_bounds, solver.are_apart)[len(each.ops)]
        answer = None if ask is None else ask(*each.ops)
        if answer is True:
            proof.proved[len(each.ops) - 1] += 1
            continue
        open_.append(each)
        launches += [answer] if answer else []
    proof.open = open_
    return launches


class Solver:
    """Questions about one launch, for all sizes and programs."""

    def __init__(self, prepared: PreparedLaunch, sizes: Sizes) -> None:
        self._sizes = sizes
        self.tensors = {
            name: value
            for name, value in prepared.call.values.items()
            if isinstance(value, torch.Tensor)
        }
        self._rest = {name: z3.Int(f"size {name}") for name in sizes.ranges}
        self._facts = [rest >= 0 for rest in self._rest.values()]
        self._facts += [self._expression(fact) >= 0 for fact in sizes.facts()]
        self.values: dict[str, Any] = {
            name: self._expression(sizes.tied(int(value)))
            for name, value in prepared.call.values.items()
            if is_whole(value)
        } | {name: self._expression(sizes.symbol(name)) for name in sizes.ranges}
        symbols = {name: _Whole(self.values[name]) for name in sizes.ranges}
        self.grid = [
            z3.Int(f"programs {axis}") if size is None
            else size.number if isinstance(size, _Whole) else self._expression(size)
            for axis, size in enumerate(grid_of(prepared, sizes, symbols))
        ]  # fmt: skip
        self._facts += [size >= 1 for size in self.grid]
        self.program = _Program(self)

    def _expression(self, polynomial: Polynomial) -> Any:
        total = z3.IntVal(0)
        for monomial, factor in polynomial.items():
            product = z3.IntVal(int(factor))
            for symbol in monomial:
                product = product * self._rest[symbol]
            total = total + product
        return z3.simplify(total)

    def holds(self, facts: Sequence[Any], work: int = _LITTLE) -> bool:
        """Whether the facts have no solution: what they contradict is proved."""
        return self._solved(facts, work) is False

    def _solved(self, facts: Sequence[Any], work: int) -> Any:
        """A model; False if there is none, and None if the work is spent."""
        solver = z3.Solver()
        solver.set("rlimit", work, "timeout", 120_000)
        solver.add(*self._facts, *facts)
        answer = solver.check()
        return solver.model() if answer == z3.sat else False if answer == z3.unsat else None

    def _launch(self, facts: Sequence[Any]) -> Chosen | None:
        """The sizes of a solution, where there is one of small sizes."""
        for most in _SIZES:
            model = self._solved([*facts, *(rest <= most for rest in self._rest.values())], _WORK)
            if model:
                return {
                    name: self._sizes.ranges[name][0] + model.eval(rest, True).as_long()
                    for name, rest in self._rest.items()
                }
        return None

    def in_bounds(self, op: Operation) -> bool | Chosen | None:
        """True if it is proved of an access; sizes to try, or None."""
        access = self.program.access(op)
        if access is None or not self.tensors[access.argument].is_contiguous():
            return None
        size = z3.IntVal(1)
        for extent in self.tensors[access.argument].shape:
            size = size * self._expression(self._sizes.tied(int(extent)))
        facts = [*self.program.facts, *access.facts]
        for outside in (access.offset < 0, access.offset >= size):
            if not self.holds([*facts, outside], _WORK):
                return self._launch([*facts, outside])
        return True

    def are_apart(self, first: Operation, second: Operation) -> bool | Chosen | None:
        """True if it is proved that two programs never store to the same element, by these.

        If the products are too hard for z3 at once, it shows of one symbol after the other that
        both programs have the same one: with different ones, they store to different elements.
        """
        ours, theirs = self.program.access(first), self.program.access(second)
        if ours is None or theirs is None:
            return None
        if ours.argument != theirs.argument:
            tensors = self.tensors[ours.argument], self.tensors[theirs.argument]
            return len({each.untyped_storage().data_ptr() for each in tensors}) == 2 or None
        program = self.program
        twins = {symbol: z3.Int(f"{symbol}'") for symbol in program.symbols.values()}
        collide = [*program.facts, *ours.facts]
        collide += [z3.substitute(fact, *twins.items()) for fact in (*program.facts, *theirs.facts)]
        collide.append(ours.offset == z3.substitute(theirs.offset, *twins.items()))
        other = z3.Or([number != twins[number] for number in program.numbers])
        if self.holds([*collide, other], _WORK):
            return True
        differ, facts, sizes = sorted(twins, key=str), collide, [0]
        later, signs = z3.Int("later"), (1,) if first is second else (1, -1)
        while len(differ) != sizes[-1] and {*program.numbers} & {*differ}:
            sizes.append(len(differ))
            for symbol in [*differ]:
                larger = [(twins[symbol], symbol + sign * (1 + later)) for sign in signs]
                if all(self.holds([later >= 0, *_replaced(facts, each)]) for each in larger):
                    facts = _replaced(facts, (twins[symbol], symbol))
                    differ.remove(symbol)
        is_apart = not {*program.numbers} & {*differ}
        return is_apart or self._launch([*collide, other])


def _replaced(facts: Sequence[Any], change: tuple[Any, Any]) -> list[Any]:
    return [z3.simplify(z3.substitute(fact, change), som=True) for fact in facts]


@dataclass(frozen=True)
class _Access:
    """An access at one position; `facts` holds where it takes part."""

    argument: str
    offset: Any
    facts: list[Any]


class _Program:
    """The values of one program.

    Attributes:
        facts: what holds for them, wherever the program is.
        symbols: the integers that they are made of, by what they stand for.
    """

    def __init__(self, solver: Solver) -> None:
        self.symbols: dict[Any, Any] = {}
        self._solver = solver
        self._known: dict[Key, Any] = {}
        self._owners: dict[Any, SSAValue] = {}
        self._turns: dict[Operation, list[Any]] = {}
        self.numbers = [self._symbol(("program", axis)) for axis in range(3)]
        pairs = zip(self.numbers, solver.grid)
        self.facts = [z3.And(number >= 0, number < size) for number, size in pairs]

    def access(self, op: Operation) -> _Access | None:
        """An access; None for one that is not by pointers into an argument."""
        access = operations.trait_of(op, operations.GlobalAccess)
        assert access is not None
        pointer, mask = access.indices_of(op)[-1], access.mask_of(op)
        extents = shape(pointer.type)
        index = tuple(self._symbol(("position", axis)) for axis in range(len(extents)))
        facts = [*self.reach(op), *_inside(index, extents)]
        if mask is not None:
            facts.append(self.at(mask, index if shape(mask.type) else ()))
        address = self.at(pointer, index)
        return _Access(address[0], address[1], facts) if isinstance(address, tuple) else None

    def _symbol(self, of: Any, owner: SSAValue | None = None) -> Any:
        """The integer that stands for something.

        Args:
            owner: a value inside the loops in whose turns it differs.
        """
        if of not in self.symbols:
            self.symbols[of] = symbol = z3.Int(f"{of[0]} {len(self.symbols)}")
            if owner is not None:
                self._owners[symbol] = owner
        return self.symbols[of]

    def at(self, value: SSAValue, index: Index = ()) -> Any:
        """A value at a position: an integer, a condition, or (argument, offset) of a pointer."""
        key = (value, index)
        if key not in self._known:
            self._known[key] = None  # of a value that is made of itself
            self._known[key] = self._made(value, index)
        if self._known[key] is None:
            number = self._symbol(("unknown", key), value)
            self._known[key] = number != 0 if _is_condition(value) else number
        return self._known[key]

    def _made(self, value: SSAValue, index: Index) -> Any:
        if isinstance(value, OpResult):
            return self._computed(value, index)
        assert isinstance(value, BlockArgument)
        loop = value.block.parent_op()
        if isinstance(loop, mlir.ForOp):
            return self._of_loop(loop, value, index)
        if isinstance(loop, mlir.WhileOp):
            if value.block is loop.after.block:
                return self.at(yielded(loop.before.block)[value.index + 1], index)
            place = value.index
            ends = loop.initial[place], yielded(loop.after.block)[place]
            turn = self._symbol(("turn", value.block), value)
            self._turns[loop] = [turn >= 0]
            return self._grown(loop, *ends, turn, (value, index))
        name = parameter_name(value)
        if name is not None and name in self._solver.tensors:
            return name, z3.IntVal(0)
        return self._solver.values.get(str(name))

    def _of_loop(self, loop: mlir.ForOp, value: BlockArgument, index: Index) -> Any:
        turn = self._symbol(("turn", value.block), loop.block.args[0])
        if value.index:
            ends = loop.initial[value.index - 1], yielded(loop.block)[value.index - 1]
            return self._grown(loop, *ends, turn, (value, index))
        step = self.at(loop.step)
        number = self.at(loop.lower) + step * turn
        self._turns[loop] = [turn >= 0, step > 0, number < self.at(loop.upper)]
        return number

    def _grown(self, loop: Operation, first: SSAValue, end: SSAValue, turn: Any, key: Key) -> Any:
        """What grows by the same in each turn; None if it does not."""
        value, index = key
        initial = self.at(first, index)
        before = self._symbol(("before", key), value)
        known, facts = dict(self._known), len(self.facts)
        self._known[key] = (initial[0], before) if isinstance(initial, tuple) else before
        after = self.at(end, index)
        self._known = known
        # What is about a turn that begins with `before` is dropped.
        self.facts[facts:] = [each for each in self.facts[facts:] if not self._changes(loop, each)]
        if _is_condition(value) or isinstance(after, tuple) != isinstance(initial, tuple):
            return None
        if not isinstance(after, tuple):
            more = z3.simplify(after - before, som=True)
            return None if self._changes(loop, more) else initial + more * turn
        more = z3.simplify(after[1] - before, som=True)
        is_same = after[0] == initial[0] and not self._changes(loop, more)
        return (initial[0], initial[1] + more * turn) if is_same else None

    def _changes(self, loop: Operation, number: Any) -> bool:
        """Whether a number may differ between the turns of a loop."""
        owners = [self._owners[each].owner for each in _parts(number) if each in self._owners]
        places = [at if isinstance(at, Operation) else at.parent_op() for at in owners]
        return any(op is loop or loop in operations.parents(op) for op in places if op is not None)

    def _computed(self, value: OpResult, index: Index) -> Any:
        op = value.op
        match op:
            case mlir.ConstantOp() if op.integer is not None:
                is_condition = _is_condition(value)
                return z3.BoolVal(op.integer != 0) if is_condition else z3.IntVal(op.integer)
            case tt.MakeRangeOp():
                return index[0] + int(op.start.value.data)
            case tt.GetProgramIdOp():
                return self.numbers[int(op.axis.value.data)]
            case tt.GetNumProgramsOp():
                return self._solver.grid[int(op.axis.value.data)]
            case tt.SplatOp() | tt.BroadcastOp() | tt.ExpandDimsOp() | tt.TransOp():
                return self.at(op.operands[0], _moved(op, index))
            case tt.AddPtrOp():
                base, offset = self.at(op.pointer, index), self.at(op.offset, index)
                return (base[0], base[1] + offset) if isinstance(base, tuple) else None
            case mlir.ExtSIOp() | mlir.IndexCastOp() if not _is_condition(op.operands[0]):
                return self.at(op.operands[0], index)
            case mlir.ExtUIOp() if _is_condition(op.operands[0]):
                return z3.If(self.at(op.operands[0], index), 1, 0)
            case mlir.SelectOp():
                condition = self.at(op.condition, index if shape(op.condition.type) else ())
                return _either(condition, *(self.at(each, index) for each in op.operands[1:]))
            case mlir.IfOp():
                ends = [yielded(region.blocks[0])[value.index] for region in op.regions]
                return _either(self.at(op.condition), *(self.at(end, index) for end in ends))
            case operations.BinaryOperation() if _is_condition(op.lhs):
                logic = _LOGIC.get(type(op))
                return logic and logic(self.at(op.lhs, index), self.at(op.rhs, index))
            case operations.BinaryOperation():
                return self._arithmetic(op, index)
        return None

    def _arithmetic(self, op: operations.BinaryOperation, index: Index) -> Any:
        left, right = self.at(op.lhs, index), self.at(op.rhs, index)
        power = _constant(right)
        power = -1 if power is None else power
        is_shift = 0 <= power < 63
        match op:
            case mlir.AddIOp():
                return left + right
            case mlir.SubIOp():
                return left - right
            case mlir.MulIOp():
                return self._factor(op.lhs, left, index) * self._factor(op.rhs, right, index)
            case mlir.MinSIOp():
                return z3.If(left <= right, left, right)
            case mlir.MaxSIOp():
                return z3.If(left <= right, right, left)
            case mlir.DivSIOp() | mlir.DivUIOp():
                return self._divided(op, left, right, index)[0]
            case mlir.RemSIOp() | mlir.RemUIOp():
                return self._divided(op, left, right, index)[1]
            case mlir.CmpIOp():
                compared = _COMPARED.get(mlir.INTEGER_PREDICATES[int(op.predicate.value.data)])
                return compared and compared(left, right)
            case mlir.ShLIOp() if is_shift:
                return left * 2**power
            case mlir.ShRSIOp() if is_shift:
                return left / 2**power
            case mlir.AndIOp() if power >= 0 and not power & (power + 1):
                return left % (power + 1)
        return None

    def _factor(self, value: SSAValue, number: Any, index: Index) -> Any:
        """A symbol for a factor that is a sum, in which two programs may agree."""
        if _constant(number) is not None or z3.is_const(number):
            return number
        symbol = self._symbol(("factor", value, index), value)
        self.facts.append(symbol == number)
        return symbol

    def _divided(self, op: Any, left: Any, right: Any, index: Index) -> tuple[Any, Any]:
        """Quotient and remainder, of which only those of numbers from 0 on are known."""
        of = (op.lhs, op.rhs, index)
        quotient, rest = (self._symbol((kind, *of), op.result) for kind in ("quotient", "rest"))
        known = z3.And(left == right * quotient + rest, rest >= 0, rest < right, quotient >= 0)
        are_natural = z3.And(left >= 0, right > 0)
        there = [*self.reach(op), *_inside(index, shape(op.result.type))]
        if self._solver.holds([*self.facts, *there, z3.Not(are_natural)]):
            are_natural = z3.And(there)
        self.facts.append(z3.simplify(z3.Implies(are_natural, known)))
        return quotient, rest

    def reach(self, op: Operation) -> list[Any]:
        """What holds where the program reaches an operation."""
        facts: list[Any] = []
        while not isinstance(parent := op.parent_op(), (tt.FuncOp, type(None))):
            match parent:
                case mlir.IfOp():
                    is_then = op.parent_region() is parent.then_region
                    facts.append(self.at(parent.condition) == is_then)
                case mlir.ForOp():
                    self.at(parent.block.args[0])
                case mlir.WhileOp() if op.parent_block() is parent.after.block:
                    facts.append(self.at(yielded(parent.before.block)[0]))
            facts += self._turns.get(parent, ())
            op = parent
        block = op.parent_block()
        while block is not None and (jump := _only_jump_to(block)) is not None:
            if isinstance(jump, mlir.ConditionalBranchOp):
                facts.append(self.at(jump.condition) == (jump.true_successor is block))
            block = jump.parent_block()
        return facts


_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le,
    "sgt": operator.gt, "sge": operator.ge,
}  # fmt: skip


_LOGIC: Mapping[type[Operation], Callable[[Any, Any], Any]] = {
    mlir.AndIOp: z3.And, mlir.OrIOp: z3.Or, mlir.XOrIOp: z3.Xor,
}  # fmt: skip


def _is_condition(value: SSAValue) -> bool:
    return str(element_type(value.type)) == "i1"


def _inside(index: Index, extents: Sequence[int]) -> list[Any]:
    return [z3.And(place >= 0, place < extent) for place, extent in zip(index, extents)]


def _moved(op: Operation, index: Index) -> Index:
    """The position in the operand of what is at a position in the result."""
    match op:
        case tt.SplatOp():
            return ()
        case tt.ExpandDimsOp():
            axis = int(op.axis.value.data)
            return index[:axis] + index[axis + 1 :]
        case tt.TransOp():
            order = [int(old) for old in op.order.get_values()]
            return tuple(index[order.index(axis)] for axis in range(len(index)))
    narrow = shape(op.operands[0].type)
    return tuple(z3.IntVal(0) if size == 1 else at for size, at in zip(narrow, index))


def _either(condition: Any, first: Any, second: Any) -> Any:
    if not isinstance(first, tuple) and not isinstance(second, tuple):
        return z3.If(condition, first, second)
    if isinstance(first, tuple) and isinstance(second, tuple) and first[0] == second[0]:
        return first[0], z3.If(condition, first[1], second[1])
    return None


def _constant(number: Any) -> int | None:
    number = z3.simplify(number)
    return number.as_long() if z3.is_int_value(number) else None


def _parts(number: Any) -> Iterator[Any]:
    yield number
    for part in number.children():
        yield from _parts(part)


def _only_jump_to(block: Block) -> Operation | None:
    """The jump to a block, if there is a single one; None for a function's first block."""
    region = block.parent_region()
    if region is None or block.prev_block is None:
        return None
    jumps = [end for each in region.blocks if (end := each.last_op) and block in end.successors]
    return jumps[0] if len(jumps) == 1 and [*jumps[0].successors].count(block) == 1 else None


@dataclass(frozen=True)
class _Whole:
    """A size for a function that computes the grid."""

    number: Any

    def __add__(self, other: Any) -> _Whole:
        return _Whole(self.number + _number(other))

    def __mul__(self, other: Any) -> _Whole:
        return _Whole(self.number * _number(other))

    def __sub__(self, other: Any) -> _Whole:
        return _Whole(self.number - _number(other))

    def __rsub__(self, other: Any) -> _Whole:
        return _Whole(_number(other) - self.number)

    def __neg__(self) -> _Whole:
        return _Whole(-self.number)

    def __floordiv__(self, other: int) -> _Whole:
        if not is_whole(other) or other <= 0:
            raise TypeError(other)
        return _Whole(self.number / other)

    __radd__, __rmul__ = __add__, __mul__


def _number(value: Any) -> Any:
    if not isinstance(value, _Whole) and not is_whole(value):
        raise TypeError(value)
    return value.number if isinstance(value, _Whole) else int(value)
