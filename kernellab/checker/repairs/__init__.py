"""Fixes that were tried: what the results say of a mistake, which changes of the source to try, and
the check of a changed kernel on the same launch.
"""
