"""Layouts of tiles, and conversions between them."""
