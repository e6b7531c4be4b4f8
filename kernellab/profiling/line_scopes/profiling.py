"""Cycles of each line of one launch on a GPU, as a `Profile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernellab import triton_api
from kernellab.common.formatting import counted
from kernellab.compiler.targets import local_target
from kernellab.errors import NoGpu, UnsupportedOperation
from kernellab.launch.preparation import EntryPoint, Grid, PreparedLaunch, prepare
from kernellab.profiling.line_scopes.launching import (
    METHOD,
    METHOD_OF_SHORT,
    KeptArguments,
    MarkedLaunch,
    PlainLaunch,
    gpu_faults_told,
    room_for_readings,
    times_in_turns,
)
from kernellab.profiling.line_scopes.marking import (
    MarkedKernel,
    PlainKernel,
    marked_kernel,
    plain_kernel,
    within_occupancy,
)
from kernellab.profiling.line_scopes.placing import DETAILS, Detail
from kernellab.profiling.line_scopes.reporting import Measured, profile_of, who_notes
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import Perturbation
from kernellab.records.run_options import RUN_OPTION_NAMES

MOST = 1.3
"""Times the plain launch: a profile that takes longer gives way to a coarser one."""

_MANY = 256
"""Readings of a warp, where loops make it uncertain how many there will be."""


@dataclass(frozen=True)
class LineOptions:
    """The options of `kernellab.profile` for cycles by line.

    Attributes:
        detail: how finely: one of `DETAILS`; None for the finest that takes at most 1.3 times as
            long as the plain launch.
        allow_occupancy_change: whether a multiprocessor may hold another number of programs than
            without marks.
        programs: of how many, evenly spread over the grid, the clock's readings are taken.
    """

    detail: Detail | None = None
    allow_occupancy_change: bool = False
    programs: int = 64


PROFILE = EntryPoint(
    "profile",
    refuses=dict.fromkeys(
        RUN_OPTION_NAMES, "the launch is profiled on the GPU, and only the interpreter takes it."
    ),
    on_gpu="bound",
)


def profile_on_gpu(
    kernel: Any,
    grid: Grid,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    options: LineOptions,
) -> Profile:
    """Launch a kernel with marks between its operations, and sum what its warps noted by line.

    The tensors are left as one plain launch leaves them.

    Raises:
        ArgumentError, OptionError, GridError, CompileError: as for a launch.
        UnsupportedOperation: the kernel cannot have marks, or not without a change of occupancy.
        ProfileError: the GPU does not have enough memory.
        GpuFault: the launch failed there.
        NoGpu: there is none.
    """
    target = local_target()
    if target is None:
        raise NoGpu("cycles by line are measured on a GPU, and there is none here")
    prepared = prepare(kernel, grid, args, dict(keywords), target, PROFILE)
    name = prepared.kernel.__name__
    with gpu_faults_told(name):
        return _Profiled(prepared, options).profile()


_Way = tuple[Detail, tuple[int, ...]]
"""One way to put marks, and the warps that note; () for all."""


class _Profiled:
    """One launch, profiled."""

    def __init__(self, prepared: PreparedLaunch, options: LineOptions) -> None:
        self._prepared = prepared
        self._options = options
        self._grid = prepared.sizes()
        call = prepared.call
        self._values = [call.values[name] for name in prepared.kernel.arg_names]
        self._plain: PlainKernel = plain_kernel(prepared.kernel, call, prepared.target)
        compiled = triton_api.compile_natively(
            prepared.kernel, call.specialization, prepared.target, call.options, for_launch=True
        )
        self._launch = PlainLaunch(compiled, self._grid, self._values)
        self._notes: list[str] = []

    def profile(self) -> Profile:
        """What is measured; the tensors are as after one plain launch."""
        arguments = KeptArguments(self._prepared.call.values)
        self._launch()
        results = arguments.contents()
        self._launch()
        depends = not arguments.hold(results)
        arguments.restore()
        self._launch()
        repeats = arguments.hold(results)
        if not repeats:
            self._notes.append(
                "the plain launch gives other results each time (the order of atomics, say), so "
                "what the marked one gave is not compared"
            )
        try:
            measured = self._best(arguments, results if repeats else None, depends)
        finally:
            arguments.restore(results)
        return profile_of(measured, self._notes)

    def _best(
        self, arguments: KeptArguments, results: Sequence[torch.Tensor] | None, depends: bool
    ) -> Measured:
        """The finest way that leaves the launch nearly as fast as it was; else the fastest."""
        tried: list[Measured] = []
        problems: list[UnsupportedOperation] = []
        for way in self._ways():
            try:
                tried.append(self._measured(way, arguments, results, depends))
            except UnsupportedOperation as error:
                problems.append(error)
                continue
            if tried[-1].perturbation.ratio <= MOST:
                break
        if not tried:
            raise problems[0]
        best = min(tried, key=lambda launch: max(launch.perturbation.ratio, MOST))
        if best is not tried[0]:
            self._notes.append(
                f"{_way(tried[0])} took {tried[0].perturbation.ratio:.2f} times the plain launch: "
                f"these are {_way(best)}"
            )
        self._notes += dict.fromkeys(error.problem for error in problems)
        return best

    def _ways(self) -> Iterator[_Way]:
        """From the finest: of all warps, then of one."""
        requested = self._options.detail
        one_warp = self._plain.warps == 1
        for detail in DETAILS if requested is None else (requested,):
            yield detail, ()
            if not one_warp:
                yield detail, (0,)

    def _measured(
        self,
        way: _Way,
        arguments: KeptArguments,
        results: Sequence[torch.Tensor] | None,
        depends: bool,
    ) -> Measured:
        """The launch with marks of one way: its readings, and how much longer it took."""
        detail, _ = way
        launch = self._marked_launch(way, arguments)
        readings = launch.readings(self._options.programs)
        if results is not None and not arguments.hold(results):
            raise UnsupportedOperation(
                f"marks at {detail} change what {self._prepared.kernel.__name__!r} computes"
            )
        plain_us, marked_us = times_in_turns(self._launch, launch, arguments, depends)
        before, after = self._plain.compilation.resources, launch.marked.resources
        perturbation = Perturbation(
            plain_us,
            marked_us,
            METHOD if depends else METHOD_OF_SHORT,
            before.shared_bytes,
            after.shared_bytes,
            before.registers,
            after.registers,
            int(readings.kept.sum()),
            readings.lost,
        )
        return Measured(launch.marked, self._grid, readings, perturbation)

    def _marked_launch(self, way: _Way, arguments: KeptArguments) -> MarkedLaunch:
        """The launch, with memory for all readings of its warps if there is enough."""
        x, y, z = self._grid
        _, noting = way
        warps = len(noting) or self._plain.warps
        fitting_memory = room_for_readings(x * y * z, warps)
        marked = self._marked(way, max(2, min(_MANY, fitting_memory)))
        launch = MarkedLaunch(marked, self._grid, self._values)
        arguments.restore()
        launch()
        fitting = 1 << max(launch.most_readings() - 1, 1).bit_length()
        while fitting > fitting_memory and fitting > 2:
            fitting //= 2
        if fitting > marked.memory.readings:
            launch = MarkedLaunch(self._marked(way, fitting), self._grid, self._values)
            arguments.restore()
            launch()
        return launch

    def _marked(self, way: _Way, readings: int) -> MarkedKernel:
        """The kernel with marks, as many programs at once as without.

        Raises:
            UnsupportedOperation: there are not.
        """
        detail, noting = way
        marked = marked_kernel(self._plain, detail, readings, noting)
        if self._options.allow_occupancy_change:
            return marked
        marked = within_occupancy(marked)
        at_once = marked.programs_at_once()
        if at_once is not None and at_once[1] != at_once[0]:
            raise UnsupportedOperation(
                f"with marks at {detail} a multiprocessor holds "
                f"{counted(at_once[1], 'program')} of {self._prepared.kernel.__name__!r}, and "
                f"without {at_once[0]}: {', '.join(marked.changes)}",
                advice=(
                    "allow_occupancy_change=True profiles it anyway; the times are then for a "
                    "different number of concurrent programs."
                ),
            )
        return marked


def _way(measured: Measured) -> str:
    """ "marks at operations of all warps"."""
    return f"marks at {measured.marked.detail} of {who_notes(measured.marked)}"
