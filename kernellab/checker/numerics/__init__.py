"""Numerics of a checked run: exact values, origins of NaN and infinity, and integers that wrap."""
