"""xDSL's modules as text that MLIR reads."""

from __future__ import annotations

import math
from io import StringIO

from xdsl.dialects import builtin
from xdsl.printer import Printer

from kernellab.ir.reader import context


def write_module(module: builtin.ModuleOp, *, locations: bool = True) -> str:
    """The module in MLIR's generic form, which `triton_api.parse_mlir` (and `mlir-opt`)
    reads back to the same module.
    """
    stream = StringIO()
    printer = _Printer(stream=stream, print_generic_format=True, print_debuginfo=locations)
    printer.print_op(module)
    printer.print_metadata(context().loaded_dialects)
    return stream.getvalue() + "\n"


class _Printer(Printer):
    """Prints floats that xDSL 0.74 writes without a decimal point (1e-07)
    as MLIR wants them: 1.0e-07.
    """

    def print_float(self, value: float, type: builtin.AnyFloat) -> None:
        short = repr(value)
        if math.isfinite(value) and "e" in short and "." not in short:
            self.print_string(short.replace("e", ".0e"))
        else:
            super().print_float(value, type)
