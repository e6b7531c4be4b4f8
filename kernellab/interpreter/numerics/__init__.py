"""Arithmetic of generated code: tiles, products, rounding, device libraries."""
