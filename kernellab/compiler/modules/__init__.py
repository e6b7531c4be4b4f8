"""Modules of a compilation: opened, asked, walked."""
