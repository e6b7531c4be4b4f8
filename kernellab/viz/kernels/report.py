"""Compilations on a page: what each takes, its stages, its explorer."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.common.pandas_import import pandas
from kernellab.compiler.compare import size_of
from kernellab.records import Compilation, Stage
from kernellab.viz.explorer.view import compilation_view
from kernellab.viz.kernels.card import format_matrix_instructions, kernel_card
from kernellab.viz.kit.page import Section, page_of_views
from kernellab.viz.kit.report import Html, escape, join, paragraph, table


def stage_details(stage: Stage) -> Html:
    """One stage of a compilation, folded away; a binary one says its size only."""
    size = size_of(stage)
    if isinstance(stage.content, bytes):
        return Html(
            f'<details><summary><code>{escape(stage.name)}</code><span class="soft">{size}, '
            "binary</span></summary>"
            f"<pre>{escape(_hexdump(stage.content))}</pre></details>"
        )
    return Html(
        f"<details><summary><code>{escape(stage.name)}</code>"
        f'<span class="soft">{size}</span></summary>'
        f"<pre>{escape(stage.content)}</pre></details>"
    )


def _hexdump(content: bytes, shown: int = 256) -> str:
    """The first bytes of a binary, sixteen a line."""
    lines = []
    for start in range(0, min(len(content), shown), 16):
        row = content[start : start + 16]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {readable}")
    if len(content) > shown:
        lines.append(f"... {len(content) - shown:,} more bytes")
    return "\n".join(lines)


def resources_table(compilations: Sequence[Compilation]) -> pandas.DataFrame:
    """Kernels and targets side by side: registers, spills, shared memory, matrix instructions."""
    rows = []
    for compilation in compilations:
        resources = compilation.resources
        rows.append(
            {
                "kernel": compilation.kernel,
                "target": compilation.target.name,
                "warps": compilation.options["num_warps"],
                "registers": resources.registers,
                "spills, bytes": resources.spills,
                "shared, bytes": resources.shared_bytes,
                "matrix instructions": format_matrix_instructions(compilation),
            }
        )
    return pandas.DataFrame(rows)


def compilation_report(compilations: Sequence[Compilation]) -> str:
    """A page for one kernel's compilations, one a target: what each takes, and its IR explorer."""
    lead = paragraph(
        "Each stage is what Triton's own compiler made; the numbers are read from the binary."
    )
    sections = [
        Section(
            f"{compilation.kernel} for {compilation.target}",
            compilation_view(compilation),
            (Html(kernel_card(compilation).html()),),
        )
        for compilation in compilations
    ]
    title = f"{compilations[0].kernel}, compiled"
    return page_of_views(title, sections, join([lead, table(resources_table(compilations))]))
