"""Compilations on disk: saved, restored, imported from elsewhere."""
