"""The detectors, one file each."""

from __future__ import annotations

from kernellab.checker.detector import Detector
from kernellab.checker.detectors.index_overflow import IndexOverflow
from kernellab.checker.detectors.out_of_bounds import OutOfBounds

DETECTORS: tuple[type[Detector], ...] = (OutOfBounds, IndexOverflow)
"""All that hear a run, in the order in which they hear it."""
