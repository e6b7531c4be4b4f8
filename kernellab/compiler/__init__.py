"""Kernels compiled, by Triton, and what there is to know of the result: stages, passes, resources,
machine code, analyses, remarks; files of all that.
"""
