"""Sweeps on disk: saved files, the store of outcomes, kernels kept as text."""
