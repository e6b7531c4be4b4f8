"""Traces on disk: a zip file of `trace.json`, the steps and all that is short, and `values`,
the tiles, each compressed by itself.

A change that an older reader would misread gets a new version number.
"""
