"""One small function per operation, one file per family of dialects:
what NumPy code an operation becomes.

Importing this package registers all of them.
"""

from kernellab.interpreter.lowering import amd, mlir, tt, ttg, ttng

__all__ = ["amd", "mlir", "tt", "ttg", "ttng"]
