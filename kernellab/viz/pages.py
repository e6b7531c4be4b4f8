"""Pages of several records: compilations with their stages, and the grades of a class."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from kernellab.common.text import counted
from kernellab.compiler.compare import size_of
from kernellab.compiler.compilations import Compilation
from kernellab.records import Stage
from kernellab.viz.exercises import stuck_on
from kernellab.viz.explorer import compilation_view
from kernellab.viz.kernels import format_matrix_instructions, kernel_card
from kernellab.viz.kit.page import Html, Section, escape, join, page, page_of_views, paragraph
from kernellab.viz.kit.view import Card, Table
from kernellab.workshop.grader import Grade, Grades


def stage_details(stage: Stage) -> Html:
    """One stage of a compilation, folded away; a binary one says its size only."""
    size = size_of(stage)
    content = stage.content
    text = "" if isinstance(content, bytes) else f"<pre>{escape(content)}</pre>"
    return Html(
        f'<details><summary><code>{escape(stage.name)}</code><span class="soft">{size}'
        f"{'' if text else ', binary'}</span></summary>{text}</details>"
    )


def resources_card(compilations: Sequence[Compilation]) -> Card:
    """Kernels and targets side by side: registers, spills, shared memory, matrix instructions."""
    rows = [
        (
            compilation.target.name,
            str(compilation.options["num_warps"]),
            str(compilation.resources.registers),
            f"{compilation.resources.spills:,}",
            f"{compilation.resources.shared_bytes:,}",
            format_matrix_instructions(compilation),
        )
        for compilation in compilations
    ]
    columns = (
        "target", "warps", "registers", "spills, bytes", "shared, bytes", "matrix instructions",
    )  # fmt: skip
    table = Table("", columns, rows, numbers=range(1, 5), is_wide=True)
    return Card(compilations[0].kernel, "what one program needs", [table])


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
    return page_of_views(title, sections, join([lead, Html(resources_card(compilations).html())]))


_STYLE = Html("""<style>
.folders { display: grid; grid-template-columns: fit-content(16em) 5.5em 1fr; }
.folders { gap: .3rem .8rem; align-items: center; margin-top: 1rem; }
.bar { background: var(--line); height: .6rem; border-radius: 3px; overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--good); }
.mistake { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .9rem; margin: .9rem 0; }
.mistake p { margin: .15rem 0; }
.mistake pre { padding: .35rem .6rem; margin: .3rem 0; white-space: pre-wrap; }
h3 { font-size: 1rem; margin: 1.4rem 0 .2rem; } h3 code { font-size: inherit; }
body { overflow-wrap: anywhere; }
@media (max-width: 600px) { body { padding: 1rem .8rem 2rem; } }
</style>""")


def grades_page(grades: Grades) -> str:
    """The page: folders, mistakes by exercise with the students' lines, what is done by folder."""
    last = [PurePath(folder).name for folder in grades.folders]
    names = {
        folder: name if name and last.count(name) == 1 else folder
        for folder, name in zip(grades.folders, last)
    }
    problems = [Html(f'<p class="bad">{escape(problem)}</p>') for problem in grades.problems]
    return page(
        f"Workshop: {counted(len(grades.folders), 'folder')}",
        join([_STYLE, *problems]),
        [
            _overview(grades, names),
            Html("<h2>Mistakes</h2>"),
            *_mistakes(grades, names),
            Html("<h2>Folders</h2>"),
            *(_folder(grades, folder, name) for folder, name in names.items()),
        ],
    )


def _overview(grades: Grades, names: dict[str, str]) -> Html:
    rows = []
    for folder, name in names.items():
        own = [grade for grade in grades if grade.folder == folder]
        done = sum(grade.is_done for grade in own)
        rows.append(
            Html(
                f'<a href="#{escape(folder)}">{escape(name)}</a><span>{done} of {len(own)}</span>'
                f'<span class="bar"><i style="width:{100 * done / len(own):.0f}%"></i></span>'
            )
        )
    return Html(f'<div class="folders">{join(rows)}</div>')


def _mistakes(grades: Grades, names: dict[str, str]) -> Iterator[Html]:
    """The exercises that most folders tried and did not solve first, equal mistakes together."""
    for exercise, those in stuck_on(grades):
        yield Html(
            f"<h3><code>{escape(exercise)}</code> "
            f'<span class="soft">{counted(len(those), "folder")}</span></h3>'
        )
        groups: dict[tuple[str, str], list[Grade]] = {}
        for grade in those:
            groups.setdefault((grade.kind, _without_numbers(grade.what)), []).append(grade)
        for group in sorted(groups.values(), key=len, reverse=True):
            yield _mistake(group, names)


def _without_numbers(words: str) -> str:
    """A reason without its values, which differ from draw to draw."""
    return re.sub(r"-?\b\d[\d.,]*(?:e[+-]?\d+)?\b", "#", words)


def _mistake(group: Sequence[Grade], names: dict[str, str]) -> Html:
    """One mistake: its reason, and the line of each student who made it."""
    who: dict[str, list[str]] = {}
    for grade in group:
        place = names[grade.folder]
        if grade.line is not None:
            place += f", line {grade.line}"
        who.setdefault(grade.code, []).append(place)
    lines = join(
        Html(
            f'<p class="soft">{escape("; ".join(places))}</p>'
            + (f"<pre>{escape(code)}</pre>" if code else "")
        )
        for code, places in who.items()
    )
    first = group[0]
    return Html(
        f'<div class="mistake"><p><b>{escape(first.kind)}</b>: {escape(first.what)}</p>'
        f"{lines}</div>"
    )


def _folder(grades: Grades, folder: str, name: str) -> Html:
    """The progress of a folder, by chapter, and the exercises that it has not tried."""
    own = [grade for grade in grades if grade.folder == folder]
    chapters = []
    for chapter in dict.fromkeys(grade.chapter for grade in own):
        those = [grade for grade in own if grade.chapter == chapter]
        done = [grade.exercise for grade in those if grade.is_done]
        tried = [grade.exercise for grade in those if grade.file and not grade.is_done]
        left = f", not done: {', '.join(tried)}" if tried else ""
        chapters.append(f"{chapter}: {len(done)} of {len(those)} done{left}")
    lines = join(Html(f"<p>{escape(line)}</p>") for line in chapters)
    return Html(f'<h3 id="{escape(folder)}">{escape(name)}</h3>{lines}')
