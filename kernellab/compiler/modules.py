"""The MLIR modules of a compilation: how they are opened, walked and analyzed."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects import builtin
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from kernellab import triton_api
from kernellab.common.text import string_of_ir, value_name
from kernellab.errors import ArgumentError, LayoutError, SourcePosition, nearest
from kernellab.ir import flow, tt, ttng
from kernellab.ir.operations import argument_name, locate, operation_name, parents
from kernellab.ir.syntax import read_module
from kernellab.ir.types import PointerType, TensorDescType, bit_width, element_type, is_pointer
from kernellab.records import PassRun
from kernellab.records.layouts import Layout
from kernellab.triton_api.layouts import TileType, layouts_of

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation


@cache
def _library() -> str:
    spec = importlib.util.find_spec("triton")
    return str(Path(spec.origin).parent) if spec is not None and spec.origin else ""


def users_line(frames: Iterable[SourcePosition]) -> SourcePosition | None:
    """The first place of a chain of calls, innermost first, outside of Triton, or None."""
    places = list(frames)
    own = (place for place in places if not place.file.startswith(_library()))
    return next(own, places[0] if places else None)


def kind(op: Operation) -> str:
    """An operation's name, "tt.load"; also of one that `ir/` has no class for."""
    return operation_name(op)


def position_of(op: Operation) -> SourcePosition | None:
    """The line of the user's code, or of an inlined helper, that an operation comes from."""
    return users_line(locate(op.location).frames)


def name_of(op: Operation) -> str:
    """The kernel's own name for an operation's first result: "acc", or "" if it has none."""
    return locate(op.location).name or "" if op.results else ""


def numbered(module: Operation) -> dict[Operation, int]:
    """Every operation with its number in the module's text, the module itself being 0."""
    return {op: number for number, op in enumerate(module.walk())}


def lines_of_operations(text: str) -> Mapping[str, list[int]]:
    """The lines of a module's text that have operations of each name, in order."""
    lines: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _OPERATION.match(line):
            lines.setdefault(match[1], []).append(number)
    return lines


_OPERATION = re.compile(r'\s*(?:%[^=]*= )?"?([\w.]+)')
"""The operation of a line of MLIR's text."""


def attribute(op: Operation, name: str) -> Attribute | None:
    """An attribute, wherever the operation keeps it."""
    return op.attributes.get(name, op.properties.get(name))


def integer(op: Operation, name: str) -> int | None:
    """The value of an integer attribute, or None."""
    value = attribute(op, name)
    return value.value.data if isinstance(value, builtin.IntegerAttr) else None


def symbol(op: Operation, name: str) -> str:
    """The text of an attribute that names a symbol, such as "callee"; "" if there is none."""
    value = attribute(op, name)
    if isinstance(value, builtin.SymbolRefAttr):
        return value.root_reference.data
    return value.data if isinstance(value, builtin.StringAttr) else ""


def functions(module: Operation) -> Iterator[tt.FuncOp]:
    """The functions of a module of Triton."""
    return (op for op in module.walk() if isinstance(op, tt.FuncOp))


def blocks_of(op: Operation) -> Iterator[Block]:
    """Every block of an operation, those of nested regions included."""
    for inner in op.walk():
        for region in inner.regions:
            yield from region.blocks


def successors(block: Block) -> Sequence[Block]:
    """Where control goes from a block, inside its region."""
    return block.last_op.successors if block.last_op is not None else ()


def enclosing(op: Operation, region: Region) -> Operation | None:
    """The operation directly in `region` that is `op` or contains it."""
    around = (op, *parents(op))
    return next((outer for outer in around if outer.parent_region() is region), None)


def pointers_of(access: Operation) -> SSAValue:
    """The addresses of an access."""
    return next(operand for operand in access.operands if is_pointer(operand.type))


def pointee(pointers: SSAValue) -> Attribute:
    """The type that a pointer, or a tile of pointers, points to."""
    pointer = element_type(pointers.type)
    assert isinstance(pointer, PointerType)
    return pointer.pointee


def element_bytes(pointers: SSAValue) -> int:
    """Bytes of what a pointer, or a tile of pointers, points to."""
    return max(bit_width(pointee(pointers)) // 8, 1)


def underlying_argument(memory: SSAValue) -> str:
    """The parameter that a pointer or a descriptor starts from: through additions, splats, loops
    and branches, and through the pointer that a descriptor is made of; "" if none is found.
    """
    for value in flow.reached([memory], _memory_behind):
        if flow.is_parameter(value):
            return argument_name(value) or f"argument {value.index}"
    return ""


def _memory_behind(value: SSAValue) -> Iterator[SSAValue]:
    if isinstance(value.owner, ttng.ReinterpretTensorDescriptorOp):
        makers = (use.operation for use in value.owner.pointer.uses)
        return (op.global_address for op in makers if isinstance(op, ttng.TensormapCreateOp))
    return (
        source
        for source in flow.made_of(value)
        if is_pointer(source.type) or isinstance(source.type, TensorDescType)
    )


_STAGES_OF_MLIR = ("ttir", "ttgir")
_LABELS_SHOWN = 5


def open_module(compilation: Compilation, name: str) -> ModuleOp:
    """The module of a stage, or after a pass ("ttgir.canonicalizer#2"), new for each call.

    Raises:
        ArgumentError: there is no such stage or pass, or what it made is not a module of MLIR.
        KernelLabError: MLIR cannot read the text.
        WorkerError: MLIR died of the text, in the worker process.
    """
    stages, target, query = compilation.stages, compilation.target, compilation.query
    texts = {stage: stages[stage].text for stage in _STAGES_OF_MLIR if stage in stages}
    if name in texts:
        return read_module(query(triton_api.generic_form, texts[name], target))
    # Past MLIR a step counts no ops: LLVM IR, PTX and SASS are texts of other languages.
    modules = {run.label: run.text for run in compilation.passes if run.op_counts_after}
    if name in modules:
        return read_module(query(triton_api.generic_form, modules[name].read(), target))
    if name in stages:
        problem = f"The stage {name!r} is not MLIR: there is no module to open."
        advice = ""
    else:
        problem = f"This compilation has no stage and no pass {name!r} that made MLIR."
        advice = nearest(str(name), [*texts, *modules])
    raise ArgumentError(problem, advice=f"{advice} {_what_opens(texts, modules)}".strip())


def _what_opens(stages: Iterable[str], labels: Collection[str]) -> str:
    opens = f"Pass one of the stages {', '.join(stages)}"
    if not labels:
        return f'{opens}, or compile with record="passes" and pass the label of a pass.'
    some = ", ".join(itertools.islice(labels, _LABELS_SHOWN))
    return f"{opens}, or the label of a pass: {some}, ..."


class OpenedModules:
    """The modules of one compilation, for the analyses that read them."""

    def __init__(self, compilation: Compilation) -> None:
        self.compilation = compilation
        self.query = compilation.query
        self._stages: dict[str, builtin.ModuleOp] = {}

    @property
    def first_stage(self) -> str:
        """The first stage that is a module: "ttir", or "ttgir" if the record begins there."""
        return "ttir" if "ttir" in self.compilation.stages else "ttgir"

    def snapshot(self, name: str) -> builtin.ModuleOp:
        """The module of a stage, read once, or after a pass, with the kernel's own places."""
        runs = self.compilation.passes
        run = next((run for run in runs if run.label == name and run.op_counts_after), None)
        if run is not None:
            return self.after(run)
        if name not in self._stages:
            self._stages[name] = self.compilation.module(name)
        return self._stages[name]

    def after(self, run: PassRun) -> builtin.ModuleOp:
        """The module after a pass, with the kernel's places also behind TTGIR's lines."""
        module = read_module(self.generic_text(run))
        KernelPlaces(self.compilation).put_into(module)
        return module

    def generic_text(self, run: PassRun) -> str:
        """The module after a pass, in MLIR's generic form."""
        text: str = self.query(triton_api.generic_form, run.text.read(), self.compilation.target)
        return text

    def layouts_of(self, types: Sequence[TileType]) -> Sequence[Layout | LayoutError]:
        """Triton's own answer for each type."""
        layouts: Sequence[Layout | LayoutError] = self.query(layouts_of, list(types))
        return layouts


_SSA_NAME = re.compile(r"^\s*%([A-Za-z_]\w*?)(?:_\d+)?(?::\d+)? = ")
"""The kernel's name of a value in a line of MLIR's text: "acc" of "%acc_12:3 = "."""
_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"\(')
"""The name in a location of MLIR's text."""


class KernelPlaces:
    """The kernel's lines behind locations that name TTGIR's lines, as later stages' may."""

    def __init__(self, compilation: Compilation) -> None:
        self._compilation = compilation
        text = compilation.stages["ttgir"].text
        self._lines = text.splitlines()
        names = {string_of_ir(written) for written in _NAME.findall(text)}
        self._names = {value_name(name): name for name in names if not name.isascii()}

    def of(self, position: SourcePosition | None) -> SourcePosition | None:
        """The kernel's line of a place; a place that names no line of TTGIR stays what it is."""
        if position is None or not position.file.endswith(triton_api.TTGIR_FILE_SUFFIX):
            return position
        if not self._compilation.can_answer("source_map"):
            return None
        chains = self._compilation.source_map.chain("ttgir", position.line)
        return users_line(chains[0]) if chains else None

    def put_into(self, module: builtin.ModuleOp) -> None:
        """Give each operation the kernel's location, with the name of its value."""
        for op in module.walk():
            for argument in flow.arguments_inside(op):  # MLIR spells their names in ASCII
                if name := self._names.get(argument.name_hint or ""):
                    at = argument.location
                    argument.location = builtin.NameLoc(builtin.StringAttr(name), at)
            frames = locate(op.location).frames
            if not frames or not frames[0].file.endswith(triton_api.TTGIR_FILE_SUFFIX):
                continue
            place = self.of(frames[0])
            op.location = (
                builtin.UnknownLoc() if place is None else _named(self._name(frames[0].line), place)
            )

    def _name(self, line: int) -> str:
        match = _SSA_NAME.match(self._lines[line - 1]) if line <= len(self._lines) else None
        return self._names.get(match[1], match[1]) if match else ""


def _named(name: str, place: SourcePosition) -> builtin.LocationAttr:
    at = builtin.FileLineColLoc(
        builtin.StringAttr(place.file),
        builtin.IntAttr(place.line),
        builtin.IntAttr(triton_api.column_in_location(place.column)),
    )
    return builtin.NameLoc(builtin.StringAttr(name), at) if name else at
