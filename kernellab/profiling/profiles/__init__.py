"""Profiles: what was measured of launches, as a tree of scopes with metrics."""
