"""The demo as one HTML page: of each kernel an IR explorer and a stepper, alive."""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.figure import Figure

from kernellab.cli.demo.cases import Case
from kernellab.cli.demo.runner import Result, results_table, small_traces
from kernellab.tracing.records import Trace
from kernellab.viz.explorer.view import compilation_view
from kernellab.viz.kernels.card import kernel_card
from kernellab.viz.kernels.report import stage_details
from kernellab.viz.kit import report
from kernellab.viz.kit.figure import theme
from kernellab.viz.kit.page import Section, page_of_views
from kernellab.viz.kit.palette import BLUE, INK, ORANGE
from kernellab.viz.kit.report import Html
from kernellab.viz.stepper.view import stepper_of

COLORS = {"interpreter": BLUE, "torch, one thread": ORANGE}


def demo_report(results: Sequence[Result]) -> str:
    """The whole page: the table, the times as a figure, then each kernel to look into."""
    lead = report.paragraph(
        "Each kernel ran on the CPU, in KernelLab's interpreter, which executed the IR that "
        f"Triton's own compiler made for {results[0].run.target}; the outputs were compared with "
        "torch. Then the same compiler took it to machine code. No GPU took part."
    )
    head = [lead, report.table(results_table(results)), times_figure(results)]
    sections: list[Section] = []
    traces = {case.kernel: (case, trace) for case, trace in small_traces()}
    for result in results:
        sections += _case_sections(result, traces.pop(result.case.kernel, None))
    return page_of_views("KernelLab demo", sections, report.join(head))


_STEPS_OF_STILL = 6
"""Steps that a reader without scripts sees of each kernel."""


def _case_sections(result: Result, stepped: tuple[Case, Trace] | None) -> list[Section]:
    """A case: what came out, its card, and where its kernel is new, that to look into."""
    case, compilation = result.case, result.compilation
    title = f"{case.name}, {case.size}"
    card = Html(kernel_card(compilation, run=result.run).html())
    if stepped is None:
        stages = (stage_details(stage) for stage in compilation.stages.made())
        return [Section(title, None, (*_outcome(result), card, *stages))]
    small, trace = stepped
    words = report.paragraph(
        f"Its first program step by step, on {small.size}: arrow keys go forwards and backwards."
    )
    return [
        Section(title, compilation_view(compilation), (*_outcome(result), card)),
        Section("", stepper_of(trace, len(trace) // 2, _STEPS_OF_STILL), (words,)),
    ]


def _outcome(result: Result) -> list[Html]:
    """What is to be said of a case's run."""
    case = result.case
    errors = "; ".join(
        (
            f"{check.parameter}: {check.max_error:.2g} at most, "
            f"{_allowed(check.tolerance.absolute, check.tolerance.relative)}"
        )
        for check in result.checks
    )
    lines = [
        f"{'Passed' if result.passed else 'FAILED'}. Error of {errors} ({case.why_tolerance}).",
        (
            f"First run {_milliseconds(result.first_seconds)}, in which the kernel becomes NumPy "
            f"code; then {_milliseconds(result.seconds)}. Torch on one thread: "
            f"{_milliseconds(result.torch_seconds)}."
        ),
    ]
    if result.remark:
        lines.append(f"It {result.remark}.")
    return [report.paragraph(line) for line in lines]


def _milliseconds(seconds: float) -> str:
    return f"{report.format_number(seconds * 1e3)} ms"


def _allowed(absolute: float, relative: float) -> str:
    parts = [f"{absolute:.2g}"] if absolute else []
    if relative:
        parts.append(f"{relative:.2g} of the value")
    return f"{' + '.join(parts)} allowed" if parts else "none allowed"


def times_figure(results: Sequence[Result]) -> Html:
    """Bars of the interpreter's and torch's times, on a logarithmic axis,
    as SVG in the page's colors.
    """
    times = {
        "interpreter": [result.seconds * 1e3 for result in results],
        "torch, one thread": [result.torch_seconds * 1e3 for result in results],
    }
    with theme():
        figure = Figure(figsize=(8, 0.9 + 0.5 * len(results)), layout="constrained")
        axes = figure.subplots()
        height = 0.38
        for index, (label, values) in enumerate(times.items()):
            places = [row + (index - 0.5) * height for row in range(len(results))]
            bars = axes.barh(places, values, height, label=label, color=COLORS[label])
            axes.bar_label(bars, fmt=report.format_number, padding=3, fontsize=8)
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
    return Html(f"<figure>{drawing}<figcaption>{report.escape(caption)}</figcaption></figure>")
