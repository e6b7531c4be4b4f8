"""Accesses of different programs to one element:
who touches it, in which order, and whether anything says so.
"""
