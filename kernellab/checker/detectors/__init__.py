"""The detectors, one file each."""

from __future__ import annotations

from kernellab.checker.detector import Detector
from kernellab.checker.detectors.broken_hints import BrokenHints
from kernellab.checker.detectors.cast_overflow import CastOverflow
from kernellab.checker.detectors.descriptor_alignment import DescriptorAlignment
from kernellab.checker.detectors.division_by_zero import DivisionByZero
from kernellab.checker.detectors.dot_cancellation import DotCancellation
from kernellab.checker.detectors.dot_precision import DotPrecision
from kernellab.checker.detectors.endless_loop import EndlessLoop
from kernellab.checker.detectors.failed_assertion import FailedAssertion
from kernellab.checker.detectors.half_overflow import HalfOverflow
from kernellab.checker.detectors.ignored_strides import IgnoredStrides
from kernellab.checker.detectors.index_overflow import IndexOverflow
from kernellab.checker.detectors.lane_collision import LaneCollision
from kernellab.checker.detectors.lost_update import LostUpdate
from kernellab.checker.detectors.missing_other import MissingOther
from kernellab.checker.detectors.nan_results import NanResults
from kernellab.checker.detectors.narrow_overflow import NarrowOverflow
from kernellab.checker.detectors.non_finite import NonFinite
from kernellab.checker.detectors.order_dependence import OrderDependence
from kernellab.checker.detectors.out_of_bounds import OutOfBounds
from kernellab.checker.detectors.race import Race
from kernellab.checker.detectors.stalled_sum import StalledSum
from kernellab.checker.detectors.truncated_store import TruncatedStore
from kernellab.checker.detectors.uninitialized_read import UninitializedRead
from kernellab.checker.detectors.unused_output import UnusedOutput
from kernellab.checker.detectors.unwritten_output import UnwrittenOutput
from kernellab.checker.detectors.wrong_result import WrongResult

DETECTORS: tuple[type[Detector], ...] = (
    OutOfBounds,
    FailedAssertion,
    UninitializedRead,
    LaneCollision,
    LostUpdate,
    Race,
    UnwrittenOutput,
    UnusedOutput,
    EndlessLoop,
    MissingOther,
    OrderDependence,
    IndexOverflow,
    BrokenHints,
    DescriptorAlignment,
    NonFinite,
    HalfOverflow,
    NarrowOverflow,
    CastOverflow,
    DivisionByZero,
    StalledSum,
    DotPrecision,
    DotCancellation,
    TruncatedStore,
    IgnoredStrides,
    WrongResult,
    NanResults,
)
"""All detectors, in the order in which they observe a run."""

WITHOUT_PROGRAMS: tuple[type[Detector], ...] = (WrongResult,)
"""The detectors that can find something in a launch of no programs."""
