"""Samples of other people's kernels, one file for each library; `benchmarks.foreign_code` runs
them.
"""
