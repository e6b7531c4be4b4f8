"""Kernels that are slow in one known way, each beside its good twin."""
