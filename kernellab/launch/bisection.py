"""`kernellab.bisect`: which pass of the compiler changes what a kernel computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from kernellab import triton_api
from kernellab.common.argument_checks import check_tolerance
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.compiler.passes import steering
from kernellab.compiler.pipeline import record_passes
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import KernelFault, SourcePosition, UnsupportedOperation
from kernellab.interpreter.execution.launcher import launch_text
from kernellab.ir import ttg
from kernellab.ir.locations import locate
from kernellab.ir.reader import read_module
from kernellab.launch.argument_copies import copied, tensors_in
from kernellab.launch.differences import Contents, differences_between
from kernellab.launch.preparation import EntryPoint, Grid, apart_from_parameters, prepare
from kernellab.records import PassRun, Target
from kernellab.records.bisections import Bisection, Difference


@names_bad_arguments
def bisect(
    kernel: Any,
    grid: Grid,
    *args: Any,
    target: str | Target | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    skip: str | Sequence[str] = (),
    pipeline: Sequence[steering.Item] | None = None,
    **keywords: Any,
) -> Bisection:
    """Find the first pass after which a kernel computes something else.

    One compilation records the module after every pass of the TTIR and TTGIR stages. From the
    inliner on, the interpreter runs each that differs from the one before, in the compiler's order,
    on copies of the arguments, and compares what it leaves in every tensor with what the first of
    them leaves. The arguments themselves stay as they are.

    A pass may rightly compute floats in another order (a sum in other halves, a product in smaller
    steps): give a tolerance where it does. An element may be off by `atol + rtol * |expected|`. By
    default every bit counts, and NaN equals NaN.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`; of an autotuned kernel, the
            first config counts.
        target: whose pipeline, "sm_90", "gfx942", ...; None means the one that a
            launch would emulate.
        rtol, atol: how far off an element may be.
        skip, pipeline: another pipeline than the target's own, as for `kernellab.compile`.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Returns:
        The Bisection: the pass, the lines whose operations it rewrote,
        the arguments that differ and by how much.

    Raises:
        ArgumentError: arguments that do not fit, or tensors on a GPU.
        OptionError: an option that nobody takes, or one of the interpreter's.
        GridError, CompileError: as `kernellab.run`.
        UnsupportedOperation: the interpreter can run none of the modules.
        KernelFault: the first module that runs has a fault: it is the kernel's own.
    """
    given = _BisectOptions(target, rtol, atol, skip, pipeline)
    own, keywords = apart_from_parameters(given, kernel, args, keywords)
    check_tolerance("rtol", own.rtol)
    check_tolerance("atol", own.atol)
    rtol, atol = own.rtol or 0.0, own.atol or 0.0
    launch = prepare(kernel, grid, args, keywords, own.target, _BISECT)
    plain, call, chosen = launch.kernel, launch.call, launch.target
    runs = _Snapshots(plain, launch.sizes(), call, chosen)
    expected: Contents | None = None
    first, before = "", ""
    with ProgressBar(f"bisect {plain.__name__}", None, "modules", UNTOUCHED) as work:
        passes = record_passes(plain, call, chosen, skip=own.skip, pipeline=own.pipeline)
        modules = list(_changing(_from_inliner_on(passes)))
        work.total = len(modules)
        for one in modules:
            text = triton_api.generic_form(one.text.read(), chosen)
            failure: KernelFault | None = None
            try:
                found = runs.contents_after(one.label, text)
            except KernelFault as fault:
                if expected is None:
                    raise
                failure, found = fault, {}
            work.advance()
            if found is None:
                continue
            if expected is None:
                first, expected = one.label, found
            differences = () if failure else tuple(differences_between(expected, found, rtol, atol))
            if failure is not None or differences:
                lines = _rewritten_lines(before, text, plain)
                return runs.result(first, one.label, lines, differences, failure)
            before = text
            work.kept = f"Up to {one.label} no pass changes a result. {UNTOUCHED}"
    if expected is None:
        raise UnsupportedOperation(
            f"the interpreter can run no module of {plain.__name__!r}: {runs.not_run}",
            position=triton_api.definition_of(plain),
        )
    return runs.result(first)


_BISECT = EntryPoint(
    "bisect",
    {
        "stage": "bisect runs the module after every pass",
        "order": (why := "bisect runs the programs in the order of their ids"),
        "seed": why,
        "bounds": "bisect compares what accesses leave in the storage",
    },
)


@dataclass(frozen=True)
class _BisectOptions:
    """What `bisect` itself is told; see there."""

    target: Any = None
    rtol: Any = 0.0
    atol: Any = 0.0
    skip: Any = ()
    pipeline: Any = None


def _from_inliner_on(passes: Sequence[PassRun]) -> Sequence[PassRun]:
    """The passes from the first inliner on, all where there is none:
    a reduction by a called function is added up in another order.
    """
    numbers = [number for number, one in enumerate(passes) if one.name == "inliner"]
    return passes[numbers[0] :] if numbers else passes


def _changing(passes: Sequence[PassRun]) -> Iterator[PassRun]:
    """The passes whose module is not that of the one before."""
    digest = ""
    for one in passes:
        if one.text.digest != digest:
            digest = one.text.digest
            yield one


class _Snapshots:
    """Runs of one launch's modules, and what became of them.

    Attributes:
        not_run: label -> why the interpreter cannot run the module.
    """

    def __init__(self, kernel: Any, grid: Grid, call: BoundCall, target: Target) -> None:
        self._kernel = kernel
        self._grid = grid
        self._call = call
        self._target = target
        self._count = 0
        self.not_run: dict[str, str] = {}

    def contents_after(self, label: str, text: str) -> Contents | None:
        """What the module leaves in copies of the tensors;
        None where the interpreter does not know one of its operations.
        """
        values = copied(self._call.values)
        try:
            launch_text(self._kernel, self._grid, replace(self._call, values=values), text)
        except UnsupportedOperation as unknown:
            self.not_run[label] = unknown.problem
            return None
        self._count += 1
        return dict(tensors_in(values))

    def result(
        self,
        first: str,
        label: str | None = None,
        lines: tuple[SourcePosition, ...] = (),
        differences: tuple[Difference, ...] = (),
        failure: KernelFault | None = None,
    ) -> Bisection:
        """What was found."""
        return Bisection(
            self._kernel.__name__,
            str(self._target),
            label,
            lines,
            differences,
            "" if failure is None else failure.problem,
            first,
            self._count,
            dict(self.not_run),
        )


# Modules


def _rewritten_lines(before: str, after: str, kernel: Any) -> tuple[SourcePosition, ...]:
    """The kernel's lines that have other operations after a pass than before it;
    layouts do not count.
    """
    had = Counter(_operations(read_module(before), kernel))
    has = Counter(_operations(read_module(after), kernel))
    changed = {position for _, position in (had - has) + (has - had)}
    return tuple(sorted(changed, key=lambda position: (position.file, position.line)))


def _operations(module: ModuleOp, kernel: Any) -> Iterator[tuple[str, SourcePosition]]:
    """(what an operation does, the kernel's or a helper's line that it stands on)
    for each operation that has one.
    """
    for op in module.walk():
        if isinstance(op, ttg.ConvertLayoutOp):
            continue
        for frame in locate(op.location).frames:
            if triton_api.position_in_kernel(kernel, frame.file, frame.line, 0):
                kept = {name: str(value) for name, value in op.properties.items()}
                yield f"{op.name} {kept}", SourcePosition(frame.file, frame.line)
                break
