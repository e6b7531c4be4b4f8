"""From operations to Python: the rules of lowering, and operands, rounding, the program axis and
control flow, once for all operations.

The code of a kernel is two nested functions. The outer one takes the arguments and computes
what no program changes; the inner one runs a batch of programs. Both carry the kernel's own
name, file and lines.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy
from xdsl.ir import Block, Operation, Region, SSAValue

from kernellab.common.patches import replaced
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.codegen.analyses import (
    ADDRESS,
    UnderlyingObject,
    inline_calls,
    is_spin_loop,
    pointee_dtype,
    starts,
    underlying_objects,
    varying_values,
    widen_offsets,
)
from kernellab.interpreter.codegen.code_writer import CodeWriter, function_definition
from kernellab.interpreter.codegen.expressions import (
    Expression,
    Operand,
    address_space,
    as_node,
    numerics,
    observer,
    tiles,
    variable,
)
from kernellab.interpreter.codegen.indices import kept_values
from kernellab.ir import mlir, tt
from kernellab.ir.flow import yielded
from kernellab.ir.operations import (
    Location,
    in_region_of_elements,
    locate,
    operation_name,
    stays_where_it_is,
)
from kernellab.ir.types import dtype, is_pointer, shape

# Which function lowers which operation.


Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class LoweringRule:
    """How one class of operations is lowered."""

    lower: Callable[[Any, Emitter], Any]
    """(operation, emitter) -> one expression for each result, or None if there are no results."""
    pure: bool
    """True if it has no effects, see `ir.operations`, and may move out of the programs' loop."""
    rounds: bool
    """True for floating-point arithmetic: operands of fewer than 32 bits arrive as float32,
    and the result is rounded to its own type, once."""


RULES: dict[type[Operation], LoweringRule] = {}

RuleOf = Callable[[Operation], LoweringRule | None]
"""The rule for an operation, None if nothing lowers it."""


def rule_of(op: Operation) -> LoweringRule | None:
    """The rule for floats as they are."""
    return RULES.get(type(op))


def lowers(
    *operations: type[Operation], pure: bool = True, rounds: bool = False
) -> Callable[[Function], Function]:
    """Register the decorated function as the lowering of `operations`.

    Args:
        pure: False for operations that must not move though their classes have no effects:
            they may fault, or end a block.
        rounds: see `LoweringRule`.
    """

    def register(function: Function) -> Function:
        for operation in operations:
            assert operation not in RULES, f"{operation.name} is lowered twice"
            RULES[operation] = LoweringRule(
                function, pure and not stays_where_it_is(operation), rounds
            )
        return function

    return register


# Operands, rounding, the program axis and control flow.


@dataclass(frozen=True)
class KernelCode:
    """The generated code of one kernel.

    Attributes:
        tree: a module with one function, which takes the kernel's arguments and `grid`.
        name: the function's name.
        constants: the objects that the code refers to by name.
        locations: where its statements come from, callers included; see `code_writer`.
        operations: the operation of each location.
        variables: the name of each value's variable.
        arguments: the kernel's runtime arguments, in order: their names and MLIR types.
        largest_tile: bytes of the largest tile that the kernel computes.
    """

    tree: ast.Module
    name: str
    constants: dict[str, Any]
    locations: tuple[Location, ...]
    operations: tuple[Operation, ...]
    variables: Mapping[SSAValue, str]
    arguments: tuple[SSAValue, ...]
    largest_tile: int


AfterOperation = Callable[["Emitter", Operation], None]
"""Is called after an operation was lowered, its results defined:
what it emits follows the operation's own statements, at the same position."""


def emit_kernel(
    function: tt.FuncOp,
    file: str,
    name: str,
    after: AfterOperation | None = None,
    rules: RuleOf = rule_of,
) -> KernelCode:
    """Lower a kernel whose source is in `file` to Python.

    Args:
        after: adds statements after operations: for example, code that passes
            their results to an observer.
        rules: how each operation is lowered.

    Raises:
        UnsupportedOperation: no rule lowers an operation of the kernel; the error names its line.
    """
    entry = function.body.blocks[0]
    inline_calls(function)
    largest_tile = _largest_tile(function)
    emitter = Emitter(function, file, facts_of_batches(function), after, rules)
    name = emitter.fresh(name)  # first of all: a variable of the kernel may have its name
    tree = emitter.kernel(name)
    arguments = tuple(entry.args)
    return KernelCode(
        tree,
        name,
        emitter.constants,
        tuple(emitter.locations),
        tuple(emitter.located),
        emitter.variables(),
        arguments,
        largest_tile,
    )


@dataclass(frozen=True)
class FunctionFacts:
    """The facts about a function that are computed before its code.

    Attributes:
        starts: the pointers that are an argument as it was given; what is added to them has 64
            bits.
        varying: the values that may differ from program to program.
        underlying_objects: what stands for each pointer.
    """

    starts: Set[SSAValue]
    varying: Set[SSAValue]
    underlying_objects: Mapping[SSAValue, UnderlyingObject]


def facts_of_batches(function: tt.FuncOp) -> FunctionFacts:
    """The facts for code that runs batches of programs; offsets are as wide as starts require."""
    first_offsets = starts(function)
    widen_offsets(function, first_offsets)
    return FunctionFacts(first_offsets, varying_values(function), underlying_objects(function))


class Emitter(CodeWriter):
    """The interface of a lowering: operands as expressions, facts about values,
    and a place for statements.
    """

    releases_tiles = True
    """Whether variables are let go after their last use."""

    def __init__(
        self,
        function: tt.FuncOp,
        file: str,
        facts: FunctionFacts,
        after: AfterOperation | None = None,
        rules: RuleOf = rule_of,
    ) -> None:
        super().__init__(function, file)
        self._after = after
        self._rules = rules
        self.function = function
        self.active: Expression | None = None
        self.programs = variable("programs")
        self.grid = variable("grid")
        self._starts = facts.starts
        self._varying = facts.varying
        self._underlying_objects = facts.underlying_objects
        self._expressions: dict[SSAValue, Expression] = {}
        self._hoisted: set[SSAValue] = set()
        self._arrived: dict[Block, str] = {}
        self._widens = False
        self._inside_element_function = False
        self.warp_group_name = ""
        """The coroutine of a group of warps that runs separate code, inside its region."""
        self._kept = kept_values(function)

    # Decisions that depend on the kind of code; here, for batches of programs

    def ends_turn(self, loop: mlir.WhileOp, /) -> bool:
        """Whether a program lets others continue where the loop turns back."""
        return is_spin_loop(loop)

    def lowered(self, rule: LoweringRule, op: Operation) -> Any:
        """The expressions that a rule returns for an operation."""
        return rule.lower(op, self)

    def call(self, op: tt.CallOp) -> tuple[Expression, ...]:
        """A call of another function; batches have the body of each in place of its calls."""
        raise AssertionError(f"{op.callee} was not inlined")

    def leave(self, values: Sequence[SSAValue]) -> None:
        """The end of the function, which returns `values`; a kernel's needs no code."""

    def without_line(self) -> AbstractContextManager[None]:
        """Inside are statements that pass values on, which no line of the kernel says."""
        return nullcontext()

    # Facts about values

    def __getitem__(self, value: SSAValue) -> Expression:
        """The operand as an expression; as float32 if a rounding operation
        takes a narrower float.
        """
        if value in self._starts and self.rank(value):
            return tiles.splat(self._start, self.rank(value))
        expression = self._expressions[value]
        if expression.name is not None:
            expression = variable(expression.name)
        return numerics.widen(expression) if self._widens and _is_narrow(value) else expression

    def optional(self, value: SSAValue | None) -> Expression | None:
        """The operand as an expression, or None if the operation has none."""
        return None if value is None else self[value]

    def rank(self, value: SSAValue) -> int:
        """Number of the tile's dimensions; 0 for a scalar."""
        return len(shape(value.type))

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        return shape(value.type)

    def dtype(self, value: SSAValue) -> Expression:
        kind = dtype(value.type)
        return self.constant(kind, hint=kind.name)

    def varies(self, *values: SSAValue) -> bool:
        """True if one of the values may differ from program to program."""
        return any(value in self._varying for value in values)

    def buffer(self, pointer: SSAValue) -> Expression:
        """The memory of an access through `pointer`: an argument, or the tensor at its address."""
        dtype = pointee_dtype(pointer)
        underlying = self._underlying_objects.get(pointer)
        if underlying is ADDRESS:
            return variable(self._everything).elements(self.constant(dtype, hint=dtype.name))
        argument = variable(self._buffers[underlying])
        if pointee_dtype(underlying) == dtype:
            return argument
        return argument.viewed_as(self.constant(dtype, hint=dtype.name))

    def address(self, pointer: SSAValue) -> Expression:
        """The pointer as an address, in bytes."""
        underlying = self._underlying_objects.get(pointer)
        return (
            self[pointer]
            if underlying is ADDRESS
            else variable(self._buffers[underlying]).addresses(self[pointer])
        )

    def without_underlying_object(self, value: SSAValue) -> Expression:
        """`value` unchanged if its underlying object is not known, in memory for example:
        a pointer is its address.
        """
        return self.address(value) if is_pointer(value.type) else self[value]

    def moved(self, pointer: SSAValue, offset: SSAValue) -> Expression:
        """The pointer `offset` elements further; scalar pointer and tile of offsets make a tile."""
        if pointer in self._starts and dtype(offset.type) == numpy.int64:
            return self[offset]
        start = self[pointer]
        if self.rank(pointer) < self.rank(offset):
            start = tiles.splat(start, self.rank(offset))
        if self._underlying_objects.get(pointer) is not ADDRESS:
            return start + self[offset]
        size = self.constant(numpy.int64(pointee_dtype(pointer).itemsize), hint="size")
        return start + self[offset] * size

    def passed(self, value: SSAValue, target: SSAValue) -> Expression:
        """`value` in the form of `target`: an address if that is an address."""
        if is_pointer(target.type) and self._underlying_objects.get(target) is ADDRESS:
            return self.address(value)
        return self[value]

    @property
    def everything(self) -> Expression:
        """The address space, which finds the memory at an address."""
        return variable(self._everything)

    def unsupported(self, what: str, advice: str = "") -> UnsupportedOperation:
        """The error, on the kernel's line, for something that the interpreter does not support."""
        return UnsupportedOperation(
            f"The interpreter does not know {what} (in kernel {self.function.sym_name.data!r}).",
            position=self._location.frames[0] if self._location.frames else None,
            advice=(
                f"{advice} On a GPU the kernel may still run: compile it with kernellab.compile."
            ).lstrip(),
        )

    # Variables, and which programs take part

    def bind(self, value: SSAValue) -> str:
        """A variable for `value`, named as in the kernel."""
        name = self.fresh(self._hint(value))
        self._expressions[value] = variable(name)
        return name

    def variable_of(self, value: SSAValue) -> str:
        name = self._expressions[value].name
        assert name is not None
        return name

    def end_turn(self) -> None:
        """`yield`: the program lets others continue; the function becomes a coroutine."""
        if self._inside_element_function:
            raise self.unsupported("a loop that waits for other programs in a function of elements")
        self.statement(ast.Expr(ast.Yield()))

    def may_switch(self) -> None:
        """`yield True`: the program does not wait, but others may continue here."""
        self.statement(ast.Expr(ast.Yield(ast.Constant(True))))

    def only(self, active: str) -> AbstractContextManager[None]:
        """Inside, only the programs that the variable `active` names take part."""
        return replaced(self, active=variable(active))

    def active_programs(self) -> Expression | None:
        """The variable that says which programs take part, or None if all do."""
        return None if self.active is None else variable(self.active.name or "")

    # Operations

    def operations(self, block: Block) -> None:
        """Lower every operation of a block, except for a terminator that no rule lowers."""
        for op in block.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """Lower one operation and bind its results."""
        outer, self._location = (self._location, self._operation), self._location_of(op)
        self._operation = op
        rule = self._rules(op)
        if rule is None:
            raise self.unsupported(f"the operation {operation_name(op)}")
        self._widens = rule.rounds
        is_start = any(result in self._starts for result in op.results)
        lowered = () if is_start else self.lowered(rule, op)
        self._widens = False
        results = lowered if isinstance(lowered, tuple) else (lowered,)
        for value, expression in zip(op.results, results):
            if expression is not None:
                if rule.rounds and _is_narrow(value):
                    expression = numerics.convert(expression, self.dtype(value))
                self.define(value, expression)
        if self._after is not None:
            self._after(self, op)
        self._location, self._operation = outer

    def blocks(self, region: Region, prologue: list[ast.stmt] | None = None) -> None:
        """Lower a region of one or more blocks: each runs once, with the programs
        that are sent to it.

        Args:
            prologue: the place of operations of the first block that do not depend on the program.
        """
        first, *later = in_order_of_jumps(region)
        for block in later:
            self._expect(block)
        for op in first.ops:
            if prologue is not None and self._is_hoistable(op):
                self._scopes.append(prologue)
                self.operation(op)
                self._scopes.pop()
                self._hoisted.update(op.results)
            else:
                self.operation(op)
        for block in later:
            self._enter(block)

    def combine_function(self, region: Region) -> Expression:
        """A function of a reduction's region: takes elements on the left, then those on the right,
        as arrays of one shape.
        """
        if any(op.regions for op in region.walk()):
            return tiles.by_element(self.element_function(region))
        return self._function_of(region, [])

    def element_function(self, region: Region) -> Expression:
        """A function of a region of scalars: takes `elements`, then arrays
        with one entry for each element.

        Elements take the place of programs: when control flow diverges, some elements are active.
        """
        elements = self.fresh("elements")
        outer, self.programs = self.programs, variable(elements)
        self._inside_element_function = True
        function = self._function_of(region, [elements])
        self.programs = outer
        self._inside_element_function = False
        return function

    def _function_of(self, region: Region, parameters: list[str]) -> Expression:
        self._refuse_programs_in(region)
        name = self.fresh("combine")
        parameters = [*parameters, *(self.bind(argument) for argument in region.block.args)]
        active, self.active = self.active, None
        with self._collected() as body:
            self.operations(region.block)
            values = tuple(self.without_underlying_object(value) for value in yielded(region.block))
            self.statement(ast.Return(as_node(values)))
        self.active = active
        self.statement(function_definition(name, parameters, body))
        return variable(name)

    def _refuse_programs_in(self, region: Region) -> None:
        """Refuse a program id in a region that runs for the elements of all programs at once."""
        for op in region.walk():
            from_outside = (o for o in op.operands if not region.is_ancestor(o.owner))
            if isinstance(op, tt.GetProgramIdOp) or self.varies(*from_outside):
                self._location = self._location_of(op)
                raise self.unsupported("tl.program_id in a function of elements")

    def warp_group(self, region: Region, returned: Sequence[SSAValue]) -> Expression:
        """A coroutine of a group of warps that returns the values `returned`; see `pause`."""
        for op in region.walk():
            for operand in op.operands:
                if operand in self._expressions:
                    # From outside: the coroutine reads it when it runs, however late that is.
                    self._tile_names.discard(self._expressions[operand].name or "")
        name = self.fresh("group")
        outer, self.warp_group_name = self.warp_group_name, name
        with self._collected() as body:
            self.operations(region.block)
            self.statement(ast.Return(as_node(tuple(self[value] for value in returned))))
        self.warp_group_name = outer
        never = ast.Expr(ast.Yield())  # what makes a coroutine of a group that waits nowhere
        self.statement(function_definition(name, [], [*body, never]))
        return variable(name)

    def define(self, value: SSAValue, expression: Expression) -> None:
        """From here on `value` is the expression's value, evaluated here."""
        if expression.name is not None:
            self._expressions[value] = expression
            if _leaves_its_block(value):
                self._tile_names.discard(expression.name)
            return
        name = self.bind(value)
        self.assign(name, expression)
        if (
            self.releases_tiles
            and shape(value.type)
            and not _leaves_its_block(value)
            and value not in self._kept
        ):
            self._tile_names.add(name)

    # The kernel as a whole

    def kernel(self, name: str) -> ast.Module:
        """A module that defines the kernel's function."""
        block = self.function.body.blocks[0]
        parameters = self._bind_arguments(block)
        prologue = self._address_space()
        with self._collected() as body:
            self.blocks(self.function.body, prologue)
        self._scopes.append(prologue)
        self.statement(function_definition(name, ["programs"], [*self._beginning, *body]))
        self.statement(ast.Return(as_node(variable(name))))
        outer = function_definition(name, [*parameters, "grid"], self._scopes.pop())
        self._scopes.append([])
        self.statement(outer)
        return ast.Module(list(self._scopes.pop()), [])

    def _address_space(self) -> list[ast.stmt]:
        """Statements that find the tensor at an address, if the kernel has pointers that are
        addresses, or assembly, in which all are.
        """
        has_assembly = any(isinstance(op, tt.ElementwiseInlineAsmOp) for op in self.function.walk())
        if ADDRESS not in self._underlying_objects.values() and not has_assembly:
            return []
        self._everything = self.fresh("everything")
        self._scopes.append([])
        arguments = tuple(variable(name) for name in self._buffers.values())
        self.assign(self._everything, address_space.AddressSpace(arguments))
        return self._scopes.pop()

    # Blocks that programs are sent to

    def send(
        self, block: Block, values: Sequence[SSAValue], condition: Expression | None = None
    ) -> None:
        """Active programs whose condition holds continue at `block`, with `values` as arguments."""
        if block not in self._arrived:
            raise self.unsupported("a jump backwards")
        going = self.fresh("going")
        holds: Operand = True if condition is None else condition
        self.assign(going, tiles.narrowed(self.active_programs(), holds, self.programs.count))
        for argument, value in zip(block.args, values):
            name = self.variable_of(argument)
            new = self.passed(value, argument)
            merged = tiles.merge(variable(going), new, variable(name), self.rank(value))
            self.assign(name, merged)
        arrived = self._arrived[block]
        self.assign(arrived, variable(arrived) | variable(going))

    def _expect(self, block: Block) -> None:
        self._arrived[block] = self.fresh("arrived")
        self.assign(self._arrived[block], tiles.no_one(self.programs.count))
        for argument in block.args:
            self.assign(self.bind(argument), None)

    def _enter(self, block: Block) -> None:
        """Run `block` with the programs that arrived; from here on none can be sent there."""
        arrived, active = variable(self._arrived.pop(block)), self.fresh("active")
        with self.when(arrived.any()):
            self.assign(active, tiles.some(arrived))
            with self.only(active):
                self.operations(block)

    def variables(self) -> dict[SSAValue, str]:
        named = ((value, expression.name) for value, expression in self._expressions.items())
        return {value: name for value, name in named if name is not None}

    def _bind_arguments(self, block: Block) -> list[str]:
        """Name the arguments; a pointer's value is its offset, 0, and its name the buffer's."""
        self._buffers: dict[SSAValue, str] = {}
        self._start = self.constant(numpy.int64(0), hint="start")
        for argument in block.args:
            if is_pointer(argument.type):
                self._buffers[argument] = self.fresh(self._hint(argument))
                self._expressions[argument] = self._start
            else:
                self.bind(argument)
            self._hoisted.add(argument)
        return [self._buffers.get(a) or str(self._expressions[a].name) for a in block.args]

    def _is_hoistable(self, op: Operation) -> bool:
        rule = self._rules(op)
        return (
            rule is not None
            and rule.pure
            and not op.regions
            and all(operand in self._hoisted for operand in op.operands)
            and not self.varies(*op.results)
        )

    # Names and positions

    def _hint(self, value: SSAValue) -> str:
        op = value.owner if isinstance(value.owner, Operation) else None
        named = locate(op.location).name if op is not None else None
        return named or value.name_hint or "value"

    def _location_of(self, op: Operation) -> Location:
        """The origin of the operation; one without a location has that of the last one."""
        location = locate(op.location)
        return location if location.frames else self._location


def in_order_of_jumps(region: Region) -> list[Block]:
    """The blocks of a region, each after those that jump to it."""
    ordered: list[Block] = []
    seen: set[Block] = set()

    def visit(block: Block) -> None:
        if block not in seen and block.last_op is not None:
            seen.add(block)
            for successor in reversed(block.last_op.successors):
                visit(successor)
            ordered.append(block)

    visit(region.blocks[0])
    return ordered[::-1]


def _largest_tile(function: tt.FuncOp) -> int:
    sizes = [
        int(numpy.prod(shape(value.type))) * dtype(value.type).itemsize
        for op in function.walk()
        for value in op.results
        if shape(value.type) and not is_pointer(value.type)
    ]
    return max(sizes, default=1)


def _leaves_its_block(value: SSAValue) -> bool:
    """True if a block that is jumped to later still reads `value`, which must be kept."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    if block is None or block.parent is None or len(block.parent.blocks) == 1:
        return False
    return any(block.find_ancestor_op_in_block(use.operation) is None for use in value.uses)


def _is_narrow(value: SSAValue) -> bool:
    """True for floats of fewer than 32 bits."""
    kind = dtype(value.type)
    return kind.itemsize < 4 and kind.kind not in "iub"


# How often programs enter each block of a kernel: an instrument of the emitter, for runs that
# are observed.


def emit_entry_events(emitter: Emitter, op: Operation) -> None:
    """After the first operation of a block, notify the observer which programs are there.

    The kernel's first block is left out: every program enters it once,
    and what no program changes is computed outside of it.
    """
    block = op.parent
    if block is None or op is not block.first_op:
        return
    if block is emitter.function.body.blocks.first or in_region_of_elements(op):
        return
    entered = emitter.constant(block, hint="block")
    active = emitter.active_programs()
    emitter.evaluate(None, observer.entered(entered, emitter.programs.count, active))


# When each operation of a kernel is done: an instrument of the emitter, for runs that are
# profiled.


def emit_passing_events(emitter: Emitter, op: Operation) -> None:
    """After an operation, notify the observer that the programs that take part have passed it."""
    if in_region_of_elements(op):
        return
    passed = emitter.constant(op, hint="operation")
    emitter.evaluate(None, observer.passed(passed, emitter.active_programs()))
