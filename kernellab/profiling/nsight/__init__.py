"""Profiles of Nsight Compute: its files and pages read, and lined up
with a compilation's instructions.
"""
