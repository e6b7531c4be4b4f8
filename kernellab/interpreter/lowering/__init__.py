"""One small function per operation, one file per dialect: what NumPy code an operation becomes.

Importing this package registers all of them.
"""

from kernellab.interpreter.lowering import arith, calls, cf, descriptors, math, scf, tt

__all__ = ["arith", "calls", "cf", "descriptors", "math", "scf", "tt"]
