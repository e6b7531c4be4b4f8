"""A compilation's modules, opened for its analyses: each stage once, with the kernel's places."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.common.text import string_of_ir, value_name
from kernellab.compiler.modules.mlir_queries import Query
from kernellab.compiler.modules.structure import users_line
from kernellab.errors import LayoutError, SourcePosition
from kernellab.ir.locations import locate
from kernellab.ir.syntax import read_module
from kernellab.records import Compilation, PassRun
from kernellab.records.layouts import Layout
from kernellab.triton_api.layouts import TileType, layouts_of


class OpenedModules:
    """The modules of one compilation, for the analyses that read them.

    Args:
        compilation: whose modules.
        query: queries MLIR about its texts.
    """

    def __init__(self, compilation: Compilation, query: Query) -> None:
        self.compilation = compilation
        self.query = query
        self._stages: dict[str, builtin.ModuleOp] = {}

    @property
    def first_stage(self) -> str:
        """The first stage that is a module: "ttir", or "ttgir" where the record begins there."""
        return "ttir" if "ttir" in self.compilation.stages else "ttgir"

    def snapshot(self, name: str) -> builtin.ModuleOp:
        """The module of a stage or after a pass, with the kernel's own places;
        that of a stage is read once, for several questions.
        """
        runs = self.compilation.passes
        run = next((run for run in runs if run.label == name and run.op_counts_after), None)
        if run is not None:
            return self.after(run)
        if name not in self._stages:
            self._stages[name] = self.compilation.module(name)
        return self._stages[name]

    def after(self, run: PassRun) -> builtin.ModuleOp:
        """The module after a pass, with the kernel's own places,
        also where its locations name lines of the TTGIR text.
        """
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
    """The kernel's lines behind locations that name lines of the TTGIR text,
    as those after the TTGIR stage may do.
    """

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
            self._name_arguments(op)
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

    def _name_arguments(self, op: Operation) -> None:
        """Give arguments of blocks back their names that MLIR spells in ASCII."""
        for argument in (arg for region in op.regions for b in region.blocks for arg in b.args):
            if name := self._names.get(argument.name_hint or ""):
                at = argument.location
                argument.location = builtin.NameLoc(builtin.StringAttr(name), at)


def _named(name: str, place: SourcePosition) -> builtin.LocationAttr:
    at = builtin.FileLineColLoc(
        builtin.StringAttr(place.file),
        builtin.IntAttr(place.line),
        builtin.IntAttr(triton_api.column_in_location(place.column)),
    )
    return builtin.NameLoc(builtin.StringAttr(name), at) if name else at
