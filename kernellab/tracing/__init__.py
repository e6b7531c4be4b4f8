"""Traces: what a kernel did, line by line, with the values at every step."""
