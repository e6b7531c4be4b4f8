"""The MLIR modules of a compilation: open, query and walk them."""
