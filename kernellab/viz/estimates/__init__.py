"""Estimates of time, and rooflines."""
