"""Diagnoses: why a kernel is slow, as cards."""
