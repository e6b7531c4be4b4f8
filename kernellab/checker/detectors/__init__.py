"""The detectors, one file for each family."""

from __future__ import annotations

from kernellab.checker.detector import Detector
from kernellab.checker.detectors.asynchrony import MissingWait
from kernellab.checker.detectors.barriers import MissingBarrier
from kernellab.checker.detectors.contracts import (
    AutotunedInPlace,
    HistogramBins,
    NarrowArgument,
    NotAssociative,
    OverwrittenArgument,
    SizeOfTopk,
)
from kernellab.checker.detectors.dots import DotCancellation, DotPrecision
from kernellab.checker.detectors.hints import (
    BrokenHints,
    DescriptorAlignment,
    FailedAssertion,
    RepeatedRandom,
)
from kernellab.checker.detectors.integers import (
    CastOverflow,
    DivisionByZero,
    IndexOverflow,
    NarrowOverflow,
    TruncatedStore,
)
from kernellab.checker.detectors.loops import EndlessLoop
from kernellab.checker.detectors.non_finite import HalfOverflow, NanResults, NonFinite
from kernellab.checker.detectors.out_of_bounds import OutOfBounds
from kernellab.checker.detectors.outputs import UnusedOutput, UnwrittenOutput
from kernellab.checker.detectors.races import OrderDependence, Race
from kernellab.checker.detectors.results import IgnoredStrides, WrongResult
from kernellab.checker.detectors.sums import StalledSum
from kernellab.checker.detectors.undefined_values import MissingOther, UninitializedRead
from kernellab.checker.detectors.updates import LaneCollision, LostUpdate

DETECTORS: tuple[type[Detector], ...] = (
    OutOfBounds, FailedAssertion, UninitializedRead, LaneCollision, LostUpdate, Race,
    UnwrittenOutput, UnusedOutput, EndlessLoop, MissingOther, OrderDependence, IndexOverflow,
    BrokenHints, DescriptorAlignment, HistogramBins, SizeOfTopk, NarrowArgument, NotAssociative,
    OverwrittenArgument, AutotunedInPlace, MissingBarrier, MissingWait, NonFinite, HalfOverflow,
    NarrowOverflow, CastOverflow, DivisionByZero, StalledSum, DotPrecision, DotCancellation,
    TruncatedStore, IgnoredStrides, WrongResult, NanResults, RepeatedRandom,
)  # fmt: skip
"""All detectors, in the order in which they observe a run."""

WITHOUT_PROGRAMS: tuple[type[Detector], ...] = (WrongResult,)
"""The detectors that can find something in a launch of no programs."""
