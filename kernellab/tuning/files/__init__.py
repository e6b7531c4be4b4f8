"""Sweeps on disk: saved files, the store of outcomes, and kernels kept as text."""
