"""A kernel as code for stepping: one function for each function of its source, one program at a
time, with the kernel's own names in the locals of every frame.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from kernellab import triton_api
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.passes import module_after
from kernellab.interpreter.codegen.analyses import ADDRESS, underlying_objects
from kernellab.interpreter.codegen.emitter import RuleOf, in_order_of_jumps, rule_of
from kernellab.interpreter.codegen.expressions import BUILTINS
from kernellab.interpreter.codegen.stepping_emitter import (
    HOOK,
    PROGRAM_ID,
    SHOWN,
    STOP,
    Callee,
    SteppingEmitter,
    TracedLine,
    generated,
    without_made_up_lines,
)
from kernellab.interpreter.execution import inspection
from kernellab.interpreter.execution.grid import GridSizes, Programs
from kernellab.interpreter.execution.program import (
    HIDDEN_FILE,
    MODULES,
    TTIR,
    CodeOrigin,
    ProgramCode,
    entry_of,
    hidden,
    kept_code,
    nested_codes,
    program_code,
    told_of_nesting,
    with_plain_names,
)
from kernellab.interpreter.lowering.asynchrony import deferred
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import AddressSpace
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.observers import RunObserver
from kernellab.ir import mlir, tt, ttng
from kernellab.ir.operations import argument_name, locate
from kernellab.ir.syntax import read_module
from kernellab.ir.types import is_pointer
from kernellab.records import Target
from kernellab.triton_api import (
    DEBUG_RECORD,
    Constant,
    DebugRecord,
    DebugRecords,
    Held,
    SourceFunction,
)
from kernellab.triton_api import Operand as MarkedOperand


def _go_on() -> None:
    """The effect of `breakpoint()` without a debugger."""


@dataclass(frozen=True)
class SteppingFunction:
    """One function of the kernel's source.

    Attributes:
        source: the function in the source.
        code: its code object.
        names: the kernel's own names among its variables.
        called: its name in the code of other functions.
        constants: the objects that its code refers to by name.
    """

    source: SourceFunction
    code: CodeType
    names: frozenset[str]
    called: str
    constants: Mapping[str, Any]


@dataclass(frozen=True)
class SteppingCode:
    """The code for stepping of one specialization of a kernel.

    Attributes:
        functions: the kernel first, then each function that it calls, by their code objects.
        start: makes the kernel's parameters from its arguments, and calls the kernel.
        lines: the lines with which traced code calls its hook, by number.
        breakpoints: (file, line) of every `breakpoint()`.
        batch: the code for batches of the same specialization.
        program: the common parts of both kinds of code, for faults and observers: code objects,
            locations, operations, variables.
    """

    functions: Mapping[CodeType, SteppingFunction]
    start: CodeType
    lines: tuple[TracedLine, ...]
    breakpoints: tuple[tuple[str, int], ...]
    batch: ProgramCode
    program: ProgramCode

    @property
    def entry(self) -> SteppingFunction:
        return next(iter(self.functions.values()))

    def lines_with_code(self, file: str) -> tuple[int, ...]:
        """The lines of a file at which a debugger can stop, in order."""
        lines = {
            line
            for function in self.functions.values()
            if function.source.file == file
            for _, _, line in function.code.co_lines()
            if line is not None and line != function.source.line
        }
        return tuple(sorted(lines))

    def prepared(
        self,
        arguments: Sequence[Any],
        grid: GridSizes,
        hook: Any = None,
        observer: RunObserver | None = None,
        stop: Callable[[], None] | None = None,
        seen_as: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        late: Mapping[str, Any] | None = None,
    ) -> Callable[[Programs], Any]:
        """Return a function that runs one program, or makes a coroutine if programs wait.

        Args:
            arguments: as code for batches takes them.
            grid: the launch's.
            hook: the object that traced code calls: `hook.line(number)` before every line,
                `hook.bound(names, values)` after names were given values, and where operations are
                traced, `hook.operation(number, results)` after each.
            observer: is notified of every access.
            stop: the function that each `breakpoint()` calls in code that is not traced.
            seen_as: the globals of a function's source as its frames show them; they are not
                changed if left out.
            late: the modules of a run whose asynchronous operations complete late.
        """
        through = self.batch.watched or global_memory
        instead = {} if observer is None else observer.modules(through)
        modules = {**MODULES, "memory": through, **(late or {}), **instead}
        start = self._loaded(modules, hook, stop or _go_on, seen_as or dict)
        values: list[Any] = []
        for argument in arguments:
            values += [argument, _FIRST] if isinstance(argument, Buffer) else [argument]
        everything = AddressSpace(tuple(a for a in arguments if isinstance(a, Buffer)))
        return lambda programs: start((OneProgram(programs), grid, everything, *values))

    def _loaded(
        self,
        modules: Mapping[str, Any],
        hook: Any,
        stop: Callable[[], None],
        seen_as: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> Callable[[Any], Any]:
        """Functions with separate globals: their source's, and objects for generated code."""
        shared = {generated(name): module for name, module in modules.items()}
        shared |= {generated(name): getattr(builtins, name) for name in BUILTINS}
        shared |= {SHOWN: inspection, HOOK: hook, STOP: stop}
        made: dict[str, types.FunctionType] = {}
        scopes: list[dict[str, Any]] = []
        for function in self.functions.values():
            own = seen_as(triton_api.scope_of(function.source.function.fn))
            scope = {"np": numpy, **own, **shared, **function.constants}
            made[function.called] = types.FunctionType(function.code, scope)
            scopes.append(scope)
        for scope in scopes:
            scope |= made
        start = {**shared, **self.entry.constants, **made, "__name__": __name__}
        return types.FunctionType(self.start, start)


_FIRST = numpy.int64(0)
"""The offset of a pointer that is a parameter."""


class OneProgram:
    """A program that runs alone: its ids are scalars.

    Attributes:
        x, y, z: its id, int32.
        count: 1.
    """

    count = 1

    def __init__(self, programs: Programs) -> None:
        self.x, self.y, self.z = (numpy.int32(number) for number in programs.id(0))
        self.name = programs.name
        self._once: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """The result of `make` at the first call with that name."""
        if name not in self._once:
            self._once[name] = make()
        return self._once[name]

    def id_in(self, grid: GridSizes) -> numpy.int32 | tuple[int, int, int]:
        """The number along x in a grid of one dimension, else the whole id."""
        if grid.y == grid.z == 1:
            return self.x
        return int(self.x), int(self.y), int(self.z)


# Making the code


MOST_KEPT = 64
"""Specializations of a kernel whose code for stepping is kept."""


@told_of_nesting
def stepping_code(
    kernel: Any,
    call: BoundCall,
    target: Target,
    *,
    traced: bool = False,
    traces_operations: bool = False,
    is_late: bool = False,
) -> SteppingCode:
    """The code for stepping through a call, from the kernel's own store or made now.

    Args:
        traced: let the code call a hook before every line; see `SteppingCode.prepared`.
        traces_operations: and after every operation.
        is_late: as for `program_code`.

    Raises:
        CompileError, UnsupportedOperation, KernelLabError: as `program_code`.
    """

    def make() -> SteppingCode:
        return _made(kernel, call, target, *how)

    how = traced, traces_operations, is_late
    return kept_code(make, "code for stepping", MOST_KEPT, kernel, call, target, *how)


def _made(
    kernel: Any,
    call: BoundCall,
    target: Target,
    traced: bool,
    traces_operations: bool,
    is_late: bool,
) -> SteppingCode:
    is_compiled = is_late and not kernel.is_gluon()
    batch = program_code(kernel, call, target, "ttgir" if is_compiled else TTIR, is_late=is_late)
    rules = deferred(kernel) if is_late else rule_of
    if is_compiled:
        read = read_module(module_after(kernel, call, target, "ttgir"))
        records: DebugRecords = _records_of_lines(entry_of(read), kernel, call)
        return _Maker(read, records, batch, traced, traces_operations, rules).code()
    module, records = triton_api.make_ttir_with_debug_info(
        kernel, call.specialization, target, call.options
    )
    with triton_api.freed_after(module):
        read = read_module(triton_api.generic_text(module))
    return _Maker(read, records, batch, traced, traces_operations, rules).code()


def _records_of_lines(function: tt.FuncOp, kernel: Any, call: BoundCall) -> DebugRecords:
    """Put debug records into a compiled function: its parameters, and the operations at which the
    kernel's line changes. The values of its variables are no longer known.
    """
    made = triton_api.definition_of(kernel)
    assert made.file is not None
    place = weakref.ref(kernel), str(kernel.src), kernel.__name__, made.file, made.line
    block = function.body.blocks.first
    assert block is not None
    names: dict[str, Held] = {
        str(kernel.arg_names[path[0]]): Constant(value)
        for path, value in call.specialization.constants.items()
        if len(path) == 1
    }
    arguments = [(argument_name(argument), argument) for argument in block.args]
    shown = [(name, argument) for name, argument in arguments if name and name.isidentifier()]
    names |= {name: MarkedOperand(number) for number, (name, _) in enumerate(shown)}
    records = [DebugRecord("enter", made.line, names, function=SourceFunction(*place))]

    def mark(op: Operation, *operands: SSAValue) -> None:
        prefix = builtin.StringAttr(f"{DEBUG_RECORD}{len(records) - 1}")
        mark = tt.PrintOp.create(operands=operands, properties={"prefix": prefix})
        Rewriter.insert_op(mark, InsertPoint.before(op))

    assert block.first_op is not None
    operations = [(op, op.parent_block()) for op in function.body.walk()]
    mark(block.first_op, *(argument for _, argument in shown))
    lines: dict[Block | None, int] = {}
    for op, around in operations:
        frames = locate(op.location).frames
        is_own = frames and frames[-1].file == made.file and frames[-1].line != made.line
        if is_own and not isinstance(op, mlir.ConstantOp) and frames[-1].line != lines.get(around):
            lines[around] = frames[-1].line
            records.append(DebugRecord("line", frames[-1].line))
            mark(op)
    return records


class _Maker:
    """Makes the functions of one kernel: the entry, and each function that it calls."""

    def __init__(
        self,
        module: ModuleOp,
        records: DebugRecords,
        batch: ProgramCode,
        traced: bool,
        traces_operations: bool,
        rules: RuleOf,
    ) -> None:
        self.rules = rules
        self._functions = {op.sym_name.data: op for op in module.ops if isinstance(op, tt.FuncOp)}
        self._entry = entry_of(module)
        self._debug_records = records
        self._batch = batch
        self.traced = traced or traces_operations
        self.traces_operations = traces_operations
        self.locations = list(batch.locations)
        self.located = list(batch.operations)
        self.lines: list[TracedLine] = []
        self._variables: dict[SSAValue, str] = dict(batch.variables)
        self._callees: dict[tuple[str, tuple[bool, ...], str], Callee] = {}
        self._made: list[SteppingFunction] = []
        self._breakpoints: dict[tuple[str, int], None] = {}
        self._returns_into = functools.cache(self._found_returns)
        self._take_out_inlined_debug_records()

    def code(self) -> SteppingCode:
        self._callee(self._entry, ())
        kernel, *others = reversed(self._made)
        start = self._start
        functions = {function.code: function for function in (kernel, *others)}
        assert len(functions) == len(self._made)
        module, *_ = self._batch.origin()
        origin = CodeOrigin(module, tuple(self.locations), tuple(self.located), self._variables)
        program = dataclasses.replace(
            self._batch,
            codes=self._batch.codes | {c for code in functions for c in nested_codes(code)},
            origin=lambda: origin,
        )
        return SteppingCode(
            functions, start, tuple(self.lines), tuple(self._breakpoints), self._batch, program
        )

    # What the functions share

    def debug_record_of(self, op: Operation) -> DebugRecord | None:
        """What a debug record says; None for any other operation."""
        if not isinstance(op, tt.PrintOp | tt.CallOp):
            return None
        text = op.prefix.data if isinstance(op, tt.PrintOp) else _symbol(op)
        if not text.startswith(DEBUG_RECORD):
            return None
        return self._debug_records[int(text.removeprefix(DEBUG_RECORD))]

    def takes_turns(self) -> bool:
        return self._batch.watched is not None

    def callee(self, call: tt.CallOp, addresses: tuple[bool, ...], warp_group: str) -> Callee:
        """The function that a call calls, made for the pointers among its arguments
        that are addresses, and for the group of warps that calls.
        """
        return self._callee(self._called(call), addresses, warp_group)

    def _called(self, call: tt.CallOp) -> tt.FuncOp:
        return self._functions[_symbol(call)]

    def results_point_into(self, call: tt.CallOp) -> tuple[int | None, ...]:
        """For each result of a call, the one argument that it can point into, or None."""
        if self.debug_record_of(call) is not None:
            return ()
        return self._returns_into(_symbol(call))

    def _found_returns(self, symbol: str) -> tuple[int | None, ...]:
        function = self._functions[symbol]
        known = underlying_objects(function, (), self.results_point_into)
        returns = [op for op in function.walk() if isinstance(op, tt.ReturnOp)]
        reached = [op for op in returns if not _is_unreachable(op)]
        results: list[int | None] = []
        for values in zip(*(op.values for op in reached)):
            into = {known.get(value) if is_pointer(value.type) else ADDRESS for value in values}
            only = into.pop() if len(into) == 1 else ADDRESS
            results.append(None if only is ADDRESS else only.index)
        return tuple(results)

    # One function

    def _callee(
        self, function: tt.FuncOp, addresses: tuple[bool, ...], warp_group: str = ""
    ) -> Callee:
        key = function.sym_name.data, addresses, warp_group
        if key not in self._callees:
            callee = self._described(function, len(self._callees), warp_group)
            self._callees[key] = callee
            self._make(callee, addresses, warp_group)
        return self._callees[key]

    def _described(self, function: tt.FuncOp, number: int, warp_group: str) -> Callee:
        records = ((op, self.debug_record_of(op)) for op in function.body.walk())
        enter, record = next((op, r) for op, r in records if r is not None and r.kind == "enter")
        assert record.function is not None
        name = generated(f"{record.function.name}_{number}")
        is_coroutine = self._is_coroutine(function) or (warp_group and self._waits(function))
        return Callee(name, function, enter, record, bool(is_coroutine))

    def _is_coroutine(self, function: tt.FuncOp) -> bool:
        if not self.takes_turns():
            return False
        return function is self._entry or any(
            isinstance(op, mlir.WhileOp | tt.AtomicPollOp)
            or (isinstance(op, tt.CallOp) and self._is_coroutine(self._called(op)))
            for op in function.walk()
            if self.debug_record_of(op) is None
        )

    def _waits(self, function: tt.FuncOp) -> bool:
        """Whether a group of warps that runs the function lets others continue meanwhile."""
        return any(
            isinstance(op, ttng.WaitBarrierOp)
            or (
                isinstance(op, tt.CallOp)
                and self.debug_record_of(op) is None
                and self._waits(self._called(op))
            )
            for op in function.walk()
        )

    def _make(self, callee: Callee, addresses: tuple[bool, ...], warp_group: str) -> None:
        source = callee.record.function
        assert source is not None
        records = [
            record
            for op in callee.function.walk()
            if (record := self.debug_record_of(op)) is not None
        ]
        names = frozenset(name for record in records for name in record.names)
        returns_into = self._returns_into(callee.function.sym_name.data)
        emitter = SteppingEmitter(
            callee.function, callee.record, names, addresses, returns_into, self, warp_group
        )
        # The program's id is among the kernel's locals, for a debugger.
        names_id = callee.function is self._entry and PROGRAM_ID not in names and not self.traced
        definition = emitter.definition(callee, names_id=names_id)
        code = _compiled(definition, source.file, source.name)
        # Code objects are equal if only the names differ, and those of two functions must not be.
        code = code.replace(co_consts=(*code.co_consts, callee.name))
        self._breakpoints |= {
            (source.file, record.line): None for record in records if record.is_breakpoint
        }
        if callee.function is self._entry:
            self._start = _compiled(emitter.starter(callee), HIDDEN_FILE, "start")
        self._variables |= emitter.variables()
        function = SteppingFunction(source, code, names, callee.name, emitter.constants)
        self._made.append(function)

    def _take_out_inlined_debug_records(self) -> None:
        """Remove the names of helpers that were inlined because of block pointers: they are not
        those of the function around.
        """
        for function in self._functions.values():
            for op in list(function.walk()):
                if self.debug_record_of(op) is not None and len(locate(op.location).frames) > 1:
                    Rewriter.erase_op(op)


def _symbol(call: tt.CallOp) -> str:
    return call.callee.root_reference.data


def _is_unreachable(op: tt.ReturnOp) -> bool:
    region, block = op.parent_region(), op.parent
    assert region is not None
    return block not in in_order_of_jumps(region)


def _compiled(definition: ast.FunctionDef, file: str, name: str) -> CodeType:
    """The code object of a function, under the name that it has in its source."""
    module = compile(ast.Module([definition], []), file, "exec")
    code = next(constant for constant in module.co_consts if isinstance(constant, CodeType))
    code = with_plain_names(without_made_up_lines(code))
    inside = tuple(
        hidden(const) if isinstance(const, CodeType) else const for const in code.co_consts
    )
    return code.replace(co_name=name, co_qualname=name, co_consts=inside)
