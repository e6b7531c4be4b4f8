"""The emitter for stepping: the same rules, for one program, as Python functions
that a debugger walks through.
"""

from __future__ import annotations

import ast
import copy
import dis
from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import groupby
from types import CodeType
from typing import Any, Protocol

import numpy
from xdsl.ir import Block, Operation, Region, SSAValue

from kernellab.common.patches import replaced
from kernellab.errors import SourcePosition
from kernellab.interpreter.codegen import analyses, emitter
from kernellab.interpreter.codegen.code_writer import function_definition
from kernellab.interpreter.codegen.expressions import (
    BUILTINS,
    MODULES,
    Expression,
    as_node,
    literal,
    variable,
)
from kernellab.ir import mlir, tt
from kernellab.ir.operations import Location
from kernellab.ir.types import MemDescType, TensorDescType, is_pointer
from kernellab.triton_api import Constant, DebugRecord, Group, Held
from kernellab.triton_api import Operand as MarkedOperand

# Lines of a code object, rewritten: instructions that belong to no line of the source get none.
#
# Python numbers every statement that it compiles. Where generated code joins values after a
# branch there is no place in the source, and a debugger that stopped there would jump about.
# Such statements are compiled at `NO_LINE`, and lose their line here. The format is CPython's
# for 3.11 and later (Objects/locations.md in its sources).


NO_LINE = 1 << 29
"""The line of statements that shall have none."""

_LONG_FORM, _NO_LOCATION = 14, 15
_MOST_UNITS = 8
"""The most code units that one entry can cover."""

_CACHE = dis.opmap.get("CACHE", 0)
_JUMPS_BACK = {dis.opmap[name] for name in dis.opmap if name.startswith("JUMP_BACKWARD")}

Position = tuple[int | None, int | None, int | None, int | None]
"""Line, end line, column, end column of an instruction, as `co_positions` gives them."""


def without_made_up_lines(code: CodeType) -> CodeType:
    """The code, and all code inside it, with no line where the line is `NO_LINE`."""
    constants = tuple(
        without_made_up_lines(const) if isinstance(const, CodeType) else const
        for const in code.co_consts
    )
    table = bytes(_entries(_positions(code), code.co_firstlineno))
    return code.replace(co_consts=constants, co_linetable=table)


def _positions(code: CodeType) -> Iterator[Position]:
    """The position of each code unit; none of a jump back, so that a loop's line has its turn."""
    jumps_back = False
    for position, opcode in zip(code.co_positions(), code.co_code[::2], strict=True):
        if opcode != _CACHE:
            jumps_back = opcode in _JUMPS_BACK
        yield (None, None, None, None) if jumps_back else position


def _entries(positions: Iterable[Position], first_line: int) -> Iterator[int]:
    line = first_line
    for position, run in groupby(positions):
        units = sum(1 for _ in run)
        while units:
            covered = min(units, _MOST_UNITS)
            units -= covered
            start = position[0]
            if start is None or start >= NO_LINE:
                yield 0x80 | _NO_LOCATION << 3 | covered - 1
                continue
            yield 0x80 | _LONG_FORM << 3 | covered - 1
            yield from _signed(start - line)
            yield from _unsigned((position[1] or start) - start)
            yield from _unsigned(_from_one(position[2]))
            yield from _unsigned(_from_one(position[3]))
            line = start


def _from_one(column: int | None) -> int:
    return 0 if column is None else column + 1


def _signed(value: int) -> Iterator[int]:
    return _unsigned(-value << 1 | 1 if value < 0 else value << 1)


def _unsigned(value: int) -> Iterator[int]:
    """Six bits a byte, the lowest first; the seventh says that more follow."""
    while value >= 0x40:
        yield 0x40 | value & 0x3F
        value >>= 6
    yield value


# Pieces of Python's syntax that code for stepping is made of.


def parts_ways(statement: ast.stmt) -> bool:
    """Whether what runs after the statement may come from more than one line."""
    if isinstance(statement, ast.If):
        return not isinstance(statement.body[0], ast.Break)
    return isinstance(statement, ast.For | ast.While | ast.FunctionDef)


def without_positions(statement: ast.stmt) -> ast.stmt:
    """Return a copy: expressions are shared, and each takes the position
    of its first statement. Statements inside are as they are.
    """
    copied = copy.copy(statement)
    for name, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            continue
        fresh = copy.deepcopy(value)
        for node in fresh if isinstance(fresh, list) else [fresh]:
            if isinstance(node, ast.AST):
                _forget_positions(node)
        setattr(copied, name, fresh)
    return copied


def _forget_positions(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        for attribute in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            vars(node).pop(attribute, None)


def function_on_line(
    name: str,
    parameters: Iterable[str],
    body: list[ast.stmt],
    line: int,
    keywords: Sequence[str] = (),
) -> ast.FunctionDef:
    """Return a function whose `def` is on a line, like the parts of its body without a line."""
    made = function_definition(name, parameters, body, keywords)
    for node in ast.walk(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            vars(node).update(lineno=line, end_lineno=line, col_offset=0, end_col_offset=0)
    return made


# Names
#
# A kernel may call its variables anything: `tiles`, `range`, `_hook`. Other names in generated code
# therefore have a dot, which a source's names cannot have.

_GENERATED = "_."
_OF_KERNEL = "kernel."


def generated(name: str) -> str:
    """Return a name for generated code that no kernel has."""
    return f"{_GENERATED}{name}"


def read_of_kernel(name: str) -> Expression:
    """Reads a variable of the kernel, until `make_names_unique` under a name that no module has."""
    return variable(f"{_OF_KERNEL}{name}")


def make_names_unique(function: ast.FunctionDef) -> None:
    """Give the kernel's variables their names, and modules and built-ins others."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id.startswith(_OF_KERNEL):
                node.id = node.id.removeprefix(_OF_KERNEL)
            elif node.id in MODULES or node.id in BUILTINS:
                node.id = generated(node.id)


# The emitter for stepping: the same rules, for one program, as Python functions that a debugger
# walks through.
#
# What differs from batches: nothing is computed ahead of the program, no variable is let go,
# branches and loops are Python's own, and every function of the kernel's source is a function.
# The debug records of the front end (`triton_api/debug_info.py`) become lines and locals. The
# generated code's own variables begin with an underscore; what it refers to outside the function
# has names that no source can have.


HOOK = generated("hook")
"""The name under which traced code knows its hook."""

STOP = generated("stop")
"""The name under which code that is not traced knows what a `breakpoint()` calls."""

SHOWN = generated("shown")
"""The name under which code knows the module `inspection`."""

_PROGRAMS, _GRID, _EVERYTHING, _VALUES = map(
    generated, ("programs", "grid", "everything", "values")
)

PROGRAM_ID = "pid"
"""The local of a kernel's frame that holds the program's id, unless the kernel has a variable
of that name."""


@dataclass(frozen=True)
class TracedLine:
    """A place where traced code calls its hook: a statement begins,
    or a loop's line has its turn again.

    Attributes:
        file, line: the statement's own.
        function: the name of its function.
    """

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Callee:
    """A function of the kernel's source for one call's kinds of pointers.

    Attributes:
        name: what generated code calls it.
        enter: the debug record at its beginning.
        record: what that says.
        is_coroutine: it lets other programs continue meanwhile.
    """

    name: str
    function: tt.FuncOp
    enter: Operation
    record: DebugRecord
    is_coroutine: bool


class ModuleContext(Protocol):
    """The state that the functions of one kernel share."""

    locations: list[Location]
    located: list[Operation]
    lines: list[TracedLine]
    traced: bool
    traces_operations: bool
    rules: emitter.RuleOf

    def debug_record_of(self, op: Operation) -> DebugRecord | None: ...

    def callee(self, call: tt.CallOp, addresses: tuple[bool, ...], warp_group: str) -> Callee: ...

    def takes_turns(self) -> bool: ...

    @property
    def results_point_into(self) -> analyses.PointsInto: ...


class SteppingEmitter(emitter.Emitter):
    """Lowers one function of a kernel's source."""

    releases_tiles = False

    def __init__(
        self,
        function: tt.FuncOp,
        record: DebugRecord,
        names: frozenset[str],
        addresses: tuple[bool, ...],
        returns_into: tuple[int | None, ...],
        surroundings: ModuleContext,
        warp_group: str = "",
    ) -> None:
        """A function of which `record` says what it is.

        Args:
            names: the kernel's own in this function.
            addresses: for each argument, whether it is a pointer that is an address.
            returns_into: for each result, the one argument that it can point into, or None.
            warp_group: the name of the group of warps that runs it, "" outside of any.
        """
        assert record.function is not None
        # Calls stay calls, except in functions of single elements, which run on whole tiles.
        analyses.inline_calls_of_elements(function, surroundings.debug_record_of)
        facts = emitter.FunctionFacts(
            starts=frozenset(),  # Functions are given pointers from anywhere.
            varying=analyses.varying_elements(function),  # There is one program.
            underlying_objects=analyses.underlying_objects(
                function, addresses, surroundings.results_point_into
            ),
        )
        super().__init__(function, record.function.file, facts, rules=surroundings.rules)
        self.warp_group_name = warp_group
        self._around = surroundings
        self._returns_into = returns_into
        self.record = record
        self.locations = surroundings.locations
        self.located = surroundings.located
        self.programs, self.grid = variable(_PROGRAMS), variable(_GRID)
        self._everything = _EVERYTHING
        self._taken |= names
        self._dtype_names: dict[Any, str] = {}
        self._line = record.line
        self._straight: int | None = None
        """The line of what ran last, if only one statement can have run last."""
        self._has_no_line = False

    # The function

    def definition(self, callee: Callee, *, names_id: bool) -> ast.FunctionDef:
        """The function; it takes what its parameters show as, and the values themselves
        by a keyword. Where `names_id`, it begins with `PROGRAM_ID` among its locals.
        """
        block = self.function.body.blocks[0]
        with self._collected() as body:
            self._straight = None
            with self.without_line():
                self._unpack(block)
                if names_id:
                    self.assign(PROGRAM_ID, self.programs.id_in(self.grid))
            self.blocks(self.function.body)
        if callee.is_coroutine:
            body.insert(0, ast.If(ast.Constant(False), [ast.Expr(ast.Yield())], []))
        names, line = self.record.names, self.record.line
        function = function_on_line(callee.name, names, body, line, [_VALUES])
        make_names_unique(function)
        return function

    def starter(self, callee: Callee) -> ast.FunctionDef:
        """The function that a launch calls; it calls the kernel with its parameters' values."""
        block = self.function.body.blocks[0]
        with self._collected() as body:
            given = self.fresh("given")
            self.assign(given, variable(_VALUES))
            self._unpack(block)
            operands = callee.enter.operands
            parameters = [self._shown(held, operands) for held in callee.record.names.values()]
            called = variable(callee.name)(*parameters, **{_VALUES: variable(given)})
            self.statement(ast.Return(called.node))
        function = function_on_line("start", [_VALUES], body, 1)
        make_names_unique(function)
        return function

    def _unpack(self, block: Block) -> None:
        self._buffers = {}
        names = [_PROGRAMS, _GRID, _EVERYTHING]
        for argument in block.args:
            if (
                is_pointer(argument.type)
                and self._underlying_objects.get(argument) is not analyses.ADDRESS
            ):
                self._buffers[argument] = self.fresh("buffer")
                names.append(self._buffers[argument])
            names.append(self.bind(argument))
        self.assign(names, variable(_VALUES))
        self.statement(ast.Delete([ast.Name(_VALUES, ast.Del())]))

    def _passed_pointer(self, pointer: SSAValue) -> list[Expression]:
        """A pointer as an argument of a call: buffer and offset, if there is a buffer."""
        if self._underlying_objects.get(pointer) is analyses.ADDRESS:
            return [self[pointer]]
        return [self.buffer(pointer), self[pointer]]

    def call(self, op: tt.CallOp) -> tuple[Expression, ...]:
        """A call of another function of the source."""
        addresses = tuple(
            is_pointer(value.type) and self._underlying_objects.get(value) is analyses.ADDRESS
            for value in op.arguments
        )
        callee = self._around.callee(op, addresses, self.warp_group_name)
        values: list[Expression] = [self.programs, self.grid, variable(_EVERYTHING)]
        for value in op.arguments:
            values += self._passed_pointer(value) if is_pointer(value.type) else [self[value]]
        parameters = [self._argument(held, callee, op) for held in callee.record.names.values()]
        called = variable(callee.name)(*parameters, **{_VALUES: tuple(values)})
        if callee.is_coroutine:
            called = Expression(ast.YieldFrom(called.node))
        if not op.final:
            self.evaluate(None, called)
            return ()
        results = self.evaluate("results", called)
        if len(op.final) == 1:
            return (results,)
        return tuple(results.item(number) for number in range(len(op.final)))

    def _argument(self, held: Held, callee: Callee, call: tt.CallOp) -> Expression:
        """The value that a parameter shows; its debug record has the callee's arguments."""
        block = callee.function.body.blocks[0]
        given: dict[SSAValue, SSAValue] = dict(zip(block.args, call.arguments))
        return self._shown(held, [given[value] for value in callee.enter.operands])

    def leave(self, values: Sequence[SSAValue]) -> None:
        """`return`: at the line of what ran last. The end of a function needs none."""
        block = self._operation.parent
        if not values and block is not None and block is self._last_block:
            return
        returned = tuple(map(self._returned, values, self._returns_into))
        with self.without_line():
            if self._straight is None:
                self._straight = self._line
            self.statement(ast.Return(as_node(returned[0] if len(returned) == 1 else returned)))

    def _returned(self, value: SSAValue, argument: int | None) -> Expression:
        """A pointer into one of the arguments alone goes back as an offset, others as addresses."""
        is_anywhere = is_pointer(value.type) and argument is None
        return self.address(value) if is_anywhere else self[value]

    # Debug records

    def operation(self, op: Operation) -> None:
        """Lower one operation, or do as a debug record says."""
        record = self._around.debug_record_of(op)
        if record is None:
            super().operation(op)
            if (
                self._around.traces_operations
                and not op.regions
                and not self._inside_element_function
            ):
                self._emit_operation_event(op)
        else:
            self._do_as(record, op)

    def _do_as(self, record: DebugRecord, op: Operation) -> None:
        if record.kind == "line" or (record.kind == "back" and record.is_static):
            self._line = record.line
            self._begin_line(record)
        elif record.kind == "back" and self._around.traced:
            with self.without_line():
                self._emit_line_event(record)
        with self.without_line():
            for name, held in record.names.items():
                if record.kind != "enter":
                    self.assign(name, self._shown(held, op.operands))
            if self._around.traced and record.names and record.kind != "enter":
                names = tuple(record.names)
                values = tuple(map(read_of_kernel, names))
                event = variable(HOOK).bound(self.constant(names, hint="names"), values)
                self.statement(ast.Expr(event.node))

    def _begin_line(self, record: DebugRecord) -> None:
        with self.at_line(record.line):
            if self._around.traced:
                self._emit_line_event(record)
            elif record.is_breakpoint:
                self.statement(ast.Expr(variable(STOP)().node))
            else:
                self.statement(ast.Pass())

    def _emit_line_event(self, record: DebugRecord) -> None:
        assert self.record.function is not None
        line = TracedLine(self.file, record.line, self.record.function.name)
        self._around.lines.append(line)
        number = len(self._around.lines) - 1
        self.statement(ast.Expr(variable(HOOK).line(literal(number)).node))

    def _emit_operation_event(self, op: Operation) -> None:
        """Pass the results of an operation to the hook, None for an unused one."""
        nothing = Expression(ast.Constant(None))
        results = tuple(self[v] if v in self._expressions else nothing for v in op.results)
        number = self._number_of(op)
        with self.without_line():
            event = variable(HOOK).operation(literal(number), results)
            self.statement(ast.Expr(event.node))

    def _number_of(self, op: Operation) -> int:
        """The number of an operation among those that have a location."""
        self.locations.append(self._location_of(op))
        self.located.append(op)
        return len(self.located) - 1

    def _shown(self, held: Held, operands: Sequence[SSAValue]) -> Expression:
        match held:
            case MarkedOperand():
                return self._shown_value(operands[held.number], held)
            case Group():
                parts = {n: self._shown(part, operands) for n, part in held.parts.items()}
                if held.type_name == "tuple":
                    return Expression(as_node(tuple(parts.values())))
                if held.type_name == "namedtuple":
                    return self.constant(namedtuple("fields", list(parts)))(*parts.values())
                keys: list[ast.expr | None] = [ast.Constant(name) for name in parts]
                fields = ast.Dict(keys, [part.node for part in parts.values()])
                return variable(SHOWN).Fields(held.type_name, Expression(fields))
            case Constant():
                if held.value is None or isinstance(held.value, bool | int | float | str):
                    return Expression(ast.Constant(held.value))
                return self.constant(held.value)

    def _shown_value(self, value: SSAValue, held: MarkedOperand) -> Expression:
        shape = self.shape(value)
        if is_pointer(value.type):
            return variable(SHOWN).Pointer(self.buffer(value), self[value], shape)
        if isinstance(value.type, TensorDescType):
            return self[value]
        if isinstance(value.type, MemDescType):
            return variable(SHOWN).OnChip(self[value], held.is_barrier)
        show = variable(SHOWN).unsigned if held.is_unsigned else variable(SHOWN).shown
        return show(self[value], shape)

    # Statements

    def without_line(self) -> AbstractContextManager[None]:
        """Inside, statements are at the last line, so that no debugger stops there."""
        return replaced(self, _has_no_line=True)

    def at_line(self, line: int) -> AbstractContextManager[None]:
        return replaced(self, _fixed_line=line)

    _fixed_line: int | None = None

    def statement(self, statement: ast.stmt) -> None:
        """Append a statement at the source's line for the current operation."""
        statement = without_positions(statement)
        super().statement(statement)
        goes_on = not parts_ways(statement) and statement.lineno < NO_LINE
        self._straight = statement.lineno if goes_on else None

    @contextmanager
    def _collected(self) -> Iterator[list[ast.stmt]]:
        with super()._collected() as collected:
            if not self._has_no_line:
                frame = self._frame()
                self._straight = self._line if frame is None else frame.line
            yield collected

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The `else:` of the `if` just emitted, after which either side ran last."""
        with super().otherwise():
            yield
        self._straight = None

    def _kernel_position(self) -> SourcePosition:
        if self._has_no_line:
            return SourcePosition(self.file, self._straight or NO_LINE)
        if self._fixed_line is not None:
            return SourcePosition(self.file, self._fixed_line)
        return self._frame() or SourcePosition(self.file, self._line)

    def _frame(self) -> SourcePosition | None:
        frames = self._location.frames
        if not frames or frames[-1].file != self.file:
            return None
        # The front end places what starts groups of warps at the `def`.
        return None if frames[-1].line == self.record.line else frames[-1]

    def fresh(self, hint: str) -> str:
        return super().fresh(f"_{hint.lstrip('_')}")

    def once_per_batch(self, name: str, value: Expression) -> Expression:
        """All functions of a program share it."""
        return self.programs.once(Expression(ast.Constant(name)), value.later())

    def constant(self, value: Any, hint: str = "constant") -> Expression:
        """Return a global of the code for an object; equal dtypes share one."""
        key = value if isinstance(value, numpy.dtype) else None
        if key is not None and key in self._dtype_names:
            return variable(self._dtype_names[key])
        constant = super().constant(value, hint)
        if key is not None and constant.name is not None:
            self._dtype_names[key] = constant.name
        return constant

    # Operations

    def lowered(self, rule: emitter.LoweringRule, op: Operation) -> Any:
        """Atomics find one value for each program, and here is one program."""
        lowered = super().lowered(rule, op)
        if isinstance(op, tt.AtomicRMWOp | tt.AtomicCASOp) and isinstance(lowered, Expression):
            return lowered if self._inside_element_function else lowered.item(0)
        return lowered

    def ends_turn(self, _loop: mlir.WhileOp, /) -> bool:
        """Where programs wait for each other, every such loop may be one that waits."""
        return self._around.takes_turns()

    # Jumps: Python's own `if` says which block runs.

    def blocks(self, region: Region, prologue: list[ast.stmt] | None = None) -> None:
        """Lower a region of one or more blocks, of which each runs at most once."""
        if self._inside_element_function:
            super().blocks(region, prologue)
            return
        first, *later = emitter.in_order_of_jumps(region)
        self._last_block = (later or [first])[-1]
        with self.without_line():
            for block in later:
                self._arrived[block] = self.fresh("arrived")
                self.assign(self._arrived[block], False)
                for argument in block.args:
                    self.assign(self.bind(argument), None)
        self.operations(first)
        for block in later:
            arrived = variable(self._arrived.pop(block))
            with self._collected() as body:
                self._straight = None
                self.operations(block)
            with self.without_line():
                self._straight = None
                self.statement(ast.If(arrived.node, body, []))

    _last_block: Block | None = None

    def send(
        self, block: Block, values: Sequence[SSAValue], condition: Expression | None = None
    ) -> None:
        if self._inside_element_function:
            super().send(block, values, condition)
            return
        if block not in self._arrived:
            raise self.unsupported("a jump backwards")
        with self.without_line():
            with self._collected() as body:
                for argument, value in zip(block.args, values):
                    self.assign(self.variable_of(argument), self.passed(value, argument))
                self.assign(self._arrived[block], True)
            if condition is None:
                for statement in body:
                    self.statement(statement)
            else:
                self.statement(ast.If(condition.node, body, []))
