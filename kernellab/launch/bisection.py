"""`kernellab.bisect`: which pass of the compiler changes what a kernel computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from kernellab import triton_api
from kernellab.common.arguments import check_tolerance
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.compiler import passes
from kernellab.compiler.pipeline import record_passes
from kernellab.errors import KernelFault, SourcePosition, UnsupportedOperation
from kernellab.interpreter.execution.grid import grid_to_run
from kernellab.interpreter.execution.launcher import launch_text
from kernellab.interpreter.execution.program import program_code
from kernellab.ir import ttg
from kernellab.ir.operations import locate
from kernellab.ir.syntax import read_module
from kernellab.launch.argument_copies import copied, tensors_in
from kernellab.launch.preparation import EntryPoint, prepare_bound, refused, takes_launch
from kernellab.launch.results import Contents, Tolerances, compare, rounding_of
from kernellab.records import BoundLaunch, PassRun, Target
from kernellab.records.display import PrintsAsCard
from kernellab.records.launches import Difference


@dataclass(frozen=True)
class Bisection(PrintsAsCard):
    """The first pass after which a kernel computes something else,
    as `kernellab.bisect` finds it.
    """

    kernel: str
    target: str
    label: str | None
    """The pass, "ttgir.pipeline"; None if no pass changes a result."""
    lines: tuple[SourcePosition, ...]
    """The lines whose operations the pass rewrote."""
    differences: tuple[Difference, ...]
    """The arguments that differ."""
    failure: str
    """The fault that the module after the pass has, "" if it runs to its end."""
    compared_with: str
    """The pass whose module gave what is expected: the first that the interpreter can run."""
    modules: int
    """How many modules ran, each another than the one before."""
    not_run: Mapping[str, str]
    """Pass -> why the interpreter cannot run the module after it."""
    notes: tuple[str, ...] = ()
    """Sentences to know: that the modules ran on copies of tensors on a GPU."""

    @property
    def position(self) -> SourcePosition | None:
        """The first of the rewritten lines; None if there is none."""
        return self.lines[0] if self.lines else None


@takes_launch
def bisect(
    launch: BoundLaunch,
    *,
    target: str | Target | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    skip: str | Sequence[str] = (),
    pipeline: Sequence[passes.Item] | None = None,
) -> Bisection:
    """Find the first compiler pass that changes a kernel's results.

    One compilation records the module after every pass of the TTIR and TTGIR stages. From the
    inliner on, the interpreter runs each module that differs from the one before, on copies of the
    arguments, and compares the contents of all tensors with those after the first module. The
    arguments do not change. Tensors on a GPU, up to 1 GiB, are copied to the CPU, and a note of the
    result says so.

    A correct pass may compute floats in another order, such as a sum in other parts: an element may
    be off by what rounding explains (docs/tolerances.md), or by `atol + rtol * |expected|` if one
    of both is given. With `rtol=0` every bit counts. NaN equals NaN. `kernellab.validate` needs no
    tolerance.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch; of an
            autotuned kernel, the first config counts.
        target: the GPU whose pipeline runs, such as "sm_90" or "gfx942"; None for the one that a
            launch would emulate.
        rtol, atol: how far an element may differ.
        skip, pipeline: changes of the target's pipeline, as for `kernellab.compile`.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Returns:
        The Bisection: the pass, the lines whose operations it rewrote, and the arguments that
        differ, with the difference.

    Raises:
        ArgumentError: the arguments do not fit, or more than 1 GiB of them are on a GPU.
        OptionError: an option is unknown, or is one of the interpreter's.
        GridError, CompileError: as `kernellab.run`.
        UnsupportedOperation: the interpreter can run none of the modules.
        KernelFault: the first module that runs has a fault, which is the kernel's own.
    """
    given = check_tolerance("rtol", rtol), check_tolerance("atol", atol)
    prepared = prepare_bound(launch, target, _BISECT)
    plain, call, chosen = prepared.kernel, prepared.call, prepared.target
    allowed = Tolerances(*given, parts=lambda: rounding_of(program_code(plain, call, chosen)))
    grid = grid_to_run(prepared.grid, call.values)
    expected: Contents | None = None
    modules_run, not_run = 0, dict[str, str]()
    first, before = "", ""
    with ProgressBar(f"bisect {plain.__name__}", None, "modules", UNTOUCHED) as work:
        passes = record_passes(plain, call, chosen, skip=skip, pipeline=pipeline)
        modules = list(changing(from_inliner_on(passes)))
        work.total = len(modules)
        for module in modules:
            text = triton_api.generic_form(module.text.read(), chosen)
            values, failure = copied(call.values), ""
            try:
                launch_text(plain, grid, replace(call, values=values), text)
                modules_run += 1
            except UnsupportedOperation as unknown:
                not_run[module.label] = unknown.problem
            except KernelFault as fault:
                if expected is None:
                    raise
                failure = fault.problem
            work.advance()
            if module.label in not_run:
                continue
            contents = dict(tensors_in(values))
            if expected is None:
                first, expected = module.label, contents
            differences = () if failure else tuple(compare(contents, expected, allowed))
            if failure or differences:
                lines = rewritten_lines(before, text, plain)
                return Bisection(
                    plain.__name__, str(chosen), module.label, lines, differences, failure, first,
                    modules_run, not_run, prepared.notes,
                )  # fmt: skip
            before = text
            work.kept = f"Up to {module.label} no pass changes a result. {UNTOUCHED}"
    if expected is None:
        raise UnsupportedOperation(
            f"The interpreter cannot run any module of {plain.__name__!r}: {not_run}.",
            position=triton_api.definition_of(plain),
        )
    return Bisection(
        plain.__name__, str(chosen), None, (), (), "", first, modules_run, not_run, prepared.notes
    )


_BISECT = EntryPoint("bisect", refused("bisect runs the module after every pass"))


def from_inliner_on(passes: Sequence[PassRun]) -> Sequence[PassRun]:
    """Return the passes from the first inliner on, or all if there is none. Before the inliner, a
    reduction by a called function has another order.
    """
    numbers = [number for number, pass_ in enumerate(passes) if pass_.name == "inliner"]
    return passes[numbers[0] :] if numbers else passes


def changing(passes: Sequence[PassRun]) -> Iterator[PassRun]:
    digest = ""
    for pass_ in passes:
        if pass_.text.digest != digest:
            digest = pass_.text.digest
            yield pass_


# Modules


def rewritten_lines(before: str, after: str, kernel: Any) -> tuple[SourcePosition, ...]:
    """Return the kernel's lines whose operations a pass changed, apart from layouts."""
    had = Counter(_operations(read_module(before), kernel))
    has = Counter(_operations(read_module(after), kernel))
    changed = {position for _, position in (had - has) + (has - had)}
    return tuple(sorted(changed, key=lambda position: (position.file, position.line)))


def _operations(module: ModuleOp, kernel: Any) -> Iterator[tuple[str, SourcePosition]]:
    """Yield (operation with its properties, line in the source) of each operation with a line."""
    for op in module.walk():
        if isinstance(op, ttg.ConvertLayoutOp):
            continue
        for frame in locate(op.location).frames:
            if triton_api.position_in_kernel(kernel, frame.file, frame.line, 0):
                kept = {name: str(value) for name, value in op.properties.items()}
                yield f"{op.name} {kept}", SourcePosition(frame.file, frame.line)
                break
