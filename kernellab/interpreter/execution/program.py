"""A kernel as code that runs on the CPU: made once per specialisation, kept with the kernel."""

from __future__ import annotations

import ast
import dataclasses
import functools
import types
import weakref
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from kernellab import triton_api
from kernellab.common.latest import Latest
from kernellab.compiler.passes.snapshots import module_after
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter import foreign_code, lowering
from kernellab.interpreter.analyses.spin_loops import has_spin_loop
from kernellab.interpreter.codegen.emitter import AfterOperation, KernelCode, emit_kernel
from kernellab.interpreter.execution import device_asserts, warp_groups
from kernellab.interpreter.execution.nesting import told_of_nesting
from kernellab.interpreter.memory import (
    address_space,
    descriptors,
    global_memory,
    mbarriers,
    shared_memory,
    tensormaps,
)
from kernellab.interpreter.memory.observing import RunObserver
from kernellab.interpreter.memory.watch import WatchedMemory
from kernellab.interpreter.numerics import numerics, products, tiles
from kernellab.ir import tt
from kernellab.ir.locations import Location
from kernellab.ir.reader import read_module
from kernellab.ir.types import PointerType, TensorDescType, dtype
from kernellab.records import Target

assert lowering  # importing it registers what every operation becomes

TTIR = "ttir"
"""The stage that runs unless another is asked for."""

BATCH_BYTES = 1024 * 1024
"""How large the largest tile of a batch may be:
large enough that Python takes little of the time, small enough for a core's caches."""

_LARGEST_RECYCLED = 31 * 1024 * 1024


def _let_malloc_recycle_tiles() -> None:
    """Free one large block, untouched, so that glibc keeps smaller ones for the next tile instead
    of returning them.

    glibc raises its mmap and trim thresholds to the size of a freed mapping, up to 32 MiB
    (mallopt(3), M_MMAP_THRESHOLD). Until then every tile of some 100 KiB is mapped and faulted in
    anew, which took half the time of a layer norm.
    """
    numpy.empty(_LARGEST_RECYCLED, numpy.uint8)


_let_malloc_recycle_tiles()


@dataclass(frozen=True)
class RuntimeArgument:
    """What the code takes for one argument.

    Attributes:
        dtype: of a number, or of the elements that a pointer or a descriptor leads to.
        role: what it is.
    """

    dtype: numpy.dtype
    role: Literal["number", "pointer", "descriptor"]


@dataclass(frozen=True, eq=False)
class ProgramCode:
    """The generated code of one specialisation of a kernel.

    Attributes:
        prepare: takes the runtime arguments and the grid's sizes; returns the function that runs a
            batch, or where programs wait for each other, makes a coroutine of one.
        module: what the code was made of, with calls inlined.
        codes: the code objects of both functions, to recognise the kernel's own
            frames in a traceback.
        locations: where the code's statements come from; see `code_positions`.
        operations: the operation of each location.
        variables: the name of each value's variable in the code.
        arguments: what the code takes, in order.
        batch: how many programs run together.
        watched: what the code reads and writes memory through where programs wait for each
            other, or are preempted, else None.
        source: the generated code as text, for reading.
    """

    prepare: types.FunctionType
    module: ModuleOp
    codes: frozenset[types.CodeType]
    locations: tuple[Location, ...]
    operations: tuple[Operation, ...]
    variables: Mapping[SSAValue, str]
    arguments: tuple[RuntimeArgument, ...]
    batch: int
    watched: WatchedMemory | None
    source: str

    @functools.cached_property
    def takes_descriptors_apart(self) -> bool:
        """Whether the compiler has made numbers of descriptors:
        the code then takes none as such.
        """
        return all(expected.role != "descriptor" for expected in self.arguments)

    def prepare_observed(self, observer: RunObserver) -> types.FunctionType:
        """As `prepare`, for a run that is observed."""
        scope = {**self.prepare.__globals__, **observer.modules(self.watched or global_memory)}
        return types.FunctionType(self.prepare.__code__, scope)

    def hidden(self) -> ProgramCode:
        """The same, hidden from debuggers."""
        code = hidden(self.prepare.__code__)
        prepare = types.FunctionType(code, self.prepare.__globals__)
        return dataclasses.replace(self, prepare=prepare, codes=frozenset(nested_codes(code)))


MOST_KEPT = 256
"""Specialisations of a kernel whose code is kept."""

_kept: weakref.WeakKeyDictionary[triton_api.MadeOf, Latest[ProgramCode]] = (
    weakref.WeakKeyDictionary()
)
"""By what the kernel was made of: a source or a helper that has changed since is compiled."""


@told_of_nesting
def program_code(
    kernel: Any,
    call: BoundCall,
    target: Target,
    stage: str = TTIR,
    after: AfterOperation | None = None,
) -> ProgramCode:
    """The code for a call, from the kernel's own store or made now.

    Args:
        after: as for `program_of_module`.

    Raises:
        CompileError: the kernel does not compile.
        UnsupportedOperation: the interpreter does not know one of its operations.
        KernelLabError: a global that the kernel was compiled with has changed since.
    """
    programs = _kept.setdefault(triton_api.check_globals(kernel), Latest(MOST_KEPT))
    key = key_of(kernel, call, target, stage, after)
    if key is None:
        return make_program(kernel, call, target, stage, after)
    known = programs.get(key)
    if known is not None:
        return known
    made = make_program(kernel, call, target, stage, after)
    programs.keep(key, made)
    return made


def key_of(kernel: Any, call: BoundCall, target: Target, *how: Hashable) -> Hashable:
    """What a kernel's code depends on beside what the kernel is made of, options among it
    (debug=True keeps assertions); None where that cannot be hashed.
    """
    if call.key is None:
        return None
    try:
        options = frozenset(triton_api.options_of_launch(kernel, call.options).items())
    except TypeError:
        return None
    functions = triton_api.functions_within(call.specialization.constants.values())
    return call.key, target, options, tuple(map(triton_api.made_of, functions)), *how


def make_program(
    kernel: Any,
    call: BoundCall,
    target: Target,
    stage: str = TTIR,
    after: AfterOperation | None = None,
) -> ProgramCode:
    """Triton's front end (and its passes, for a later stage), lowering and Python's own compiler,
    with nothing kept.
    """
    return program_of_text(_generic_text(kernel, call, target, stage), kernel, after)


def _generic_text(kernel: Any, call: BoundCall, target: Target, stage: str) -> str:
    """The IR that runs: for "ttir" only as far as the interpreter needs it,
    for any other stage as the compiler leaves it.
    """
    if stage != TTIR:
        return module_after(kernel, call, target, stage)
    asked = (kernel, call.specialization, target, call.options)
    with triton_api.freed_after(triton_api.make_ttir(*asked)) as module:
        return triton_api.generic_text(module)


def program_of_text(text: str, kernel: Any, after: AfterOperation | None = None) -> ProgramCode:
    """The code of a module in MLIR's generic form that came from `kernel`;
    `after` as for `program_of_module`.
    """
    return program_of_module(read_module(text), kernel, after)


def program_of_module(
    module: ModuleOp,
    kernel: Any,
    after: AfterOperation | None = None,
    *,
    preempts: bool = False,
) -> ProgramCode:
    """The code of a module that came from `kernel`; calls are inlined in the module.

    Args:
        after: adds statements after operations, see `emitter.AfterOperation`.
        preempts: whether these are switch points among them (`Emitter.may_switch`), one at least.
    """
    _refuse_clusters(module, kernel)
    function = entry_of(module)
    file = kernel.fn.__code__.co_filename
    code = emit_kernel(function, file, kernel.__name__, after)
    watched = WatchedMemory() if preempts or has_spin_loop(function) else None
    prepare = _loaded(code, file, {**MODULES, "memory": watched or global_memory})
    return ProgramCode(
        prepare,
        module,
        frozenset(nested_codes(prepare.__code__)),
        code.locations,
        code.operations,
        code.variables,
        tuple(_argument(argument.type) for argument in code.arguments),
        1 if watched else max(1, BATCH_BYTES // code.largest_tile),
        watched,
        ast.unparse(code.tree),
    )


def _refuse_clusters(module: ModuleOp, kernel: Any) -> None:
    """In TTGIR the blocks of a cluster share barriers and tiles,
    which a program of one block does not know.
    """
    blocks = module.attributes.get("ttg.num-ctas")
    if isinstance(blocks, IntegerAttr) and blocks.value.data > 1:
        raise UnsupportedOperation(
            f"the interpreter does not run the TTGIR of clusters, and {kernel.__name__!r} was "
            f"launched with num_ctas={blocks.value.data}",
            position=triton_api.definition_of(kernel),
            advice='Launch it with num_ctas=1, or run its TTIR: stage="ttir".',
        )


def entry_of(module: ModuleOp) -> tt.FuncOp:
    """The function that a launch calls."""
    return next(op for op in module.ops if isinstance(op, tt.FuncOp) and op.is_kernel)


MODULES: Mapping[str, Any] = {
    "numpy": numpy,
    "tiles": tiles,
    "numerics": numerics,
    "products": products,
    "address_space": address_space,
    "descriptors": descriptors,
    "foreign_code": foreign_code,
    "debugging": device_asserts,
    "shared_memory": shared_memory,
    "mbarriers": mbarriers,
    "tensormaps": tensormaps,
    "warp_groups": warp_groups,
}
"""What generated code calls by name, memory left out."""


def _loaded(code: KernelCode, file: str, modules: Mapping[str, Any]) -> types.FunctionType:
    scope = {**modules, **code.constants}
    module = with_plain_names(compile(code.tree, file, "exec"))
    exec(module, scope)  # noqa: S102 - our own generated code
    function: types.FunctionType = scope[code.name]
    return function


def with_plain_names(code: types.CodeType) -> types.CodeType:
    """The code with each function under its own name:
    a traceback says "add", not "add.<locals>.add".
    """
    constants = tuple(
        with_plain_names(constant) if isinstance(constant, types.CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_consts=constants, co_qualname=code.co_name)


HIDDEN_FILE = "<frozen kernellab>"
"""The file name of generated code that no debugger shall stop in;
debugpy traces none that is frozen."""


def hidden(code: types.CodeType) -> types.CodeType:
    """The code, with all functions inside it, under a file name that no breakpoint is in."""
    constants = tuple(
        hidden(one) if isinstance(one, types.CodeType) else one for one in code.co_consts
    )
    return code.replace(co_consts=constants, co_filename=HIDDEN_FILE)


def nested_codes(code: types.CodeType) -> list[types.CodeType]:
    """The code object, and all those of functions inside it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [code, *(nested for one in inner for nested in nested_codes(one))]


def _argument(type: Attribute) -> RuntimeArgument:
    match type:
        case PointerType():
            return RuntimeArgument(dtype(type.pointee), "pointer")
        case TensorDescType():
            return RuntimeArgument(dtype(type.block), "descriptor")
        case _:
            return RuntimeArgument(dtype(type), "number")
