"""Runs the demo's cases; reports them as a page with an IR explorer and stepper each."""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure

from kernellab.cli.demo import Case, OutputCheck, check_outputs, small_cases
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile as compile_kernel
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.launch.results import Tolerances
from kernellab.launch.tile_kernel import run
from kernellab.records import Run
from kernellab.tracing.launches import trace
from kernellab.tracing.records import Trace
from kernellab.viz.explorer import compilation_view
from kernellab.viz.kernels import format_matrix_instructions, kernel_card
from kernellab.viz.kit import page
from kernellab.viz.kit.figure import theme
from kernellab.viz.kit.page import Html, Section, page_of_views
from kernellab.viz.kit.palette import BLUE, INK, ORANGE
from kernellab.viz.kit.view import Card, Table
from kernellab.viz.pages import stage_details
from kernellab.viz.stepper import Stepper

REPEATS = 5


@dataclass(frozen=True)
class Result:
    """The demo's results for one case."""

    case: Case
    checks: Sequence[OutputCheck]
    remark: str
    """A fact about the outputs in words, "" if there is none."""
    run: Run
    """The first run, whose outputs were checked."""
    first_seconds: float
    """Wall time of the first run, in which the kernel becomes NumPy code."""
    seconds: float
    """Median wall time of the runs after it."""
    torch_seconds: float
    """Median wall time of torch doing the same job, one thread."""
    compilation: Compilation

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance."""
        return all(check.passed for check in self.checks)

    @property
    def max_error(self) -> float:
        """The largest absolute error of any output."""
        return max(check.max_error for check in self.checks)


def run_case(case: Case, repeats: int = REPEATS) -> Result:
    """Run, check, time and compile one case."""
    arguments = case.make_arguments()
    with one_thread():
        started = time.perf_counter()
        first = _launch(case, arguments)
        first_seconds = time.perf_counter() - started
        checks = check_outputs(case, arguments)
        remark = case.remark(arguments)
        case.torch_twin(arguments)
        seconds = median_seconds(lambda: _launch(case, arguments), repeats)
        torch_seconds = median_seconds(lambda: case.torch_twin(arguments), repeats)
    compilation = compile_kernel(
        case.kernel, target=DEFAULT_TARGET, **arguments, **case.constants, **case.options
    )
    assert isinstance(compilation, Compilation)  # one target was asked for
    times = first_seconds, seconds, torch_seconds
    return Result(case, checks, remark, first, *times, compilation)


def small_traces() -> Iterator[tuple[Case, Trace]]:
    """Each kernel's first program on a small input, step by step."""
    for case in small_cases():
        arguments = case.make_arguments()
        for name in case.tolerance:
            arguments[name].zero_()  # whatever was in the memory is nothing to look at
        yield case, trace(case.kernel, case.grid, **arguments, **case.constants, **case.options)


def _launch(case: Case, arguments: dict[str, Any]) -> Run:
    return run(case.kernel, case.grid, **arguments, **case.constants, **case.options)


def median_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median wall time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread inside: times are then comparable with the interpreter's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def results_card(results: Sequence[Result]) -> Card:
    """The demo's table: one row a case."""
    rows = [
        (
            result.case.name,
            result.case.size,
            "pass" if result.passed else "FAIL",
            page.format_number(result.max_error),
            page.format_number(result.seconds * 1e3),
            page.format_number(result.torch_seconds * 1e3),
            str(result.compilation.resources.registers),
            f"{result.compilation.resources.shared_bytes:,}",
            format_matrix_instructions(result.compilation),
        )
        for result in results
    ]
    columns = (
        "kernel", "size", "check", "max error", "interpreter, ms", "torch, ms", "registers",
        "shared, bytes", "matrix instructions",
    )  # fmt: skip
    right = sum(result.passed for result in results)
    return Card(
        "Results",
        f"{right} of {len(results)} kernels gave the results of torch",
        [Table("", columns, rows, numbers=range(3, 8), is_wide=True)],
        tone="pass" if right == len(results) else "fail",
    )


COLORS = {"interpreter": BLUE, "torch, one thread": ORANGE}


def demo_report(results: Sequence[Result]) -> str:
    """The whole page: the table, the times as a figure, then each kernel to look into."""
    lead = page.paragraph(
        "Each kernel ran on the CPU, in KernelLab's interpreter, which executed the IR that "
        f"Triton's own compiler made for {results[0].run.target}. The same compiler made machine "
        "code of it. No GPU took part."
    )
    head = [lead, Html(results_card(results).html())]
    sections = [Section("", None, [times_figure(results)])]
    traces = {case.kernel: (case, trace) for case, trace in small_traces()}
    for result in results:
        sections += _case_sections(result, traces.pop(result.case.kernel, None))
    return page_of_views("KernelLab demo", sections, page.join(head))


def _case_sections(result: Result, stepped: tuple[Case, Trace] | None) -> list[Section]:
    case, compilation = result.case, result.compilation
    title = f"{case.name}, {case.size}"
    card = Html(kernel_card(compilation, run=result.run).html())
    if stepped is None:
        stages = (stage_details(stage) for stage in compilation.stages.made())
        return [Section(title, None, (*_outcome(result), card, *stages))]
    small, trace = stepped
    words = page.paragraph(
        f"Its first program step by step, on {small.size}: arrow keys go forwards and backwards."
    )
    return [
        Section(title, compilation_view(compilation), (*_outcome(result), card)),
        Section("", Stepper(trace, len(trace) // 2), (words,)),
    ]


def _outcome(result: Result) -> list[Html]:
    case = result.case
    errors = "; ".join(
        f"{check.parameter}: {check.max_error:.2g} at most, {_allowed(check.tolerance)}"
        for check in result.checks
    )
    lines = [
        f"{'Passed' if result.passed else 'FAILED'}. Error of {errors} ({case.why_tolerance}).",
        f"First run {_milliseconds(result.first_seconds)}, in which the kernel becomes NumPy "
        f"code; then {_milliseconds(result.seconds)}. Torch on one thread: "
        f"{_milliseconds(result.torch_seconds)}.",
    ]
    if result.remark:
        lines.append(f"It {result.remark}.")
    return [page.paragraph(line) for line in lines]


def _milliseconds(seconds: float) -> str:
    return f"{page.format_number(seconds * 1e3)} ms"


def _allowed(tolerance: Tolerances) -> str:
    parts = [f"{tolerance.atol:.2g}"] if tolerance.atol else []
    if tolerance.rtol:
        parts.append(f"{tolerance.rtol:.2g} of the value")
    return f"{' + '.join(parts)} allowed" if parts else "none allowed"


def times_figure(results: Sequence[Result]) -> Html:
    """Bars of the interpreter's and torch's times, on a log axis, as SVG in page colors."""
    times = {
        "interpreter": [result.seconds * 1e3 for result in results],
        "torch, one thread": [result.torch_seconds * 1e3 for result in results],
    }
    with theme():
        figure = Figure(figsize=(6, 0.9 + 0.5 * len(results)), layout="constrained")
        axes = figure.subplots()
        height = 0.38
        for index, (label, values) in enumerate(times.items()):
            places = [row + (index - 0.5) * height for row in range(len(results))]
            bars = axes.barh(places, values, height, label=label, color=COLORS[label])
            axes.bar_label(bars, fmt=page.format_number, padding=3, fontsize=8)
        axes.set_yticks(range(len(results)), [result.case.name for result in results])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel("milliseconds")
        axes.margins(x=0.08)
        axes.xaxis.set_major_formatter(lambda value, _position: f"{value:g}")
        figure.legend(loc="outside upper center", ncols=2)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    drawing = file.getvalue()
    # On a page of ours the ink is the page's own.
    drawing = drawing[drawing.index("<svg") :].replace(INK, "currentColor")
    caption = "Wall time on this machine, one thread, median of repeated runs."
    return Html(f"<figure>{drawing}<figcaption>{page.escape(caption)}</figcaption></figure>")
