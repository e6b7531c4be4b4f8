"""How Triton lowers scans, where it depends on its version."""

from __future__ import annotations

from packaging.version import Version
from triton import __version__

TURNS_WARPS_AT_ONCE = Version(__version__) >= Version("3.9")
"""A scan from the end turns a warp's values round:
by one shuffle from 3.9 on, before by one for each bit of the lane."""
