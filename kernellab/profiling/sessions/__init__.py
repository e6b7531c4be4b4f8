"""Profiling launches: sessions of Proton on a GPU, and of the interpreter without one."""
