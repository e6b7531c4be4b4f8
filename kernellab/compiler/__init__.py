"""Compiled kernels: stages, passes, resources, machine code, analyses, remarks, files."""
