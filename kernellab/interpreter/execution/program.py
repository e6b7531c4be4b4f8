"""A kernel as code that runs on the CPU: made once per specialization, kept with the kernel and on
disk; and facts that are computed once for each such code.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import marshal
import os
import pickle
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar, cast

import numpy
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from kernellab import triton_api
from kernellab.common.containers import Latest
from kernellab.common.saved_files import BadFile, regular_bytes
from kernellab.common.system import cache_folder, own_folder, without_collections, write_whole
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.passes import module_after
from kernellab.errors import MachineError, UnsupportedOperation
from kernellab.interpreter import foreign_code, lowering, numerics, tiles
from kernellab.interpreter.codegen import emitter
from kernellab.interpreter.codegen.analyses import (
    TileBytes,
    has_spin_loop,
    tile_bytes,
    underlying_objects,
)
from kernellab.interpreter.execution import runtime
from kernellab.interpreter.lowering.asynchrony import deferred
from kernellab.interpreter.memory import address_space, descriptors, global_memory, shared_memory
from kernellab.interpreter.memory.observers import WatchedMemory
from kernellab.ir import amd, tt, ttg
from kernellab.ir.operations import (
    Asynchronous,
    Atomic,
    Effect,
    GlobalAccess,
    Location,
    global_effect,
    has,
    may_do_anything,
    trait_of,
)
from kernellab.ir.syntax import read_module
from kernellab.ir.types import PointerType, TensorDescType, dtype
from kernellab.records import Target
from kernellab.triton_api import compilation
from kernellab.triton_api.kernel_contents import content_of

# Generated code on disk: the first launch of a process takes it from there.
#
# Triton's front end, reading the IR and lowering it take 30 to 60 ms for a usual kernel; loading
# its code takes about 1 ms. A file is named by a digest of all that the code depends on, and of
# the files of KernelLab and Triton that make it, so that it is never out of date. Whoever can
# write to the folder can run code in this process, as with Triton's own cache.


MOST_FILES = 4_000
"""When a folder has more, the older half is removed."""

_MAKERS = [
    Path(__file__).parents[2] / name for name in ("common", "interpreter", "ir", "triton_api")
]
"""The packages whose files determine a kernel's code."""

_DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class StoredCode:
    """The parts of a kernel's code that a file keeps.

    Attributes:
        text: the module that it was made of, in MLIR's generic form.
        code: the code object of the outer function, marshalled.
        constants: the objects that the code names.
        arguments, batch, tile_bytes: as of `ProgramCode`.
        waits: whether programs wait for each other.
    """

    text: str
    code: bytes
    constants: Mapping[str, Any]
    arguments: tuple[Any, ...]
    batch: int
    tile_bytes: TileBytes
    waits: bool

    def function(self, modules: Mapping[str, Any]) -> types.FunctionType:
        """The outer function, with `modules` among its globals."""
        scope = {"__builtins__": builtins, **modules, **self.constants}  # pdb reads builtins there
        return types.FunctionType(marshal.loads(self.code), scope)


def stored_file(kernel: Any, call: BoundCall, target: Target) -> Path | None:
    """Return the file for the code of a kernel's TTIR; None if the code depends on something that
    has no digest, or must not be cached.
    """
    # Whatever cannot be described, or has no home folder, is made anew.
    with contextlib.suppress(Exception):
        if compilation.always_compiles() or triton_api.is_given(kernel):
            return None  # a given kernel's source is not what it is made of
        if foreign_code.has_registered_functions():
            return None  # a later process may not register them, and has to say what is missing
        options = triton_api.options_of_launch(kernel, call.options)
        constants = call.specialization.constants
        described = (
            content_of(kernel),
            kernel.fn.__code__.co_filename,
            tuple(call.specialization.signature.items()),
            [(path, _text(value)) for path, value in constants.items()],
            sorted(call.specialization.attributes.items()),
            sorted((name, _text(value)) for name, value in options.items()),
            target,
            compilation.environment_of_front_end(),
            _makers(),
        )
        digest = hashlib.sha256(repr(described).encode("utf-8", "surrogatepass")).hexdigest()
        return cache_folder("code") / f"{digest}.code"
    return None


def _text(value: Any) -> str:
    """A value as a unique text; raises TypeError if it has none."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if value is None or type(value) in (bool, int, float, str):
        return f"{type(value).__name__} {value!r}"
    if compilation.is_dtype(value):
        return f"dtype {value}"
    if functions := [*triton_api.functions_within((value,))]:
        return f"function {content_of(functions[0])} {functions[0].fn.__code__.co_filename!r}"
    raise TypeError(f"{type(value).__name__} has no text")


@functools.cache
def _makers() -> tuple[Any, ...]:
    """The versions of the packages that make code, and the sizes and times of their files."""
    packages = [importlib.metadata.version(name) for name in ("numpy", "ml_dtypes", "xdsl")]
    return sys.version, packages, tuple(_states())


def _states() -> Iterator[tuple[str, int, int]]:
    own = (file for folder in _MAKERS for file in sorted(folder.rglob("*.py")))
    for file in (*own, *compilation.files_of_front_end()):
        state = file.stat()
        yield str(file), state.st_size, state.st_mtime_ns


def kept_number(file: Path | None, name: str, make: Callable[[], int]) -> int:
    """Return a number that depends on the same as a kernel's code. It is stored beside the file of
    the code, and made if it is not there.

    Args:
        file: that of `file_of`; with None, nothing is kept.
        name: one word for the number.
    """
    if file is None:
        return make()
    own = file.with_suffix(f".{name}")
    with contextlib.suppress(OSError, ValueError, BadFile, MachineError):
        own_folder(own.parent)
        return int(regular_bytes(own, 100, is_named=False))
    number = make()
    with contextlib.suppress(OSError, MachineError):
        own_folder(own.parent)
        write_whole(own, str(number).encode(), is_named=False)
    return number


def load_stored(file: Path) -> StoredCode | None:
    """Return the code in a file; None if there is none, or it is damaged."""
    # A file that cannot be read, whatever it holds, is made anew.
    with contextlib.suppress(Exception):
        if not file.exists():
            return None
        own_folder(file.parent)
        content = regular_bytes(file, is_named=False)
        digest, pickled = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(pickled).digest() == digest:
            stored = pickle.loads(pickled)
            return stored if isinstance(stored, StoredCode) else None
    return None


def save_stored(file: Path, stored: StoredCode) -> None:
    """Keep code, unless something of it cannot be pickled or the folder cannot be written."""
    with contextlib.suppress(
        OSError, MachineError, TypeError, AttributeError, pickle.PicklingError
    ):
        pickled = pickle.dumps(stored, pickle.HIGHEST_PROTOCOL)
        own_folder(file.parent)
        _make_room(file.parent)
        write_whole(file, hashlib.sha256(pickled).digest() + pickled, is_named=False)


def _make_room(folder: Path) -> None:
    with os.scandir(folder) as entries:
        files = list(entries)
    if len(files) > MOST_FILES:
        files.sort(key=lambda entry: entry.stat().st_mtime)
        for entry in files[: len(files) // 2]:
            with contextlib.suppress(OSError):  # another process removed it
                os.unlink(entry.path)


# The code of a kernel: made once per specialization, kept with the kernel.


assert lowering  # importing it registers what every operation becomes

TTIR = "ttir"
"""The stage that runs by default."""

BATCH_BYTES = 1024 * 1024
"""The most bytes of a batch's largest tile: large enough that Python takes little of the time,
small enough for a core's caches."""

# One large block is freed, untouched, so that glibc keeps smaller ones for the next tile instead
# of returning them: it raises its mmap and trim thresholds to the size of a freed mapping, up to
# 32 MiB (mallopt(3), M_MMAP_THRESHOLD). Until then every tile of some 100 KiB is mapped and faulted
# in anew, which took half the time of a layer norm.
numpy.empty(31 * 1024 * 1024, numpy.uint8)


@dataclass(frozen=True)
class RuntimeArgument:
    """The description of one argument of the code.

    Attributes:
        dtype: of a number, or of the elements that a pointer or a descriptor leads to.
        role: what it is.
    """

    dtype: numpy.dtype
    role: Literal["number", "pointer", "descriptor"]


class CodeOrigin(NamedTuple):
    """The origin of code; the attributes are those of `ProgramCode`. The tree is the code's own,
    empty if the code has several functions.
    """

    module: ModuleOp
    locations: tuple[Location, ...]
    operations: tuple[Operation, ...]
    variables: Mapping[SSAValue, str]
    tree: ast.Module = ast.Module([], [])


Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class ProgramCode:
    """The generated code of one specialization of a kernel.

    Attributes:
        prepare: takes the runtime arguments and the grid's sizes; returns the function that runs a
            batch, or, if programs wait for each other, makes a coroutine of one.
        codes: the code objects of both functions, to recognize the kernel's own
            frames in a traceback.
        arguments: the code's arguments, in order.
        batch: how many programs run together.
        tile_bytes: how large the kernel's tiles are.
        watched: the object through which the code accesses memory if programs wait for each other
            or are preempted, else None.
        origin: what it was made from. For code from a file it is computed on first use, which a
            launch without a fault does not need.
        constants: the names of the objects that the code refers to, among its globals.
    """

    prepare: types.FunctionType
    codes: frozenset[types.CodeType]
    arguments: tuple[RuntimeArgument, ...]
    batch: int
    tile_bytes: TileBytes
    watched: WatchedMemory | None
    origin: Callable[[], CodeOrigin]
    constants: tuple[str, ...]
    _found: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def once(self, what: Hashable, find: Callable[[], Made]) -> Made:
        """The result of the first call of `find` for this code; `what` is its key."""
        if what not in self._found:
            self._found[what] = find()
        result: Made = self._found[what]
        return result

    @property
    def source(self) -> str:
        """The generated code as text, for reading."""
        return self.once("source", lambda: ast.unparse(self.origin().tree))

    @property
    def module(self) -> ModuleOp:
        """The module that the code was made from, with calls inlined."""
        return self.origin().module

    @property
    def locations(self) -> tuple[Location, ...]:
        """Where the code's statements come from; see `code_writer`."""
        return self.origin().locations

    @property
    def operations(self) -> tuple[Operation, ...]:
        return self.origin().operations

    @property
    def variables(self) -> Mapping[SSAValue, str]:
        return self.origin().variables

    @functools.cached_property
    def takes_descriptors_apart(self) -> bool:
        """Whether the compiler has split descriptors into numbers, which the code takes."""
        return all(expected.role != "descriptor" for expected in self.arguments)

    def prepare_with(self, modules: Mapping[str, Any]) -> types.FunctionType:
        """As `prepare`, with other modules under these names."""
        scope = {**self.prepare.__globals__, **modules}
        return types.FunctionType(self.prepare.__code__, scope)

    def hidden(self) -> ProgramCode:
        """The same, hidden from debuggers."""
        code = hidden(self.prepare.__code__)
        prepare = types.FunctionType(code, self.prepare.__globals__)
        return dataclasses.replace(self, prepare=prepare, codes=frozenset(nested_codes(code)))


Given = ParamSpec("Given")


def told_of_nesting(
    make: Callable[Concatenate[Any, Given], Made],
) -> Callable[Concatenate[Any, Given], Made]:
    """`make`, whose first argument is the kernel, reporting a kernel that nests too deeply:
    readers of Python and of MLIR are recursive, and Python limits recursion.
    """

    @functools.wraps(make)
    def told(kernel: Any, /, *args: Given.args, **keywords: Given.kwargs) -> Made:
        __tracebackhide__ = True
        try:
            return make(kernel, *args, **keywords)
        except RecursionError:
            too_deep = UnsupportedOperation(
                f"{kernel.__name__!r} nests its statements too deeply to be read: each `elif` is "
                "an `if` inside the `else` before it.",
                advice="Replace the long chain of elif by a table in a tensor, by tl.where, or by "
                "helper functions for its parts.",
                position=triton_api.definition_of(kernel),
            )
        raise too_deep  # without the thousand frames of the reader

    return told


MOST_KEPT = 256
"""Specializations of a kernel whose code is kept."""


@told_of_nesting
def program_code(
    kernel: Any,
    call: BoundCall,
    target: Target,
    stage: str = TTIR,
    after: emitter.AfterOperation | None = None,
    is_late: bool = False,
) -> ProgramCode:
    """The code for a call, from the kernel's own store or made now.

    Args:
        stage: the IR that it is made of; a Gluon kernel begins with TTGIR.
        after: as for `program_of_module`.
        is_late: whether asynchronous operations complete when something waits for them.

    Raises:
        CompileError: the kernel does not compile.
        UnsupportedOperation: the interpreter does not know one of its operations.
        KernelLabError: a global that the kernel was compiled with has changed since.
    """
    if stage == TTIR and kernel.is_gluon():
        stage = "ttgir"
    make = functools.partial(make_program, kernel, call, target, stage, after, is_late)
    return kept_code(make, "code", MOST_KEPT, kernel, call, target, stage, after, is_late)


def kept_code(
    make: Callable[[], Made],
    kind: str,
    most: int,
    kernel: Any,
    call: BoundCall,
    target: Target,
    *how: Hashable,
) -> Made:
    """Code for a call that was made before, or is made now. A source or a helper that has changed
    since is compiled again.

    Args:
        kind: the name under which it is kept with the kernel; of each kind `most` are kept.
        how: what distinguishes this code from other code of the kind for the same call.
    """
    kept = triton_api.check_globals(kernel).kept
    codes: Latest[Made] | None = kept.get(kind)
    if codes is None:
        codes = kept[kind] = Latest(most)
    return codes.get_or_make(_key_of(kernel, call, target, how), make)


def _key_of(kernel: Any, call: BoundCall, target: Target, how: tuple[Hashable, ...]) -> Hashable:
    """The inputs of a kernel's code besides the kernel's own parts, including options (debug=True
    keeps assertions); None if they cannot be hashed.
    """
    if call.key is None:
        return None
    try:
        options = frozenset(triton_api.options_of_launch(kernel, call.options).items())
    except TypeError:
        return None
    functions = triton_api.functions_within(call.specialization.constants.values())
    return call.key, target, options, tuple(map(triton_api.made_of, functions)), how


@without_collections()
def make_program(
    kernel: Any,
    call: BoundCall,
    target: Target,
    stage: str = TTIR,
    after: emitter.AfterOperation | None = None,
    is_late: bool = False,
) -> ProgramCode:
    """Triton's front end and passes, lowering and Python's compiler; nothing is kept."""
    is_plain = stage == TTIR and after is None
    file = stored_file(kernel, call, target) if is_plain else None
    stored = None if file is None else load_stored(file)
    if stored is not None:
        triton_api.note_compiled(kernel)
        return _program_of_stored(stored, kernel)
    text = _generic_text(kernel, call, target, stage)
    made = program_of_text(text, kernel, after, deferred(kernel) if is_late else emitter.rule_of)
    if file is not None:
        save_stored(file, _stored(made, text))
    return made


def _stored(made: ProgramCode, text: str) -> StoredCode:
    scope = made.prepare.__globals__
    constants = {name: scope[name] for name in made.constants}
    code = marshal.dumps(made.prepare.__code__)
    waits = made.watched is not None
    return StoredCode(text, code, constants, made.arguments, made.batch, made.tile_bytes, waits)


def _program_of_stored(stored: StoredCode, kernel: Any) -> ProgramCode:
    """The code that was kept; its origin is read again when it is needed."""
    watched = WatchedMemory() if stored.waits else None
    prepare = stored.function({**MODULES, "memory": watched or global_memory})
    names = kernel.fn.__code__.co_filename, kernel.__name__  # the kernel itself must not be kept
    return ProgramCode(
        prepare,
        frozenset(nested_codes(prepare.__code__)),
        stored.arguments,
        stored.batch,
        stored.tile_bytes,
        watched,
        functools.cache(functools.partial(_origin_of_text, stored.text, *names)),
        tuple(stored.constants),
    )


def _origin_of_text(text: str, file: str, name: str) -> CodeOrigin:
    module = read_module(text)
    return _origin(module, emitter.emit_kernel(entry_of(module), file, name))


def _origin(module: ModuleOp, code: emitter.KernelCode) -> CodeOrigin:
    return CodeOrigin(module, code.locations, code.operations, code.variables, code.tree)


def _generic_text(kernel: Any, call: BoundCall, target: Target, stage: str) -> str:
    """The IR that runs: "ttir" as far as the interpreter needs it, others as compiled."""
    if stage != TTIR:
        return module_after(kernel, call, target, stage)
    key = (kernel, call.specialization, target, call.options)
    with triton_api.freed_after(triton_api.make_ttir(*key)) as module:
        return triton_api.generic_text(module)


def program_of_text(
    text: str,
    kernel: Any,
    after: emitter.AfterOperation | None = None,
    rules: emitter.RuleOf = emitter.rule_of,
) -> ProgramCode:
    """The code of a module in MLIR's generic form that came from `kernel`;
    `after` and `rules` as for `program_of_module`.
    """
    return program_of_module(read_module(text), kernel, after, rules=rules)


def program_of_module(
    module: ModuleOp,
    kernel: Any,
    after: emitter.AfterOperation | None = None,
    *,
    preempts: bool = False,
    rules: emitter.RuleOf = emitter.rule_of,
) -> ProgramCode:
    """The code of a module that came from `kernel`; calls are inlined in the module.

    Args:
        rules: how each operation is lowered.
        after: adds statements after operations, see `emitter.AfterOperation`.
        preempts: whether there are switch points among these (`Emitter.may_switch`).
    """
    function = entry_of(module)
    file = kernel.fn.__code__.co_filename
    code = emitter.emit_kernel(function, file, kernel.__name__, after, rules)
    watched = WatchedMemory() if preempts or has_spin_loop(function) else None
    prepare = _loaded(code, file, {**MODULES, "memory": watched or global_memory})
    origin = _origin(module, code)
    return ProgramCode(
        prepare,
        frozenset(nested_codes(prepare.__code__)),
        tuple(_argument(argument.type) for argument in code.arguments),
        1 if watched else max(1, BATCH_BYTES // code.largest_tile),
        tile_bytes(module),
        watched,
        lambda: origin,
        tuple(code.constants),
    )


def entry_of(module: ModuleOp) -> tt.FuncOp:
    """The function that a launch calls."""
    return next(op for op in module.ops if isinstance(op, tt.FuncOp) and op.is_kernel)


MODULES: Mapping[str, Any] = {
    "numpy": numpy, "tiles": tiles, "numerics": numerics, "products": numerics,
    "address_space": address_space, "descriptors": descriptors, "foreign_code": foreign_code,
    "debugging": runtime, "shared_memory": shared_memory, "mbarriers": shared_memory,
    "tensormaps": descriptors, "warp_groups": runtime,
}  # fmt: skip
"""The modules that generated code calls by name, without memory."""


def _loaded(code: emitter.KernelCode, file: str, modules: Mapping[str, Any]) -> types.FunctionType:
    scope = {**modules, **code.constants}
    module = with_plain_names(compile(code.tree, file, "exec"))
    exec(module, scope)  # noqa: S102 - our own generated code
    function: types.FunctionType = scope[code.name]
    return function


def with_plain_names(code: types.CodeType) -> types.CodeType:
    """The code with each function under its own name: "add", not "add.<locals>.add"."""
    constants = tuple(
        with_plain_names(constant) if isinstance(constant, types.CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_consts=constants, co_qualname=code.co_name)


HIDDEN_FILE = "<frozen kernellab>"
"""The file name of generated code in which debuggers must not stop; debugpy does not trace frozen
code."""


def hidden(code: types.CodeType) -> types.CodeType:
    """The code, with all functions inside it, under a file name without breakpoints."""
    constants = tuple(
        hidden(const) if isinstance(const, types.CodeType) else const for const in code.co_consts
    )
    return code.replace(co_consts=constants, co_filename=HIDDEN_FILE)


def nested_codes(code: types.CodeType) -> list[types.CodeType]:
    """The code object, and all those of functions inside it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [code, *(nested for code in inner for nested in nested_codes(code))]


def _argument(type: Attribute) -> RuntimeArgument:
    match type:
        case PointerType():
            return RuntimeArgument(dtype(type.pointee), "pointer")
        case TensorDescType():
            return RuntimeArgument(dtype(type.block), "descriptor")
        case _:
            return RuntimeArgument(dtype(type), "number")


# Results that are computed once for a program's generated code.


_Further = ParamSpec("_Further")
_Result = TypeVar("_Result")


def per_code(
    compute: Callable[Concatenate[ProgramCode, _Further], _Result],
) -> Callable[Concatenate[ProgramCode, _Further], _Result]:
    """Cache a function's results by the code, for as long as the code exists, and by its other
    arguments, which must be hashable.
    """

    def cached(code: ProgramCode, /, *args: _Further.args, **kwargs: _Further.kwargs) -> _Result:
        key = (compute, *args, *kwargs.items())
        return code.once(key, lambda: compute(code, *args, **kwargs))

    functools.update_wrapper(cached, compute)
    return cached


# What a kernel's code may do to its arguments' memory, known before it runs.


EVERYTHING = None
"""In place of a set of arguments: the arguments are not known."""

Arguments = frozenset[int] | None
"""Numbers of arguments, or EVERYTHING."""


@dataclass(frozen=True)
class MemoryEffects:
    """The memory that a kernel writes.

    Attributes:
        stored: arguments that plain stores may write.
        updated: arguments that atomics may update.
        loaded: arguments that plain loads may read.
        order_shows: True if atomics may show their order: a result is used, floats are added,
            values are exchanged.
    """

    stored: Arguments
    updated: Arguments
    loaded: Arguments
    order_shows: bool


@per_code
def memory_effects(code: ProgramCode) -> MemoryEffects:
    """The memory that a kernel's code writes."""
    function = entry_of(code.module)
    known = underlying_objects(function)

    def argument(target: SSAValue) -> int | None:
        made = target.owner
        base = made.base if isinstance(made, tt.MakeTensorDescOp) else target
        underlying = known.get(base, base)
        if isinstance(underlying, BlockArgument) and underlying.block is function.body.blocks.first:
            return underlying.index
        return None

    touched: dict[Effect, set[int | None]] = {"store": set(), "atomic": set(), "load": set()}
    for op in function.walk():
        access, effect = trait_of(op, GlobalAccess), global_effect(op)
        if effect == "load" and has(op, Atomic):
            continue
        if effect is not None:
            touched[effect].add(None if access is None else argument(access.base_of(op)))
        elif may_do_anything(op):
            for arguments in touched.values():
                arguments.add(None)
    shows = any(map(_shows_order, function.walk()))
    stored, updated, loaded = map(_arguments, touched.values())
    return MemoryEffects(stored, updated, loaded, shows or updated is EVERYTHING)


@per_code
def is_asynchronous(code: ProgramCode) -> bool:
    """Whether an operation may complete after its issue, or warps run separate code."""
    return any(
        has(op, Asynchronous) or isinstance(op, ttg.WarpSpecializeOp) for op in code.module.walk()
    )


def _arguments(numbers: set[int | None]) -> Arguments:
    return EVERYTHING if None in numbers else frozenset(cast(set[int], numbers))


def _shows_order(op: Operation) -> bool:
    if isinstance(op, tt.AtomicRMWOp | amd.BufferAtomicRMWOp):
        name = tt.ATOMIC_OPERATIONS[op.operation.value.data]
        return bool(op.result.uses) or name in ("fadd", "exchange")
    return has(op, Atomic)
