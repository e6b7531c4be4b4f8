"""Sweeps over configs."""
