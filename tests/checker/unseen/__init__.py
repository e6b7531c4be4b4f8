"""Faulty kernels and right twins, written from docs/checking.md alone."""
