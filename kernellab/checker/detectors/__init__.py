"""The detectors, one file each."""

from __future__ import annotations

from kernellab.checker.detector import Detector
from kernellab.checker.detectors.out_of_bounds import OutOfBounds

DETECTORS: tuple[type[Detector], ...] = (OutOfBounds,)
"""All that hear a run, in the order in which they hear it."""
