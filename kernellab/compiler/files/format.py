"""The format of a saved compilation: schema/record.schema.json, gzipped.

A change that an older reader would misread gets a new version number.
"""

from __future__ import annotations

from pathlib import Path

FORMAT = "kernellab.record"
VERSION = 1
SCHEMA = Path(__file__).with_name("schema") / "record.schema.json"
"""The format, for other programs to read."""

BINARY = frozenset({"cubin", "hsaco"})
"""The stages that are binary."""
