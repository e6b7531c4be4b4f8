"""Sweeps over a kernel's configs: compiled, checked, timed, ranked, kept."""
