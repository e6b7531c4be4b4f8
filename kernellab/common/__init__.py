"""Helpers for every part of KernelLab: progress, worker processes, text, JSON, options."""
