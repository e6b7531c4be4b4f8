"""MLIR in and out of xDSL: Triton's modules as typed operations that Python code can walk."""
