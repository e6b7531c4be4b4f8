"""Write `js/test/source_map.json`: a source map, questions, and Python's answers,
which the TypeScript has to give too.

python -m tests.viz.source_map_fixture
"""

import json
from typing import Any

from kernellab.compiler.source_map import with_passes
from kernellab.records import SourceMap
from tests.support.compiled import of_corpus
from tests.support.source_files import ROOT

FILE = ROOT / "js/test/source_map.json"

PASSES = ("ttgir.coalesce", "llir.cse")
"""One whose locations name the kernel, one whose locations name lines of TTGIR."""


_MOST_LINES = 40


def made_map() -> SourceMap:
    """The map of a kernel with inlined helpers, and of two passes; its file has a fixed name."""
    compilation = of_corpus("softmax", "sm_90")
    modules = {run.label: run.text.read() for run in compilation.passes if run.label in PASSES}
    found = with_passes(compilation.source_map, modules)
    names = {name: name.rsplit("/", 1)[-1] for name in found.files}
    assert len(set(names.values())) == len(names)
    return SourceMap(
        names[found.file],
        tuple(names[name] for name in found.files),
        found.chains,
        found.origins,
        found.links,
    )


def answers(source_map: SourceMap) -> dict[str, dict[str, list[int]]]:
    """ "from to" -> line -> the lines there, for each pair of texts; of long texts, some lines."""
    found: dict[str, dict[str, list[int]]] = {}
    for start in source_map.stages:
        for end in source_map.stages:
            if start == end:
                continue
            lines = {
                str(line): list(source_map.lines(start, end, line))
                for line in lines_of(source_map, start)
            }
            found[f"{start} {end}"] = {line: there for line, there in lines.items() if there}
    return found


def lines_of(source_map: SourceMap, stage: str) -> list[int]:
    if stage == "source":
        return sorted({frame[1] for chain in source_map.chains for frame in chain if frame[0] == 0})
    tables: list[Any] = [
        source_map.origins.get(stage, ()),
        *(lines for pair, lines in source_map.links.items() if pair[1] == stage),
    ]
    longest = max(len(table) for table in tables)
    return list(range(1, longest + 1, max(1, longest // _MOST_LINES)))


if __name__ == "__main__":
    made = made_map()
    FILE.write_text(
        json.dumps({"map": made.to_json(), "answers": answers(made)}, separators=(",", ":")) + "\n"
    )
    print(FILE, FILE.stat().st_size)
