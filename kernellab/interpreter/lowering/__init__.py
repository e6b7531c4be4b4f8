"""One small function per operation, one file per dialect: what NumPy code an operation becomes.

Importing this package registers all of them.
"""

from kernellab.interpreter.lowering import arith, cf, math, scf, tt

__all__ = ["arith", "cf", "math", "scf", "tt"]
