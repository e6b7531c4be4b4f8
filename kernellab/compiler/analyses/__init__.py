"""Analyses of the compiler's modules of a kernel: one file per subject."""
